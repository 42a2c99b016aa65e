//! `logging/setLevel` and `notifications/message`.

use serde_json::json;

use super::{Record, all, hears_nothing, said, send_tool, two};
use crate::support::{Proxy, Setup, as_configured, servers, until, with};

const MESSAGE: &str = "notifications/message";

fn log(proxy: &mut Proxy, params: &str) {
    let id = send_tool(proxy, "g", "tell", &format!(r#"{{"method":"{MESSAGE}","params":{params}}}"#));
    let is_there = proxy.answer(id);
    assert!(is_there.line.contains("done"), "{}", is_there.line);
}

#[test]
fn the_level_reaches_whoever_is_connected_and_whoever_connects_later() {
    let (now, later) = (Record::new(), Record::new());
    let mut proxy = Proxy::new(&servers([("now", now.of(all(&[]))), ("later", later.of(all(&[])))]));
    proxy.upstream_pid("now");
    let answer = proxy.ask("logging/setLevel", json!({"level": "error"}));
    assert_eq!(answer["result"], json!({}));
    assert!(now.line("logging/setLevel", 0).line.contains(r#""level":"error""#));
    proxy.upstream_pid("later");
    assert!(later.line("logging/setLevel", 0).line.contains(r#""level":"error""#));
    for params in [json!({}), json!({"level": 3}), json!({"level": "loud"})] {
        assert_eq!(proxy.refused("logging/setLevel", params.clone()), -32602, "{params}");
    }
    assert_eq!(now.lines("logging/setLevel").len(), 1);
}

#[test]
fn the_level_reaches_a_group_that_is_connecting() {
    let record = Record::new();
    // It has read `initialize` before the level is set, and its list comes after.
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&["--slow-list", "300"])))]));
    let connects = proxy.send_call("g", "echo", json!({"text": "x"}));
    record.line("tools/list", 0);
    proxy.ask("logging/setLevel", json!({"level": "error"}));
    proxy.answer(connects);
    assert!(record.line("logging/setLevel", 0).line.contains(r#""level":"error""#));
}

#[test]
fn what_is_less_severe_is_kept_from_the_client_and_the_rest_passes_byte_for_byte() {
    let mut proxy = Proxy::new(&two());
    proxy.upstream_pid("g");
    // The list of resources is there now.
    said(&mut proxy);
    said(&mut proxy);
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    for wanted in [None, Some("warning"), Some("emergency"), Some("debug")] {
        if let Some(level) = wanted {
            proxy.ask("logging/setLevel", json!({"level": level}));
        }
        let least = wanted.and_then(|wanted| levels.iter().position(|level| *level == wanted)).unwrap_or(0);
        for (rank, level) in levels.iter().enumerate() {
            let params =
                format!(r#"{{"level":"{level}","logger":"\u00e9","data":{{"n":1e400,"m":-0.0}},"x":null}}"#);
            log(&mut proxy, &params);
            if rank < least {
                hears_nothing(&mut proxy);
            } else {
                assert_eq!(said(&mut proxy).raw("params"), Some(&*params));
            }
        }
        for params in [r#"{"level":"loud","data":1}"#, r#"{"data":1}"#, "[1e400]"] {
            log(&mut proxy, params);
            assert_eq!(said(&mut proxy).raw("params"), Some(params), "no level that we know");
        }
    }
}

#[test]
fn other_notifications_pass_too() {
    let mut proxy = Proxy::new(&two());
    proxy.upstream_pid("g");
    for method in ["notifications/elicitation/complete", "notifications/x-unknown"] {
        let args = format!(r#"{{"method":"{method}","params":{{"elicitationId":"\u00e9","x":1e400}}}}"#);
        send_tool(&mut proxy, "g", "tell", &args);
        let told = super::heard(&mut proxy, method);
        assert_eq!(told.raw("params"), Some(r#"{"elicitationId":"\u00e9","x":1e400}"#));
    }
}

#[test]
fn what_is_said_before_the_client_is_ready_arrives_when_it_is() {
    let record = Record::new();
    let entry = with(record.of(all(&["--early"])), json!({"lazy_startup": "eager"}));
    let mut proxy = Setup::new().config(&as_configured([("g", entry)])).start();
    proxy.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    until("it is connected", || !record.lines("tools/list").is_empty());
    hears_nothing(&mut proxy);
    proxy.notify("notifications/initialized", json!({}));
    let told = said(&mut proxy);
    assert_eq!(
        (told.method(), told.raw("params")),
        (Some(MESSAGE), Some(r#"{"level":"info","data":"early"}"#))
    );
}
