//! Finds the group of a tool, and the group's own name for it, by what a request calls the tool: its exposed name, its
//! name after the name of a group, or its bare name in any [spelling](crate::names::spelling).

use super::found_tool;
use crate::ask::acquire::{acquire, acquire_for_user};
use crate::errors::request_error::RequestError;
use crate::errors::{self, RpcError, tool_errors};
use crate::names::{exposed_names, lookup};
use crate::session::context::RequestContext;
use upstream::{GroupManager, Need, Upstream};

/// The group of a tool, and its own name for the tool.
pub(crate) type ResolvedTool = (Upstream, String);

/// What is known of the group of a tool, without connecting one.
enum KnownOwner {
    /// This one has it, or may have it under this name.
    One(ResolvedTool),
    /// No group is known to have it.
    None,
    /// All of these have it.
    Several(Vec<Upstream>),
}

/// Removes the name of the group and two underscores from the beginning of the name of a tool: some models write them.
/// The name stays as it is if the group has a tool of the whole name, in any spelling.
///
/// # Errors
///
/// It took too long. The text for the model.
pub(crate) async fn without_group<'n>(group: &Upstream, name: &'n str) -> Result<&'n str, String> {
    let rest = name.strip_prefix(group.name.as_str()).and_then(|rest| rest.strip_prefix("__"));
    Ok(match rest {
        // Boxed, so that the future of a call whose tool only begins like its group is small.
        Some(rest) if !Box::pin(found_tool::is_spelling(group, name)).await? => rest,
        _ => name,
    })
}

/// Finds the tool of a `call_dynamic_tool` that names no group, in what is known now. Connects no group.
///
/// # Errors
///
/// No known group has the tool, several may be meant, or it took too long. The text is for the model.
pub(crate) async fn without_named_group(
    context: &RequestContext,
    name: String,
) -> Result<ResolvedTool, String> {
    let exposed = exposed(context, &name).await.map_err(|error| error.message.into_owned())?;
    if let Some(found) = exposed {
        return Ok(found);
    }
    let find = context.run_on_lists(move |requester| {
        let all = &requester.groups().all();
        match known_owner(all, &name)? {
            KnownOwner::One(found) => Ok(found),
            KnownOwner::None => Err(tool_errors::group_missing(&name, all)),
            KnownOwner::Several(groups) => {
                Err(tool_errors::group_ambiguous(&name, groups.iter().map(|group| &group.name)))
            }
        }
    });
    find.await.map_err(|error| error.message.into_owned())?
}

/// Finds the tool that a request names directly. Groups that may have it are connected; `offers_login`: the user is
/// offered the login that such a group needs.
///
/// # Errors
///
/// No group has the tool, several may be meant, the group that may have it is not available, or it took too long.
pub(crate) async fn by_direct_name(
    context: &RequestContext,
    name: &str,
    offers_login: bool,
) -> Result<ResolvedTool, RequestError> {
    if let Some(found) = exposed(context, name).await? {
        return Ok(found);
    }
    let sought = name.to_owned();
    let find = context.run_on_lists(move |requester| {
        let all = &requester.groups().all();
        let candidates = lookup::with_prefix(all, &sought);
        match candidates.is_empty() {
            true => known_direct_owner(requester.groups(), all, &sought).map(Ok),
            false => Ok(Err(candidates)),
        }
    });
    match find.await?? {
        Ok(found) => Ok(found),
        Err(candidates) => Box::pin(by_connecting(context, candidates, name, offers_login)).await,
    }
}

/// Finds a tool by its exposed name. Returns `None` if no known tool has the name.
///
/// # Errors
///
/// Making the table of names took too long.
async fn exposed(context: &RequestContext, name: &str) -> Result<Option<ResolvedTool>, RpcError> {
    let owner = context.exposed_names().await?.resolve(name);
    Ok(owner.and_then(|(group, tool)| Some((context.groups().get(&group)?, tool))))
}

/// Finds the group whose name begins the tool's name, the only one that has such a tool, or the only one that has it in
/// another spelling.
///
/// # Errors
///
/// The name may mean several tools in another spelling. The text for the model.
fn known_owner(all: &[Upstream], name: &str) -> Result<KnownOwner, String> {
    if let Some((group, tool)) = lookup::split(all, name) {
        return Ok(KnownOwner::One((group.clone(), tool.to_owned())));
    }
    Ok(match lookup::owners(all, name)[..] {
        [group] => KnownOwner::One((group.clone(), name.to_owned())),
        [] => lookup::misspelled(all, name)?.map_or(KnownOwner::None, KnownOwner::One),
        ref several => KnownOwner::Several(several.iter().copied().cloned().collect()),
    })
}

/// Finds the group of a tool that a request names directly.
///
/// # Errors
///
/// No known group has the tool, its group is disabled, or several have it.
fn known_direct_owner(
    groups: &GroupManager,
    all: &[Upstream],
    name: &str,
) -> Result<ResolvedTool, RequestError> {
    match known_owner(all, name)? {
        KnownOwner::One(found) => Ok(found),
        KnownOwner::None => {
            let disabled = name.split_once("__").and_then(|(group, _)| lookup::disabled(groups, group));
            Err(disabled.map_or_else(|| errors::unknown_tool(name).into(), RequestError::Refused))
        }
        KnownOwner::Several(several) => {
            // An app names the tools of its server without the group.
            let for_apps: Vec<_> = several.iter().filter(|group| lookup::is_for_apps(group, name)).collect();
            match for_apps[..] {
                [group] => Ok((group.clone(), name.to_owned())),
                _ => Err(tool_errors::ambiguous(name, several.iter().map(|group| &group.name)).into()),
            }
        }
    }
}

/// Connects the groups that may have a tool exposed as `name`, one after the other, until one has it. If none has it,
/// returns the first group with the rest of the name as the tool, so that the request fails with what that group says of an
/// unknown tool. Other groups that cannot be connected are passed over. The connection is not held for the caller.
/// `offers_login`: the user is offered the login that a group needs.
///
/// # Errors
///
/// None has it and the first one could not be connected; or finding it took too long.
async fn by_connecting(
    context: &RequestContext,
    candidates: Vec<Upstream>,
    name: &str,
    offers_login: bool,
) -> Result<ResolvedTool, RequestError> {
    let mut first = None;
    for group in candidates {
        let prefix = exposed_names::plain_name(&group.name, "").len();
        let acquired = match offers_login {
            true => acquire_for_user(context, group, Need::Tools).await,
            false => acquire(context.groups(), &group, Need::Tools, context.progress.as_ref()).await,
        };
        let connected = acquired.map(|(group, _lease)| group);
        if let Some(found) = exposed(context, name).await? {
            return Ok(found);
        }
        let tool = || name.get(prefix..).unwrap_or_default().to_owned();
        first.get_or_insert_with(|| connected.map(|group| (group, tool())));
    }
    first.map_or_else(|| Err(errors::unknown_tool(name).into()), |first| first.map_err(RequestError::from))
}
