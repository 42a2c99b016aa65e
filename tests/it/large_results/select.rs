//! `select`: a jq program over a result.

use serde_json::{Value, json};

use super::{block, config, id_in, note, read, read_text, recorded, select, text_result};
use crate::shell::Shell;
use crate::support::{Proxy, Turn, text_of};

/// The outputs and the note of a derived result.
fn outputs(result: &Value) -> (&str, &str) {
    assert_ne!(result["isError"], true, "{result}");
    (block(result, 0), note(result))
}

fn failure(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    text_of(result)
}

#[test]
fn a_program_runs_over_structured_content_else_over_text_that_is_json() {
    let mut proxy = Proxy::new(&config(json!({})));
    let rows = json!({"rows": [{"id": 1, "name": "Übung"}, {"id": 2, "name": "b"}], "total": 2});
    let structured = json!({"content": [{"type": "text", "text": "2 rows"}], "structuredContent": rows});
    let size = structured.to_string().len();
    let got = select(&mut proxy, &structured, ".rows | map(.name)");
    assert_eq!(outputs(&got), (r#"["Übung","b"]"#, &*format!("[derived by select from {size} bytes]")));
    assert_eq!(got.get("structuredContent"), None);
    let got = select(&mut proxy, &text_result(&rows.to_string()), ".rows[] | .id, .name");
    assert_eq!(outputs(&got).0, "1\nÜbung\n2\nb");
    // Several texts that are JSON are an array.
    let several =
        json!({"content": [{"type": "text", "text": "{\"a\":1}"}, {"type": "text", "text": "{\"a\":2}"}]});
    assert_eq!(outputs(&select(&mut proxy, &several, "map(.a) | add")).0, "3");
    let got = select(&mut proxy, &structured, "empty");
    assert_eq!(note(&got), format!("[derived by select from {size} bytes; the program has no output]"));
}

#[test]
fn numbers_keep_their_text_and_other_blocks_their_bytes() {
    let mut proxy = Proxy::new(&config(json!({})));
    let result = r#"{"_meta":{"x/y":[1.0]},"content":[{"type":"image","data":"QUJD","mimeType":"image/png"},{"type":"text","text":"t"},{"type":"resource_link","uri":"x:1","name":"n","size":1e2}],"structuredContent":{"big":123456789012345678901234567890,"exact":1.10,"huge":1e400},"x-unknown":1.50}"#;
    let params = format!(
        r#"{{"name":"call_dynamic_tool","arguments":{{"group":"g","name":"verbatim","args":{result},"select":"[.big,.exact,.huge]"}}}}"#
    );
    let got = proxy.raw_result("tools/call", &params);
    let expected = format!(
        r#"{{"_meta":{{"x/y":[1.0]}},"content":[{{"type":"text","text":"[123456789012345678901234567890,1.10,1e400]"}},{{"type":"image","data":"QUJD","mimeType":"image/png"}},{{"type":"resource_link","uri":"x:1","name":"n","size":1e2}},{{"type":"text","text":"[derived by select from {} bytes]"}}],"x-unknown":1.50}}"#,
        result.len()
    );
    assert_eq!(got, expected);
}

#[test]
fn errors_and_calls_without_select_pass_byte_for_byte() {
    let mut proxy = Proxy::new(&config(json!({})));
    let error = json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "isError": true});
    assert_eq!(select(&mut proxy, &error, ".a"), error);
    let params =
        r#"{"name":"call_dynamic_tool","arguments":{"group":"g","name":"weird","args":{},"select":""}}"#;
    assert!(proxy.raw_result("tools/call", params).contains(r#""spaced" : [ 1 , 2 ]"#));
}

#[test]
fn a_program_that_fails_is_answered_with_the_shape_and_the_tool_is_not_called_again() {
    let (mut proxy, record) = recorded(json!({}));
    let items: Vec<_> = (0..500).map(|n| json!({"id": n, "name": format!("name {n}")})).collect();
    let result = json!({"content": [], "structuredContent": {"items": items, "next": null}});
    let shape = "Its shape: {items: [500 x {id: number, name: string}], next: null}";
    for (program, why) in [
        (".items[", "the program is not valid: expected closing bracket at the end of the program"),
        (".items | map(.nope.deeper) | nope", "the program is not valid: there is no filter nope/0 here"),
        (".items.name", r#"the program ended with the error: cannot index [{"id":0,"name":"name 0"}"#),
        ("env", "the program is not valid: there is no filter env/0 here"),
        ("$ENV.PATH", "the program is not valid: there is no variable $ENV here"),
        ("input", "the program is not valid: there is no filter input/0 here"),
        ("[inputs]", "the program is not valid: there is no filter inputs/0 here"),
        ("debug", "the program is not valid: there is no filter debug/0 here"),
        (r#"import "x" as x; ."#, "the program is not valid: modules cannot be imported here"),
        (r#"include "x"; ."#, "the program is not valid: modules cannot be imported here"),
        ("[range(1000000)]", "the outputs have more than 1000000 bytes"),
    ] {
        let got = select(&mut proxy, &result, program);
        let text = failure(&got);
        assert!(text.starts_with(&format!("select failed: {why}")), "{program}: {text}");
        assert!(
            text.contains("Tool \"verbatim\" of group g was called, so do not call it again for this."),
            "{text}"
        );
        assert!(text.ends_with(shape), "{text}");
    }
    // A corrected program runs over the same result.
    let before = record.lines_of("tools/call").len();
    let got = select(&mut proxy, &result, ".item");
    assert_eq!(outputs(&got).0, "null");
    let got = select(&mut proxy, &result, ".items | lenth");
    let id = id_in(failure(&got));
    let size = "14,338";
    assert_eq!(result.to_string().len(), 14_338);
    let got = read(&mut proxy, &id, json!({"select": ".items | length"}));
    assert_eq!(outputs(&got), ("500", &*format!("[derived by select from {size} bytes]")));
    let beside =
        json!({"group": "dynamic-mcp", "name": "result", "args": {"id": id}, "select": ".items[7].name"});
    assert_eq!(outputs(&proxy.call_meta_tool("call_dynamic_tool", beside)).0, "name 7");
    let wrong = read(&mut proxy, &id, json!({"select": ".items |"}));
    assert!(failure(&wrong).contains(&id) && failure(&wrong).ends_with(shape), "{wrong}");
    assert_eq!(record.lines_of("tools/call").len(), before + 2);
}

#[test]
fn a_result_without_json_is_described_and_read_as_text() {
    let mut proxy = Proxy::new(&config(json!({})));
    let got = select(&mut proxy, &text_result("first line\nsecond line"), ".a");
    let text = failure(&got);
    assert!(text.starts_with("select failed: it needs JSON, and the result has none.\n"), "{text}");
    assert!(
        text.ends_with(r#"Its shape: text of 2 lines that is not JSON: "first line\nsecond line""#),
        "{text}"
    );
    assert_eq!(read_text(&mut proxy, &id_in(text), json!({"lines": 2})), "second line");
    let image = json!({"content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}]});
    assert!(failure(&select(&mut proxy, &image, ".")).starts_with("select failed: it needs JSON"));
}

#[test]
fn a_program_that_loops_or_allocates_without_end_is_ended_and_the_session_goes_on() {
    let _turn = Turn::take();
    let mut proxy = Proxy::new(&config(json!({})));
    let result = json!({"content": [], "structuredContent": {"a": 1}});
    for (program, why) in [
        ("def f: f; f", "the program ran for more than 2 s"),
        ("[limit(1; repeat(empty))]", "the program ran for more than 2 s"),
        (
            "\"x\" | until(false; . + .)",
            "the program needs more than 256 MiB of memory, or recurses too deep",
        ),
        // Numbers in a list would take most of the time that a program has, in a build without optimizations.
        ("[\"x\"] | until(false; [.[0] + .[0]])", "the program needs more than 256 MiB of memory"),
        ("def f: 1 + f; f", "the program needs more than 256 MiB of memory, or recurses too deep"),
    ] {
        let got = select(&mut proxy, &result, program);
        let text = failure(&got);
        assert!(text.starts_with(&format!("select failed: {why}")), "{program}: {text}");
    }
    assert_eq!(outputs(&select(&mut proxy, &result, ".a")).0, "1");
}

#[test]
fn a_result_of_10_mb_is_selected_from() {
    let _turn = Turn::take();
    let mut proxy = Proxy::new(&config(json!({})));
    let arguments = json!({"group": "g", "name": "big", "args": {"bytes": 10_000_000, "kind": "rows"}, "select": ".rows | length, .[-1].id"});
    let got = proxy.call_meta_tool("call_dynamic_tool", arguments);
    assert_eq!(outputs(&got).0, "156250\n156249");
}

#[test]
fn flattened_arguments_keep_select_if_the_tool_has_it() {
    let mut proxy = Proxy::new(&config(json!({})));
    let mut call = |arguments| proxy.call_meta_tool("call_dynamic_tool", arguments);
    let own = call(json!({"group": "g", "name": "selects", "a": 1, "select": ".a"}));
    assert_eq!(text_of(&own), r#"{"a":1,"select":".a"}"#);
    let ours = call(json!({"group": "g", "name": "selects_not", "a": 1, "select": ".a"}));
    assert_eq!(outputs(&ours).0, "1");
    let nested = call(json!({"group": "g", "name": "selects", "args": {"select": "x"}, "select": ".select"}));
    assert_eq!(outputs(&nested).0, "x");
    let read_only =
        json!({"group": "g", "name": "read_only_echo", "args": {"text": "{\"a\":[7]}"}, "select": ".a[0]"});
    assert_eq!(outputs(&proxy.call_meta_tool("call_dynamic_tool_readonly", read_only)).0, "7");
}

#[test]
fn approvals_and_rules_come_before_select() {
    let mut proxy = Proxy::new(&config(json!({"tools": {"ask": ["verbatim"], "deny": ["echo"]}})));
    let text = select(&mut proxy, &text_result("{}"), ".");
    assert!(failure(&text).contains("has to confirm"), "{text}");
    let denied = json!({"group": "g", "name": "echo", "args": {"text": "{}"}, "select": "."});
    assert_eq!(proxy.call_meta_tool("call_dynamic_tool", denied)["isError"], true);
    let task = json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": "args", "args": {}, "select": "."}, "task": {}});
    let refused = proxy.request("tools/call", task);
    assert!(
        failure(&refused["result"]).contains("does not apply to a call that runs as a task"),
        "{refused}"
    );
}

#[test]
fn the_command_call_prints_the_outputs_alone() {
    // What is stored for other clients is not for a person.
    let shell = Shell::new(&config(json!({"store_above": "1kB"})));
    let result = json!({"content": [], "structuredContent": {"a": ["x\ty", 2]}}).to_string();
    let call = |more: &[&str]| shell.run(&[&["call", "g", "verbatim", &result], more].concat());
    assert_eq!(call(&["--select", ".a[]"]), (0, "x\ty\n2\n".to_owned(), String::new()));
    assert_eq!(call(&["--select", "empty"]), (0, String::new(), String::new()));
    assert_eq!(call(&["--select", "-.a[1]"]), (0, "-2\n".to_owned(), String::new()));
    let raw = call(&["--select", ".a[1]", "--json"]);
    assert_eq!(raw, (0, "{\"content\":[{\"type\":\"text\",\"text\":\"2\"}]}\n".to_owned(), String::new()));
    let (code, stdout, stderr) = call(&["--select", ".a["]);
    assert_eq!((code, &*stdout), (2, ""));
    let invalid = "--select: the program is not valid: expected closing bracket at the end of the program; the tool was not called";
    assert_eq!(stderr, format!("dynamic-mcp: {invalid}\n"));
    let (code, stdout, stderr) = call(&["--select", ".a | error"]);
    assert_eq!((code, &*stdout), (1, ""));
    let called = "  The tool was called. The shape of its result: {a: [2 x string|number]}\n";
    assert!(stderr.ends_with(called), "{stderr}");
    // A person sees results whole.
    let (code, stdout, _) = shell.run(&["call", "g", "big", r#"{"bytes": 9000}"#]);
    assert_eq!((code, stdout.len()), (0, 9001));
    let (code, _, stderr) = shell.run(&["call", "g", "fail", "{}", "--select", ".a"]);
    assert_eq!((code, &*stderr), (5, "it failed\n"));
}
