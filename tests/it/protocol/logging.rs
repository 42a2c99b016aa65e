//! `logging/setLevel` and `notifications/message`: the level reaches all groups, and messages pass by their level.

use serde_json::json;

use super::two_schemes_config;
use crate::support::{
    InputRecord, Proxy, ProxyCommand, config_of, full_upstream, merged, pure_config, wait_until,
};

const MESSAGE: &str = "notifications/message";

/// Makes the upstream `g` send a log message with these params.
fn make_upstream_log(proxy: &mut Proxy, params: &str) {
    let id = proxy.send_raw_call("g", "tell", &format!(r#"{{"method":"{MESSAGE}","params":{params}}}"#));
    let response = proxy.response(id);
    assert!(response.line.contains("done"), "{}", response.line);
}

#[test]
fn the_level_reaches_connected_groups_and_those_that_connect_later() {
    let (now, later) = (InputRecord::new(), InputRecord::new());
    let mut proxy = Proxy::new(&pure_config([
        ("now", now.attached_to(full_upstream(&[]))),
        ("later", later.attached_to(full_upstream(&[]))),
    ]));
    proxy.upstream_pid("now");
    let response = proxy.request("logging/setLevel", json!({"level": "error"}));
    assert_eq!(response["result"], json!({}));
    assert!(now.wait_for("logging/setLevel", 0).line.contains(r#""level":"error""#));
    proxy.upstream_pid("later");
    assert!(later.wait_for("logging/setLevel", 0).line.contains(r#""level":"error""#));
    for params in [json!({}), json!({"level": 3}), json!({"level": "loud"})] {
        assert_eq!(proxy.error_code("logging/setLevel", params.clone()), -32602, "{params}");
    }
    assert_eq!(now.lines_of("logging/setLevel").len(), 1);
}

#[test]
fn the_level_reaches_a_group_that_is_connecting() {
    let record = InputRecord::new();
    // The upstream receives `initialize` before the level is set, and responds to `tools/list` after it.
    let mut proxy =
        Proxy::new(&pure_config([("g", record.attached_to(full_upstream(&["--slow-list", "300"])))]));
    let first_call = proxy.send_call("g", "echo", json!({"text": "x"}));
    record.wait_for("tools/list", 0);
    proxy.request("logging/setLevel", json!({"level": "error"}));
    proxy.response(first_call);
    assert!(record.wait_for("logging/setLevel", 0).line.contains(r#""level":"error""#));
}

#[test]
fn messages_below_the_level_are_dropped_and_others_pass_byte_for_byte() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.upstream_pid("g");
    // The notifications about the first read of resources and prompts.
    proxy.next_server_message();
    proxy.next_server_message();
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    for minimum in [None, Some("warning"), Some("emergency"), Some("debug")] {
        if let Some(level) = minimum {
            proxy.request("logging/setLevel", json!({"level": level}));
        }
        let minimum_rank =
            minimum.and_then(|minimum| levels.iter().position(|level| *level == minimum)).unwrap_or(0);
        for (rank, level) in levels.iter().enumerate() {
            let params =
                format!(r#"{{"level":"{level}","logger":"\u00e9","data":{{"n":1e400,"m":-0.0}},"x":null}}"#);
            make_upstream_log(&mut proxy, &params);
            if rank < minimum_rank {
                proxy.assert_no_message();
            } else {
                assert_eq!(proxy.next_server_message().raw("params"), Some(&*params));
            }
        }
        for params in [r#"{"level":"loud","data":1}"#, r#"{"data":1}"#, "[1e400]"] {
            make_upstream_log(&mut proxy, params);
            assert_eq!(
                proxy.next_server_message().raw("params"),
                Some(params),
                "a message without a known level"
            );
        }
    }
}

#[test]
fn other_notifications_pass_byte_for_byte() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.upstream_pid("g");
    for method in ["notifications/elicitation/complete", "notifications/x-unknown"] {
        let args = format!(r#"{{"method":"{method}","params":{{"elicitationId":"\u00e9","x":1e400}}}}"#);
        proxy.send_raw_call("g", "tell", &args);
        let notification = proxy.wait_for_message(method);
        assert_eq!(notification.raw("params"), Some(r#"{"elicitationId":"\u00e9","x":1e400}"#));
    }
}

#[test]
fn messages_before_notifications_initialized_arrive_after_it() {
    let record = InputRecord::new();
    let entry = merged(record.attached_to(full_upstream(&["--early"])), json!({"lazy_startup": "eager"}));
    let mut proxy = ProxyCommand::new().config(&config_of([("g", entry)])).start();
    proxy.request("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    wait_until("the group is connected", || !record.lines_of("tools/list").is_empty());
    proxy.assert_no_message();
    proxy.notify("notifications/initialized", json!({}));
    let message = proxy.next_server_message();
    assert_eq!(
        (message.method(), message.raw("params")),
        (Some(MESSAGE), Some(r#"{"level":"info","data":"early"}"#))
    );
}
