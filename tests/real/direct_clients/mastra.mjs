// Mastra: `MCPClient`.
import { MCPClient } from "@mastra/mcp";
import { NotOffered, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = new MCPClient({ servers: { dyn: { command, args, env } }, timeout: 60_000 });
  const tools = await client.listTools();
  return {
    tools: () =>
      Object.entries(tools).map(([name, { id, description, inputSchema, outputSchema }]) => ({
        name, id, description, inputSchema: inputSchema?.["~standard"]?.jsonSchema?.input?.({ target: "draft-07" }),
        outputSchema: outputSchema?.["~standard"]?.jsonSchema?.output?.({ target: "draft-07" }) })),
    call: (name, input) => {
      const found = tools[`dyn_${name}`];
      if (!found) {
        throw new NotOffered();
      }
      return found.execute(input, {});
    },
    resources: () => client.resources.list(),
    read: (uri) => client.resources.read("dyn", uri),
    prompts: () => client.prompts.list(),
    prompt: (name, args) => client.prompts.get({ serverName: "dyn", name, args }),
    close: () => client.disconnect(),
  };
});
