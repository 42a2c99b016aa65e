//! The stream of a GET is optional: its failures cost no request, and a subscription that lacks it is named.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::default_reply;
use super::{Reply, Request, Server, proxy, remote};
use crate::support::{Proxy, pure_config, text_of, wait_until};

const UPDATED: &str = "notifications/resources/updated";

/// The reply of a server with a session, and with a resource that can be subscribed to.
fn subscribable(request: &Request) -> Option<Reply> {
    Some(match request.rpc_method() {
        "initialize" => {
            let mut answer: Value = serde_json::from_str(&default_reply(request).into_text()).unwrap();
            answer["result"]["capabilities"]["resources"] = json!({"subscribe": true});
            Reply::json(answer.to_string()).with_header("Mcp-Session-Id", "s")
        }
        "resources/list" => {
            Reply::json(request.response(json!({"resources": [{"uri": "mem://one", "name": "one"}]})))
        }
        "resources/subscribe" | "ping" => Reply::json(request.response(json!({}))),
        _ => return None,
    })
}

/// How many streams were asked for. A 401 has the metadata of a login read, too.
fn gets(server: &Server) -> usize {
    server.requests_of("GET").iter().filter(|get| get.header("accept") == "text/event-stream").count()
}

#[test]
fn a_refused_get_ends_nothing_and_is_tried_twice_more() {
    const STATUSES: [u16; 8] = [400, 401, 403, 404, 409, 500, 502, 503];
    let release = Arc::new(AtomicBool::new(false));
    let servers = STATUSES.map(|status| {
        let released = release.clone();
        Server::start(move |request| {
            if request.method == "GET" {
                return Some(Reply::status(status));
            }
            if request.is_tool_call() && request.body["params"]["arguments"]["text"] == "waits" {
                wait_until("the stream is given up", || released.load(Ordering::SeqCst));
            }
            subscribable(request)
        })
    });
    let entries = servers.each_ref().map(|server| json!({"url": server.url()}));
    let names = STATUSES.map(|status| format!("g{status}"));
    let config: serde_json::Map<_, _> = names.iter().cloned().zip(entries).collect();
    let mut proxy = Proxy::new(&json!({"mcpServers": config, "settings": {"lazy_startup": "pure"}}));
    let calls: Vec<_> =
        names.iter().map(|name| proxy.send_call(name, "echo", json!({"text": "waits"}))).collect();
    for (server, status) in servers.iter().zip(STATUSES) {
        wait_until("the stream is given up", || gets(server) == if status == 401 { 1 } else { 3 });
    }
    release.store(true, Ordering::SeqCst);
    for (call, name) in calls.into_iter().zip(&names) {
        assert_eq!(text_of(&proxy.response(call).json()["result"]), "waits", "{name}");
        assert_eq!(proxy.call_text(name, "echo", json!({"text": "on"})), "on", "{name}");
        assert_eq!(proxy.group_status(name)["findings"], json!([]), "nothing needs the stream");
    }
    for (server, name) in servers.iter().zip(&names) {
        assert_eq!(server.requests_of("initialize").len(), 1, "{name}");
        assert!(gets(server) <= 3, "{name}: {}", gets(server));
    }
}

#[test]
fn a_subscription_opens_the_stream_again_or_names_its_absence() {
    let gets = AtomicUsize::new(0);
    let recovers = Server::start(move |request| {
        if request.method != "GET" {
            return subscribable(request);
        }
        Some(match gets.fetch_add(1, Ordering::SeqCst) {
            0..3 => Reply::status(409),
            _ => Reply::events(|out| {
                let update = json!({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "mem://one"}});
                out.event("", &update.to_string());
                out.keep_open();
                false
            }),
        })
    });
    let fails =
        Server::start(
            |request| {
                if request.method == "GET" { Some(Reply::status(502)) } else { subscribable(request) }
            },
        );
    let entry = |server: &Server| json!({"url": server.url()});
    let mut proxy = Proxy::new(&pure_config([("g", entry(&recovers)), ("h", entry(&fails))]));
    for group in ["g", "h"] {
        proxy.call_text(group, "echo", json!({}));
    }
    recovers.wait_for_requests("GET", 3);
    fails.wait_for_requests("GET", 3);
    for group in ["g", "h"] {
        let subscription = json!({"uri": "mem://one", "group": group});
        assert_eq!(proxy.request("resources/subscribe", subscription)["result"], json!({}));
    }
    assert_eq!(proxy.wait_for_message(UPDATED).json()["params"]["uri"], "mem://one");
    assert_eq!(proxy.group_status("g")["findings"], json!([]));
    let mut finding = || proxy.group_status("h")["findings"][0].as_str().unwrap_or_default().to_owned();
    wait_until("the missing stream is named", || {
        finding().contains("bring no updates, because its event stream (GET) cannot be opened")
    });
    assert!(finding().contains("HTTP 502"));
    proxy.wait_for_log("bring no updates");
}

#[test]
fn a_call_outlives_streams_that_close_and_a_server_that_accepts_no_connection() {
    let release = Arc::new(AtomicBool::new(false));
    let (released, gets) = (release.clone(), AtomicUsize::new(0));
    let server = Server::start(move |request| {
        if request.method == "GET" {
            // The later streams close without an event.
            let is_first = gets.fetch_add(1, Ordering::SeqCst) == 0;
            let stream = Reply::events(move |out| !is_first || out.write("retry: 100\n\n"));
            return Some(stream.with_header("Connection", "close"));
        }
        if request.is_tool_call() {
            wait_until("it may answer", || released.load(Ordering::SeqCst));
        }
        // No connection is used twice.
        Some(default_reply(request).with_header("Connection", "close"))
    });
    let mut proxy = proxy(&server);
    let call = proxy.send_call("g", "echo", json!({"text": "answered"}));
    server.wait_for_requests("tools/call", 1);
    server.wait_for_requests("GET", 2);
    server.stop_listening();
    std::thread::sleep(Duration::from_secs(3));
    release.store(true, Ordering::SeqCst);
    assert_eq!(text_of(&proxy.response(call).json()["result"]), "answered");
}

/// A server that is gone is shown by the state of its group, although nothing is sent to it.
#[test]
fn a_server_that_is_gone_is_noticed_without_a_request() {
    let server = Server::start(|request| {
        (request.method == "GET").then(|| {
            Reply::events(|out| {
                out.write("retry: 1\n\n");
                out.keep_open();
                false
            })
        })
    });
    let mut proxy = Proxy::new(&remote(&server, json!({})));
    proxy.call_text("g", "echo", json!({}));
    server.wait_for_requests("GET", 1);
    server.close();
    proxy.wait_for_state("g", "discovered");
}
