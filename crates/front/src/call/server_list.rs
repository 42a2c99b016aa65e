//! What a call needs of the server's own list of tools. Most calls are made as soon as the handshake is done, and even if
//! the list cannot be read; some are refused without it.

use super::ToolCall;
use super::attempts::{Attempts, LeasedConnection};
use super::found_tool::FoundTool;
use crate::arguments::CallArguments;
use crate::request_error::RequestError;
use crate::tool_errors;
use base::blocking;
use schema::validate::ArgumentVerdict;
use std::time::Duration;
use upstream::{Lease, Need, Upstream};

/// How long the definition of a tool may take to be read from the cache, before the call waits for the server's.
const FILE_TIMEOUT: Duration = Duration::from_secs(1);

/// Leases a connection for the call, once that has what the call needs.
///
/// # Errors
///
/// Those of [`Attempts::connect`].
pub(super) async fn connect(
    attempts: &mut Attempts<'_>,
    call: &ToolCall,
    arguments: &CallArguments<'_>,
    tool: &str,
) -> Result<LeasedConnection, RequestError> {
    if let Some(connection) = attempts.connected() {
        return Ok(connection);
    }
    let need = Box::pin(need(call, arguments, &attempts.group, tool)).await;
    attempts.connect(need).await
}

/// Returns what the call waits for if its group is not connected: the tools, unless the tool is known and the arguments
/// fit its known definition.
async fn need(call: &ToolCall, arguments: &CallArguments<'_>, group: &Upstream, name: &str) -> Need {
    let tool = FoundTool::find_exact(group.snapshot(), name);
    let Some(tool) = tool.filter(|tool| tool.snapshot.rules.allows(name)) else { return Need::Tools };
    if is_needed(call, &tool) || arguments.has_flattened_select() {
        return Need::Tools;
    }
    let least = tool.snapshot.least_need();
    if !call.by_our_tool || least == Need::Tools {
        return least;
    }
    let (context, group) = (call.context.clone(), group.name.clone());
    let args = arguments.args_of_tool(false).clone();
    let verdict = blocking::run(FILE_TIMEOUT, move || {
        tool.validate(&context.requester.instance.validator, &group, &args)
    });
    match verdict.await {
        Ok(ArgumentVerdict::Fits) => Need::Handshake,
        _ => Need::Tools,
    }
}

/// Returns the tool as the list has it that was read on the connection of the lease, if the call needs that list; else
/// `tool`, which is of another list. Reads the list again if that has failed.
///
/// # Errors
///
/// The list cannot be read. The text for the model.
pub(super) async fn require(
    call: &ToolCall,
    group: &Upstream,
    lease: &Lease,
    tool: FoundTool,
) -> Result<FoundTool, String> {
    if !is_needed(call, &tool) {
        return Ok(tool);
    }
    group.refresh(Need::Tools).await;
    let listed = FoundTool::find_exact(group.snapshot(), &tool.name);
    let is_read =
        |listed: &FoundTool| lease.has_read(&listed.catalog) && listed.snapshot.rules.allows(&tool.name);
    listed.filter(is_read).ok_or_else(|| tool_errors::list_not_read(&group.name, &tool.name))
}

/// Returns whether the call may only be made with the list of this connection: the tools are pinned, the config hides
/// arguments of this one, or the server has to say that it is read-only.
fn is_needed(call: &ToolCall, tool: &FoundTool) -> bool {
    let Some(server) = &tool.snapshot.server else { return true };
    let overrides = &server.tools.overrides;
    let hides_args = || {
        let of_tool = overrides.of(overrides.own_name(&tool.name));
        of_tool.is_some_and(|of_tool| !of_tool.hidden_args.is_empty())
    };
    server.common.pin_tools || call.read_only && !tool.snapshot.rules.read_only(&tool.name) || hides_args()
}
