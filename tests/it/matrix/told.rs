//! Notifications, and what makes them come.

use super::session::Session;
use super::{Outcomes, by_form, is_stateless, refused};

pub(super) const METHODS: [&str; 9] = [
    "`notifications/progress`",
    "`notifications/message`",
    "`notifications/cancelled` of the client",
    "`notifications/resources/updated`, after `resources/subscribe` or `subscriptions/listen`",
    "`notifications/tools/list_changed`",
    "`notifications/resources/list_changed`",
    "`notifications/prompts/list_changed`",
    "`notifications/elicitation/complete` and others",
    "`resources/unsubscribe`, or the end of a subscription",
];

pub(super) fn probe(session: &mut Session, upstream: &str) -> Outcomes {
    let is_same = is_stateless(session.revision) == is_stateless(upstream);
    let listening = subscribe(session, upstream);
    let mut outcomes =
        vec![progress(session, upstream), message(session, upstream), cancelled(session, upstream)];
    outcomes.push(match &listening {
        Ok(_) => updated(session, upstream),
        Err(outcome) => outcome.clone(),
    });
    outcomes.extend(list_changed(session, upstream));
    outcomes.push(told(
        session,
        upstream,
        "notifications/elicitation/complete",
        r#"{"elicitationId":"\u00e9","x":1e400}"#,
        is_same,
    ));
    outcomes.push(match listening {
        Ok(id) => unsubscribe(session, upstream, id),
        Err(outcome) => outcome,
    });
    METHODS.into_iter().zip(outcomes).collect()
}

/// The id of the request that subscribed, or what became of it.
fn subscribe(session: &mut Session, upstream: &str) -> Result<u64, String> {
    if !is_stateless(session.revision) {
        let id =
            session.send("resources/subscribe", "", &format!(r#""group":"{upstream}","uri":"mem://one""#));
        return session.proxy.answer(id).code().map_or(Ok(id), |code| Err(refused(code)));
    }
    let wanted = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["mem://one"]}"#;
    let members = format!(r#""group":"{upstream}","notifications":{wanted}"#);
    let id = session.send("subscriptions/listen", "", &members);
    loop {
        let message = session.next();
        if message.method() == Some("notifications/subscriptions/acknowledged") {
            return Ok(id);
        }
        if message.id() == Some(&id.to_string()) {
            return Err(refused(message.code().unwrap()));
        }
    }
}

fn progress(session: &mut Session, upstream: &str) -> String {
    let token = r#""the \u00e9""#;
    let id =
        session.send_call(upstream, "progress", r#"{"n":3}"#, &format!(r#""progressToken":{token}"#), "");
    let mut heard = 0;
    loop {
        let message = session.next();
        if message.id() == Some(&id.to_string()) {
            break;
        }
        heard += usize::from(message.line.contains(&format!(r#""progressToken":{token}"#)));
    }
    assert_eq!(heard, 3, "{upstream}");
    by_form(true)
}

/// Has the upstream say this, and looks whether it arrives as it was said.
fn told(session: &mut Session, upstream: &str, method: &str, params: &str, is_same: bool) -> String {
    let args = format!(r#"{{"method":"{method}","params":{params}}}"#);
    let id = session.send_call(upstream, "tell", &args, &session.hears("debug"), "");
    session.proxy.answer(id);
    let heard = session.heard().into_iter().find(|told| told.method() == Some(method));
    let Some(heard) = heard else { return "kept back".to_owned() };
    let members = params.trim_start_matches('{').trim_end_matches('}');
    assert!(heard.line.contains(members), "{members} in {}", heard.line);
    by_form(is_same)
}

fn message(session: &mut Session, upstream: &str) -> String {
    let params = r#"{"level":"error","logger":"\u00e9","data":{"n":1e400,"m":-0.0}}"#;
    told(session, upstream, "notifications/message", params, true)
}

fn updated(session: &mut Session, upstream: &str) -> String {
    let is_same = is_stateless(session.revision) == is_stateless(upstream);
    let params = r#"{"uri":"mem://one","x":1e400,"title":"\u00e9"}"#;
    told(session, upstream, "notifications/resources/updated", params, is_same)
}

fn cancelled(session: &mut Session, upstream: &str) -> String {
    let method = "notifications/cancelled";
    let before = session.records[upstream].lines(method).len();
    let id = session.send_call(upstream, "late", "{}", "", "");
    let params = format!(r#"{{"requestId":{id},"reason":"caf\u00e9","x":1e400}}"#);
    session.proxy.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    let told = session.records[upstream].line(method, before);
    assert!(told.line.contains(r#""reason":"caf\u00e9","x":1e400"#), "{}", told.line);
    by_form(true)
}

/// A list of each kind is made longer.
fn list_changed(session: &mut Session, upstream: &str) -> [String; 3] {
    let kinds = ["tools", "resources", "prompts"];
    let mut heard = [false; 3];
    for kind in kinds {
        session.text(upstream, "grow", &format!(r#"{{"list":"{kind}"}}"#));
    }
    // They are told at most once a second.
    for _ in 0..50 {
        for told in session.heard() {
            for (kind, heard) in kinds.iter().zip(&mut heard) {
                *heard |= told.method() == Some(&*format!("notifications/{kind}/list_changed"));
            }
        }
        // The first may never be: our own list is not made of its tools.
        if heard[1..] == [true; 2] {
            break;
        }
        session.text(upstream, "sleep", r#"{"ms":400}"#);
    }
    let is_same = is_stateless(session.revision) == is_stateless(upstream);
    heard.map(|heard| if heard { by_form(is_same) } else { "kept back".to_owned() })
}

fn unsubscribe(session: &mut Session, upstream: &str, listening: u64) -> String {
    let is_same = is_stateless(session.revision) == is_stateless(upstream);
    if is_stateless(session.revision) {
        session.proxy.notify("notifications/cancelled", serde_json::json!({"requestId": listening}));
    } else {
        let answer =
            session.ask("resources/unsubscribe", &format!(r#""group":"{upstream}","uri":"mem://one""#));
        if let Some(code) = answer.code() {
            return refused(code);
        }
    }
    let params = r#"{"uri":"mem://one","after":1}"#;
    let after = told(session, upstream, "notifications/resources/updated", params, is_same);
    // To a client of the handshake era what an upstream says unasked passes.
    assert!(after == "kept back" || !is_stateless(session.revision), "it was ended: {after}");
    by_form(is_same)
}
