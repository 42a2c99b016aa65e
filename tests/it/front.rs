//! The session of a client: its phases (before `initialize`, before `notifications/initialized`, operation, shutdown) and
//! which requests each phase allows. The submodules cover the messages of a session in both eras.
//!
//! The first tests, up to `proper_error_codes_during_initialization`, have the names of the phase rules in MCP's
//! requirements (specification, basic/lifecycle).

use serde_json::{Value, json};

use crate::support::{
    Proxy, ProxyCommand, TEST_TIMEOUT, merged, pure_config, scripted_config, scripted_upstream,
};
#[cfg(unix)]
use nix::sys::signal::Signal;
use std::time::Duration;
use tokio::time::Instant;

mod batches;
mod json_rpc;
mod session_options;
mod stateless;
mod tool_list;

/// A started program to which nothing was sent.
fn uninitialized_proxy() -> Proxy {
    ProxyCommand::new().config(&scripted_config(&[])).start()
}

/// The params of `initialize`.
fn initialize_params(revision: &str) -> Value {
    json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}})
}

/// A program that has answered `initialize` and has not received `notifications/initialized`.
fn half_initialized_proxy() -> Proxy {
    let mut proxy = uninitialized_proxy();
    let response = proxy.request("initialize", initialize_params("2025-11-25"));
    assert!(response["result"].is_object(), "{response}");
    proxy
}

#[test]
fn cannot_list_resources_before_initialize() {
    assert_eq!(uninitialized_proxy().error_code("resources/list", json!({})), -32005);
}

#[test]
fn cannot_call_a_tool_before_initialize() {
    assert_eq!(
        uninitialized_proxy().error_code("tools/call", json!({"name": "get_status", "arguments": {}})),
        -32005
    );
}

#[test]
fn cannot_get_a_prompt_before_initialize() {
    assert_eq!(uninitialized_proxy().error_code("prompts/get", json!({"name": "greet"})), -32005);
}

#[test]
fn ping_allowed_during_initialization() {
    let mut proxy = uninitialized_proxy();
    assert_eq!(proxy.request("ping", json!({}))["result"], json!({}));
    proxy.request("initialize", initialize_params("2025-11-25"));
    assert_eq!(proxy.request("ping", json!({}))["result"], json!({}), "before notifications/initialized");
}

#[test]
fn initialize_response_allowed() {
    let response = uninitialized_proxy().request("initialize", initialize_params("2025-11-25"));
    let result = &response["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    let capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    });
    assert_eq!(result["capabilities"], capabilities);
    assert_eq!(result["serverInfo"]["name"], "dynamic-mcp");
    assert!(result["instructions"].as_str().unwrap().contains("(groups): g."), "{result}");
}

#[test]
fn transition_to_operation_on_the_initialized_notification() {
    let mut proxy = half_initialized_proxy();
    let list = proxy.send_request("tools/list", json!({}));
    let ping = proxy.send_request("ping", json!({}));
    assert_eq!(proxy.next_message().unwrap().id().unwrap(), ping.to_string(), "only the ping is answered");
    proxy.notify("notifications/initialized", json!({}));
    assert!(proxy.response(list).json()["result"]["tools"].is_array());
}

#[test]
fn all_requests_allowed_during_operation() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    assert_eq!(proxy.request("ping", json!({}))["result"], json!({}));
    assert!(proxy.request("tools/list", json!({}))["result"]["tools"].is_array());
    assert_eq!(proxy.status()["status"], "ready");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "hello"})), "hello");
}

// It needs a signal.
#[cfg(unix)]
#[test]
fn shutdown_rejects_all_requests() {
    let mut proxy = Proxy::new(&scripted_config(&["--ignore-eof", "--ignore-term"]));
    proxy.upstream_pid("g");
    proxy.send_signal(Signal::SIGTERM);
    proxy.wait_for_log("told to stop");
    let methods = ["ping", "tools/list", "initialize", "resources/list", "no/such", "server/discover"];
    let ids = methods.map(|method| proxy.send_request(method, json!({})));
    for (method, id) in methods.iter().zip(ids) {
        assert_eq!(proxy.response(id).error_code(), Some(-31004), "{method}");
    }
    assert!(proxy.wait_for_exit().0.success());
}

#[test]
fn initialize_during_operation_rejected() {
    let mut proxy = half_initialized_proxy();
    assert_eq!(proxy.error_code("initialize", initialize_params("2025-11-25")), -32005);
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let response = proxy.request("initialize", initialize_params("2025-11-25"));
    assert_eq!(response["error"]["code"], -32005);
    assert!(response["error"]["message"].as_str().unwrap().contains("already initialized"), "{response}");
    assert_eq!(proxy.status()["status"], "ready", "the session goes on");
}

