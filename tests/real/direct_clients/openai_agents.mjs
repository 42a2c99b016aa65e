// OpenAI Agents SDK for JavaScript: `MCPServerStdio`.
import { MCPServerStdio } from "@openai/agents";
import { main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = new MCPServerStdio({ name: "dyn", command, args, env, timeout: 60_000 });
  await client.connect();
  return {
    tools: () => client.listTools(),
    call: (name, input) => client.callToolResult(name, input),
    resources: () => client.listResources(),
    read: (uri) => client.readResource(uri),
    close: () => client.close(),
  };
});
