//! A server that asks for roots at its start has them before the first request of the client.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Proxy, ProxyCommand, cache_dir_in, config_of, full_upstream, merged, wait_until};

const ROOTS: &str = r#""result":{"roots":[{"uri":"file:///r"}]}"#;
const DENIED: &str = "Access denied";

/// A config with a server that asks for roots so many milliseconds after its start, in this mode, and that is closed when
/// it is idle.
fn config(mode: &str, delay_ms: &str, idle_timeout: &str) -> Value {
    let entry = full_upstream(&["--asks-roots", delay_ms]);
    config_of([("g", merged(entry, json!({"lazy_startup": mode, "idle_timeout": idle_timeout, "cwd": "/"})))])
}

fn capabilities() -> Value {
    json!({"roots": {}})
}

/// Waits for the responses to these requests, and answers each request for roots meanwhile.
fn responses(proxy: &mut Proxy, requests: &[u64]) -> Vec<Value> {
    let mut responses = Vec::new();
    while responses.len() < requests.len() {
        let message = proxy.next_message().expect("stdout ended before a response");
        match message.method() {
            Some("roots/list") => proxy.respond(&message, ROOTS),
            Some(_) => {}
            None => {
                let message = message.json();
                if message["id"].as_u64().is_some_and(|id| requests.contains(&id)) {
                    responses.push(message);
                }
            }
        }
    }
    responses
}

fn call_echo(proxy: &mut Proxy) -> String {
    let call = proxy.send_call("g", "echo", json!({"text": "x"}));
    responses(proxy, &[call])[0].to_string()
}

#[test]
fn the_first_requests_after_each_start_see_the_roots() {
    for mode in ["pure", "hybrid", "eager"] {
        let mut proxy = Proxy::with_capabilities(&config(mode, "0", "200ms"), capabilities());
        let starts = if mode == "eager" { 1 } else { 3 };
        for start in 0..starts {
            let call = proxy.send_call("g", "echo", json!({"text": "x"}));
            let read = proxy.send_request("resources/read", json!({"uri": "mem://one", "group": "g"}));
            let get = proxy.send_request("prompts/get", json!({"name": "greet", "group": "g"}));
            for response in responses(&mut proxy, &[call, read, get]) {
                let is_answer = response.get("result").is_some() && !response.to_string().contains(DENIED);
                assert!(is_answer, "{mode}, start {start}: {response}");
            }
            if starts > 1 {
                proxy.wait_for_state("g", "discovered");
            }
        }
    }
}

#[test]
fn a_server_that_asks_late_is_waited_for_at_its_next_start() {
    let cache = TempDir::new().unwrap();
    let start = || {
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        let mut proxy = command.config(&config("pure", "300", "2s")).start();
        proxy.handshake_with(capabilities());
        proxy
    };
    let mut first = start();
    assert!(call_echo(&mut first).contains(DENIED), "nobody knows yet that it asks");
    let question = first.wait_for_message("roots/list");
    first.respond(&question, ROOTS);
    let index = cache_dir_in(cache.path()).join("index.json");
    wait_until("the cache says that it asks", || {
        fs::read_to_string(&index).is_ok_and(|index| index.contains(r#""asks_for_roots":true"#))
    });
    first.close_stdin();
    first.wait_for_exit();
    let mut second = start();
    assert!(!call_echo(&mut second).contains(DENIED), "the cache knows it");
    second.wait_for_state("g", "discovered");
    assert!(!call_echo(&mut second).contains(DENIED), "and so does its last start");
}

#[test]
fn a_client_that_does_not_answer_delays_the_first_request_by_a_second() {
    let mut proxy = Proxy::with_capabilities(&config("pure", "0", "0"), capabilities());
    let sent = tokio::time::Instant::now();
    let call = proxy.send_call("g", "echo", json!({"text": "x"}));
    let response = proxy.response(call);
    let took = sent.elapsed();
    assert!(response.line.contains(DENIED), "{}", response.line);
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&took), "{took:?}");
}

#[test]
fn a_server_that_never_asks_gets_its_first_request_at_once() {
    // A busy machine may delay one of them.
    wait_until("a first call is quick", || {
        let entry = merged(full_upstream(&[]), json!({"lazy_startup": "eager"}));
        let mut proxy = Proxy::with_capabilities(&config_of([("g", entry)]), capabilities());
        proxy.wait_for_state("g", "connected");
        let sent = tokio::time::Instant::now();
        call_echo(&mut proxy);
        sent.elapsed() < Duration::from_millis(90)
    });
}

#[test]
fn a_stateless_client_is_asked_through_the_call_that_started_the_server() {
    let mut proxy = ProxyCommand::new().config(&config("pure", "0", "0")).start();
    let params = json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": "echo", "args": {"text": "x"}}});
    let mut call = |params: Value| {
        let id = proxy.send_stateless_request(&capabilities(), "tools/call", params);
        proxy.response(id).json()["result"].take()
    };
    let asked = call(params.clone());
    let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "roots/list");
    let roots = json!({"roots": [{"uri": "file:///r"}]});
    let answer = json!({"requestState": asked["requestState"], "inputResponses": {key: roots}});
    let result = call(merged(params, answer));
    assert!(result["resultType"] == "complete" && !result.to_string().contains(DENIED), "{result}");
}
