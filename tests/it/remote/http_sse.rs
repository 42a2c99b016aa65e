//! The HTTP+SSE transport of 2024-11-05.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::server::plain;
use super::{Reply, Server, proxy, remote};
use crate::support::Proxy;

/// A legacy server: its stream names this place first. `refuses`: what it says to a POST at the stream's own address.
fn legacy(endpoint: &'static str, refuses: u16) -> Server {
    let stream = Arc::new(Mutex::new(None::<Sender<String>>));
    Server::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/mcp") => {
            let (say, said) = channel();
            *stream.lock().unwrap() = Some(say);
            Some(Reply::events(move |out| {
                out.write(&format!("event: endpoint\ndata: {endpoint}\n\n"));
                while let Ok(message) = said.recv() {
                    if message == "end" || !out.write(&format!("event: message\ndata: {message}\n\n")) {
                        break;
                    }
                }
                true
            }))
        }
        ("POST", "/messages?session=1") => {
            let say = stream.lock().unwrap().clone().unwrap();
            if request.body["params"]["arguments"]["text"] == "end" {
                say.send("end".to_owned()).unwrap();
            } else if request.body.get("id").is_some() {
                say.send(plain(request).into_text()).unwrap();
            }
            Some(Reply::text(202, "text/plain", "Accepted"))
        }
        _ => Some(Reply::status(refuses)),
    })
}

#[test]
fn it_is_found_by_itself() {
    for refuses in [400, 404, 405] {
        let server = legacy("/messages?session=1", refuses);
        let mut proxy = proxy(&server);
        for n in 0..3 {
            assert_eq!(proxy.text("g", "echo", json!({"text": n.to_string()})), n.to_string(), "{refuses}");
        }
        let posts = server.of("POST");
        assert_eq!(posts.iter().filter(|post| post.path == "/mcp").count(), 1, "tried once");
        assert_eq!(server.of("GET").len(), 1);
    }
}

#[test]
fn it_is_not_tried_where_the_config_or_the_server_says_otherwise() {
    for (refuses, entry) in
        [(405, json!({"type": "http"})), (401, json!({})), (403, json!({})), (500, json!({}))]
    {
        let server = legacy("/messages?session=1", refuses);
        let mut proxy = Proxy::new(&remote(&server, entry));
        let failure = proxy.failure("g", "echo", json!({}));
        let said = if refuses == 401 { "login needed".to_owned() } else { format!("HTTP {refuses}") };
        assert!(failure.contains(&said), "{failure}");
        // A login looks for what the server says of logins, and for no stream.
        assert!(server.of("GET").iter().all(|get| get.header("accept") != "text/event-stream"), "{refuses}");
    }
}

#[test]
fn it_is_all_that_is_spoken_where_the_config_says_so() {
    let server = legacy("messages?session=1", 500);
    let mut proxy = Proxy::new(&remote(&server, json!({"type": "sse"})));
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x", "a relative address");
    assert!(server.of("POST").iter().all(|post| post.path == "/messages?session=1"));
    // The stream is the connection.
    let lost = proxy.failure("g", "echo", json!({"text": "end"}));
    assert!(lost.contains("the server ended its event stream"), "{lost}");
    assert_eq!(proxy.text("g", "echo", json!({"text": "again"})), "again");
    assert_eq!(server.of("initialize").len(), 2);
}

#[test]
fn messages_are_sent_to_no_other_server() {
    let canary = Server::start(|_| Some(Reply::status(202)));
    let place: &'static str = Box::leak(canary.url().into_boxed_str());
    let server = legacy(place, 405);
    let config = remote(&server, json!({"type": "sse", "headers": {"Authorization": "Bearer s3cret"}}));
    let mut proxy = Proxy::new(&config);
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("does not send messages to another origin"), "{failure}");
    assert_eq!(canary.seen().len(), 0);
}
