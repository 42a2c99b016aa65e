//! `resources/list` and `resources/templates/list`: the merged list of all groups, the list of one group, pages, and URIs
//! that several groups have. The list methods of prompts are covered where they behave the same.

use serde_json::{Value, json};

use super::{full_config, members_of, two_schemes_config};
use crate::support::{
    Processes, Proxy, full_upstream, merged, pure_config, scripted_config, scripted_upstream, wait_until,
};

fn resource_uris(proxy: &mut Proxy) -> Vec<String> {
    members_of(&proxy.request("resources/list", json!({})), "resources", "uri")
}

#[test]
fn a_merged_list_starts_no_group() {
    let mut proxy = Proxy::new(&two_schemes_config());
    for (method, list) in [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
    {
        assert_eq!(proxy.request(method, json!({}))["result"], json!({list: []}), "{method}");
    }
    let prompts = proxy.request("prompts/list", json!({}));
    assert_eq!(members_of(&prompts, "prompts", "name"), ["status", "setup"], "only our own");
    assert_eq!(proxy.group_state("g"), "pending");
    assert_eq!(Processes::descendants_of(proxy.pid()).0, []);
}

#[test]
fn a_merged_list_has_all_groups_in_the_order_of_the_config() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.connect(["h", "g"]);
    let uris = resource_uris(&mut proxy);
    assert_eq!((uris.len(), &*uris[0], &*uris[7]), (14, "g://one", "h://one"), "{uris:?}");
    let templates = proxy.raw_result("resources/templates/list", "{}");
    let entry = |group| format!(r#"{{"uriTemplate":"{group}://item/{{id}}","name":"item","x":1.0}}"#);
    assert_eq!(templates, format!(r#"{{"resourceTemplates":[{},{}]}}"#, entry("g"), entry("h")));
}

#[test]
fn connected_groups_are_listed_again_and_others_keep_their_last_list() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.connect(["g", "h"]);
    proxy.call_text("g", "grow", json!({"list": "resources"}));
    assert!(resource_uris(&mut proxy).contains(&"g://grown/0".to_owned()));
    proxy.call_failure("h", "crash", json!({}));
    assert_eq!(proxy.group_state("h"), "discovered");
    assert_eq!(resource_uris(&mut proxy).len(), 15);
    assert_eq!(proxy.group_state("h"), "discovered", "the list did not connect it");
}

#[test]
fn a_merged_list_has_pages_and_accepts_only_our_own_cursors() {
    let mut proxy = Proxy::new(&full_config(&["--many", "1500", "--page", "400"]));
    proxy.upstream_pid("g");
    // A list that takes longer than 2 s, as on a busy machine, is not waited for.
    let mut page = |params: Value, count: usize| {
        let mut page = Value::Null;
        wait_until("the page", || {
            page = proxy.request("resources/list", params.clone());
            page.get("result").is_some_and(|_| members_of(&page, "resources", "uri").len() == count)
        });
        page
    };
    let first = page(json!({}), 1000);
    let second = page(json!({"cursor": first["result"]["nextCursor"]}), 507);
    assert!(second["result"].get("nextCursor").is_none());
    for cursor in [json!("opaque:400"), json!("nonsense"), json!("99999"), json!("-1"), json!(3)] {
        for method in ["resources/list", "resources/templates/list", "prompts/list", "tools/list"] {
            assert_eq!(proxy.error_code(method, json!({"cursor": cursor})), -32602, "{method} {cursor}");
        }
    }
}

#[test]
fn the_list_of_one_group_passes_with_its_cursors() {
    let mut proxy = Proxy::new(&full_config(&["--page", "1"]));
    let entry = |path| format!(r#"{{"uri":"mem://{path}","name":"{path}","size":1.0}}"#);
    for (cursor, path, next) in [("", "one", "1"), (r#","cursor":"opaque:1""#, "two", "2")] {
        let result = proxy.raw_result("resources/list", &format!(r#"{{"group":"g"{cursor}}}"#));
        let expected = format!(r#"{{"resources":[{}],"nextCursor":"opaque:{next}","x":1e400}}"#, entry(path));
        assert_eq!(result, expected);
    }
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        let error = proxy.raw_error(method, r#"{"group":"g","cursor":"x"}"#);
        assert_eq!(error, r#"{"code":-32602,"message":"Invalid cursor","data":1e400}"#, "{method}");
    }
}

#[test]
fn a_uri_of_two_groups_stays_with_the_first_and_is_rewritten_for_the_second() {
    let config =
        pure_config([("g", full_upstream(&["--name", "G"])), ("h h", full_upstream(&["--name", "H"]))]);
    let mut proxy = Proxy::new(&config);
    proxy.connect(["g", "h h"]);
    let uris = resource_uris(&mut proxy);
    assert_eq!((&*uris[0], &*uris[7]), ("mem://one", "dynamic-mcp://h%20h/mem%3A%2F%2Fone"));
    for (uri, owner) in [(&uris[0], "G"), (&uris[7], "H")] {
        let read = proxy.request("resources/read", json!({"uri": uri}));
        assert_eq!(read["result"]["contents"][0]["text"], format!("one of {owner}"), "{read}");
    }
    let templates = proxy.request("resources/templates/list", json!({}));
    let template = &members_of(&templates, "resourceTemplates", "uriTemplate")[1];
    assert!(template.starts_with("dynamic-mcp://h%20h/"), "{template}");
}

#[test]
fn a_server_without_a_method_says_so_itself_and_a_group_without_a_connection_is_an_error() {
    let broken = json!({"command": "/no/such/program"});
    let mut proxy = Proxy::new(&pure_config([("tools", scripted_upstream(&[])), ("broken", broken)]));
    for (method, more) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "x://y"})),
        ("resources/subscribe", json!({"uri": "x://y"})),
        ("resources/unsubscribe", json!({"uri": "x://y"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "x"}})),
        ("completion/complete", json!({"ref": {"type": "ref/resource", "uri": "x://{y}"}})),
    ] {
        let error = proxy.request(method, merged(more.clone(), json!({"group": "tools"})))["error"].take();
        // The proxy holds subscriptions itself.
        let code = if method == "resources/subscribe" { -31005 } else { -32601 };
        assert_eq!(error["code"], code, "{method}: {error}");
        let error = proxy.request(method, merged(more.clone(), json!({"group": "broken"})))["error"].take();
        assert_eq!((&error["code"], &error["data"]["group"]), (&json!(-31001), &json!("broken")), "{error}");
        assert_eq!((&error["data"]["state"], &error["data"]["attempts"]), (&json!("failed"), &json!(1)));
        assert_eq!(error["data"]["retryAfterMs"], json!(null), "a retry does not help");
        assert!(error["data"]["cause"].as_str().unwrap().contains("/no/such/program"), "{error}");
        assert_eq!(proxy.error_code(method, merged(more, json!({"group": "nobody"}))), -32602, "{method}");
    }
}

#[test]
fn methods_of_features_that_no_group_has_are_refused() {
    let mut config = scripted_config(&[]);
    config["mcpServers"]["g"]["features"] = json!({"resources": false, "prompts": false});
    let mut proxy = Proxy::new(&config);
    for method in ["resources/list", "resources/read", "prompts/list", "prompts/get"] {
        assert_eq!(proxy.error_code(method, json!({})), -32004, "{method}");
    }
}
