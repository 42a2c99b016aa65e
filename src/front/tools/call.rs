//! `call_dynamic_tool`: finds the tool, checks the arguments, and forwards the call. The result passes unaltered.
//!
//! A call of an upstream's tool under its exposed name takes the same way, but its arguments pass as they are: its caller
//! has the schema, and wants what a direct call gives.

use super::apps::AppUris;
use super::argument_repair::{self, ResolvedArguments};
use super::arguments::{CallArguments, SelectArgument};
use super::found_tool::{self, FoundTool, find_tool};
use super::large_results::{self, ReceivedResult};
use super::stored_result;
use crate::config::{GroupName, OWN_GROUP};
use crate::front::ask::approval::{self, ApprovalOutcome};
use crate::front::ask::approval_token::{Approval, ApprovalDemand};
use crate::front::errors::{self, LISTS_TOOK_TOO_LONG, RpcError};
use crate::front::passthrough::forward::{ForwardError, MAX_TOTAL, Outgoing, PreparedRequest, forward};
use crate::front::passthrough::tasks;
use crate::front::session::context::RequestContext;
use crate::front::{changed_tools, lookup, tool_errors};
use crate::upstream::Upstream;
use crate::upstream::catalog::Tool;
use crate::upstream::lease::Lease;
use crate::upstream::overrides::HiddenArg;
use crate::upstream::snapshot::Snapshot;
use base::text::{quoted, quoted_list};
use schema;
use std::borrow::Cow;
use std::num::NonZeroUsize;
use wire::params::Params;
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{self, Raw, Reply, raw};

/// One `tools/call` of the client.
pub struct ToolCall {
    /// The context of the request.
    pub context: RequestContext,
    /// The client's params, whole.
    pub params: Params,
    /// Whether only read-only tools may be called.
    pub read_only: bool,
    /// Whether it is a call of one of our tools, which a model makes, and not of the upstream's own, which an app may make.
    pub by_our_tool: bool,
}

/// Answers `call_dynamic_tool` and its read-only variant. The upstream's own errors pass unchanged.
pub async fn call_dynamic_tool(call: &ToolCall) -> Reply {
    let arguments = match CallArguments::of(&call.params) {
        Ok(arguments) => arguments,
        Err(text) => return Ok(tool_errors::result(&text)),
    };
    match arguments.group.as_deref() {
        Some(OWN_GROUP) => Ok(Box::pin(stored_result::read(&call.context, &arguments)).await),
        _ => call_tool(call, &arguments).await,
    }
}

/// Calls an upstream's tool.
pub async fn call_tool(call: &ToolCall, arguments: &CallArguments<'_>) -> Reply {
    let is_shutting_down = || call.context.groups().is_shutting_down();
    match run(call, arguments).await {
        Ok(reply) => reply,
        Err(CallStop::Reply(reply)) => reply,
        Err(CallStop::Text(_)) if is_shutting_down() => Err(errors::shutting_down().into()),
        Err(CallStop::Text(text)) => Ok(tool_errors::result(&text)),
        Err(CallStop::Forward(error)) => Err(RpcError::from(error).into()),
    }
}

/// Why a call was not forwarded, or has no answer.
enum CallStop {
    /// A text for the model.
    Text(String),
    /// The reply of the request.
    Reply(Reply),
    /// Forwarding the call failed.
    Forward(ForwardError),
}

impl CallStop {
    /// Turns an error of forwarding into the text for the model, if it is about the group or the tool.
    fn for_tool(self, tool: &str) -> Self {
        match self {
            Self::Forward(error) => match error.tool_error(tool) {
                Ok(text) => Self::Text(text),
                Err(error) => Self::Forward(error),
            },
            stop => stop,
        }
    }
}

