// From a machine without servers.json to a called tool and back, on the status page in the host side of MCP Apps:
// node status_page_setup.mjs PLAN.json. The plan has the `program` of dynamic-mcp, the `browser`, and the `file` of a
// client whose server `everything` moves. HOME is the directory of the new user.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { assertAccessible } from "./status_page_checks.mjs";
import { openApp } from "./status_page_host.mjs";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
const before = readFileSync(plan.file, "utf8");
const client = new Client({ name: "new", version: "1" }, { capabilities: { extensions } });
const browser = await chromium.launch({ executablePath: plan.browser });
try {
  await client.connect(new StdioClientTransport({ command: plan.program, args: [], env: { ...process.env } }));
  const { contents } = await client.readResource({ uri: "ui://dynamic-mcp/status" });
  const result = await client.callTool({ name: "show_status", arguments: {} });
  const context = await browser.newContext({ viewport: { width: 900, height: 700 } });
  const { frame, did } = await openApp(context, {
    resource: contents[0], result, callTool: (params) => client.callTool(params), capabilities: { serverTools: {} }, hostContext: {}, until: "h1",
  });
  await frame.getByText("There are no servers yet").waitFor();
  const move = frame.getByRole("button", { name: "Move them to dynamic-mcp" });
  await move.waitFor();
  assert.match(await frame.getByRole("group", { name: "The plan" }).innerText(), /everything/);
  assert.equal(readFileSync(plan.file, "utf8"), before, "the plan writes nothing");
  await assertAccessible(frame, "set-up");
  await move.press("Enter");
  await frame.getByText("Done.", { exact: true }).waitFor();
  assert.match(readFileSync(plan.file, "utf8"), /"dyn"/);
  assert.ok(readFileSync(join(process.env.HOME, ".config/dynamic-mcp/servers.json"), "utf8").includes("everything"));

  // The instance has noticed the new file by itself.
  await frame.locator("#refresh").click();
  await frame.getByText("The server is well").waitFor();
  const call = { group: "everything", name: "get-sum", args: { a: 2, b: 3 } };
  const sum = await client.callTool({ name: "call_dynamic_tool", arguments: call });
  assert.match(sum.content[0].text, /5/);
  await frame.locator("summary.row").press("Enter");
  await frame.getByRole("button", { name: "Turn it off" }).press("Enter");
  await frame.getByRole("button", { name: "turn it on" }).press("Enter");
  await frame.locator("summary.row").waitFor();
  await assertAccessible(frame, "with buttons");

  await frame.getByRole("button", { name: "Take it back" }).press("Enter");
  await frame.getByRole("button", { name: "Take this back" }).press("Enter");
  await frame.getByText("Done.", { exact: true }).waitFor();
  assert.equal(readFileSync(plan.file, "utf8"), before);
  const actions = did.calls.filter(({ name }) => name === "page_action").map(({ arguments: { action } }) => action);
  assert.deepEqual(actions, ["plan_import", "import", "disable", "enable", "plan_undo", "undo"]);
  assert.deepEqual(did.problems, []);
  console.log(JSON.stringify({ actions }));
} finally {
  await client.close();
  await browser.close();
}
