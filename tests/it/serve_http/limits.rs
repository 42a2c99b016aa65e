//! Floods and slow clients.

use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

use super::{Served, call_params, config, for_all, read_head, stateless_post};
use crate::support::{InputRecord, Turn};

#[test]
fn a_user_has_a_number_of_open_requests() {
    let record = InputRecord::new();
    let served = Served::start(&config([("g", record.attached_to(for_all(&[])))]), &["--max-in-flight", "2"]);
    let sleep = stateless_post(&[], "tools/call", call_params("g", "sleep", json!({"ms": 60_000})));
    let mut open: Vec<_> = (0..2).map(|_| served.begin(&sleep)).collect();
    record.wait_for("tools/call", 1);
    let refused = served.request("tools/list", json!({}));
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    open.pop();
    crate::support::wait_until("a place is free", || served.request("tools/list", json!({})).status == 200);
}

#[test]
fn a_user_has_a_rate() {
    let served = Served::start(&config([("g", for_all(&[]))]), &["--max-rate", "3"]);
    let list = stateless_post(&[], "tools/list", json!({}));
    let begin = Instant::now();
    let open: Vec<_> = (0..20).map(|_| served.begin(&list)).collect();
    let statuses: Vec<_> = open.into_iter().map(|stream| read_head(stream).status).collect();
    let count = |status| statuses.iter().filter(|got| **got == status).count();
    // Three at once, and those whose turn comes within a second.
    assert!(count(200) >= 6 && count(429) > 0 && count(200) + count(429) == 20, "{statuses:?}");
    assert!(
        begin.elapsed() >= Duration::from_secs(1),
        "a refusal is late, so that sending again at once is no use"
    );
}

#[test]
fn a_body_is_no_larger_than_a_message() {
    let mut config = config([("g", for_all(&[]))]);
    config["settings"]["max_message_bytes"] = json!(10_000);
    let served = Served::start(&config, &[]);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(10_000)}});
    assert_eq!(served.post(&[], &large.to_string()).status, 413);
    let text = large.to_string();
    let chunked = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    let headers = [("Transfer-Encoding", "chunked"), ("Content-Length", "")];
    assert_eq!(served.post(&headers, &chunked).status, 413);
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100 << 10));
    assert_eq!(served.send(&head).status, 431);
}