impl From<String> for CallStop {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<ForwardError> for CallStop {
    fn from(error: ForwardError) -> Self {
        Self::Forward(error)
    }
}

async fn run(call: &ToolCall, arguments: &CallArguments<'_>) -> Result<Reply, CallStop> {
    let (group, name) = choose_group(&call.context, arguments).await?;
    let name = &*name;
    let mut outgoing = OutgoingCall {
        call,
        arguments,
        name,
        asks_for_task: call.params.has("task"),
        takes_select: false,
        store_above: None,
        resolved: ResolvedArguments::default(),
        approved: None,
        carried: None,
        tool: None,
    };
    let forwarded = forward(&call.context, group, &mut outgoing).await;
    let forwarded =
        forwarded.map_err(|stop| stop.for_tool(outgoing.tool.as_ref().map_or(name, |tool| &tool.name)))?;
    let result = match (&outgoing.tool, &outgoing.resolved.misfit, forwarded.reply) {
        (Some(tool), Some(misfit), reply) => argument_repair::explain(&forwarded.group, tool, misfit, reply),
        (_, _, reply) => reply,
    };
    let result = match result {
        Ok(result) => result,
        Err(error) => return Ok(Err(error)),
    };
    let group = &forwarded.group.name;
    let result = match (&outgoing.tool, outgoing.carried) {
        (Some(tool), Some(demand)) => {
            let approval = Approval { group, tool: &tool.name, args: outgoing.args(), demand };
            approval.wrap_result(&result, &call.context.session.approval_nonces)
        }
        _ => result,
    };
    let result = match &outgoing.tool {
        Some(tool) if call.by_our_tool => name_app(call, group, tool, result),
        _ => result,
    };
    let asks_for_task = outgoing.asks_for_task;
    let result = tasks::track_created_task(&call.context, group, forwarded.lease, asks_for_task, result);
    if arguments.select.is_none() && outgoing.store_above.is_none() {
        return Ok(Ok(result));
    }
    Ok(Ok(Box::pin(outgoing.finish(forwarded.group, result)).await))
}

/// Names the app of the tool in a result, for a client that shows apps.
fn name_app(call: &ToolCall, group: &GroupName, tool: &FoundTool, result: Raw) -> Raw {
    let shows_apps = call.context.session.client.capabilities.shows_apps();
    match tool.definition().filter(|_| shows_apps) {
        Some(definition) => AppUris::new(call.context.groups()).name_in_result(group, definition, &result),
        None => result,
    }
}

/// A call as it is forwarded.
struct OutgoingCall<'a> {
    /// The request of the client.
    call: &'a ToolCall,
    /// Its parsed arguments.
    arguments: &'a CallArguments<'a>,
    /// The tool's name as the caller wrote it.
    name: &'a str,
    /// Whether the client asks for a task.
    asks_for_task: bool,
    /// Whether `select` is an argument of the tool.
    takes_select: bool,
    /// The bytes of text above which the result is stored.
    store_above: Option<NonZeroUsize>,
    /// What becomes of arguments that do not fit the tool, and of hidden ones.
    resolved: ResolvedArguments,
    /// The tool and the arguments for which the user has approved the call. Behind a pointer, because few calls need it.
    approved: Option<Box<(String, Raw)>>,
    /// Who wanted the approval that the result has to carry to the next round, if it has to.
    carried: Option<ApprovalDemand>,
    /// The tool, once it is found.
    tool: Option<FoundTool>,
}

