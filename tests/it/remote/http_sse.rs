//! The HTTP+SSE transport (revision 2024-11-05).

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::server::default_reply;
use super::{Reply, Server, proxy, remote};
use crate::shell::Shell;
use crate::support::{Proxy, text_of};

/// A server of that transport whose stream names `endpoint`. `refuses`: its status for a POST to the URL of the stream.
fn http_sse_server(endpoint: &'static str, refuses: u16) -> Server {
    let stream = Arc::new(Mutex::new(None::<Sender<String>>));
    Server::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/mcp") => {
            let (sender, messages) = channel();
            *stream.lock().unwrap() = Some(sender);
            Some(Reply::events(move |out| {
                out.write(&format!("event: endpoint\ndata: {endpoint}\n\n"));
                while let Ok(message) = messages.recv() {
                    if message == "end" || !out.write(&format!("event: message\ndata: {message}\n\n")) {
                        break;
                    }
                }
                true
            }))
        }
        ("POST", "/messages?session=1") => {
            let sender = stream.lock().unwrap().clone().unwrap();
            if request.body["params"]["arguments"]["text"] == "end" {
                sender.send("end".to_owned()).unwrap();
            } else if request.body.get("id").is_some() {
                sender.send(default_reply(request).into_text()).unwrap();
            }
            Some(Reply::text(202, "text/plain", "Accepted"))
        }
        _ => Some(Reply::status(refuses)),
    })
}

#[test]
fn the_transport_is_detected() {
    for refuses in [400, 404, 405] {
        let server = http_sse_server("/messages?session=1", refuses);
        let mut proxy = proxy(&server);
        for n in 0..3 {
            assert_eq!(
                proxy.call_text("g", "echo", json!({"text": n.to_string()})),
                n.to_string(),
                "{refuses}"
            );
        }
        let posts = server.requests_of("POST");
        assert_eq!(
            posts.iter().filter(|post| post.path == "/mcp").count(),
            1,
            "Streamable HTTP is tried once"
        );
        assert_eq!(server.requests_of("GET").len(), 1);
    }
}

#[test]
fn the_transport_is_not_tried_where_the_status_excludes_it() {
    let cases = [(401, json!({})), (403, json!({})), (500, json!({}))];
    let calls = cases.map(|(refuses, entry)| {
        let server = http_sse_server("/messages?session=1", refuses);
        let mut proxy = Proxy::new(&remote(&server, entry));
        let call = proxy.send_call("g", "echo", json!({}));
        (refuses, server, proxy, call)
    });
    for (refuses, server, mut proxy, call) in calls {
        let response = proxy.response(call).json();
        let failure = text_of(&response["result"]);
        let message = if refuses == 401 { "wants a key".to_owned() } else { format!("HTTP {refuses}") };
        assert!(failure.contains(&message), "{failure}");
        // A login reads metadata by GET. No stream is opened.
        assert!(
            server.requests_of("GET").iter().all(|get| get.header("accept") != "text/event-stream"),
            "{refuses}"
        );
    }
}

#[test]
fn a_server_of_the_other_transport_works_and_the_config_is_corrected() {
    let answer_415 = Server::start(|request| (request.method == "GET").then(|| Reply::status(415)));
    let cases = [
        (http_sse_server("/messages?session=1", 405), "http", "write \"type\": \"sse\" in place of \"http\""),
        (http_sse_server("/messages?session=1", 406), "http", "write \"type\": \"sse\" in place of \"http\""),
        (Server::start(|_| None), "sse", "write \"type\": \"http\" in place of \"sse\""),
        (answer_415, "sse", "write \"type\": \"http\" in place of \"sse\""),
    ];
    for (server, demanded, advice) in cases {
        let config = remote(&server, json!({"type": demanded}));
        let mut proxy = Proxy::new(&config);
        for text in ["x", "y"] {
            assert_eq!(proxy.call_text("g", "echo", json!({"text": text})), text, "{demanded}");
        }
        assert_eq!(server.requests_of("tools/call").len(), 2);
        let group = proxy.group_status("g");
        assert!(group["findings"].to_string().contains(&advice.replace('"', "\\\"")), "{group}");
        assert!(
            proxy.log().contains(&advice.replace('"', "\\\"")) || proxy.log().contains(advice),
            "{}",
            proxy.log()
        );
        let (code, stdout, stderr) = Shell::new(&config).run(&["check"]);
        assert!(code == 0 && stdout.contains(advice), "{stdout}{stderr}");
    }
}

#[test]
fn a_server_without_either_transport_gives_its_own_error() {
    for (demanded, status) in [("http", 405), ("sse", 405)] {
        let server = Server::start(move |_| Some(Reply::status(status)));
        let failure =
            Proxy::new(&remote(&server, json!({"type": demanded}))).call_failure("g", "echo", json!({}));
        assert!(failure.contains(&format!("HTTP {status}")), "{failure}");
        assert!(server.requests_of("initialize").len() <= 1, "each transport is tried once");
    }
}

#[test]
fn the_error_of_the_transport_that_is_tried_counts() {
    let server =
        Server::start(|request| Some(Reply::status(if request.method == "POST" { 401 } else { 405 })));
    let config = remote(&server, json!({"type": "sse"}));
    let failure = Proxy::new(&config).call_failure("g", "echo", json!({}));
    assert!(failure.contains("wants a key"), "{failure}");
}

#[test]
fn only_the_transport_that_the_config_sets_is_used() {
    let server = http_sse_server("messages?session=1", 500);
    let mut proxy = Proxy::new(&remote(&server, json!({"type": "sse"})));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x", "a relative endpoint");
    assert!(server.requests_of("POST").iter().all(|post| post.path == "/messages?session=1"));
    // The end of the stream ends the connection.
    let lost = proxy.call_failure("g", "echo", json!({"text": "end"}));
    assert!(lost.contains("the server ended its event stream"), "{lost}");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "again"})), "again");
    assert_eq!(server.requests_of("initialize").len(), 2);
}

#[test]
fn messages_are_not_sent_to_another_origin() {
    let canary = Server::start(|_| Some(Reply::status(202)));
    let endpoint: &'static str = Box::leak(canary.url().into_boxed_str());
    let server = http_sse_server(endpoint, 405);
    let config = remote(&server, json!({"type": "sse", "headers": {"Authorization": "Bearer s3cret"}}));
    let mut proxy = Proxy::new(&config);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("does not send messages to another origin"), "{failure}");
    assert_eq!(canary.requests().len(), 0);
}
