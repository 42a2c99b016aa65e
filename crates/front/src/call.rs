//! A call of an upstream's tool, from its name to its result.
//!
//! # Theory of operation
//!
//! A call comes as `call_dynamic_tool` or under the tool's own name, and goes through five steps, which this file has in their
//! order:
//!
//! 1. *Resolve*: which group and which tool is meant (`resolve`, if the call does not name both exactly).
//! 2. *Lease*: a lease on the group's connection, which is made if there is none (`forward`).
//! 3. *Prepare*: the tool is found (`found_tool`), and what is sent is decided. `misfit` handles arguments that do not fit
//!    the tool's schema.
//! 4. *Send*: the request goes to the upstream, and the answer comes back (`forward`; `task` if it runs as a task). If it
//!    may be sent once more, steps 2 to 4 are repeated.
//! 5. *Finish*: what the client gets of the result. `large_results` is for `select` and for what is too large.
//!
//! The params and the result pass as bytes. A call under the tool's own name passes its arguments as they are: its caller has
//! the schema, and wants what a direct call gives.
//!
//! `stored_result` answers calls of our own group. Other methods than `tools/call` are forwarded by `forward` as well.

use crate::arguments::{CallArguments, SelectArgument};
use crate::ask::approval::{self, ApprovalOutcome};
use crate::ask::approval_token::{Approval, ApprovalDemand};
use crate::errors::request_error::RequestError;
use crate::errors::{self, changed_tools, tool_errors};
use crate::names::apps::AppUris;
use crate::names::lookup;
use crate::session::context::RequestContext;
use crate::session::request_span;
use crate::session::requester::Requester;
use base::blocking::{self, MAX_INLINE_BYTES};
use config::{OWN_GROUP, Timeouts};
use forward::{Forwarder, LeasedConnection, MAX_TOTAL, PreparedRequest};
use found_tool::{FoundTool, find_tool, require_list};
use large_results::ReceivedResult;
use misfit::ResolvedArguments;
use schema::validate::{ArgumentVerdict, Violations};
use std::borrow::Cow;
use std::time::Duration;
use upstream::catalog::overrides::HiddenArg;
use upstream::catalog::tool::app_of;
use upstream::{Lease, Need, Snapshot, Upstream};
use wire::params::Params;
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

pub mod forward;
pub mod found_tool;
pub mod large_results;
mod misfit;
pub mod resolve;
pub mod stored_result;
mod task;

/// How long the definition of a tool may take to be read from the cache, before the call waits for the server's.
const FILE_TIMEOUT: Duration = Duration::from_secs(1);

/// One `tools/call` of the client.
pub struct ToolCall {
    /// The context of the request.
    pub context: RequestContext,
    /// The client's params, whole.
    pub params: Params,
    /// Whether only read-only tools may be called.
    pub read_only: bool,
    /// Whether it is a call of one of our tools, which a model makes, and not of the upstream's own, which an app may make.
    pub(crate) by_our_tool: bool,
}

/// A call that can be sent on one connection.
struct PreparedCall {
    /// The tool.
    tool: FoundTool,
    /// Whether `select` is an argument of the tool.
    takes_select: bool,
    /// What does not fit of the arguments. Behind a pointer, as the next one, because few calls have it.
    misfit: Option<Box<Violations>>,
    /// The approval that the result has to carry to the next round, if it has to.
    carried: Option<Box<ApprovedCall>>,
    /// What is sent.
    request: PreparedRequest,
}

/// What becomes of a call before it is sent.
enum Preparation {
    /// It can be sent on this connection.
    Ready(Lease, PreparedCall),
    /// The client has to ask its user and make the request again. This is the result of the request.
    InputRequired(Raw),
}

/// A call that the user has approved.
#[derive(Clone)]
struct ApprovedCall {
    tool: String,
    args: Raw,
    demand: ApprovalDemand,
}