#[test]
fn capability_check_not_negotiated_refused() {
    // No group has these features, so the capabilities are not advertised.
    let features = json!({"features": {"resources": false, "prompts": false}});
    let mut proxy =
        Proxy::new(&pure_config([("g", merged(scripted_upstream(&["--resources", "--prompts"]), features))]));
    proxy.upstream_pid("g");
    for (method, capability) in [
        ("resources/list", "resources"),
        ("resources/read", "resources"),
        ("prompts/get", "prompts"),
        // Only revision 2026-07-28 has this method.
        ("tasks/update", "tasks"),
    ] {
        let response = proxy.request(method, json!({}));
        assert_eq!(response["error"]["code"], -32004, "{method}: {response}");
        assert!(response["error"]["message"].as_str().unwrap().ends_with(capability), "{response}");
    }
}

#[test]
fn proper_error_codes_during_initialization() {
    let mut proxy = uninitialized_proxy();
    for method in ["tools/list", "resources/list", "prompts/list", "logging/setLevel", "no/such"] {
        let response = proxy.request(method, json!({}));
        assert_eq!(response["error"]["code"], -32005, "{method}");
        assert!(response["error"]["message"].as_str().unwrap().contains("not initialized"), "{response}");
    }
    proxy.handshake();
    assert_eq!(proxy.error_code("tasks/update", json!({})), -32004);
    assert_eq!(proxy.error_code("no/such", json!({})), -32601);
    assert_eq!(proxy.error_code("tools/call", json!({"name": "nonsense"})), -32602);
}

#[test]
fn requests_before_initialized_wait_and_are_served_in_order() {
    let mut proxy = half_initialized_proxy();
    let unknown = proxy.send_request("no/such", json!({}));
    let list = proxy.send_request("tools/list", json!({}));
    let status = proxy.send_request("tools/call", json!({"name": "get_status"}));
    let invalid = proxy.send_request("tools/call", json!({"name": "nonsense"}));
    proxy.notify("notifications/initialized", json!({}));
    let mut order = [(); 4].map(|()| proxy.next_message().unwrap().id().unwrap().to_owned());
    // Calls are answered when they are done, and get_status looks at files meanwhile.
    order[2..].sort();
    assert_eq!(order, [unknown, list, status, invalid].map(|id| id.to_string()));
}

#[test]
fn a_whole_session_may_be_written_at_once() {
    let mut proxy = uninitialized_proxy();
    proxy.write(concat!(
        r#"{"jsonrpc":"2.0","id":"i","method":"initialize"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}"#,
        "\n",
    ));
    let first = proxy.next_message().unwrap();
    assert_eq!(first.id(), Some("\"i\""));
    assert_eq!(first.json()["result"]["protocolVersion"], "2025-11-25", "initialize needs no params");
    assert_eq!(proxy.next_message().unwrap().id(), Some("\"l\""));
}

#[test]
fn without_initialized_requests_are_refused_after_a_second() {
    let mut proxy = half_initialized_proxy();
    // The second request is sent after the wait of the first one.
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(proxy.error_code("tools/list", json!({})), -32005);
        assert!(start.elapsed() < TEST_TIMEOUT / 2, "{:?}", start.elapsed());
    }
    proxy.notify("notifications/initialized", json!({}));
    assert!(
        proxy.request("tools/list", json!({}))["result"]["tools"].is_array(),
        "the session can still be initialized"
    );
}

#[test]
fn a_waiting_request_can_be_cancelled() {
    let mut proxy = half_initialized_proxy();
    let cancelled = proxy.send_request("tools/list", json!({}));
    proxy.notify("notifications/cancelled", json!({"requestId": cancelled}));
    let list = proxy.send_request("tools/list", json!({}));
    proxy.notify("notifications/initialized", json!({}));
    assert_eq!(proxy.next_message().unwrap().id().unwrap(), list.to_string());
}

#[test]
fn every_handshake_revision_is_supported_and_others_get_the_latest() {
    for (requested, negotiated) in [
        (json!("2024-11-05"), "2024-11-05"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), "2025-11-25"),
        (json!("2026-07-28"), "2025-11-25"),
        (json!("1999-01-01"), "2025-11-25"),
        (json!(3), "2025-11-25"),
        (json!(null), "2025-11-25"),
    ] {
        let response = uninitialized_proxy().request("initialize", json!({"protocolVersion": requested}));
        assert_eq!(response["result"]["protocolVersion"], negotiated, "{requested}");
    }
}

#[test]
fn hanging_upstreams_delay_neither_the_handshake_nor_the_list() {
    let entry = |step| merged(scripted_upstream(&["--hang", step]), json!({"lazy_startup": "eager"}));
    let config = pure_config([("a", entry("start")), ("b", entry("initialize")), ("c", entry("list"))]);
    let time_to_list = |config: &Value| {
        let start = Instant::now();
        let mut proxy = Proxy::new(config);
        assert!(proxy.request("tools/list", json!({}))["result"]["tools"].is_array());
        // A call that waits for an upstream changes nothing.
        proxy.send_call("a", "echo", json!({}));
        assert!(proxy.request("tools/list", json!({}))["result"]["tools"].is_array());
        assert!(proxy.status()["status"].is_string());
        start.elapsed()
    };
    let (empty, hanging) = (time_to_list(&pure_config([])), time_to_list(&config));
    assert!(hanging < empty + Duration::from_secs(3), "{hanging:?}, without them {empty:?}");
}
