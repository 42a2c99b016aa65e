//! Batches from the client: arrays of messages, which only revision 2025-03-26 has.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, scripted_config};

/// A session of a client of this revision.
fn proxy_with_revision(revision: &str) -> Proxy {
    let mut proxy = ProxyCommand::new().config(&scripted_config(&[])).start();
    let info = json!({"name": "e2e", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
    assert_eq!(proxy.request("initialize", params)["result"]["protocolVersion"], revision);
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

/// Reads a batch of responses and returns their ids, sorted.
fn read_response_ids(proxy: &mut Proxy) -> Vec<String> {
    let batch = proxy.next_message().unwrap().json();
    let responses = batch.as_array().unwrap_or_else(|| panic!("{batch}"));
    let mut ids: Vec<_> =
        responses.iter().map(|response| response["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn the_requests_of_a_batch_are_answered_in_a_batch() {
    let mut proxy = proxy_with_revision("2025-03-26");
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/unknown"});
    let messages = [
        request("a", "ping", json!({})),
        notification.clone(),
        call("b", "echo", json!({"text": "x"})),
        request("c", "no/such", json!({})),
        request("d", "tools/list", json!({})),
    ];
    proxy.write_line(&json!(messages).to_string());
    assert_eq!(read_response_ids(&mut proxy), ["a", "b", "c", "d"]);
    // A batch of notifications has no response. A batch of one request has a batch of one response.
    proxy.write_line(&json!([notification, notification]).to_string());
    proxy.write_line(&json!([request("e", "ping", json!({}))]).to_string());
    assert_eq!(read_response_ids(&mut proxy), ["e"]);
    assert_eq!(proxy.request("ping", json!({}))["result"], json!({}), "a request outside a batch");
}

#[test]
fn a_batch_does_not_wait_for_cancelled_requests_or_invalid_messages() {
    let mut proxy = proxy_with_revision("2025-03-26");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}});
    proxy.write_line(
        &json!([request("a", "ping", json!({})), call("s", "sleep", json!({"ms": 60_000}))]).to_string(),
    );
    proxy.write_line(&cancelled.to_string());
    assert_eq!(read_response_ids(&mut proxy), ["a"]);
    proxy.write_line(&json!([request("a", "ping", json!({})), 3]).to_string());
    let responses = proxy.next_message().unwrap().json();
    assert_eq!(
        (&responses[0]["id"], &responses[1]["error"]["code"]),
        (&json!("a"), &json!(-32600)),
        "{responses}"
    );
    proxy.write_line("[]");
    let refused = proxy.next_message().unwrap().json();
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().unwrap().contains("empty"), "{refused}");
    let too_many = vec![request("a", "ping", json!({})); 1001];
    proxy.write_line(&json!(too_many).to_string());
    assert_eq!(proxy.next_message().unwrap().json()["error"]["code"], -32600, "no request of it is answered");
    assert_eq!(proxy.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn batches_in_other_revisions_are_refused() {
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut proxy = proxy_with_revision(revision);
        proxy.write_line(&json!([request("a", "ping", json!({}))]).to_string());
        assert_eq!(proxy.next_message().unwrap().json()["error"]["code"], -32600, "{revision}");
    }
}

#[test]
fn initialize_in_a_batch_is_refused() {
    let mut proxy = ProxyCommand::new().config(&scripted_config(&[])).start();
    proxy.write_line(&json!([request("a", "initialize", json!({}))]).to_string());
    assert_eq!(proxy.next_message().unwrap().json()["error"]["code"], -32600);
    proxy.handshake();
}
