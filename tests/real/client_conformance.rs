//! The official conformance suite's client scenarios: dynamic-mcp is the client, `conformance_login.py` its host, its
//! user and their browser where there is a login, `conformance_client.py` its host and user elsewhere.

use crate::scratch::{Scratch, text};

/// Of every revision, and client credentials.
const SCENARIOS: [&str; 29] = [
    "2025-03-26-oauth-endpoint-fallback",
    "2025-03-26-oauth-metadata-backcompat",
    "authorization-server-migration",
    "basic-cimd",
    "client-credentials-basic",
    "client-credentials-jwt",
    "iss-normalized",
    "iss-not-advertised",
    "iss-supported",
    "iss-supported-missing",
    "iss-unexpected",
    "iss-wrong-issuer",
    "metadata-default",
    "metadata-issuer-mismatch",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "offline-access-not-supported",
    "offline-access-scope",
    "pre-registration",
    "resource-mismatch",
    "scope-from-scopes-supported",
    "scope-from-www-authenticate",
    "scope-omitted-when-undefined",
    "scope-retry-limit",
    "scope-step-up",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-none",
    "token-endpoint-auth-post",
];

/// About everything else.
const OTHERS: [&str; 10] = [
    "elicitation-sep1034-client-defaults",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "http-standard-headers",
    "initialize",
    "json-schema-2020-12-preservation",
    "json-schema-ref-no-deref",
    "sep-2322-client-request-state",
    "sse-retry",
    "tools_call",
];

#[test]
fn the_suites_logins_pass() {
    pass("conformance_login.py", SCENARIOS.map(|scenario| format!("auth/{scenario}")));
}

#[test]
fn the_suites_other_scenarios_of_clients_pass() {
    pass("conformance_client.py", OTHERS.map(str::to_owned));
}

fn pass(host: &str, scenarios: impl IntoIterator<Item = String>) {
    let Some(scratch) = Scratch::new() else { return };
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md")).unwrap();
    let suite = scratch.path("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let client = format!(
        "{} {} {}",
        text(&scratch.real.join("python1/bin/python")),
        text(&scratch.path(host)),
        env!("CARGO_BIN_EXE_dynamic-mcp")
    );
    for scenario in scenarios {
        let name = scenario.trim_start_matches("auth/");
        assert!(documented.contains(&format!("`{name}`")), "docs/protocol.md does not name {name}");
        let mut command = scratch.command(scratch.real.join("bin/node"));
        command.arg(&suite).args(["client", "--command", &client]);
        command.args(["--scenario", &scenario, "-o"]).arg(scratch.path("results"));
        drop(scratch.run(command));
    }
    scratch.assert_nothing_is_left();
}
