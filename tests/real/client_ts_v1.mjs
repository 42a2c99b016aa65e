// A client with the TypeScript SDK 1.x: node client_ts_v1.mjs PLAN.json
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { capabilities, elicit, listRoots, readPlan, runPlan, sample } from "./run_plan.mjs";

const plan = readPlan();
const [command, ...args] = plan.command ?? [];
const transport = plan.url
  ? new StreamableHTTPClientTransport(new URL(plan.url))
  : new StdioClientTransport({ command, args });
let version;
const ownSetter = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (negotiated) => {
  version = negotiated;
  ownSetter?.(negotiated);
};
const client = new Client({ name: "real-ts-v1", version: "1" }, { capabilities: capabilities(plan) });
client.setRequestHandler(ElicitRequestSchema, elicit);
if (plan.sampling_and_roots) {
  client.setRequestHandler(CreateMessageRequestSchema, sample);
  client.setRequestHandler(ListRootsRequestSchema, listRoots);
}
await client.connect(transport);
await runPlan(client, plan, version, (request, options) => client.callTool(request, undefined, options));
