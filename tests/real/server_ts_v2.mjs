// A server with the TypeScript SDK 2.x: node server_ts_v2.mjs [reject]. With "reject" it speaks 2026-07-28 only.
import { McpServer, acceptedContent, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";

const text = (text) => ({ content: [{ type: "text", text }] });

function create() {
  const server = new McpServer({ name: "ts-v2", version: "1.0.0" });
  server.registerTool(
    "add",
    {
      description: "Adds two numbers.",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
      annotations: { readOnlyHint: true },
    },
    async ({ a, b }) => {
      if (a < 0) throw new Error("No number below zero, please.");
      return { ...text(`The sum is ${a + b}.`), structuredContent: { sum: a + b } };
    },
  );
  const count = { description: "Counts.", inputSchema: z.object({ to: z.number() }) };
  server.registerTool("count", count, async ({ to }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progressToken !== undefined && progress <= to; progress++) {
      const params = { progressToken, progress, total: to, message: `step ${progress}` };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
      await setTimeout(20);
    }
    return text(`Counted to ${to}.`);
  });
  const greet = { description: "Asks for a name.", inputSchema: z.object({}) };
  server.registerTool("greet", greet, async (_, ctx) => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, "name");
    if (answer) {
      return text(`Hello, ${answer.name}.`);
    }
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    return inputRequired({ inputRequests: { name: inputRequired.elicit({ message: "Your name?", requestedSchema }) } });
  });
  server.registerResource("greeting", "fixture://greeting", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "hällo 🦀" }],
  }));
  server.registerPrompt("poem", { argsSchema: z.object({ about: z.string() }) }, ({ about }) => ({
    messages: [{ role: "user", content: { type: "text", text: `A poem about ${about}.` } }],
  }));
  return server;
}

serveStdio(create, { legacy: process.argv[2] === "reject" ? "reject" : "serve" });
