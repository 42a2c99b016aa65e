//! What HTTP itself has to be, headers that agree with the body, and statuses.

use serde_json::json;
use std::io::{Read, Write};

use super::{Served, call_params, config, for_all, post, read_head, stateless_message};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

fn served() -> Served {
    Served::start(&config([("g", for_all(&[]))]), &[])
}

#[test]
fn there_is_one_path_that_takes_post() {
    let served = served();
    let get = |method: &str, path: &str| {
        served.send(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    };
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        let response = get(method, "/mcp");
        assert_eq!((response.status, response.header("allow")), (405, "POST"), "{method}");
    }
    assert_eq!(get("GET", "/").status, 404);
    assert_eq!(get("GET", "/healthz").status, 200);
    assert_eq!(served.post(&[], LIST).status, 200);
    for media_type in ["", "text/plain", "application/x-www-form-urlencoded"] {
        assert_eq!(served.post(&[("Content-Type", media_type)], LIST).status, 415, "{media_type}");
    }
    assert_eq!(served.post(&[("Content-Type", "application/json; charset=utf-8")], LIST).status, 200);
}

#[test]
fn a_page_of_another_site_reaches_nothing() {
    let served = served();
    let status = |headers: &[(&str, &str)]| served.post(headers, LIST).status;
    assert_eq!(status(&[("Host", "evil.example")]), 403, "DNS rebinding");
    assert_eq!(status(&[("Host", "evil.example:80"), ("Origin", "http://evil.example:80")]), 403);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Host", "localhost:80"), ("Origin", "http://localhost:80")]), 200);
    let health = served.send("GET /healthz HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n");
    assert_eq!(health.status, 200, "probes name the address of the pod");
    let named = ["--allowed-host", "tools.example", "--allowed-origin", "https://app.example"];
    let served = Served::start(&config([("g", for_all(&[]))]), &named);
    let headers = [("Host", "tools.example"), ("Origin", "https://app.example")];
    assert_eq!(served.post(&headers, LIST).status, 200);
}