impl Outgoing for OutgoingCall<'_> {
    type Error = CallStop;

    async fn prepare(&mut self, group: &Upstream, lease: &Lease) -> Result<PreparedRequest, CallStop> {
        if group.take_lost_state() {
            return Err(tool_errors::lost_state(&group.name).into());
        }
        let tool = find_tool(group, self.name).await?;
        refuse_changed(group, &tool.snapshot, &tool)?;
        if tool.app_only && self.call.by_our_tool {
            return Err(tool_errors::only_for_its_app(&group.name, &tool.name).into());
        }
        let (rules, server) = (&tool.snapshot.rules, tool.snapshot.server.as_ref());
        if self.call.read_only && !rules.accepts_claim(&tool.name, tool.read_only) {
            return Err(tool_errors::not_read_only(&group.name, &tool.name, tool.read_only).into());
        }
        self.store_above = server.and_then(|server| server.common.store_above);
        let has_select = |definition| schema::has_argument(definition, "select");
        self.takes_select =
            self.arguments.has_flattened_select() && tool.definition().is_some_and(has_select);
        if self.select().is_some() && self.asks_for_task {
            return Err(tool_errors::SELECT_OF_TASK.to_owned().into());
        }
        let (call, context, args) = (self.call, &self.call.context, self.given_args());
        let find_misfit = || argument_repair::find_misfit(context, group, &tool, args);
        self.resolved = match call.by_our_tool.then(find_misfit).flatten() {
            None => ResolvedArguments::default(),
            Some(misfit) => Box::pin(argument_repair::resolve(context, group, &tool, args, misfit)).await?,
        };
        self.replace_hidden(group, &tool)?;
        let demand = match rules.asks(&tool.name) {
            Some(source) => Some(ApprovalDemand::Config(source)),
            None if tool.requires_user && self.call.context.can_elicit_forms() => {
                Some(ApprovalDemand::Server)
            }
            None => None,
        };
        let approved = match demand {
            Some(demand) => self.approve(group, &tool, demand).await?,
            None => None,
        };
        let params = approved.as_ref().unwrap_or(&call.params);
        let name = ("name", self.name_as_json(rules.own_name(&tool.name)));
        // A call under the tool's own name may have none.
        let has_args = call.by_our_tool || self.resolved.repaired.is_some() || call.params.has("arguments");
        let is_stateful = server.is_some_and(|server| server.common.stateful);
        let prepared = PreparedRequest {
            method: Method::ToolsCall,
            timeout: server.map_or(MAX_TOTAL, |server| server.timeout.tools),
            repeatable: !is_stateful && rules.accepts_claim(&tool.name, tool.read_only || tool.idempotent),
            may_become_task: self.asks_for_task,
            run_as_task: tool.requires_task && tasks::must_create(group, lease, params),
            params: match has_args {
                true => params.with([name, ("arguments", self.args().clone())]),
                false => params.with([name]),
            },
        };
        self.tool = Some(tool);
        Ok(prepared)
    }
}

impl OutgoingCall<'_> {
    /// Returns what the client gets of a result.
    async fn finish(&self, group: Upstream, result: Raw) -> Raw {
        let tool = self.tool.as_ref().map_or(self.name, |tool| &tool.name);
        let (group, select, store_above) = (&group.name, self.select(), self.store_above);
        let received = ReceivedResult { group, tool, select, store_above, result };
        large_results::finish(&self.call.context, received).await
    }

    /// Adds the values of hidden arguments that the tool requires.
    ///
    /// # Errors
    ///
    /// The call has a hidden argument. The text for the model.
    fn replace_hidden(&mut self, group: &Upstream, tool: &FoundTool) -> Result<(), String> {
        for HiddenArg { name, value } in tool.hidden_args() {
            if let Some(written) = tool.spelling_of_hidden(&name, self.args()) {
                return Err(tool_errors::hidden_argument(&group.name, &tool.name, &name, &written));
            }
            if let Some(value) = value {
                self.resolved.repaired = Some(raw::set(self.args(), &name, &value));
            }
        }
        Ok(())
    }

    /// The server's own name for the tool as JSON text.
    fn name_as_json(&self, own: &str) -> Raw {
        let written = self.arguments.tool_as_json.filter(|_| self.arguments.tool == own);
        written.map_or_else(|| wire::json_string(own), |written| self.call.params.slice_ref(written))
    }

    /// The arguments that are sent.
    fn args(&self) -> &Raw {
        self.resolved.repaired.as_ref().unwrap_or_else(|| self.given_args())
    }

    /// The arguments for the tool as the caller wrote them.
    fn given_args(&self) -> &Raw {
        let with_select = self.arguments.select.as_ref().filter(|_| self.takes_select);
        with_select.and_then(|select| select.args_with_select.as_ref()).unwrap_or(&self.arguments.args)
    }

    /// What to make of the result.
    fn select(&self) -> Option<&SelectArgument> {
        self.arguments.select.as_deref().filter(|_| !self.takes_select)
    }

    /// Asks the user to approve the call. Returns the params of the call for the upstream, unless they are the client's.
    async fn approve(
        &mut self,
        group: &Upstream,
        tool: &Tool,
        demand: ApprovalDemand,
    ) -> Result<Option<Params>, CallStop> {
        let params = &self.call.params;
        let args = self.args().clone();
        let approval = Approval { group: &group.name, tool: &tool.name, args: &args, demand };
        let is_approved = |(approved, of): &(String, Raw)| *approved == tool.name && *of == args;
        if !self.approved.as_deref().is_some_and(is_approved) {
            match Box::pin(approval::request(&self.call.context, params, &approval)).await? {
                ApprovalOutcome::Approved => {
                    self.approved = Some(Box::new((tool.name.clone(), args.clone())));
                }
                ApprovalOutcome::InputRequired(result) => return Err(CallStop::Reply(Ok(result))),
            }
        }
        // The server may have changed it since.
        refuse_changed(group, &group.snapshot(), tool)?;
        self.carried = Some(demand).filter(|_| self.call.context.era == Era::Stateless);
        Ok(self.carried.map(|_| approval.unwrap_params(params).into()))
    }
}

