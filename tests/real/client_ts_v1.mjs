// A client with the TypeScript SDK 1.x: node client_ts_v1.mjs PLAN.json
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { answer, readPlan, runPlan } from "./run_plan.mjs";

const plan = readPlan();
const [command, ...args] = plan.command;
const transport = new StdioClientTransport({ command, args });
let version;
transport.setProtocolVersion = (agreed) => (version = agreed);
const client = new Client({ name: "real-ts-v1", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, answer);
await client.connect(transport);
await runPlan(client, plan, version, (request, options) => client.callTool(request, undefined, options));
