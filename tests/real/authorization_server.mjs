// An authorization server, made with oidc-provider: node authorization_server.mjs ALGORITHM. It signs the access tokens of
// every resource with this algorithm, lets clients register themselves, and prints its port.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

// What oidc-provider says is no part of the output, which nobody reads after the port.
console.info = console.warn = console.error;

const algorithm = process.argv[2];
const kinds = {
  RS256: ["rsa", { modulusLength: 2048 }],
  PS256: ["rsa", { modulusLength: 2048 }],
  ES256: ["ec", { namedCurve: "P-256" }],
  ES384: ["ec", { namedCurve: "P-384" }],
  EdDSA: ["ed25519", {}],
};
const { privateKey } = generateKeyPairSync(...kinds[algorithm]);
const { privateKey: otherKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = (key, kid, alg) => ({ ...key.export({ format: "jwk" }), kid, alg, use: "sig" });

const server = createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address();
const provider = new Provider(`http://127.0.0.1:${port}`, {
  // Its own tokens for logins are signed with RS256.
  jwks: { keys: [key(privateKey, "access", algorithm), key(otherKey, "login", "RS256")] },
  clients: [
    {
      client_id: "robot",
      client_secret: "s3cret",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: ["openid", "offline_access", "mcp:all", "mcp:echo"],
  features: {
    clientCredentials: { enabled: true },
    // Any name and password are right.
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_context, resource) => ({
        accessTokenFormat: "jwt",
        audience: resource,
        jwt: { sign: { alg: algorithm, kid: "access" } },
        scope: "mcp:all mcp:echo",
      }),
      useGrantedResource: () => true,
    },
  },
  pkce: { required: () => true },
});
server.on("request", provider.callback());
console.log(port);
