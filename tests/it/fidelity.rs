//! The behaviors by which MCP proxies are compared, with the test of each.
//!
//! | behavior | test |
//! | --- | --- |
//! | the revision and client info that upstreams are offered | `upstreams_are_offered_the_latest_handshake_revision_once` |
//! | protocol revision answered to the client | `front::every_handshake_revision_is_supported_and_others_get_the_latest` |
//! | pages of `tools/list` followed | `calls::describe::all_pages_of_a_list_are_read` |
//! | content blocks: image, audio, resources, unknown types | `content_blocks_of_every_type_pass_byte_for_byte` |
//! | structuredContent, `_meta` | `calls::results_come_back_byte_for_byte`, `protocol::lossless` |
//! | `isError` of an upstream | `calls::errors_of_the_upstream_come_back_byte_for_byte` |
//! | annotations, outputSchema shown to the model | `calls::describe::definitions_are_the_bytes_of_the_upstream` |
//! | progress | `calls::shared_connection::progress_has_the_clients_token_and_arrives_before_the_result` |
//! | `notifications/message` | `protocol::logging` |
//! | cancellation | `calls::shared_connection::a_cancellation_arrives_with_its_reason_and_its_call_gets_no_response` |
//! | list_changed, and the new tool visible | `a_tool_that_an_upstream_announces_is_described_and_called` |
//! | elicitation, sampling | `protocol::server_requests::requests_and_responses_pass_byte_for_byte` |
//! | a second call while a call of 3 s runs | `calls_during_a_call_of_3_s_are_answered_first` |
//! | upstream crash, next call | `upstreams::a_crashed_upstream_is_restarted_by_every_next_call` |
//! | resources: list, read, templates | `protocol::resource_lists`, `protocol::resource_reads` |
//! | prompts: list, get, collisions | `protocol::prompts` |
//! | completion, ping, setLevel | `protocol::completions`, `front::ping_allowed_during_initialization`, `protocol::logging` |
//! | time to initialize with 15 upstreams, and with slow ones | `fifteen_or_slow_upstreams_do_not_delay_the_handshake` |
//! | exits on EOF | `lifetime::every_end_is_prompt_and_leaves_no_process` |

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    InputRecord, Proxy, config_of, full_upstream, pure_config, scripted_config, scripted_upstream, wait_until,
};

#[test]
fn upstreams_are_offered_the_latest_handshake_revision_once() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&pure_config([("g", record.attached_to(full_upstream(&[])))]));
    proxy.upstream_pid("g");
    let offered = record.wait_for("initialize", 0).json();
    assert_eq!(offered["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(offered["params"]["clientInfo"]["name"], "dynamic-mcp", "{offered}");
    assert_eq!(record.lines_of("notifications/initialized").len(), 1);
    // An upstream that answers with another revision gets no second offer.
    let record = InputRecord::new();
    let mut proxy =
        Proxy::new(&pure_config([("g", record.attached_to(full_upstream(&["--version", "2025-03-26"])))]));
    proxy.upstream_pid("g");
    assert_eq!(record.lines_of("initialize").len(), 1);
    assert_eq!(record.lines_of("notifications/initialized").len(), 1);
}

#[test]
fn content_blocks_of_every_type_pass_byte_for_byte() {
    let mut proxy = Proxy::new(&pure_config([("g", full_upstream(&[]))]));
    for block in [
        r#"{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png","annotations":{"priority":1.0}}"#,
        r#"{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}"#,
        r#"{"type":"resource","resource":{"uri":"mem://one","blob":"AA==","mimeType":"x/y"}}"#,
        r#"{"type":"resource_link","uri":"mem://one","name":"one","icons":[]}"#,
        r#"{"type":"tool_use","id":"1","name":"x","input":{}}"#,
    ] {
        let result = format!(r#"{{"content":[{block}]}}"#);
        for params in [
            r#""name":"call_dynamic_tool","arguments":{"group":"g","name":"args","args":{}}"#,
            r#""name":"g__args","arguments":{}"#,
        ] {
            let id = proxy.send_raw_request("tools/call", &format!(r#"{{{params},"x-result":{result}}}"#));
            assert_eq!(proxy.response(id).raw("result"), Some(&*result));
        }
    }
}

#[test]
fn a_tool_that_an_upstream_announces_is_described_and_called() {
    let mut proxy = Proxy::new(&scripted_config(&["--protocol"]));
    assert!(!proxy.get_dynamic_tools(json!({"group": "g", "lazy": true})).contains("added_0"));
    proxy.call_text("g", "grow", json!({"list": "tools"}));
    wait_until("the new tool is described", || {
        proxy.get_dynamic_tools(json!({"group": "g", "lazy": true})).contains("added_0")
    });
    assert_eq!(proxy.call_text("g", "added_0", json!({"x": 1})), r#"{"x":1}"#);
}

#[test]
fn calls_during_a_call_of_3_s_are_answered_first() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]));
    proxy.connect(["g", "h"]);
    let long_call = proxy.send_call("g", "sleep", json!({"ms": 3000}));
    let short_calls = ["g", "h"].map(|group| proxy.send_call(group, "echo", json!({"text": group})));
    // The order of the responses does not depend on the speed of the machine.
    let mut order = Vec::new();
    while order.len() < 3 {
        let message = proxy.next_message().unwrap();
        order.extend(message.id().filter(|_| message.method().is_none()).map(str::to_owned));
    }
    assert_eq!(order[2], long_call.to_string(), "{order:?}");
    assert!(short_calls.iter().all(|id| order[..2].contains(&id.to_string())), "{order:?}");
}

/// A config with 15 upstreams.
fn fifteen_upstreams(flags: &[&str]) -> Value {
    let groups = (0..15).map(|n| (format!("g{n}"), scripted_upstream(flags)));
    json!({"mcpServers": groups.collect::<serde_json::Map<_, _>>()})
}

#[test]
fn fifteen_or_slow_upstreams_do_not_delay_the_handshake() {
    let time_to_list = |config: &Value| {
        let start = Instant::now();
        let mut proxy = Proxy::new(config);
        assert!(proxy.request("tools/list", json!({}))["result"]["tools"].is_array());
        start.elapsed()
    };
    let empty = time_to_list(&config_of([]));
    let many = time_to_list(&fifteen_upstreams(&[]));
    let slow = time_to_list(&fifteen_upstreams(&["--slow-start", "20000"]));
    // Waiting for a slow upstream takes 20 s.
    for (what, took) in [("many", many), ("slow", slow)] {
        assert!(took < empty + Duration::from_secs(10), "{what}: {took:?}, without them {empty:?}");
    }
}
