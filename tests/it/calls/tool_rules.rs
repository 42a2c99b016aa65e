//! The rules in `tools` of the config (`allow`, `deny`, `ask`, `read_only`) apply to all of our tools, and so do those of
//! the profile in use.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, merged, pure_config, scripted_upstream, text_of};

/// A session with an upstream to which the rules of its entry and of the profile apply.
fn proxy_with_rules(rules: Value, of_profile: Value) -> Proxy {
    let config = pure_config([("g", merged(scripted_upstream(&["--tools", "3"]), json!({"tools": rules})))]);
    let config = merged(config, json!({"profiles": {"p": {"tools": {"g": of_profile}}}}));
    ProxyCommand::new().args(&["--profile", "p"]).config(&config).start_initialized()
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
    for (rules, of_profile) in [
        (json!({"deny": ["generated_1"]}), json!({})),
        (json!({"deny": ["*_1"], "read_only": ["*"]}), json!({})),
        (json!({"allow": ["echo", "generated_[02]"], "read_only": ["*"]}), json!({})),
        (json!({"allow": ["generated_*"], "deny": ["generated_1"], "ask": ["*_1"]}), json!({})),
        (json!({}), json!({"deny": ["generated_1"]})),
        (json!({"read_only": ["*"]}), json!({"allow": ["echo", "generated_[02]"]})),
        (json!({"deny": ["echo"]}), json!({"allow": ["generated_*"], "deny": ["*_1"], "ask": ["*_1"]})),
        // A profile allows nothing that the server's own rules do not.
        (json!({"allow": ["generated_[02]"], "deny": ["generated_1"]}), json!({"allow": ["generated_*"]})),
    ] {
        let mut proxy = proxy_with_rules(rules.clone(), of_profile.clone());
        let rules = format!("{rules} {of_profile}");
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
    let ask = json!({"ask": ["gen*"]});
    for (rules, of_profile, place) in [
        (ask.clone(), json!({}), "(tools.ask in the config)"),
        (json!({}), ask.clone(), "(tools.ask of the profile in use)"),
        (ask.clone(), ask, "(tools.ask in the config)"),
    ] {
        let mut proxy = proxy_with_rules(merged(rules, json!({"read_only": ["gen*"]})), of_profile);
        for tool in ["call_dynamic_tool", "call_dynamic_tool_readonly"] {
            let result = proxy.call_meta_tool(tool, json!({"group": "g", "name": "generated_0"}));
            assert_eq!(result["isError"], true, "{result}");
            assert!(text_of(&result).contains(place), "{result}");
        }
        assert!(proxy.get_dynamic_tools(json!({"group": "g"})).contains("generated_0"), "the tool is listed");
        proxy.call_text("g", "echo", json!({"text": "other tools are called"}));
    }
}