#[test]
fn headers_that_two_readers_could_take_for_different_ones_are_refused() {
    let served = served();
    for (twice, value) in [
        ("Host", "localhost"),
        ("Mcp-Method", "tools/list"),
        ("Authorization", "Bearer x"),
        ("Origin", "http://localhost"),
    ] {
        let first = post(&[(twice, value)], LIST);
        let request = first.replacen("\r\n", &format!("\r\n{twice}: {value}\r\n"), 1);
        assert_eq!(served.send(&request).status, 400, "{twice}");
    }
    for lengths in [(LIST.len(), 3), (3, LIST.len())] {
        let first = post(&[("Content-Length", &lengths.0.to_string())], LIST);
        let second = format!("\r\nContent-Length: {}\r\n", lengths.1);
        assert_eq!(served.send(&first.replacen("\r\n", &second, 1)).status, 400, "{lengths:?}");
    }
    // What follows the body that one of the lengths means must not be served as a request of its own.
    let chunked = format!("{:x}\r\n{LIST}\r\n0\r\n\r\n", LIST.len());
    for length in ["", "3", "100"] {
        let first = post(&[("Transfer-Encoding", "chunked"), ("Content-Length", length)], &chunked);
        let mut stream = served.connect();
        stream.write_all((first + &post(&[], LIST)).as_bytes()).unwrap();
        let mut response = read_head(stream);
        assert_eq!((response.status, response.header("connection")), (200, "close"), "{length:?}");
        response.text();
        let mut rest = Vec::new();
        // It may be reset, because what was sent is not read.
        drop(response.body.stream.read_to_end(&mut rest));
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn headers_agree_with_the_body() {
    let served = served();
    let (_, body) =
        stateless_message(&json!({}), "tools/call", call_params("g", "echo", json!({"text": "x"})));
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let (method, name) = (("Mcp-Method", "tools/call"), ("Mcp-Name", "call_dynamic_tool"));
    let send = |headers: &[(&str, &str)]| served.post(headers, &body);
    assert_eq!(send(&[version, method, name]).json()["result"]["content"][0]["text"], "x");
    let encoded = ("Mcp-Name", "=?base64?Y2FsbF9keW5hbWljX3Rvb2w=?=");
    assert_eq!(send(&[version, method, encoded]).status, 200);
    for headers in [
        &[method, name][..],
        &[version, name],
        &[version, method],
        &[("MCP-Protocol-Version", "2025-11-25"), method, name],
        &[version, ("Mcp-Method", "tools/list"), name],
        &[version, method, ("Mcp-Name", "get_status")],
        &[version, method, ("Mcp-Name", "=?base64?Z2V0X3N0YXR1cw==?=")],
    ] {
        assert_eq!(send(headers).error(), (400, -32020), "{headers:?}");
    }
}

#[test]
fn arguments_that_a_tool_mirrors_agree_with_the_body() {
    let region = r#"{"name":"write","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
    let entry = for_all(&["--definitions", region]);
    let mut config = config([("g", entry)]);
    config["settings"] = json!({"surface": "flat", "lazy_startup": "eager"});
    let served = Served::start(&config, &[]);
    let params = json!({"name": "g__write", "arguments": {"region": "eu"}});
    let call = |headers: &[(&str, &str)]| served.request_with(headers, "tools/call", params.clone());
    assert_eq!(call(&[("Mcp-Param-Region", "eu")]).status, 200);
    assert_eq!(call(&[("Mcp-Param-Region", "us")]).error(), (400, -32020));
    assert_eq!(call(&[]).error(), (400, -32020));
}

#[test]
fn statuses_say_what_is_wrong_with_a_request() {
    let served = served();
    assert_eq!(served.request("no/such", json!({})).error(), (404, -32601));
    assert_eq!(served.request("initialize", json!({})).error(), (404, -32601), "of another era");
    let unknown = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}});
    let mut response = served.request_with(&[], "tools/list", unknown.clone());
    assert_eq!(response.status, 400);
    assert!(response.text().contains("-32020"), "the header of the test names another revision");
    let (_, body) = stateless_message(&json!({}), "tools/list", unknown);
    let headers = [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/list")];
    let response = served.post(&headers, &body).json();
    assert_eq!(response["error"]["code"], -32022, "{response}");
    assert!(response["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
    assert_eq!(served.post(&headers, LIST).error(), (400, -32602), "without _meta");
    assert_eq!(served.post(&[("MCP-Protocol-Version", "1999-01-01")], LIST).error(), (400, -32022));
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, -32600),
        (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#, -32600),
    ] {
        assert_eq!(served.post(&[], body).error(), (400, code), "{body}");
    }
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let mut response = served.post(&[], initialized);
    assert_eq!((response.status, response.text().as_str()), (202, ""));
}

#[test]
fn a_message_over_several_lines_reaches_a_server_as_one() {
    let served = served();
    let arguments = "{\n\"group\": \"g\",\r\n\"name\": \"args\", \"args\": {\"text\":\n\"x\"}}";
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0062\",\n\"method\":\"tools/call\",\"params\":{{\"name\":\"call_dynamic_tool\",\"arguments\":{arguments}}}}}"
    );
    let mut response = served.post(&[], &body);
    let text = response.text();
    assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":"a\u0062","result""#), "the id as it came: {text}");
    assert!(text.contains(r#"{\"text\": \"x\"}"#), "{text}");
}

#[test]
fn a_connection_takes_several_requests() {
    let served = served();
    let mut stream = served.connect();
    for _ in 0..3 {
        stream.write_all(post(&[], LIST).as_bytes()).unwrap();
        let mut response = read_head(stream.try_clone().unwrap());
        assert!(response.text().contains("call_dynamic_tool"));
    }
}

/// Nothing is stored between two requests, so the text says how to ask for less.
#[test]
fn definitions_that_do_not_fit_are_asked_for_by_name() {
    let description = "d ".repeat(13_000);
    let long = |name: &str| {
        json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string()
    };
    let definitions = [long("added_a"), long("added_b")].join(",");
    let served = Served::start(&config([("g", for_all(&["--definitions", &definitions]))]), &[]);
    let arguments = json!({"group": "g", "tools": ["added_a", "added_b"]});
    let answer =
        served.request("tools/call", json!({"name": "get_dynamic_tools", "arguments": arguments})).json();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.ends_with(r#"Full definitions: get_dynamic_tools {"group":"g","tools":["NAME"]}"#),
        "{text}"
    );
}
