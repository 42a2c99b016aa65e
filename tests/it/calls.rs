//! Calls of upstreams' tools with `call_dynamic_tool`: arguments, results and errors pass unchanged, and models may
//! write arguments in many forms. The submodules cover our other tools.

use serde_json::{Value, json};

use crate::support::{Proxy, merged, pure_config, scripted_config, scripted_upstream, text_of};

mod argument_validation;
mod describe;
mod distrusted_annotations;
mod hostile_text;
mod overrides;
mod search;
mod shared_connection;
mod spellings;
mod tool_rules;

/// The params of a call of a tool with these bytes as its arguments.
fn call_params(name: &str, args: &str) -> String {
    format!(r#"{{"name":"call_dynamic_tool","arguments":{{"group":"g","name":"{name}","args":{args}}}}}"#)
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for args in [
        r#"{"big":123456789012345678901234567890,"one":1.0,"huge":1e400,"minus":-0.0,"exp":1E+2}"#,
        r#"{ "spaced" : [ 1 , 2 ],	"tab":"\t" }"#,
        r#"{"escapes":"\u00e9 \ud83d\ude00 \/ é 😀 \u0000","lone":"\ud800"}"#,
        r#"{"b":1,"a":2,"b":3,"":null,"name":"x","group":"y","args":{}}"#,
        "{}",
    ] {
        let id = proxy.send_raw_request("tools/call", &call_params("args", args));
        let response = proxy.response(id);
        let quoted = serde_json::to_string(args).unwrap();
        assert_eq!(
            response.raw("result").unwrap(),
            format!(r#"{{"content":[{{"type":"text","text":{quoted}}}]}}"#)
        );
    }
}

#[test]
fn other_members_of_the_params_arrive_too() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let arguments = r#"{"group":"g","name":"params","args":{"a":1.0}}"#;
    let params = format!(
        r#"{{"_meta":{{"x/y":[1e400],"traceparent":"t"}},"x-unknown":2.50,"name":"call_dynamic_tool","arguments":{arguments}}}"#
    );
    let id = proxy.send_raw_request("tools/call", &params);
    let text = text_of(&proxy.response(id).json()["result"]).to_owned();
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
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let id = proxy.send_call("g", "weird", json!({}));
    assert_eq!(proxy.response(id).raw("result"), Some(WEIRD));
}

#[test]
fn errors_of_the_upstream_come_back_byte_for_byte() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for (code, data) in [
        ("-32603", ""),
        ("-32005", r#","data":{"big":123456789012345678901234567890}"#),
        ("123456789012", r#","data":1.10"#),
        ("-31004", r#","data":"""#),
        ("1e3", r#","data":[1.50, 1E2]"#),
    ] {
        let args = format!(r#"{{"code":{code},"message":"no \"luck\""{data}}}"#);
        let id = proxy.send_raw_request("tools/call", &call_params("rpc_error", &args));
        let expected = format!(r#"{{"code":{code},"message":"no \"luck\""{data}}}"#);
        assert_eq!(proxy.response(id).raw("error"), Some(&*expected));
    }
    let id = proxy.send_call("g", "fail", json!({"text": "it is \"so\""}));
    let failed = r#"{"content":[{"type":"text","text":"it is \"so\""}],"isError":true}"#;
    assert_eq!(proxy.response(id).json()["result"], serde_json::from_str::<Value>(failed).unwrap());
}

#[test]
fn large_results_and_arguments_pass_unchanged() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let long = "é".repeat(1 << 20);
    assert!(proxy.call_text("g", "echo", json!({"text": long})) == long);
    assert_eq!(proxy.call_text("g", "big", json!({"bytes": 8 << 20})).len(), 8 << 20);
    let rows = proxy.call_tool("g", "big", json!({"bytes": 1 << 20, "kind": "rows"}));
    assert_eq!(rows["structuredContent"]["rows"].as_array().unwrap().len(), 1 << 14);
}

#[test]
fn arguments_are_understood_in_every_form_models_write() {
    let mut proxy = Proxy::new(&pure_config([
        ("g", scripted_upstream(&[])),
        ("h", scripted_upstream(&["--tools", "1"])),
    ]));
    proxy.connect(["g", "h"]);
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
        let result = proxy.call_meta_tool("call_dynamic_tool", arguments.clone());
        assert_eq!(text_of(&result), r#"{"a":1}"#, "{arguments}");
    }
    for arguments in
        [json!({"group": "g", "name": "args"}), json!({"group": "g", "name": "args", "args": null})]
    {
        let result = proxy.call_meta_tool("call_dynamic_tool", arguments);
        assert_eq!(text_of(&result), "{}", "no arguments are an empty object");
    }
    // Some programs end a line at either of its two characters, and would see two lines.
    let params =
        r#"{"name":"call_dynamic_tool","arguments":{"group":"g","name":"\u0061rgs","args":{CR"a":1}}}"#;
    let result = proxy.raw_result("tools/call", &params.replace("CR", "\r"));
    assert!(result.contains(r#"{ \"a\":1}"#), "{result}");
    // Line breaks in a string of arguments must not become line breaks on the wire.
    let multi_line = json!({"group": "g", "name": "args", "args": "{\n\"a\":\r\n1}"});
    let result = proxy.call_meta_tool("call_dynamic_tool", multi_line);
    assert_eq!(serde_json::from_str::<Value>(text_of(&result)).unwrap(), json!({"a": 1}));
}

#[test]
fn invalid_arguments_are_explained_to_the_model() {
    let mut proxy =
        Proxy::new(&pure_config([("files", scripted_upstream(&[])), ("time", scripted_upstream(&[]))]));
    let mut explanation = |arguments: Value| {
        let result = proxy.call_meta_tool("call_dynamic_tool", arguments);
        assert_eq!(result["isError"], true, "{result}");
        text_of(&result).to_owned()
    };
    for (arguments, part) in [
        (json!({"group": "file", "name": "echo"}), "files"),
        (json!({"group": "files", "name": "eccho"}), "The nearest tools: \"echo\""),
        (json!({"group": "files", "name": "readonly_echo"}), "read_only_echo"),
        (json!({"group": "files"}), "\"name\" is missing"),
        (json!({"group": "files", "name": 3}), "\"name\" must be a string"),
        (json!({"group": "files", "name": "echo", "args": [1]}), "\"args\" must be an object"),
        (json!({"name": "nothing_like_it"}), "The groups: \"files\", \"time\"."),
        (json!([1]), "JSON object"),
    ] {
        let text = explanation(arguments.clone());
        assert!(text.contains(part), "{arguments}: {text}");
    }
    explanation(json!({"group": "time", "name": "nothing"}));
    let both = explanation(json!({"name": "echo"}));
    assert!(both.contains("several groups") && both.contains(r#""files", "time""#), "{both}");
}

#[test]
fn a_tool_that_is_added_later_can_be_called() {
    let mut proxy = Proxy::new(&scripted_config(&["--list-changed-on-call"]));
    let failure = proxy.call_failure("g", "added_0", json!({}));
    assert!(failure.contains("no tool \"added_0\""), "{failure}");
    proxy.call_text("g", "echo", json!({"text": "adds it"}));
    assert_eq!(proxy.call_text("g", "added_0", json!({"x": 1})), r#"{"x":1}"#);
    assert!(proxy.get_dynamic_tools(json!({"group": "g", "lazy": true})).contains("added_0"));
}

#[test]
fn the_read_only_variant_calls_only_read_only_tools() {
    let entry = merged(scripted_upstream(&[]), json!({"tools": {"read_only": ["ar*"]}}));
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    for (tool, is_called) in [("read_only_echo", true), ("args", true), ("echo", false), ("cwd", false)] {
        let result = proxy.call_meta_tool("call_dynamic_tool_readonly", json!({"group": "g", "name": tool}));
        assert_eq!(result["isError"] != true, is_called, "{tool}: {result}");
        assert_eq!(text_of(&result).contains("Use call_dynamic_tool."), !is_called, "{tool}: {result}");
    }
}
