//! `tools.override`: what clients see of single tools, on every route, and what the server gets.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shell::Shell;
use crate::support::{
    InputRecord, Proxy, ProxyCommand, config_of, full_upstream, merged, pure_config, scripted_upstream,
};

const RUN: &str = r#"{"name":"run","x":1.50,"description":"Old text.","inputSchema":{"type":"object","properties":{"q":{"type":"string","n":1.50},"secret":{},"mode":{"default":{"k":1.0}}},"required":["q","mode"]}}"#;
/// `RUN` as clients see it, under a name that follows.
const SHOWN: &str = r#","x":1.50,"description":"Runs one query.","inputSchema":{"type":"object","properties":{"q":{"type":"string","n":1.50}},"required":["q"]}"#;

fn overrides() -> Value {
    json!({"override": {
        "run": {"name": "run_query", "description": "Runs one query.", "hidden_args": ["secret", "mode"]},
        "echo": {"name": "sleep"},
    }})
}

/// The scripted upstream with `RUN`, as the group `g` with these rules.
fn config(record: &InputRecord, rules: Value) -> Value {
    let entry = record.attached_to(scripted_upstream(&["--definitions", RUN]));
    pure_config([("g", merged(entry, json!({"cwd": "/", "tools": rules})))])
}

#[test]
fn every_list_shows_the_override_and_the_rest_byte_for_byte() {
    let record = InputRecord::new();
    let mut proxy = ProxyCommand::new()
        .args(&["--surface", "flat"])
        .config(&merged(config(&record, overrides()), json!({"settings": {"lazy_startup": "eager"}})))
        .start_initialized();
    proxy.connect(["g"]);
    let all = proxy.raw_result("tools/list", r#"{"lazy":false}"#);
    assert!(all.contains(&format!(r#"{{"name":"g__run_query"{SHOWN}"#)), "{all}");
    let described = proxy.raw_result("tools/describe", r#"{"name":"g__run_query"}"#);
    assert!(described.contains(SHOWN), "{described}");
    let text = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["run_query"], "lazy": false}));
    assert!(text.contains(SHOWN), "{text}");
    let stubs = proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(stubs.contains("run_query") && stubs.contains("Runs one query."), "{stubs}");
    let found = proxy.call_meta_tool("search_dynamic_tools", json!({"query": "runs one query"})).to_string();
    assert!(found.contains("run_query"), "{found}");
    let flat = proxy.raw_result("tools/list", "{}");
    assert!(flat.contains(r#""g__run_query""#), "{flat}");
    for text in [&all, &described, &text, &stubs, &found, &flat] {
        assert!(
            !text.contains("Old text") && !text.contains("secret") && !text.contains("g__echo"),
            "{text}"
        );
    }
    // `sleep` belongs to `echo`.
    assert_eq!(flat.matches(r#""g__sleep""#).count(), 1, "{flat}");
    proxy.wait_for_log("left out 1 tool");
}

#[test]
fn calls_use_the_new_name_and_the_server_gets_its_own() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&config(&record, overrides()));
    let sent = json!({"q": "x", "mode": {"k": 1.0}}).to_string();
    assert_eq!(proxy.call_text("g", "run_query", json!({"q": "x"})), sent);
    let direct = json!({"name": "g__run_query", "arguments": {"q": "x"}});
    let result = proxy.request("tools/call", direct)["result"]["content"][0]["text"].take();
    assert_eq!(result, sent);
    for n in 0..2 {
        let received = record.wait_for("tools/call", n);
        assert!(received.line.contains(r#""name":"run""#), "{}", received.line);
        assert!(received.line.contains(r#""mode":{"k":1.0}"#), "{}", received.line);
    }
    assert_eq!(proxy.call_text("g", "sleep", json!({"text": "it is echo"})), "it is echo");
    for (name, args, text) in [
        ("run", json!({"q": "x"}), "The nearest tools: \"run_query\""),
        ("echo", json!({"text": "x"}), "has no tool \"echo\""),
        ("run_query", json!({"q": "x", "secret": 1}), "the config hides its argument \"secret\""),
        ("run_query", json!({"q": "x", "mode": 1}), "the config hides its argument \"mode\""),
        ("run_query", json!({"args": {"q": "x", "mode": 1}}), "the config hides its argument \"mode\""),
    ] {
        let error = proxy.call_failure("g", name, args);
        assert!(error.contains(text), "{error}");
    }
    assert_eq!(record.lines_of("tools/call").len(), 3);
}

#[test]
fn rules_go_by_the_names_of_the_server() {
    let record = InputRecord::new();
    let rules = merged(overrides(), json!({"deny": ["run"], "ask": ["echo"], "read_only": ["echo"]}));
    let mut proxy = Proxy::new(&config(&record, rules));
    let stubs = proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(!stubs.contains("run_query") && stubs.contains("sleep"), "{stubs}");
    assert!(proxy.call_failure("g", "run_query", json!({"q": "x"})).contains("no tool"));
    let refused = proxy.call_failure("g", "sleep", json!({"text": "x"}));
    assert!(refused.contains("confirm each call of tool \"sleep\""), "{refused}");
    assert_eq!(record.lines_of("tools/call").len(), 0);
}

#[test]
fn a_changed_override_needs_no_new_connection_and_the_cache_has_what_the_server_said() {
    let (record, cache) = (InputRecord::new(), TempDir::new().unwrap());
    let start = |rules: Value| {
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        command.config(&config(&record, rules)).start_initialized()
    };
    let stubs = |proxy: &mut Proxy| proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    let mut proxy = start(overrides());
    let pid = proxy.upstream_pid("g");
    let other = json!({"override": {"run": {"name": "query"}}});
    std::fs::write(proxy.config_file(), config(&record, other).to_string()).unwrap();
    proxy.wait_for_log("the settings of this group changed");
    crate::support::wait_until("the new name is in force", || stubs(&mut proxy).contains("query: Old text"));
    assert_eq!(proxy.upstream_pid("g"), pid);
    assert_eq!(proxy.call_text("g", "query", json!({"q": "x", "mode": 2})), r#"{"q":"x","mode":2}"#);
    proxy.close_stdin();
    proxy.wait_for_exit();
    for (rules, name) in [(json!({}), "run"), (overrides(), "run_query")] {
        let mut proxy = start(rules);
        assert!(stubs(&mut proxy).contains(&format!("{name}: ")), "{}", stubs(&mut proxy));
        assert_eq!(proxy.group_status("g")["cached"], true);
    }
}

#[test]
fn a_pinned_tool_is_pinned_as_the_server_has_it() {
    let record = InputRecord::new();
    let file = record.path("definitions");
    // With `--protocol`, tools whose names begin like this return their arguments.
    let run = RUN.replace(r#""run""#, r#""long_run""#);
    std::fs::write(&file, &run).unwrap();
    let entry = full_upstream(&["--definitions-file", file.to_str().unwrap()]);
    let rules = json!({"override": {"long_run": {"name": "run_query"}}});
    let config = pure_config([("g", merged(entry, json!({"pin_tools": true, "tools": rules})))]);
    let shell = Shell::new(&config);
    let call = ["call", "g", "run_query", r#"{"q":"x","mode":1}"#];
    let first = shell.run(&call);
    assert_eq!(first.0, 0, "{first:?}");
    std::fs::write(&file, run.replace("Old text", "Evil text")).unwrap();
    let (code, stdout, stderr) = shell.run(&call);
    assert_ne!(code, 0, "{stdout}{stderr}");
    assert!(format!("{stdout}{stderr}").contains("dynamic-mcp approve g long_run"), "{stdout}{stderr}");
    assert_eq!(shell.run(&["approve", "g", "long_run"]).0, 0);
    assert_eq!(shell.run(&call).0, 0);
}

#[test]
fn check_says_what_is_overridden_and_what_has_no_effect() {
    let rules = json!({"override": {
        "run": {"name": "query", "description": "x", "hidden_args": ["q", "secret", "typo"]},
        "echo": {"name": "sleep"},
        "nothing": {"name": "x"},
    }});
    let entry = merged(scripted_upstream(&["--definitions", RUN]), json!({"tools": rules}));
    let shell = Shell::new(&config_of([("g", entry)]));
    let (code, stdout, _) = shell.run(&["check"]);
    assert_eq!(code, 0, "{stdout}");
    for line in [
        r#"overridden: "run": listed as "query", another description, without argument "secret", without argument "typo""#,
        r#"`hidden_args` of "run": "q": it stays visible: it is required"#,
        r#"`hidden_args` of "run": "typo": the tool has no such argument"#,
        r#"`tools.override` names "nothing", which the server does not have"#,
        r#"left out: "sleep", because `tools.override` gives its name to "echo""#,
    ] {
        assert!(stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(line), "{line}\n{stdout}");
    }
    let broken = json!({"override": {"run": {"name": "a b"}, "echo": {"name": "sleep"}, "sleep": {"description": "x"}}});
    let entry = merged(scripted_upstream(&[]), json!({"tools": broken}));
    let (code, stdout, stderr) = Shell::new(&config_of([("g", entry)])).run(&["check"]);
    let text = format!("{stdout}{stderr}");
    assert_ne!(code, 0, "{text}");
    for part in ["\"a b\" is no name for a tool", "both \"echo\" and \"sleep\" would be named \"sleep\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
