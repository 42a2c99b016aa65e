//! `tools` in the config holds on every route.

use serde_json::{Value, json};

use crate::support::{Proxy, servers, text_of, upstream, with};

fn ruled(rules: Value) -> Proxy {
    Proxy::new(&servers([("g", with(upstream(&["--tools", "3"]), json!({"tools": rules})))]))
}

/// Every text that could tell of a tool, or call it.
fn routes(proxy: &mut Proxy, name: &str) -> Vec<(String, String)> {
    let upper = name.to_uppercase();
    let near = format!("{name}x");
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
        json!({"group": "g", "tools": [near]}),
    ];
    let listings = listings.map(|arguments| ("get_dynamic_tools", arguments));
    let searches = [json!({"query": name, "limit": 20}), json!({"query": name, "group": "g", "limit": 20})];
    let searches = searches.map(|arguments| ("search_dynamic_tools", arguments));
    let suggestion = ("call_dynamic_tool", json!({"group": "g", "name": near}));
    calls
        .chain(listings)
        .chain(searches)
        .chain([suggestion])
        .map(|(tool, arguments)| {
            (format!("{tool} {arguments}"), text_of(&proxy.front(tool, arguments)).to_owned())
        })
        .collect()
}

#[test]
fn a_denied_tool_is_on_no_route() {
    for rules in [
        json!({"deny": ["generated_1"]}),
        json!({"deny": ["*_1"], "read_only": ["*"]}),
        json!({"allow": ["echo", "generated_[02]"], "read_only": ["*"]}),
        json!({"allow": ["generated_*"], "deny": ["generated_1"], "ask": ["*_1"]}),
    ] {
        let mut proxy = ruled(rules.clone());
        let expected =
            text_of(&proxy.front("get_dynamic_tools", json!({"group": "g", "lazy": true}))).to_owned();
        assert!(
            expected.contains("generated_0: ") && !expected.contains("generated_1: "),
            "{rules}: {expected}"
        );
        for (route, text) in routes(&mut proxy, "generated_1") {
            // What the caller named itself is quoted back; nothing else may show it.
            let shown = text
                .to_lowercase()
                .replace("\"generated_1\"", "")
                .replace("\"generated_1x\"", "")
                .replace("\"g__generated_1\"", "");
            assert!(!shown.contains("generated_1") && !shown.contains("called"), "{rules} {route}: {text}");
        }
        assert_eq!(proxy.text("g", "generated_0", json!({"a": 1})), r#"{"a":1}"#);
    }
}

#[test]
fn a_tool_to_be_confirmed_is_refused_with_the_remedy() {
    let mut proxy = ruled(json!({"ask": ["gen*"], "read_only": ["gen*"]}));
    for tool in ["call_dynamic_tool", "call_dynamic_tool_readonly"] {
        let result = proxy.front(tool, json!({"group": "g", "name": "generated_0"}));
        assert_eq!(result["isError"], true, "{result}");
        assert!(text_of(&result).contains("tools.ask"), "{result}");
    }
    assert!(proxy.tools(json!({"group": "g"})).contains("generated_0"), "it is listed");
    proxy.text("g", "echo", json!({"text": "others are called"}));
}
