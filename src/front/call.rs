//! `call_dynamic_tool`: finds the tool, gets a lease, passes the call on and its result back, unaltered.

use super::arguments::Call;
use super::caller::Caller;
use super::confirm::Outcome;
use super::consent::Matter;
use super::{confirm, errors, fits, lookup, reach, stateless, tasks};
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::rules::Rules;
use crate::upstream::catalog::{Catalog, Tool};
use crate::upstream::{Lease, Upstream};
use crate::wire::peer::{CallError, CallOptions};
use crate::wire::{Raw, Reply, raw};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// However much progress a call shows.
const LONGEST_CALL: Duration = Duration::from_secs(3600);

/// One `tools/call` of a client.
pub struct Request {
    /// The client's params, whole.
    pub params: Raw,
    pub caller: Caller,
    /// Only tools that read may be called.
    pub read_only: bool,
}

/// A tool that was found, on a connection that is held.
struct Target {
    group: Upstream,
    tool: Tool,
    lease: Lease,
    quiet: Duration,
    /// Once more does no harm, if the connection breaks.
    repeatable: bool,
    /// The user is to confirm the call.
    asks: bool,
}

/// Answers `call_dynamic_tool` and its read-only kin. An error of the upstream's own passes as it is.
pub async fn call_dynamic_tool(groups: &GroupManager, request: Request) -> Reply {
    match Call::read(raw::get(&request.params, "arguments").as_ref()) {
        Ok(call) => call_tool(groups, request, call).await,
        Err(problem) => Ok(errors::tool_error(&problem)),
    }
}

/// Calls a tool that was named in whichever way.
pub async fn call_tool(groups: &GroupManager, request: Request, call: Call) -> Reply {
    match run(groups, &request, &call).await {
        Ok(reply) => reply,
        Err(_) if groups.is_shutting_down() => Err(errors::shutting_down().into()),
        Err(problem) => Ok(errors::tool_error(&problem)),
    }
}

/// `Err` is text for the model.
async fn run(groups: &GroupManager, request: &Request, call: &Call) -> Result<Reply, String> {
    let mut repeated = false;
    let mut confirmed = false;
    let mut offered = false;
    loop {
        let target = find(groups, call, request).await?;
        let matter = Matter { group: &target.group.name, tool: &target.tool.name, args: &call.args };
        if target.asks && !confirmed {
            match confirm::confirm(request, &matter).await? {
                Outcome::Agreed => confirmed = true,
                Outcome::Asks(question) => return Ok(Ok(question)),
            }
        }
        let travels = target.asks && request.caller.era == Era::Stateless;
        let given_params = if travels { matter.unwrapped(&request.params) } else { request.params.clone() };
        let options =
            CallOptions { total: LONGEST_CALL.max(target.quiet), ..CallOptions::within(target.quiet) };
        let name = serde_json::Value::from(target.tool.name.as_str()).to_string();
        let params = [("name", name.as_bytes()), ("arguments", &call.args)];
        let params = raw::set_all(&given_params, &params);
        let started = Instant::now();
        let outcome = ask(request, &target, params, options).await;
        target.group.stats.record(started.elapsed());
        let error = match outcome {
            Ok(Ok(result)) => {
                let result = if travels { matter.wrapped(&result) } else { result };
                return given(groups, request, target, result);
            }
            Ok(refused) => return Ok(refused),
            Err(error) => error,
        };
        if !repeated && error.may_be_repeated(target.repeatable) {
            repeated = true;
            continue;
        }
        let lost = target.lease.lost().map(|lost| lost.to_string());
        let failed = errors::failed_call(&target.group.name, &target.tool.name, &error, lost);
        if offered || !error.needs_login() {
            return Err(failed);
        }
        offered = true;
        match reach::login_for(&request.caller, groups, &target.group).await {
            Ok(()) => {}
            Err(None) => return Err(failed),
            Err(Some(login)) => return Err(format!("{failed}\n{login}")),
        }
    }
}

/// Makes the call, as a task where the tool does not run otherwise.
async fn ask(
    request: &Request,
    target: &Target,
    params: Raw,
    options: CallOptions,
) -> Result<Reply, CallError> {
    let Target { group, lease, tool, .. } = target;
    let catalog = group.snapshot().catalog.clone();
    if tool.task && tasks::must_be_made(catalog.as_deref(), lease, &params) {
        return tasks::awaited(&request.caller, group, lease, params, options).await;
    }
    let lasting = raw::get(&params, "task").is_some();
    request.caller.ask(&group.name, lease, "tools/call", params, CallOptions { lasting, ..options }).await
}

