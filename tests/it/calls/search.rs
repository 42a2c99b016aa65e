//! `search_dynamic_tools`: it searches the tools that are known, from sessions or from the cache, and starts no server.

use serde_json::{Value, json};

use crate::support::{
    Proxy, ProxyCommand, config_of, merged, pure_config, scripted_config, scripted_upstream, text_of,
    wait_until,
};

fn search(proxy: &mut Proxy, arguments: Value) -> String {
    let result = proxy.call_meta_tool("search_dynamic_tools", arguments);
    assert_ne!(result["isError"], true, "{result}");
    text_of(&result).to_owned()
}

/// The hits in a result, as `group / name`.
fn hits(text: &str) -> Vec<&str> {
    let hits = text.lines().filter(|line| line.contains(" / "));
    hits.map(|line| line.split(": ").next().unwrap()).collect()
}

/// A session in which the tools of these groups are known.
fn proxy_with_known(config: &Value, groups: &[&str]) -> Proxy {
    let mut proxy = Proxy::new(config);
    for group in groups {
        proxy.get_dynamic_tools(json!({"group": group, "lazy": true}));
    }
    proxy
}

#[test]
fn each_hit_has_a_line_and_the_best_hit_has_its_signature() {
    let mut proxy = proxy_with_known(&scripted_config(&[]), &["g"]);
    let text = search(&mut proxy, json!({"query": "echo"}));
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("g / echo: "), "{text}");
    assert!(lines[1] == "  echo(text: string /* What to return */)", "{text}");
    assert!(lines.len() > 2 && lines[2].starts_with("g / "), "{text}");
    let best = lines[0].split(": ").next().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(proxy.call_text("g", best, json!({"text": "found"})), "found");
}

#[test]
fn hits_that_the_read_only_variant_calls_are_marked() {
    for (rules, marked) in [
        (json!({}), "read_only_echo"),
        (json!({"trust_annotations": false, "tools": {"read_only": ["echo"]}}), "echo"),
    ] {
        let config = pure_config([("g", merged(scripted_upstream(&[]), rules))]);
        let mut proxy = proxy_with_known(&config, &["g"]);
        let text = search(&mut proxy, json!({"query": "echo"}));
        let found = hits(&text);
        assert!(found.contains(&"g / echo") != (marked == "echo"), "{text}");
        for tool in ["echo", "read_only_echo"] {
            let arguments = json!({"group": "g", "name": tool, "args": {"text": "x"}});
            let called = proxy.call_meta_tool("call_dynamic_tool_readonly", arguments);
            assert_eq!(text_of(&called) == "x", tool == marked, "{called}");
            let hit = format!("g / {tool} (read-only)");
            assert_eq!(found.contains(&hit.as_str()), tool == marked, "{text}");
        }
    }
    let listed = Proxy::new(&scripted_config(&[])).request("tools/list", json!({}));
    let mut listed = listed["result"]["tools"].as_array().unwrap().iter();
    let variant = listed.find(|tool| tool["name"] == "call_dynamic_tool_readonly").unwrap();
    assert!(variant["description"].as_str().unwrap().contains("marked read-only"), "{variant}");
}

#[test]
fn results_are_short_and_the_limit_is_applied() {
    let mut proxy = proxy_with_known(&scripted_config(&["--tools", "300"]), &["g"]);
    let text = search(&mut proxy, json!({"query": "generated tool number"}));
    assert_eq!(hits(&text).len(), 5, "{text}");
    assert!(text.len() < 1400, "about 350 tokens: {}", text.len());
    let named = search(&mut proxy, json!({"query": "generated_0"}));
    assert!(
        named.lines().nth(2).unwrap().starts_with("  type item ="),
        "the signature keeps its lines: {named}"
    );
    for (limit, count) in [(json!(1), 1), (json!("7"), 7), (json!(0), 1), (json!(1000), 20)] {
        let text = search(&mut proxy, json!({"query": "generated tool number", "limit": limit}));
        assert_eq!(hits(&text).len(), count, "{limit}");
    }
}

