//! JSON-RPC on stdio: ids, invalid lines, invalid params, blank lines, size limits, and the limit of open requests.

use serde_json::json;

use crate::support::{Proxy, ProxyCommand, merged, scripted_config};

#[test]
fn ids_come_back_byte_for_byte() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
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
        proxy.write_line(&format!(r#"{{"id": {id} ,"method":"ping","jsonrpc":"2.0"}}"#));
        assert_eq!(proxy.next_message().unwrap().id(), Some(id));
        let call = r#"{"name":"call_dynamic_tool","arguments":{"group":"g","name":"echo"}}"#;
        proxy.write_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{call}}}"#));
        assert_eq!(proxy.next_message().unwrap().id(), Some(id), "through an upstream");
    }
}

#[test]
fn an_invalid_line_gets_the_error_that_json_rpc_specifies() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
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
        proxy.write_line(line);
        let response = proxy.next_message().unwrap();
        assert_eq!((response.id(), response.error_code()), (Some(id), Some(code)), "{line}");
    }
    assert_eq!(proxy.status()["status"], "ready", "the session goes on");
}

#[test]
fn invalid_params_of_known_methods_are_refused() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for params in ["{}", "[]", "3", "null", r#"{"name":3}"#, r#"{"name":null}"#, r#"{"name":"echo"}"#] {
        let id = proxy.send_raw_request("tools/call", params);
        assert_eq!(proxy.response(id).error_code(), Some(-32602), "{params}");
    }
    for (params, code) in [
        ("[]", Some(-32602)),
        ("3", Some(-32602)),
        (r#"{"cursor":"x"}"#, Some(-32602)),
        (r#"{"cursor":null}"#, None),
        ("null", None),
    ] {
        let id = proxy.send_raw_request("tools/list", params);
        assert_eq!(proxy.response(id).error_code(), code, "{params}");
    }
    proxy.write_line(r#"{"jsonrpc":"2.0","id":"none","method":"tools/call"}"#);
    assert_eq!(proxy.next_message().unwrap().error_code(), Some(-32602));
}

#[test]
fn blank_lines_notifications_and_stray_responses_get_no_response() {
    let mut proxy = ProxyCommand::new().config(&scripted_config(&[])).start();
    proxy.write("\n\r\n  \n\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n");
    assert_eq!(proxy.next_message().unwrap().id(), Some("1"));
    for (method, params) in [
        ("notifications/initialized", json!({})),
        ("notifications/cancelled", json!({"requestId": 9})),
        ("notifications/cancelled", json!([])),
        ("notifications/progress", json!({"progressToken": 1, "progress": 1})),
        ("notifications/nonsense", json!(null)),
    ] {
        proxy.notify(method, params);
    }
    // Responses without requests.
    proxy.write_line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    proxy.write_line(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#);
    proxy.write_line("garbage");
    assert_eq!(proxy.next_message().unwrap().error_code(), Some(-32700), "the only line with a response");
    assert!(proxy.handshake()["result"].is_object());
}

#[test]
fn invalid_utf_8_does_not_end_the_session() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let line =
        [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n".as_slice(), b"\xc3\x28\n"].concat();
    proxy.write_bytes(&line);
    for _ in 0..2 {
        let code = proxy.next_message().unwrap().error_code().unwrap();
        assert!([-32700, -32600].contains(&code), "{code}");
    }
    assert_eq!(proxy.status()["status"], "ready");
}

#[test]
fn a_message_over_the_size_limit_is_refused_with_its_id_and_the_limit() {
    let config = merged(
        scripted_config(&[]),
        json!({"settings": {"max_message_bytes": 10_000, "lazy_startup": "pure"}}),
    );
    let mut proxy = Proxy::new(&config);
    let long = "x".repeat(1 << 20);
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{{"x":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"x":"{long}"}},"id":"first"}}"#),
    ] {
        proxy.write_line(&line);
        let response = proxy.next_message().unwrap();
        assert_eq!((response.id(), response.error_code()), (Some("\"first\""), Some(-32600)));
        assert!(
            response.line.contains("10000") && response.line.contains("max_message_bytes"),
            "{}",
            response.line
        );
    }
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "still here"})), "still here");
}

#[test]
fn a_last_line_without_a_line_break_is_read() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    proxy.write(r#"{"jsonrpc":"2.0","id":99,"method":"ping"}"#);
    proxy.close_stdin();
    assert_eq!(proxy.next_message().unwrap().id(), Some("99"));
    assert!(proxy.wait_for_exit().0.success());
}

#[test]
fn requests_over_the_limit_of_open_requests_are_refused_and_other_messages_are_read() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    proxy.upstream_pid("g");
    let first = proxy.send_call("g", "sleep", json!({"ms": 600_000}));
    for _ in 1..4096 {
        proxy.send_call("g", "sleep", json!({"ms": 600_000}));
    }
    let refused = proxy.request("tools/call", json!({"name": "get_status"}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("too many open requests"), "{refused}");
    assert_eq!(proxy.request("ping", json!({}))["result"], json!({}));
    proxy.notify("notifications/cancelled", json!({"requestId": first}));
    assert_eq!(proxy.status()["status"], "ready", "one more request is allowed again");
    proxy.close_stdin();
    assert!(proxy.wait_for_exit().0.success());
}
