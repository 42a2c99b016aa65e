// AI SDK of Vercel: `createMCPClient`, and its tools for a model.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { NotOffered, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = await createMCPClient({ transport: new StdioTransport({ command, args, env }) });
  const tools = await client.tools();
  return {
    tools: () =>
      Object.entries(tools).map(([name, { description, title, inputSchema }]) => ({
        name, title, description, schema: inputSchema.jsonSchema })),
    call: async (name, input) => {
      if (!tools[name]) {
        throw new NotOffered();
      }
      const output = await tools[name].execute(input, { toolCallId: "1", messages: [] });
      return { output, model: await tools[name].toModelOutput?.({ output, input, toolCallId: "1" }) };
    },
    resources: () => client.listResources(),
    read: (uri) => client.readResource({ uri }),
    prompts: () => client.listPrompts(),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    close: () => client.close(),
  };
});
