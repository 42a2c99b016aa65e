// What both TypeScript clients do after they have connected: list the tools, make the calls of the plan one after
// another, and print a report as one line of JSON.
//
// A call names a tool and its arguments, or has one of the members "level", "read", "prompt" and "subscribe". With
// "with_progress" the report has its progress. With "wait_for" it is repeated until notifications with all of these
// methods have arrived, and the report has them. With "until" it is repeated until its result contains that text. With "unlisted" in the plan the tools are not listed. With "sampling_and_roots" in the plan the client answers requests for
// sampling and roots, too.
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

export function readPlan() {
  return JSON.parse(readFileSync(process.argv[2], "utf8"));
}

// `client` is connected; `version` is the revision that it negotiated; `callTool` calls a tool with options.
export async function runPlan(client, plan, version, callTool) {
  // The params of the last notification of each method.
  const notifications = new Map();
  // The data of all log messages.
  const messages = [];
  client.fallbackNotificationHandler = async ({ method, params }) => {
    notifications.set(method, params);
    if (method === "notifications/message") {
      messages.push(params.data);
    }
  };
  const { tools } = plan.unlisted ? { tools: [] } : await client.listTools();
  const results = [];
  for (const call of plan.calls) {
    results.push(await makeCall(client, call, callTool, notifications));
  }
  const report = {
    version,
    server: client.getServerVersion()?.name,
    instructions: client.getInstructions(),
    tools: tools.map((tool) => tool.name),
    definitions: tools,
    results,
    messages,
  };
  await client.close();
  console.log(JSON.stringify(report));
}

// The answers to requests of the server.
export const elicit = async () => ({ action: "accept", content: { name: "Ada" } });
export const sample = async () => ({ role: "assistant", content: { type: "text", text: "crab" }, model: "fake" });
export const listRoots = async () => ({ roots: [{ uri: "file:///work" }] });
export const capabilities = (plan) => ({
  elicitation: {},
  ...(plan.sampling_and_roots ? { sampling: {}, roots: {} } : {}),
});

async function makeCall(client, call, callTool, notifications) {
  try {
    if (call.level) {
      await client.setLoggingLevel(call.level);
      return {};
    }
    if (call.subscribe) {
      await client.subscribeResource({ uri: call.subscribe });
      return {};
    }
    if (call.wait_for) {
      const repeat = () => makeCall(client, { ...call, wait_for: undefined }, callTool);
      return await repeatUntilNotified(call.wait_for, notifications, repeat);
    }
    if (call.until) {
      const repeat = () => makeCall(client, { ...call, until: undefined }, callTool);
      return await repeatUntilContained(call.until, repeat);
    }
    if (call.read) {
      return { contents: (await client.readResource({ uri: call.read })).contents };
    }
    if (call.prompt) {
      return { messages: (await client.getPrompt({ name: call.prompt, arguments: call.arguments })).messages };
    }
    const progress = [];
    const options = call.with_progress ? { onprogress: (step) => progress.push(step) } : {};
    const request = { name: call.name, arguments: call.arguments };
    const { content, structuredContent, isError } = await callTool(request, options);
    const result = { content, structuredContent, isError: isError ?? false };
    return call.with_progress ? { ...result, progress } : result;
  } catch (error) {
    return { error: { code: error.code, message: error.message } };
  }
}

// A server may send notifications on a separate stream, which may not be open yet when the first call is made.
async function repeatUntilNotified(methods, notifications, repeat) {
  notifications.clear();
  for (let tries = 0; tries < 60; tries++) {
    const result = await repeat();
    for (let wait = 0; wait < 50; wait++) {
      if (methods.every((method) => notifications.has(method))) {
        return { ...result, notifications: methods.map((method) => notifications.get(method) ?? null) };
      }
      await setTimeout(10);
    }
  }
  return { notifications: [...notifications.keys()] };
}

async function repeatUntilContained(text, repeat) {
  let result;
  for (let tries = 0; tries < 600; tries++) {
    result = await repeat();
    if (JSON.stringify(result).includes(text)) {
      break;
    }
    await setTimeout(50);
  }
  return result;
}
