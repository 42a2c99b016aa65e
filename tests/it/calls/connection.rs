//! Calls that share a connection: order, progress, cancellation, limits, and what the upstream asks itself.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Proxy, SOON, Setup, one, servers, text_of, until, upstream, with};
use tokio::time::Instant;

/// A session with one upstream, and the file of every line that it reads.
fn recorded(flags: &[&str], more: Value) -> (Proxy, PathBuf) {
    let setup = Setup::new();
    let record = setup.dir().join("record");
    let flags = [flags, &["--record", record.to_str().unwrap()]].concat();
    let config = servers([("g", with(upstream(&flags), more))]);
    let mut proxy = setup.config(&config).ready();
    proxy.upstream_pid("g");
    (proxy, record)
}

/// What the upstream read, as far as these lines are whole.
fn read(record: &Path) -> Vec<Value> {
    let text = fs::read_to_string(record).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn of_method(record: &Path, method: &str) -> Vec<Value> {
    read(record).into_iter().filter(|message| message["method"] == method).collect()
}

fn cancellation(record: &Path) -> Value {
    until("the cancellation", || !of_method(record, "notifications/cancelled").is_empty());
    of_method(record, "notifications/cancelled").remove(0)["params"].take()
}

/// The id under which the upstream was asked to call `tool`.
fn id_of(record: &Path, tool: &str) -> Value {
    let is_it = |call: &Value| call["params"]["name"] == tool;
    until(tool, || of_method(record, "tools/call").iter().any(is_it));
    of_method(record, "tools/call").into_iter().find(is_it).unwrap()["id"].take()
}

#[test]
fn progress_comes_under_the_clients_token_before_the_result() {
    let mut proxy = Proxy::new(&one(&[]));
    proxy.upstream_pid("g");
    for token in [json!("a token"), json!("1"), json!(1), json!(12345678901234567_i64), json!(0), json!("")] {
        let arguments = json!({"group": "g", "name": "progress", "args": {"n": 50}});
        let params =
            json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": token}});
        let id = proxy.send("tools/call", params);
        for n in 1..=50 {
            let message = proxy.next().unwrap();
            assert_eq!(message.method(), Some("notifications/progress"));
            let wanted =
                json!({"progressToken": token, "progress": n, "total": 50.0, "message": format!("step {n}")});
            assert_eq!(message.json()["params"], wanted);
        }
        assert_eq!(proxy.next().unwrap().id().unwrap(), id.to_string(), "{token}");
    }
    assert_eq!(proxy.text("g", "progress", json!({"n": 3})), "done");
    assert!(proxy.ask("ping", json!({}))["result"].is_object(), "none without a token");
}

#[test]
fn a_cancellation_arrives_with_its_reason_and_the_call_is_not_answered() {
    let (mut proxy, record) = recorded(&[], json!({}));
    let id = proxy.send_call("g", "late", json!({}));
    let upstream_id = id_of(&record, "late");
    proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "changed my mind", "x": 1.5}));
    let params = json!({"requestId": upstream_id, "reason": "changed my mind", "x": 1.5});
    assert_eq!(cancellation(&record), params);
    // `late` answers now; by the time these two are through, that would be here.
    proxy.text("g", "sleep", json!({"ms": 200}));
    let last = proxy.send("ping", json!({}));
    assert_eq!(proxy.next().unwrap().id().unwrap(), last.to_string());
    // Cancelled again, and after the answer: neither means anything.
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    proxy.notify("notifications/cancelled", json!({"requestId": last}));
    assert_eq!(proxy.text("g", "echo", json!({"text": "next"})), "next");
    assert_eq!(of_method(&record, "notifications/cancelled").len(), 1);
}

#[test]
fn a_call_and_its_cancellation_in_one_write() {
    let (mut proxy, record) = recorded(&[], json!({}));
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {
        "name": "call_dynamic_tool", "arguments": {"group": "g", "name": "late"}}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}});
    proxy.write(&format!("{call}\n{cancel}\n"));
    assert_eq!(cancellation(&record)["requestId"], id_of(&record, "late"));
    let ping = proxy.send("ping", json!({}));
    assert_eq!(proxy.next().unwrap().id().unwrap(), ping.to_string(), "the call is not answered");
    assert_eq!(proxy.text("g", "echo", json!({"text": "next"})), "next");
}

