//! `list_changed` of resources and prompts.

use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

use super::{a_second, all, each, heard, hears_nothing, said};
use crate::support::{Proxy, servers, upstream};

#[test]
fn what_an_upstream_adds_is_told_and_nothing_else() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("clock", upstream(&[]))]));
    proxy.upstream_pid("g");
    let first = [said(&mut proxy), said(&mut proxy)].map(|told| told.method().unwrap().to_owned());
    assert_eq!(first, ["notifications/resources/list_changed", "notifications/prompts/list_changed"]);
    for (list, member) in [("resources", "uri"), ("prompts", "name")] {
        a_second(&mut proxy, "clock");
        proxy.text("g", "grow", json!({"list": list}));
        let told = said(&mut proxy);
        assert_eq!(told.method(), Some(&*format!("notifications/{list}/list_changed")));
        let all = each(&proxy.ask(&format!("{list}/list"), json!({})), list, member);
        assert!(all.iter().any(|name| name.contains("grown")), "{all:?}");
    }
}

#[test]
fn a_list_that_is_the_same_is_not_told() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("clock", upstream(&[]))]));
    proxy.upstream_pid("g");
    said(&mut proxy);
    said(&mut proxy);
    for list in ["tools", "resources", "prompts"] {
        proxy.text("g", "tell", json!({"method": format!("notifications/{list}/list_changed")}));
    }
    a_second(&mut proxy, "clock");
    a_second(&mut proxy, "clock");
    hears_nothing(&mut proxy);
}

#[test]
fn many_changes_are_told_at_most_once_a_second() {
    let mut proxy = Proxy::new(&servers([("g", all(&[])), ("clock", upstream(&[]))]));
    proxy.upstream_pid("g");
    let method = "notifications/resources/list_changed";
    heard(&mut proxy, method);
    let begin = Instant::now();
    for _ in 0..20 {
        proxy.text("g", "grow", json!({"list": "resources"}));
    }
    let took = begin.elapsed();
    heard(&mut proxy, method);
    assert!(begin.elapsed() > Duration::from_millis(800), "{:?}", begin.elapsed());
    a_second(&mut proxy, "clock");
    a_second(&mut proxy, "clock");
    let ping = proxy.send("ping", json!({})).to_string();
    let mut more = 0;
    while proxy.next().unwrap().id() != Some(&*ping) {
        more += 1;
    }
    assert!(more <= 3, "20 changes in {took:?} were told {} times in 2 s more", more + 1);
    assert_eq!(each(&proxy.ask("resources/list", json!({})), "resources", "uri").len(), 27);
}
