//! The server scenarios of the official conformance suite: each check that passes with a server of the official Python
//! SDK passes through dynamic-mcp, too.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use serde_json::json;

use crate::workspace::{Workspace, parse_report, path_string};

/// The status of each check of each scenario.
type CheckResults = BTreeMap<String, BTreeMap<String, String>>;

/// The scenarios of one revision.
struct Suite {
    /// What docs/protocol.md calls it.
    label: &'static str,
    /// The revision; with a slash and names after it, only these scenarios.
    revision: &'static str,
    /// The script of the server.
    server: &'static str,
    /// The installation of the SDK that the script needs.
    python: &'static str,
    /// How many scenarios and checks pass with the server itself, so that a broken server is noticed.
    passing: (usize, usize),
}

#[test]
fn checks_that_pass_directly_pass_through_the_proxy() {
    let server = "conformance_handshake.py";
    run(&Suite { label: "2025-11-25", revision: "2025-11-25", server, python: "python1", passing: (31, 74) });
}

#[test]
fn checks_that_pass_directly_pass_through_the_proxy_without_a_handshake() {
    let server = "conformance_stateless.py";
    run(&Suite {
        label: "2026-07-28",
        revision: "2026-07-28",
        server,
        python: "python2",
        passing: (49, 197),
    });
}

/// The first scenario waits for the list of skills, so that the others find a connected server.
#[test]
fn checks_of_the_skills_extension_pass_through_the_proxy() {
    let revision =
        "2026-07-28/sep-2640-skills-enumeration,sep-2640-skills-manifest,sep-2640-skills-directory";
    let server = "conformance_skills.py";
    run(&Suite { label: "skills", revision, server, python: "python2", passing: (3, 45) });
}

/// The scenarios of 2025-11-25 that need a session, which `serve --http` does not have. docs/team.md has the reasons.
const NEED_A_SESSION: [&str; 10] = [
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "logging-set-level",
    "resources-subscribe",
    "resources-unsubscribe",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "tools-call-elicitation",
    "tools-call-sampling",
    "tools-call-with-logging",
];

#[test]
fn checks_that_pass_directly_pass_over_http() {
    run_over_http("2025-11-25", "conformance_handshake.py", "python1", &NEED_A_SESSION);
}

#[test]
fn checks_that_pass_directly_pass_over_http_without_a_handshake() {
    run_over_http("2026-07-28", "conformance_stateless.py", "python2", &[]);
}

/// Runs the scenarios against `serve --http`, and compares them with those of the server itself. `excepted`: the only ones
/// that may fail, and have to.
fn run_over_http(revision: &'static str, server: &'static str, python: &'static str, excepted: &[&str]) {
    let Some(workspace) = Workspace::new() else { return };
    let suite = Suite { label: revision, revision, server, python, passing: (0, 0) };
    let direct = run_suite(&workspace, &suite, "", &command_of(&workspace, &suite));
    let command = command_of(&workspace, &suite);
    let entry = json!({ "command": command[0], "args": [command[1]], "all_users": true });
    let config =
        json!({ "mcpServers": { "fx": entry }, "settings": { "surface": "flat", "lazy_startup": "eager" } });
    let config = path_string(&workspace.write("conformance.json", &config.to_string()));
    let options = ["--no-cache", "--config", &config, "serve", "--http", "127.0.0.1:0"].map(str::to_owned);
    let program = [vec![env!("CARGO_BIN_EXE_dynamic-mcp").to_owned()], options.to_vec()].concat();
    let over_http = format!("http:{revision}");
    let over_http = run_suite(&workspace, &Suite { revision: over_http.leak(), ..suite }, "fx__", &program);
    let failed: Vec<_> = passed(&direct)
        .filter(|(scenario, _)| !excepted.contains(scenario))
        // INFO says that there is nothing to check: answers are JSON and no stream, and there is no session id.
        .filter(|(scenario, check)| {
            let status = over_http[*scenario].get(*check);
            status.is_none_or(|status| !matches!(status.as_str(), "SUCCESS" | "INFO"))
        })
        .map(|(scenario, check)| (scenario, check, over_http[scenario].get(check)))
        .collect();
    assert!(failed.is_empty(), "failed only over HTTP: {failed:#?}");
    for scenario in excepted {
        assert!(passes(&direct[*scenario]) && !passes(&over_http[*scenario]), "{scenario} needs no session");
    }
    assert_documented(&format!("serve --http, {revision}"), &summary(&over_http));
    workspace.assert_no_process_left();
}

