//! `call_dynamic_tool`: what goes up, what comes down, and that nothing of it is altered.

use serde_json::{Value, json};

use crate::support::{Proxy, one, servers, text_of, upstream, with};

mod connection;
mod finding;
mod fitting;
mod listing;
mod rules;

/// The params of a call of tool `name` with these bytes as its arguments.
fn params(name: &str, args: &str) -> String {
    format!(r#"{{"name":"call_dynamic_tool","arguments":{{"group":"g","name":"{name}","args":{args}}}}}"#)
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let mut proxy = Proxy::new(&one(&[]));
    for args in [
        r#"{"big":123456789012345678901234567890,"one":1.0,"huge":1e400,"minus":-0.0,"exp":1E+2}"#,
        r#"{ "spaced" : [ 1 , 2 ],	"tab":"\t" }"#,
        r#"{"escapes":"\u00e9 \ud83d\ude00 \/ é 😀 \u0000","lone":"\ud800"}"#,
        r#"{"b":1,"a":2,"b":3,"":null,"name":"x","group":"y","args":{}}"#,
        "{}",
    ] {
        let id = proxy.send_raw("tools/call", &params("args", args));
        let answer = proxy.answer(id);
        let quoted = serde_json::to_string(args).unwrap();
        assert_eq!(
            answer.raw("result").unwrap(),
            format!(r#"{{"content":[{{"type":"text","text":{quoted}}}]}}"#)
        );
    }
}

#[test]
fn the_rest_of_the_params_arrives_too() {
    let mut proxy = Proxy::new(&one(&[]));
    let arguments = r#"{"group":"g","name":"params","args":{"a":1.0}}"#;
    let sent = format!(
        r#"{{"_meta":{{"x/y":[1e400],"traceparent":"t"}},"x-unknown":2.50,"name":"call_dynamic_tool","arguments":{arguments}}}"#
    );
    let id = proxy.send_raw("tools/call", &sent);
    let text = text_of(&proxy.answer(id).json()["result"]).to_owned();
    for part in [
        r#""_meta":{"x/y":[1e400],"traceparent":"t"}"#,
        r#""x-unknown":2.50"#,
        r#""name":"params""#,
        r#""arguments":{"a":1.0}"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn results_come_back_byte_for_byte() {
    const WEIRD: &str = r#"{"messages":[{"role":"x"}],"tools":null,"contents":{"a":[]},"content":[{"type":"text","text":"\ud83d\ude00 \u0000 caf\u00e9 \/ \ud800","x-unknown":true},{"type":"x-hologram","data":{"huge":1e400}}],"structuredContent":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö"},"isError":false,"_meta":{"x/y":[1.0,1E+2]},"x-unknown":null, "spaced" : [ 1 , 2 ]}"#;
    let mut proxy = Proxy::new(&one(&[]));
    let id = proxy.send_call("g", "weird", json!({}));
    assert_eq!(proxy.answer(id).raw("result"), Some(WEIRD));
}

#[test]
fn errors_of_the_upstream_come_back_as_they_are() {
    let mut proxy = Proxy::new(&one(&[]));
    for (code, data) in [
        ("-32603", ""),
        ("-32005", r#","data":{"big":123456789012345678901234567890}"#),
        ("123456789012", r#","data":1.10"#),
        ("-31004", r#","data":"""#),
        ("1e3", r#","data":[1.50, 1E2]"#),
    ] {
        let args = format!(r#"{{"code":{code},"message":"no \"luck\""{data}}}"#);
        let id = proxy.send_raw("tools/call", &params("rpc_error", &args));
        let wanted = format!(r#"{{"code":{code},"message":"no \"luck\""{data}}}"#);
        assert_eq!(proxy.answer(id).raw("error"), Some(&*wanted));
    }
    let id = proxy.send_call("g", "fail", json!({"text": "it is \"so\""}));
    let failed = r#"{"content":[{"type":"text","text":"it is \"so\""}],"isError":true}"#;
    assert_eq!(proxy.answer(id).json()["result"], serde_json::from_str::<Value>(failed).unwrap());
}

#[test]
fn large_results_and_arguments_pass() {
    let mut proxy = Proxy::new(&one(&[]));
    let long = "é".repeat(1 << 20);
    assert!(proxy.text("g", "echo", json!({"text": long})) == long);
    assert_eq!(proxy.text("g", "big", json!({"bytes": 8 << 20})).len(), 8 << 20);
    let rows = proxy.call("g", "big", json!({"bytes": 1 << 20, "kind": "rows"}));
    assert_eq!(rows["structuredContent"]["rows"].as_array().unwrap().len(), 1 << 14);
}

#[test]
fn arguments_are_understood_in_every_form_models_write() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&["--tools", "1"]))]));
    // Their catalogs are known from here on.
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    for arguments in [
        json!({"group": "g", "name": "args", "args": {"a": 1}}),
        json!({"group": "g", "tool": "args", "arguments": {"a": 1}}),
        json!({"group": "g", "name": "args", "args": "{\"a\":1}"}),
        json!({"group": "g", "name": "args", "a": 1}),
        json!({"group": "G", "name": "ARGS", "args": {"a": 1}}),
        json!({"group": "g", "name": "g__args", "args": {"a": 1}}),
        json!({"name": "g__args", "args": {"a": 1}}),
        json!({"name": "generated_0", "args": {"a": 1}}),
        json!("{\"group\":\"g\",\"name\":\"args\",\"args\":{\"a\":1}}"),
    ] {
        let result = proxy.front("call_dynamic_tool", arguments.clone());
        assert_eq!(text_of(&result), r#"{"a":1}"#, "{arguments}");
    }
    for arguments in
        [json!({"group": "g", "name": "args"}), json!({"group": "g", "name": "args", "args": null})]
    {
        let result = proxy.front("call_dynamic_tool", arguments);
        assert_eq!(text_of(&result), "{}", "no arguments are an empty object");
    }
    // Lines in a string must not become lines on the wire.
    let several = json!({"group": "g", "name": "args", "args": "{\n\"a\":\r\n1}"});
    let result = proxy.front("call_dynamic_tool", several);
    assert_eq!(serde_json::from_str::<Value>(text_of(&result)).unwrap(), json!({"a": 1}));
}

#[test]
fn what_cannot_be_understood_is_said_to_the_model() {
    let mut proxy = Proxy::new(&servers([("files", upstream(&[])), ("time", upstream(&[]))]));
    let mut said = |arguments: Value| {
        let result = proxy.front("call_dynamic_tool", arguments);
        assert_eq!(result["isError"], true, "{result}");
        text_of(&result).to_owned()
    };
    for (arguments, part) in [
        (json!({"group": "file", "name": "echo"}), "files"),
        (json!({"group": "files", "name": "eccho"}), "The nearest tools: echo"),
        (json!({"group": "files", "name": "readonly_echo"}), "read_only_echo"),
        (json!({"group": "files"}), "\"name\" is missing"),
        (json!({"group": "files", "name": 3}), "\"name\" must be a string"),
        (json!({"group": "files", "name": "echo", "args": [1]}), "\"args\" must be an object"),
        (json!({"name": "nothing_like_it"}), "The groups: files, time."),
        (json!([1]), "JSON object"),
    ] {
        let text = said(arguments.clone());
        assert!(text.contains(part), "{arguments}: {text}");
    }
    said(json!({"group": "time", "name": "nothing"}));
    let both = said(json!({"name": "echo"}));
    assert!(both.contains("several groups") && both.contains("files, time"), "{both}");
}

#[test]
fn a_tool_that_is_added_later_can_be_called() {
    let mut proxy = Proxy::new(&one(&["--list-changed-on-call"]));
    let refused = proxy.failure("g", "added_0", json!({}));
    assert!(refused.contains("no tool \"added_0\""), "{refused}");
    proxy.text("g", "echo", json!({"text": "adds it"}));
    assert_eq!(proxy.text("g", "added_0", json!({"x": 1})), r#"{"x":1}"#);
    assert!(proxy.tools(json!({"group": "g", "lazy": true})).contains("added_0"));
}

#[test]
fn only_tools_that_read_pass_the_read_only_tool() {
    let entry = with(upstream(&[]), json!({"tools": {"read_only": ["ar*"]}}));
    let mut proxy = Proxy::new(&servers([("g", entry)]));
    for (tool, is_called) in [("read_only_echo", true), ("args", true), ("echo", false), ("cwd", false)] {
        let result = proxy.front("call_dynamic_tool_readonly", json!({"group": "g", "name": tool}));
        assert_eq!(result["isError"] != true, is_called, "{tool}: {result}");
        assert_eq!(text_of(&result).contains("Use call_dynamic_tool."), !is_called, "{tool}: {result}");
    }
}
