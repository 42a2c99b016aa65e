// mcp-client: `MCPClient`, with progress.
import { MCPClient } from "mcp-client";
import { main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const client = new MCPClient({ name: "direct", version: "1.0.0" });
  await client.connect({ type: "stdio", command, args, env });
  return {
    tools: () => client.getAllTools(),
    call: (name, input, show) =>
      client.callTool({ name, arguments: input }, { requestOptions: { onProgress: show } }),
    resources: () => client.getAllResources(),
    read: (uri) => client.getResource({ uri }),
    prompts: () => client.getAllPrompts(),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    close: () => client.close(),
  };
});
