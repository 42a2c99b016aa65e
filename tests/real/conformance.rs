//! The official conformance suite's server scenarios: what passes against a server of the official Python SDK has to
//! pass through the proxy.

use serde_json::{Value, json};

use crate::scratch::{Scratch, report, text};

const REVISION: &str = "2025-11-25";

fn results(scratch: &Scratch, prefix: &str, server: &[String]) -> serde_json::Map<String, Value> {
    let mut command = scratch.command(scratch.real.join("python1/bin/python"));
    let suite = scratch.path("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    command.arg(scratch.path("conformance.py")).arg(scratch.real.join("bin/node")).arg(suite);
    command.args([prefix, REVISION]).args(server);
    report(&scratch.run(command)).as_object().unwrap().clone()
}

#[test]
fn what_passes_directly_passes_through_the_proxy() {
    let Some(scratch) = Scratch::new() else { return };
    let python = text(&scratch.real.join("python1/bin/python"));
    let server = [python, text(&scratch.path("conformance_server.py"))];
    let direct = results(&scratch, "", &server);
    let entry = json!({ "command": server[0], "args": [server[1]] });
    let config = json!({ "mcpServers": { "fx": entry }, "settings": { "surface": "flat" } });
    let config = scratch.write("conformance.json", &config.to_string());
    let proxy =
        [env!("CARGO_BIN_EXE_dynamic-mcp").into(), "--no-cache".into(), "--config".into(), text(&config)];
    let proxied = results(&scratch, "fx__", &proxy);
    let passed = |results: &serde_json::Map<String, Value>| -> Vec<String> {
        results.iter().filter(|(_, checks)| checks[1] == 0).map(|(name, _)| name.clone()).collect()
    };
    let direct = passed(&direct);
    assert!(direct.len() >= 30, "the server itself: {direct:?}");
    let lost: Vec<_> = direct.iter().filter(|name| !passed(&proxied).contains(name)).collect();
    assert!(lost.is_empty(), "lost in the proxy: {lost:?}\n{proxied:?}");
    scratch.assert_nothing_is_left();
}
