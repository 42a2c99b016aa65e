// LangChain.js: the tools of `MultiServerMCPClient`, with progress.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { byName, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  let shown;
  const client = new MultiServerMCPClient({
    mcpServers: { dyn: { transport: "stdio", command, args, env } },
    onProgress: ({ progress, total, message }) => shown?.({ progress, total, message }),
  });
  const tools = await client.getTools();
  return {
    tools: () => tools.map(({ name, description, schema, metadata }) => ({ name, description, schema, metadata })),
    call: (name, args, show) => {
      shown = show;
      return byName(tools, name).invoke({ type: "tool_call", id: "1", name, args });
    },
    resources: () => client.listResources(),
    read: (uri) => client.readResource("dyn", uri),
    close: () => client.close(),
  };
});
