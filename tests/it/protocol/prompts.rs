//! `prompts/*`.

use serde_json::json;

use super::{WEIRD, all, each, error_of, result_of, state, weird_error, weird_member};
use crate::support::{Proxy, servers};

fn names(proxy: &mut Proxy) -> Vec<String> {
    each(&proxy.ask("prompts/list", json!({})), "prompts", "name")
}

/// The params with which a prompt was asked for upstream.
fn got(proxy: &mut Proxy, name: &str) -> String {
    let answer = proxy.ask("prompts/get", json!({"name": name, "arguments": {"who": "me"}}));
    answer["result"]["messages"][0]["content"]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

#[test]
fn every_listed_name_is_short_plain_unique_and_gets_its_own_prompt() {
    // `a` has a prompt for every one of `a__b`'s under the same name, but for the separator.
    let mut proxy = Proxy::new(&servers([("a b", all(&[])), ("a_b", all(&[]))]));
    ["a b", "a_b"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let names = names(&mut proxy);
    assert_eq!(&*names[0], "a_b__greet");
    assert_eq!(names.len(), 12);
    let long = format!("long-{}", "x".repeat(60));
    for (at, name) in names.iter().enumerate() {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        assert!(name.len() <= 46 && name.chars().all(plain), "{name}");
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        let behind = ["greet", "params", "weird", "error", &*long, "odd näme"][at % 6];
        if !["weird", "error"].contains(&behind) {
            let params: serde_json::Value = serde_json::from_str(&got(&mut proxy, name)).unwrap();
            assert_eq!(params, json!({"name": behind, "arguments": {"who": "me"}}), "{name}");
        }
    }
    for name in ["a_b__nothing", "greet", "nobody__greet", ""] {
        assert_eq!(proxy.refused("prompts/get", json!({"name": name})), -32602, "{name}");
    }
    assert_eq!(proxy.refused("prompts/get", json!({})), -32602);
}

#[test]
fn a_name_that_is_not_known_connects_its_group() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("h", all(&[]))]));
    assert!(got(&mut proxy, "g__greet").contains(r#""name":"greet""#));
    assert_eq!((state(&mut proxy, "g"), state(&mut proxy, "h")), ("connected".into(), "pending".into()));
    assert_eq!(proxy.refused("prompts/get", json!({"name": "h__nothing"})), -32602);
    assert_eq!(state(&mut proxy, "h"), "connected");
    let broken = json!({"command": "/no/such/program"});
    let mut proxy = Proxy::new(&servers([("g", broken)]));
    assert_eq!(proxy.refused("prompts/get", json!({"name": "g__greet"})), -31001);
}

#[test]
fn a_hashed_name_of_a_group_that_is_not_known_yet_finds_it() {
    let config = servers([("g", all(&[]))]);
    let mut knows = Proxy::new(&config);
    knows.upstream_pid("g");
    let long = names(&mut knows).remove(4);
    let mut proxy = Proxy::new(&config);
    assert!(got(&mut proxy, &long).contains("long-xxxx"), "{long}");
}

#[test]
fn a_group_whose_name_is_not_plain_is_found_by_its_exposed_name() {
    let mut proxy = Proxy::new(&servers([("my server", all(&[]))]));
    assert!(got(&mut proxy, "my_server__greet").contains(r#""name":"greet""#));
}

#[test]
fn a_prompt_that_was_added_later_is_found() {
    let mut proxy = Proxy::new(&servers([("g", all(&[]))]));
    proxy.text("g", "grow", json!({"list": "prompts"}));
    assert!(got(&mut proxy, "g__grown_0").contains("grown_0"));
}

#[test]
fn params_results_and_errors_pass_byte_for_byte() {
    let mut proxy = Proxy::new(&servers([("g", all(&[]))]));
    let rest = format!(r#""arguments":{{"a":-0.0,"b":"\u00e9"}},"_meta":{{"x":[1e400]}},{WEIRD}"#);
    for name in [r#""name":"g__params""#, r#""group":"g","name":"params""#] {
        let result = result_of(&mut proxy, "prompts/get", &format!("{{{name},{rest}}}"));
        let params = result.split(r#""text":"#).nth(1).unwrap().trim_end_matches("}}]}");
        let params: String = serde_json::from_str(params).unwrap();
        for part in [r#""arguments":{"a":-0.0,"b":"\u00e9"},"_meta":{"x":[1e400]}"#, weird_member()] {
            assert!(params.contains(part), "{part} in {params}");
        }
        assert!(params.contains(r#""name":"params""#) && !params.contains("group"), "{params}");
    }
    let weird = result_of(&mut proxy, "prompts/get", r#"{"name":"g__weird"}"#);
    assert!(weird.ends_with(&format!(",{WEIRD}}}")), "{weird}");
    assert_eq!(error_of(&mut proxy, "prompts/get", r#"{"name":"g__error"}"#), weird_error());
}
