//! Arguments that do not fit the tool's schema: what is refused, repaired, and left to the server.

use serde_json::{Value, json};

use crate::support::{InputRecord, Proxy, ProxyCommand, pure_config, scripted_upstream, text_of};

/// Definitions of tools with a strict schema, one with an unknown type, and one under another name.
const STRICT: &str = r#"{"name":"added_strict","description":"Strict.","inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","maximum":5}},"required":["query"],"additionalProperties":false}},{"name":"added_odd","inputSchema":{"type":"object","properties":{"a":{"type":"nonsense"}}}},{"name":"added_parameters","parameters":{"type":"object","required":["a"]}}"#;

/// A session with an upstream that has these tools, and the record of its input.
fn recorded_proxy() -> (Proxy, InputRecord) {
    let record = InputRecord::new();
    // JSON parsers refuse text that is nested so deeply.
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(200), "}".repeat(200));
    let definitions = format!(r#"{STRICT},{{"name":"added_deep","inputSchema":{deep}}}"#);
    let entry = record.attached_to(scripted_upstream(&["--definitions", &definitions]));
    (Proxy::new(&pure_config([("g", entry)])), record)
}

/// Calls a tool by its exposed name and returns the result.
fn call_exposed(proxy: &mut Proxy, name: &str, arguments: Value) -> Value {
    proxy.request("tools/call", json!({"name": name, "arguments": arguments}))["result"].take()
}