#[test]
fn no_group_is_started_and_unknown_groups_are_named() {
    let mut proxy = proxy_with_known(
        &pure_config([
            ("a", scripted_upstream(&[])),
            ("b", scripted_upstream(&[])),
            ("c", scripted_upstream(&[])),
        ]),
        &["b"],
    );
    let text = search(&mut proxy, json!({"query": "echo", "limit": 3}));
    assert!(hits(&text).iter().all(|hit| hit.starts_with("b / ")), "{text}");
    assert!(
        text.ends_with(
            "\nNot searched, because their tools are not known yet: a, c (get_dynamic_tools reads them)."
        ),
        "{text}"
    );
    assert_eq!(
        (&proxy.group_status("a")["state"], &proxy.group_status("c")["state"]),
        (&json!("pending"), &json!("pending"))
    );
    // The index includes a group as soon as its tools are known.
    proxy.get_dynamic_tools(json!({"group": "a", "lazy": true}));
    let text = search(&mut proxy, json!({"query": "echo", "limit": 2}));
    assert_eq!(hits(&text), ["a / echo", "b / echo"], "equal hits are in the order of the config: {text}");
    assert!(
        text.ends_with(
            "\nNot searched, because their tools are not known yet: c (get_dynamic_tools reads them)."
        ),
        "{text}"
    );
}

#[test]
fn only_the_named_group_is_searched() {
    let mut proxy = proxy_with_known(
        &pure_config([("a", scripted_upstream(&[])), ("b", scripted_upstream(&[]))]),
        &["a", "b"],
    );
    let text = search(&mut proxy, json!({"query": "echo", "group": "B", "limit": 20}));
    let found = hits(&text);
    assert!(!found.is_empty() && found.iter().all(|hit| hit.starts_with("b / ")), "{text}");
    let unknown = proxy.call_meta_tool("search_dynamic_tools", json!({"query": "echo", "group": "c"}));
    assert!(
        unknown["isError"] == true && text_of(&unknown).contains("The groups: \"a\", \"b\"."),
        "{unknown}"
    );
}

#[test]
fn an_empty_query_or_no_hits_are_explained() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for arguments in [json!({}), json!({"query": "  "}), json!({"query": 3})] {
        let result = proxy.call_meta_tool("search_dynamic_tools", arguments);
        assert!(result["isError"] == true && text_of(&result).contains("\"query\""), "{result}");
    }
    let text = search(&mut proxy, json!({"query": "echo"}));
    assert!(
        text.starts_with("No known tool matches \"echo\".") && text.contains("are not known yet: g ("),
        "{text}"
    );
}

#[test]
fn tools_that_an_upstream_adds_are_found() {
    let mut proxy = proxy_with_known(&scripted_config(&["--list-changed-on-call"]), &["g"]);
    assert!(!search(&mut proxy, json!({"query": "added_0"})).starts_with("g / added_0"));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    wait_until("the added tool is found", || {
        search(&mut proxy, json!({"query": "added_0"})).starts_with("g / added_0")
    });
}

#[test]
fn groups_with_disabled_tools_are_not_searched() {
    let entry = merged(scripted_upstream(&[]), json!({"features": {"tools": false}}));
    let mut proxy = Proxy::new(&pure_config([("g", entry), ("h", scripted_upstream(&[]))]));
    proxy.get_dynamic_tools(json!({"group": "h"}));
    let text = search(&mut proxy, json!({"query": "echo", "limit": 20}));
    assert!(!text.contains("g / ") && !text.contains("Not searched"), "{text}");
}

#[test]
fn the_next_process_searches_the_cached_tools_and_starts_no_group() {
    let cache = tempfile::TempDir::new().unwrap();
    // The cache identifies a server by its directory, too.
    let config = config_of([("g", merged(scripted_upstream(&[]), json!({"cwd": "/"})))]);
    let command =
        || ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).config(&config);
    let mut first = command().start_initialized();
    first.get_dynamic_tools(json!({"group": "g"}));
    let found = search(&mut first, json!({"query": "echo"}));
    first.close_stdin();
    first.wait_for_exit();
    let mut second = command().start_initialized();
    assert_eq!(search(&mut second, json!({"query": "echo"})), found);
    assert_eq!(second.group_status("g")["state"], "discovered");
    second.close_stdin();
    second.wait_for_exit();
    for file in std::fs::read_dir(crate::support::cache_dir_in(cache.path())).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap() != "index.json" {
            std::fs::remove_file(path).unwrap();
        }
    }
    let text = search(&mut command().start_initialized(), json!({"query": "echo"}));
    let hit = r#"g / echo: Returns its text.
  get_dynamic_tools {"group":"g","tools":["echo"]}"#;
    assert!(text.starts_with(hit), "without the definitions: {text}");
}
