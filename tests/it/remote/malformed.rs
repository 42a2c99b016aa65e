//! Answers of remote servers that cannot be read, and servers that refuse the answer to their own question.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Reply, Server, event, proxy, remote};
use crate::support::{Proxy, ProxyCommand, text_of};

/// Well below `timeout.tools`.
const AT_ONCE: Duration = Duration::from_secs(10);

#[test]
fn a_call_whose_answer_cannot_be_read_fails_at_once() {
    let server = Server::start(|request| {
        let how = request
            .is_tool_call()
            .then(|| request.body["params"]["arguments"]["how"].as_str().map(str::to_owned))??;
        let broken = request.text_response("NUMBER").replace("\"NUMBER\"", "NaN");
        Some(match how.as_str() {
            "json" => Reply::json(broken),
            "cut" => Reply::json(&broken[..60]),
            // The server does not end the stream.
            _ => Reply::events(move |out| {
                out.write(&event(&broken));
                out.keep_open();
                false
            }),
        })
    });
    let mut proxy = proxy(&server);
    proxy.call_text("g", "echo", json!({"text": "connected"}));
    for (how, what) in [
        ("json", "the server's answer is not JSON: NaN at byte "),
        ("cut", "the server's answer is not JSON: it is cut off after byte 60"),
        ("events", "the server's answer is not JSON: NaN at byte "),
    ] {
        let start = Instant::now();
        let failure = proxy.call_failure("g", "echo", json!({"how": how}));
        assert!(failure.contains(what), "{how}: {failure}");
        assert!(start.elapsed() < AT_ONCE, "{how}: {:?}", start.elapsed());
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "on"})), "on");
    }
    assert_eq!(server.requests_of("initialize").len(), 1, "the connection goes on");
}

/// A server that asks the client on the stream of a call, and refuses the answer with this status.
fn server_refusing_answers(status: u16) -> Server {
    Server::start(move |request| {
        if request.is_tool_call() && request.body["params"]["arguments"]["text"].is_null() {
            let question = json!({"jsonrpc": "2.0", "id": "q-1", "method": "roots/list"}).to_string();
            return Some(Reply::events(move |out| {
                out.write(&event(&question));
                out.keep_open();
                false
            }));
        }
        let is_answer = request.body["id"] == "q-1";
        let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such root"}}"#;
        is_answer.then(|| Reply::text(status, "application/json", refusal))
    })
}

#[test]
fn a_call_whose_question_was_answered_in_vain_fails_at_once() {
    for status in [400, 422, 500] {
        let server = server_refusing_answers(status);
        let config = remote(&server, json!({}));
        let mut proxy = Proxy::with_capabilities(&config, json!({"roots": {}}));
        proxy.call_text("g", "echo", json!({"text": "connected"}));
        let asking = proxy.send_call("g", "echo", json!({}));
        let question = proxy.wait_for_message("roots/list");
        let start = Instant::now();
        proxy.respond(&question, r#""result":{"roots":[]}"#);
        let result = proxy.response(asking).json()["result"].take();
        let failure = text_of(&result);
        assert!(failure.contains("the server refused the answer to its own question: "), "{failure}");
        assert!(failure.contains(&format!("HTTP {status}")), "{failure}");
        assert!(failure.contains("no such root"), "{failure}");
        assert!(result["isError"] == true && start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "on"})), "on");
    }
}

#[test]
fn only_the_call_on_whose_stream_the_question_came_fails() {
    let server = Server::start(|request| {
        if request.is_tool_call() && request.body["params"]["arguments"]["text"].is_null() {
            let n = request.body["params"]["arguments"]["n"].as_u64().unwrap();
            let question =
                json!({"jsonrpc": "2.0", "id": format!("q-{n}"), "method": "roots/list"}).to_string();
            let answer = request.text_response("not asked again");
            return Some(Reply::events(move |out| {
                out.write(&event(&question));
                std::thread::sleep(Duration::from_secs(2 * n));
                out.write(&event(&answer))
            }));
        }
        (request.body["id"] == "q-2").then(|| Reply::status(400))
    });
    let config = remote(&server, json!({}));
    let mut proxy = Proxy::with_capabilities(&config, json!({"roots": {}}));
    proxy.call_text("g", "echo", json!({"text": "connected"}));
    let first = proxy.send_call("g", "echo", json!({"n": 1}));
    proxy.wait_for_message("roots/list");
    let second = proxy.send_call("g", "echo", json!({"n": 2}));
    let question = proxy.wait_for_message("roots/list");
    proxy.respond(&question, r#""result":{"roots":[]}"#);
    let failure = proxy.response(second).json();
    assert!(text_of(&failure["result"]).contains("HTTP 400"), "{failure}");
    assert_eq!(text_of(&proxy.response(first).json()["result"]), "not asked again");
}

#[test]
fn a_question_reaches_the_call_of_a_stateless_client_on_whose_stream_it_came() {
    let server = Server::start(|request| {
        let asks = request.is_tool_call() && request.body["params"]["arguments"]["asks"] == true;
        let question = json!({"jsonrpc": "2.0", "id": "q-1", "method": "roots/list"}).to_string();
        request.is_tool_call().then(|| {
            Reply::events(move |out| {
                if asks {
                    out.write(&event(&question));
                }
                out.keep_open();
                false
            })
        })
    });
    let mut proxy = ProxyCommand::new().config(&remote(&server, json!({}))).start();
    let mut call = |args: Value| {
        let arguments = json!({"group": "g", "name": "echo", "args": args});
        let params = json!({"name": "call_dynamic_tool", "arguments": arguments});
        proxy.send_stateless_request(&json!({"roots": {}}), "tools/call", params)
    };
    let older = call(json!({}));
    server.wait_for_requests("tools/call", 1);
    let asking = call(json!({"asks": true}));
    let next = proxy.next_message().unwrap();
    assert_eq!(next.id(), Some(&*asking.to_string()), "not {older}: {}", next.line);
    assert_eq!(next.json()["result"]["inputRequests"]["1"]["method"], "roots/list", "{}", next.line);
}

#[test]
fn a_task_whose_call_was_cancelled_before_the_server_created_it_is_cancelled() {
    let server = Server::start(|request| {
        let task = json!({"task": {"taskId": "t-1", "status": "working"}});
        request.is_tool_call().then(|| {
            std::thread::sleep(Duration::from_millis(700));
            Reply::json(request.response(task))
        })
    });
    let mut proxy = Proxy::new(&remote(&server, json!({})));
    let arguments = json!({"group": "g", "name": "echo", "args": {}});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "task": {}});
    let id = proxy.send_request("tools/call", params);
    server.wait_for_requests("tools/call", 1);
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    let cancelled = server.wait_for_requests("tasks/cancel", 1);
    assert_eq!(cancelled[0].body["params"], json!({"taskId": "t-1"}));
}

#[test]
fn a_byte_order_mark_and_an_id_in_another_form_are_read() {
    let server = Server::start(|request| {
        let id = format!("\"id\":{}.0", request.body["id"]);
        let odd = |text: String| text.replace(&format!("\"id\":{}", request.body["id"]), &id);
        request.is_tool_call().then(|| Reply::json(format!("\u{feff}{}", odd(request.text_response("x")))))
    });
    assert_eq!(proxy(&server).call_text("g", "echo", json!({})), "x");
}
