//! The client scenarios of the official conformance suite, with dynamic-mcp as the client. `conformance_login.py` plays
//! the host, the user and the browser in the scenarios about logins, and `conformance_client.py` the host and the user in
//! the others.

use crate::workspace::{Workspace, path_string};

/// The scenarios about logins, of every revision and for client credentials.
const LOGIN_SCENARIOS: [&str; 29] = [
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

const OTHER_SCENARIOS: [&str; 10] = [
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
fn login_scenarios_pass() {
    assert_scenarios_pass("login", "conformance_login.py", "auth/", &LOGIN_SCENARIOS);
}

#[test]
fn other_client_scenarios_pass() {
    assert_scenarios_pass("client", "conformance_client.py", "", &OTHER_SCENARIOS);
}

/// Asserts that these scenarios pass with this script as the host, and that docs/protocol.md has their number. `kind` is
/// their name on that page, and `prefix` begins each of their names in the suite.
fn assert_scenarios_pass(kind: &str, host: &str, prefix: &str, scenarios: &[&str]) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md")).unwrap();
    let sentence = format!(" {} {kind} scenarios pass, with every check", scenarios.len());
    assert!(page.contains(&sentence), "docs/protocol.md does not say:{sentence}");
    let Some(workspace) = Workspace::new() else { return };
    let suite = workspace.path("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let client = format!(
        "{} {} {}",
        path_string(&workspace.install_dir.join("python1/bin/python")),
        path_string(&workspace.path(host)),
        env!("CARGO_BIN_EXE_dynamic-mcp")
    );
    for scenario in scenarios {
        let scenario = format!("{prefix}{scenario}");
        let mut command = workspace.command(workspace.install_dir.join("bin/node"));
        command.arg(&suite).args(["client", "--command", &client]);
        command.args(["--scenario", &scenario, "-o"]).arg(workspace.path("results"));
        drop(workspace.run(command));
    }
    workspace.assert_no_process_left();
}
