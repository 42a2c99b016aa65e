//! Servers that compress what they send, although they are asked not to.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use serde_json::json;

use super::server::{default_reply, gzip};
use super::{Reply, Server, event, proxy, remote};
use crate::support::{Proxy, merged};

#[test]
fn what_a_server_compresses_all_the_same_is_decoded() {
    let server = Server::start(|request| {
        let reply = (request.method == "POST").then(|| default_reply(request))?;
        if !request.is_tool_call() {
            return Some(reply.gzipped());
        }
        let (answer, how) = (reply.into_text(), request.body["params"]["arguments"]["text"].as_str()?);
        Some(match how {
            "deflate" => Reply::chunked("application/json", move |out| {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(answer.as_bytes()).unwrap();
                out.write_bytes(&encoder.finish().unwrap())
            })
            .with_header("Content-Encoding", "deflate"),
            "events" => Reply::events(move |out| {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(event(&answer).as_bytes()).unwrap();
                encoder.flush().unwrap();
                out.write_bytes(encoder.get_ref());
                // The answer is delivered before the stream ends.
                out.keep_open();
                false
            })
            .with_header("Content-Encoding", "GZIP"),
            _ => Reply::json(answer).gzipped(),
        })
    });
    let mut proxy = proxy(&server);
    for how in ["gzip", "deflate", "events"] {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": how})), how);
    }
    for request in server.requests() {
        assert_eq!(request.header("accept-encoding"), "identity", "{}", request.method);
    }
}

#[test]
fn the_limit_counts_what_is_decoded_and_another_coding_is_named() {
    let server = Server::start(|request| {
        let how = request.is_tool_call().then(|| request.body["params"]["arguments"]["how"].as_str())??;
        let long = request.text_response(&" ".repeat(20_000_000));
        Some(match how {
            "json" => Reply::json(long).gzipped(),
            "events" => Reply::events(move |out| out.write_bytes(&gzip(event(&long).as_bytes())))
                .with_header("Content-Encoding", "gzip"),
            _ => default_reply(request).with_header("Content-Encoding", "br"),
        })
    });
    let limits = json!({"settings": {"max_message_bytes": 100_000, "lazy_startup": "pure"}});
    let mut proxy = Proxy::new(&merged(remote(&server, json!({})), limits));
    for (how, expected) in [
        ("json", "more than the limit of 100000"),
        ("events", "more than the limit of 100000"),
        ("br", "has the content coding br, although dynamic-mcp asks for none"),
    ] {
        let failure = proxy.call_failure("g", "echo", json!({"how": how}));
        assert!(failure.contains(expected), "{how}: {failure}");
        assert_eq!(proxy.call_text("g", "look", json!({"text": "on"})), "on");
    }
    assert_eq!(server.requests_of("initialize").len(), 1);
}
