//! `prompts/list` and `prompts/get`: exposed names, routing, and unchanged params, results and errors.

use serde_json::json;

use super::{WEIRD, full_config, members_of, same_uris_config, weird_error, weird_member};
use crate::support::{Proxy, full_upstream, pure_config};

fn prompt_names(proxy: &mut Proxy) -> Vec<String> {
    let mut names = members_of(&proxy.request("prompts/list", json!({})), "prompts", "name");
    let others = names.split_off(2);
    assert_eq!(names, ["status", "setup"], "our own come first");
    others
}

/// Gets a prompt that quotes its params, and returns the params that the upstream received.
fn received_params(proxy: &mut Proxy, name: &str) -> String {
    let response = proxy.request("prompts/get", json!({"name": name, "arguments": {"who": "me"}}));
    response["result"]["messages"][0]["content"]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{response}"))
        .to_owned()
}

#[test]
fn exposed_names_are_short_plain_and_unique_and_get_their_own_prompts() {
    // The exposed names of both groups begin with the same prefix.
    let mut proxy = Proxy::new(&pure_config([("a b", full_upstream(&[])), ("a_b", full_upstream(&[]))]));
    proxy.connect(["a b", "a_b"]);
    let names = prompt_names(&mut proxy);
    assert_eq!(names.len(), 12);
    assert_eq!(&*names[6], "a_b__greet", "the group of exactly this name has it");
    let long = format!("long-{}", "x".repeat(60));
    for (index, name) in names.iter().enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        assert!(name.len() <= 46 && name.chars().all(is_plain), "{name}");
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        let upstream_name = ["greet", "params", "weird", "error", &*long, "odd näme"][index % 6];
        if !["weird", "error"].contains(&upstream_name) {
            let params: serde_json::Value = serde_json::from_str(&received_params(&mut proxy, name)).unwrap();
            assert_eq!(params, json!({"name": upstream_name, "arguments": {"who": "me"}}), "{name}");
        }
    }
    for name in ["a_b__nothing", "greet", "nobody__greet", ""] {
        assert_eq!(proxy.error_code("prompts/get", json!({"name": name})), -32602, "{name}");
    }
    assert_eq!(proxy.error_code("prompts/get", json!({})), -32602);
}

#[test]
fn an_unknown_name_connects_its_group() {
    let mut proxy = Proxy::new(&same_uris_config());
    assert!(received_params(&mut proxy, "g__greet").contains(r#""name":"greet""#));
    assert_eq!((proxy.group_state("g"), proxy.group_state("h")), ("connected".into(), "pending".into()));
    assert_eq!(proxy.error_code("prompts/get", json!({"name": "h__nothing"})), -32602);
    assert_eq!(proxy.group_state("h"), "connected");
    let broken = json!({"command": "/no/such/program"});
    let mut proxy = Proxy::new(&pure_config([("g", broken)]));
    assert_eq!(proxy.error_code("prompts/get", json!({"name": "g__greet"})), -31001);
}

#[test]
fn a_hashed_name_of_an_unknown_group_is_resolved() {
    let config = full_config(&[]);
    let mut other = Proxy::new(&config);
    other.upstream_pid("g");
    let long = prompt_names(&mut other).remove(4);
    let mut proxy = Proxy::new(&config);
    assert!(received_params(&mut proxy, &long).contains("long-xxxx"), "{long}");
}

#[test]
fn a_group_with_special_characters_is_found_by_its_exposed_name() {
    let mut proxy = Proxy::new(&pure_config([("my server", full_upstream(&[]))]));
    assert!(received_params(&mut proxy, "my_server__greet").contains(r#""name":"greet""#));
}

#[test]
fn a_prompt_that_was_added_later_is_found() {
    let mut proxy = Proxy::new(&full_config(&[]));
    proxy.call_text("g", "grow", json!({"list": "prompts"}));
    assert!(received_params(&mut proxy, "g__grown_0").contains("grown_0"));
}

#[test]
fn params_results_and_errors_pass_byte_for_byte() {
    let mut proxy = Proxy::new(&full_config(&[]));
    let rest = format!(r#""arguments":{{"a":-0.0,"b":"\u00e9"}},"_meta":{{"x":[1e400]}},{WEIRD}"#);
    for name in [r#""name":"g__params""#, r#""group":"g","name":"params""#] {
        let result = proxy.raw_result("prompts/get", &format!("{{{name},{rest}}}"));
        let params = result.split(r#""text":"#).nth(1).unwrap().trim_end_matches("}}]}");
        let params: String = serde_json::from_str(params).unwrap();
        for part in [r#""arguments":{"a":-0.0,"b":"\u00e9"},"_meta":{"x":[1e400]}"#, weird_member()] {
            assert!(params.contains(part), "{part} in {params}");
        }
        assert!(params.contains(r#""name":"params""#) && !params.contains("group"), "{params}");
    }
    let weird = proxy.raw_result("prompts/get", r#"{"name":"g__weird"}"#);
    assert!(weird.ends_with(&format!(",{WEIRD}}}")), "{weird}");
    assert_eq!(proxy.raw_error("prompts/get", r#"{"name":"g__error"}"#), weird_error());
}
