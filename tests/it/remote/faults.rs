//! What can go wrong with a remote server, and what is said of it.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{Reply, Server, proxy, remote};
use crate::support::{Proxy, SOON, as_configured, text_of, with};

/// Within this a failure answers for itself.
const COOL_DOWN: Duration = Duration::from_secs(5);

/// A server that answers everything so.
fn always(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |_| Some(reply()))
}

#[test]
fn what_keeps_a_group_from_connecting_is_said() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let elsewhere = always(|| Reply::status(200));
    let place = elsewhere.url() + "?token=s3cret";
    let url = |server: Server| server.url();
    let cases = [
        (
            "refused",
            format!("http://{closed}/s3cret?key=s3cret"),
            "cannot be reached: Connection refused",
            true,
        ),
        (
            "nowhere",
            "http://no-such-host.invalid/mcp".to_owned(),
            "no-such-host.invalid cannot be reached: ",
            true,
        ),
        (
            "login",
            url(always(|| Reply::status(401).with("WWW-Authenticate", "Bearer"))),
            "login needed: run `dynamic-mcp login login`",
            false,
        ),
        (
            "forbidden",
            url(always(|| Reply::text(403, "application/json", r#"{"message":"not for you"}"#))),
            "HTTP 403 Forbidden: not for you",
            true,
        ),
        (
            "busy",
            url(always(|| Reply::status(429).with("Retry-After", "33"))),
            "HTTP 429 Too Many Requests); it wants to be asked again in 33 s",
            true,
        ),
        ("error", url(always(|| Reply::status(500))), "HTTP 500 Internal Server Error", true),
        ("gateway", url(always(|| Reply::text(502, "text/html", "<h1>"))), "HTTP 502 Bad Gateway", true),
        (
            "moved",
            url(always(move || Reply::status(307).with("Location", &place))),
            "redirects to http://127.0.0.1:",
            true,
        ),
        (
            "page",
            url(always(|| Reply::text(200, "text/html; charset=x", "<h1>"))),
            "text/html instead of JSON or an event stream",
            true,
        ),
        ("other", url(always(|| Reply::json(r#"{"hello":1}"#))), "no answer of JSON-RPC", true),
        ("empty", url(always(|| Reply::status(202))), "HTTP 202 Accepted and nothing else", true),
        (
            "cut",
            url(always(|| Reply::live("application/json", |out| out.write("{") && false))),
            "the connection broke before the answer was complete",
            true,
        ),
        (
            "silent",
            url(always(|| {
                Reply::events(|out| {
                    out.hold();
                    false
                })
            })),
            "initialize was not answered within 0.5 s",
            true,
        ),
        ("gone", url(always(|| Reply::status(404))), "HTTP 404 Not Found", true),
    ];
    let entries = cases.each_ref().map(|(name, url, ..)| {
        (*name, json!({"url": url, "lazy_startup": "pure", "timeout": {"initialize": 0.5, "connect": 2}}))
    });
    let mut proxy = Proxy::new(&as_configured(entries));
    let calls = cases.each_ref().map(|(name, ..)| proxy.send_call(name, "echo", json!({})));
    for ((name, _, said, helps), id) in cases.iter().zip(calls) {
        let result = proxy.answer(id).json()["result"].take();
        let text = text_of(&result);
        assert!(text.contains(said), "{name}: {text}");
        assert!(!text.contains("s3cret"), "{name}: {text}");
        assert_eq!(text.contains("Call again in"), *helps, "{name}: {text}");
        assert_eq!(text.contains("Call again in 33 seconds"), *name == "busy", "{name}: {text}");
        assert_eq!(proxy.group(name)["state"], "failed");
    }
    assert_eq!(elsewhere.seen().len(), 0, "nothing is sent to another origin");
}

#[test]
fn a_call_that_fails_on_its_way_leaves_the_connection() {
    let server = Server::start(|request| {
        let how = request
            .is_call()
            .then(|| request.body["params"]["arguments"]["how"].as_str().map(str::to_owned))??;
        Some(match how.as_str() {
            "500" => Reply::status(500),
            "error" => Reply::text(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no such page"}}"#,
            ),
            "page" => Reply::text(200, "text/html", "<h1>"),
            "cut" => Reply::live("application/json", |out| out.write("{\"jsonrpc\":") && false),
            "events" => Reply::events(|out| out.write(": hello\n\n") && out.write("data: {\"half") && false),
            "moved" => Reply::status(302).with("Location", "http://127.0.0.1:9/mcp"),
            "busy" => Reply::status(503).with("Retry-After", "3600"),
            _ => return None,
        })
    });
    let mut proxy = proxy(&server);
    for (how, said) in [
        ("500", "HTTP 500 Internal Server Error"),
        ("page", "text/html"),
        ("cut", "broke before the answer was complete"),
        ("events", "broke before the answer was complete"),
        ("moved", "redirects to http://127.0.0.1:9"),
        ("busy", "HTTP 503 Service Unavailable); it wants to be asked again in 3600 s"),
    ] {
        let begin = Instant::now();
        let failure = proxy.failure("g", "echo", json!({"how": how}));
        assert!(failure.contains(said), "{how}: {failure}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{how}: not when its time is over");
    }
    let arguments = json!({"group": "g", "name": "echo", "args": {"how": "error"}});
    let refused = proxy.ask("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}));
    assert_eq!(refused["error"]["message"], "no such page", "an error of the server's own: {refused}");
    assert_eq!(proxy.text("g", "echo", json!({"text": "on"})), "on");
    assert_eq!(server.of("initialize").len(), 1);
    assert_eq!(server.of("tools/call").len(), 8, "none was made twice");
}

#[test]
fn a_call_that_only_reads_is_made_again_when_its_answer_broke_off() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let first = request.is_call() && calls.fetch_add(1, Ordering::Relaxed) == 0;
        first.then(|| Reply::events(|out| out.write(": hello\n\n") && false))
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.text("g", "look", json!({"text": "seen"})), "seen");
    assert_eq!(server.of("tools/call").len(), 2);
}

#[test]
fn an_answer_that_drips_runs_out_of_its_time() {
    let server = Server::start(|request| {
        request.is_call().then(|| {
            Reply::live("application/json", |out| {
                while out.write(" ") {
                    std::thread::sleep(Duration::from_millis(100));
                }
                false
            })
        })
    });
    let mut proxy = Proxy::new(&remote(&server, json!({"timeout": {"tools": 1}})));
    proxy.tools(json!({"group": "g"}));
    let begin = Instant::now();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("no answer within 1 s"), "{failure}");
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(proxy.group("g")["state"], "connected");
    server.until("notifications/cancelled", 1);
}

#[test]
fn a_busy_server_is_asked_again_when_it_says() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let first = request.is_call() && calls.fetch_add(1, Ordering::Relaxed) == 0;
        first.then(|| Reply::status(429).with("Retry-After", "1"))
    });
    let mut proxy = proxy(&server);
    proxy.tools(json!({"group": "g"}));
    let begin = Instant::now();
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.of("tools/call").len(), 2);
}

