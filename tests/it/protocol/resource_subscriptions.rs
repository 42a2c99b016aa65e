//! `resources/subscribe` and `resources/unsubscribe` of clients with a handshake: updates, idle groups, and crashes.

use serde_json::json;

use super::{recorded_config, same_uris_config, short_idle_config};
use crate::support::{InputRecord, Proxy, full_upstream, wait_until};

const SUBSCRIBE: &str = "resources/subscribe";
const UPDATED: &str = "notifications/resources/updated";

#[test]
fn updates_arrive_byte_for_byte_with_the_uri_that_the_client_knows() {
    let mut proxy = Proxy::new(&same_uris_config());
    proxy.connect(["g", "h"]);
    for (group, uri) in [("g", "mem://one"), ("h", "dynamic-mcp://h/mem%3A%2F%2Fone")] {
        assert_eq!(proxy.request(SUBSCRIBE, json!({"uri": uri}))["result"], json!({}));
        let params = r#"{"uri":"mem://one","x":1e400,"title":"\u00e9"}"#;
        let args = format!(r#"{{"method":"{UPDATED}","params":{params}}}"#);
        proxy.send_raw_call(group, "tell", &args);
        let update = proxy.wait_for_message(UPDATED);
        assert_eq!(update.raw("params").unwrap(), params.replace("mem://one", uri));
    }
}

#[test]
fn a_subscription_keeps_its_group_connected_until_it_ends() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&short_idle_config(record.attached_to(full_upstream(&[]))));
    for uri in ["mem://one", "mem://two"] {
        assert!(proxy.request(SUBSCRIBE, json!({"uri": uri, "group": "g"}))["result"].is_object());
    }
    proxy.wait_one_second("clock");
    assert_eq!(proxy.group_state("g"), "connected");
    proxy.request("resources/unsubscribe", json!({"uri": "mem://one"}));
    proxy.wait_one_second("clock");
    assert_eq!(proxy.group_state("g"), "connected", "one subscription is left");
    proxy.request("resources/unsubscribe", json!({"uri": "mem://two"}));
    proxy.wait_for_state("g", "discovered");
    let unsubscribed = record.lines_of("resources/unsubscribe");
    assert!(
        unsubscribed.len() == 2
            && unsubscribed[0].contains("mem://one")
            && unsubscribed[1].contains("mem://two"),
        "{unsubscribed:?}"
    );
}

#[test]
fn subscriptions_are_renewed_after_a_crash() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    for uri in ["mem://one", "mem://two", "mem://weird"] {
        proxy.request(SUBSCRIBE, json!({"uri": uri, "group": "g"}));
    }
    proxy.request("resources/unsubscribe", json!({"uri": "mem://weird"}));
    for crashes in 1..=2 {
        proxy.call_failure("g", "crash", json!({}));
        wait_until("the subscriptions are renewed", || record.lines_of(SUBSCRIBE).len() == 3 + 2 * crashes);
        let resubscribed = &record.lines_of(SUBSCRIBE)[1 + 2 * crashes..];
        assert!(
            resubscribed[0].contains("mem://one") && resubscribed[1].contains("mem://two"),
            "{resubscribed:?}"
        );
        let update = json!({"method": UPDATED, "params": {"uri": "mem://two", "n": crashes}});
        proxy.call_tool("g", "tell", update);
        assert_eq!(proxy.wait_for_message(UPDATED).json()["params"]["n"], crashes);
    }
}

#[test]
fn a_subscription_during_a_crash_is_kept() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    proxy.upstream_pid("g");
    // The crash is sent before the response arrives, so the subscription is made before or after the restart.
    let subscribed = proxy.send_request(SUBSCRIBE, json!({"uri": "mem://one"}));
    let crash = proxy.send_call("g", "crash", json!({}));
    assert_eq!(proxy.response(subscribed).json()["result"], json!({}));
    proxy.response(crash);
    wait_until("the upstream gets the subscription", || !record.lines_of(SUBSCRIBE).is_empty());
    proxy.call_tool("g", "tell", json!({"method": UPDATED, "params": {"uri": "mem://one"}}));
    assert_eq!(proxy.wait_for_message(UPDATED).json()["params"]["uri"], "mem://one");
}

#[test]
fn updates_have_the_uri_of_the_last_subscription() {
    let mut proxy = Proxy::new(&same_uris_config());
    for (uri, group) in [("dynamic-mcp://h/mem%3A%2F%2Fone", None), ("mem://one", Some("h"))] {
        let params = group.map_or(json!({"uri": uri}), |group| json!({"uri": uri, "group": group}));
        for method in [SUBSCRIBE, "resources/unsubscribe", SUBSCRIBE] {
            assert_eq!(proxy.request(method, params.clone())["result"], json!({}), "{method} {params}");
        }
        proxy.call_tool("h", "tell", json!({"method": UPDATED, "params": {"uri": "mem://one"}}));
        assert_eq!(proxy.wait_for_message(UPDATED).json()["params"]["uri"], uri);
    }
}

#[test]
fn a_refused_subscription_does_not_keep_its_group_connected() {
    let mut proxy = Proxy::new(&short_idle_config(crate::support::scripted_upstream(&["--no-capabilities"])));
    let response = proxy.request(SUBSCRIBE, json!({"uri": "mem://one", "group": "g"}));
    assert_eq!(response["error"]["code"], -32601, "{response}");
    proxy.wait_for_state("g", "discovered");
    for method in [SUBSCRIBE, "resources/unsubscribe"] {
        assert_eq!(proxy.error_code(method, json!({"uri": "x://y"})), -32002, "{method}");
        assert_eq!(proxy.error_code(method, json!({})), -32602, "{method}");
    }
}
