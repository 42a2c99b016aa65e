//! Requests of upstreams to the client: elicitation, sampling and roots, with their responses, progress and cancellation.

use serde_json::{Value, json};

use super::{full_config, recorded_config, same_uris_config};
use crate::support::{InputRecord, Message, Proxy, ProxyCommand, full_upstream, pure_config, text_of};

const ELICIT: &str = "elicitation/create";

/// The capabilities of a client that answers every kind of request.
fn all_capabilities() -> Value {
    json!({"roots": {"listChanged": true}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}})
}

/// Makes an upstream send a request to the client. Returns the id of the call that did, and the request that arrived.
fn make_upstream_request(proxy: &mut Proxy, group: &str, method: &str, params: &str) -> (u64, Message) {
    let call = proxy.send_raw_call(group, "ask", &format!(r#"{{"method":"{method}","params":{params}}}"#));
    (call, proxy.wait_for_message(method))
}

/// Waits for the end of that call, and returns the line of the response that the upstream received.
fn upstream_response(proxy: &mut Proxy, call: u64) -> String {
    text_of(&proxy.response(call).json()["result"]).to_owned()
}

#[test]
fn an_upstream_is_offered_only_the_capabilities_of_the_client() {
    for (declared, offered) in [
        ("{}", "{}"),
        (r#"{"sampling":{}}"#, r#"{"sampling":{}}"#),
        (
            r#"{"experimental":{"a":1},"elicitation":{"form":{},"x":1e400},"roots":{"listChanged":true},"tasks":{},"other":1}"#,
            r#"{"roots":{"listChanged":true},"elicitation":{"form":{},"x":1e400},"tasks":{},"experimental":{"a":1}}"#,
        ),
    ] {
        let record = InputRecord::new();
        let mut proxy = ProxyCommand::new().config(&recorded_config(&record)).start();
        let id = proxy.send_raw_request(
            "initialize",
            &format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{declared}}}"#),
        );
        proxy.response(id);
        proxy.notify("notifications/initialized", json!({}));
        proxy.upstream_pid("g");
        let line = record.wait_for("initialize", 0).line;
        assert!(line.contains(&format!(r#""capabilities":{offered}"#)), "{line}");
    }
}

#[test]
fn requests_without_the_clients_capability_are_refused_by_the_program() {
    let methods = [("roots", "roots/list"), ("sampling", "sampling/createMessage"), ("elicitation", ELICIT)];
    for (declared, _) in methods {
        let mut proxy = Proxy::with_capabilities(&full_config(&[]), json!({declared: {}}));
        for (capability, method) in methods {
            if capability == declared {
                let (call, request) = make_upstream_request(&mut proxy, "g", method, "{}");
                proxy.respond(&request, r#""result":{"ok":1.0}"#);
                assert!(upstream_response(&mut proxy, call).ends_with(r#""result":{"ok":1.0}}"#));
            } else {
                let call = proxy.send_raw_call("g", "ask", &format!(r#"{{"method":"{method}"}}"#));
                assert!(upstream_response(&mut proxy, call).contains("-32601"), "{method}");
                // All messages that were sent before arrive before the response to this ping.
                let ping = proxy.send_request("ping", json!({})).to_string();
                while let Some(message) = proxy.next_message().filter(|message| message.id() != Some(&ping)) {
                    assert_ne!(message.method(), Some(method));
                }
            }
        }
    }
}

#[test]
fn requests_and_responses_pass_byte_for_byte() {
    let mut proxy = Proxy::with_capabilities(&full_config(&[]), all_capabilities());
    let members = r#""x":{"huge":1e400,"big":123456789012345678901234567890,"m":-0.0,"null":null,"e":"\u00e9 é \ud800"}"#;
    let asked = r#""message":"?","#;
    let named = r#""message":"[g] ?","#;
    for (method, given, sent, group) in [
        ("roots/list", "", "", ""),
        ("sampling/createMessage", "", "", r#","dynamic-mcp/group":"g""#),
        (ELICIT, asked, named, ""),
    ] {
        for outcome in [
            format!(r#""result":{{"action":"accept","content":{{"n":1.10}},{members}}}"#),
            format!(
                r#""error":{{"code":-1,"message":"User \u00e9 rejected","data":{{{members}}},"z":1e400}}"#
            ),
            r#""error":{"code":123456789012,"message":"","data":null}"#.to_owned(),
            r#""result":null"#.to_owned(),
        ] {
            let params =
                |own: &str, group: &str| format!("{{{own}{members},\"_meta\":{{\"a\":[1E+2]{group}}}}}");
            let (call, request) = make_upstream_request(&mut proxy, "g", method, &params(given, ""));
            assert_eq!(request.raw("params"), Some(&*params(sent, group)), "{method}");
            proxy.respond(&request, &outcome);
            let line = upstream_response(&mut proxy, call);
            assert!(line.ends_with(&format!("{outcome}}}")), "{outcome} in {line}");
        }
    }
}

#[test]
fn the_message_of_an_elicitation_begins_with_its_group() {
    let mut proxy =
        Proxy::with_capabilities(&pure_config([("my group", full_upstream(&[]))]), all_capabilities());
    for (sent, expected) in [
        (r#"{"mode":"form","message":"Caf\u00e9 \"now\"?","x":1e400}"#, "[my group] Café \"now\"?"),
        (r#"{"mode":"url","url":"https://e","message":"","elicitationId":"1"}"#, "[my group] "),
        (r#"{"mode":"form","requestedSchema":{},"x":1e400}"#, "[my group] asks for input"),
        (r#"{"mode":"form","message":["Pin?"]}"#, r#"[my group] ["Pin?"]"#),
        (r#"{"message":"a\n\u001b[2K\r[bank] \u202epin"}"#, "[my group] a\n\\u{1b}[2K\\r[bank] \\u{202e}pin"),
    ] {
        let (call, request) = make_upstream_request(&mut proxy, "my group", ELICIT, sent);
        let params = request.raw("params").unwrap();
        let message = serde_json::to_string(expected).unwrap();
        assert!(params.contains(&format!(r#""message":{message}"#)), "{params}");
        assert_eq!(params.contains("1e400"), sent.contains("1e400"), "{params}");
        proxy.respond(&request, r#""result":{"action":"decline"}"#);
        assert!(upstream_response(&mut proxy, call).contains("decline"));
    }
}

#[test]
fn concurrent_requests_of_upstreams_may_have_the_same_ids() {
    let entry = full_upstream(&["--number-ids"]);
    let mut proxy =
        Proxy::with_capabilities(&pure_config([("g", entry.clone()), ("h", entry)]), all_capabilities());
    let calls: Vec<_> = ["g", "h", "g", "h"]
        .into_iter()
        .enumerate()
        .map(|(n, group)| {
            let (call, request) = make_upstream_request(
                &mut proxy,
                group,
                "sampling/createMessage",
                &format!(r#"{{"n":{n}}}"#),
            );
            let named = format!(r#"{{"n":{n},"_meta":{{"dynamic-mcp/group":"{group}"}}}}"#);
            assert_eq!(request.raw("params"), Some(&*named));
            (n, call, request)
        })
        .collect();
    for (n, _, request) in calls.iter().rev() {
        assert_eq!(calls.iter().filter(|(_, _, other)| other.id() == request.id()).count(), 1);
        proxy.respond(request, &format!(r#""result":{{"answer":{n}}}"#));
    }
    for (n, call, _) in calls {
        let line = upstream_response(&mut proxy, call);
        assert!(line.contains(&format!(r#""result":{{"answer":{n}}}"#)), "{n}: {line}");
    }
}

#[test]
fn an_unanswered_request_does_not_block_others() {
    let mut proxy = Proxy::with_capabilities(&same_uris_config(), all_capabilities());
    make_upstream_request(&mut proxy, "g", ELICIT, r#"{"message":"?"}"#);
    for group in ["g", "h"] {
        assert_eq!(proxy.call_text(group, "echo", json!({"text": "x"})), "x");
        let (call, request) = make_upstream_request(&mut proxy, group, "roots/list", "{}");
        proxy.respond(&request, r#""result":{"roots":[]}"#);
        assert!(upstream_response(&mut proxy, call).contains(r#"{"roots":[]}"#));
    }
}

#[test]
fn an_upstream_can_cancel_its_request() {
    let mut proxy = Proxy::with_capabilities(&full_config(&[]), all_capabilities());
    let (call, request) = make_upstream_request(&mut proxy, "g", ELICIT, r#"{"message":"?"}"#);
    proxy.call_text("g", "cancel_asked", json!({}));
    let cancelled = proxy.wait_for_message("notifications/cancelled");
    let expected =
        format!(r#"{{"requestId":{},"reason":"no longer needed","x":1e400}}"#, request.id().unwrap());
    assert_eq!(cancelled.raw("params"), Some(&*expected));
    assert_eq!(upstream_response(&mut proxy, call), "cancelled");
    // A late response is dropped.
    proxy.respond(&request, r#""result":{"action":"accept"}"#);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
}

#[test]
fn progress_of_the_client_reaches_the_upstream_with_its_token() {
    let record = InputRecord::new();
    let mut proxy = Proxy::with_capabilities(&recorded_config(&record), all_capabilities());
    for (n, token) in [r#""their \u00e9""#, "7"].into_iter().enumerate() {
        let params = format!(r#"{{"message":"?","_meta":{{"progressToken":{token},"x":1.0}}}}"#);
        let (call, request) = make_upstream_request(&mut proxy, "g", ELICIT, &params);
        assert!(request.raw("params").unwrap().contains(r#""x":1.0"#), "{}", request.line);
        let our_token = request.json()["params"]["_meta"]["progressToken"].take();
        proxy.write_line(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{our_token},"progress":0.50,"x":1e400}}}}"#));
        let notification = record.wait_for("notifications/progress", n);
        assert_eq!(
            notification.raw("params"),
            Some(&*format!(r#"{{"progressToken":{token},"progress":0.50,"x":1e400}}"#))
        );
        proxy.respond(&request, r#""result":{"action":"accept"}"#);
        assert!(upstream_response(&mut proxy, call).contains("accept"));
    }
}

#[test]
fn changed_roots_are_reported_to_connected_groups() {
    let (g, h) = (InputRecord::new(), InputRecord::new());
    let mut proxy = Proxy::with_capabilities(
        &pure_config([("g", g.attached_to(full_upstream(&[]))), ("h", h.attached_to(full_upstream(&[])))]),
        all_capabilities(),
    );
    proxy.upstream_pid("g");
    proxy.write_line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"x":1e400}}"#);
    let notification = g.wait_for("notifications/roots/list_changed", 0);
    assert_eq!(notification.raw("params"), Some(r#"{"x":1e400}"#));
    assert!(h.lines_of("initialize").is_empty(), "the notification starts no group");
}

#[test]
fn the_request_of_a_crashed_upstream_is_cancelled() {
    let mut proxy = Proxy::with_capabilities(&full_config(&[]), all_capabilities());
    let (_, request) = make_upstream_request(&mut proxy, "g", ELICIT, r#"{"message":"?"}"#);
    proxy.call_failure("g", "crash", json!({}));
    let cancelled = proxy.wait_for_message("notifications/cancelled").json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), request.id().unwrap());
}

#[test]
fn requests_with_methods_that_clients_do_not_have_are_refused() {
    let mut proxy = Proxy::with_capabilities(&full_config(&[]), all_capabilities());
    proxy.upstream_pid("g");
    proxy.next_server_message();
    proxy.next_server_message();
    for method in ["tools/list", "x/unknown", "tasks/get"] {
        let call = proxy.send_raw_call("g", "ask", &format!(r#"{{"method":"{method}"}}"#));
        assert!(upstream_response(&mut proxy, call).contains("-32601"), "{method}");
        proxy.assert_no_message();
    }
}

#[test]
fn requests_of_an_upstream_over_the_limit_are_refused_and_its_responses_still_arrive() {
    let mut proxy = Proxy::with_capabilities(&full_config(&[]), json!({"roots": {}}));
    for _ in 0..300 {
        proxy.send_call("g", "ask", json!({"method": "roots/list"}));
    }
    let echo = proxy.send_call("g", "echo", json!({"text": "x"})).to_string();
    // The upstream sends its requests from many threads, so any of them may be refused.
    let (mut is_refused, mut is_answered) = (false, false);
    while !(is_refused && is_answered) {
        let message = proxy.next_message().unwrap();
        is_refused |= message.line.contains("too many open requests");
        is_answered |= message.id() == Some(&*echo) && message.method().is_none();
    }
}
