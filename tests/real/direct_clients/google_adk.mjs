// Google ADK for TypeScript: the tools of `MCPToolset`. It reads resources by their names.
import { MCPToolset } from "@google/adk";
import { byName, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const toolset = new MCPToolset({
    type: "StdioConnectionParams", serverParams: { command, args, env }, timeout: 60_000 });
  const tools = await toolset.getTools();
  return {
    tools: () => tools.map((tool) => tool._getDeclaration()),
    call: (name, input) => byName(tools, name).runAsync({ args: input, toolContext: {} }),
    resources: () => toolset.listResources(),
    read: (uri) => toolset.readResource(uri.split("/").at(-1)),
    close: () => toolset.close(),
  };
});
