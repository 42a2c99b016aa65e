//! What a proxy must not spoil, row by row of the table by which proxies are compared. Rows that are tested where their
//! subject is:
//!
//! | row | test |
//! | --- | --- |
//! | protocol answered to the client | `front::every_handshake_revision_is_spoken_and_others_get_the_latest` |
//! | pages of `tools/list` followed | `calls::listing::every_page_is_read` |
//! | structuredContent, `_meta` | `calls::results_come_back_byte_for_byte`, `protocol::lossless` |
//! | an upstream's `isError` | `calls::errors_of_the_upstream_come_back_as_they_are` |
//! | annotations, outputSchema shown to the model | `calls::listing::definitions_are_the_bytes_of_the_upstream` |
//! | progress | `calls::connection::progress_comes_under_the_clients_token_before_the_result` |
//! | `notifications/message` | `protocol::logging` |
//! | cancel | `calls::connection::a_cancellation_arrives_with_its_reason_and_the_call_is_not_answered` |
//! | elicitation, sampling | `protocol::asking::questions_and_answers_pass_byte_for_byte` |
//! | upstream crash, next call | `upstreams::a_crashed_upstream_is_back_on_the_next_call_every_time` |
//! | resources: list, read, templates | `protocol::resources`, `protocol::reading` |
//! | prompts: list, get, collisions | `protocol::prompts` |
//! | completion, ping, setLevel | `protocol::completions`, `front::ping_allowed_during_initialization`, `protocol::logging` |
//! | exits on EOF | `lifetime::every_end_is_prompt_and_leaves_nothing` |

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::protocol::{Record, all};
use crate::support::{Proxy, as_configured, one, servers, until, upstream};

#[test]
fn offered_to_upstream() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&[])))]));
    proxy.upstream_pid("g");
    let offered = record.line("initialize", 0).json();
    assert_eq!(offered["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(offered["params"]["clientInfo"]["name"], "dynamic-mcp", "{offered}");
    assert_eq!(record.lines("notifications/initialized").len(), 1);
    // One that answers with another revision is not asked again.
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&["--version", "2025-03-26"])))]));
    proxy.upstream_pid("g");
    assert_eq!(record.lines("initialize").len(), 1);
    assert_eq!(record.lines("notifications/initialized").len(), 1);
}

#[test]
fn image_block() {
    let mut proxy = Proxy::new(&servers([("g", all(&[]))]));
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
            let id = proxy.send_raw("tools/call", &format!(r#"{{{params},"x-result":{result}}}"#));
            assert_eq!(proxy.answer(id).raw("result"), Some(&*result));
        }
    }
}

#[test]
fn list_changed_and_the_new_tool_visible() {
    let mut proxy = Proxy::new(&one(&["--protocol"]));
    assert!(!proxy.tools(json!({"group": "g", "lazy": true})).contains("added_0"));
    proxy.text("g", "grow", json!({"list": "tools"}));
    until("the new tool is told", || proxy.tools(json!({"group": "g", "lazy": true})).contains("added_0"));
    assert_eq!(proxy.text("g", "added_0", json!({"x": 1})), r#"{"x":1}"#);
}

#[test]
fn second_call_while_a_3_s_call_runs() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&[]))]));
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let long = proxy.send_call("g", "sleep", json!({"ms": 3000}));
    let second = ["g", "h"].map(|group| proxy.send_call(group, "echo", json!({"text": group})));
    // The order in which they are answered tells it, however slow the machine is.
    let mut order = Vec::new();
    while order.len() < 3 {
        let message = proxy.next().unwrap();
        order.extend(message.id().filter(|_| message.method().is_none()).map(str::to_owned));
    }
    assert_eq!(order[2], long.to_string(), "{order:?}");
    assert!(second.iter().all(|id| order[..2].contains(&id.to_string())), "{order:?}");
}

fn fifteen(flags: &[&str]) -> Value {
    let groups = (0..15).map(|n| (format!("g{n}"), upstream(flags)));
    json!({"mcpServers": groups.collect::<serde_json::Map<_, _>>()})
}

#[test]
fn init_with_15_upstreams_and_with_slow_ones() {
    let took = |config: &Value| {
        let begin = Instant::now();
        let mut proxy = Proxy::new(config);
        assert!(proxy.ask("tools/list", json!({}))["result"]["tools"].is_array());
        begin.elapsed()
    };
    let empty = took(&as_configured([]));
    let (many, slow) = (took(&fifteen(&[])), took(&fifteen(&["--slow-start", "20000"])));
    // Whoever waits for them waits 20 s.
    for (what, took) in [("many", many), ("slow", slow)] {
        assert!(took < empty + Duration::from_secs(10), "{what}: {took:?}, without them {empty:?}");
    }
}
