// Checks the status page in Chromium: node status_page.mjs PLAN.json. The plan has the `program` of dynamic-mcp, the `browser`,
// the directory for the `pictures` of the docs, one for `looks`, pictures of all widths and themes, or null, the `directories` of the
// instances by the script in `scripts` that starts each, the directory of `files` of one server, the `config`, and
// `broken`, which replaces it.
//
// Prints a report as one line of JSON: the pictures and their sizes.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { execFileSync } from "node:child_process";
import assert from "node:assert/strict";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { chromium } from "playwright-core";
import { assertAccessible, assertFits, assertKeyboard, assertOnlyText, assertStill } from "./status_page_checks.mjs";
import { openApp, watch } from "./status_page_host.mjs";
import { crowd, hostile, withLogin } from "./status_page_reports.mjs";

const URI = "ui://dynamic-mcp/status";
const THEMES = ["light", "dark"];
const WIDTHS = [300, 800, 2560];
const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };

/** Starts an instance as the MCP client that the script `name` is. */
async function startInstance(name, cwd) {
  const client = new Client({ name, version: "1" }, { capabilities: { extensions } });
  const transport = { command: join(plan.scripts, name), args: [plan.program], cwd, env: { ...process.env } };
  await client.connect(new StdioClientTransport(transport));
  return client;
}

async function callGroup(client, group, name, args) {
  return client.callTool({ name: "call_dynamic_tool", arguments: { group, name, args } });
}

const dataOf = (client) => client.callTool({ name: "status_data", arguments: {} });

/** The status of this client, once every server that cannot work has failed. */
async function settled(client, names) {
  for (;;) {
    const result = await dataOf(client);
    const own = result.structuredContent.instances.find((instance) => instance.isThis);
    const states = new Map(own.groups.map((group) => [group.group, group.state]));
    if (names.every((name) => states.get(name) === "failed")) return result;
    await setTimeout(100);
  }
}

/** Writes the page of `dynamic-mcp status --html`, with this report if one is given. */
function writePage(name, report) {
  const file = join(process.env.HOME, `${name}.html`);
  execFileSync(plan.program, ["status", "--html", file, "--no-open"]);
  if (report) {
    const [before, after] = readFileSync(file, "utf8").split(/(?<=id="data">).*?(?=<\/script>)/s);
    writeFileSync(file, before + JSON.stringify(report).replaceAll("<", "\\u003c") + after);
  }
  return `file://${file}`;
}

const browser = await chromium.launch({ executablePath: plan.browser });

/** Opens a page in a window of this width. */
async function open(url, width, options = {}) {
  const viewport = { width, height: Math.max(600, Math.round(width * 0.6)) };
  const context = await browser.newContext({ viewport, ...options });
  const page = await context.newPage();
  const problems = watch(page);
  await page.goto(url);
  return { context, page, problems };
}

