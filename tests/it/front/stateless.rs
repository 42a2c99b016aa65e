//! Clients of revision 2026-07-28: without a handshake, each request has its revision and capabilities in `_meta`.

use serde_json::{Value, json};

use crate::support::{
    Proxy, ProxyCommand, config_of, merged, pure_config, scripted_config, scripted_upstream, text_of,
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A program that has received no message.
fn start(config: &Value) -> Proxy {
    ProxyCommand::new().config(config).start()
}

/// Params with the `_meta` that every request needs.
fn with_meta(mut params: Value) -> Value {
    params["_meta"][VERSION] = json!("2026-07-28");
    params["_meta"][CAPABILITIES] = json!({});
    params
}

/// The params of a call of an upstream's tool.
fn call_params(group: &str, name: &str, args: Value) -> Value {
    with_meta(json!({"name": "call_dynamic_tool", "arguments": {"group": group, "name": name, "args": args}}))
}

#[test]
fn every_request_is_served_without_a_handshake() {
    let mut proxy = start(&scripted_config(&[]));
    let discovered = proxy.stateless_request("server/discover", json!({}))["result"].clone();
    assert_eq!(discovered["resultType"], "complete");
    let revisions = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    assert_eq!(discovered["supportedVersions"], revisions);
    assert!(discovered["capabilities"]["tools"].is_object() && discovered["instructions"].is_string());
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "dynamic-mcp");
    assert_eq!(discovered["cacheScope"], "private");
    let tools = proxy.stateless_request("tools/list", json!({}))["result"].clone();
    assert_eq!((&tools["resultType"], &tools["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(tools["ttlMs"], 300_000, "no group is being discovered");
    assert!(!tools["tools"].as_array().unwrap().is_empty());
    let response = proxy.request("tools/call", call_params("g", "echo", json!({"text": "hi"})));
    assert_eq!(text_of(&response["result"]), "hi");
    assert_eq!(response["result"]["resultType"], "complete");
    // The same session serves a client with a handshake, too.
    assert_eq!(proxy.error_code("tools/list", json!({})), -32005);
    proxy.handshake();
    assert!(proxy.request("tools/list", json!({}))["result"].get("resultType").is_none());
    assert_eq!(proxy.stateless_request("tools/list", json!({}))["result"]["resultType"], "complete");
}

#[test]
fn requests_without_the_required_meta_are_refused() {
    let mut proxy = start(&scripted_config(&[]));
    assert_eq!(proxy.error_code("server/discover", json!({})), -32602);
    assert_eq!(proxy.error_code("tools/list", json!({"_meta": {VERSION: "2026-07-28"}})), -32602);
    let mut unsupported = with_meta(json!({}));
    unsupported["_meta"][VERSION] = json!("1900-01-01");
    let error = proxy.request("tools/list", unsupported)["error"].clone();
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], "1900-01-01");
    let discovered = proxy.stateless_request("server/discover", json!({}));
    assert_eq!(error["data"]["supported"], discovered["result"]["supportedVersions"]);
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get", "no/such"] {
        let code = if method == "tasks/get" { -32021 } else { -32601 };
        assert_eq!(proxy.error_code(method, with_meta(json!({}))), code, "{method}");
    }
    assert_eq!(
        proxy.error_code("resources/read", with_meta(json!({"uri": "x://nowhere"}))),
        -32602,
        "never -32002"
    );
}

#[test]
fn server_discover_starts_no_group() {
    let config = config_of([("g", merged(scripted_upstream(&[]), json!({"lazy_startup": "eager"})))]);
    let mut proxy = start(&config);
    proxy.stateless_request("server/discover", json!({}));
    proxy.stateless_request("server/discover", json!({}));
    assert!(!proxy.log().contains("Connecting"), "{}", proxy.log());
    proxy.stateless_request("tools/list", json!({}));
    proxy.wait_for_log("Discovered g");
}

