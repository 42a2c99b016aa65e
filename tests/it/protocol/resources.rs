//! `resources/list` and `resources/templates/list`.

use serde_json::json;

use super::{all, each, error_of, result_of, state, two};
use crate::support::{Processes, Proxy, one, servers, upstream, with};

fn uris(proxy: &mut Proxy) -> Vec<String> {
    each(&proxy.ask("resources/list", json!({})), "resources", "uri")
}

#[test]
fn a_plain_list_starts_nothing() {
    let mut proxy = Proxy::new(&two());
    for (method, list) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        assert_eq!(proxy.ask(method, json!({}))["result"], json!({list: []}), "{method}");
    }
    assert_eq!(state(&mut proxy, "g"), "pending");
    assert_eq!(Processes::below(proxy.pid()).0, []);
}

#[test]
fn a_plain_list_is_of_all_groups_in_the_configs_order() {
    let mut proxy = Proxy::new(&two());
    ["h", "g"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let all = uris(&mut proxy);
    assert_eq!((all.len(), &*all[0], &*all[7]), (14, "g://one", "h://one"), "{all:?}");
    let templates = result_of(&mut proxy, "resources/templates/list", "{}");
    let entry = |group| format!(r#"{{"uriTemplate":"{group}://item/{{id}}","name":"item","x":1.0}}"#);
    assert_eq!(templates, format!(r#"{{"resourceTemplates":[{},{}]}}"#, entry("g"), entry("h")));
}

#[test]
fn who_is_connected_is_asked_afresh_and_for_others_the_last_list_stands() {
    let mut proxy = Proxy::new(&two());
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    proxy.text("g", "grow", json!({"list": "resources"}));
    assert!(uris(&mut proxy).contains(&"g://grown/0".to_owned()));
    proxy.failure("h", "crash", json!({}));
    assert_eq!(state(&mut proxy, "h"), "discovered");
    assert_eq!(uris(&mut proxy).len(), 15);
    assert_eq!(state(&mut proxy, "h"), "discovered", "the list did not connect it");
}

#[test]
fn a_long_list_has_pages_and_only_our_own_cursors() {
    let mut proxy = Proxy::new(&servers([("g", all(&["--many", "1500", "--page", "400"]))]));
    proxy.upstream_pid("g");
    let first = proxy.ask("resources/list", json!({}));
    assert_eq!(each(&first, "resources", "uri").len(), 1000);
    let second = proxy.ask("resources/list", json!({"cursor": first["result"]["nextCursor"]}));
    assert_eq!(each(&second, "resources", "uri").len(), 507);
    assert!(second["result"].get("nextCursor").is_none());
    for cursor in [json!("opaque:400"), json!("nonsense"), json!("99999"), json!("-1"), json!(3)] {
        for method in ["resources/list", "resources/templates/list", "prompts/list", "tools/list"] {
            assert_eq!(proxy.refused(method, json!({"cursor": cursor})), -32602, "{method} {cursor}");
        }
    }
}

#[test]
fn a_list_of_one_group_passes_with_its_cursors() {
    let mut proxy = Proxy::new(&servers([("g", all(&["--page", "1"]))]));
    let entry = |path| format!(r#"{{"uri":"mem://{path}","name":"{path}","size":1.0}}"#);
    for (cursor, path, next) in [("", "one", "1"), (r#","cursor":"opaque:1""#, "two", "2")] {
        let result = result_of(&mut proxy, "resources/list", &format!(r#"{{"group":"g"{cursor}}}"#));
        let wanted = format!(r#"{{"resources":[{}],"nextCursor":"opaque:{next}","x":1e400}}"#, entry(path));
        assert_eq!(result, wanted);
    }
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        let error = error_of(&mut proxy, method, r#"{"group":"g","cursor":"x"}"#);
        assert_eq!(error, r#"{"code":-32602,"message":"Invalid cursor","data":1e400}"#, "{method}");
    }
}

#[test]
fn a_uri_that_two_groups_claim_is_the_firsts_and_the_others_is_listed_under_ours() {
    let config = servers([("g", all(&["--name", "G"])), ("h h", all(&["--name", "H"]))]);
    let mut proxy = Proxy::new(&config);
    ["g", "h h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let all = uris(&mut proxy);
    assert_eq!((&*all[0], &*all[7]), ("mem://one", "dynamic-mcp://h%20h/mem%3A%2F%2Fone"));
    for (uri, owner) in [(&all[0], "G"), (&all[7], "H")] {
        let read = proxy.ask("resources/read", json!({"uri": uri}));
        assert_eq!(read["result"]["contents"][0]["text"], format!("one of {owner}"), "{read}");
    }
    let templates = proxy.ask("resources/templates/list", json!({}));
    let template = &each(&templates, "resourceTemplates", "uriTemplate")[1];
    assert!(template.starts_with("dynamic-mcp://h%20h/"), "{template}");
}

#[test]
fn a_group_without_them_or_without_a_connection_says_so() {
    let broken = json!({"command": "/no/such/program"});
    let mut proxy = Proxy::new(&servers([("tools", upstream(&[])), ("broken", broken)]));
    for (method, capability, more) in [
        ("resources/list", "resources", json!({})),
        ("resources/templates/list", "resources", json!({})),
        ("resources/read", "resources", json!({"uri": "x://y"})),
        ("resources/subscribe", "resources", json!({"uri": "x://y"})),
        ("resources/unsubscribe", "resources", json!({"uri": "x://y"})),
        ("prompts/list", "prompts", json!({})),
        ("prompts/get", "prompts", json!({"name": "x"})),
        ("completion/complete", "completions", json!({"ref": {"type": "ref/prompt", "name": "x"}})),
        ("completion/complete", "completions", json!({"ref": {"type": "ref/resource", "uri": "x://{y}"}})),
    ] {
        let error = proxy.ask(method, with(more.clone(), json!({"group": "tools"})))["error"].take();
        assert_eq!(error["code"], -31005, "{method}: {error}");
        assert_eq!(error["data"], json!({"group": "tools", "capability": capability}), "{method}");
        let error = proxy.ask(method, with(more.clone(), json!({"group": "broken"})))["error"].take();
        assert_eq!((&error["code"], &error["data"]["group"]), (&json!(-31001), &json!("broken")), "{error}");
        assert_eq!((&error["data"]["state"], &error["data"]["attempts"]), (&json!("failed"), &json!(1)));
        assert_eq!(error["data"]["retryAfterMs"], json!(null), "a retry cannot mend it");
        assert!(error["data"]["cause"].as_str().unwrap().contains("/no/such/program"), "{error}");
        assert_eq!(proxy.refused(method, with(more, json!({"group": "nobody"}))), -32602, "{method}");
    }
}

#[test]
fn features_that_no_server_has_are_not_offered() {
    let mut config = one(&[]);
    config["mcpServers"]["g"]["features"] = json!({"resources": false, "prompts": false});
    let mut proxy = Proxy::new(&config);
    for method in ["resources/list", "resources/read", "prompts/list", "prompts/get"] {
        assert_eq!(proxy.refused(method, json!({})), -32004, "{method}");
    }
}
