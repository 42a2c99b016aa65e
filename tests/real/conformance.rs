//! The official conformance suite's server scenarios: what passes against a server of the official Python SDK has to
//! pass through the proxy, check by check.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use serde_json::json;

use crate::scratch::{Scratch, report, text};

/// Of each scenario, what came of each of its checks.
type Results = BTreeMap<String, BTreeMap<String, String>>;

struct Revision {
    name: &'static str,
    /// The fixture, and the installation of the SDK that it is written for.
    server: &'static str,
    python: &'static str,
    /// So many scenarios without a failure, and checks, pass directly: a fixture that rots is seen.
    passing: (usize, usize),
}

#[test]
fn what_passes_directly_passes_through_the_proxy() {
    let server = "conformance_handshake.py";
    run(&Revision { name: "2025-11-25", server, python: "python1", passing: (31, 74) });
}

#[test]
fn what_passes_directly_passes_through_the_proxy_without_a_handshake() {
    let server = "conformance_stateless.py";
    run(&Revision { name: "2026-07-28", server, python: "python2", passing: (49, 197) });
}

fn run(revision: &Revision) {
    let Some(scratch) = Scratch::new() else { return };
    let python = text(&scratch.real.join(revision.python).join("bin/python"));
    let server = [python, text(&scratch.path(revision.server))];
    let entry = json!({ "command": server[0], "args": [server[1]] });
    let config = json!({ "mcpServers": { "fx": entry }, "settings": { "surface": "flat" } });
    let config = text(&scratch.write("conformance.json", &config.to_string()));
    let proxy = [env!("CARGO_BIN_EXE_dynamic-mcp").into(), "--no-cache".into(), "--config".into(), config];
    let (direct, proxied) = thread::scope(|scope| {
        let proxied = scope.spawn(|| results(&scratch, revision, "fx__", &proxy));
        (results(&scratch, revision, "", &server), proxied.join().unwrap())
    });
    let lost: Vec<_> = passed(&direct)
        .filter(|(scenario, check)| proxied[*scenario].get(*check).is_none_or(|status| status != "SUCCESS"))
        .map(|(scenario, check)| (scenario, check, proxied[scenario].get(check)))
        .collect();
    assert!(lost.is_empty(), "lost in the proxy: {lost:#?}");
    let whole = direct.values().filter(|checks| passes(checks)).count();
    assert_eq!((whole, passed(&direct).count()), revision.passing, "the server itself: {direct:#?}");
    compare(revision.name, &listed(&direct));
    scratch.assert_nothing_is_left();
}

fn results(scratch: &Scratch, revision: &Revision, prefix: &str, server: &[String]) -> Results {
    let mut command = scratch.command(scratch.real.join("python1/bin/python"));
    let suite = scratch.path("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    command.arg(scratch.path("conformance.py")).arg(scratch.real.join("bin/node")).arg(suite);
    command.args([prefix, revision.name]).args(server);
    serde_json::from_value(report(&scratch.run(command))).unwrap()
}

fn passed(results: &Results) -> impl Iterator<Item = (&str, &str)> {
    results.iter().flat_map(|(scenario, checks)| {
        let passed = checks.iter().filter(|(_, status)| *status == "SUCCESS");
        passed.map(|(check, _)| (scenario.as_str(), check.as_str()))
    })
}

/// A scenario that passes; one that the suite leaves out does not.
fn passes(checks: &BTreeMap<String, String>) -> bool {
    checks.values().any(|status| status == "SUCCESS")
        && !checks.values().any(|status| status.starts_with("FAILURE"))
}

/// The scenarios as docs/protocol.md names them.
fn listed(results: &Results) -> String {
    let (passing, others): (Vec<_>, Vec<_>) = results.iter().partition(|(_, checks)| passes(checks));
    let scenarios: Vec<_> = passing
        .iter()
        .map(|(name, checks)| {
            format!("`{name}` {}", checks.values().filter(|status| *status == "SUCCESS").count())
        })
        .collect();
    let others: Vec<_> = others.iter().map(|(name, _)| format!("`{name}`")).collect();
    let (whole, checks) = (scenarios.len(), passed(results).count());
    let (scenarios, others) = (scenarios.join(", "), others.join(", "));
    format!("{whole} of {} scenarios, {checks} checks: {scenarios}. Not: {others}.\n", results.len())
}

/// Compares the list with the one in docs/protocol.md, or writes it there.
fn compare(revision: &str, listed: &str) {
    // The tests of both revisions write to that file.
    static PAGE: Mutex<()> = Mutex::new(());
    let _alone = PAGE.lock();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md");
    let begin = format!("<!-- conformance, {revision}: written by tests/real/conformance.rs -->\n");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(&begin).unwrap();
    let (there, after) = rest.split_once("<!-- end -->\n").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{begin}{listed}<!-- end -->\n{after}")).unwrap();
    } else {
        assert_eq!(there, listed, "UPDATE_DOCS=1 cargo test --test real conformance");
    }
}
