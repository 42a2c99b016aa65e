//! Params of 2 MB: what names something is refused, everything else is passed on, and no other request waits meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::support::{Message, Proxy, Turn, pure_config, scripted_upstream, stateless};

/// The size of a param.
const BYTES: usize = 2_000_000;
/// The methods of the proxy, each in a line that begins with `row(`.
const METHODS: &str = include_str!("../../../crates/wire/src/protocol/methods.rs");
/// The end of each error about a text that is too long.
const REFUSAL: &str = "and the limit for ";
/// The time of the processor that the thread which answers pings may take in a debug build: for each time that it takes
/// to read such a line, and beside that. An optimized build takes a tenth.
const MAX_RATIO: u64 = 10;
const MAX_MORE_MS: u64 = 300;

/// What becomes of a text of 2 MB.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It is refused with the limit.
    Refused,
    /// It has no limit of its own.
    Passed,
}
use Fate::{Passed, Refused};

/// The params of each method, with `@` in place of a value of 2 MB.
const PARAMS: &[(&str, &str, Fate)] = &[
    ("initialize", r#"{"protocolVersion":@}"#, Passed),
    (
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{"experimental":@},"clientInfo":{"name":@}}"#,
        Passed,
    ),
    ("ping", r#"{"x":@}"#, Passed),
    ("server/discover", r#"{"x":@}"#, Passed),
    ("tools/list", r#"{"cursor":@}"#, Passed),
    ("tools/list", r#"{"lazy":@}"#, Passed),
    ("tools/call", r#"{"name":@}"#, Refused),
    ("tools/call", r#"{"name":"a__echo","arguments":@}"#, Passed),
    ("tools/call", r#"{"name":"a__echo","arguments":{"text":@},"_meta":{"x":@}}"#, Passed),
    ("tools/call", r#"{"name":"a__echo","requestState":@}"#, Passed),
    ("tools/call", r#"{"name":"a__echo","inputResponses":@}"#, Passed),
    ("tools/call", r#"{"name":"a__echo","task":@}"#, Passed),
    ("tools/describe", r#"{"name":@}"#, Refused),
    ("tools/describe_batch", r#"{"names":["a__echo",@]}"#, Refused),
    ("tools/describe_batch", r#"{"names":@}"#, Passed),
    ("resources/list", r#"{"group":@}"#, Refused),
    ("resources/list", r#"{"cursor":@}"#, Passed),
    ("resources/templates/list", r#"{"group":@}"#, Refused),
    ("resources/templates/list", r#"{"cursor":@}"#, Passed),
    ("resources/read", r#"{"uri":@}"#, Refused),
    ("resources/read", r#"{"group":@,"uri":"mem://a/text"}"#, Refused),
    ("resources/subscribe", r#"{"uri":@}"#, Refused),
    ("resources/unsubscribe", r#"{"uri":@}"#, Refused),
    ("resources/directory/read", r#"{"uri":@}"#, Refused),
    ("skills/list", r#"{"group":@}"#, Refused),
    ("skills/list", r#"{"cursor":@}"#, Passed),
    ("skills/get", r#"{"uri":@}"#, Refused),
    ("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":[@]}}"#, Refused),
    ("subscriptions/listen", r#"{"notifications":{"taskIds":[@]}}"#, Refused),
    ("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":@}}"#, Passed),
    ("subscriptions/listen", r#"{"notifications":{"taskIds":@}}"#, Passed),
    ("subscriptions/listen", r#"{"notifications":@}"#, Passed),
    ("prompts/list", r#"{"group":@}"#, Refused),
    ("prompts/list", r#"{"cursor":@}"#, Passed),
    ("prompts/get", r#"{"name":@}"#, Refused),
    ("prompts/get", r#"{"group":@,"name":"p"}"#, Refused),
    ("prompts/get", r#"{"name":"a__p","arguments":@}"#, Passed),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/prompt","name":@},"argument":{"name":"a","value":""}}"#,
        Refused,
    ),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/resource","uri":@},"argument":{"name":"a","value":""}}"#,
        Refused,
    ),
    ("completion/complete", r#"{"ref":{"type":@},"argument":{"name":"a","value":""}}"#, Refused),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/prompt","name":"a__p"},"argument":{"name":@,"value":""}}"#,
        Refused,
    ),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/prompt","name":"a__p"},"argument":{"name":"a","value":@}}"#,
        Passed,
    ),
    ("completion/complete", r#"{"ref":@}"#, Passed),
    ("logging/setLevel", r#"{"level":@}"#, Refused),
    ("tasks/list", r#"{"group":@}"#, Refused),
    ("tasks/list", r#"{"cursor":@}"#, Passed),
    ("tasks/get", r#"{"taskId":@}"#, Refused),
    ("tasks/result", r#"{"taskId":@}"#, Refused),
    ("tasks/update", r#"{"taskId":@}"#, Refused),
    ("tasks/update", r#"{"taskId":"x","inputResponses":@}"#, Passed),
    ("tasks/cancel", r#"{"taskId":@}"#, Refused),
    ("roots/list", r#"{"x":@}"#, Passed),
    ("sampling/createMessage", r#"{"messages":@}"#, Passed),
    ("elicitation/create", r#"{"message":@}"#, Passed),
];

/// The arguments of each of our tools, with `@` in place of a value of 2 MB.
const ARGUMENTS: &[(&str, &str, Fate)] = &[
    ("get_dynamic_tools", r#"{"group":@}"#, Refused),
    ("get_dynamic_tools", r#"{"name":@}"#, Refused),
    ("get_dynamic_tools", r#"{"group":"a","tools":@}"#, Refused),
    ("get_dynamic_tools", r#"{"group":"a","tools":["echo",@]}"#, Refused),
    ("get_dynamic_tools", r#"{"group":"a","detail":@}"#, Refused),
    ("get_dynamic_tools", r#"{"group":"a","lazy":@}"#, Passed),
    ("call_dynamic_tool", r#"{"group":@,"name":"echo","args":{}}"#, Refused),
    ("call_dynamic_tool", r#"{"group":"a","name":@,"args":{}}"#, Refused),
    ("call_dynamic_tool", r#"{"name":@}"#, Refused),
    ("call_dynamic_tool", r#"{"group":"a","name":"echo","args":@}"#, Passed),
    ("call_dynamic_tool", r#"{"group":"a","name":"echo","args":{"text":@}}"#, Passed),
    ("call_dynamic_tool", r#"{"group":"a","name":"echo","text":@}"#, Passed),
    ("call_dynamic_tool", r#"{"group":"a","name":"echo","args":{"text":"x"},"select":@}"#, Passed),
    ("call_dynamic_tool", r#"{"group":"dynamic-mcp","name":"result","args":{"id":@}}"#, Refused),
    ("call_dynamic_tool", r#"{"group":"dynamic-mcp","name":"result","args":{"id":"x","search":@}}"#, Refused),
    ("call_dynamic_tool", r#"{"group":"dynamic-mcp","name":"result","args":{"id":"x","lines":@}}"#, Passed),
    ("call_dynamic_tool", r#"{"group":"dynamic-mcp","name":"result","args":{"id":"x","bytes":@}}"#, Passed),
    ("call_dynamic_tool_readonly", r#"{"group":@,"name":"echo","args":{}}"#, Refused),
    ("call_dynamic_tool_readonly", r#"{"group":"a","name":@,"args":{}}"#, Refused),
    ("call_dynamic_tool_readonly", r#"{"group":"a","name":"echo","args":@,"select":".x"}"#, Passed),
    ("search_dynamic_tools", r#"{"query":@}"#, Refused),
    ("search_dynamic_tools", r#"{"query":"x","group":@}"#, Refused),
    ("search_dynamic_tools", r#"{"query":"x","limit":@}"#, Passed),
    ("get_status", r#"{"group":@}"#, Refused),
];

/// Values of 2 MB. Only strings can be names.
static VALUES: LazyLock<Vec<(String, bool)>> = LazyLock::new(|| {
    let repeated = |text: &str| text.repeat(BYTES / text.len());
    let members: Vec<_> = (0..BYTES / 13).map(|n| format!(r#""k{n:07}":1"#)).collect();
    vec![
        (format!(r#""g{}""#, repeated("_")), true),
        (format!("[{}]", vec![r#""ab""#; BYTES / 5].join(",")), false),
        (format!(r#""{}""#, repeated("查")), true),
        (format!(r#""a://{}""#, repeated("aB/")), true),
        (format!("{{{}}}", members.join(",")), false),
    ]
});

/// The time that the main thread of the program has computed, which answers pings.
fn main_thread_ms(proxy: &Proxy) -> u64 {
    let pid = proxy.pid();
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks * 10
}

/// Sends a request and a ping with one write. Returns the time that the main thread takes up to the answer of the ping,
/// and the answer of the request, or its acknowledgement.
fn send_with_ping(proxy: &mut Proxy, method: &str, params: &str) -> (u64, Message) {
    let before = main_thread_ms(proxy);
    let id = proxy.send_raw_request(method, params);
    let ping = proxy.send_raw_request("ping", "{}");
    let (mut took, mut answer) = (None, None);
    while took.is_none() || answer.is_none() {
        let message = proxy.next_message().expect("an answer");
        let is_acknowledged = message.method() == Some("notifications/subscriptions/acknowledged");
        if message.id() == Some(&ping.to_string()) {
            took = Some(main_thread_ms(proxy) - before);
        } else if message.id() == Some(&id.to_string()) || is_acknowledged {
            answer = Some(message);
        }
    }
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    (took.unwrap(), answer.unwrap())
}

/// The same params in the form that 2026-07-28 asks for.
fn in_stateless_era(params: &str) -> String {
    let declared = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let members = params.strip_prefix('{').unwrap();
    format!(r#"{{"_meta":{{{}}},{members}"#, stateless::meta_members(declared))
}

/// Sends all values in one place, and returns what is wrong.
fn faults(proxy: &mut Proxy, method: &str, params: &str, fate: Fate, limit_ms: u64) -> Vec<String> {
    let mut faults = Vec::new();
    // What is refused is not read, so one text and one other value are enough.
    let count = if fate == Refused { 2 } else { usize::MAX };
    for (value, is_text) in VALUES.iter().take(count) {
        let (took, answer) = send_with_ping(proxy, method, &params.replace('@', value));
        let place = format!("{method} {:.150} with {value:.10}", params.replace(r#""_meta""#, ""));
        if took > limit_ms {
            faults.push(format!("{place} takes {took} ms of the thread that answers pings"));
        }
        let is_refused = answer.line.contains(REFUSAL);
        let is_unknown = answer.error_code().is_some_and(|code| [-32601, -32005, -32004].contains(&code));
        let must_be = fate == Refused && *is_text;
        if !is_unknown && (must_be && !is_refused || fate == Passed && is_refused) {
            faults.push(format!("{place}: {:.300}", answer.line));
        }
        if answer.line.len() > BYTES / 4 && is_refused {
            faults.push(format!("{place}: the error repeats the text"));
        }
    }
    faults
}

#[test]
fn two_megabytes_in_any_param_of_any_method_delay_no_ping() {
    let _turn = Turn::take();
    let names = |table: &[(&'static str, &str, Fate)]| table.iter().map(|row| row.0).collect::<BTreeSet<_>>();
    let rows = METHODS.lines().filter_map(|line| line.trim().strip_prefix("row(M::")?.split('"').nth(1));
    assert_eq!(names(PARAMS), rows.collect(), "each method needs a row for each of its params");

    let flags = ["--protocol", "--resources", "--prompts", "--skills", "--tasks", "--logging"];
    let config = pure_config([("a", scripted_upstream(&flags)), ("b", scripted_upstream(&flags))]);
    let mut proxy = Proxy::with_capabilities(&config, json!({"sampling": {}, "elicitation": {}}));
    proxy.connect(["a", "b"]);
    for tool in proxy.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap() {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]["properties"]);
        for argument in schema.as_object().into_iter().flatten().map(|(argument, _)| argument) {
            let has = |row: &&(&str, &str, Fate)| row.0 == name && row.1.contains(&format!("{argument:?}:"));
            assert!(ARGUMENTS.iter().any(|row| has(&row)), "{name} needs a row for {argument}");
        }
    }

    let reading =
        VALUES.iter().map(|(value, _)| send_with_ping(&mut proxy, "ping", &format!(r#"{{"x":{value}}}"#)).0);
    let limit = MAX_RATIO * reading.max().unwrap() + MAX_MORE_MS;
    let mut all = Vec::new();
    for (method, params, fate) in PARAMS {
        let is_new = ["server/discover", "subscriptions/listen", "tasks/update"].contains(method);
        let params = if is_new { in_stateless_era(params) } else { (*params).to_owned() };
        all.extend(faults(&mut proxy, method, &params, *fate, limit));
    }
    for (tool, arguments, fate) in ARGUMENTS {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        all.extend(faults(&mut proxy, "tools/call", &params, *fate, limit));
    }
    assert!(all.is_empty(), "{} faults (limit {limit} ms):\n{}", all.len(), all.join("\n"));
    assert_eq!(proxy.call_text("a", "echo", json!({"text": "x"})), "x");
}

#[test]
fn a_declaration_of_many_capabilities_costs_no_more_than_its_bytes() {
    let config = pure_config([("a", scripted_upstream(&[]))]);
    let mut proxy = crate::support::ProxyCommand::new().config(&config).start();
    for (value, _) in VALUES.iter() {
        let declared = format!(r#"{{"experimental":{value},"extensions":{value}}}"#);
        let params = format!(r#"{{"_meta":{{{}}}}}"#, stateless::meta_members(&declared));
        let id = proxy.send_raw_request("tools/list", &params);
        assert_ne!(proxy.response(id).json()["result"], Value::Null, "{value:.10}");
    }
}