/** Checks a page in each theme and width. `accessible`: whether axe looks at it, which takes long for a large page. */
async function checkLook(name, url, themes = THEMES, { accessible = true } = {}) {
  for (const colorScheme of themes) {
    for (const width of WIDTHS) {
      const label = `${name}, ${colorScheme}, ${width} px`;
      const { context, page, problems } = await open(url, width, { colorScheme });
      await assertFits(page, label);
      if (accessible && width === 800) await assertAccessible(page, label);
      if (plan.looks) await page.screenshot({ path: join(plan.looks, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      assert.deepEqual(problems, [], label);
      await context.close();
    }
  }
}

/** 200 % zoom halves the width in CSS pixels. A browser that enlarges only text doubles the font size. */
async function checkZoom(url) {
  const zoomed = await open(url, 640, { deviceScaleFactor: 2 });
  await assertFits(zoomed.page, "200 % zoom");
  await zoomed.page.evaluate(() => { document.documentElement.style.fontSize = "200%"; });
  await assertFits(zoomed.page, "200 % zoom of a page and of its text");
  await zoomed.context.close();
}

async function checkFile(url) {
  const { context, page } = await open(url, 1000, { reducedMotion: "reduce" });
  await assertStill(page);
  assert.match(await page.locator("#taken").innerText(), /^a snapshot, taken .*20\d\d/);
  assert.equal(await page.locator("#refresh").isVisible(), false);
  await assertKeyboard(page);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const first = page.locator(".command").first();
  const words = await first.locator("code").innerText();
  await first.locator("button").press("Enter");
  await page.getByText("Copied").first().waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), words);
  await context.close();
}

/** Shows the app to a host. `answer`: what `status_data` returns. */
async function openInHost(client, answer, { capabilities = { serverTools: {}, openLinks: {} }, hostContext = {}, clock = false, until = "h1" } = {}) {
  const context = await browser.newContext({ viewport: { width: 900, height: 700 } });
  if (clock) await context.clock.install();
  const { contents } = await client.readResource({ uri: URI });
  const result = await client.callTool({ name: "show_status", arguments: {} });
  const callTool = ({ name }) => (assert.equal(name, "status_data"), answer());
  const app = await openApp(context, { resource: contents[0], result, callTool, capabilities, hostContext, until });
  return { ...app, context };
}

async function checkApp(client) {
  const hostContext = { theme: "dark", styles: { variables: { "--color-background-primary": "rgb(1, 2, 3)" } } };
  const { page, frame, did, context } = await openInHost(client, () => dataOf(client), { hostContext });
  await frame.getByText("2 instances").or(frame.getByText("3 instances")).first().waitFor();
  const look = await frame.evaluate(() => {
    const { backgroundColor } = getComputedStyle(document.body);
    return [backgroundColor, getComputedStyle(document.documentElement).colorScheme];
  });
  assert.deepEqual(look, ["rgb(1, 2, 3)", "dark"]);
  await assertAccessible(frame, "in a host");
  await page.evaluate(() => bridge.sendHostContextChange({ theme: "light" }));
  await frame.waitForFunction(() => document.documentElement.style.colorScheme === "light");
  await page.waitForFunction(() => globalThis.size?.height > 300);
  // The frame may not use the clipboard, so the text is selected.
  await frame.locator(".command button").first().click();
  await frame.getByText(/^(Selected|Copied)$/).first().waitFor();
  // What is open stays open, and the focus stays where it is.
  await frame.locator("summary.row").last().press("Enter");
  const calls = did.calls.length;
  await frame.locator("#refresh").press("Enter");
  while (did.calls.length === calls) await setTimeout(20);
  await frame.waitForFunction(() => document.activeElement.id === "refresh");
  assert.equal(await frame.locator("details[open] .more").count(), 1);
  assert.deepEqual(did.problems, []);
  await page.evaluate(() => bridge.teardownResource({}));
  await context.close();
}

/** The page refreshes every 10 s for five minutes, and not while nobody sees it. */
async function checkRefresh(client, data) {
  const { page, frame, did, context } = await openInHost(client, () => data, { clock: true });
  const wait = async (seconds) => {
    await page.clock.fastForward(seconds * 1000);
    await setTimeout(30);
    await frame.evaluate(() => new Promise((done) => queueMicrotask(done)));
  };
  while (did.calls.length < 1) await setTimeout(20);
  await wait(9);
  assert.equal(did.calls.length, 1);
  await wait(2);
  assert.equal(did.calls.length, 2);
  const hide = (state) => frame.evaluate((state) => Object.defineProperty(document, "visibilityState", { value: state, configurable: true }), state);
  await hide("hidden");
  await wait(11);
  assert.equal(did.calls.length, 2, "it refreshes although nobody sees it");
  await hide("visible");
  for (let at = 0; at < 40; at++) await wait(10.5);
  const total = did.calls.length;
  assert.ok(total > 15 && total <= 31, `${total} calls`);
  await frame.locator("#refresh").click();
  await wait(1);
  assert.equal(did.calls.length, total + 1);
  await context.close();
}

/** The result of another server's tool that names the page is not drawn. */
async function assertForeignResult(client, data) {
  const tool = { name: "evil__show", inputSchema: { type: "object" } };
  const foreign = await openInHost(client, () => data, { capabilities: {}, hostContext: { toolInfo: { tool } }, until: "header" });
  await setTimeout(200);
  assert.equal(await foreign.frame.locator("main").innerText(), "");
  await foreign.context.close();
}

/** What a host without tools and links gets, and what one with links opens. */
async function checkHosts(client, data) {
  const plain = await openInHost(client, () => data, { capabilities: {} });
  assert.equal(await plain.frame.locator("#refresh").isVisible(), false);
  assert.deepEqual(plain.did.calls, []);
  await plain.context.close();
  await assertForeignResult(client, data);
  const url = "https://login.example/authorize?state=1";
  const login = await openInHost(client, () => ({ content: [], structuredContent: withLogin(data.structuredContent, url) }));
  await login.frame.getByRole("button", { name: "Open the login page" }).click();
  while (!login.did.links.length) await setTimeout(20);
  assert.deepEqual(login.did.links, [url]);
  await login.context.close();
  const attack = await openInHost(client, () => ({ content: [], structuredContent: hostile(data.structuredContent) }));
  await attack.frame.getByText("<img src=x").first().waitFor();
  await assertOnlyText(attack.frame);
  assert.equal(await attack.frame.getByRole("button", { name: "Open the login page" }).count(), 0);
  assert.deepEqual(attack.did.problems, []);
  await attack.context.close();
}

/** The pictures of the docs. */
async function takePictures(url) {
  const sizes = {};
  for (const colorScheme of THEMES) {
    const { context, page } = await open(url, 960, { colorScheme, deviceScaleFactor: 1.25 });
    const png = await page.screenshot({ fullPage: true });
    // A third of the size of a PNG.
    await page.goto("about:blank");
    const webp = await page.evaluate(async (png) => {
      const image = new Image();
      image.src = `data:image/png;base64,${png}`;
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
      canvas.getContext("2d").drawImage(image, 0, 0);
      return canvas.toDataURL("image/webp", 0.85).split(",")[1];
    }, png.toString("base64"));
    const bytes = Buffer.from(webp, "base64");
    writeFileSync(join(plan.pictures, `status-${colorScheme}.webp`), bytes);
    sizes[colorScheme] = bytes.length;
    await context.close();
  }
  return sizes;
}

const clients = [];
try {
  clients.push(...(await Promise.all(Object.entries(plan.directories).map(([name, cwd]) => startInstance(name, cwd)))));
  const [first, second, third] = clients;
  const list = (client) => callGroup(client, "files", "list_directory", { path: plan.files });
  // Those that fail are tried again for some seconds.
  const failing = ["postgres", "github"];
  const failures = failing.map((group) => callGroup(first, group, "query", {}));
  await Promise.all([
    ...failures,
    ...clients.map(list),
    callGroup(first, "everything", "get-sum", { a: 1, b: 2 }),
    callGroup(second, "everything", "echo", { message: "hello" }),
    callGroup(third, "everything", "get-resource-reference", { resourceId: -1 }),
  ]);
  for (let at = 0; at < 20; at++) await list(first);
  const data = await settled(first, failing);

  const real = writePage("real");
  await checkLook("real", real);
  await checkZoom(real);
  await checkFile(real);
  const sizes = await takePictures(real);
  await checkLook("crowd", writePage("crowd", crowd(data.structuredContent, 20, 50)), ["light"], { accessible: false });
  await checkLook("empty", writePage("empty", { ...data.structuredContent, instances: [] }), ["dark"]);

  await checkApp(first);
  await checkRefresh(first, data);
  await checkHosts(first, data);

  // Servers that are named like markup, and that fail with markup.
  copyFileSync(plan.broken, plan.config);
  const name = "<img src=x onerror=alert(1)>";
  while (!(await dataOf(first)).structuredContent.instances[0].groups.some((group) => group.group === name)) await setTimeout(100);
  await callGroup(first, name, "query", {});
  await settled(first, [name]);
  const attack = await open(writePage("attack"), 800);
  await assertOnlyText(attack.page);
  assert.match(await attack.page.locator("main").innerText(), /<\/script><script>pwned=1<\/script>/);
  assert.deepEqual(attack.problems, []);
  await attack.context.close();
  const all = await open(writePage("hostile", hostile(data.structuredContent)), 300);
  await assertOnlyText(all.page);
  await assertFits(all.page, "hostile texts");
  await all.context.close();
  console.log(JSON.stringify({ sizes }));
} finally {
  await Promise.all(clients.map((client) => client.close()));
  await browser.close();
}
