//! Calls that share one connection: order of responses, progress, cancellation, timeouts, limits, and requests of the
//! upstream.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    InputRecord, Proxy, TEST_TIMEOUT, merged, pure_config, scripted_config, scripted_upstream, text_of,
    wait_until,
};

const CANCELLED: &str = "notifications/cancelled";

/// A session with one connected upstream, and the record of its input. `more`: members of its entry.
fn recorded_proxy(more: Value) -> (Proxy, InputRecord) {
    let record = InputRecord::new();
    let entry = record.attached_to(merged(scripted_upstream(&[]), more));
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    proxy.upstream_pid("g");
    (proxy, record)
}

/// Waits for the first cancellation that the upstream receives, and returns its params.
fn cancellation(record: &InputRecord) -> Value {
    record.wait_for(CANCELLED, 0).json()["params"].take()
}

/// Waits until the upstream receives a call of `tool`, and returns the id of that request.
fn upstream_call_id(record: &InputRecord, tool: &str) -> Value {
    let call = || {
        let calls =
            record.lines_of("tools/call").into_iter().map(|line| serde_json::from_str(&line).unwrap());
        calls.into_iter().find(|call: &Value| call["params"]["name"] == tool)
    };
    wait_until(tool, || call().is_some());
    call().unwrap()["id"].take()
}

#[test]
fn progress_has_the_clients_token_and_arrives_before_the_result() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    proxy.upstream_pid("g");
    for token in [json!("a token"), json!("1"), json!(1), json!(12345678901234567_i64), json!(0), json!("")] {
        let arguments = json!({"group": "g", "name": "progress", "args": {"n": 50}});
        let params =
            json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": token}});
        let id = proxy.send_request("tools/call", params);
        for n in 1..=50 {
            let message = proxy.next_message().unwrap();
            assert_eq!(message.method(), Some("notifications/progress"));
            let params =
                json!({"progressToken": token, "progress": n, "total": 50.0, "message": format!("step {n}")});
            assert_eq!(message.json()["params"], params);
        }
        assert_eq!(proxy.next_message().unwrap().id().unwrap(), id.to_string(), "{token}");
    }
    assert_eq!(proxy.call_text("g", "progress", json!({"n": 3})), "done");
    assert!(proxy.request("ping", json!({}))["result"].is_object(), "without a token there is no progress");
}

#[test]
fn a_cancellation_arrives_with_its_reason_and_its_call_gets_no_response() {
    let (mut proxy, record) = recorded_proxy(json!({}));
    let id = proxy.send_call("g", "late", json!({}));
    let upstream_id = upstream_call_id(&record, "late");
    proxy.notify(CANCELLED, json!({"requestId": id, "reason": "changed my mind", "x": 1.5}));
    let params = json!({"requestId": upstream_id, "reason": "changed my mind", "x": 1.5});
    assert_eq!(cancellation(&record), params);
    // The upstream responds to `late` now, and its response would arrive before those to these two.
    proxy.call_text("g", "sleep", json!({"ms": 200}));
    let last = proxy.send_request("ping", json!({}));
    assert_eq!(proxy.next_message().unwrap().id().unwrap(), last.to_string());
    // A second cancellation and one after the response are ignored.
    proxy.notify(CANCELLED, json!({"requestId": id}));
    proxy.notify(CANCELLED, json!({"requestId": last}));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "next"})), "next");
    assert_eq!(record.lines_of(CANCELLED).len(), 1);
}

#[test]
fn a_call_can_be_cancelled_in_the_same_write() {
    let (mut proxy, record) = recorded_proxy(json!({}));
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {
        "name": "call_dynamic_tool", "arguments": {"group": "g", "name": "late"}}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}});
    proxy.write(&format!("{call}\n{cancel}\n"));
    assert_eq!(cancellation(&record)["requestId"], upstream_call_id(&record, "late"));
    let ping = proxy.send_request("ping", json!({}));
    assert_eq!(proxy.next_message().unwrap().id().unwrap(), ping.to_string(), "the call gets no response");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "next"})), "next");
}

