//! Clients of revision 2026-07-28: no handshake, every request says of itself what it needs.

use serde_json::{Value, json};

use crate::support::{Proxy, Setup, as_configured, one, servers, text_of, upstream, with};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn started(config: &Value) -> Proxy {
    Setup::new().config(config).start()
}

/// Params that say what every request has to say, and `more`.
fn about(more: Value) -> Value {
    let mut params = more;
    params["_meta"][VERSION] = json!("2026-07-28");
    params["_meta"][CAPABILITIES] = json!({});
    params
}

fn call(group: &str, name: &str, args: Value) -> Value {
    about(json!({"name": "call_dynamic_tool", "arguments": {"group": group, "name": name, "args": args}}))
}

#[test]
fn every_request_is_served_by_itself() {
    let mut proxy = started(&one(&[]));
    let found = proxy.stateless("server/discover", json!({}))["result"].clone();
    assert_eq!(found["resultType"], "complete");
    let spoken = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    assert_eq!(found["supportedVersions"], spoken);
    assert!(found["capabilities"]["tools"].is_object() && found["instructions"].is_string());
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "dynamic-mcp");
    assert_eq!(found["cacheScope"], "private");
    let tools = proxy.stateless("tools/list", json!({}))["result"].clone();
    assert_eq!((&tools["resultType"], &tools["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(tools["ttlMs"], 300_000, "nothing is being discovered");
    assert!(!tools["tools"].as_array().unwrap().is_empty());
    let answer = proxy.ask("tools/call", call("g", "echo", json!({"text": "hi"})));
    assert_eq!(text_of(&answer["result"]), "hi");
    assert_eq!(answer["result"]["resultType"], "complete");
    // The other era is there too, for who comes with it.
    assert_eq!(proxy.refused("tools/list", json!({})), -32005);
    proxy.handshake();
    assert!(proxy.ask("tools/list", json!({}))["result"].get("resultType").is_none());
    assert_eq!(proxy.stateless("tools/list", json!({}))["result"]["resultType"], "complete");
}

#[test]
fn what_a_request_has_to_say_is_asked_for() {
    let mut proxy = started(&one(&[]));
    assert_eq!(proxy.refused("server/discover", json!({})), -32602);
    assert_eq!(proxy.refused("tools/list", json!({"_meta": {VERSION: "2026-07-28"}})), -32602);
    let mut other = about(json!({}));
    other["_meta"][VERSION] = json!("1900-01-01");
    let error = proxy.ask("tools/list", other)["error"].clone();
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], "1900-01-01");
    let found = proxy.stateless("server/discover", json!({}));
    assert_eq!(error["data"]["supported"], found["result"]["supportedVersions"]);
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get", "no/such"] {
        let code = if method == "tasks/get" { -32021 } else { -32601 };
        assert_eq!(proxy.refused(method, about(json!({}))), code, "{method}");
    }
    assert_eq!(proxy.refused("resources/read", about(json!({"uri": "x://nowhere"}))), -32602, "never -32002");
}

#[test]
fn being_asked_who_is_there_starts_nothing() {
    let config = as_configured([("g", with(upstream(&[]), json!({"lazy_startup": "eager"})))]);
    let mut proxy = started(&config);
    proxy.stateless("server/discover", json!({}));
    proxy.stateless("server/discover", json!({}));
    assert!(!proxy.log().contains("Connecting"), "{}", proxy.log());
    proxy.stateless("tools/list", json!({}));
    proxy.until_logged("Discovered g");
}

#[test]
fn progress_and_cancellation_go_as_ever() {
    let mut proxy = started(&one(&[]));
    let mut params = call("g", "progress", json!({"n": 3}));
    params["_meta"]["progressToken"] = json!("t");
    let id = proxy.send("tools/call", params);
    for n in 1..=3 {
        let news = proxy.next().unwrap().json();
        assert_eq!((&news["params"]["progressToken"], &news["params"]["progress"]), (&json!("t"), &json!(n)));
    }
    assert_eq!(proxy.answer(id).json()["result"]["resultType"], "complete");
    let id = proxy.send("tools/call", call("g", "sleep", json!({"ms": 60_000})));
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(text_of(&proxy.ask("tools/call", call("g", "echo", json!({"text": "on"})))["result"]), "on");
}

#[test]
fn what_upstreams_tell_unasked_is_kept_from_a_client_that_did_not_ask() {
    let mut proxy = started(&servers([("g", upstream(&["--protocol"]))]));
    let message = json!({"method": "notifications/message", "params": {"level": "info", "data": "x"}});
    let log = |level: Option<&str>| {
        let mut params = call("g", "tell", message.clone());
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        params
    };
    let quiet = proxy.send("tools/call", log(None));
    assert_eq!(proxy.next().unwrap().id(), Some(&*quiet.to_string()), "no message before the answer");
    let loud = proxy.send("tools/call", log(Some("debug")));
    let news = proxy.next().unwrap().json();
    assert_eq!((&news["method"], &news["params"]["data"]), (&json!("notifications/message"), &json!("x")));
    proxy.answer(loud);
    let high = proxy.send("tools/call", log(Some("emergency")));
    assert_eq!(proxy.next().unwrap().id(), Some(&*high.to_string()), "less severe than asked for");
}

#[test]
fn who_listens_is_told_first_that_it_does_and_then_what_changes() {
    let mut proxy = started(&servers([("g", upstream(&["--protocol"]))]));
    let filter = json!({"toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["mem://one", "x://nowhere"]});
    let updated = || {
        let news = json!({"method": "notifications/resources/updated", "params": {"uri": "mem://one"}});
        call("g", "tell", news)
    };
    // Known, so that its URIs are.
    proxy.ask("tools/call", call("g", "echo", json!({"text": "x"})));
    let id = proxy.send("subscriptions/listen", about(json!({"notifications": filter})));
    let news = proxy.next().unwrap().json();
    assert_eq!(news["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(news["params"]["_meta"][SUBSCRIPTION], id);
    let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://one"]});
    assert_eq!(news["params"]["notifications"], honoured);
    proxy.ask("tools/call", updated());
    let news = proxy.next().unwrap().json();
    assert_eq!(news["method"], "notifications/resources/updated");
    assert_eq!(
        (&news["params"]["uri"], &news["params"]["_meta"][SUBSCRIPTION]),
        (&json!("mem://one"), &json!(id))
    );
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    proxy.ask("tools/call", updated());
    let last = proxy.send("tools/list", about(json!({})));
    assert_eq!(proxy.next().unwrap().id(), Some(&*last.to_string()), "nothing more of it");
}

#[test]
fn a_subscription_ends_with_an_answer_when_we_end() {
    let mut proxy = started(&one(&[]));
    let id = proxy.send("subscriptions/listen", about(json!({"notifications": {"toolsListChanged": true}})));
    proxy.next().unwrap();
    proxy.close_stdin();
    let answer = proxy.answer(id).json();
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"][SUBSCRIPTION], id);
}

#[test]
fn a_server_that_asks_is_told_that_this_client_cannot_be_asked() {
    let mut proxy = started(&servers([("g", upstream(&["--protocol"]))]));
    let answer = proxy.ask("tools/call", call("g", "ask", json!({"method": "roots/list"})));
    assert!(answer.to_string().contains("-32601"), "{answer}");
}
