//! Tasks of upstreams: calls that are answered later (2025-11-25, and the extension of 2026-07-28). Their ids name
//! their group, a group with a task stays connected, and a tool that only runs as a task is run as one for whoever
//! knows no tasks.

use super::caller::Caller;
use super::gather::{self, Kind};
use super::relay::{Asked, Passed, pass};
use super::{errors, stateless};
use crate::config::GroupName;
use crate::protocol::Era;
use crate::upstream::catalog::Catalog;
use crate::upstream::{Lease, Upstream, task_ids};
use crate::wire::peer::{CallError, CallOptions};
use crate::wire::{Raw, Reply, raw};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A connection is kept for a task that says nothing of its life, and for one that wants to live longer.
const LONGEST: Duration = Duration::from_secs(3600);

/// The tasks of one client that are not known to have ended; each keeps its group connected.
#[derive(Default)]
pub struct Tasks(Mutex<Open>);

#[derive(Default)]
struct Open {
    ended: HashMap<String, Arc<Notify>>,
    keepers: JoinSet<()>,
}

impl Tasks {
    /// Keeps the connection until the task has ended, or has lived as long as it may.
    fn keep(&self, id: String, lease: Lease, ttl: Option<u64>) {
        let life = ttl.map_or(LONGEST, Duration::from_millis).min(LONGEST);
        let ended = Arc::new(Notify::new());
        let mut open = self.0.lock();
        while open.keepers.try_join_next().is_some() {}
        open.ended.retain(|_, ended| Arc::strong_count(ended) > 1);
        if let Some(before) = open.ended.insert(id, ended.clone()) {
            // A server that gives an id again has no other task of that id any more.
            before.notify_one();
        }
        open.keepers.spawn(async move {
            tokio::select! {
                () = ended.notified() => {}
                () = lease.ended() => {}
                () = tokio::time::sleep(life) => {}
            }
        });
    }

    /// Looks whether a task has ended in what its upstream says of it.
    pub fn look(&self, task: &Raw) {
        let status = raw::get_str(task, "status");
        if matches!(status.as_deref(), Some("completed" | "failed" | "cancelled")) {
            self.end(&raw::get_str(task, "taskId").unwrap_or_default());
        }
    }

    fn end(&self, id: &str) {
        if let Some(ended) = self.0.lock().ended.remove(id) {
            ended.notify_one();
        }
    }
}

/// Passes a request on that is about one task.
pub async fn about_one(asked: Asked, method: &'static str) -> Reply {
    let known_as = asked.text("taskId")?;
    let unknown = || Raw::from(errors::bad_params(format!("unknown task: {known_as}")));
    let (group, id) = task_ids::behind(&known_as).ok_or_else(unknown)?;
    let group = asked.groups.named(&group).ok_or_else(unknown)?;
    let params = raw::set(&asked.without_group(), "taskId", json!(id).to_string().as_bytes());
    let reply = pass(&asked, &group, Passed { method, capability: "tasks", params }).await;
    if method == "tasks/result" {
        // Also by an error, which is the result of a task that failed.
        asked.caller.tasks.end(&known_as);
        return reply.map(|result| task_ids::related_out(&group.name, &result));
    }
    let result = reply?;
    let result = task_ids::out(&group.name, &stateless::with_names(&group.name, &result));
    asked.caller.tasks.look(&result);
    Ok(result)
}

/// The tasks of the group that is named, else of all that are connected: a task does not outlive its server.
pub async fn list(asked: Asked) -> Reply {
    let out = |group: &GroupName, page: &Raw| {
        let tasks = raw::elements(page, "tasks").unwrap_or_default();
        tasks.iter().map(|task| task_ids::out(group, task)).collect::<Vec<_>>()
    };
    if let Some(group) = asked.group()? {
        let params = asked.without_group();
        let page = pass(&asked, &group, Passed { method: "tasks/list", capability: "tasks", params }).await?;
        let tasks = [b"[", &out(&group.name, &page).join(&b","[..])[..], b"]"].concat();
        return Ok(raw::set(&page, "tasks", &tasks));
    }
    let lists = gather::fresh(&asked.groups, &Kind::TASKS).await;
    let tasks = lists
        .iter()
        .flat_map(|(group, list)| list.iter().map(move |listed| task_ids::out(group, &listed.entry)));
    gather::page(&asked.params, &Kind::TASKS, tasks.collect())
}

