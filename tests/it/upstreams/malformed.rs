//! Answers that are not JSON, on stdout: their calls fail at once, or the answer is read although it has several lines.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Proxy, scripted_config, text_of, wait_until};

/// A definition of the tool that writes its argument instead of an answer.
const WRITE: &str = r#"{"name":"write","inputSchema":{"type":"object"}}"#;
/// Well below `timeout.tools`, and enough for a machine under load.
const AT_ONCE: Duration = Duration::from_secs(10);

fn proxy() -> Proxy {
    let mut proxy = Proxy::new(&scripted_config(&["--definitions", WRITE]));
    proxy.connect(["g"]);
    proxy
}

/// Calls the tool that writes `text`, and returns the result and how long it took.
fn call_write(proxy: &mut Proxy, text: &str) -> (Value, Duration) {
    let start = Instant::now();
    let result = proxy.call_tool("g", "write", json!({"parts": [text]}));
    (result, start.elapsed())
}

#[test]
fn bytes_that_are_no_utf8_are_replaced_and_told_once() {
    let mut proxy = proxy();
    for _ in 0..2 {
        let (result, _) = call_write(
            &mut proxy,
            "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\u{ff}\"}]},\"jsonrpc\":\"2.0\",\"id\":$ID}\n",
        );
        assert_eq!(text_of(&result), "a\u{fffd}");
    }
    proxy.wait_for_log("bytes that are no UTF-8");
    assert_eq!(proxy.log().matches("bytes that are no UTF-8").count(), 1);
}

#[test]
fn a_call_whose_answer_cannot_be_read_fails_at_once_and_says_why() {
    let mut proxy = proxy();
    let pid = proxy.upstream_pid("g");
    let slow = proxy.send_call("g", "sleep", json!({"ms": 1500}));
    for (text, what) in [
        // As Python's `json.dumps` writes it.
        ("{\"jsonrpc\": \"2.0\", \"id\": $ID, \"result\": {\"x\": NaN}}\n", "not JSON: NaN at byte "),
        ("{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"x\":Infinity}}\n", "not JSON: Infinity at byte "),
        ("{\"result\":{\"x\":-Infinity},\"jsonrpc\":\"2.0\",\"id\":$ID}\n", "not JSON: -Infinity at byte 16"),
        (
            "{\"result\":\"a\tb\",\"id\":$ID}\n",
            "an unescaped control character (0x09) in a string at byte 13",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"text\":\"cut of\n",
            "not JSON: it is cut off after byte ",
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\n", "not JSON: it is cut off after byte "),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}} sent\n",
            "not JSON: text after the message at byte ",
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":$ID}\n", "not a JSON-RPC message"),
        ("{\n\"jsonrpc\":\"2.0\",\n\"id\":$ID,\n\"result\":NaN\n}\n", "not JSON: NaN at byte "),
    ] {
        let (result, took) = call_write(&mut proxy, text);
        let failure = text_of(&result);
        assert!(
            failure.starts_with("Tool \"write\" of group g gave no result that can be read: "),
            "{failure}"
        );
        assert!(failure.contains(what) && failure.contains("report this to the author"), "{text}: {failure}");
        assert!(result["isError"] == true && took < AT_ONCE, "{took:?}: {text}");
    }
    assert_eq!(text_of(&proxy.response(slow).json()["result"]), "slept", "another call on the connection");
    assert_eq!(proxy.upstream_pid("g"), pid, "the connection goes on");
    assert_eq!(proxy.group_status("g")["unreadable"], json!(null));
}

#[test]
fn a_pretty_printed_answer_is_read() {
    let mut proxy = proxy();
    for line_end in ["\n", "\r\n"] {
        let text = "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": $ID,\n  \"result\": {\n    \"content\": [\n      \
                    {\"type\": \"text\", \"text\": \"a } [ \\\" b\"}\n    ]\n  }\n}\n";
        let (result, _) = call_write(&mut proxy, &text.replace('\n', line_end));
        assert_eq!(text_of(&result), "a } [ \" b");
    }
    // The lines may come one by one.
    let parts = json!(["{\n\"jsonrpc\":\"2.0\",\"id\":$ID,\n", "\"result\":{\"content\"", ":[]\n}\n}\n"]);
    let result = proxy.call_tool("g", "write", json!({"parts": parts, "pause_ms": 50}));
    assert_eq!(result, json!({"content": []}));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
}

#[test]
fn a_message_of_no_known_call_is_shown_in_the_status_and_the_log() {
    let mut proxy = proxy();
    let open = proxy.send_call("g", "write", json!({"parts": ["{\"jsonrpc\":\"2.0\",\"result\":NaN}\n"]}));
    wait_until("the status shows it", || proxy.group_status("g")["unreadable"]["count"] == 1);
    let status = proxy.call_meta_tool("get_status", json!({"group": "g"}));
    let expected = r#"not JSON: NaN at byte 27: {"jsonrpc":"2.0","result":NaN}"#;
    assert_eq!(status["structuredContent"]["groups"][0]["unreadable"]["last"], expected);
    let text = text_of(&status);
    assert!(text.contains("it sent a message that cannot be read and belongs to no known call"), "{text}");
    assert!(text.contains(expected), "{text}");
    proxy.wait_for_log("the server sent a message that cannot be read");
    // Plain lines stay lines of a log, and the open call was not failed in place of another.
    proxy.send_call("g", "write", json!({"parts": ["INFO NaN\n{\"level\":\"info\",\"id\":1}\n{not json\n"]}));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(proxy.group_status("g")["unreadable"]["count"], 1);
    // The server could not read the id of one of our messages.
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    proxy.send_call("g", "write", json!({"parts": [format!("{refusal}\n")]}));
    wait_until("the status shows it", || proxy.group_status("g")["unreadable"]["count"] == 2);
    let last = proxy.group_status("g")["unreadable"]["last"].to_string();
    assert!(last.contains("an error that names no request: ") && last.contains("Parse error"), "{last}");
    proxy.assert_no_message();
    proxy.notify("notifications/cancelled", json!({"requestId": open}));
}

#[test]
fn a_tool_list_that_cannot_be_read_is_named_and_fails_no_call() {
    let mut proxy = Proxy::new(&scripted_config(&["--definitions", r#"{"name":"x","n":NaN}"#]));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    let finding = proxy.group_status("g")["findings"][0].to_string();
    assert!(finding.contains("the answer to tools/list is not MCP: not JSON: NaN at byte "), "{finding}");
}

#[test]
fn a_call_whose_question_was_answered_in_vain_fails_at_once() {
    let mut proxy = proxy();
    let start = Instant::now();
    let question = r#"{"jsonrpc":"2.0","id":"q-1","method":"roots/list"}"#;
    let refusal = r#"{"jsonrpc":"2.0","id":"q-1","error":{"code":-32602,"message":"no such root"}}"#;
    let parts = json!([format!("{question}\n"), format!("{refusal}\n")]);
    let failure = proxy.call_failure("g", "write", json!({"parts": parts, "pause_ms": 300}));
    let expected = "gave no result: the server refused the answer to its own question: \"no such root\"";
    assert!(failure.contains(expected), "{failure}");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    // With two open calls it is not known which one the question belongs to.
    let open = [(); 2].map(|()| proxy.send_call("g", "write", json!({"parts": [format!("{question}\n")]})));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    let late = proxy.send_call("g", "write", json!({"parts": [format!("{refusal}\n")]}));
    proxy.wait_for_log("it is not known which call the question belongs to");
    proxy.assert_no_message();
    for id in open.into_iter().chain([late]) {
        proxy.notify("notifications/cancelled", json!({"requestId": id}));
    }
}
