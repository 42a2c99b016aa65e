//! Event streams of answers and the GET stream: delivered, lost and resumed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Reply, Server, event, proxy};
use crate::support::{text_of, wait_until};

#[test]
fn progress_and_requests_come_before_the_answer_on_its_stream() {
    let server = Server::start(|request| {
        let token = request.body["params"]["_meta"]["progressToken"].clone();
        let (call, answer) = (request.is_tool_call(), request.text_response("done"));
        call.then(|| {
            Reply::events(move |out| {
                let progress = |n: u32| {
                    let params = json!({"progressToken": token, "progress": n});
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                        .to_string()
                };
                let ping = json!({"jsonrpc": "2.0", "id": "their-1", "method": "ping"}).to_string();
                out.write("retry: 10\n\n")
                    && out.write(&event(&progress(1)))
                    && out.write(": comment\n\nevent: message\n")
                    && out.write(&event(&progress(2)).replace('\n', "\r\n"))
                    && out.write(&event(&ping))
                    && out.write(&event(&answer))
            })
        })
    });
    let mut proxy = proxy(&server);
    proxy.get_dynamic_tools(json!({"group": "g"}));
    let arguments = json!({"group": "g", "name": "echo", "args": {}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "mine"}});
    let id = proxy.send_request("tools/call", params);
    for n in 1..=2 {
        let notification = proxy.next_message().unwrap().json();
        assert_eq!(
            (&notification["params"]["progressToken"], &notification["params"]["progress"]),
            (&json!("mine"), &json!(n))
        );
    }
    let answer = proxy.next_message().unwrap();
    assert_eq!(answer.id().unwrap(), id.to_string());
    assert_eq!(text_of(&answer.json()["result"]), "done");
    wait_until("the ping is answered", || {
        server
            .requests_of("POST")
            .iter()
            .any(|post| post.body["id"] == "their-1" && post.body["result"].is_object())
    });
    proxy.call_text("g", "echo", json!({}));
    // A stream that is read to its end leaves its connection for the next call.
    assert!(server.connections() <= 4, "{}", server.connections());
}

#[test]
fn an_answer_that_breaks_off_is_resumed_where_it_stopped() {
    let gets = AtomicUsize::new(0);
    let answer = Arc::new(Mutex::new(String::new()));
    let server = Server::start(move |request| {
        if request.is_tool_call() {
            *answer.lock().unwrap() = request.text_response("resumed");
            // A priming event and a notification; then the server ends the stream, as it may.
            return Some(Reply::events(|out| {
                out.write("retry: 300\nid: 0\ndata:\n\n")
                    && out.event("a-1", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}")
            }));
        }
        if request.method != "GET" || request.header("last-event-id").is_empty() {
            return None;
        }
        let answer = answer.lock().unwrap().clone();
        Some(match gets.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::events(|out| out.cut("id: a-2\ndata:\n\n")),
            1 => Reply::events(|out| out.cut("data: {\"jsonrpc")),
            _ => Reply::events(move |out| out.event("a-3", &answer)),
        })
    });
    let mut proxy = proxy(&server);
    proxy.get_dynamic_tools(json!({"group": "g"}));
    let start = Instant::now();
    assert_eq!(proxy.call_text("g", "echo", json!({})), "resumed");
    assert!(start.elapsed() >= Duration::from_millis(900), "it waits for the `retry` interval");
    assert_eq!(server.requests_of("tools/call").len(), 1, "the call is not repeated");
    let resumed_from: Vec<_> =
        server.requests_of("GET").iter().map(|get| get.header("last-event-id").to_owned()).collect();
    assert_eq!(resumed_from, ["", "a-1", "a-2", "a-2"]);
    assert!(server.requests_of("GET").iter().all(|get| get.header("accept") == "text/event-stream"));
}

#[test]
fn an_answer_that_cannot_be_resumed_fails() {
    let server = Server::start(|request| {
        request.is_tool_call().then(|| Reply::events(|out| out.cut("retry: 10\nid: 7\ndata:\n\n")))
    });
    let mut proxy = proxy(&server);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("broke before the answer was complete"), "{failure}");
    assert_eq!(server.requests_of("tools/call").len(), 1);
    assert_eq!(server.requests_of("GET").last().unwrap().header("last-event-id"), "7");
}

#[test]
fn the_get_stream_is_delivered_and_resumed() {
    let (sender, messages) = channel::<Option<Value>>();
    let messages = Arc::new(Mutex::new(messages));
    let tools = Arc::new(AtomicUsize::new(1));
    let count = tools.clone();
    let server = Server::start(move |request| match (request.method.as_str(), request.rpc_method()) {
        ("GET", _) => {
            let messages = messages.clone();
            Some(Reply::events(move |out| {
                let messages = messages.lock().unwrap();
                let mut id = 0;
                out.write("retry: 50\n\n");
                while let Ok(Some(message)) = messages.recv() {
                    id += 1;
                    out.event(&format!("own-{id}"), &message.to_string());
                }
                false
            }))
        }
        (_, "tools/list") => {
            let tools = (0..count.load(Ordering::SeqCst))
                .map(|n| json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}}));
            Some(Reply::json(request.response(json!({"tools": tools.collect::<Vec<_>>()}))))
        }
        _ => None,
    });
    let mut proxy = proxy(&server);
    assert!(!proxy.get_dynamic_tools(json!({"group": "g"})).contains("t1"));
    server.wait_for_requests("GET", 1);
    for round in 1..=2 {
        tools.fetch_add(1, Ordering::SeqCst);
        sender.send(Some(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))).unwrap();
        let name = format!("t{round}");
        wait_until("the new tool is listed", || {
            proxy.get_dynamic_tools(json!({"group": "g"})).contains(&name)
        });
        sender.send(None).unwrap();
        let get = server.wait_for_requests("GET", round + 1).pop().unwrap();
        assert_eq!(get.header("last-event-id"), "own-1");
    }
    assert_eq!(server.requests_of("initialize").len(), 1);
    proxy.call_text("g", "t0", json!({}));
}

#[test]
fn a_cancelled_call_is_cancelled_by_notification() {
    let server = Server::start(|request| {
        request.is_tool_call().then(|| {
            Reply::events(|out| {
                out.keep_open();
                false
            })
        })
    });
    let mut proxy = proxy(&server);
    let id = proxy.send_call("g", "echo", json!({}));
    let call = server.wait_for_requests("tools/call", 1).remove(0);
    proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    let notification = server.wait_for_requests("notifications/cancelled", 1).remove(0);
    assert_eq!(notification.body["params"], json!({"requestId": call.body["id"], "reason": "enough"}));
}
