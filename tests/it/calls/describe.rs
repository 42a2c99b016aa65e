//! `get_dynamic_tools`: stubs, signatures or definitions of a group's tools, as requested or as the budget allows.

use serde_json::{Value, json};

use crate::support::{Proxy, merged, scripted_config, text_of};

/// The lines of a result that have a tool, without its head.
fn entries(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with('{') || line.contains(": ")).skip(1).collect()
}

/// A definition as the scripted upstream sends it.
const GENERATED_3: &str = r##"{"name":"generated_3","description":"Generated tool number 3. It returns its arguments.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"item":{"type":"object","properties":{"id":{"type":"integer","maximum":18446744073709551615},"next":{"$ref":"#/$defs/item"}}}},"properties":{"items":{"type":"array","items":{"$ref":"#/$defs/item"}}},"x-unknown":{"n":3}},"outputSchema":{"type":"object"},"x-unknown":3.0}"##;

#[test]
fn stubs_have_a_line_each_and_the_result_says_how_to_get_definitions() {
    let mut proxy = Proxy::new(&scripted_config(&["--tools", "5"]));
    let text = proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(text.starts_with("Group g: 26 tools\necho: Returns its text.\nread_only_echo: "), "{text}");
    assert!(text.contains("\ngenerated_4: Generated tool number 4.\n"), "{text}");
    assert!(text.ends_with(r#"get_dynamic_tools {"group":"g","tools":["NAME"]}"#), "{text}");
    assert_eq!(text.lines().count(), 28);
}

#[test]
fn definitions_are_the_bytes_of_the_upstream() {
    let mut proxy = Proxy::new(&scripted_config(&["--tools", "5"]));
    let full = proxy.get_dynamic_tools(json!({"group": "g", "lazy": false}));
    assert_eq!(entries(&full).len(), 26, "{full}");
    let named = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["generated_3"]}));
    assert_eq!(named, format!("Group g: 1 of 26 tools\n{GENERATED_3}"));
    assert!(full.contains(GENERATED_3), "{full}");
}

#[test]
fn what_is_asked_for_by_name_is_shown_whole_or_stored() {
    let long = |name: &str, bytes: usize| {
        let description = "d ".repeat(bytes / 2);
        json!({"name": name, "description": description, "inputSchema": {"type": "object", "z": name}})
            .to_string()
    };
    let definitions =
        [long("added_huge", 49_000), long("added_a", 26_000), long("added_b", 26_000)].join(",");
    let mut proxy = Proxy::new(&scripted_config(&["--definitions", &definitions]));
    let huge = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["added_huge", "echo"]}));
    assert!(huge.contains("added_huge()") && huge.contains(r#"{"name":"echo","#), "{huge}");
    assert_eq!(stored(&mut proxy, &huge, ".inputSchema.z"), "added_huge");
    assert_eq!(stored(&mut proxy, &huge, "tojson"), long("added_huge", 49_000));
    let many = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["added_huge", "added_a", "added_b"]}));
    assert!(many.contains(r#"Full definitions of "added_huge", "added_b": call_dynamic_tool {"#), "{many}");
    assert_eq!(stored(&mut proxy, &many, "map(.name) | tojson"), r#"["added_huge","added_b"]"#);
    let all = proxy.get_dynamic_tools(json!({"group": "g", "lazy": false}));
    assert!(
        all.ends_with(r#"get_dynamic_tools {"group":"g","tools":["NAME"]}"#) && all.contains("added_huge()")
    );
    assert!(all.chars().count() < 48_000 && huge.len() < 48_000 && many.len() < 48_000);
}

/// Reads what a text says is stored, through a program.
fn stored(proxy: &mut Proxy, text: &str, program: &str) -> String {
    let id = text.split_once(r#""id":""#).unwrap().1.split('"').next().unwrap();
    let args = json!({"id": id, "select": program});
    text_of(&proxy.call_tool("dynamic-mcp", "result", args)).to_owned()
}

#[test]
fn unknown_names_are_reported_beside_the_definitions_of_known_ones() {
    let mut proxy = Proxy::new(&scripted_config(&["--tools", "5"]));
    let some = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["generated_3", "generatd_4"]}));
    assert!(some.contains(GENERATED_3) && some.contains("no tool \"generatd_4\""), "{some}");
    let none = proxy.call_meta_tool("get_dynamic_tools", json!({"group": "g", "tools": ["generatd_4"]}));
    assert_eq!(none["isError"], true);
    assert!(text_of(&none).contains("The nearest tools: \"generated_"), "{none}");
    for arguments in [json!({"tools": ["a"]}), json!({"group": "nope"}), json!({"group": "g", "tools": 3})] {
        assert_eq!(proxy.call_meta_tool("get_dynamic_tools", arguments)["isError"], true);
    }
}

#[test]
fn the_budget_selects_the_form() {
    for (budget, is_full) in [(10_000, true), (100, false)] {
        let config =
            merged(scripted_config(&["--tools", "5"]), json!({"settings": {"tools_budget": budget}}));
        let text = Proxy::new(&config).get_dynamic_tools(json!({"group": "g"}));
        assert_eq!(text.contains("\"inputSchema\""), is_full, "{text}");
        assert_eq!(entries(&text).len(), if is_full { 26 } else { 27 });
    }
}

#[test]
fn signatures_are_returned_on_request_or_if_only_they_fit_the_budget() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    let signatures = proxy.get_dynamic_tools(json!({"group": "g", "detail": "signature"}));
    assert!(signatures.contains("\n/* Returns its text. The text comes back"), "{signatures}");
    assert!(signatures.contains("\necho(text: string /* What to return */)\n"), "{signatures}");
    let full = proxy.get_dynamic_tools(json!({"group": "g", "detail": "full"})).len();
    let budget = usize::midpoint(signatures.len(), full) / 4;
    let with_budget =
        |budget: usize| merged(scripted_config(&[]), json!({"settings": {"tools_budget": budget}}));
    assert_eq!(Proxy::new(&with_budget(budget)).get_dynamic_tools(json!({"group": "g"})), signatures);
    let stubs = Proxy::new(&with_budget(signatures.len() / 8)).get_dynamic_tools(json!({"group": "g"}));
    assert_eq!(stubs, proxy.get_dynamic_tools(json!({"group": "g", "detail": "stub"})));
    let named = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["pid", "echo"], "detail": "stub"}));
    assert!(named.starts_with("Group g: 2 of 21 tools\npid: Returns its process id"), "{named}");
    let wrong = proxy.call_meta_tool("get_dynamic_tools", json!({"group": "g", "detail": "much"}));
    assert_eq!(wrong["isError"], true, "{wrong}");
}

