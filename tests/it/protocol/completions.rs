//! `completion/complete`: routing by prompt or resource template, and unchanged params and results.

use serde_json::{Value, json};

use super::{WEIRD, full_config, recorded_config, same_uris_config, two_schemes_config, weird_member};
use crate::support::{InputRecord, Proxy, ProxyCommand, config_of, full_upstream, merged};

const ARGUMENT: &str =
    r#""argument":{"name":"id","value":"\u00e9","x":-0.0},"context":{"arguments":{"n":1e400}}"#;

/// Sends a completion request with these members in its params, and asserts that the members of params and result pass
/// unchanged. Returns the params that the upstream received.
fn upstream_params(proxy: &mut Proxy, more: &str) -> String {
    let params = format!("{{{more},{ARGUMENT},{WEIRD}}}");
    let result = proxy.raw_result("completion/complete", &params);
    assert!(result.ends_with(&format!(r#"],"total":1.0}},{WEIRD}}}"#)), "{result}");
    let arrived = first_value(&result);
    for part in [ARGUMENT, weird_member()] {
        assert!(arrived.contains(part), "{part} in {arrived}");
    }
    assert!(!arrived.contains(r#""group""#), "{arrived}");
    arrived
}

/// The first value of a completion. The whole is no JSON to serde_json, because its numbers are too large.
fn first_value(result: &str) -> String {
    let values = result.split(r#"{"values":["#).nth(1).unwrap();
    serde_json::Deserializer::from_str(values).into_iter().next().unwrap().unwrap()
}

#[test]
fn a_completion_is_routed_by_its_prompt_or_template() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.connect(["g", "h"]);
    for (more, reference) in [
        (r#""ref":{"type":"ref/prompt","name":"h__greet","x":1.0}"#, r#""name":"greet""#),
        (r#""group":"h","ref":{"type":"ref/prompt","name":"greet"}"#, r#""name":"greet""#),
        (r#""ref":{"type":"ref/resource","uri":"h://item/{id}","x":1.0}"#, r#""uri":"h://item/{id}""#),
        (r#""ref":{"type":"ref/resource","uri":"h://item/7"}"#, r#""uri":"h://item/7""#),
        (r#""group":"h","ref":{"type":"ref/resource","uri":"g://item/{id}"}"#, r#""uri":"g://item/{id}""#),
    ] {
        let arrived = upstream_params(&mut proxy, more);
        assert!(arrived.contains(reference), "{reference} in {arrived}");
        assert_eq!(arrived.contains(r#""x":1.0"#), more.contains(r#""x":1.0"#), "{arrived}");
    }
}

#[test]
fn a_rewritten_template_reaches_its_group_with_its_original_uri() {
    let mut proxy = Proxy::new(&same_uris_config());
    proxy.connect(["g", "h"]);
    let templates = proxy.request("resources/templates/list", json!({}));
    let rewritten = &templates["result"]["resourceTemplates"][1]["uriTemplate"];
    let arrived =
        upstream_params(&mut proxy, &format!(r#""ref":{{"type":"ref/resource","uri":{rewritten}}}"#));
    assert!(arrived.contains(r#""uri":"mem://item/{id}""#), "{arrived}");
}

#[test]
fn references_that_match_no_group_are_refused() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.upstream_pid("g");
    for reference in [
        Value::Null,
        json!({}),
        json!({"type": "ref/other"}),
        json!({"type": "ref/prompt"}),
        json!({"type": "ref/prompt", "name": "g__nothing"}),
        json!({"type": "ref/resource"}),
        json!({"type": "ref/resource", "uri": "x://{y}"}),
    ] {
        let code = proxy.error_code("completion/complete", json!({"ref": reference, "argument": {}}));
        assert_eq!(code, -32602, "{reference}");
    }
}

#[test]
fn a_revision_without_the_capability_gets_completions() {
    let mut proxy = Proxy::new(&full_config(&["--version", "2024-11-05"]));
    upstream_params(&mut proxy, r#""ref":{"type":"ref/prompt","name":"g__greet"}"#);
}

#[test]
fn a_reference_that_servers_may_read_in_another_way_is_refused() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    proxy.connect(["g"]);
    for (params, key) in [
        (r#""ref":{"type":"ref/prompt","name":"g__greet"},"Ref":{"type":"ref/prompt","name":"x"}"#, "Ref"),
        (r#""ref":{"type":"ref/prompt","name":"x"},"ref":{"type":"ref/prompt","name":"g__greet"}"#, "ref"),
        (r#""ref":{"type":"ref/prompt","name":"g__greet","Name":"x"}"#, "Name"),
        (r#""ref":{"type":"ref/prompt","name":"x","name":"g__greet"}"#, "name"),
        (r#""ref":{"type":"ref/resource","uri":"mem://one","\u0055RI":"x"}"#, "URI"),
        (r#""ref":{"type":"ref/prompt","Type":"ref/resource","name":"g__greet"}"#, "Type"),
    ] {
        let error = proxy.raw_error("completion/complete", &format!("{{{params},{ARGUMENT}}}"));
        assert!(error.contains("-32602") && error.contains(&format!(r#"\"{key}\""#)), "{params}: {error}");
    }
    assert_eq!(record.lines_of("completion/complete"), Vec::<String>::new());
    // Further members are the server's own.
    upstream_params(&mut proxy, r#""ref":{"type":"ref/prompt","name":"g__greet","names":1,"title":"x"}"#);
}

#[test]
fn params_of_wrong_types_and_sizes_disturb_nothing() {
    let config = merged(full_config(&[]), json!({"settings": {"max_message_bytes": 100_000}}));
    let mut proxy = Proxy::new(&config);
    proxy.connect(["g"]);
    for params in [
        "5",
        "[]",
        r#"{"ref":[]}"#,
        r#"{"ref":"ref/prompt"}"#,
        r#"{"ref":{"type":["ref/prompt"],"name":"g__greet"}}"#,
        r#"{"ref":{"type":"ref/prompt","name":["g__greet"]}}"#,
        r#"{"ref":{"type":"ref/resource","uri":{"g://x":1}}}"#,
        r#"{"ref":{"type":"ref/prompt","name":"g__greet\n"}}"#,
        r#"{"ref":{"type":"ref/prompt","name":"g__greet\u0000"}}"#,
        r#"{"ref":{"type":"ref/prompt","name":"greet"},"group":["g"]}"#,
    ] {
        assert!(proxy.raw_error("completion/complete", params).contains("-32602"), "{params}");
    }
    // A name that is too long for the client's screen, and characters that hide it.
    let name = format!("g__{}", "\u{202e}\u{1b}[2J".repeat(5000));
    let reference = json!({"type": "ref/prompt", "name": name});
    let error = proxy.raw_error("completion/complete", &json!({"ref": reference}).to_string());
    assert!(error.len() < 2000 && !error.contains(['\u{202e}', '\u{1b}']), "{error}");

    let with_value = |value: &str| json!({"ref": {"type": "ref/prompt", "name": "g__greet"}, "argument": {"name": "id", "value": value}});
    let error = proxy.error_code("completion/complete", with_value(&"x".repeat(120_000)));
    assert!(error < 0, "{error}");
    // Any other value is the server's to judge, and arrives as it is.
    for value in ["x".repeat(90_000), "\u{0}\n\r\u{1b}[2J\u{2028}\u{202e}{}\\\"".to_owned()] {
        let result = proxy.raw_result("completion/complete", &with_value(&value).to_string());
        let arrived: Value = serde_json::from_str(&first_value(&result)).unwrap();
        assert_eq!(arrived["argument"]["value"], value);
    }
}

#[test]
fn results_of_wrong_types_and_sizes_reach_only_who_asked() {
    let config = merged(two_schemes_config(), json!({"settings": {"max_message_bytes": 100_000}}));
    let mut proxy = Proxy::new(&config);
    proxy.connect(["g", "h"]);
    let many = json!({"completion": {"values": vec!["v"; 5000], "total": 5000}});
    let long = json!({"completion": {"values": ["x".repeat(120_000)]}});
    for result in [json!(5), json!([1]), json!("text"), json!({}), many, long.clone()] {
        let params =
            json!({"ref": {"type": "ref/prompt", "name": "g__greet"}, "argument": {}, "x-result": result});
        let response = proxy.request("completion/complete", params);
        match result == long {
            true => assert!(response["error"]["code"].is_i64(), "{response}"),
            // MCP allows 100 values, and what to do with more is the client's decision.
            false => assert_eq!(response["result"], result),
        }
    }
    for group in ["g", "h"] {
        upstream_params(&mut proxy, &format!(r#""ref":{{"type":"ref/prompt","name":"{group}__greet"}}"#));
    }
}

#[test]
fn no_reference_leads_to_a_server_or_a_tool_that_the_config_hides() {
    let (shown, hidden, off) = (InputRecord::new(), InputRecord::new(), InputRecord::new());
    let entry =
        |record: &InputRecord, name| record.attached_to(full_upstream(&["--scheme", name, "--name", name]));
    let config = merged(
        config_of([
            ("g", merged(entry(&shown, "g"), json!({"tools": {"deny": ["echo"]}}))),
            ("h", entry(&hidden, "h")),
            ("off", merged(entry(&off, "off"), json!({"enabled": false}))),
        ]),
        json!({"profiles": {"work": {"servers": ["g"]}}}),
    );
    let mut proxy = ProxyCommand::new().config(&config).args(&["--profile", "work"]).start_initialized();
    proxy.connect(["g"]);
    for group in ["h", "off"] {
        for params in [
            json!({"ref": {"type": "ref/prompt", "name": format!("{group}__greet")}}),
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "group": group}),
            json!({"ref": {"type": "ref/resource", "uri": format!("{group}://item/{{id}}")}}),
            json!({"ref": {"type": "ref/resource", "uri": format!("{group}://item/{{id}}")}, "group": group}),
        ] {
            assert_eq!(proxy.error_code("completion/complete", params.clone()), -32602, "{params}");
        }
    }
    // A tool is no prompt.
    for name in ["g__echo", "g__params_tool", "call_dynamic_tool"] {
        let params = json!({"ref": {"type": "ref/prompt", "name": name}});
        assert_eq!(proxy.error_code("completion/complete", params), -32602, "{name}");
    }
    for record in [&hidden, &off] {
        assert_eq!(record.lines_of("initialize"), Vec::<String>::new());
    }
    assert_eq!(shown.lines_of("completion/complete"), Vec::<String>::new());
}
