//! Responses whose beginning has no end: interim responses (1xx) and headers. The request fails, and no other group waits.

use crate::support::{Proxy, Turn, pure_config, scripted_upstream};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Answers each request with `part` until the connection is closed. Returns its URL.
fn endless(part: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream, part));
        }
    });
    url
}

fn answer(mut stream: TcpStream, part: &[u8]) {
    let mut request = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    while request.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    request.read_exact(&mut vec![0; length]).unwrap();
    let many = part.repeat((64 << 10) / part.len() + 1);
    let head = if part.starts_with(b"HTTP") { &b""[..] } else { b"HTTP/1.1 200 OK\r\n" };
    drop(stream.write_all(head));
    while stream.write_all(&many).is_ok() {}
}

/// Calls the server at each URL, and another group meanwhile.
fn assert_only_their_requests_fail(urls: &[String]) {
    let _turn = Turn::take();
    let mut config = pure_config([("good", scripted_upstream(&[]))]);
    for (n, url) in urls.iter().enumerate() {
        config["mcpServers"][format!("g{n}")] = json!({"url": url, "timeout": {"wait": "30s"}});
    }
    let mut proxy = Proxy::new(&config);
    proxy.upstream_pid("good");
    let calls: Vec<_> =
        (0..urls.len()).map(|n| proxy.send_call(&format!("g{n}"), "echo", json!({}))).collect();
    let mut times: Vec<_> = (0..200)
        .map(|_| {
            let start = tokio::time::Instant::now();
            proxy.call_text("good", "echo", json!({"text": "x"}));
            start.elapsed()
        })
        .collect();
    times.sort();
    for call in calls {
        let line = proxy.response(call).line;
        assert!(line.contains("the beginning of its response is longer than 64 KiB"), "{line}");
    }
    let median = times[times.len() / 2];
    // For a machine that has other things to do.
    assert!(median < Duration::from_millis(100), "{median:?}");
}

#[test]
fn interim_responses_without_end_fail_their_request_only() {
    assert_only_their_requests_fail(&[
        endless(b"HTTP/1.1 100 Continue\r\n\r\n"),
        endless(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"),
    ]);
}

#[test]
fn headers_without_end_fail_their_request_only() {
    assert_only_their_requests_fail(&[endless(b"X: y\r\n")]);
}
