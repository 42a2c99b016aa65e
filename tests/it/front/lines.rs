//! What a client may write on a line, and what it gets for it.

use serde_json::json;

use crate::support::{Proxy, Setup, one, with};

#[test]
fn ids_come_back_byte_for_byte() {
    let mut proxy = Proxy::new(&one(&[]));
    for id in [
        "0",
        "7",
        "-1",
        "1.5",
        "1e3",
        "12345678901234567890123",
        "-0.0",
        r#""""#,
        r#""7""#,
        r#""a\u0062\/""#,
        r#""\ud83d\ude00 é""#,
        r#""\ud800""#,
    ] {
        proxy.line(&format!(r#"{{"id": {id} ,"method":"ping","jsonrpc":"2.0"}}"#));
        assert_eq!(proxy.next().unwrap().id(), Some(id));
        let call = r#"{"name":"call_dynamic_tool","arguments":{"group":"g","name":"echo"}}"#;
        proxy.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#));
        assert_eq!(proxy.next().unwrap().id(), Some(id), "by way of an upstream");
    }
}

#[test]
fn a_line_that_is_no_message_is_answered_as_json_rpc_says() {
    let mut proxy = Proxy::new(&one(&[]));
    for (line, id, code) in [
        ("hello", "null", -32700),
        ("{", "null", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, "null", -32700),
        ("3", "null", -32600),
        ("\"ping\"", "null", -32600),
        ("{}", "null", -32600),
        (r#"{"jsonrpc":"2.0","id":4}"#, "4", -32600),
        (r#"{"jsonrpc":"2.0","id":"x","method":5}"#, "\"x\"", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "null", -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "null", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "null", -32600),
        ("[]", "null", -32600),
    ] {
        proxy.line(line);
        let answer = proxy.next().unwrap();
        assert_eq!((answer.id(), answer.code()), (Some(id), Some(code)), "{line}");
    }
    assert_eq!(proxy.status()["status"], "ready", "the session goes on");
}

#[test]
fn a_known_method_with_bad_params_is_refused_as_such() {
    let mut proxy = Proxy::new(&one(&[]));
    for params in ["{}", "[]", "3", "null", r#"{"name":3}"#, r#"{"name":null}"#, r#"{"name":"echo"}"#] {
        let id = proxy.send_raw("tools/call", params);
        assert_eq!(proxy.answer(id).code(), Some(-32602), "{params}");
    }
    for (params, code) in [
        ("[]", Some(-32602)),
        ("3", Some(-32602)),
        (r#"{"cursor":"x"}"#, Some(-32602)),
        (r#"{"cursor":null}"#, None),
        ("null", None),
    ] {
        let id = proxy.send_raw("tools/list", params);
        assert_eq!(proxy.answer(id).code(), code, "{params}");
    }
    proxy.line(r#"{"jsonrpc":"2.0","id":"none","method":"tools/call"}"#);
    assert_eq!(proxy.next().unwrap().code(), Some(-32602));
}

#[test]
fn blank_lines_line_ends_and_notifications_say_nothing() {
    let mut proxy = Setup::new().config(&one(&[])).start();
    proxy.write("\n\r\n  \n\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n");
    assert_eq!(proxy.next().unwrap().id(), Some("1"));
    for (method, params) in [
        ("notifications/initialized", json!({})),
        ("notifications/cancelled", json!({"requestId": 9})),
        ("notifications/cancelled", json!([])),
        ("notifications/progress", json!({"progressToken": 1, "progress": 1})),
        ("notifications/nonsense", json!(null)),
    ] {
        proxy.notify(method, params);
    }
    // Answers to nothing.
    proxy.line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    proxy.line(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#);
    proxy.line("garbage");
    assert_eq!(proxy.next().unwrap().code(), Some(-32700), "the only one that is answered");
    assert!(proxy.handshake()["result"].is_object());
}

#[test]
fn invalid_utf_8_does_not_end_the_session() {
    use std::io::Write;
    let mut proxy = Proxy::new(&one(&[]));
    let line =
        [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n".as_slice(), b"\xc3\x28\n"].concat();
    proxy.stdin.as_mut().unwrap().write_all(&line).unwrap();
    for _ in 0..2 {
        let code = proxy.next().unwrap().code().unwrap();
        assert!([-32700, -32600].contains(&code), "{code}");
    }
    assert_eq!(proxy.status()["status"], "ready");
}

#[test]
fn a_message_over_the_limit_is_refused_with_its_id_and_the_limit() {
    let config = with(one(&[]), json!({"settings": {"max_message_bytes": 10_000, "lazy_startup": "pure"}}));
    let mut proxy = Proxy::new(&config);
    let long = "x".repeat(1 << 20);
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{{"x":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"x":"{long}"}},"id":"first"}}"#),
    ] {
        proxy.line(&line);
        let answer = proxy.next().unwrap();
        assert_eq!((answer.id(), answer.code()), (Some("\"first\""), Some(-32600)));
        assert!(
            answer.line.contains("10000") && answer.line.contains("max_message_bytes"),
            "{}",
            answer.line
        );
    }
    assert_eq!(proxy.text("g", "echo", json!({"text": "still here"})), "still here");
}

#[test]
fn a_last_line_without_an_end_is_a_line() {
    let mut proxy = Proxy::new(&one(&[]));
    proxy.write(r#"{"jsonrpc":"2.0","id":99,"method":"ping"}"#);
    proxy.close_stdin();
    assert_eq!(proxy.next().unwrap().id(), Some("99"));
    assert!(proxy.ends().0.success());
}

#[test]
fn more_requests_than_are_served_at_once_are_refused_and_all_else_is_read() {
    let mut proxy = Proxy::new(&one(&[]));
    proxy.upstream_pid("g");
    let first = proxy.send_call("g", "sleep", json!({"ms": 600_000}));
    for _ in 1..4096 {
        proxy.send_call("g", "sleep", json!({"ms": 600_000}));
    }
    let refused = proxy.ask("tools/call", json!({"name": "get_status"}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("too many open requests"), "{refused}");
    assert_eq!(proxy.ask("ping", json!({}))["result"], json!({}));
    proxy.notify("notifications/cancelled", json!({"requestId": first}));
    assert_eq!(proxy.status()["status"], "ready", "there is room for one again");
    proxy.close_stdin();
    assert!(proxy.ends().0.success());
}