/// The command of the server.
fn command_of(workspace: &Workspace, suite: &Suite) -> [String; 2] {
    let python = path_string(&workspace.install_dir.join(suite.python).join("bin/python"));
    [python, path_string(&workspace.path(suite.server))]
}

fn run(suite: &Suite) {
    let Some(workspace) = Workspace::new() else { return };
    let server = command_of(&workspace, suite);
    let entry = json!({ "command": server[0], "args": [server[1]] });
    let config = json!({ "mcpServers": { "fx": entry }, "settings": { "surface": "flat" } });
    let config = path_string(&workspace.write("conformance.json", &config.to_string()));
    let proxy = [env!("CARGO_BIN_EXE_dynamic-mcp").into(), "--no-cache".into(), "--config".into(), config];
    let (direct, proxied) = thread::scope(|scope| {
        let proxied = scope.spawn(|| run_suite(&workspace, suite, "fx__", &proxy));
        (run_suite(&workspace, suite, "", &server), proxied.join().unwrap())
    });
    let failed: Vec<_> = passed(&direct)
        .filter(|(scenario, check)| proxied[*scenario].get(*check).is_none_or(|status| status != "SUCCESS"))
        .map(|(scenario, check)| (scenario, check, proxied[scenario].get(check)))
        .collect();
    assert!(failed.is_empty(), "failed only through the proxy: {failed:#?}");
    let scenarios = direct.values().filter(|checks| passes(checks)).count();
    assert_eq!((scenarios, passed(&direct).count()), suite.passing, "the server itself: {direct:#?}");
    assert_documented(suite.label, &summary(&direct));
    workspace.assert_no_process_left();
}

/// Runs all scenarios against a server. `prefix`: what the names of its tools and prompts begin with.
fn run_suite(workspace: &Workspace, suite: &Suite, prefix: &str, server: &[String]) -> CheckResults {
    let mut command = workspace.command(workspace.install_dir.join("python1/bin/python"));
    let program = workspace.path("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    command.arg(workspace.path("conformance.py")).arg(workspace.install_dir.join("bin/node")).arg(program);
    command.args([prefix, suite.revision]).args(server);
    serde_json::from_value(parse_report(&workspace.run(command))).unwrap()
}

/// The checks that passed, each with its scenario.
fn passed(results: &CheckResults) -> impl Iterator<Item = (&str, &str)> {
    results.iter().flat_map(|(scenario, checks)| {
        let passed = checks.iter().filter(|(_, status)| *status == "SUCCESS");
        passed.map(|(check, _)| (scenario.as_str(), check.as_str()))
    })
}

/// Whether a scenario passed. A skipped scenario did not.
fn passes(checks: &BTreeMap<String, String>) -> bool {
    checks.values().any(|status| status == "SUCCESS")
        && !checks.values().any(|status| status.starts_with("FAILURE"))
}

/// The scenarios as in docs/protocol.md.
fn summary(results: &CheckResults) -> String {
    let others: Vec<_> =
        results.iter().filter(|(_, checks)| !passes(checks)).map(|(name, _)| format!("`{name}`")).collect();
    let (count, checks) = (results.len() - others.len(), passed(results).count());
    let others = if others.is_empty() { String::new() } else { format!(" Not: {}.", others.join(", ")) };
    format!("{count} of {} scenarios pass, with {checks} checks.{others}\n", results.len())
}

/// Compares the summary with that in docs/protocol.md, or writes it if `UPDATE_DOCS` is set.
fn assert_documented(label: &str, summary: &str) {
    // The tests of all suites write to the file.
    static FILE_LOCK: Mutex<()> = Mutex::new(());
    let _lock = FILE_LOCK.lock();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md");
    let begin = format!("<!-- conformance, {label}: written by tests/real/conformance.rs -->\n");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(&begin).unwrap();
    let (documented, after) = rest.split_once("<!-- end -->\n").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{begin}{summary}<!-- end -->\n{after}")).unwrap();
    } else {
        assert_eq!(documented, summary, "UPDATE_DOCS=1 cargo test --test real conformance");
    }
}
