//! `completion/complete`: routing by prompt or resource template, and unchanged params and results.

use serde_json::{Value, json};

use super::{WEIRD, full_config, same_uris_config, two_schemes_config, weird_member};
use crate::support::Proxy;

const ARGUMENT: &str =
    r#""argument":{"name":"id","value":"\u00e9","x":-0.0},"context":{"arguments":{"n":1e400}}"#;

/// Sends a completion request with these members in its params, and asserts that the members of params and result pass
/// unchanged. Returns the params that the upstream received.
fn upstream_params(proxy: &mut Proxy, more: &str) -> String {
    let params = format!("{{{more},{ARGUMENT},{WEIRD}}}");
    let result = proxy.raw_result("completion/complete", &params);
    assert!(result.ends_with(&format!(r#"],"total":1.0}},{WEIRD}}}"#)), "{result}");
    let values = result.split(r#"{"values":["#).nth(1).unwrap();
    let arrived: String = serde_json::Deserializer::from_str(values).into_iter().next().unwrap().unwrap();
    for part in [ARGUMENT, weird_member()] {
        assert!(arrived.contains(part), "{part} in {arrived}");
    }
    assert!(!arrived.contains(r#""group""#), "{arrived}");
    arrived
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
