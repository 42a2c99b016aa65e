//! What upstreams ask the client: elicitation, sampling, roots.

use serde_json::{Value, json};

use super::{Record, all, client, heard, hears_nothing, reply, said, send_tool};
use crate::support::{Message, Proxy, Setup, servers, text_of};

const ELICIT: &str = "elicitation/create";

fn everything() -> Value {
    json!({"roots": {"listChanged": true}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}})
}

/// Has `group` ask `method` and gives what arrives at the client.
fn ask(proxy: &mut Proxy, group: &str, method: &str, params: &str) -> (u64, Message) {
    let call = send_tool(proxy, group, "ask", &format!(r#"{{"method":"{method}","params":{params}}}"#));
    (call, heard(proxy, method))
}

/// The line that the upstream had for an answer.
fn answered(proxy: &mut Proxy, call: u64) -> String {
    text_of(&proxy.answer(call).json()["result"]).to_owned()
}

#[test]
fn an_upstream_is_offered_what_the_client_declared_and_nothing_else() {
    for (declared, offered) in [
        ("{}", "{}"),
        (r#"{"sampling":{}}"#, r#"{"sampling":{}}"#),
        (
            r#"{"experimental":{"a":1},"elicitation":{"form":{},"x":1e400},"roots":{"listChanged":true},"tasks":{}}"#,
            r#"{"roots":{"listChanged":true},"elicitation":{"form":{},"x":1e400},"tasks":{}}"#,
        ),
    ] {
        let record = Record::new();
        let mut proxy = Setup::new().config(&servers([("g", record.of(all(&[])))])).start();
        let id = proxy.send_raw(
            "initialize",
            &format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{declared}}}"#),
        );
        proxy.answer(id);
        proxy.notify("notifications/initialized", json!({}));
        proxy.upstream_pid("g");
        let line = record.line("initialize", 0).line;
        assert!(line.contains(&format!(r#""capabilities":{offered}"#)), "{line}");
    }
}

#[test]
fn what_the_client_did_not_declare_it_is_not_asked() {
    let methods = [("roots", "roots/list"), ("sampling", "sampling/createMessage"), ("elicitation", ELICIT)];
    for (declared, _) in methods {
        let mut proxy = client(&servers([("g", all(&[]))]), json!({declared: {}}));
        for (capability, method) in methods {
            if capability == declared {
                let (call, asked) = ask(&mut proxy, "g", method, "{}");
                reply(&mut proxy, &asked, r#""result":{"ok":1.0}"#);
                assert!(answered(&mut proxy, call).ends_with(r#""result":{"ok":1.0}}"#));
            } else {
                let call = send_tool(&mut proxy, "g", "ask", &format!(r#"{{"method":"{method}"}}"#));
                assert!(answered(&mut proxy, call).contains("-32601"), "{method}");
                // Whatever the client was told until now comes before the answer to this.
                let ping = proxy.send("ping", json!({})).to_string();
                while let Some(told) = proxy.next().filter(|told| told.id() != Some(&ping)) {
                    assert_ne!(told.method(), Some(method));
                }
            }
        }
    }
}

#[test]
fn questions_and_answers_pass_byte_for_byte() {
    let mut proxy = client(&servers([("g", all(&[]))]), everything());
    let weird = r#""x":{"huge":1e400,"big":123456789012345678901234567890,"m":-0.0,"null":null,"e":"\u00e9 é \ud800"}"#;
    for method in ["roots/list", "sampling/createMessage", ELICIT] {
        for outcome in [
            format!(r#""result":{{"action":"accept","content":{{"n":1.10}},{weird}}}"#),
            format!(r#""error":{{"code":-1,"message":"User \u00e9 rejected","data":{{{weird}}},"z":1e400}}"#),
            r#""error":{"code":123456789012,"message":"","data":null}"#.to_owned(),
            r#""result":null"#.to_owned(),
        ] {
            let params = format!("{{{weird},\"_meta\":{{\"a\":[1E+2]}}}}");
            let (call, asked) = ask(&mut proxy, "g", method, &params);
            assert_eq!(asked.raw("params"), Some(&*params), "{method}");
            reply(&mut proxy, &asked, &outcome);
            let line = answered(&mut proxy, call);
            assert!(line.ends_with(&format!("{outcome}}}")), "{outcome} in {line}");
        }
    }
}

#[test]
fn an_elicitation_names_its_group() {
    let mut proxy = client(&servers([("my group", all(&[]))]), everything());
    for (sent, wanted) in [
        (r#"{"mode":"form","message":"Caf\u00e9 \"now\"?","x":1e400}"#, "[my group] Café \"now\"?"),
        (r#"{"mode":"url","url":"https://e","message":"","elicitationId":"1"}"#, "[my group] "),
    ] {
        let (call, asked) = ask(&mut proxy, "my group", ELICIT, sent);
        let params = asked.raw("params").unwrap();
        let message = serde_json::to_string(wanted).unwrap();
        assert!(params.contains(&format!(r#""message":{message}"#)), "{params}");
        assert_eq!(params.contains("1e400"), sent.contains("1e400"), "{params}");
        reply(&mut proxy, &asked, r#""result":{"action":"decline"}"#);
        assert!(answered(&mut proxy, call).contains("decline"));
    }
}

#[test]
fn several_upstreams_may_ask_at_once_under_the_same_ids() {
    let flags = all(&["--number-ids"]);
    let mut proxy = client(&servers([("g", flags.clone()), ("h", flags)]), everything());
    let calls: Vec<_> = ["g", "h", "g", "h"]
        .into_iter()
        .enumerate()
        .map(|(n, group)| {
            let (call, asked) = ask(&mut proxy, group, "sampling/createMessage", &format!(r#"{{"n":{n}}}"#));
            assert_eq!(asked.raw("params"), Some(&*format!(r#"{{"n":{n}}}"#)));
            (n, call, asked)
        })
        .collect();
    for (n, _, asked) in calls.iter().rev() {
        assert_eq!(calls.iter().filter(|(_, _, other)| other.id() == asked.id()).count(), 1);
        reply(&mut proxy, asked, &format!(r#""result":{{"answer":{n}}}"#));
    }
    for (n, call, _) in calls {
        let line = answered(&mut proxy, call);
        assert!(line.contains(&format!(r#""result":{{"answer":{n}}}"#)), "{n}: {line}");
    }
}

#[test]
fn a_question_that_is_never_answered_blocks_nothing_else() {
    let mut proxy = client(&servers([("g", all(&[])), ("h", all(&[]))]), everything());
    ask(&mut proxy, "g", ELICIT, r#"{"message":"?"}"#);
    for group in ["g", "h"] {
        assert_eq!(proxy.text(group, "echo", json!({"text": "x"})), "x");
        let (call, asked) = ask(&mut proxy, group, "roots/list", "{}");
        reply(&mut proxy, &asked, r#""result":{"roots":[]}"#);
        assert!(answered(&mut proxy, call).contains(r#"{"roots":[]}"#));
    }
}

#[test]
fn an_upstream_may_take_its_question_back() {
    let mut proxy = client(&servers([("g", all(&[]))]), everything());
    let (call, asked) = ask(&mut proxy, "g", ELICIT, r#"{"message":"?"}"#);
    proxy.text("g", "cancel_asked", json!({}));
    let cancelled = heard(&mut proxy, "notifications/cancelled");
    let wanted = format!(r#"{{"requestId":{},"reason":"no longer needed","x":1e400}}"#, asked.id().unwrap());
    assert_eq!(cancelled.raw("params"), Some(&*wanted));
    assert_eq!(answered(&mut proxy, call), "cancelled");
    // A late answer goes nowhere.
    reply(&mut proxy, &asked, r#""result":{"action":"accept"}"#);
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
}

#[test]
fn a_client_tells_the_upstream_how_far_its_answer_is() {
    let record = Record::new();
    let mut proxy = client(&servers([("g", record.of(all(&[])))]), everything());
    for (n, token) in [r#""their \u00e9""#, "7"].into_iter().enumerate() {
        let params = format!(r#"{{"message":"?","_meta":{{"progressToken":{token},"x":1.0}}}}"#);
        let (call, asked) = ask(&mut proxy, "g", ELICIT, &params);
        assert!(asked.raw("params").unwrap().contains(r#""x":1.0"#), "{}", asked.line);
        let ours = asked.json()["params"]["_meta"]["progressToken"].take();
        proxy.line(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{ours},"progress":0.50,"x":1e400}}}}"#));
        let told = record.line("notifications/progress", n);
        assert_eq!(
            told.raw("params"),
            Some(&*format!(r#"{{"progressToken":{token},"progress":0.50,"x":1e400}}"#))
        );
        reply(&mut proxy, &asked, r#""result":{"action":"accept"}"#);
        assert!(answered(&mut proxy, call).contains("accept"));
    }
}

#[test]
fn changed_roots_are_told_to_connected_groups() {
    let (g, h) = (Record::new(), Record::new());
    let mut proxy = client(&servers([("g", g.of(all(&[]))), ("h", h.of(all(&[])))]), everything());
    proxy.upstream_pid("g");
    proxy.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"x":1e400}}"#);
    let told = g.line("notifications/roots/list_changed", 0);
    assert_eq!(told.raw("params"), Some(r#"{"x":1e400}"#));
    assert!(h.lines("initialize").is_empty(), "it is not started for that");
}

#[test]
fn a_question_ends_with_the_upstream_that_asked_it() {
    let mut proxy = client(&servers([("g", all(&[]))]), everything());
    let (_, asked) = ask(&mut proxy, "g", ELICIT, r#"{"message":"?"}"#);
    proxy.failure("g", "crash", json!({}));
    let cancelled = heard(&mut proxy, "notifications/cancelled").json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), asked.id().unwrap());
}

#[test]
fn methods_that_are_no_clients_are_refused() {
    let mut proxy = client(&servers([("g", all(&[]))]), everything());
    proxy.upstream_pid("g");
    said(&mut proxy);
    said(&mut proxy);
    for method in ["tools/list", "x/unknown", "tasks/get"] {
        let call = send_tool(&mut proxy, "g", "ask", &format!(r#"{{"method":"{method}"}}"#));
        assert!(answered(&mut proxy, call).contains("-32601"), "{method}");
        hears_nothing(&mut proxy);
    }
}

#[test]
fn an_upstream_that_asks_without_end_is_still_heard() {
    let mut proxy = client(&servers([("g", all(&[]))]), json!({"roots": {}}));
    for _ in 0..300 {
        proxy.send_call("g", "ask", json!({"method": "roots/list"}));
    }
    let echo = proxy.send_call("g", "echo", json!({"text": "x"})).to_string();
    // Which of them are refused is the upstream's affair, that asks from many threads.
    let (mut refused, mut heard) = (false, false);
    while !(refused && heard) {
        let message = proxy.next().unwrap();
        refused |= message.line.contains("too many requests are open");
        heard |= message.id() == Some(&*echo) && message.method().is_none();
    }
}
