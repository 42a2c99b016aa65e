//! Keys that some servers read as others: Go's `encoding/json` ignores the case of keys.

use serde_json::json;

use super::{full_config, recorded_config};
use crate::support::{InputRecord, Proxy, merged, pure_config, scripted_upstream};

#[test]
fn a_request_with_a_second_spelling_of_a_deciding_key_is_refused() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    proxy.connect(["g"]);
    let before = record.lines_of("tools/call").len();
    for (method, params, key) in [
        ("tools/call", r#"{"name":"g__echo","Name":"write"}"#, "Name"),
        ("tools/call", r#"{"name":"g__echo","name":"write"}"#, "name"),
        ("tools/call", r#"{"name":"g__echo","arguments":{},"ARGUMENTS":{"text":"x"}}"#, "ARGUMENTS"),
        ("tools/call", r#"{"name":"g__echo","argument\u017f":{"text":"x"}}"#, "argumentſ"),
        ("tools/call", r#"{"name":"g__echo","_Meta":{"progressToken":1}}"#, "_Meta"),
        ("tools/call", r#"{"name":"g__echo","ta\u017f\u212a":{}}"#, "taſ\u{212a}"),
        (
            "tools/call",
            r#"{"name":"call_dynamic_tool","arguments":{"group":"g","name":"echo"},"Name":"x"}"#,
            "Name",
        ),
        ("resources/read", r#"{"uri":"mem://one","URI":"mem://two"}"#, "URI"),
        ("resources/subscribe", r#"{"uri":"mem://one","Uri":"mem://two"}"#, "Uri"),
        ("prompts/get", r#"{"name":"g__greet","nAme":"params"}"#, "nAme"),
    ] {
        let error = proxy.raw_error(method, params);
        assert!(error.contains("-32602") && error.contains(&format!(r#"\"{key}\""#)), "{params}: {error}");
    }
    for method in ["resources/read", "resources/subscribe", "prompts/get"] {
        assert_eq!(record.lines_of(method).len(), 0, "{method}");
    }
    assert_eq!(record.lines_of("tools/call").len(), before);
    // Other keys are the server's own, and so are those of arguments.
    let args = r#"{"name":"g__args","arguments":{"Name":1,"NAME":2,"name":3},"Names":1}"#;
    let result = proxy.raw_result("tools/call", args);
    assert!(result.contains(r#"{\"Name\":1,\"NAME\":2,\"name\":3}"#), "{result}");
}

#[test]
fn a_stateless_request_is_refused_in_the_same_way() {
    let mut proxy = Proxy::new(&full_config(&[]));
    let params = json!({"name": "g__echo", "arguments": {"text": "x"}, "Arguments": {}});
    assert_eq!(proxy.stateless_request("tools/call", params)["error"]["code"], -32602);
}

#[test]
fn another_spelling_of_a_hidden_argument_is_refused_unless_the_tool_has_it() {
    let definition = r#"{"name":"run","inputSchema":{"type":"object","properties":{"q":{},"dry_run":{"default":true},"Dry_RUN":{}},"required":["dry_run"]}}"#;
    let record = InputRecord::new();
    let entry = record.attached_to(scripted_upstream(&["--definitions", definition]));
    let rules = json!({"tools": {"override": {"run": {"hidden_args": ["dry_run"]}}}});
    let mut proxy = Proxy::new(&pure_config([("g", merged(entry, rules))]));
    for written in ["dry_run", "Dry_Run", "DRY_RUN", "dry_\u{ff32}un", "dr\\u0079_Run"] {
        let args = format!(r#"{{"q":1,"{written}":false}}"#);
        let call = proxy.send_raw_call("g", "run", &args);
        let line = proxy.response(call).line;
        // A fullwidth letter is another letter.
        let is_other = written.contains('\u{ff32}');
        assert_eq!(line.contains("hides its argument"), !is_other, "{written}: {line}");
        let params = format!(r#"{{"name":"g__run","arguments":{args}}}"#);
        assert_eq!(
            proxy.raw_result("tools/call", &params).contains("hides its argument"),
            !is_other,
            "{written}"
        );
    }
    assert_eq!(record.lines_of("tools/call").len(), 2);
    let call = proxy.send_raw_call("g", "run", r#"{"Dry_RUN":1}"#);
    assert!(proxy.response(call).line.contains(r#"{\"Dry_RUN\":1,\"dry_run\":true}"#));
}
