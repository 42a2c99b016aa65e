//! Tasks: those of revision 2025-11-25, and those of the extension of revision 2026-07-28.

use serde_json::Value;

use super::session::Session;
use super::{Outcomes, is_stateless, kept_back, not_applicable, passes_or_bridged, refused};
use crate::support::Message;

pub(super) const METHODS: [&str; 6] = [
    "`tools/call` as a task",
    "`tasks/get`",
    "`tasks/result`, `tasks/update`",
    "`tasks/list`",
    "`tasks/cancel`",
    "`notifications/tasks/status`, `notifications/tasks`",
];

pub(super) fn observe(session: &mut Session, upstream: &str) -> Outcomes {
    let outcomes = match exist_in(upstream) {
        true => observe_with_tasks(session, upstream),
        false => [(); 6].map(|()| not_applicable()),
    };
    METHODS.into_iter().zip(outcomes).collect()
}

/// Whether a revision has tasks.
pub(super) fn exist_in(revision: &str) -> bool {
    ["2025-11-25", "2026-07-28"].contains(&revision)
}

/// Makes a call as a task. Returns the task, or the outcome if there is none.
fn create_task(session: &mut Session, upstream: &str, args: &str) -> Result<Value, String> {
    let task = if is_stateless(session.revision) { "" } else { r#","task":{"ttl":60000}"# };
    let id = session.send_call(upstream, "task_optional", args, "", task);
    let response = session.proxy.response(id);
    let result = response.json()["result"].take();
    match (response.error_code(), &result["task"]["taskId"], &result["taskId"]) {
        (Some(code), ..) => Err(refused(code)),
        (_, Value::String(_), _) => Ok(result["task"].clone()),
        (_, _, Value::String(_)) => Ok(result),
        _ => Err("answered at once".to_owned()),
    }
}

fn observe_with_tasks(session: &mut Session, upstream: &str) -> [String; 6] {
    let is_same_era = is_stateless(session.revision) == is_stateless(upstream);
    let task = match create_task(session, upstream, r#"{"outcome":"isError"}"#) {
        Ok(task) => task,
        // Without a task there is nothing to observe for the other methods.
        Err(outcome) => return [&*outcome, "–", "–", "–", "–", "–"].map(str::to_owned),
    };
    let id = format!(r#""taskId":{}"#, task["taskId"]);
    let outcome = |code: Option<i64>| code.map_or_else(|| passes_or_bridged(is_same_era), refused);
    let get = session.request("tasks/get", &id).error_code();
    let method = if is_stateless(session.revision) { "tasks/update" } else { "tasks/result" };
    let result = session.request(method, &format!(r#"{id},"inputResponses":{{}}"#)).error_code();
    let list = session.request("tasks/list", "").error_code();
    let held = create_task(session, upstream, r#"{"hold":true}"#).unwrap();
    let cancel = session.request("tasks/cancel", &format!(r#""taskId":{}"#, held["taskId"])).error_code();
    let status =
        if status_is_forwarded(session, upstream) { passes_or_bridged(is_same_era) } else { kept_back() };
    [passes_or_bridged(is_same_era), outcome(get), outcome(result), outcome(list), outcome(cancel), status]
}

/// Whether the client receives the status notifications of a task.
fn status_is_forwarded(session: &mut Session, upstream: &str) -> bool {
    let task = create_task(session, upstream, r#"{"hold":true}"#).unwrap();
    let id = task["taskId"].to_string();
    if is_stateless(session.revision) {
        let filter = format!(r#""group":"{upstream}","notifications":{{"taskIds":[{id}]}}"#);
        session.send_request("subscriptions/listen", "", &filter);
        session.received_messages();
    }
    session.call_text(upstream, "release", "{}");
    (0..100).any(|_| {
        let is_status = |message: &Message| {
            message.method().is_some_and(|name| name.starts_with("notifications/tasks"))
                && message.line.contains(&id)
        };
        let is_forwarded = session.received_messages().iter().any(is_status);
        if !is_forwarded {
            session.call_text(upstream, "sleep", r#"{"ms":100}"#);
        }
        is_forwarded
    })
}