/// Answers `call_dynamic_tool` and its read-only variant. A call without an answer has a result with a text for the
/// model.
///
/// # Errors
///
/// The upstream's own error, adapted to the client's era; or dynamic-mcp shuts down.
pub async fn call_dynamic_tool(call: &ToolCall) -> Reply {
    let arguments = match call.params.len() <= MAX_INLINE_BYTES {
        true => CallArguments::of(&call.params),
        false => Box::pin(CallArguments::of_large(&call.params)).await,
    };
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(text) => return Ok(tool_errors::result(&text)),
    };
    match arguments.group.as_deref() {
        Some(OWN_GROUP) => Ok(Box::pin(stored_result::read(&call.context, &arguments)).await),
        _ => call_tool(call, &arguments).await,
    }
}

/// Answers a `tools/call` under an upstream tool's own name. It has no `select`, and its arguments are not checked.
///
/// # Errors
///
/// Those of [`call_dynamic_tool`]; or no group has the tool, or finding it took too long.
pub(crate) async fn call_directly(context: RequestContext, params: Params, name: &str) -> Reply {
    let (group, tool) = match Box::pin(resolve::by_direct_name(&context, name, true)).await {
        Ok((group, tool)) => (group.name.as_str().to_owned(), tool),
        Err(error) => return Ok(tool_errors::result(&error.for_model(name)?)),
    };
    let args = params.get("arguments").filter(|args| &args[..] != b"null");
    let args = args.unwrap_or(Raw::from_static(b"{}"));
    let (group, tool) = (Some(group.into()), tool.into());
    let arguments = CallArguments { group, tool, tool_as_json: None, args, select: None };
    call_tool(&ToolCall { context, params, read_only: false, by_our_tool: false }, &arguments).await
}

/// Calls an upstream's tool. Fails as [`call_dynamic_tool`] does.
async fn call_tool(call: &ToolCall, arguments: &CallArguments<'_>) -> Reply {
    let (group, name) = match resolve(&call.context, arguments).await {
        Ok(found) => found,
        Err(error) => return failed(call, error, &arguments.tool),
    };
    request_span::record_tool(&group.name, &name);
    let mut forwarder = Forwarder::new(&call.context, group);
    let mut approved = None;
    loop {
        let connection = match connect(&mut forwarder, call, arguments, &name).await {
            Ok(connection) => connection,
            Err(error) => return failed(call, error, &name),
        };
        let group = &forwarder.group;
        if group.lost_state_since(forwarder.known_losses) {
            return failed(call, tool_errors::lost_state(&group.name).into(), &name);
        }
        let (lease, prepared) = match prepare(call, arguments, &name, group, connection, &mut approved).await
        {
            Ok(Preparation::Ready(lease, prepared)) => (lease, prepared),
            Ok(Preparation::InputRequired(result)) => return Ok(result),
            Err(error) => return failed(call, error, &name),
        };
        match forwarder.send(&lease, &prepared.request).await {
            Ok(Some(reply)) => {
                return finish(call, arguments, &forwarder.group, lease, &prepared, reply).await;
            }
            Ok(None) => {}
            Err(error) => return failed(call, error, &prepared.tool.name),
        }
    }
}

/// Answers a call that failed: with a result for the model if the error is about the tool or its group. Fails if it is
/// not, or if dynamic-mcp shuts down.
fn failed(call: &ToolCall, error: RequestError, tool: &str) -> Reply {
    let text = error.for_model(tool)?;
    match call.context.groups().is_shutting_down() {
        true => Err(errors::shutting_down().into()),
        false => Ok(tool_errors::result(&text)),
    }
}

