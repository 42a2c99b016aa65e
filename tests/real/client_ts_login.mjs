// A client with the TypeScript SDK 2.x that logs in first: node client_ts_login.mjs PLAN.json. It finds the authorization
// server by the URL of the plan, registers itself, and logs in as the plan's "user" in place of a browser, for its "scope".
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { readPlan, runPlan } from "./run_plan.mjs";

const plan = readPlan();
const REDIRECT_URL = "http://127.0.0.1:9/callback";
let registration, tokens, verifier, discovery, authorizationUrl;
const authProvider = {
  redirectUrl: REDIRECT_URL,
  clientMetadata: {
    client_name: "real-ts-login",
    redirect_uris: [REDIRECT_URL],
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code"],
    scope: plan.scope,
  },
  clientInformation: () => registration,
  saveClientInformation: (information) => (registration = information),
  tokens: () => tokens,
  saveTokens: (saved) => (tokens = saved),
  redirectToAuthorization: (url) => (authorizationUrl = url),
  saveCodeVerifier: (saved) => (verifier = saved),
  codeVerifier: () => verifier,
  saveDiscoveryState: (saved) => (discovery = saved),
  discoveryState: () => discovery,
};

// Follows the pages of the authorization server and returns the parameters with which it redirects to the client.
async function logIn(url, user) {
  const cookies = new Map();
  let [address, form] = [new URL(url)];
  for (let step = 0; step < 20; step++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const request = form ? { method: "POST", body: new URLSearchParams(form) } : {};
    const response = await fetch(address, { ...request, headers: { cookie }, redirect: "manual" });
    for (const line of response.headers.getSetCookie()) {
      const [name, value] = line.split(";")[0].split("=");
      cookies.set(name, value);
    }
    const location = response.headers.get("location");
    if (location) {
      [address, form] = [new URL(location, address)];
      if (address.href.startsWith(REDIRECT_URL)) {
        return address.searchParams;
      }
      continue;
    }
    const page = await response.text();
    const action = page.match(/<form[^>]*action="([^"]+)"/)?.[1];
    const prompt = page.match(/name="prompt" value="([^"]+)"/)?.[1];
    if (!action || !prompt) {
      throw new Error(`${response.status} ${address}: ${page}`);
    }
    [address, form] = [new URL(action, address), { prompt, ...(prompt === "login" ? { login: user, password: "x" } : {}) }];
  }
  throw new Error("the login does not end");
}

const options = plan.mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(plan.url), { authProvider });
  const client = new Client({ name: "real-ts-login", version: "1" }, options);
  try {
    await client.connect(transport);
    return [client, transport];
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || tokens) {
      throw error;
    }
    return [undefined, transport];
  }
};

let [client, transport] = await connect();
if (client) {
  throw new Error("no login was necessary");
}
authorizationUrl.searchParams.set("scope", plan.scope);
await transport.finishAuth(await logIn(authorizationUrl, plan.user));
[client] = await connect();
const version = client.getNegotiatedProtocolVersion();
await runPlan(client, plan, version, (request, options) => client.callTool(request, options));
