//! `tasks/*`: requests about the tasks of upstreams (2025-11-25, and the extension of 2026-07-28). The id that the
//! client knows names the group. A group with an open task stays connected.

use super::aggregate::{self, ListKind};
use super::forward::forward_method;
use super::task_call;
use crate::config::GroupName;
use crate::front::errors;
use crate::front::session::context::{RequestContext, SessionState};
use crate::front::session::invocation::Invocation;
use crate::upstream::lease::Lease;
use crate::upstream::{Upstream, task_ids};
use base::text::quoted;
use wire::params::Params;
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

/// Forwards a request about one task. Updates the record of open tasks, which keep their groups connected.
pub async fn forward(invocation: Invocation, method: Method) -> Reply {
    let exposed_id = invocation.string("taskId")?;
    let unknown = || Raw::from(errors::invalid_params(format!("unknown task: {}", quoted(&exposed_id))));
    let (group, id) = task_ids::parse(&exposed_id).ok_or_else(unknown)?;
    let group = invocation.groups().get_by_name(&group).ok_or_else(unknown)?;
    let params = invocation.params_with("taskId", id);
    let context = &invocation.context;
    let reply = forward_method(context, &group, method, params).await;
    if method == Method::TasksResult {
        // An error is the result of a task that failed.
        context.session.open_tasks.remove(&exposed_id);
        return reply.map(|result| task_ids::expose_related(&group.name, &result));
    }
    let result = task_ids::expose(&group.name, &reply?);
    context.session.open_tasks.update(&result);
    Ok(result)
}

/// `tasks/list`: the tasks of the named group, or of all connected groups.
pub async fn list(invocation: Invocation) -> Reply {
    let exposed_tasks = |group: &GroupName, page: &Raw| {
        let tasks = raw::elements(page, "tasks").unwrap_or_default();
        tasks.iter().map(|task| task_ids::expose(group, task)).collect::<Vec<_>>()
    };
    if let Some(group) = invocation.group()? {
        let params = invocation.params_without_group();
        let page = forward_method(&invocation.context, &group, Method::TasksList, params).await?;
        let tasks = exposed_tasks(&group.name, &page);
        return Ok(raw::set(&page, "tasks", &raw::array(&tasks)));
    }
    let lists = aggregate::current(invocation.groups(), &ListKind::TASKS).await;
    let params = invocation.params.clone();
    let bytes = aggregate::definition_bytes(&lists);
    let page = move |_: &SessionState| {
        let tasks = lists.iter().flat_map(|(group, entries)| {
            entries.iter().map(move |entry| task_ids::expose(group, &entry.definition))
        });
        aggregate::page(&params, &ListKind::TASKS, tasks.collect())
    };
    aggregate::run(&invocation, bytes, page).await
}

/// Returns whether the proxy has to create the task for a tool that only runs as one.
pub fn must_create(group: &Upstream, lease: &Lease, params: &Params) -> bool {
    task_call::is_needed(group.snapshot().catalog.as_deref(), lease, params)
}

/// If the result of a call is a task, gives it the id that clients see, and keeps its group connected while it runs. Any
/// other result is returned unchanged.
pub fn track_created_task(
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
        context.session.open_tasks.add(id, lease, ttl_ms);
    }
    result
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
