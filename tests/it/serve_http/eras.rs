//! Both eras without a session.

use serde_json::json;

use super::{Served, call_params, config, for_all};
use crate::support::merged;

fn served() -> Served {
    Served::start(&config([("g", for_all(&["--protocol", "--asks"]))]), &[])
}

#[test]
fn a_client_of_the_handshake_era_needs_no_session() {
    let served = served();
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let response = served.handshake_request("initialize", &params);
    assert_eq!(response.header("mcp-session-id"), "");
    let result = response.json()["result"].take();
    assert_eq!(result["protocolVersion"], "2025-06-18");
    let capabilities = json!({"completions": {}, "prompts": {}, "resources": {}, "tools": {},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}}});
    assert_eq!(result["capabilities"], capabilities, "nothing that needs a session");
    // Each stands for itself, and a session id of another server is ignored.
    let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}"#;
    let headers = [("Mcp-Session-Id", "x"), ("Last-Event-ID", "y"), ("MCP-Protocol-Version", "2025-06-18")];
    let response = served.post(&headers, list);
    assert_eq!(response.header("mcp-session-id"), "");
    let response = response.json();
    assert_eq!(response["id"], 7);
    assert!(
        response["result"]["tools"].as_array().unwrap().len() >= 5 && response["result"]["ttlMs"].is_null()
    );
    let response = served.handshake_request("tools/call", &call_params("g", "echo", json!({"text": "x"})));
    assert_eq!(response.json()["result"]["content"][0]["text"], "x");
    assert_eq!(served.handshake_request("ping", &json!({})).json()["result"], json!({}));
}

#[test]
fn a_stateless_client_gets_what_its_revision_asks_for() {
    let served = served();
    let result = served.request("server/discover", json!({})).json()["result"].take();
    assert!(result["capabilities"]["logging"].is_null(), "{result}");
    assert_eq!(result["capabilities"]["resources"], json!({"subscribe": true, "listChanged": true}));
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let result = served.request(method, json!({})).json()["result"].take();
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
        assert!(result["ttlMs"].is_u64(), "{method}: {result}");
    }
    let response = served.call(&[], "g", "echo", json!({"text": "x"}));
    assert_eq!(response["result"]["content"][0]["text"], "x");
    assert_eq!(response["result"]["resultType"], "complete");
}

#[test]
fn what_needs_a_session_is_refused_in_words() {
    let served = served();
    for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel", "tasks/list"] {
        let response = served.handshake_request(method, &json!({"uri": "mem://one", "level": "info"}));
        assert_eq!(response.status, 200);
        let error = response.json()["error"].take();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["code"], -32004, "{method}");
        assert!(message.contains("subscriptions/listen") && message.contains("stdio"), "{message}");
    }
}

#[test]
fn a_server_that_asks_during_a_call_hears_why_nobody_answers() {
    let served = served();
    let response =
        served.call(&[], "g", "ask", json!({"method": "elicitation/create", "params": {"message": "m"}}));
    let text = response["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("cannot be passed on over HTTP") && text.contains("2026-07-28"), "{response}");
}

#[test]
fn what_would_wait_in_one_replica_is_off() {
    let entry = merged(for_all(&["--protocol"]), json!({"store_above": 1000, "tools": {"ask": ["echo"]}}));
    let served = Served::start(&config([("g", entry)]), &[]);
    let response = served.call(&[], "g", "big", json!({"bytes": 5000}));
    assert!(response["result"]["content"][0]["text"].as_str().unwrap().len() >= 5000, "nothing is stored");
    let response = served.call(&[], "g", "echo", json!({"text": "x"}));
    let text = response["result"]["content"][0]["text"].as_str().unwrap();
    assert!(response["result"]["isError"] == true && text.contains("not possible over HTTP"), "{response}");
}

#[test]
fn links_name_their_group_because_no_replica_remembers_it() {
    let served = served();
    let link =
        |uri: &str| served.call(&[], "g", "link", json!({"uri": uri}))["result"]["content"][0]["uri"].take();
    let unlisted = link("mem://linked/7");
    assert_eq!(unlisted, "dynamic-mcp://g/mem%3A%2F%2Flinked%2F7");
    let result = served.request("resources/read", json!({"uri": unlisted})).json();
    assert!(result["result"]["contents"].is_array(), "{result}");
    assert_eq!(link("https://example.com/x"), "https://example.com/x");
    assert_eq!(link("mem://one"), "mem://one", "it is listed");
}
