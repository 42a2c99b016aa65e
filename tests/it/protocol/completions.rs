//! `completion/complete`.

use serde_json::{Value, json};

use super::{WEIRD, all, result_of, two, weird_member};
use crate::support::{Proxy, servers};

const ARGUMENT: &str =
    r#""argument":{"name":"id","value":"\u00e9","x":-0.0},"context":{"arguments":{"n":1e400}}"#;

/// The params that arrived upstream, and that the result came back as it was.
fn completed(proxy: &mut Proxy, more: &str) -> String {
    let params = format!("{{{more},{ARGUMENT},{WEIRD}}}");
    let result = result_of(proxy, "completion/complete", &params);
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
fn it_goes_to_the_group_of_the_prompt_or_the_template() {
    let mut proxy = Proxy::new(&two());
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    for (more, reference) in [
        (r#""ref":{"type":"ref/prompt","name":"h__greet","x":1.0}"#, r#""name":"greet""#),
        (r#""group":"h","ref":{"type":"ref/prompt","name":"greet"}"#, r#""name":"greet""#),
        (r#""ref":{"type":"ref/resource","uri":"h://item/{id}","x":1.0}"#, r#""uri":"h://item/{id}""#),
        (r#""ref":{"type":"ref/resource","uri":"h://item/7"}"#, r#""uri":"h://item/7""#),
        (r#""group":"h","ref":{"type":"ref/resource","uri":"g://item/{id}"}"#, r#""uri":"g://item/{id}""#),
    ] {
        let arrived = completed(&mut proxy, more);
        assert!(arrived.contains(reference), "{reference} in {arrived}");
        assert_eq!(arrived.contains(r#""x":1.0"#), more.contains(r#""x":1.0"#), "{arrived}");
    }
}

#[test]
fn a_template_listed_under_our_uri_goes_to_its_group_under_its_own() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("h", all(&[]))]));
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let templates = proxy.ask("resources/templates/list", json!({}));
    let ours = &templates["result"]["resourceTemplates"][1]["uriTemplate"];
    let arrived = completed(&mut proxy, &format!(r#""ref":{{"type":"ref/resource","uri":{ours}}}"#));
    assert!(arrived.contains(r#""uri":"mem://item/{id}""#), "{arrived}");
}

#[test]
fn what_refers_to_nothing_is_refused() {
    let mut proxy = Proxy::new(&two());
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
        let code = proxy.refused("completion/complete", json!({"ref": reference, "argument": {}}));
        assert_eq!(code, -32602, "{reference}");
    }
}

#[test]
fn a_revision_without_a_capability_for_it_has_it_all_the_same() {
    let mut proxy = Proxy::new(&servers([("g", all(&["--version", "2024-11-05"]))]));
    completed(&mut proxy, r#""ref":{"type":"ref/prompt","name":"g__greet"}"#);
}
