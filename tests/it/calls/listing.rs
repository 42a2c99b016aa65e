//! `get_dynamic_tools`: in which form it tells a group's tools.

use serde_json::{Value, json};

use crate::support::{Proxy, one, text_of, with};

/// The tools that an answer tells of, one a line, without its head.
fn entries(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with('{') || line.contains(": ")).skip(1).collect()
}

/// A definition as the scripted upstream sends it.
const GENERATED_3: &str = r##"{"name":"generated_3","description":"Generated tool number 3. It returns its arguments.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"item":{"type":"object","properties":{"id":{"type":"integer","maximum":18446744073709551615},"next":{"$ref":"#/$defs/item"}}}},"properties":{"items":{"type":"array","items":{"$ref":"#/$defs/item"}}},"x-unknown":{"n":3}},"outputSchema":{"type":"object"},"x-unknown":3.0}"##;

#[test]
fn stubs_have_a_line_each_and_say_how_to_go_on() {
    let mut proxy = Proxy::new(&one(&["--tools", "5"]));
    let text = proxy.tools(json!({"group": "g", "lazy": true}));
    assert!(text.starts_with("Group g: 26 tools\necho: Returns its text.\nread_only_echo: "), "{text}");
    assert!(text.contains("\ngenerated_4: Generated tool number 4.\n"), "{text}");
    assert!(text.ends_with(r#"get_dynamic_tools {"group":"g","tools":["NAME"]}"#), "{text}");
    assert_eq!(text.lines().count(), 28);
}

#[test]
fn definitions_are_the_bytes_of_the_upstream() {
    let mut proxy = Proxy::new(&one(&["--tools", "5"]));
    let full = proxy.tools(json!({"group": "g", "lazy": false}));
    assert_eq!(entries(&full).len(), 26, "{full}");
    let named = proxy.tools(json!({"group": "g", "tools": ["generated_3"]}));
    assert_eq!(named, format!("Group g: 1 of 26 tools\n{GENERATED_3}"));
    assert!(full.contains(GENERATED_3), "{full}");
}

#[test]
fn names_that_do_not_exist_are_told_beside_those_that_do() {
    let mut proxy = Proxy::new(&one(&["--tools", "5"]));
    let some = proxy.tools(json!({"group": "g", "tools": ["generated_3", "generatd_4"]}));
    assert!(some.contains(GENERATED_3) && some.contains("no tool \"generatd_4\""), "{some}");
    let none = proxy.front("get_dynamic_tools", json!({"group": "g", "tools": ["generatd_4"]}));
    assert_eq!(none["isError"], true);
    assert!(text_of(&none).contains("The nearest tools: generated_"), "{none}");
    for arguments in [json!({}), json!({"group": "nope"}), json!({"group": "g", "tools": 3})] {
        assert_eq!(proxy.front("get_dynamic_tools", arguments)["isError"], true);
    }
}

#[test]
fn the_form_is_chosen_by_the_budget() {
    for (budget, is_full) in [(10_000, true), (100, false)] {
        let config = with(one(&["--tools", "5"]), json!({"settings": {"tools_budget": budget}}));
        let text = Proxy::new(&config).tools(json!({"group": "g"}));
        assert_eq!(text.contains("\"inputSchema\""), is_full, "{text}");
        assert_eq!(entries(&text).len(), if is_full { 26 } else { 27 });
    }
}

#[test]
fn signatures_are_given_when_asked_for_and_when_they_fit_and_definitions_do_not() {
    let mut proxy = Proxy::new(&one(&[]));
    let asked = proxy.tools(json!({"group": "g", "detail": "signature"}));
    assert!(asked.contains("\n/* Returns its text.\nThe text comes back"), "{asked}");
    assert!(asked.contains("\necho(text: string /* What to return */)\n"), "{asked}");
    let full = proxy.tools(json!({"group": "g", "detail": "full"})).len();
    let budget = usize::midpoint(asked.len(), full) / 4;
    let with_budget = |budget: usize| with(one(&[]), json!({"settings": {"tools_budget": budget}}));
    assert_eq!(Proxy::new(&with_budget(budget)).tools(json!({"group": "g"})), asked);
    let stubs = Proxy::new(&with_budget(asked.len() / 8)).tools(json!({"group": "g"}));
    assert_eq!(stubs, proxy.tools(json!({"group": "g", "detail": "stub"})));
    let named = proxy.tools(json!({"group": "g", "tools": ["pid", "echo"], "detail": "stub"}));
    assert!(named.starts_with("Group g: 2 of 21 tools\npid: Returns its process id"), "{named}");
    let wrong = proxy.front("get_dynamic_tools", json!({"group": "g", "detail": "much"}));
    assert_eq!(wrong["isError"], true, "{wrong}");
}

#[test]
fn signatures_that_are_not_all_there_is_to_know_are_not_chosen_by_themselves() {
    let lossy = r#"{"name":"added_lossy","inputSchema":{"type":"object","not":{"required":["a"]}}}"#;
    let config = one(&["--definitions", lossy]);
    let mut proxy = Proxy::new(&config);
    let asked = proxy.tools(json!({"group": "g", "detail": "signature"}));
    assert!(asked.contains("\nadded_lossy() // see its full definition\n"), "{asked}");
    let config = with(config, json!({"settings": {"tools_budget": asked.len() / 4}}));
    assert!(Proxy::new(&config).tools(json!({"group": "g"})).contains("\nsleep: Answers later"));
    assert!(asked.ends_with(r#"get_dynamic_tools {"group":"g","tools":["NAME"]}"#), "{asked}");
}

#[test]
fn every_page_is_read() {
    for flags in [
        vec!["--tools", "30", "--page", "7"],
        vec!["--tools", "30", "--page", "7", "--empty-cursor"],
        vec!["--tools", "30", "--page", "1"],
        vec!["--tools", "30"],
    ] {
        let text = Proxy::new(&one(&flags)).tools(json!({"group": "g", "lazy": true}));
        assert!(
            text.starts_with("Group g: 51 tools\necho: ") && text.contains("\ngenerated_29: "),
            "{flags:?}: {text}"
        );
    }
}

#[test]
fn a_list_that_does_not_end_is_taken_as_far_as_it_goes() {
    let mut proxy = Proxy::new(&one(&["--page", "7", "--same-cursor"]));
    let text = proxy.tools(json!({"group": "g", "lazy": true}));
    assert!(text.starts_with("Group g: 14 tools\n"), "{text}");
    proxy.until_logged("repeats a cursor");
}

#[test]
fn a_long_answer_stays_within_what_clients_show() {
    let mut proxy = Proxy::new(&one(&["--tools", "2000"]));
    for arguments in [
        json!({"group": "g", "lazy": false}),
        json!({"group": "g", "lazy": true}),
        json!({"group": "g", "detail": "signature"}),
    ] {
        let text = proxy.tools(arguments);
        assert!(text.chars().count() < 48_000 && text.lines().count() < 1900, "{}", text.len());
        assert!(text.contains("more ") && text.contains("did not fit in this answer."));
    }
}

#[test]
fn the_instructions_of_the_upstream_come_first() {
    let text =
        Proxy::new(&one(&["--instructions", "Be kind.\nAlways."])).tools(json!({"group": "g", "lazy": true}));
    assert!(text.contains("Instructions of this server:\nBe kind.\nAlways.\n"), "{text}");
}

#[test]
fn a_known_catalog_is_told_without_a_connection() {
    let mut config = one(&[]);
    config["mcpServers"]["g"]["idle_timeout"] = json!("100ms");
    let mut proxy = Proxy::new(&config);
    let first = proxy.tools(json!({"group": "g"}));
    proxy.until_logged("Disconnected g");
    assert_eq!(proxy.tools(json!({"group": "g"})), first);
    assert_eq!(proxy.group("g")["state"], Value::from("discovered"));
}
