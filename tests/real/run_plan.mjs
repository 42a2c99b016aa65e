// What both TypeScript clients do once connected: list the tools, make the plan's calls one by one, print one line of
// JSON that tests/real.rs judges.
import { readFileSync } from "node:fs";

export function readPlan() {
  return JSON.parse(readFileSync(process.argv[2], "utf8"));
}

// `client` is connected; `version` is the revision it agreed on.
export async function runPlan(client, plan, version) {
  const { tools } = await client.listTools();
  const results = [];
  for (const call of plan.calls) {
    results.push(await outcome(client, call));
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

async function outcome(client, call) {
  try {
    const { content, structuredContent, isError } = await client.callTool(call);
    return { content, structuredContent, isError: isError ?? false };
  } catch (error) {
    return { error: { code: error.code, message: error.message } };
  }
}