/// The result of a call as its client knows it. If it is a task, its group stays connected.
pub fn created(caller: &Caller, group: &GroupName, lease: Lease, params: &Raw, result: Raw) -> Raw {
    let Some(form) = form_of(caller, params, &result) else { return result };
    let (result, task) = exposed(group, form, result);
    if let Some((id, ttl)) = task {
        caller.tasks.keep(id, lease, ttl);
    }
    result
}

/// In which era's form the result is a task, if it is one.
fn form_of(caller: &Caller, params: &Raw, result: &Raw) -> Option<Era> {
    let is_task = match caller.era {
        // Only who asks for a task gets one: a result may have any members.
        Era::Handshake => raw::get(params, "task").is_some(),
        Era::Stateless => raw::get_str(result, "resultType").as_deref() == Some("task"),
    };
    is_task.then_some(caller.era)
}

/// A result that is a task, with its id as clients know it; that id, and how long the task lives.
fn exposed(group: &GroupName, form: Era, result: Raw) -> (Raw, Option<(String, Option<u64>)>) {
    let life = |task: &Raw, ttl: &str| {
        let ttl = raw::get(task, ttl).and_then(|ttl| serde_json::from_slice(&ttl).ok());
        raw::get_str(task, "taskId").map(|id| (id, ttl))
    };
    match (form, raw::get(&result, "task")) {
        (Era::Handshake, None) => (result, None),
        (Era::Handshake, Some(task)) => {
            let task = task_ids::out(group, &task);
            let result = task_ids::related_out(group, &raw::set(&result, "task", &task));
            (result, life(&task, "ttl"))
        }
        (Era::Stateless, _) => {
            let task = task_ids::out(group, &result);
            let life = life(&task, "ttlMs");
            (task, life)
        }
    }
}

/// Whether a call of a tool that runs as a task only has to be made one by us.
pub fn must_be_made(catalog: Option<&Catalog>, lease: &Lease, params: &Raw) -> bool {
    let offered = || {
        let tasks = raw::get(&catalog?.introduction.declared()?, "tasks")?;
        raw::get(&raw::get(&raw::get(&tasks, "requests")?, "tools")?, "call")
    };
    lease.era() == Era::Handshake && raw::get(params, "task").is_none() && offered().is_some()
}

/// Makes the call as a task and waits for its result, for a caller who did not ask for one. When nobody waits any
/// more, the task is cancelled.
pub async fn awaited(
    caller: &Caller,
    group: &Upstream,
    lease: &Lease,
    params: Raw,
    options: CallOptions,
) -> Result<Reply, CallError> {
    let params = raw::set(&params, "task", b"{}");
    let options = CallOptions { lasting: true, ..options };
    let total = CallOptions::within(options.total);
    let made = match caller.ask(&group.name, lease, "tools/call", params, options).await? {
        Ok(made) => made,
        Err(error) => return Ok(Err(error)),
    };
    // A server that answers at once has no task to wait for.
    let task = raw::get(&made, "task").and_then(|task| raw::get(&task, "taskId"));
    let Some(id) = task else { return Ok(Ok(made)) };
    let mut waiting =
        Waiting { lease, params: raw::set(&Raw::from_static(b"{}"), "taskId", &id), over: false };
    let outcome = caller.ask(&group.name, lease, "tasks/result", waiting.params.clone(), total).await;
    waiting.over = outcome.is_ok();
    outcome
}

struct Waiting<'a> {
    lease: &'a Lease,
    params: Raw,
    over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.lease.peer().send("tasks/cancel", self.params.clone());
        }
    }
}
