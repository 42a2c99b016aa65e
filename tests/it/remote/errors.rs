//! What can go wrong with a remote server, and what is said of it.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{Reply, Server, proxy, remote};
use crate::support::{Proxy, SOON, text_of, with};

/// Within this a failure answers for itself.
const COOL_DOWN: Duration = Duration::from_secs(5);

/// A server that answers everything so.
fn always(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |_| Some(reply()))
}

/// A group that cannot connect, and what is said of it.
struct Case {
    name: &'static str,
    url: String,
    said: &'static str,
    /// Whether trying again may help.
    passes: bool,
}

fn case(name: &'static str, url: String, said: &'static str) -> Case {
    Case { name, url, said, passes: true }
}

fn statuses(elsewhere: &Server) -> Vec<Case> {
    let place = elsewhere.url() + "?token=s3cret";
    let refused = |status: u16| always(move || Reply::status(status)).url();
    let login = always(|| Reply::status(401).with("WWW-Authenticate", "Bearer"));
    let forbidden = always(|| Reply::text(403, "application/json", r#"{"message":"not for you"}"#));
    let busy = always(|| Reply::status(429).with("Retry-After", "33"));
    let gateway = always(|| Reply::text(502, "text/html", "<h1>"));
    let moved = always(move || Reply::status(307).with("Location", &place));
    vec![
        Case { passes: false, ..case("login", login.url(), "login needed: run `dynamic-mcp login login`") },
        case("forbidden", forbidden.url(), "HTTP 403 Forbidden: not for you"),
        case("busy", busy.url(), "HTTP 429 Too Many Requests); it asks clients to retry after 33 s"),
        case("error", refused(500), "HTTP 500 Internal Server Error"),
        case("gateway", gateway.url(), "HTTP 502 Bad Gateway"),
        case("gone", refused(404), "HTTP 404 Not Found"),
        case("empty", refused(202), "HTTP 202 Accepted and no message"),
        case("moved", moved.url(), "redirects to http://127.0.0.1:"),
    ]
}

fn others() -> Vec<Case> {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let page = always(|| Reply::text(200, "text/html; charset=x", "<h1>"));
    let json = always(|| Reply::json(r#"{"hello":1}"#));
    let other = always(|| Reply::json(r#"{"jsonrpc":"2.0","id":"of another","result":{}}"#));
    let cut = always(|| Reply::live("application/json", |out| out.cut("{")));
    let silent = always(|| {
        Reply::events(|out| {
            out.hold();
            false
        })
    });
    vec![
        case(
            "refused",
            format!("http://{closed}/s3cret?key=s3cret"),
            "cannot be reached: Connection refused",
        ),
        case(
            "nowhere",
            "http://no-such.invalid/mcp".to_owned(),
            "http://no-such.invalid cannot be reached: ",
        ),
        case("page", page.url(), "text/html instead of JSON or an event stream"),
        case("json", json.url(), "not a JSON-RPC response"),
        case("other", other.url(), "not a JSON-RPC response"),
        case("cut", cut.url(), "the connection broke before the answer was complete"),
        case("silent", silent.url(), "initialize was not answered within 0.5 s"),
    ]
}

#[test]
fn what_keeps_a_group_from_connecting_is_said() {
    let elsewhere = always(|| Reply::status(200));
    let cases: Vec<_> = statuses(&elsewhere).into_iter().chain(others()).collect();
    let entries = cases.iter().map(|case| {
        let timeout = json!({"initialize": 0.5, "connect": 2});
        (case.name.to_owned(), json!({"url": case.url, "lazy_startup": "pure", "timeout": timeout}))
    });
    let mut proxy = Proxy::new(&json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()}));
    let calls: Vec<_> = cases.iter().map(|case| proxy.send_call(case.name, "echo", json!({}))).collect();
    for (case, id) in cases.iter().zip(calls) {
        let result = proxy.answer(id).json()["result"].take();
        let (name, text) = (case.name, text_of(&result));
        assert!(text.contains(case.said), "{name}: {text}");
        assert!(!text.contains("s3cret"), "{name}: {text}");
        assert_eq!(text.contains("Call again in"), case.passes, "{name}: {text}");
        assert_eq!(text.contains("Call again in 33 seconds"), name == "busy", "{name}: {text}");
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
            "cut" => Reply::live("application/json", |out| out.cut("{\"jsonrpc\":")),
            "events" => Reply::events(|out| out.write(": hello\n\n") && out.cut("data: {\"half")),
            "reset" => Reply::events(|out| out.reset("data: {\"half")),
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
        ("reset", "broke before the answer was complete: Connection reset by peer"),
        ("moved", "redirects to http://127.0.0.1:9"),
        ("busy", "HTTP 503 Service Unavailable); it asks clients to retry after 3600 s"),
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
    assert_eq!(server.of("tools/call").len(), 9, "none was made twice");
}

#[test]
fn a_call_that_only_reads_is_made_again_when_its_answer_broke_off() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let first = request.is_call() && calls.fetch_add(1, Ordering::Relaxed) == 0;
        first.then(|| Reply::events(|out| out.cut(": hello\n\n")))
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
fn a_pause_may_be_a_date_by_the_servers_clock() {
    const NOON: &str = "Fri, 01 Jan 2027 12:00:00 GMT";
    let server = Server::start(|request| {
        let when = request.body["params"]["arguments"]["when"].as_str()?.to_owned();
        let busy = Reply::status(503).with("Retry-After", &when);
        Some(if request.body["params"]["arguments"]["clock"] == true {
            busy.with("Date", NOON)
        } else {
            busy
        })
    });
    let mut proxy = proxy(&server);
    let mut told = |when: &str, clock: bool| {
        let before = server.of("tools/call").len();
        let failure = proxy.failure("g", "echo", json!({"when": when, "clock": clock}));
        (failure, server.of("tools/call").len() - before)
    };
    let (failure, calls) = told("Fri, 01 Jan 2027 12:00:40 GMT", true);
    assert!(failure.contains("it asks clients to retry after 40 s"), "{failure}");
    assert_eq!(calls, 1, "that is too long to wait for");
    // Past, it is now, and a server that goes on so is not asked for ever.
    assert_eq!(told("Fri, 01 Jan 2027 11:59:00 GMT", true).1, 4);
    assert_eq!(told("Sunday, 06-Nov-94 08:49:37 GMT", false).1, 4);
    let (failure, _) = told("Fri, 31 Dec 9999 23:59:59 GMT", false);
    assert!(failure.contains("after 86400 s"), "{failure}");
    let (failure, calls) = told("soon", false);
    assert!(failure.contains("HTTP 503 Service Unavailable") && calls == 1, "{failure}");
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
    assert!(failure.contains("Tell the user.") && !failure.contains("Call again in"), "{failure}");
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