#[test]
fn incomplete_signatures_are_returned_only_on_request() {
    let lossy = r#"{"name":"added_lossy","inputSchema":{"type":"object","not":{"required":["a"]}}}"#;
    let config = scripted_config(&["--definitions", lossy]);
    let mut proxy = Proxy::new(&config);
    let signatures = proxy.get_dynamic_tools(json!({"group": "g", "detail": "signature"}));
    assert!(signatures.contains("\nadded_lossy() // see its full definition\n"), "{signatures}");
    let config = merged(config, json!({"settings": {"tools_budget": signatures.len() / 4}}));
    assert!(Proxy::new(&config).get_dynamic_tools(json!({"group": "g"})).contains("\nsleep: Answers later"));
    assert!(signatures.ends_with(r#"get_dynamic_tools {"group":"g","tools":["NAME"]}"#), "{signatures}");
}

#[test]
fn all_pages_of_a_list_are_read() {
    for flags in [
        vec!["--tools", "30", "--page", "7"],
        vec!["--tools", "30", "--page", "7", "--empty-cursor"],
        vec!["--tools", "30", "--page", "1"],
        vec!["--tools", "30"],
    ] {
        let text =
            Proxy::new(&scripted_config(&flags)).get_dynamic_tools(json!({"group": "g", "lazy": true}));
        assert!(
            text.starts_with("Group g: 51 tools\necho: ") && text.contains("\ngenerated_29: "),
            "{flags:?}: {text}"
        );
    }
}

#[test]
fn a_list_that_repeats_a_cursor_is_used_up_to_there() {
    let mut proxy = Proxy::new(&scripted_config(&["--page", "7", "--same-cursor"]));
    let text = proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(text.starts_with("Group g: 14 tools\n"), "{text}");
    proxy.wait_for_log("repeats a cursor");
}

#[test]
fn a_long_result_stays_within_the_limits_of_clients() {
    let mut proxy = Proxy::new(&scripted_config(&["--tools", "2000"]));
    for arguments in [
        json!({"group": "g", "lazy": false}),
        json!({"group": "g", "lazy": true}),
        json!({"group": "g", "detail": "signature"}),
    ] {
        let text = proxy.get_dynamic_tools(arguments);
        assert!(text.chars().count() < 48_000 && text.lines().count() < 1900, "{}", text.len());
        assert!(text.contains("more ") && text.contains("did not fit in this answer."));
    }
}

#[test]
fn the_instructions_of_the_upstream_come_first() {
    let text = Proxy::new(&scripted_config(&["--instructions", "Be kind.\nAlways."]))
        .get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(text.contains("Instructions of this server:\n> Be kind.\n> Always.\n"), "{text}");
}

#[test]
fn a_known_catalog_is_described_without_a_connection() {
    let mut config = scripted_config(&[]);
    config["mcpServers"]["g"]["idle_timeout"] = json!("100ms");
    let mut proxy = Proxy::new(&config);
    let first = proxy.get_dynamic_tools(json!({"group": "g"}));
    proxy.wait_for_log("Disconnected g");
    assert_eq!(proxy.get_dynamic_tools(json!({"group": "g"})), first);
    assert_eq!(proxy.group_status("g")["state"], Value::from("discovered"));
}
