//! What users share: one who takes all they can leaves a part for the others, and turns go round.

use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::TcpStream;
use tempfile::TempDir;

use super::users::tokens;
use super::{Served, call_params, config, for_all, post, read_head, stateless_post};
use crate::support::{InputRecord, ProxyCommand, Turn};

const ANN: [(&str, &str); 1] = [("Authorization", "Bearer ann")];
const BOB: [(&str, &str); 1] = [("Authorization", "Bearer bob")];
const CAROL: [(&str, &str); 1] = [("Authorization", "Bearer carol")];
/// Runs until its time is over: 2 s of the processor.
const ENDLESS: &str = "reduce range(1e15) as $n (0; . + $n)";

/// A program with these servers, and a token for each user.
fn served(config: &Value) -> (Served, TempDir) {
    let dir = TempDir::new().unwrap();
    let tokens = tokens(&dir, &[("ann", None), ("bob", None), ("carol", None)]);
    (Served::of(ProxyCommand::new(), config, &["--tokens", &tokens]), dir)
}

/// How many of these connections have something to read.
fn answered(connections: &[TcpStream]) -> usize {
    let has_answer = |connection: &&TcpStream| {
        connection.set_nonblocking(true).unwrap();
        match connection.peek(&mut [0]) {
            Ok(bytes) => bytes > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    };
    connections.iter().filter(has_answer).count()
}

#[cfg(target_os = "linux")]
fn peak_memory(served: &Served) -> u64 {
    crate::limits::memory::memory(served.proxy.pid(), "VmHWM")
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The params of a call whose result a program selects from.
fn select(program: &str) -> Value {
    let mut params = call_params("g", "echo", json!({"text": r#"{"a":[1]}"#}));
    params["arguments"]["select"] = json!(program);
    params
}

#[test]
fn another_users_program_waits_for_none_of_those_of_one_user() {
    let _turn = Turn::take();
    let record = InputRecord::new();
    let (served, _dir) = served(&config([("g", record.attached_to(for_all(&[])))]));
    let endless = stateless_post(&ANN, "tools/call", select(ENDLESS));
    let endless: Vec<_> = (0..8).map(|_| served.begin(&endless)).collect();
    record.wait_for("tools/call", endless.len() - 1);
    let answer = served.request_with(&BOB, "tools/call", select(".a[0]")).json();
    assert_eq!(text(&answer), "1");
    assert!(answered(&endless) <= 1, "{} programs of the other user have ended", answered(&endless));
}

#[test]
fn another_users_search_waits_for_few_of_those_of_one_user() {
    let _turn = Turn::take();
    let (served, _dir) = served(&config([("g", for_all(&["--tools", "4000"]))]));
    let listed = served.request_with(
        &BOB,
        "tools/call",
        json!({"name": "get_dynamic_tools", "arguments": {"group": "g", "detail": "stub"}}),
    );
    assert_eq!(listed.status, 200);
    let params = json!({"name": "search_dynamic_tools", "arguments": {"query": "tool number with any words ".repeat(60)}});
    let search = |user: &[(&str, &str)]| served.begin(&stateless_post(user, "tools/call", params.clone()));
    // A busy machine may be as slow to send searches as to answer them, or to look at the answers: one attempt in which
    // the other searches waited is enough, because in the order of their arrival none of them would.
    let mut attempts: Vec<(usize, usize)> = Vec::new();
    let others_waited = |(open, first): &(usize, usize)| *open >= 30 && first < &(open / 2);
    while attempts.len() < 20 && !attempts.last().is_some_and(others_waited) {
        let searches: Vec<_> = (0..60).map(|_| search(&ANN)).collect();
        let others = search(&BOB);
        let before = answered(&searches);
        let answer = read_head(others).json();
        assert!(answer["result"]["content"].is_array(), "{answer}");
        attempts.push((searches.len() - before, answered(&searches) - before));
    }
    assert!(
        attempts.last().is_some_and(others_waited),
        "searches that were open, and came first: {attempts:?}"
    );
}

/// A request of the handshake era goes on after its client has gone, so few connections are open here at a time.
#[test]
fn users_share_the_requests_in_flight_to_a_server() {
    let _turn = Turn::take();
    let record = InputRecord::new();
    let (served, _dir) = served(&config([("g", record.attached_to(for_all(&[])))]));
    let sleep = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call_params("g", "sleep", json!({"ms": 300_000}))});
    let mut sent = 0;
    let mut fill = |user: &[(&str, &str)], count: usize| {
        for _ in 0..count / 64 {
            let open: Vec<_> = (0..64).map(|_| served.begin(&post(user, &sleep.to_string()))).collect();
            sent += open.len();
            record.wait_for("tools/call", sent - 1);
        }
    };
    // As many as a user may have open, and half of what is left.
    fill(&ANN, 512);
    fill(&BOB, 256);
    let refused = served.call(&BOB, "g", "echo", json!({"text": "x"}));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(text(&refused).contains("256 of your requests to this server are in flight"), "{refused}");
    let answer = served.call(&CAROL, "g", "echo", json!({"text": "x"}));
    assert_eq!(text(&answer), "x");
}

/// A `subscriptions/listen` to resources with URIs of this length.
fn listen(user: &[(&str, &str)], count: usize, length: usize) -> String {
    let uris: Vec<_> = (0..count).map(|n| format!("mem://{n:0>length$}")).collect();
    let params = json!({"group": "g", "notifications": {"resourceSubscriptions": uris}});
    stateless_post(user, "subscriptions/listen", params)
}

#[test]
fn topics_are_limited_for_a_request_and_for_a_user() {
    let _turn = Turn::take();
    let (served, _dir) = served(&config([("g", for_all(&["--protocol"]))]));
    let refusal = |request: &str| {
        let response = served.send(request);
        assert_eq!(response.header("content-type"), "application/json", "it is no stream");
        let error = response.json()["error"].take();
        assert_eq!(error["code"], -32602, "{error}");
        error["message"].as_str().unwrap().to_owned()
    };
    for (count, length) in [(1001, 1), (1000, 1100)] {
        assert!(refusal(&listen(&ANN, count, length)).contains("are the most in one request"));
    }
    let accept = |user: &[(&str, &str)]| {
        let mut stream = served.send(&listen(user, 1000, 1000));
        assert_eq!(stream.header("content-type"), "text/event-stream");
        let acknowledged = stream.event().unwrap();
        let accepted = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(accepted.as_array().map(Vec::len), Some(1000));
        stream
    };
    let mut streams: Vec<_> = (0..5).map(|_| accept(&ANN)).collect();
    assert!(refusal(&listen(&ANN, 1, 10)).contains("more than your share"));
    streams.push(accept(&BOB));
    #[cfg(target_os = "linux")]
    assert!(peak_memory(&served) < 200 << 20, "{}", peak_memory(&served));
    streams.remove(0);
    crate::support::wait_until("the topics of a closed stream are free", || {
        served.send(&listen(&ANN, 1, 10)).header("content-type") == "text/event-stream"
    });
}

#[test]
#[cfg(target_os = "linux")]
fn answers_that_one_user_does_not_read_leave_memory_for_another() {
    let _turn = Turn::take();
    let (served, _dir) = served(&config([("g", for_all(&[]))]));
    let big = |bytes: usize| call_params("g", "big", json!({"bytes": bytes}));
    let unread: Vec<_> =
        (0..10).map(|_| served.begin(&stateless_post(&ANN, "tools/call", big(8 << 20)))).collect();
    served.proxy.wait_for_log("no room in the memory for messages");
    let mut answer = served.request_with(&BOB, "tools/call", big(8 << 20));
    assert!(answer.text().len() > 8 << 20, "{}", answer.status);
    let mut outcomes = String::new();
    for stream in unread {
        let mut response = read_head(stream);
        let text = response.text();
        let is_refused = text.contains("was dropped because too many large answers wait to be read");
        assert!(is_refused || text.len() > 8 << 20, "{text}");
        outcomes.push(if is_refused { '1' } else { '0' });
    }
    assert!(outcomes.contains('0') && outcomes.contains('1'), "{outcomes}");
    assert!(peak_memory(&served) < 300 << 20, "{} {outcomes}", peak_memory(&served));
}
