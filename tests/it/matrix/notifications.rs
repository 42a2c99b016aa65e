//! Notifications, and the subscriptions that cause them.

use super::session::Session;
use super::{Outcomes, is_stateless, kept_back, passes_or_bridged, refused};

pub(super) const METHODS: [&str; 9] = [
    "`notifications/progress`",
    "`notifications/message`",
    "`notifications/cancelled` from the client",
    "`notifications/resources/updated`, after `resources/subscribe` or `subscriptions/listen`",
    "`notifications/tools/list_changed`",
    "`notifications/resources/list_changed`",
    "`notifications/prompts/list_changed`",
    "`notifications/elicitation/complete` and others",
    "`resources/unsubscribe`, or the end of a subscription",
];

pub(super) fn observe(session: &mut Session, upstream: &str) -> Outcomes {
    let is_same_era = is_stateless(session.revision) == is_stateless(upstream);
    let subscription = subscribe(session, upstream);
    let mut outcomes =
        vec![progress(session, upstream), log_message(session, upstream), cancellation(session, upstream)];
    outcomes.push(match &subscription {
        Ok(_) => resource_update(session, upstream),
        Err(outcome) => outcome.clone(),
    });
    outcomes.extend(list_changes(session, upstream));
    outcomes.push(forwarded(
        session,
        upstream,
        "notifications/elicitation/complete",
        r#"{"elicitationId":"\u00e9","x":1e400}"#,
        is_same_era,
    ));
    outcomes.push(match subscription {
        Ok(id) => unsubscribe(session, upstream, id),
        Err(outcome) => outcome,
    });
    METHODS.into_iter().zip(outcomes).collect()
}

/// Subscribes to a resource. Returns the id of the request, or the outcome if it was refused.
fn subscribe(session: &mut Session, upstream: &str) -> Result<u64, String> {
    if !is_stateless(session.revision) {
        let members = format!(r#""group":"{upstream}","uri":"mem://one""#);
        let id = session.send_request("resources/subscribe", "", &members);
        return session.proxy.response(id).error_code().map_or(Ok(id), |code| Err(refused(code)));
    }
    let filter = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["mem://one"]}"#;
    let members = format!(r#""group":"{upstream}","notifications":{filter}"#);
    let id = session.send_request("subscriptions/listen", "", &members);
    loop {
        let message = session.next_message();
        if message.method() == Some("notifications/subscriptions/acknowledged") {
            return Ok(id);
        }
        if message.id() == Some(&id.to_string()) {
            return Err(refused(message.error_code().unwrap()));
        }
    }
}

fn progress(session: &mut Session, upstream: &str) -> String {
    let token = r#""the \u00e9""#;
    let meta = format!(r#""progressToken":{token}"#);
    let id = session.send_call(upstream, "progress", r#"{"n":3}"#, &meta, "");
    let mut count = 0;
    loop {
        let message = session.next_message();
        if message.id() == Some(&id.to_string()) {
            break;
        }
        count += usize::from(message.line.contains(&meta));
    }
    assert_eq!(count, 3, "{upstream}");
    passes_or_bridged(true)
}

/// Makes the upstream send a notification, and asserts that its params arrive unchanged if it is forwarded.
fn forwarded(
    session: &mut Session,
    upstream: &str,
    method: &str,
    params: &str,
    is_same_form: bool,
) -> String {
    let args = format!(r#"{{"method":"{method}","params":{params}}}"#);
    let id = session.send_call(upstream, "tell", &args, &session.log_level_member("debug"), "");
    session.proxy.response(id);
    let received = session.received_messages();
    let Some(notification) = received.into_iter().find(|message| message.method() == Some(method)) else {
        return kept_back();
    };
    let members = params.trim_start_matches('{').trim_end_matches('}');
    assert!(notification.line.contains(members), "{members} in {}", notification.line);
    passes_or_bridged(is_same_form)
}

fn log_message(session: &mut Session, upstream: &str) -> String {
    let params = r#"{"level":"error","logger":"\u00e9","data":{"n":1e400,"m":-0.0}}"#;
    forwarded(session, upstream, "notifications/message", params, true)
}

fn resource_update(session: &mut Session, upstream: &str) -> String {
    let is_same_era = is_stateless(session.revision) == is_stateless(upstream);
    let params = r#"{"uri":"mem://one","x":1e400,"title":"\u00e9"}"#;
    forwarded(session, upstream, "notifications/resources/updated", params, is_same_era)
}

fn cancellation(session: &mut Session, upstream: &str) -> String {
    let method = "notifications/cancelled";
    let before = session.records[upstream].lines_of(method).len();
    let id = session.send_call(upstream, "late", "{}", "", "");
    let params = format!(r#"{{"requestId":{id},"reason":"caf\u00e9","x":1e400}}"#);
    session.proxy.write_line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    let notification = session.records[upstream].wait_for(method, before);
    assert!(notification.line.contains(r#""reason":"caf\u00e9","x":1e400"#), "{}", notification.line);
    passes_or_bridged(true)
}

/// Adds an entry to each list of the upstream.
fn list_changes(session: &mut Session, upstream: &str) -> [String; 3] {
    let lists = ["tools", "resources", "prompts"];
    let mut is_forwarded = [false; 3];
    for list in lists {
        session.call_text(upstream, "grow", &format!(r#"{{"list":"{list}"}}"#));
    }
    // Changes are reported at most once a second.
    for _ in 0..50 {
        for message in session.received_messages() {
            for (list, is_forwarded) in lists.iter().zip(&mut is_forwarded) {
                *is_forwarded |= message.method() == Some(&*format!("notifications/{list}/list_changed"));
            }
        }
        // Tools may never be reported, because our own list does not have them.
        if is_forwarded[1..] == [true; 2] {
            break;
        }
        session.call_text(upstream, "sleep", r#"{"ms":400}"#);
    }
    let is_same_era = is_stateless(session.revision) == is_stateless(upstream);
    is_forwarded.map(|is_forwarded| if is_forwarded { passes_or_bridged(is_same_era) } else { kept_back() })
}

/// Ends the subscription that the request with this id made.
fn unsubscribe(session: &mut Session, upstream: &str, id: u64) -> String {
    let is_same_era = is_stateless(session.revision) == is_stateless(upstream);
    if is_stateless(session.revision) {
        session.proxy.notify("notifications/cancelled", serde_json::json!({"requestId": id}));
    } else {
        let members = format!(r#""group":"{upstream}","uri":"mem://one""#);
        if let Some(code) = session.request("resources/unsubscribe", &members).error_code() {
            return refused(code);
        }
    }
    let params = r#"{"uri":"mem://one","after":1}"#;
    let after = forwarded(session, upstream, "notifications/resources/updated", params, is_same_era);
    // A client with a handshake gets every notification of an upstream.
    assert!(after == kept_back() || !is_stateless(session.revision), "the subscription has ended: {after}");
    passes_or_bridged(is_same_era)
}