#[test]
fn a_long_call_blocks_no_other() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&[]))]));
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let long = proxy.send_call("g", "late", json!({}));
    for group in ["g", "h", "g", "h"] {
        assert_eq!(proxy.text(group, "echo", json!({"text": group})), group);
    }
    proxy.notify("notifications/cancelled", json!({"requestId": long}));
}

#[test]
fn answers_go_to_their_calls_in_whatever_order_they_come() {
    let mut proxy = Proxy::new(&one(&[]));
    let slow: Vec<_> =
        (0..20_u64).map(|n| proxy.send_call("g", "sleep", json!({"ms": 400 - n * 20}))).collect();
    let fast: Vec<_> =
        (0..200).map(|n| proxy.send_call("g", "echo", json!({"text": n.to_string()}))).collect();
    for (n, id) in fast.into_iter().enumerate() {
        assert_eq!(text_of(&proxy.answer(id).json()["result"]), n.to_string());
    }
    for id in slow {
        assert_eq!(text_of(&proxy.answer(id).json()["result"]), "slept");
    }
}

#[test]
fn what_the_upstream_asks_is_answered_and_its_ids_may_be_ours() {
    for flags in [vec![], vec!["--number-ids"]] {
        let mut proxy = Proxy::new(&one(&flags));
        let mut asked = |method: &str| -> Value {
            serde_json::from_str(&proxy.text("g", "ask", json!({"method": method}))).unwrap()
        };
        assert_eq!(asked("ping")["result"], json!({}));
        for method in ["roots/list", "sampling/createMessage", "elicitation/create", "no/such"] {
            assert_eq!(asked(method)["error"]["code"], -32601, "{method}");
        }
        // Its ids and ours are in use at the same time.
        let ids: Vec<_> = (0..20).map(|_| proxy.send_call("g", "ask", json!({"method": "ping"}))).collect();
        for id in ids {
            let answer = proxy.answer(id).json();
            assert!(text_of(&answer["result"]).contains(r#""result":{}"#), "{answer}");
        }
    }
}

#[test]
fn a_second_answer_is_ignored() {
    let mut proxy = Proxy::new(&one(&[]));
    for _ in 0..20 {
        assert_eq!(proxy.text("g", "twice", json!({})), "first");
    }
    let ping = proxy.send("ping", json!({}));
    assert_eq!(proxy.next().unwrap().id().unwrap(), ping.to_string());
}

#[test]
fn an_answer_over_the_limit_fails_its_call_at_once() {
    let config = with(one(&[]), json!({"settings": {"max_message_bytes": 100_000}}));
    let mut proxy = Proxy::new(&config);
    proxy.upstream_pid("g");
    for id in ["first", "last"] {
        let begin = Instant::now();
        let other = proxy.send_call("g", "sleep", json!({"ms": 300}));
        let text = proxy.failure("g", "huge_line", json!({"bytes": 3_000_000, "id": id}));
        assert!(begin.elapsed() < SOON / 2, "{id}: {:?}", begin.elapsed());
        assert!(text.contains("100000") && text.contains("max_message_bytes"), "{id}: {text}");
        assert_eq!(text_of(&proxy.answer(other).json()["result"]), "slept", "{id}: the other call");
        assert_eq!(proxy.text("g", "echo", json!({"text": "next"})), "next");
    }
}

#[test]
fn a_call_that_is_not_answered_in_time_is_cancelled_upstream() {
    let (mut proxy, record) = recorded(&[], json!({"timeout": {"tools": 1}}));
    let begin = Instant::now();
    let text = proxy.failure("g", "late", json!({}));
    assert!(begin.elapsed().as_millis() >= 1000 && begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    assert!(text.contains("did not answer within 1 s") && text.contains("timeout.tools"), "{text}");
    assert_eq!(cancellation(&record)["requestId"], id_of(&record, "late"));
    assert_eq!(proxy.text("g", "echo", json!({"text": "next"})), "next");
}
