//! `tasks/*`: requests about the tasks of upstreams (2025-11-25, and the extension of 2026-07-28). The id that the
//! client knows names the group. A group with an open task stays connected.

use super::aggregate;
use crate::call::forward::forward_method;
use crate::errors;
use crate::names::known_lists::{GroupEntries, ListKind};
use crate::session::context::Invocation;
use crate::session::requester::Requester;
use base::text::quoted;
use upstream::connection::task_ids;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

/// Forwards a request about one task. Updates the record of open tasks, which keep their groups connected.
///
/// # Errors
///
/// `params.taskId` is no string or no id that clients see; its group does not exist; or those of `forward_method`.
pub async fn forward(invocation: Invocation, method: Method) -> Reply {
    let known_as = invocation.string("taskId")?;
    let unknown = || Raw::from(errors::invalid_params(format!("unknown task: {}", quoted(&known_as))));
    let exposed_id = invocation.context.requester.task_id(&known_as).ok_or_else(unknown)?;
    let (group, id) = task_ids::parse(&exposed_id).ok_or_else(unknown)?;
    let group = invocation.groups().get_by_name(&group).ok_or_else(unknown)?;
    let params = invocation.params_with("taskId", id);
    let context = &invocation.context;
    let reply = forward_method(context, &group, method, params).await;
    if method == Method::TasksResult {
        // An error is the result of a task that failed.
        context.requester.instance.open_tasks.remove(&exposed_id);
        return reply.map(|result| task_ids::expose_related(&group.name, &result));
    }
    let result = task_ids::expose(&group.name, &reply?);
    context.requester.instance.open_tasks.update(&result);
    match exposed_id != known_as && raw::get(&result, "taskId").is_some() {
        // The client knows the task by the id that it sent.
        true => Ok(raw::set_str(&result, "taskId", &known_as)),
        false => Ok(result),
    }
}

/// `tasks/list`: the tasks of the named group, or of all connected groups.
///
/// # Errors
///
/// There is no such group, the cursor is unknown, or it took too long; or those of `forward_method`.
pub async fn list(invocation: Invocation) -> Reply {
    let group = invocation.group()?;
    let merge = |_: &Requester, lists: &GroupEntries| {
        let tasks = lists.iter().flat_map(|(group, entries)| entries.iter().map(move |entry| (group, entry)));
        tasks.map(|(group, entry)| task_ids::expose(group, &entry.definition)).collect()
    };
    let page = aggregate::list(&invocation, &ListKind::TASKS, merge).await?;
    let Some(group) = group else { return Ok(page) };
    let tasks = raw::elements(&page, "tasks").unwrap_or_default();
    let tasks: Vec<_> = tasks.iter().map(|task| task_ids::expose(&group.name, task)).collect();
    Ok(raw::set(&page, "tasks", &raw::array(&tasks)))
}
