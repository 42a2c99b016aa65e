// A server with the TypeScript SDK 2.x: node server_ts_v2.mjs [reject|http]. With "reject" it supports only
// 2026-07-28, with "http" it listens on a free port, which it prints, and each path is an endpoint with other settings.
import { getRequestListener } from "@hono/node-server"; // a dependency of the SDK 1.x
import {
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  acceptedContent,
  createMcpHandler,
  inputRequired,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";

const text = (text) => ({ content: [{ type: "text", text }] });

// How many resources "change" has added. Without a session, each request gets a new server.
let changes = 0;

function create() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "ts-v2", version: "1.0.0" }, { capabilities });
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
  const ask = { description: "Asks for a word and a root.", inputSchema: z.object({}) };
  server.registerTool("ask", ask, async (_, ctx) => {
    const { word, roots } = ctx.mcpReq.inputResponses ?? {};
    if (word && roots) {
      return text(`${word.content.text} in ${roots.roots[0].uri}`);
    }
    const messages = [{ role: "user", content: { type: "text", text: "A word?" } }];
    const sampling = inputRequired.createMessage({ messages, maxTokens: 10 });
    return inputRequired({ inputRequests: { word: sampling, roots: inputRequired.listRoots() } });
  });
  server.registerTool("note", { description: "Logs.", inputSchema: z.object({}) }, async (_, ctx) => {
    await ctx.mcpReq.log("warning", { noted: 1 }, "notes");
    return text("Noted.");
  });
  const add = (n) =>
    server.registerResource(`more ${n}`, `fixture://more/${n}`, {}, async (uri) => ({
      contents: [{ uri: uri.href, text: "more" }],
    }));
  for (let n = 1; n <= changes; n++) {
    add(n);
  }
  server.registerTool("change", { description: "Changes the resources.", inputSchema: z.object({}) }, async () => {
    add(++changes);
    await server.server.sendResourceUpdated({ uri: "fixture://greeting" });
    for (const { notify } of Object.values(endpoints)) {
      notify?.resourcesChanged();
      notify?.resourceUpdated("fixture://greeting");
    }
    return text("Changed.");
  });
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.registerResource("greeting", "fixture://greeting", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "hällo 🦀" }],
  }));
  server.registerPrompt("poem", { argsSchema: z.object({ about: z.string() }) }, ({ about }) => ({
    messages: [{ role: "user", content: { type: "text", text: `A poem about ${about}.` } }],
  }));
  return server;
}

const endpoints = {
  "/sessions": { sessionIdGenerator: randomUUID },
  "/sessions-json": { sessionIdGenerator: randomUUID, enableJsonResponse: true },
  "/stateless": createMcpHandler(create),
  "/stateless-json": { enableJsonResponse: true },
  "/2026-07-28": createMcpHandler(create, { legacy: "reject" }),
  "/2026-07-28-sse": createMcpHandler(create, { legacy: "reject", responseMode: "sse" }),
  "/2026-07-28-json": createMcpHandler(create, { legacy: "reject", responseMode: "json" }),
};
const sessions = new Map();

async function serve(request) {
  const endpoint = endpoints[new URL(request.url).pathname];
  const id = request.headers.get("mcp-session-id");
  if (!endpoint || (id && !sessions.has(id))) {
    return new Response(null, { status: 404 });
  }
  if (endpoint.fetch) {
    return endpoint.fetch(request);
  }
  if (!endpoint.sessionIdGenerator && request.method !== "POST") {
    return new Response(null, { status: 405 });
  }
  let transport = sessions.get(id);
  if (!transport) {
    const onsessioninitialized = (id) => sessions.set(id, transport);
    transport = new WebStandardStreamableHTTPServerTransport({ ...endpoint, onsessioninitialized });
    transport.onclose = () => sessions.delete(transport.sessionId);
    await create().connect(transport);
  }
  return transport.handleRequest(request);
}

if (process.argv[2] === "http") {
  const listener = createServer(getRequestListener(serve));
  listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
} else {
  serveStdio(create, { legacy: process.argv[2] === "reject" ? "reject" : "serve" });
}