#[test]
fn clients_that_send_nothing_more_hold_up_nobody() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let parts = [
        "",
        "POST /mcp HT",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
    ];
    let slow: Vec<_> = (0..300)
        .map(|n| {
            let mut stream = served.connect();
            stream.write_all(parts[n % parts.len()].as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(served.request("tools/list", json!({})).status, 200);
    drop(slow);
}

#[test]
fn many_users_of_one_connection_get_their_own_answers() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let address = served.address;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                for n in 0..20 {
                    let text = format!("{client}-{n}");
                    let params = call_params("g", "echo", json!({"text": text}));
                    stream.write_all(stateless_post(&[], "tools/call", params).as_bytes()).unwrap();
                    let answer: Value = read_head(stream.try_clone().unwrap()).json();
                    assert_eq!(answer["result"]["content"][0]["text"], text);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn a_request_that_is_no_http_is_answered_or_cut_off() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    for garbage in
        ["\u{0}\u{1}\u{2}\r\n\r\n", "GET\r\n\r\n", "POST /mcp HTTP/9.9\r\n\r\n", "{\"jsonrpc\":\"2.0\"}\n\n"]
    {
        let mut stream = served.connect();
        stream.write_all(garbage.as_bytes()).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{garbage:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{garbage:?}"),
        }
    }
    assert_eq!(served.request("tools/list", json!({})).status, 200);
}

#[test]
fn clients_that_read_no_answer_hold_up_nobody() {
    let _turn = Turn::take();
    let record = InputRecord::new();
    let served = Served::start(&config([("g", record.attached_to(for_all(&[])))]), &[]);
    let big = stateless_post(&[], "tools/call", call_params("g", "big", json!({"bytes": 5_000_000})));
    let slow: Vec<_> = (0..4).map(|_| served.begin(&big)).collect();
    record.wait_for("tools/call", slow.len() - 1);
    let answer = served.call(&[], "g", "echo", json!({"text": "x"}));
    assert_eq!(answer["result"]["content"][0]["text"], "x");
    // One of them reads after all.
    let mut response = read_head(slow.into_iter().next().unwrap());
    assert!(response.text().len() > 5_000_000);
}

#[test]
fn a_user_who_floods_takes_nothing_from_another() {
    let dir = tempfile::TempDir::new().unwrap();
    let tokens = super::users::tokens(&dir, &[("ann", None), ("bob", None)]);
    let served = Served::start(&config([("g", for_all(&[]))]), &["--tokens", &tokens, "--max-rate", "50"]);
    let params = call_params("g", "echo", json!({"text": "x"}));
    let of_bob = stateless_post(&[("Authorization", "Bearer bob")], "tools/call", params);
    let flood: Vec<_> = (0..400).map(|_| served.begin(&of_bob)).collect();
    for n in 0..20 {
        let text = format!("ann-{n}");
        let answer = served.call(&[("Authorization", "Bearer ann")], "g", "echo", json!({"text": text}));
        assert_eq!(answer["result"]["content"][0]["text"], text);
    }
    let statuses: Vec<_> = flood.into_iter().map(|stream| read_head(stream).status).collect();
    assert!(statuses.contains(&429) && statuses.contains(&200), "{statuses:?}");
}

#[test]
fn requests_without_a_token_wait_for_their_turn() {
    let dir = tempfile::TempDir::new().unwrap();
    let tokens = super::users::tokens(&dir, &[("ann", None)]);
    let served = Served::start(&config([("g", for_all(&[]))]), &["--tokens", &tokens]);
    let begin = Instant::now();
    let requests = [
        (stateless_post(&[], "tools/list", json!({})), 401),
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("GET /mcp HTTP/1.1\r\nHost: evil\r\n\r\n".to_owned(), 403),
        (stateless_post(&[("Authorization", "Bearer x")], "tools/list", json!({})), 401),
    ];
    let floods: Vec<_> =
        (0..8).map(|n| (served.begin(&requests[n % 4].0.repeat(25)), requests[n % 4].1)).collect();
    let answer = served.call(&[("Authorization", "Bearer ann")], "g", "echo", json!({"text": "x"}));
    assert_eq!(answer["result"]["content"][0]["text"], "x");
    assert_eq!(served.send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").status, 200);
    for (mut stream, status) in floods {
        let (status, mut answers) = (format!("HTTP/1.1 {status}"), String::new());
        while answers.matches(&status).count() < 25 {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "{answers}");
            answers.push_str(&String::from_utf8_lossy(&part[..length]));
        }
    }
    // 16 at once, and 50 in a second.
    assert!(begin.elapsed() > Duration::from_secs(3), "{:?}", begin.elapsed());
}

/// The system allows 256 files, which more connections than that want.
#[test]
#[cfg(target_os = "linux")]
fn connections_leave_room_for_servers() {
    let limited = ["sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"];
    let command = crate::support::ProxyCommand::new();
    let command = command.config(&config([("g", for_all(&[]))])).started_by(&limited);
    let served = Served::started(command, &[]);
    let mut first = served.connect();
    let idle: Vec<_> = (0..300).map(|_| served.connect()).collect();
    let call = stateless_post(&[], "tools/call", call_params("g", "echo", json!({"text": "x"})));
    first.write_all(call.as_bytes()).unwrap();
    let answer = read_head(first).json();
    assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    drop(idle);
}

/// `benches/team/idle.py` makes them, and then another client asks.
#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_idle_connections_hold_up_nobody() {
    let _turn = Turn::take();
    if !crate::support::are_installed(&["python3"]) {
        return;
    }
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/team/idle.py");
    let mut command = std::process::Command::new("/usr/bin/python3");
    command.arg(script).args([env!("CARGO_BIN_EXE_dynamic-mcp"), "--silent", "10000"]);
    let output = crate::support::output_of(&mut command);
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}
