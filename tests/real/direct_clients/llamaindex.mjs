// LlamaIndex.TS: the tools of `mcp`.
import { mcp } from "@llamaindex/tools";
import { NotOffered, main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = mcp({ command, args, env });
  const tools = await client.tools();
  return {
    tools: () => tools.map(({ metadata }) => metadata),
    call: (name, input) => {
      const found = tools.find(({ metadata }) => metadata.name === name);
      if (!found) {
        throw new NotOffered();
      }
      return found.call(input);
    },
    close: () => client.cleanup(),
  };
});
