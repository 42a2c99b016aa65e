// A server with the TypeScript SDK 1.x: node server_ts_v1.mjs [http]. With "http" it listens on a free port, which it
// prints, and each path is an endpoint with other settings. server_ts_v2.mjs and server_py.py serve the same tools.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  CreateMessageResultSchema,
  ListRootsResultSchema,
  SubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { z } from "zod";

const text = (text) => ({ content: [{ type: "text", text }] });

function create() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "ts-v1", version: "1.0.0" }, { capabilities });
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
  // Unlike the elicitation of greet, these requests belong to the call.
  server.registerTool("ask", { description: "Asks for a word and a root.", inputSchema: {} }, async (_, extra) => {
    const messages = [{ role: "user", content: { type: "text", text: "A word?" } }];
    const sampling = { method: "sampling/createMessage", params: { messages, maxTokens: 10 } };
    const word = await extra.sendRequest(sampling, CreateMessageResultSchema);
    const { roots } = await extra.sendRequest({ method: "roots/list" }, ListRootsResultSchema);
    return text(`${word.content.text} in ${roots[0].uri}`);
  });
  server.registerTool("note", { description: "Logs.", inputSchema: {} }, async (_, extra) => {
    const params = { level: "warning", logger: "notes", data: { noted: 1 } };
    await extra.sendNotification({ method: "notifications/message", params });
    return text("Noted.");
  });
  let changes = 0;
  server.registerTool("change", { description: "Changes the resources.", inputSchema: {} }, async () => {
    const uri = `fixture://more/${++changes}`;
    server.registerResource(uri, uri, {}, async (uri) => ({ contents: [{ uri: uri.href, text: "more" }] }));
    await server.server.sendResourceUpdated({ uri: "fixture://greeting" });
    return text("Changed.");
  });
  server.server.setRequestHandler(SubscribeRequestSchema, async () => ({}));
  server.registerResource("greeting", "fixture://greeting", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "hällo 🦀" }],
  }));
  server.registerPrompt("poem", { argsSchema: { about: z.string() } }, ({ about }) => ({
    messages: [{ role: "user", content: { type: "text", text: `A poem about ${about}.` } }],
  }));
  return server;
}

const endpoints = {
  "/sessions": { sessionIdGenerator: randomUUID },
  "/sessions-json": { sessionIdGenerator: randomUUID, enableJsonResponse: true },
  "/stateless": {},
  "/stateless-json": { enableJsonResponse: true },
};
const sessions = new Map();

async function serve(request, response) {
  const { pathname, searchParams } = new URL(request.url, "http://localhost");
  const id = searchParams.get("sessionId") ?? request.headers["mcp-session-id"];
  if (pathname === "/sse" && request.method === "GET") {
    const transport = new SSEServerTransport("/messages", response);
    sessions.set(transport.sessionId, transport);
    return create().connect(transport);
  }
  if (pathname === "/messages") {
    return sessions.get(id).handlePostMessage(request, response);
  }
  const endpoint = endpoints[pathname];
  if (!endpoint || (id && !sessions.has(id))) {
    return response.writeHead(404).end();
  }
  // As in the SDK's examples: without a session there are only POST requests.
  if (!endpoint.sessionIdGenerator && request.method !== "POST") {
    return response.writeHead(405).end();
  }
  let transport = sessions.get(id);
  if (!transport) {
    const onsessioninitialized = (id) => sessions.set(id, transport);
    transport = new StreamableHTTPServerTransport({ ...endpoint, onsessioninitialized });
    transport.onclose = () => sessions.delete(transport.sessionId);
    await create().connect(transport);
  }
  await transport.handleRequest(request, response);
}

if (process.argv[2] === "http") {
  const listener = createServer(serve).listen(0, "127.0.0.1", () => console.log(listener.address().port));
} else {
  await create().connect(new StdioServerTransport());
}
