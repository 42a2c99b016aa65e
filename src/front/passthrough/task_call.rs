//! Runs a tool that only runs as a task (2025-11-25) for a caller that did not ask for one: creates the task and waits
//! for its result.

use crate::front::session::context::RequestContext;
use crate::upstream::Upstream;
use crate::upstream::catalog::Catalog;
use crate::upstream::lease::Lease;
use wire::body::Body;
use wire::params::Params;
use wire::peer::{CallError, CallOptions};
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{CallReply, Raw, raw};

/// Returns whether the proxy has to create the task: the client did not, and the server takes tasks for calls of tools.
pub(super) fn is_needed(catalog: Option<&Catalog>, lease: &Lease, params: &Params) -> bool {
    let is_offered = || {
        let tasks = raw::get(&catalog?.info.declared()?, "tasks")?;
        raw::get(&raw::get(&raw::get(&tasks, "requests")?, "tools")?, "call")
    };
    lease.era() == Era::Handshake && !params.has("task") && is_offered().is_some()
}

/// Makes the call as a task and waits for its result. Dropping the future cancels the task.
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
