// A client with the TypeScript SDK 2.x: node client_ts_v2.mjs PLAN.json. With the plan's "mode" "auto" it asks
// server/discover first, in a process of its own.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { readPlan, runPlan } from "./run_plan.mjs";

const plan = readPlan();
const [command, ...args] = plan.command;
const options = plan.mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "real-ts-v2", version: "1" }, options);
await client.connect(new StdioClientTransport({ command, args }));
await runPlan(client, plan, client.getNegotiatedProtocolVersion());