#[test]
fn progress_and_cancellation_work_as_with_a_handshake() {
    let mut proxy = start(&scripted_config(&[]));
    let mut params = call_params("g", "progress", json!({"n": 3}));
    params["_meta"]["progressToken"] = json!("t");
    let id = proxy.send_request("tools/call", params);
    for n in 1..=3 {
        let progress = proxy.next_message().unwrap().json()["params"].take();
        assert_eq!((&progress["progressToken"], &progress["progress"]), (&json!("t"), &json!(n)));
    }
    assert_eq!(proxy.response(id).json()["result"]["resultType"], "complete");
    let id = proxy.send_request("tools/call", call_params("g", "sleep", json!({"ms": 60_000})));
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(
        text_of(&proxy.request("tools/call", call_params("g", "echo", json!({"text": "on"})))["result"]),
        "on"
    );
}

#[test]
fn log_messages_reach_only_requests_with_that_log_level() {
    let mut proxy = start(&pure_config([("g", scripted_upstream(&["--protocol"]))]));
    let message = json!({"method": "notifications/message", "params": {"level": "info", "data": "x"}});
    let params_with_level = |level: Option<&str>| {
        let mut params = call_params("g", "tell", message.clone());
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        params
    };
    let without_level = proxy.send_request("tools/call", params_with_level(None));
    assert_eq!(
        proxy.next_message().unwrap().id(),
        Some(&*without_level.to_string()),
        "no message before the response"
    );
    let low_level = proxy.send_request("tools/call", params_with_level(Some("debug")));
    let logged = proxy.next_message().unwrap().json();
    assert_eq!(
        (&logged["method"], &logged["params"]["data"]),
        (&json!("notifications/message"), &json!("x"))
    );
    proxy.response(low_level);
    let high_level = proxy.send_request("tools/call", params_with_level(Some("emergency")));
    assert_eq!(
        proxy.next_message().unwrap().id(),
        Some(&*high_level.to_string()),
        "the message is less severe than the level"
    );
}

#[test]
fn a_subscription_is_acknowledged_and_then_receives_changes() {
    let mut proxy = start(&pure_config([("g", scripted_upstream(&["--protocol"]))]));
    let filter = json!({"toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["mem://one", "dynamic-mcp://nobody/x"]});
    let update_params = || {
        let notification =
            json!({"method": "notifications/resources/updated", "params": {"uri": "mem://one"}});
        call_params("g", "tell", notification)
    };
    // The group is known now, and so are its URIs.
    proxy.request("tools/call", call_params("g", "echo", json!({"text": "x"})));
    let id = proxy.send_request("subscriptions/listen", with_meta(json!({"notifications": filter})));
    let acknowledged = proxy.next_message().unwrap().json();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], id);
    let honored = json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://one"]});
    assert_eq!(acknowledged["params"]["notifications"], honored);
    proxy.request("tools/call", update_params());
    let update = proxy.next_message().unwrap().json();
    assert_eq!(update["method"], "notifications/resources/updated");
    assert_eq!(
        (&update["params"]["uri"], &update["params"]["_meta"][SUBSCRIPTION]),
        (&json!("mem://one"), &json!(id))
    );
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    proxy.request("tools/call", update_params());
    let last = proxy.send_request("tools/list", with_meta(json!({})));
    assert_eq!(proxy.next_message().unwrap().id(), Some(&*last.to_string()), "no more updates");
}

#[test]
fn a_subscription_gets_its_response_on_shutdown() {
    let mut proxy = start(&scripted_config(&[]));
    let id = proxy.send_request(
        "subscriptions/listen",
        with_meta(json!({"notifications": {"toolsListChanged": true}})),
    );
    proxy.next_message().unwrap();
    proxy.close_stdin();
    let response = proxy.response(id).json();
    assert_eq!(response["result"]["resultType"], "complete");
    assert_eq!(response["result"]["_meta"][SUBSCRIPTION], id);
}

#[test]
fn a_request_of_a_server_is_refused_if_the_client_lacks_the_capability() {
    let mut proxy = start(&pure_config([("g", scripted_upstream(&["--protocol"]))]));
    let response = proxy.request("tools/call", call_params("g", "ask", json!({"method": "roots/list"})));
    assert!(response.to_string().contains("-32601"), "{response}");
}
