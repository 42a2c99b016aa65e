//! The session that a client sees: its phases, and what is refused in which.

use serde_json::{Value, json};

use crate::support::{Proxy, SOON, Setup, one, servers, upstream, with};
use nix::sys::signal::Signal;
use std::time::Duration;
use tokio::time::Instant;

mod batches;
mod lines;
mod stateless;
mod surface;

/// Started, and not a word said.
fn silent() -> Proxy {
    Setup::new().config(&one(&[])).start()
}

fn initialize(revision: &str) -> Value {
    json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}})
}

/// `initialize` is answered, `notifications/initialized` not sent.
fn greeted() -> Proxy {
    let mut proxy = silent();
    let answer = proxy.ask("initialize", initialize("2025-11-25"));
    assert!(answer["result"].is_object(), "{answer}");
    proxy
}

#[test]
fn cannot_list_resources_before_initialize() {
    assert_eq!(silent().refused("resources/list", json!({})), -32005);
}

#[test]
fn cannot_call_a_tool_before_initialize() {
    assert_eq!(silent().refused("tools/call", json!({"name": "get_status", "arguments": {}})), -32005);
}

#[test]
fn cannot_get_a_prompt_before_initialize() {
    assert_eq!(silent().refused("prompts/get", json!({"name": "greet"})), -32005);
}

#[test]
fn ping_allowed_during_initialization() {
    let mut proxy = silent();
    assert_eq!(proxy.ask("ping", json!({}))["result"], json!({}));
    proxy.ask("initialize", initialize("2025-11-25"));
    assert_eq!(proxy.ask("ping", json!({}))["result"], json!({}), "between the two halves of the handshake");
}

#[test]
fn initialize_response_allowed() {
    let answer = silent().ask("initialize", initialize("2025-11-25"));
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    let capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    });
    assert_eq!(result["capabilities"], capabilities);
    assert_eq!(result["serverInfo"]["name"], "dynamic-mcp");
    assert!(result["instructions"].as_str().unwrap().contains("(groups): g."), "{result}");
}

#[test]
fn transition_to_operation_on_the_initialized_notification() {
    let mut proxy = greeted();
    let held = proxy.send("tools/list", json!({}));
    let ping = proxy.send("ping", json!({}));
    assert_eq!(proxy.next().unwrap().id().unwrap(), ping.to_string(), "only the ping is answered");
    proxy.notify("notifications/initialized", json!({}));
    assert!(proxy.answer(held).json()["result"]["tools"].is_array());
}

#[test]
fn all_requests_allowed_during_operation() {
    let mut proxy = Proxy::new(&one(&[]));
    assert_eq!(proxy.ask("ping", json!({}))["result"], json!({}));
    assert!(proxy.ask("tools/list", json!({}))["result"]["tools"].is_array());
    assert_eq!(proxy.status()["status"], "ready");
    assert_eq!(proxy.text("g", "echo", json!({"text": "hello"})), "hello");
}

#[test]
fn shutdown_rejects_all_requests() {
    let mut proxy = Proxy::new(&one(&["--ignore-eof", "--ignore-term"]));
    proxy.upstream_pid("g");
    proxy.signal(Signal::SIGTERM);
    proxy.until_logged("told to stop");
    let methods = ["ping", "tools/list", "initialize", "resources/list", "no/such", "server/discover"];
    let ids = methods.map(|method| proxy.send(method, json!({})));
    for (method, id) in methods.iter().zip(ids) {
        assert_eq!(proxy.answer(id).code(), Some(-31004), "{method}");
    }
    assert!(proxy.ends().0.success());
}

#[test]
fn initialize_during_operation_rejected() {
    let mut greeted = greeted();
    assert_eq!(greeted.refused("initialize", initialize("2025-11-25")), -32005);
    let mut proxy = Proxy::new(&one(&[]));
    let answer = proxy.ask("initialize", initialize("2025-11-25"));
    assert_eq!(answer["error"]["code"], -32005);
    assert!(answer["error"]["message"].as_str().unwrap().contains("already initialized"), "{answer}");
    assert_eq!(proxy.status()["status"], "ready", "the session goes on");
}

