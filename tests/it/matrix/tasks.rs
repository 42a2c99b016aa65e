//! Tasks: those of 2025-11-25 and those of the extension of 2026-07-28.

use serde_json::Value;

use super::session::Session;
use super::{Outcomes, by_form, is_stateless, refused};
use crate::support::Message;

pub(super) const METHODS: [&str; 6] = [
    "`tools/call` as a task",
    "`tasks/get`",
    "`tasks/result`, `tasks/update`",
    "`tasks/list`",
    "`tasks/cancel`",
    "`notifications/tasks/status`, `notifications/tasks`",
];

pub(super) fn probe(session: &mut Session, upstream: &str) -> Outcomes {
    let outcomes = match are_known(upstream) {
        true => of_a_server_with_tasks(session, upstream),
        false => [(); 6].map(|()| "–".to_owned()),
    };
    METHODS.into_iter().zip(outcomes).collect()
}

/// Whether there are tasks in this revision.
pub(super) fn are_known(revision: &str) -> bool {
    ["2025-11-25", "2026-07-28"].contains(&revision)
}

/// The task that a call creates, if it creates one.
fn create(session: &mut Session, upstream: &str, args: &str) -> Result<Value, String> {
    let task = if is_stateless(session.revision) { "" } else { r#","task":{"ttl":60000}"# };
    let id = session.send_call(upstream, "task_optional", args, "", task);
    let answer = session.proxy.answer(id);
    let result = answer.json()["result"].take();
    match (answer.code(), &result["task"]["taskId"], &result["taskId"]) {
        (Some(code), ..) => Err(refused(code)),
        (_, Value::String(_), _) => Ok(result["task"].clone()),
        (_, _, Value::String(_)) => Ok(result),
        _ => Err("answered at once".to_owned()),
    }
}

fn of_a_server_with_tasks(session: &mut Session, upstream: &str) -> [String; 6] {
    let is_same = is_stateless(session.revision) == is_stateless(upstream);
    let task = match create(session, upstream, r#"{"outcome":"isError"}"#) {
        Ok(task) => task,
        // There is no task then that the others could be about.
        Err(outcome) => return [&*outcome, "–", "–", "–", "–", "–"].map(str::to_owned),
    };
    let id = format!(r#""taskId":{}"#, task["taskId"]);
    let outcome = |code: Option<i64>| code.map_or_else(|| by_form(is_same), refused);
    let got = session.ask("tasks/get", &id).code();
    let more = if is_stateless(session.revision) { "tasks/update" } else { "tasks/result" };
    let result = session.ask(more, &format!(r#"{id},"inputResponses":{{}}"#)).code();
    let list = session.ask("tasks/list", "").code();
    let held = create(session, upstream, r#"{"hold":true}"#).unwrap();
    let cancel = session.ask("tasks/cancel", &format!(r#""taskId":{}"#, held["taskId"])).code();
    let told = if is_told(session, upstream) { by_form(is_same) } else { "kept back".to_owned() };
    [by_form(is_same), outcome(got), outcome(result), outcome(list), outcome(cancel), told]
}

/// Whether the client hears how a task goes on.
fn is_told(session: &mut Session, upstream: &str) -> bool {
    let task = create(session, upstream, r#"{"hold":true}"#).unwrap();
    let id = task["taskId"].to_string();
    if is_stateless(session.revision) {
        let wanted = format!(r#""group":"{upstream}","notifications":{{"taskIds":[{id}]}}"#);
        session.send("subscriptions/listen", "", &wanted);
        session.heard();
    }
    session.text(upstream, "release", "{}");
    (0..100).any(|_| {
        let is_it = |told: &Message| {
            told.method().is_some_and(|name| name.starts_with("notifications/tasks"))
                && told.line.contains(&id)
        };
        let is_told = session.heard().iter().any(is_it);
        if !is_told {
            session.text(upstream, "sleep", r#"{"ms":100}"#);
        }
        is_told
    })
}
