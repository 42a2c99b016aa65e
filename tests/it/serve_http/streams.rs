//! Events, subscriptions, and streams that are closed.

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::net::Shutdown;

use super::{Served, call_params, config, for_all, post, read_head, stateless_post};
use crate::support::InputRecord;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[test]
fn progress_makes_an_answer_a_stream() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let mut params = call_params("g", "progress", json!({"n": 3}));
    params["_meta"] = json!({"progressToken": "p"});
    let mut response = served.request("tools/call", params.clone());
    assert_eq!(response.header("content-type"), "text/event-stream");
    assert_eq!(response.header("x-accel-buffering"), "no");
    let mut messages: Vec<Value> = std::iter::from_fn(|| response.event()).collect();
    let answer = messages.pop().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(1), &json!("complete")));
    let of_server = messages.iter().filter(|message| message["params"]["progressToken"] == "p").count();
    assert!(of_server >= 3, "{messages:?}");
    let response = served.request_with(&[("Accept", "application/json")], "tools/call", params);
    assert_eq!(response.header("content-type"), "application/json", "a client that takes no stream");
}

#[test]
fn listeners_hear_of_lists_and_resources() {
    let served = Served::start(&config([("g", for_all(&["--protocol"]))]), &[]);
    served.call(&[], "g", "echo", json!({"text": "x"}));
    let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["mem://one"]}});
    let mut listeners = [(); 2].map(|()| served.request("subscriptions/listen", filter.clone()));
    for listener in &mut listeners {
        assert_eq!(listener.header("content-type"), "text/event-stream");
        let acknowledged = listener.event().unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], 1);
        assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!(["mem://one"]));
    }
    let [mut first, second] = listeners;
    // One that leaves takes nothing from the other.
    second.body.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    drop(second);
    let update = json!({"method": "notifications/resources/updated", "params": {"uri": "mem://one"}});
    served.call(&[], "g", "tell", update);
    let updated = first.event().unwrap();
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(
        (&updated["params"]["uri"], &updated["params"]["_meta"][SUBSCRIPTION]),
        (&json!("mem://one"), &json!(1))
    );
    let other = config([("g", for_all(&["--protocol"])), ("other", for_all(&[]))]);
    fs::write(served.proxy.config_file(), other.to_string()).unwrap();
    let changed = first.event().unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
}

#[test]
fn a_closed_stream_cancels_only_in_the_modern_era() {
    let record = InputRecord::new();
    let served = Served::start(&config([("g", record.attached_to(for_all(&[])))]), &[]);
    let sleep = call_params("g", "sleep", json!({"ms": 1500}));
    let stream = served.begin(&stateless_post(&[], "tools/call", sleep.clone()));
    let sent = record.wait_for("tools/call", 0).json();
    stream.shutdown(Shutdown::Both).unwrap();
    let cancelled = record.wait_for("notifications/cancelled", 0).json();
    assert_eq!(cancelled["params"]["requestId"], sent["id"]);

    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sleep}).to_string();
    let stream = served.begin(&post(&[], &body));
    record.wait_for("tools/call", 1);
    stream.shutdown(Shutdown::Both).unwrap();
    // The server has answered this one only after the other one, so the connection was read meanwhile.
    served.call(&[], "g", "sleep", json!({"ms": 2000}));
    assert_eq!(record.lines_of("notifications/cancelled").len(), 1);
}

#[test]
fn a_listener_without_a_stream_is_refused() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let accept = [("Accept", "application/json")];
    let response = served.request_with(&accept, "subscriptions/listen", json!({"notifications": {}}));
    assert_eq!(response.status, 406);
}

#[test]
fn one_request_after_another_is_a_stream_or_json_on_one_connection() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let mut params = call_params("g", "progress", json!({"n": 2}));
    params["_meta"] = json!({"progressToken": 1});
    let request = stateless_post(&[], "tools/call", params);
    let mut stream = served.connect();
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = read_head(stream.try_clone().unwrap());
        let messages: Vec<Value> = std::iter::from_fn(|| response.event()).collect();
        assert_eq!(messages.last().unwrap()["id"], 1);
    }
}

/// A load balancer closes a connection on which nothing comes.
#[test]
fn a_stream_that_has_nothing_to_say_has_comments() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let mut listener =
        served.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(listener.event().unwrap()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(listener.body.chunk().as_deref(), Some(":\n\n"));
}
