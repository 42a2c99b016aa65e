//! Several messages in one array, which revision 2025-03-26 has and no other.

use serde_json::{Value, json};

use crate::support::{Proxy, Setup, one};

fn proxy(revision: &str) -> Proxy {
    let mut proxy = Setup::new().config(&one(&[])).start();
    let info = json!({"name": "e2e", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
    assert_eq!(proxy.ask("initialize", params)["result"]["protocolVersion"], revision);
    proxy.notify("notifications/initialized", json!({}));
    proxy
}

fn request(id: &str, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: &str, name: &str, args: Value) -> Value {
    let arguments = json!({"group": "g", "name": name, "args": args});
    request(id, "tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}))
}

/// The ids of the answers in the next line.
fn ids(proxy: &mut Proxy) -> Vec<String> {
    let batch = proxy.next().unwrap().json();
    let answers = batch.as_array().unwrap_or_else(|| panic!("{batch}"));
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn what_came_together_is_answered_together() {
    let mut proxy = proxy("2025-03-26");
    let note = json!({"jsonrpc": "2.0", "method": "notifications/unknown"});
    let all = [
        request("a", "ping", json!({})),
        note.clone(),
        call("b", "echo", json!({"text": "x"})),
        request("c", "no/such", json!({})),
        request("d", "tools/list", json!({})),
    ];
    proxy.line(&json!(all).to_string());
    assert_eq!(ids(&mut proxy), ["a", "b", "c", "d"]);
    // Nothing to answer, then something alone.
    proxy.line(&json!([note, note]).to_string());
    proxy.line(&json!([request("e", "ping", json!({}))]).to_string());
    assert_eq!(ids(&mut proxy), ["e"]);
    assert_eq!(proxy.ask("ping", json!({}))["result"], json!({}), "and alone as ever");
}

#[test]
fn what_is_cancelled_or_no_message_is_not_waited_for() {
    let mut proxy = proxy("2025-03-26");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}});
    proxy.line(
        &json!([request("a", "ping", json!({})), call("s", "sleep", json!({"ms": 60_000}))]).to_string(),
    );
    proxy.line(&cancelled.to_string());
    assert_eq!(ids(&mut proxy), ["a"]);
    proxy.line(&json!([request("a", "ping", json!({})), 3]).to_string());
    let both = proxy.next().unwrap().json();
    assert_eq!((&both[0]["id"], &both[1]["error"]["code"]), (&json!("a"), &json!(-32600)), "{both}");
    proxy.line("[]");
    let refused = proxy.next().unwrap().json();
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().unwrap().contains("empty"), "{refused}");
    let many = vec![request("a", "ping", json!({})); 1001];
    proxy.line(&json!(many).to_string());
    assert_eq!(proxy.next().unwrap().json()["error"]["code"], -32600, "none of them is answered");
    assert_eq!(proxy.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn no_other_revision_has_them() {
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut proxy = proxy(revision);
        proxy.line(&json!([request("a", "ping", json!({}))]).to_string());
        assert_eq!(proxy.next().unwrap().json()["error"]["code"], -32600, "{revision}");
    }
}

#[test]
fn a_handshake_is_never_part_of_one() {
    let mut proxy = Setup::new().config(&one(&[])).start();
    proxy.line(&json!([request("a", "initialize", json!({}))]).to_string());
    assert_eq!(proxy.next().unwrap().json()["error"]["code"], -32600);
    proxy.handshake();
}
