// VoltAgent: `MCPClient`, and its tools for an agent.
import { MCPClient } from "@voltagent/core";
import { main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = new MCPClient({
    clientInfo: { name: "dyn", version: "1.0.0" }, server: { type: "stdio", command, args, env }, timeout: 60_000 });
  await client.connect();
  return {
    tools: () => client.listTools(),
    call: (name, input) => client.callTool({ name, arguments: input }),
    resources: () => client.listResources(),
    close: () => client.disconnect(),
  };
});