#[test]
fn a_login_that_ran_out_is_said_at_once_and_ends_the_connection() {
    let out = Arc::new(AtomicBool::new(false));
    let is_out = out.clone();
    let server = Server::start(move |_| is_out.load(Ordering::Relaxed).then(|| Reply::status(401)));
    let mut proxy = proxy(&server);
    proxy.text("g", "echo", json!({}));
    out.store(true, Ordering::Relaxed);
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("login needed: run `dynamic-mcp login g`"), "{failure}");
    assert!(failure.contains("will not help"), "{failure}");
    assert_eq!(server.of("tools/call").len(), 2);
    assert_eq!(proxy.group("g")["state"], "failed");
    out.store(false, Ordering::Relaxed);
    std::thread::sleep(COOL_DOWN);
    assert_eq!(proxy.text("g", "echo", json!({"text": "back"})), "back");
}

#[test]
fn a_token_of_the_config_that_is_refused_is_said_to_be_that() {
    let server = always(|| Reply::status(401));
    let mut proxy = Proxy::new(&remote(&server, json!({"headers": {"authorization": "Bearer s3cret"}})));
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("the server refused the Authorization in \"headers\""), "{failure}");
    assert!(failure.contains("will not help"), "{failure}");
}

#[test]
fn a_server_that_was_away_is_found_again_by_the_call_that_missed_it() {
    let server = Server::start(|_| None);
    let mut proxy = Proxy::new(&with(remote(&server, json!({})), json!({})));
    proxy.text("g", "echo", json!({}));
    server.close();
    let id = proxy.send_call("g", "echo", json!({"text": "found"}));
    proxy.until_logged("connect failed");
    let again = Server::on(TcpListener::bind(server.address()).unwrap(), None, |_| None);
    let begin = Instant::now();
    let result = proxy.answer(id).json()["result"].take();
    assert_eq!(text_of(&result), "found");
    assert!(begin.elapsed() < SOON);
    assert_eq!((again.of("initialize").len(), again.of("tools/call").len()), (1, 1));
}
