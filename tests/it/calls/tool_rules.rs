//! The rules in `tools` of the config (`allow`, `deny`, `ask`, `read_only`) apply to all of our tools.

use serde_json::{Value, json};

use crate::support::{Proxy, merged, pure_config, scripted_upstream, text_of};

/// A session with an upstream to which these rules apply.
fn proxy_with_rules(rules: Value) -> Proxy {
    Proxy::new(&pure_config([("g", merged(scripted_upstream(&["--tools", "3"]), json!({"tools": rules})))]))
}

/// The results of every request that could describe or call a tool, each with the request.
fn results_of_all_routes(proxy: &mut Proxy, name: &str) -> Vec<(String, String)> {
    let upper = name.to_uppercase();
    let similar = format!("{name}x");
    let prefixed = format!("g__{name}");
    let calls = ["call_dynamic_tool", "call_dynamic_tool_readonly"].into_iter().flat_map(|tool| {
        [name, &*upper, &*prefixed]
            .map(|name| (tool, json!({"group": "g", "name": name, "args": {"text": "called"}})))
            .into_iter()
            .chain([(tool, json!({"name": prefixed})), (tool, json!({"name": name}))])
            .collect::<Vec<_>>()
    });
    let listings = [
        json!({"group": "g"}),
        json!({"group": "g", "lazy": true}),
        json!({"group": "g", "lazy": false}),
        json!({"group": "g", "tools": [name]}),
        json!({"group": "g", "tools": [upper]}),
        json!({"group": "g", "tools": [similar]}),
    ];
    let listings = listings.map(|arguments| ("get_dynamic_tools", arguments));
    let searches = [json!({"query": name, "limit": 20}), json!({"query": name, "group": "g", "limit": 20})];
    let searches = searches.map(|arguments| ("search_dynamic_tools", arguments));
    let suggestion = ("call_dynamic_tool", json!({"group": "g", "name": similar}));
    calls
        .chain(listings)
        .chain(searches)
        .chain([suggestion])
        .map(|(tool, arguments)| {
            (format!("{tool} {arguments}"), text_of(&proxy.call_meta_tool(tool, arguments)).to_owned())
        })
        .collect()
}

#[test]
fn a_denied_tool_is_neither_shown_nor_called_by_any_route() {
    for rules in [
        json!({"deny": ["generated_1"]}),
        json!({"deny": ["*_1"], "read_only": ["*"]}),
        json!({"allow": ["echo", "generated_[02]"], "read_only": ["*"]}),
        json!({"allow": ["generated_*"], "deny": ["generated_1"], "ask": ["*_1"]}),
    ] {
        let mut proxy = proxy_with_rules(rules.clone());
        let expected =
            text_of(&proxy.call_meta_tool("get_dynamic_tools", json!({"group": "g", "lazy": true})))
                .to_owned();
        assert!(
            expected.contains("generated_0: ") && !expected.contains("generated_1: "),
            "{rules}: {expected}"
        );
        for (route, text) in results_of_all_routes(&mut proxy, "generated_1") {
            // The name in the request may be quoted. Nothing else may show it.
            let others = text
                .to_lowercase()
                .replace("\"generated_1\"", "")
                .replace("\"generated_1x\"", "")
                .replace("\"g__generated_1\"", "");
            assert!(!others.contains("generated_1") && !others.contains("called"), "{rules} {route}: {text}");
        }
        assert_eq!(proxy.call_text("g", "generated_0", json!({"a": 1})), r#"{"a":1}"#);
    }
}

#[test]
fn a_tool_that_needs_approval_is_refused_with_the_config_key_to_change() {
    let mut proxy = proxy_with_rules(json!({"ask": ["gen*"], "read_only": ["gen*"]}));
    for tool in ["call_dynamic_tool", "call_dynamic_tool_readonly"] {
        let result = proxy.call_meta_tool(tool, json!({"group": "g", "name": "generated_0"}));
        assert_eq!(result["isError"], true, "{result}");
        assert!(text_of(&result).contains("tools.ask"), "{result}");
    }
    assert!(proxy.get_dynamic_tools(json!({"group": "g"})).contains("generated_0"), "the tool is listed");
    proxy.call_text("g", "echo", json!({"text": "other tools are called"}));
}
