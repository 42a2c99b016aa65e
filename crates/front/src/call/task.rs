//! Calls that become tasks. A tool that only runs as a task (2025-11-25) is run as one for a caller that did not ask for
//! that: the task is created, and its result awaited. A task that a caller gets keeps its group connected.

use crate::session::context::RequestContext;
use crate::session::requester::ClientMemory;
use config::GroupName;
use upstream::connection::task_ids;
use upstream::{Catalog, Lease, Upstream};
use wire::body::Body;
use wire::params::Params;
use wire::peer::{CallError, CallOptions};
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{CallReply, Raw, raw};

/// Returns whether the proxy has to create the task: the client did not, and the server takes tasks for calls of tools.
pub(super) fn is_needed(catalog: &Catalog, lease: &Lease, params: &Params) -> bool {
    let is_offered = || {
        let tasks = raw::get(&catalog.info.declared()?, "tasks")?;
        raw::get(&raw::get(&raw::get(&tasks, "requests")?, "tools")?, "call")
    };
    lease.era() == Era::Handshake && !params.has("task") && is_offered().is_some()
}

/// Makes the call as a task and waits for its result, for `options.max_total` at most. If the server answers at once,
/// returns that answer. Dropping the future cancels the task, and so does an error.
///
/// # Errors
///
/// See [`CallError`].
pub(super) async fn run(
    context: &RequestContext,
    group: &Upstream,
    lease: &Lease,
    params: &Body,
    options: CallOptions,
) -> Result<CallReply, CallError> {
    let options = CallOptions { may_become_task: true, ..options };
    let result_options = CallOptions::within(options.max_total);
    let created = {
        let params = raw::set(&params.join(), "task", b"{}").into();
        context.send(&group.name, lease, Method::ToolsCall, &params, options).await?
    };
    let task = created.reply.as_ref().ok().and_then(|created| raw::get(created, "task"));
    // A server that answers at once has created no task.
    let Some(id) = task.and_then(|task| raw::get(&task, "taskId")) else { return Ok(created) };
    let params = raw::set(&Raw::from_static(b"{}"), "taskId", &id);
    let mut guard = CancelTaskOnDrop { lease, params: params.clone(), is_done: false };
    let params = params.into();
    let outcome = context.send(&group.name, lease, Method::TasksResult, &params, result_options).await;
    guard.is_done = outcome.is_ok();
    outcome
}

/// Cancels the task unless its result was received.
struct CancelTaskOnDrop<'a> {
    /// The connection of the task.
    lease: &'a Lease,
    /// The params that name the task.
    params: Raw,
    /// Whether its result was received.
    is_done: bool,
}

impl Drop for CancelTaskOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.lease.peer().send(Method::TasksCancel.name(), self.params.clone());
        }
    }
}

/// If the result of a call is a task, gives it the id that clients see, and keeps its group connected while it runs. Any
/// other result is returned unchanged.
pub(super) fn track_created(
    context: &RequestContext,
    group: &GroupName,
    lease: Lease,
    asks_for_task: bool,
    result: Raw,
) -> Raw {
    let is_task = match context.era {
        // A result may have any members, so only a call that asked for a task gets one.
        Era::Handshake => asks_for_task,
        Era::Stateless => raw::get_str(&result, "resultType").as_deref() == Some("task"),
    };
    if !is_task {
        return result;
    }
    let (result, task) = expose_created(group, context.era, result);
    if let Some((id, ttl_ms)) = task {
        context.requester.instance.open_tasks.add(id, lease, ttl_ms);
    }
    match (&context.requester.memory, context.era) {
        (ClientMemory::Session(_), _) => result,
        (ClientMemory::Carried(caller), Era::Stateless) => caller.seal_task_of(&result),
        (ClientMemory::Carried(caller), Era::Handshake) => match raw::get(&result, "task") {
            Some(task) => raw::set(&result, "task", &caller.seal_task_of(&task)),
            None => result,
        },
    }
}

/// Replaces the id of a created task by the one that clients see. Returns also that id and the time to live in
/// milliseconds.
fn expose_created(group: &GroupName, era: Era, result: Raw) -> (Raw, Option<(String, Option<u64>)>) {
    let id_and_ttl = |task: &Raw, ttl: &str| {
        let ttl = raw::get(task, ttl).and_then(|ttl| serde_json::from_slice(&ttl).ok());
        raw::get_str(task, "taskId").map(|id| (id, ttl))
    };
    match (era, raw::get(&result, "task")) {
        (Era::Handshake, None) => (result, None),
        (Era::Handshake, Some(task)) => {
            let task = task_ids::expose(group, &task);
            let result = task_ids::expose_related(group, &raw::set(&result, "task", &task));
            (result, id_and_ttl(&task, "ttl"))
        }
        (Era::Stateless, _) => {
            let task = task_ids::expose(group, &result);
            let id_and_ttl = id_and_ttl(&task, "ttlMs");
            (task, id_and_ttl)
        }
    }
}