/// Step 1. Returns the group, and the name of the tool there. Fails if no such group exists, if the call names no group
/// and none or several are known to have the tool, or if finding it took too long. Connects no group.
async fn resolve<'a>(
    context: &RequestContext,
    arguments: &'a CallArguments<'_>,
) -> Result<(Upstream, Cow<'a, str>), RequestError> {
    let tool = &*arguments.tool;
    let Some(group) = arguments.group.as_deref() else {
        // Boxed, because most calls name the group.
        let (group, tool) = Box::pin(resolve::without_named_group(context, tool.to_owned())).await?;
        return Ok((group, tool.into()));
    };
    let group = match context.groups().get_by_name(group) {
        Some(group) => group,
        None => lookup::misspelled_group(context.groups(), group)?,
    };
    let name = match tool.starts_with(group.name.as_str()) {
        true => resolve::without_group(&group, tool).await?,
        false => tool,
    };
    Ok((group, name.into()))
}

/// Step 2. Leases a connection for the call, once that has what the call needs. Fails as [`Forwarder::connect`] does.
async fn connect(
    forwarder: &mut Forwarder<'_>,
    call: &ToolCall,
    arguments: &CallArguments<'_>,
    tool: &str,
) -> Result<LeasedConnection, RequestError> {
    if let Some(connection) = forwarder.connected() {
        return Ok(connection);
    }
    let need = Box::pin(need(call, arguments, &forwarder.group, tool)).await;
    forwarder.connect(need).await
}

