// MCPorter: the runtime.
import { createRuntime } from "mcporter";
import { main } from "./session.mjs";

await main(async ({ command, args, env }) => {
  const definition = { name: "dyn", command: { kind: "stdio", command, args, cwd: process.cwd() }, env };
  const runtime = await createRuntime({ servers: [definition] });
  return {
    tools: () => runtime.listTools("dyn", { includeSchema: true }),
    call: (name, input) => runtime.callTool("dyn", name, { args: input }),
    resources: () => runtime.listResources("dyn"),
    read: (uri) => runtime.readResource("dyn", uri),
    close: () => runtime.close(),
  };
});
