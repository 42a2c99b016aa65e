//! With `trust_annotations: false` only the config's own word makes a tool read-only or repeatable.

use serde_json::{Value, json};

use crate::support::{InputRecord, Proxy, merged, pure_config, scripted_upstream, text_of};

/// A session with an upstream whose entry has these members.
fn proxy_with(entry: Value) -> Proxy {
    Proxy::new(&pure_config([("g", merged(scripted_upstream(&[]), entry))]))
}

fn call_read_only(proxy: &mut Proxy, tool: &str) -> Value {
    let arguments = json!({"group": "g", "name": tool, "args": {"text": "called"}});
    proxy.call_meta_tool("call_dynamic_tool_readonly", arguments)
}

#[test]
fn the_read_only_variant_calls_only_what_the_config_says() {
    for entry in [json!({"trust_annotations": false}), json!({"tools": {"trust_annotations": false}})] {
        let mut proxy = proxy_with(entry);
        let refused = call_read_only(&mut proxy, "read_only_echo");
        assert!(text_of(&refused).contains("trust_annotations is false"), "{refused}");
        let text = proxy.call_text("g", "read_only_echo", json!({"text": "called"}));
        assert_eq!(text, "called", "the other variant calls it");
    }
    let mut proxy = proxy_with(json!({"trust_annotations": false, "tools": {"read_only": ["echo"]}}));
    assert_eq!(text_of(&call_read_only(&mut proxy, "echo")), "called");
    let mut trusting = proxy_with(json!({}));
    assert_eq!(text_of(&call_read_only(&mut trusting, "read_only_echo")), "called");
}

#[test]
fn a_call_is_repeated_only_if_a_claim_counts_or_the_config_says_so() {
    for (entry, calls) in [
        (json!({}), 2),
        (json!({"trust_annotations": false}), 1),
        (json!({"trust_annotations": false, "tools": {"read_only": ["read_only_*"]}}), 2),
    ] {
        // The server answers no call and exits after a second.
        let record = InputRecord::new();
        let server = record.attached_to(scripted_upstream(&["--hang", "call", "--live", "1"]));
        let mut proxy = Proxy::new(&pure_config([("g", merged(server, entry.clone()))]));
        let text = proxy.call_failure("g", "read_only_echo", json!({"text": "x"}));
        assert!(text.contains("exited with code 9"), "{entry}: {text}");
        assert_eq!(record.lines_of("tools/call").len(), calls, "{entry}");
    }
}

#[test]
fn clients_do_not_see_hints_that_do_not_count() {
    let definition = |entry: Value, name: &str| {
        let mut proxy = proxy_with(entry);
        proxy.connect(["g"]);
        let described = proxy.request("tools/describe", json!({"name": name}));
        let listed = proxy.request("tools/list", json!({"lazy": false}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let listed = tools.iter().find(|tool| tool["name"] == name).unwrap();
        assert_eq!(described["result"]["tool"], *listed);
        listed.clone()
    };
    let trusted = definition(json!({}), "g__read_only_echo");
    assert_eq!(trusted["annotations"], json!({"readOnlyHint": true, "x-unknown": 1}));
    let distrusted = definition(json!({"trust_annotations": false}), "g__read_only_echo");
    assert_eq!(distrusted["annotations"], json!({"x-unknown": 1}));
    assert_eq!(distrusted["execution"], trusted["execution"], "everything else is unchanged");
    let confirmed = json!({"trust_annotations": false, "tools": {"read_only": ["*echo"]}});
    let confirmed_hints = definition(confirmed.clone(), "g__read_only_echo")["annotations"].take();
    assert_eq!(confirmed_hints, json!({"x-unknown": 1, "readOnlyHint": true}));
    assert_eq!(definition(confirmed, "g__echo")["annotations"], json!({"readOnlyHint": true}));
}
