//! Subscriptions to resources.

use serde_json::json;

use super::{Record, a_second, all, closing_soon, heard, state, until_state};
use crate::support::{Proxy, servers, until};

const SUBSCRIBE: &str = "resources/subscribe";
const UPDATED: &str = "notifications/resources/updated";

#[test]
fn updates_arrive_byte_for_byte_and_under_the_uri_the_client_knows() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("h", all(&[]))]));
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    for (group, uri) in [("g", "mem://one"), ("h", "dynamic-mcp://h/mem%3A%2F%2Fone")] {
        assert_eq!(proxy.ask(SUBSCRIBE, json!({"uri": uri}))["result"], json!({}));
        let params = r#"{"uri":"mem://one","x":1e400,"title":"\u00e9"}"#;
        let args = format!(r#"{{"method":"{UPDATED}","params":{params}}}"#);
        super::send_tool(&mut proxy, group, "tell", &args);
        let told = heard(&mut proxy, UPDATED);
        assert_eq!(told.raw("params").unwrap(), params.replace("mem://one", uri));
    }
}

#[test]
fn a_group_with_a_subscription_stays_and_without_one_it_closes() {
    let record = Record::new();
    let mut proxy = Proxy::new(&closing_soon(record.of(all(&[]))));
    for uri in ["mem://one", "mem://two"] {
        assert!(proxy.ask(SUBSCRIBE, json!({"uri": uri, "group": "g"}))["result"].is_object());
    }
    a_second(&mut proxy, "clock");
    assert_eq!(state(&mut proxy, "g"), "connected");
    proxy.ask("resources/unsubscribe", json!({"uri": "mem://one"}));
    a_second(&mut proxy, "clock");
    assert_eq!(state(&mut proxy, "g"), "connected", "there is another");
    proxy.ask("resources/unsubscribe", json!({"uri": "mem://two"}));
    until_state(&mut proxy, "g", "discovered");
    let gone = record.lines("resources/unsubscribe");
    assert!(gone.len() == 2 && gone[0].contains("mem://one") && gone[1].contains("mem://two"), "{gone:?}");
}

#[test]
fn after_a_crash_it_is_subscribed_again_by_itself() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&[])))]));
    for uri in ["mem://one", "mem://two", "mem://weird"] {
        proxy.ask(SUBSCRIBE, json!({"uri": uri, "group": "g"}));
    }
    proxy.ask("resources/unsubscribe", json!({"uri": "mem://weird"}));
    for crashes in 1..=2 {
        proxy.failure("g", "crash", json!({}));
        until("subscribed again", || record.lines(SUBSCRIBE).len() == 3 + 2 * crashes);
        let again = &record.lines(SUBSCRIBE)[1 + 2 * crashes..];
        assert!(again[0].contains("mem://one") && again[1].contains("mem://two"), "{again:?}");
        let update = json!({"method": UPDATED, "params": {"uri": "mem://two", "n": crashes}});
        proxy.call("g", "tell", update);
        assert_eq!(heard(&mut proxy, UPDATED).json()["params"]["n"], crashes);
    }
}

#[test]
fn one_that_was_just_made_survives_a_crash() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&[])))]));
    proxy.upstream_pid("g");
    // The crash is on its way before the answer is back: it is made on whichever connection there is then.
    let subscribed = proxy.send(SUBSCRIBE, json!({"uri": "mem://one"}));
    let crash = proxy.send_call("g", "crash", json!({}));
    assert_eq!(proxy.answer(subscribed).json()["result"], json!({}));
    proxy.answer(crash);
    until("subscribed", || !record.lines(SUBSCRIBE).is_empty());
    proxy.call("g", "tell", json!({"method": UPDATED, "params": {"uri": "mem://one"}}));
    assert_eq!(heard(&mut proxy, UPDATED).json()["params"]["uri"], "mem://one");
}

#[test]
fn a_resource_is_updated_under_the_uri_it_was_last_subscribed_by() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("h", all(&[]))]));
    for (uri, group) in [("dynamic-mcp://h/mem%3A%2F%2Fone", None), ("mem://one", Some("h"))] {
        let params = group.map_or(json!({"uri": uri}), |group| json!({"uri": uri, "group": group}));
        for method in [SUBSCRIBE, "resources/unsubscribe", SUBSCRIBE] {
            assert_eq!(proxy.ask(method, params.clone())["result"], json!({}), "{method} {params}");
        }
        proxy.call("h", "tell", json!({"method": UPDATED, "params": {"uri": "mem://one"}}));
        assert_eq!(heard(&mut proxy, UPDATED).json()["params"]["uri"], uri);
    }
}

#[test]
fn one_that_is_refused_keeps_nothing_open() {
    let mut proxy = Proxy::new(&closing_soon(crate::support::upstream(&["--no-capabilities"])));
    let answer = proxy.ask(SUBSCRIBE, json!({"uri": "mem://one", "group": "g"}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    until_state(&mut proxy, "g", "discovered");
    for method in [SUBSCRIBE, "resources/unsubscribe"] {
        assert_eq!(proxy.refused(method, json!({"uri": "x://y"})), -32002, "{method}");
        assert_eq!(proxy.refused(method, json!({})), -32602, "{method}");
    }
}
