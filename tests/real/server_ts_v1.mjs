// A server with the TypeScript SDK 1.x. The others of this kind (server_ts_v2.mjs, server_py.py) do the same.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";

const server = new McpServer({ name: "ts-v1", version: "1.0.0" });
const text = (text) => ({ content: [{ type: "text", text }] });

server.registerTool(
  "add",
  {
    description: "Adds two numbers.",
    inputSchema: { a: z.number(), b: z.number() },
    outputSchema: { sum: z.number() },
    annotations: { readOnlyHint: true },
  },
  async ({ a, b }) => {
    if (a < 0) throw new Error("No number below zero, please.");
    return { ...text(`The sum is ${a + b}.`), structuredContent: { sum: a + b } };
  },
);
server.registerTool("count", { description: "Counts.", inputSchema: { to: z.number() } }, async ({ to }, extra) => {
  const progressToken = extra._meta?.progressToken;
  for (let progress = 1; progressToken !== undefined && progress <= to; progress++) {
    const params = { progressToken, progress, total: to, message: `step ${progress}` };
    await extra.sendNotification({ method: "notifications/progress", params });
    await setTimeout(20);
  }
  return text(`Counted to ${to}.`);
});
server.registerTool("greet", { description: "Asks for a name.", inputSchema: {} }, async () => {
  const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const { action, content } = await server.server.elicitInput({ message: "Your name?", requestedSchema });
  return text(action === "accept" ? `Hello, ${content.name}.` : action);
});
server.registerResource("greeting", "fixture://greeting", { mimeType: "text/plain" }, async (uri) => ({
  contents: [{ uri: uri.href, mimeType: "text/plain", text: "hällo 🦀" }],
}));
server.registerPrompt("poem", { argsSchema: { about: z.string() } }, ({ about }) => ({
  messages: [{ role: "user", content: { type: "text", text: `A poem about ${about}.` } }],
}));

await server.connect(new StdioServerTransport());
