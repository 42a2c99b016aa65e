// Strands Agents for TypeScript: the tools of `McpClient`.
import { McpClient } from "@strands-agents/sdk";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { byName, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = new McpClient({ transport: new StdioClientTransport({ command, args, env }) });
  const tools = await client.listTools();
  return {
    tools: () => tools.map(({ toolSpec }) => toolSpec),
    call: (name, input) => client.callTool(byName(tools, name), input),
    close: () => client.disconnect(),
  };
});