/// Returns what the call waits for if its group is not connected: the tools, unless the tool is known and the arguments
/// fit its known definition.
async fn need(call: &ToolCall, arguments: &CallArguments<'_>, group: &Upstream, name: &str) -> Need {
    let tool = FoundTool::find_exact(group.snapshot(), name);
    let Some(tool) = tool.filter(|tool| tool.snapshot.rules.allows(name)) else { return Need::Tools };
    if tool.needs_list(call.read_only) || arguments.has_flattened_select() {
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

/// Step 3. Finds the tool and decides what is sent. May ask the user to approve the call, and waits for that.
/// `approved`: the call that the user has approved, now or in an earlier attempt.
///
/// # Errors
///
/// The call is not sent. The text for the model.
async fn prepare(
    call: &ToolCall,
    arguments: &CallArguments<'_>,
    name: &str,
    group: &Upstream,
    LeasedConnection { lease, snapshot }: LeasedConnection,
    approved: &mut Option<Box<ApprovedCall>>,
) -> Result<Preparation, RequestError> {
    let mut tool = find_tool(group, snapshot, name).await?;
    if !lease.has_read(&tool.catalog) {
        tool = Box::pin(require_list(group, &lease, tool, call.read_only)).await?;
    }
    check_allowed(call, group, &tool)?;
    let takes_select = arguments.has_flattened_select()
        && tool.definition().is_some_and(|definition| schema::has_argument(definition, "select"));
    let asks_for_task = call.params.has("task");
    if asks_for_task && select(arguments, takes_select).is_some() {
        return Err(tool_errors::SELECT_OF_TASK.to_owned().into());
    }
    let given = arguments.args_of_tool(takes_select);
    // A call under the tool's own name is not checked.
    let ResolvedArguments { repaired, misfit } = match call.by_our_tool {
        true => misfit::fit(&call.context, group, &tool, given).await?,
        false => ResolvedArguments::default(),
    };
    let repaired = replace_hidden(group, &tool, given, repaired)?;
    let args = repaired.as_ref().unwrap_or(given);
    let mut carried = None;
    if let Some(demand) = approval_demand(call, &tool) {
        match Box::pin(approve(call, group, &tool, args, demand, approved)).await? {
            Some(result) => return Ok(Preparation::InputRequired(result)),
            None if call.context.era == Era::Stateless => carried = approved.clone(),
            None => {}
        }
    }
    let unwrapped =
        carried.as_ref().map(|carried| carried.approval(group).unwrap_params(&call.params).into());
    let params: &Params = unwrapped.as_ref().unwrap_or(&call.params);
    let (rules, server) = (&tool.snapshot.rules, tool.snapshot.server.as_ref());
    let own_name = ("name", name_as_json(call, arguments, rules.own_name(&tool.name)));
    // A call under the tool's own name may have none.
    let has_args = call.by_our_tool || repaired.is_some() || call.params.has("arguments");
    let is_stateful = server.is_some_and(|server| server.common.stateful);
    let request = PreparedRequest {
        method: Method::ToolsCall,
        timeout: server.map_or(MAX_TOTAL, |server| {
            let context = &call.context;
            silent_limit(server.timeout.tools, context.progress.is_some(), context.session().is_some())
        }),
        repeatable: !is_stateful && rules.relies_on(&tool.name, tool.read_only || tool.idempotent),
        may_become_task: asks_for_task,
        run_as_task: tool.requires_task && task::is_needed(&tool.catalog, &lease, params),
        params: match has_args {
            true => params.with([own_name, ("arguments", args.clone())]),
            false => params.with([own_name]),
        },
    };
    Ok(Preparation::Ready(lease, PreparedCall { tool, takes_select, misfit, carried, request }))
}

/// How long a call may show no progress. One whose client asks for none cannot show that it lives, and on stdio nobody else
/// waits for it: unless the config has a limit of its own, it has `MAX_TOTAL`.
fn silent_limit(configured: Duration, asks_for_progress: bool, is_on_stdio: bool) -> Duration {
    let is_default = configured == Timeouts::default().tools;
    if is_default && is_on_stdio && !asks_for_progress { MAX_TOTAL } else { configured }
}

/// Checks whether this call may be made of the tool. Fails, with the text for the model, if the tool has changed and is
/// refused, is only for its app, or is not read-only while only such tools may be called.
fn check_allowed(call: &ToolCall, group: &Upstream, tool: &FoundTool) -> Result<(), String> {
    refuse_changed(group, &tool.snapshot, &tool.name)?;
    if tool.app_only && call.by_our_tool {
        return Err(tool_errors::only_for_its_app(&group.name, &tool.name));
    }
    if call.read_only && !tool.snapshot.rules.relies_on(&tool.name, tool.read_only) {
        return Err(tool_errors::not_read_only(&group.name, &tool.name, tool.read_only));
    }
    Ok(())
}

/// Refuses a changed tool that is not approved, if its group pins its tools. Fails with the text for the model then.
fn refuse_changed(group: &Upstream, snapshot: &Snapshot, tool: &str) -> Result<(), String> {
    // Only a group whose tools are pinned refuses some.
    match snapshot.server.as_ref().is_some_and(|server| server.common.pin_tools) {
        true => changed_tools::refusal(&group.name, snapshot, tool).map_or(Ok(()), Err),
        false => Ok(()),
    }
}

/// Adds the values of hidden arguments that the tool requires. Takes and returns the arguments to send in place of
/// `given`, if they differ. Fails, with the text for the model, if the call has a hidden argument.
fn replace_hidden(
    group: &Upstream,
    tool: &FoundTool,
    given: &Raw,
    mut repaired: Option<Raw>,
) -> Result<Option<Raw>, String> {
    for HiddenArg { name, value } in tool.hidden_args() {
        let args = repaired.as_ref().unwrap_or(given);
        if let Some(written) = tool.spelling_of_hidden(&name, args) {
            return Err(tool_errors::hidden_argument(&group.name, &tool.name, &name, &written));
        }
        if let Some(value) = value {
            repaired = Some(raw::set(args, &name, &value));
        }
    }
    Ok(repaired)
}

/// Returns who demands that the user approves the call, if anyone. A server's demand counts only if the client can ask.
fn approval_demand(call: &ToolCall, tool: &FoundTool) -> Option<ApprovalDemand> {
    match tool.snapshot.rules.asks(&tool.name) {
        Some(source) => Some(ApprovalDemand::Config(source)),
        None if tool.requires_user && call.context.can_elicit_forms() => Some(ApprovalDemand::Server),
        None => None,
    }
}

/// Asks the user to approve the call, unless that was done in an earlier attempt. Returns the result of the request if
/// the client has to ask.
///
/// # Errors
///
/// The call is not approved, or the tool has changed meanwhile and is refused. The text for the model.
async fn approve(
    call: &ToolCall,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
    demand: ApprovalDemand,
    approved: &mut Option<Box<ApprovedCall>>,
) -> Result<Option<Raw>, String> {
    if !approved.as_ref().is_some_and(|approved| approved.tool == tool.name && approved.args == *args) {
        let approval = Approval { group: &group.name, tool: &tool.name, args, demand };
        match approval::request(&call.context, &call.params, &approval).await? {
            ApprovalOutcome::Approved => {}
            ApprovalOutcome::InputRequired(result) => return Ok(Some(result)),
        }
    }
    *approved = Some(Box::new(ApprovedCall { tool: tool.name.clone(), args: args.clone(), demand }));
    // The server may have changed it since.
    refuse_changed(group, &group.snapshot(), &tool.name)?;
    Ok(None)
}

impl ApprovedCall {
    fn approval<'a>(&'a self, group: &'a Upstream) -> Approval<'a> {
        Approval { group: &group.name, tool: &self.tool, args: &self.args, demand: self.demand }
    }
}

/// Returns the server's own name for the tool as JSON text.
fn name_as_json(call: &ToolCall, arguments: &CallArguments<'_>, own: &str) -> Raw {
    let written = arguments.tool_as_json.filter(|_| arguments.tool == own);
    written.map_or_else(|| wire::json_string(own), |written| call.params.slice_ref(written))
}

/// Returns what to make of the result. `takes_select`: whether `select` is an argument of the tool, and so not ours.
fn select<'a>(arguments: &'a CallArguments<'_>, takes_select: bool) -> Option<&'a SelectArgument> {
    arguments.select.as_deref().filter(|_| !takes_select)
}

/// Step 5. Returns what the client gets of the answer. Fails with the upstream's own error, which may get the misfit.
async fn finish(
    call: &ToolCall,
    arguments: &CallArguments<'_>,
    group: &Upstream,
    lease: Lease,
    prepared: &PreparedCall,
    reply: Reply,
) -> Reply {
    let PreparedCall { tool, takes_select, misfit, carried, request } = prepared;
    let (context, group_name) = (&call.context, &group.name);
    let mut result = match misfit {
        Some(misfit) => misfit::explain(group, tool, misfit, reply)?,
        None => reply?,
    };
    if let Some(carried) = carried
        && let Some(session) = context.session()
    {
        result = carried.approval(group).wrap_result(&result, &session.approval_nonces);
    }
    if call.by_our_tool
        && context.client().capabilities.shows_apps()
        && let Some(definition) = tool.definition().filter(|definition| app_of(definition).is_some())
    {
        let (group, definition, given) = (group_name.clone(), definition.clone(), result.clone());
        let name = move |requester: &Requester| {
            AppUris::new(requester.groups()).name_in_result(&group, &definition, &given)
        };
        result = Box::pin(context.run_on_lists(name)).await.unwrap_or(result);
    }
    match request.may_become_task || context.era == Era::Stateless {
        true => result = task::track_created(context, group_name, lease, request.may_become_task, result),
        false => drop(lease),
    }
    let store_above = tool.snapshot.server.as_ref().and_then(|server| server.common.store_above);
    let select = select(arguments, *takes_select);
    if select.is_none() && store_above.is_none() {
        return Ok(result);
    }
    let received = ReceivedResult { group: group_name, tool: &tool.name, select, store_above, result };
    Ok(Box::pin(large_results::finish(context, received)).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_cannot_show_that_it_lives_has_an_hour_unless_the_config_says_otherwise() {
        let (usual, minute) = (Timeouts::default().tools, Duration::from_secs(60));
        for (configured, asks, on_stdio, expected) in [
            (usual, false, true, MAX_TOTAL),
            (usual, true, true, usual),
            (usual, false, false, usual),
            (minute, false, true, minute),
        ] {
            assert_eq!(
                silent_limit(configured, asks, on_stdio),
                expected,
                "{configured:?} {asks} {on_stdio}"
            );
        }
    }
}
