//! What a client's entry for the program chooses for its session: `--first-list-wait`, `--max-revision` and
//! `--lenient-handshake`.

use serde_json::{Value, json};

use crate::support::stateless::REVISION;
use crate::support::{Proxy, ProxyCommand, config_of, scripted_upstream, text_of};
use std::time::Duration;
use tokio::time::Instant;

/// A tool for which a search has words that no other tool has.
const RARE: &str =
    r#"{"name":"marmot","description":"Lets the marmot hibernate.","inputSchema":{"type":"object"}}"#;

/// The names of the tools in a response to `tools/list`.
fn names(response: &Value) -> Vec<&str> {
    let tools = response["result"]["tools"].as_array().unwrap_or_else(|| panic!("{response}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Starts the program with a flat list, and a server that needs half a second to start.
fn start_flat(options: &[&str], other: Value) -> Proxy {
    let config = config_of([("slow", scripted_upstream(&["--slow-start", "500"])), ("other", other)]);
    let args = [&["--surface", "flat"], options].concat();
    ProxyCommand::new().args(&args).config(&config).start()
}

#[test]
fn the_first_list_waits_for_all_servers_if_it_may() {
    for is_stateless in [false, true] {
        let mut proxy = start_flat(&["--first-list-wait", "10s"], scripted_upstream(&[]));
        let list = if is_stateless {
            proxy.stateless_request("tools/list", json!({}))
        } else {
            proxy.handshake();
            proxy.request("tools/list", json!({}))
        };
        let listed = names(&list);
        assert!(listed.contains(&"slow__echo") && listed.contains(&"other__echo"), "{listed:?}");
        // Every server is known, so the list needs none of our other tools.
        assert!(listed.contains(&"get_status") && !listed.contains(&"call_dynamic_tool"), "{listed:?}");
        if is_stateless {
            assert_eq!(list["result"]["ttlMs"], 300_000);
        } else {
            assert_eq!(proxy.request("tools/list", json!({}))["result"], list["result"]);
            // It has asked for nothing else, so nothing else can have changed for it.
            proxy.assert_no_message();
        }
    }
}

#[test]
fn a_list_that_waited_has_what_was_found_until_then() {
    let mut proxy = start_flat(&["--first-list-wait", "2s"], scripted_upstream(&["--hang", "initialize"]));
    proxy.handshake();
    // Other requests are answered meanwhile.
    let list = proxy.send_request("tools/list", json!({}));
    proxy.request("ping", json!({}));
    let list = proxy.response(list).json();
    let listed = names(&list);
    assert!(listed.contains(&"slow__echo") && listed.contains(&"call_dynamic_tool"), "{listed:?}");
    assert_eq!(proxy.request("tools/list", json!({}))["result"], list["result"], "at once");
    assert_eq!(proxy.status()["status"], "initializing");
}

#[test]
fn the_first_search_waits_for_servers_whose_tools_are_being_read() {
    let config = config_of([
        ("other", scripted_upstream(&[])),
        ("slow", scripted_upstream(&["--slow-start", "500", "--definitions", RARE])),
    ]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    let result = proxy.call_meta_tool("search_dynamic_tools", json!({"query": "hibernate the marmot"}));
    assert!(text_of(&result).starts_with("slow / marmot"), "{result}");
}

#[test]
fn the_first_search_waits_for_three_seconds_at_most() {
    let config = config_of([
        ("hangs", scripted_upstream(&["--hang", "initialize"])),
        ("other", scripted_upstream(&["--definitions", RARE])),
    ]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    let mut times = [Duration::ZERO; 2];
    for time in &mut times {
        let begin = Instant::now();
        let result = proxy.call_meta_tool("search_dynamic_tools", json!({"query": "hibernate the marmot"}));
        *time = begin.elapsed();
        let text = text_of(&result);
        assert!(text.starts_with("other / marmot"), "{text}");
        assert!(text.contains("their tools are not known yet: hangs"), "{text}");
    }
    assert!(times[0] > Duration::from_secs(1) && times[1] < Duration::from_secs(1), "{times:?}");
}

#[test]
fn the_wait_is_limited() {
    let mut proxy = start_flat(&["--first-list-wait", "11s"], scripted_upstream(&[]));
    proxy.handshake();
    let problems = proxy.status()["problems"].to_string();
    assert!(problems.contains("--first-list-wait: expected at most 10 s"), "{problems}");
    assert!(names(&proxy.request("tools/list", json!({}))).contains(&"get_status"));
}

#[test]
fn a_client_is_offered_no_later_revision_than_its_entry_allows() {
    let config = config_of([("g", scripted_upstream(&[]))]);
    for (latest, asked, offered, supported) in [
        (
            "2025-11-25",
            "2025-11-25",
            "2025-11-25",
            &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"][..],
        ),
        ("2025-06-18", "2025-11-25", "2025-06-18", &["2025-06-18", "2025-03-26", "2024-11-05"]),
        ("2025-06-18", "2024-11-05", "2024-11-05", &["2025-06-18", "2025-03-26", "2024-11-05"]),
    ] {
        let mut proxy = ProxyCommand::new().args(&["--max-revision", latest]).config(&config).start();
        for method in ["server/discover", "tools/list"] {
            let refusal = proxy.stateless_request(method, json!({}));
            assert_eq!(refusal["error"]["code"], -32022, "{refusal}");
            assert_eq!(refusal["error"]["data"], json!({"supported": supported, "requested": REVISION}));
        }
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "e", "version": "1"}});
        let answer = proxy.request("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], offered);
        proxy.notify("notifications/initialized", json!({}));
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    }
    let mut proxy =
        ProxyCommand::new().args(&["--max-revision", "2025-01-01"]).config(&config).start_initialized();
    let problems = proxy.status()["problems"].to_string();
    assert!(problems.contains("--max-revision: expected 2026-07-28 or 2025-11-25 or"), "{problems}");
}

#[test]
fn a_lenient_handshake_may_be_repeated_and_need_not_be_completed() {
    let config = config_of([("g", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().args(&["--lenient-handshake"]).config(&config).start();
    assert_eq!(proxy.error_code("tools/list", json!({})), -32005, "nothing is served before initialize");
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "e", "version": "1"}});
    for _ in 0..2 {
        let answer = proxy.request("initialize", params.clone());
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        proxy.request("ping", json!({}));
        assert!(names(&proxy.request("tools/list", json!({}))).contains(&"get_status"));
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    }
    proxy.notify("notifications/initialized", json!({}));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "y"})), "y");
}
