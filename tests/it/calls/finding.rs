//! `search_dynamic_tools`: what is found, of which groups, and that nothing is started for it.

use serde_json::{Value, json};

use crate::support::{Proxy, Setup, as_configured, one, servers, text_of, upstream, with};

fn search(proxy: &mut Proxy, arguments: Value) -> String {
    let result = proxy.front("search_dynamic_tools", arguments);
    assert_ne!(result["isError"], true, "{result}");
    text_of(&result).to_owned()
}

/// The hits of an answer, as `group / name`.
fn hits(text: &str) -> Vec<&str> {
    let hits = text.lines().filter(|line| line.contains(" / "));
    hits.map(|line| line.split(": ").next().unwrap()).collect()
}

fn known(config: &Value, groups: &[&str]) -> Proxy {
    let mut proxy = Proxy::new(config);
    for group in groups {
        proxy.tools(json!({"group": group, "lazy": true}));
    }
    proxy
}

#[test]
fn hits_have_a_line_each_and_the_best_one_its_arguments() {
    let mut proxy = known(&one(&[]), &["g"]);
    let text = search(&mut proxy, json!({"query": "echo"}));
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("g / echo: "), "{text}");
    assert!(lines[1] == "  echo(text: string /* What to return */)", "{text}");
    assert!(lines.len() > 2 && lines[2].starts_with("g / "), "{text}");
    let best = lines[0].split(": ").next().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(proxy.text("g", best, json!({"text": "as it says"})), "as it says");
}

#[test]
fn an_answer_is_short_and_as_long_as_was_asked() {
    let mut proxy = known(&one(&["--tools", "300"]), &["g"]);
    let text = search(&mut proxy, json!({"query": "generated tool number"}));
    assert_eq!(hits(&text).len(), 5, "{text}");
    assert!(text.len() < 1400, "about 350 tokens: {}", text.len());
    let named = search(&mut proxy, json!({"query": "generated_0"}));
    assert!(named.lines().nth(2).unwrap().starts_with("  type item ="), "as the signature is: {named}");
    for (limit, found) in [(json!(1), 1), (json!("7"), 7), (json!(0), 1), (json!(1000), 20)] {
        let text = search(&mut proxy, json!({"query": "generated tool number", "limit": limit}));
        assert_eq!(hits(&text).len(), found, "{limit}");
    }
}

#[test]
fn nothing_is_started_and_what_is_not_known_is_named() {
    let mut proxy =
        known(&servers([("a", upstream(&[])), ("b", upstream(&[])), ("c", upstream(&[]))]), &["b"]);
    let text = search(&mut proxy, json!({"query": "echo", "limit": 3}));
    assert!(hits(&text).iter().all(|hit| hit.starts_with("b / ")), "{text}");
    assert!(
        text.ends_with(
            "\nNot searched, because their tools are not known yet: a, c (get_dynamic_tools reads them)."
        ),
        "{text}"
    );
    assert_eq!(
        (&proxy.group("a")["state"], &proxy.group("c")["state"]),
        (&json!("pending"), &json!("pending"))
    );
    // Once it is known it is found: the index follows.
    proxy.tools(json!({"group": "a", "lazy": true}));
    let text = search(&mut proxy, json!({"query": "echo", "limit": 2}));
    assert_eq!(hits(&text), ["a / echo", "b / echo"], "config order between equals: {text}");
    assert!(
        text.ends_with(
            "\nNot searched, because their tools are not known yet: c (get_dynamic_tools reads them)."
        ),
        "{text}"
    );
}

#[test]
fn a_group_alone_is_searched_when_it_is_named() {
    let mut proxy = known(&servers([("a", upstream(&[])), ("b", upstream(&[]))]), &["a", "b"]);
    let text = search(&mut proxy, json!({"query": "echo", "group": "B", "limit": 20}));
    let found = hits(&text);
    assert!(!found.is_empty() && found.iter().all(|hit| hit.starts_with("b / ")), "{text}");
    let wrong = proxy.front("search_dynamic_tools", json!({"query": "echo", "group": "c"}));
    assert!(wrong["isError"] == true && text_of(&wrong).contains("The groups: a, b."), "{wrong}");
}

#[test]
fn what_cannot_be_searched_says_what_to_do() {
    let mut proxy = Proxy::new(&one(&[]));
    for arguments in [json!({}), json!({"query": "  "}), json!({"query": 3})] {
        let result = proxy.front("search_dynamic_tools", arguments);
        assert!(result["isError"] == true && text_of(&result).contains("\"query\""), "{result}");
    }
    let text = search(&mut proxy, json!({"query": "echo"}));
    assert!(
        text.starts_with("No known tool matches \"echo\".") && text.contains("are not known yet: g ("),
        "{text}"
    );
}

#[test]
fn what_an_upstream_changes_is_found_changed() {
    let mut proxy = known(&one(&["--list-changed-on-call"]), &["g"]);
    assert!(!search(&mut proxy, json!({"query": "added_0"})).starts_with("g / added_0"));
    proxy.text("g", "echo", json!({"text": "x"}));
    crate::support::until("the added tool is found", || {
        search(&mut proxy, json!({"query": "added_0"})).starts_with("g / added_0")
    });
}

#[test]
fn tools_of_a_group_without_that_feature_are_not_found() {
    let entry = with(upstream(&[]), json!({"features": {"tools": false}}));
    let mut proxy = Proxy::new(&servers([("g", entry), ("h", upstream(&[]))]));
    proxy.tools(json!({"group": "h"}));
    let text = search(&mut proxy, json!({"query": "echo", "limit": 20}));
    assert!(!text.contains("g / ") && !text.contains("Not searched"), "{text}");
}

#[test]
fn the_next_process_finds_what_the_cache_knows_and_starts_nothing() {
    let cache = tempfile::TempDir::new().unwrap();
    // The directory is part of what names a server in the cache.
    let config = as_configured([("g", with(upstream(&[]), json!({"cwd": "/"})))]);
    let setup = || Setup::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).config(&config);
    let mut first = setup().ready();
    first.tools(json!({"group": "g"}));
    let told = search(&mut first, json!({"query": "echo"}));
    first.close_stdin();
    first.ends();
    let mut second = setup().ready();
    assert_eq!(search(&mut second, json!({"query": "echo"})), told);
    assert_eq!(second.group("g")["state"], "discovered");
    second.close_stdin();
    second.ends();
    for file in std::fs::read_dir(cache.path().join("dynamic-mcp")).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap() != "index.json" {
            std::fs::remove_file(path).unwrap();
        }
    }
    let text = search(&mut setup().ready(), json!({"query": "echo"}));
    let how = r#"g / echo: Returns its text.
  get_dynamic_tools {"group":"g","tools":["echo"]}"#;
    assert!(text.starts_with(how), "without the definitions: {text}");
}