/// The result as the client of the request may have it.
fn given(groups: &GroupManager, request: &Request, target: Target, result: Raw) -> Result<Reply, String> {
    let Target { group, lease, tool, .. } = target;
    groups.note_uris(&group.name, &result);
    let result = match lease.era() {
        Era::Handshake => result,
        Era::Stateless => {
            let given = stateless::from_stateless(&group.name, request.caller.era, result);
            given
                .map_err(|why| format!("Tool {} of group {} gave no result: {why}.", tool.name, group.name))?
        }
    };
    Ok(Ok(tasks::created(&request.caller, &group.name, lease, &request.params, result)))
}

/// Connects the group if need be and finds the tool in its catalog, which is read once more before a name is refused.
async fn find(groups: &GroupManager, call: &Call, request: &Request) -> Result<Target, String> {
    let (group, name) = choose(groups, call)?;
    let (group, lease) = reach::lease_for(&request.caller, groups, &group).await?;
    if group.take_lost_state() {
        return Err(errors::lost_state(&group.name));
    }
    let mut snapshot = group.snapshot();
    let server = snapshot.server.clone();
    let rules = snapshot.rules.clone();
    let look = |catalog: Option<Arc<Catalog>>| {
        let catalog = catalog?;
        lookup::tool(&catalog, name).filter(|tool| rules.allows(&tool.name)).cloned()
    };
    let mut tool = look(snapshot.catalog.clone());
    if tool.is_none() && rules.allows(name) {
        group.refresh().await;
        snapshot = group.snapshot();
        tool = look(snapshot.catalog.clone());
    }
    let Some(tool) = tool else {
        let catalog = snapshot.catalog.clone();
        let known =
            catalog.iter().flat_map(|c| &c.tools).map(|t| t.name.as_str()).filter(|t| rules.allows(t));
        return Err(lookup::unknown_tool(group.name.as_str(), name, known));
    };
    permit(&group, &tool, &rules, request.read_only)?;
    fits::check(groups, &group, &tool, &call.args).await?;
    let quiet = server.as_ref().map_or(LONGEST_CALL, |server| server.timeout.tools);
    let stateful = server.as_ref().is_some_and(|server| server.stateful);
    let repeatable = !stateful && (tool.read_only || tool.idempotent);
    let asks = rules.asks(&tool.name);
    Ok(Target { group, tool, lease, quiet, repeatable, asks })
}

/// The group that is named, that the tool's name begins with, or that alone has such a tool.
fn choose<'a>(groups: &GroupManager, call: &'a Call) -> Result<(Upstream, &'a str), String> {
    if let Some(name) = &call.group {
        let group = lookup::named(groups, name)?;
        let own_prefix = call.tool.strip_prefix(group.name.as_str()).and_then(|rest| rest.strip_prefix("__"));
        let has =
            |tool: &str| group.snapshot().catalog.as_ref().is_some_and(|c| lookup::tool(c, tool).is_some());
        let tool = own_prefix.filter(|_| !has(&call.tool)).unwrap_or(&call.tool);
        return Ok((group, tool));
    }
    let all = groups.all();
    if let Some((group, tool)) = lookup::split(&all, &call.tool) {
        return Ok((group.clone(), tool));
    }
    match lookup::owners(&all, &call.tool)[..] {
        [group] => Ok((group.clone(), &call.tool)),
        [] => Err(format!(
            "Argument \"group\" is missing, and no connected group has a tool {:?}. The groups: {}.",
            call.tool,
            names(all.iter())
        )),
        ref several => Err(format!(
            "Argument \"group\" is missing, and several groups have a tool {:?}: {}.",
            call.tool,
            names(several.iter().copied())
        )),
    }
}

fn names<'a>(groups: impl Iterator<Item = &'a Upstream>) -> String {
    groups.map(|group| group.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What the config and the read-only tool allow.
fn permit(group: &Upstream, tool: &Tool, rules: &Rules, read_only: bool) -> Result<(), String> {
    let name = &tool.name;
    if read_only && !tool.read_only && !rules.read_only(name) {
        return Err(format!(
            "Tool {name} of group {} does not say that it only reads, so it was not called. Use call_dynamic_tool.",
            group.name
        ));
    }
    Ok(())
}
