// The host of an MCP App: a page with AppBridge of @modelcontextprotocol/ext-apps, and the app in a sandboxed frame.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const HOST = "http://host.test/";
const APP = "http://app.test/";

// What hosts enforce for an app without `ui.csp`.
const DEFAULT_POLICY =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "media-src 'self' data:; connect-src 'none'";

// The packages of AppBridge, for a browser.
const MODULES = Object.fromEntries(
  [
    "@modelcontextprotocol/ext-apps/app-bridge",
    "@modelcontextprotocol/client",
    "@modelcontextprotocol/client/_shims",
    "@modelcontextprotocol/core",
    "@modelcontextprotocol/core/internal",
    "eventsource",
    "eventsource-parser",
    "eventsource-parser/stream",
    "jose",
    "pkce-challenge",
    "zod",
    "zod/v4",
  ].map((name) => {
    const file = fileURLToPath(import.meta.resolve(name)).replace("shimsNode", "shimsBrowser").replace("pkce-challenge/dist/index.node.js", "pkce-challenge/dist/index.browser.js");
    return [name, `${HOST}modules${file}`];
  }),
);

const PAGE = `<!doctype html><html lang="en"><title>host</title>
<style>body { margin: 0 } iframe { border: 0; width: 100vw; height: 100vh; display: block }</style>
<script type="importmap">${JSON.stringify({ imports: MODULES })}</script>
<script type="module">
  import { AppBridge, PostMessageTransport, buildAllowAttribute } from "@modelcontextprotocol/ext-apps/app-bridge";
  const { capabilities, hostContext, permissions, result } = JSON.parse(await getSetup());
  const bridge = new AppBridge(null, { name: "host", version: "1" }, capabilities, { hostContext });
  bridge.oncalltool = async (params) => JSON.parse(await callTool(JSON.stringify(params)));
  bridge.onopenlink = async ({ url }) => { await openLink(url); return {}; };
  bridge.onsizechange = (size) => { globalThis.size = size; };
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: {} });
    await bridge.sendToolResult(result);
    globalThis.app = bridge.getAppVersion();
  };
  globalThis.bridge = bridge;
  const frame = document.createElement("iframe");
  frame.title = "app";
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("allow", buildAllowAttribute(permissions));
  document.body.append(frame);
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = "${APP}";
</script></html>`;

/**
 * Shows an app. `resource`: the content that `resources/read` gave. `result`: that of the tool that shows the app.
 * `callTool`: what a call of a tool by the app returns. `until`: what the app shows when it is ready. Returns the page, the app's frame, and what the app did.
 */
export async function openApp(context, { resource, result, callTool, capabilities, hostContext, until }) {
  const page = await context.newPage();
  const did = { calls: [], links: [], problems: watch(page) };
  const permissions = resource._meta.ui.permissions;
  await page.exposeFunction("getSetup", () => JSON.stringify({ capabilities, hostContext, permissions, result }));
  await page.exposeFunction("callTool", async (params) => {
    did.calls.push(JSON.parse(params));
    return JSON.stringify(await callTool(JSON.parse(params)));
  });
  await page.exposeFunction("openLink", (url) => did.links.push(url));
  await page.route(`${HOST}**`, (route) => {
    const path = new URL(route.request().url()).pathname;
    if (path === "/") return route.fulfill({ contentType: "text/html", body: PAGE });
    const body = readFileSync(path.slice("/modules".length), "utf8");
    return route.fulfill({ contentType: "text/javascript", body });
  });
  await page.route(APP, (route) =>
    route.fulfill({
      contentType: "text/html; charset=utf-8",
      headers: { "content-security-policy": DEFAULT_POLICY },
      body: resource.text,
    }),
  );
  await page.goto(HOST);
  await page.waitForFunction(() => globalThis.app);
  const frame = page.frames().find((frame) => frame.url() === APP);
  await frame.waitForSelector(until);
  return { page, frame, did };
}

/** Collects what a page must not do: errors, words on the console, and requests of anything but itself. */
export function watch(page) {
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!request.isNavigationRequest() && !url.startsWith(HOST)) problems.push(`request: ${url}`);
  });
  return problems;
}
