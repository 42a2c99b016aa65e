//! What programs ask for tools by: `lazy` lists, `tools/describe` and `tools/describe_batch`.

use serde_json::{Value, json};

use super::{each, error_of, result_of, state, two, until_state};
use crate::support::{Proxy, Setup, one, servers, upstream, with};

const INVALID: &str = r#"{"name":"added_invalid","inputSchema":{"type":"array"}}"#;

fn listed(proxy: &mut Proxy, lazy: bool) -> Value {
    proxy.ask("tools/list", json!({"lazy": lazy}))
}

#[test]
fn a_lazy_list_has_stubs_of_what_is_known_and_starts_nothing() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&[]))]));
    assert_eq!(listed(&mut proxy, true)["result"], json!({"tools": []}));
    proxy.upstream_pid("g");
    let list = listed(&mut proxy, true);
    let tools = list["result"]["tools"].as_array().unwrap();
    assert_eq!(tools[0], json!({"name": "g__echo", "description": "Returns its text."}));
    assert_eq!(tools.len(), 21);
    assert_eq!(state(&mut proxy, "h"), "pending");
    for lazy in ["3", "\"true\""] {
        assert!(error_of(&mut proxy, "tools/list", &format!(r#"{{"lazy":{lazy}}}"#)).contains("-32602"));
    }
}

#[test]
fn a_list_that_is_not_lazy_has_definitions_verbatim_and_without_it_there_is_the_surface() {
    let mut proxy = Proxy::new(&one(&["--tools", "1", "--definitions", INVALID]));
    proxy.upstream_pid("g");
    let full = result_of(&mut proxy, "tools/list", r#"{"lazy":false}"#);
    let echo = r#"{"name":"g__echo","title":"Echo","#;
    assert!(full.contains(echo) && full.contains("18446744073709551615") && full.contains("2.50"), "{full}");
    assert!(!full.contains("added_invalid"), "strict clients would drop the whole list");
    for params in ["{}", r#"{"lazy":null}"#] {
        assert!(result_of(&mut proxy, "tools/list", params).contains(r#""name":"get_dynamic_tools""#));
    }
}

#[test]
fn describing_a_tool_connects_its_group() {
    let mut proxy =
        Proxy::new(&servers([("g", upstream(&["--definitions", INVALID])), ("h", upstream(&[]))]));
    let tool = result_of(&mut proxy, "tools/describe", r#"{"name":"g__echo"}"#);
    assert!(tool.starts_with(r#"{"tool":{"name":"g__echo","title":"Echo","#), "{tool}");
    assert!(tool.ends_with(r#""_meta":{"x/y":{"deep":[1,2.50,1e3]}},"x-unknown":null}}"#), "{tool}");
    assert_eq!(
        (state(&mut proxy, "g"), state(&mut proxy, "h")),
        ("connected".to_owned(), "pending".to_owned())
    );
    let asked_for = result_of(&mut proxy, "tools/describe", r#"{"name":"g__added_invalid"}"#);
    assert!(asked_for.contains(r#""type":"array""#), "{asked_for}");
    for name in ["g__nothing", "nobody__echo", "echo", ""] {
        assert_eq!(proxy.refused("tools/describe", json!({"name": name})), -32602, "{name}");
    }
    assert_eq!(proxy.refused("tools/describe", json!({})), -32602);
}

#[test]
fn a_batch_tells_what_was_not_found() {
    let mut proxy = Proxy::new(&two());
    let names = json!(["h__pid", "g__nothing", "g__echo", "x"]);
    let answer = proxy.ask("tools/describe_batch", json!({"names": names}));
    assert_eq!(each(&answer, "tools", "name"), ["h__pid", "g__echo"], "in the order they were asked for");
    assert_eq!(answer["result"]["notFound"], json!(["g__nothing", "x"]));
    assert_eq!(
        proxy.ask("tools/describe_batch", json!({"names": []}))["result"],
        json!({"tools": [], "notFound": []})
    );
    for params in [json!({}), json!({"names": "g__echo"}), json!({"names": [3]})] {
        assert_eq!(proxy.refused("tools/describe_batch", params), -32602);
    }
    let twice = proxy.ask("tools/describe_batch", json!({"names": ["g__echo", "x", "g__echo", "x"]}));
    assert_eq!(each(&twice, "tools", "name"), ["g__echo"]);
    assert_eq!(twice["result"]["notFound"], json!(["x"]));
    let many: Vec<_> = (0..=1000).map(|n| format!("x{n}")).collect();
    assert_eq!(proxy.refused("tools/describe_batch", json!({"names": many})), -32602);
    assert!(proxy.ask("tools/describe_batch", json!({"names": many[1..]}))["result"].is_object());
}

#[test]
fn a_group_that_cannot_be_reached_is_the_error_of_its_tool_alone() {
    let config = servers([("g", upstream(&[])), ("broken", upstream(&["--crash-at-start", "no"]))]);
    let mut proxy = Proxy::new(&config);
    assert_eq!(proxy.refused("tools/describe", json!({"name": "broken__echo"})), -31001);
    let both = proxy.ask("tools/describe_batch", json!({"names": ["broken__echo", "g__echo"]}));
    assert_eq!(both["result"]["notFound"], json!(["broken__echo"]));
    assert_eq!(each(&both, "tools", "name"), ["g__echo"]);
}

#[test]
fn what_the_cache_knows_is_told_without_a_connection() {
    let cache = tempfile::TempDir::new().unwrap();
    let entry = with(upstream(&[]), json!({"cwd": "/"}));
    let config = crate::support::as_configured([("g", entry)]);
    let start = || Setup::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).config(&config).ready();
    let mut first = start();
    until_state(&mut first, "g", "discovered");
    first.close_stdin();
    first.ends();
    let mut second = start();
    assert_eq!(listed(&mut second, true)["result"]["tools"].as_array().unwrap().len(), 21);
    assert!(result_of(&mut second, "tools/describe", r#"{"name":"g__echo"}"#).contains("2.50"));
    assert_eq!(
        (second.group("g")["cached"].clone(), state(&mut second, "g")),
        (json!(true), "discovered".to_owned())
    );
}
