//! Servers that are started because a model reads about their tools.

use crate::support::{InputRecord, Proxy, config_of, merged, scripted_upstream, text_of};
use serde_json::{Value, json};

/// Starts dynamic-mcp with this server, and waits until its tools are known and it is closed.
fn start(entry: Value) -> Proxy {
    let mut proxy = Proxy::new(&config_of([("g", entry)]));
    proxy.wait_for_state("g", "discovered");
    proxy
}

/// How often a server was started.
fn starts(record: &InputRecord) -> usize {
    record.lines_of("initialize").len()
}

#[test]
fn a_server_whose_tools_are_described_is_there_when_it_is_called() {
    for arguments in [json!({"group": "g"}), json!({"group": "g", "tools": ["echo"]})] {
        let record = InputRecord::new();
        let mut proxy = start(record.attached_to(scripted_upstream(&[])));
        assert!(proxy.get_dynamic_tools(arguments).contains("echo"));
        proxy.wait_for_state("g", "connected");
        let closes_in = |proxy: &mut Proxy| proxy.group_status("g")["closesInMs"].as_u64().unwrap();
        assert!(closes_in(&mut proxy) <= 30_000, "without a call it is closed soon");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "hi"})), "hi");
        assert_eq!(starts(&record), 2, "for its tools at start, and for the call");
        assert!(closes_in(&mut proxy) > 30_000, "after a call it is idle like any server");
    }
}

#[test]
fn a_server_with_the_first_two_results_of_a_search_is_started() {
    let mut proxy = Proxy::new(&config_of([
        (
            "one",
            scripted_upstream(&["--name", "one", "--definitions", &tool("stoat", "Sleeps under the snow.")]),
        ),
        (
            "two",
            scripted_upstream(&[
                "--name",
                "two",
                "--definitions",
                &tool("marmot", "Hibernates under the hill."),
            ]),
        ),
    ]));
    for group in ["one", "two"] {
        proxy.wait_for_state(group, "discovered");
    }
    let search = |proxy: &mut Proxy, query: Value| {
        text_of(&proxy.call_meta_tool("search_dynamic_tools", query)).to_owned()
    };
    let text = search(&mut proxy, json!({"query": "under", "limit": 2}));
    assert!(text.contains("one / stoat") && text.contains("two / marmot"), "{text}");
    search(&mut proxy, json!({"query": "marmot", "limit": 1}));
    search(&mut proxy, json!({"query": "echo sleep", "group": "two"}));
    proxy.wait_for_state("two", "connected");
    assert_eq!(proxy.group_state("one"), "discovered");
}

/// A definition of a tool without arguments.
fn tool(name: &str, description: &str) -> String {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string()
}

#[test]
fn a_call_that_comes_early_waits_for_the_start_in_progress() {
    let record = InputRecord::new();
    let mut proxy = start(record.attached_to(scripted_upstream(&["--slow-start", "1500"])));
    proxy.get_dynamic_tools(json!({"group": "g"}));
    assert_eq!(proxy.group_state("g"), "discovered", "the answer does not wait for the server");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "hi"})), "hi");
    assert_eq!(starts(&record), 2);
}

#[test]
fn servers_that_a_start_may_disturb_are_not_started_before_they_are_called() {
    let reasons = [
        ("setting", json!({"prefetch": false})),
        ("stateful", json!({"stateful": true})),
        ("asks", json!({"tools": {"ask": ["echo"]}})),
        ("container", json!({"args": ["--name", "/usr/bin/docker"]})),
    ];
    let record = InputRecord::new();
    let entries =
        reasons.map(|(name, reason)| (name, record.attached_to(merged(scripted_upstream(&[]), reason))));
    let mut config = config_of(entries);
    config["mcpServers"]["last"] = scripted_upstream(&[]);
    let mut proxy = Proxy::new(&config);
    for group in reasons_of(&config) {
        proxy.wait_for_state(&group, "discovered");
    }
    for group in reasons_of(&config) {
        assert!(proxy.get_dynamic_tools(json!({ "group": group })).contains("echo"));
    }
    proxy.wait_for_state("last", "connected");
    assert_eq!(starts(&record), 4, "at the start of dynamic-mcp");
    for group in reasons_of(&config).iter().filter(|group| *group != "last") {
        assert_eq!(proxy.group_state(group), "discovered");
    }
}

/// The names of the servers, `last` at the end.
fn reasons_of(config: &Value) -> Vec<String> {
    let mut names: Vec<_> = config["mcpServers"].as_object().unwrap().keys().cloned().collect();
    names.sort_by_key(|name| name == "last");
    names
}

#[cfg(unix)]
#[test]
fn a_start_that_fails_changes_nothing_for_the_call_that_follows() {
    let record = InputRecord::new();
    let broken = record.path("broken");
    let entry = scripted_upstream(&[]);
    let script = "[ -e \"$0\" ] && exit 3; exec \"$1\"";
    let mut proxy = start(json!({"command": "sh", "args": ["-c", script, broken, entry["command"]]}));
    std::fs::write(&broken, "").unwrap();
    proxy.get_dynamic_tools(json!({"group": "g"}));
    proxy.wait_for_log("connect failed");
    crate::support::wait_until("the attempt is over", || proxy.group_status("g")["connecting"] == false);
    assert_eq!(proxy.group_state("g"), "discovered");
    assert_eq!(proxy.status()["status"], "ready");
    std::fs::remove_file(&broken).unwrap();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "hi"})), "hi", "at once, without a cool-down");
}