#[test]
fn what_no_server_can_take_is_refused_with_the_violation_and_the_signature() {
    let (mut proxy, record) = recorded_proxy();
    for (args, violation) in [
        (json!({"query": {}}), "\n- query: {} is not of type \"string\"\n"),
        (json!({"query": "a", "limit": [6]}), "\n- limit: [6] is not of type \"integer\"\n"),
    ] {
        let text = proxy.call_failure("g", "added_strict", args);
        assert!(text.starts_with("The arguments do not fit tool \"added_strict\" of group g"), "{text}");
        assert!(text.contains(violation), "{text}");
        let signature = "Its signature: added_strict(query: string, limit?: integer /* <= 5 */)";
        assert!(text.ends_with(signature), "{text}");
    }
    assert_eq!(record.lines_of("tools/call").len(), 0, "the upstream gets no call");
    assert_eq!(proxy.call_text("g", "added_strict", json!({"query": "a"})), r#"{"query":"a"}"#);
    assert_eq!(record.lines_of("tools/call").len(), 1);
}

#[test]
fn the_server_decides_about_everything_else() {
    let (mut proxy, record) = recorded_proxy();
    for args in [
        "{}",
        r#"{"query":true}"#,
        r#"{"query":"a", "limit":6}"#,
        r#"{"query":"a","limits":6}"#,
        r#"{"query":null,"limit":1.5}"#,
        r#"{"query":"a","limit":"ten"}"#,
    ] {
        let call = proxy.send_raw_call("g", "added_strict", args);
        assert_eq!(
            proxy.response(call).json()["result"],
            json!({"content": [{"type": "text", "text": args}]}),
            "a result without an error is not touched"
        );
    }
    assert_eq!(record.lines_of("tools/call").len(), 6);
    assert_eq!(record.lines_of("tools/list").len(), 1, "the list is not read again for such a call");
}

#[test]
fn an_error_of_the_server_gets_what_does_not_fit() {
    let (mut proxy, _record) = recorded_proxy();
    let finding = "The arguments do not fit the schema of tool \"fail\" of group g, which may be the cause:\n\
                   - text: true is not of type \"string\"\nIts signature: fail(text?: string)";
    assert_eq!(
        proxy.call_tool("g", "fail", json!({"text": true})),
        json!({"content": [{"type": "text", "text": "it failed"}, {"type": "text", "text": finding}], "isError": true})
    );
    let fitting = json!({"content": [{"type": "text", "text": "x"}], "isError": true});
    assert_eq!(proxy.call_tool("g", "fail", json!({"text": "x"})), fitting);
    let mut error_of = |args: &str| {
        let call = proxy.send_raw_call("g", "rpc_error", args);
        proxy.response(call).json()["error"].take()
    };
    let member = "dynamic-mcp/arguments";
    for (data, rest) in [("null", None), ("\"\"", None), (r#"{"a":1}"#, Some(json!(1)))] {
        let error = error_of(&format!(r#"{{"code":-32602,"message":true,"data":{data}}}"#));
        assert!(error["data"][member].as_str().unwrap().contains("- message: true is not"), "{error}");
        assert_eq!(error["data"].get("a").cloned(), rest);
    }
    let error = error_of(r#"{"code":-32602,"message":true,"data":"why"}"#);
    assert_eq!(error["data"][0], "why");
    assert!(error["data"][1].as_str().unwrap().contains("- message: true is not"), "{error}");
    let error = error_of(r#"{"code":-32000,"message":true,"data":{"a":1}}"#);
    assert_eq!(error["data"], json!({"a": 1}), "an error that is not about the params");
}

#[test]
fn arguments_of_a_call_by_exposed_name_pass_untouched() {
    let (mut proxy, record) = recorded_proxy();
    for args in
        [r#"{"query":7, "limit" : "30"}"#, "{}", r#"{"query":[1],"x":null}"#, r#"{"input":{"query":"a"}}"#]
    {
        let params = format!(r#"{{"name":"g__added_strict","arguments":{args}}}"#);
        let id = proxy.send_raw_request("tools/call", &params);
        assert_eq!(text_of(&proxy.response(id).json()["result"]), args);
    }
    let id = proxy.send_raw_request("tools/call", r#"{"name":"g__params"}"#);
    let params = proxy.response(id).json();
    assert!(!text_of(&params["result"]).contains("arguments"), "{params}");
    let error = call_exposed(&mut proxy, "g__fail", json!({"text": true}));
    assert_eq!(error["content"].as_array().unwrap().len(), 1, "{error}");
    assert_eq!(record.lines_of("tools/list").len(), 1);
}

#[test]
fn arguments_that_cannot_be_checked_are_passed_on() {
    let (mut proxy, _record) = recorded_proxy();
    let id = proxy.send_raw_request(
        "tools/call",
        r#"{"name":"g__added_strict","arguments":{"query":"a","limit":1e400}}"#,
    );
    assert_eq!(text_of(&proxy.response(id).json()["result"]), r#"{"query":"a","limit":1e400}"#);
    assert_eq!(proxy.call_text("g", "added_odd", json!({"a": 1})), r#"{"a":1}"#);
    for _ in 0..3 {
        assert_eq!(proxy.call_text("g", "added_deep", json!({"a": 1})), r#"{"a":1}"#);
    }
    proxy.wait_for_log("the arguments of this tool are not checked");
    let warnings = proxy.log().matches("the arguments of this tool are not checked").count();
    assert_eq!(warnings, 1, "{}", proxy.log());
}

/// Definitions of a tool that destroys nothing, and of one that may.
const REPAIRABLE: &str = r#"{"name":"added_find","inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"},"ids":{"type":"array","items":{"type":"integer"}},"filter":{"type":"object"}},"required":["query"]},"annotations":{"destructiveHint":false}},{"name":"added_update","inputSchema":{"type":"object","properties":{"id":{"type":"integer"},"owner":{"type":"string"}},"required":["id"]}}"#;

#[test]
fn arguments_that_do_not_fit_arrive_repaired_and_those_that_fit_unchanged() {
    let record = InputRecord::new();
    let definitions = ["--definitions", REPAIRABLE];
    let entry = record.attached_to(scripted_upstream(&definitions));
    let command = ProxyCommand::new().args(&["--log-level", "debug"]);
    let mut proxy = command.config(&pure_config([("g", entry)])).start_initialized();
    for (tool, args, arrives) in [
        ("added_find", r#"{"query":5, "limit" : "30"}"#, r#"{"query":"5", "limit" : 30}"#),
        (
            "added_find",
            r#"{"query":"a","big":1e400,"ids":"[1, 2]"}"#,
            r#"{"query":"a","big":1e400,"ids":[1, 2]}"#,
        ),
        (
            "added_find",
            r#"{"query":"a","ids":"123456789012345678901234567890"}"#,
            r#"{"query":"a","ids":[123456789012345678901234567890]}"#,
        ),
        (
            "added_find",
            r#"{"input":{"query":"a","filter":"{\"x\": 1.50}"}}"#,
            r#"{"query":"a","filter":{"x": 1.50}}"#,
        ),
        ("added_find", r#"{"query":"a", "limit":null,"filter":null}"#, r#"{"query":"a"}"#),
        ("added_find", r#"{ "query":"5","limit" :30,"x":null}"#, r#"{ "query":"5","limit" :30,"x":null}"#),
        ("added_update", r#"{"id":"7","owner":null}"#, r#"{"id":7,"owner":null}"#),
        ("added_update", r#"{"id":7,"owner":null}"#, r#"{"id":7,"owner":null}"#),
        ("added_find", r#"{"query":5,"limit":"x"}"#, r#"{"query":"5","limit":"x"}"#),
    ] {
        let call = proxy.send_raw_call("g", tool, args);
        let result = proxy.response(call).json()["result"].take();
        assert_eq!(text_of(&result), arrives, "{args}");
    }
    proxy.wait_for_log(r#"repaired arguments that do not fit: "query", "limit""#);
    let calls = record.lines_of("tools/call").len();
    assert!(proxy.call_failure("g", "added_update", json!({"owner": [5]})).contains("do not fit"));
    assert_eq!(record.lines_of("tools/call").len(), calls);
}
