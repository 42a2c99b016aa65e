// What both TypeScript clients do once connected: list the tools, make the plan's calls one by one (of a tool, or what
// "level", "read", "prompt" and "subscribe" name; one with "until" is made again until these notifications have come), print one
// line of JSON that tests/real.rs judges.
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

export function readPlan() {
  return JSON.parse(readFileSync(process.argv[2], "utf8"));
}

// `client` is connected; `version` is the revision it agreed on; `callTool` makes a call with options.
export async function runPlan(client, plan, version, callTool) {
  const told = new Map();
  client.fallbackNotificationHandler = async ({ method, params }) => void told.set(method, params);
  const { tools } = await client.listTools();
  const results = [];
  for (const call of plan.calls) {
    results.push(await outcome(client, call, callTool, told));
  }
  const report = {
    version,
    server: client.getServerVersion()?.name,
    instructions: client.getInstructions(),
    tools: tools.map((tool) => tool.name),
    results,
  };
  await client.close();
  console.log(JSON.stringify(report));
}

// What a user answers who is asked something.
export const answer = async () => ({ action: "accept", content: { name: "Ada" } });

// What a model says, and where a user works, if the plan wants a client that can tell.
export const sample = async () => ({ role: "assistant", content: { type: "text", text: "crab" }, model: "fake" });
export const listRoots = async () => ({ roots: [{ uri: "file:///work" }] });
export const capabilities = (plan) => ({ elicitation: {}, ...(plan.tells ? { sampling: {}, roots: {} } : {}) });

async function outcome(client, call, callTool, told) {
  try {
    if (call.level) {
      await client.setLoggingLevel(call.level);
      return {};
    }
    if (call.subscribe) {
      await client.subscribeResource({ uri: call.subscribe });
      return {};
    }
    if (call.until) {
      return await toldOf(call.until, told, () => outcome(client, { ...call, until: undefined }, callTool));
    }
    if (call.read) {
      return { contents: (await client.readResource({ uri: call.read })).contents };
    }
    if (call.prompt) {
      return { messages: (await client.getPrompt({ name: call.prompt, arguments: call.arguments })).messages };
    }
    const steps = [];
    const options = call.watch ? { onprogress: (step) => steps.push(step) } : {};
    const request = { name: call.name, arguments: call.arguments };
    const { content, structuredContent, isError } = await callTool(request, options);
    return { content, structuredContent, isError: isError ?? false, ...(call.watch ? { steps } : {}) };
  } catch (error) {
    return { error: { code: error.code, message: error.message } };
  }
}

// Whoever listens on a stream of its own may not do so yet when the first call is made.
async function toldOf(methods, told, again) {
  told.clear();
  for (let tries = 0; tries < 60; tries++) {
    const result = await again();
    for (let wait = 0; wait < 50; wait++) {
      if (methods.every((method) => told.has(method))) {
        return { ...result, told: methods.map((method) => told.get(method) ?? null) };
      }
      await setTimeout(10);
    }
  }
  return { told: [...told.keys()] };
}
