//! `notifications/resources/list_changed` and `notifications/prompts/list_changed`: when the client gets them.

use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

use super::members_of;
use crate::support::{Proxy, full_upstream, pure_config, scripted_upstream};

#[test]
fn only_the_changed_list_is_reported() {
    let mut proxy = Proxy::new(&pure_config([("g", full_upstream(&[])), ("clock", scripted_upstream(&[]))]));
    proxy.upstream_pid("g");
    let first = [proxy.next_server_message(), proxy.next_server_message()]
        .map(|notification| notification.method().unwrap().to_owned());
    assert_eq!(first, ["notifications/resources/list_changed", "notifications/prompts/list_changed"]);
    for (list, member) in [("resources", "uri"), ("prompts", "name")] {
        proxy.wait_one_second("clock");
        proxy.call_text("g", "grow", json!({"list": list}));
        let notification = proxy.next_server_message();
        assert_eq!(notification.method(), Some(&*format!("notifications/{list}/list_changed")));
        let entries = members_of(&proxy.request(&format!("{list}/list"), json!({})), list, member);
        assert!(entries.iter().any(|name| name.contains("grown")), "{entries:?}");
    }
}

#[test]
fn an_unchanged_list_is_not_reported() {
    let mut proxy = Proxy::new(&pure_config([("g", full_upstream(&[])), ("clock", scripted_upstream(&[]))]));
    proxy.upstream_pid("g");
    proxy.next_server_message();
    proxy.next_server_message();
    for list in ["tools", "resources", "prompts"] {
        proxy.call_text("g", "tell", json!({"method": format!("notifications/{list}/list_changed")}));
    }
    proxy.wait_one_second("clock");
    proxy.wait_one_second("clock");
    proxy.assert_no_message();
}

#[test]
fn changes_are_reported_at_most_once_a_second() {
    let mut proxy = Proxy::new(&pure_config([("g", full_upstream(&[])), ("clock", scripted_upstream(&[]))]));
    proxy.upstream_pid("g");
    let method = "notifications/resources/list_changed";
    proxy.wait_for_message(method);
    let start = Instant::now();
    for _ in 0..20 {
        proxy.call_text("g", "grow", json!({"list": "resources"}));
    }
    let took = start.elapsed();
    proxy.wait_for_message(method);
    assert!(start.elapsed() > Duration::from_millis(800), "{:?}", start.elapsed());
    proxy.wait_one_second("clock");
    proxy.wait_one_second("clock");
    let ping = proxy.send_request("ping", json!({})).to_string();
    let mut more = 0;
    while proxy.next_message().unwrap().id() != Some(&*ping) {
        more += 1;
    }
    assert!(more <= 3, "20 changes in {took:?} were reported {} times in 2 s", more + 1);
    assert_eq!(members_of(&proxy.request("resources/list", json!({})), "resources", "uri").len(), 27);
}
