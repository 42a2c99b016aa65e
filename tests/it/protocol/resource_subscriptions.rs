//! `resources/subscribe` and `resources/unsubscribe` of clients with a handshake: updates, idle groups, and crashes.

use serde_json::json;

use super::{recorded_config, same_uris_config, short_idle_config};
use crate::support::{InputRecord, Proxy, full_upstream, pure_config, wait_until};

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
fn what_is_sent_after_a_subscription_arrives_after_it() {
    for flags in [&[][..], &["--stateless"]] {
        let record = InputRecord::new();
        let mut proxy = Proxy::new(&pure_config([("g", record.attached_to(full_upstream(flags)))]));
        for (round, is_connected) in [false, true].into_iter().enumerate() {
            assert_eq!(proxy.group_state("g") == "connected", is_connected);
            let subscribe = |n: u32| {
                let params = json!({"uri": format!("mem://many/{round}-{n}"), "group": "g"});
                json!({"jsonrpc": "2.0", "id": format!("s{round}-{n}"), "method": SUBSCRIBE, "params": params})
            };
            let call = |n: u32| {
                let arguments =
                    json!({"group": "g", "name": "args", "args": {"n": format!("call {round}-{n}")}});
                let params = json!({"name": "call_dynamic_tool", "arguments": arguments});
                json!({"jsonrpc": "2.0", "id": format!("c{round}-{n}"), "method": "tools/call", "params": params})
            };
            let lines = [subscribe(1), subscribe(2), call(1), call(2), subscribe(3), call(3)];
            proxy.write(&lines.map(|line| format!("{line}\n")).concat());
            let messages = std::iter::from_fn(|| proxy.next_message());
            for response in messages.filter(|message| message.method().is_none()).take(6) {
                assert!(response.raw("result").is_some(), "{}", response.line);
            }
            // A stateless server gets all topics with each request.
            let first_with = |text: String| {
                let at = record.lines().iter().position(|line| line.contains(&text));
                at.unwrap_or_else(|| panic!("{text}: {:?}", record.lines()))
            };
            let topic = |n: u32| first_with(format!("mem://many/{round}-{n}"));
            let call = |n: u32| first_with(format!("call {round}-{n}"));
            let order = [topic(1), topic(2), call(1), call(2)];
            assert!(order.is_sorted(), "{flags:?}, round {round}: {order:?}");
            assert!(topic(3) < call(3), "{flags:?}, round {round}");
        }
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
    // The group `clock` turns out to have no resources, so the other one is the only one to ask after that.
    for (method, code) in [(SUBSCRIBE, -32002), ("resources/unsubscribe", -32601)] {
        assert_eq!(proxy.error_code(method, json!({"uri": "x://y"})), code, "{method}");
        assert_eq!(proxy.error_code(method, json!({})), -32602, "{method}");
    }
}