/// Finds the group of a call: the named one, the owner of the exposed name, the one whose name begins the tool's name,
/// the only one that has such a tool, or the only one that has it in another spelling. Returns it with the tool's name.
///
/// # Errors
///
/// The text for the model.
async fn choose_group<'a>(
    context: &RequestContext,
    arguments: &'a CallArguments<'_>,
) -> Result<(Upstream, Cow<'a, str>), String> {
    let (groups, tool) = (context.groups(), &*arguments.tool);
    if let Some(name) = &arguments.group {
        let group = lookup::group(groups, name)?;
        let without_prefix = tool.strip_prefix(group.name.as_str()).and_then(|rest| rest.strip_prefix("__"));
        let name = match without_prefix {
            Some(name) if !Box::pin(found_tool::is_spelling(&group, tool)).await? => name,
            _ => tool,
        };
        return Ok((group, name.into()));
    }
    // Boxed, because most calls name the group.
    let found = Box::pin(choose_group_of(context, tool.to_owned())).await?;
    Ok((found.0, found.1.into()))
}

/// Finds the group of a call that names none.
///
/// # Errors
///
/// The text for the model.
async fn choose_group_of(context: &RequestContext, tool: String) -> Result<(Upstream, String), String> {
    let names = context.session.names.get(&context.session.groups).await;
    let exposed = names.map_err(|_| LISTS_TOOK_TOO_LONG.to_owned())?.resolve(&tool);
    if let Some((Some(group), tool)) = exposed.map(|(group, tool)| (context.groups().get(&group), tool)) {
        return Ok((group, tool));
    }
    let find = context.run_on_lists(move |session| choose_by_tool(&session.groups.all(), &tool));
    find.await.map_err(|error| error.message.into_owned())?
}

/// Finds the group whose name begins the tool's name, the only one that has such a tool, or the only one that has it in
/// another spelling.
///
/// # Errors
///
/// The text for the model.
fn choose_by_tool(all: &[Upstream], tool: &str) -> Result<(Upstream, String), String> {
    if let Some((group, tool)) = lookup::split(all, tool) {
        return Ok((group.clone(), tool.to_owned()));
    }
    let names =
        |groups: &mut dyn Iterator<Item = &Upstream>| quoted_list(groups.map(|group| group.name.as_str()));
    match lookup::owners(all, tool)[..] {
        [group] => Ok((group.clone(), tool.to_owned())),
        [] => match lookup::misspelled(all, tool)? {
            Some(found) => Ok(found),
            None => Err(tool_errors::group_missing(tool, all)),
        },
        ref several => Err(format!(
            "Argument \"group\" is missing, and several groups have a tool {}: {}.",
            quoted(tool),
            names(&mut several.iter().copied())
        )),
    }
}

/// Refuses a tool that changed and is not approved.
///
/// # Errors
///
/// The text for the model.
fn refuse_changed(group: &Upstream, snapshot: &Snapshot, tool: &Tool) -> Result<(), String> {
    changed_tools::refusal(&group.name, snapshot, &tool.name).map_or(Ok(()), Err)
}