#[test]
fn capability_check_not_negotiated_refused() {
    // No server is to be asked for these, so they are not advertised.
    let features = json!({"features": {"resources": false, "prompts": false}});
    let mut proxy = Proxy::new(&servers([("g", with(upstream(&["--resources", "--prompts"]), features))]));
    proxy.upstream_pid("g");
    for (method, capability) in [
        ("resources/list", "resources"),
        ("resources/read", "resources"),
        ("prompts/get", "prompts"),
        // Of the stateless era.
        ("tasks/update", "tasks"),
    ] {
        let answer = proxy.ask(method, json!({}));
        assert_eq!(answer["error"]["code"], -32004, "{method}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().ends_with(capability), "{answer}");
    }
}

#[test]
fn proper_error_codes_during_initialization() {
    let mut proxy = silent();
    for method in ["tools/list", "resources/list", "prompts/list", "logging/setLevel", "no/such"] {
        let answer = proxy.ask(method, json!({}));
        assert_eq!(answer["error"]["code"], -32005, "{method}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("not initialized"), "{answer}");
    }
    proxy.handshake();
    assert_eq!(proxy.refused("tasks/update", json!({})), -32004);
    assert_eq!(proxy.refused("no/such", json!({})), -32601);
    assert_eq!(proxy.refused("tools/call", json!({"name": "nonsense"})), -32602);
}

#[test]
fn requests_before_initialized_are_held_and_answered_in_order() {
    let mut proxy = greeted();
    let unknown = proxy.send("no/such", json!({}));
    let list = proxy.send("tools/list", json!({}));
    let status = proxy.send("tools/call", json!({"name": "get_status"}));
    let bad = proxy.send("tools/call", json!({"name": "nonsense"}));
    proxy.notify("notifications/initialized", json!({}));
    let order = [(); 4].map(|()| proxy.next().unwrap().id().unwrap().to_owned());
    assert_eq!(order, [unknown, list, status, bad].map(|id| id.to_string()));
}

#[test]
fn a_whole_session_may_be_written_at_once() {
    let mut proxy = silent();
    proxy.write(concat!(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#,
        "\n",
    ));
    let first = proxy.next().unwrap();
    assert_eq!(first.id(), Some("\"i\""));
    assert_eq!(first.json()["result"]["protocolVersion"], "2025-11-25", "no params at all");
    assert_eq!(proxy.next().unwrap().id(), Some("\"l\""));
}

#[test]
fn without_initialized_requests_are_refused_after_a_second() {
    let mut proxy = greeted();
    // The second one comes when the first one's second is over.
    for _ in 0..2 {
        let begin = Instant::now();
        assert_eq!(proxy.refused("tools/list", json!({})), -32005);
        assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    }
    proxy.notify("notifications/initialized", json!({}));
    assert!(proxy.ask("tools/list", json!({}))["result"]["tools"].is_array(), "it is not too late");
}

#[test]
fn a_held_request_can_be_cancelled() {
    let mut proxy = greeted();
    let cancelled = proxy.send("tools/list", json!({}));
    proxy.notify("notifications/cancelled", json!({"requestId": cancelled}));
    let kept = proxy.send("tools/list", json!({}));
    proxy.notify("notifications/initialized", json!({}));
    assert_eq!(proxy.next().unwrap().id().unwrap(), kept.to_string());
}

#[test]
fn every_handshake_revision_is_spoken_and_others_get_the_latest() {
    for (asked, answered) in [
        (json!("2024-11-05"), "2024-11-05"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), "2025-11-25"),
        (json!("2026-07-28"), "2025-11-25"),
        (json!("1999-01-01"), "2025-11-25"),
        (json!(3), "2025-11-25"),
        (json!(null), "2025-11-25"),
    ] {
        let answer = silent().ask("initialize", json!({"protocolVersion": asked}));
        assert_eq!(answer["result"]["protocolVersion"], answered, "{asked}");
    }
}

#[test]
fn upstreams_that_hang_hold_up_neither_the_handshake_nor_the_list() {
    let hang = |what| with(upstream(&["--hang", what]), json!({"lazy_startup": "eager"}));
    let config = servers([("a", hang("start")), ("b", hang("initialize")), ("c", hang("list"))]);
    let took = |config: &Value| {
        let begin = Instant::now();
        let mut proxy = Proxy::new(config);
        assert!(proxy.ask("tools/list", json!({}))["result"]["tools"].is_array());
        // One that is being waited for does not change that.
        proxy.send_call("a", "echo", json!({}));
        assert!(proxy.ask("tools/list", json!({}))["result"]["tools"].is_array());
        assert!(proxy.status()["status"].is_string());
        begin.elapsed()
    };
    let (empty, hanging) = (took(&servers([])), took(&config));
    assert!(hanging < empty + Duration::from_secs(3), "{hanging:?}, without them {empty:?}");
}