#[test]
fn a_long_call_does_not_block_others() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]));
    proxy.connect(["g", "h"]);
    let long_call = proxy.send_call("g", "late", json!({}));
    for group in ["g", "h", "g", "h"] {
        assert_eq!(proxy.call_text(group, "echo", json!({"text": group})), group);
    }
    proxy.notify(CANCELLED, json!({"requestId": long_call}));
}

#[test]
fn responses_in_any_order_reach_their_calls() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let slow: Vec<_> =
        (0..20_u64).map(|n| proxy.send_call("g", "sleep", json!({"ms": 400 - n * 20}))).collect();
    let fast: Vec<_> =
        (0..200).map(|n| proxy.send_call("g", "echo", json!({"text": n.to_string()}))).collect();
    for (n, id) in fast.into_iter().enumerate() {
        assert_eq!(text_of(&proxy.response(id).json()["result"]), n.to_string());
    }
    for id in slow {
        assert_eq!(text_of(&proxy.response(id).json()["result"]), "slept");
    }
}

#[test]
fn requests_of_the_upstream_are_answered_even_if_their_ids_equal_ours() {
    for flags in [vec![], vec!["--number-ids"]] {
        let mut proxy = Proxy::new(&scripted_config(&flags));
        let mut response_to = |method: &str| -> Value {
            serde_json::from_str(&proxy.call_text("g", "ask", json!({"method": method}))).unwrap()
        };
        assert_eq!(response_to("ping")["result"], json!({}));
        for method in ["roots/list", "sampling/createMessage", "elicitation/create", "no/such"] {
            assert_eq!(response_to(method)["error"]["code"], -32601, "{method}");
        }
        // The same ids are in use in both directions.
        let ids: Vec<_> = (0..20).map(|_| proxy.send_call("g", "ask", json!({"method": "ping"}))).collect();
        for id in ids {
            let response = proxy.response(id).json();
            assert!(text_of(&response["result"]).contains(r#""result":{}"#), "{response}");
        }
    }
}

#[test]
fn a_second_response_is_ignored() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for _ in 0..20 {
        assert_eq!(proxy.call_text("g", "twice", json!({})), "first");
    }
    let ping = proxy.send_request("ping", json!({}));
    assert_eq!(proxy.next_message().unwrap().id().unwrap(), ping.to_string());
}

#[test]
fn a_response_over_the_size_limit_fails_its_call_at_once() {
    let config = merged(scripted_config(&[]), json!({"settings": {"max_message_bytes": 100_000}}));
    let mut proxy = Proxy::new(&config);
    proxy.upstream_pid("g");
    for id in ["first", "last"] {
        let start = Instant::now();
        let other = proxy.send_call("g", "sleep", json!({"ms": 300}));
        let text = proxy.call_failure("g", "huge_line", json!({"bytes": 3_000_000, "id": id}));
        assert!(start.elapsed() < TEST_TIMEOUT / 2, "{id}: {:?}", start.elapsed());
        assert!(text.contains("100000") && text.contains("max_message_bytes"), "{id}: {text}");
        assert_eq!(text_of(&proxy.response(other).json()["result"]), "slept", "{id}: the other call");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "next"})), "next");
    }
}

#[test]
fn a_call_that_times_out_is_cancelled_at_the_upstream() {
    let (mut proxy, record) = recorded_proxy(json!({"timeout": {"tools": 1}}));
    let start = Instant::now();
    let text = proxy.call_failure("g", "late", json!({}));
    let took = start.elapsed();
    assert!(took.as_millis() >= 1000 && took < TEST_TIMEOUT / 2, "{took:?}");
    assert!(text.contains("did not answer within 1 s") && text.contains("timeout.tools"), "{text}");
    assert!(
        text.ends_with(
            "if the tool needs longer, write \"timeout\": {\"tools\": \"2s\"} in its config entry."
        ),
        "{text}"
    );
    proxy.wait_for_log("did not answer within 1 s and was cancelled.");
    assert_eq!(cancellation(&record)["requestId"], upstream_call_id(&record, "late"));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "next"})), "next");
}
