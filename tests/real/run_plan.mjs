// What both TypeScript clients do once connected: list the tools, make the plan's calls one by one (of a tool, or what
// "read" and "prompt" name), print one line of JSON that tests/real.rs judges.
import { readFileSync } from "node:fs";

export function readPlan() {
  return JSON.parse(readFileSync(process.argv[2], "utf8"));
}

// `client` is connected; `version` is the revision it agreed on; `callTool` makes a call with options.
export async function runPlan(client, plan, version, callTool) {
  const { tools } = await client.listTools();
  const results = [];
  for (const call of plan.calls) {
    results.push(await outcome(client, call, callTool));
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

async function outcome(client, call, callTool) {
  try {
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
