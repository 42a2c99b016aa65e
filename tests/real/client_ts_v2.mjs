// A client with the TypeScript SDK 2.x: node client_ts_v2.mjs PLAN.json. With "auto" as the plan's "mode" it
// tries server/discover first, on stdio in a separate process.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { capabilities, elicit, listRoots, readPlan, runPlan, sample } from "./run_plan.mjs";

const plan = readPlan();
const probing = plan.mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
const options = { ...probing, capabilities: capabilities(plan) };
const client = new Client({ name: "real-ts-v2", version: "1" }, options);
client.setRequestHandler("elicitation/create", elicit);
if (plan.sampling_and_roots) {
  client.setRequestHandler("sampling/createMessage", sample);
  client.setRequestHandler("roots/list", listRoots);
}
const [command, ...args] = plan.command ?? [];
await client.connect(plan.url ? new StreamableHTTPClientTransport(new URL(plan.url)) : new StdioClientTransport({ command, args }));
const version = client.getNegotiatedProtocolVersion();
await runPlan(client, plan, version, (request, options) => client.callTool(request, options));
