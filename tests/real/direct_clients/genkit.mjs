// Genkit: the tools, resources and prompts of `createMcpClient`.
import { createMcpClient } from "@genkit-ai/mcp";
import { genkit } from "genkit";
import { NotOffered, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const ai = genkit({});
  const client = createMcpClient({ name: "dyn", mcpServer: { command, args, env } });
  await client.ready();
  const tools = await client.getActiveTools(ai);
  const describe = ({ __action: { name, description, inputJsonSchema, metadata } }) => ({
    name, description, inputJsonSchema, metadata });
  return {
    tools: () => tools.map(describe),
    call: (name, input) => {
      // The name of a tool begins with that of the server.
      const found = tools.find(({ __action }) => __action.name.split("/").at(-1) === name);
      if (!found) {
        throw new NotOffered();
      }
      return found(input);
    },
    resources: async () => (await client.getActiveResources(ai)).map(describe),
    read: async (uri) => {
      const matching = (await client.getActiveResources(ai)).find((resource) => resource.matches({ uri }));
      if (!matching) {
        throw new NotOffered();
      }
      return (await matching.attach(ai.registry))({ uri });
    },
    prompts: async () => (await client.getActivePrompts(ai)).map(({ ref }) => ref),
    prompt: async (name, input) => (await client.getPrompt(ai, name)).render(input),
    close: () => client.disable(),
  };
});
