//! `resources/*`: the lists of all groups or of one, and reads.

use super::uri_lookup::Candidate;
use super::{aggregate, uri_lookup};
use crate::call::forward::forward_method;
use crate::errors;
use crate::names::known_lists::{GroupEntries, ListKind};
use crate::names::{known_lists, uri_owner};
use crate::results::content::ToolResult;
use crate::results::{URI_PREFIX, preview};
use crate::session::context::Invocation;
use crate::session::requester::Requester;
use config::GroupName;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

/// `resources/list`, of the group that `params.group` names or of all, which `ours` is before.
///
/// # Errors
///
/// There is no such group, the cursor is unknown, or it took too long; or those of `forward_method`.
pub async fn list(invocation: Invocation, ours: Option<Raw>) -> Reply {
    let merge = |requester: &Requester, lists: &GroupEntries| {
        let claims = known_lists::claims(requester.groups());
        let merged = uri_owner::merge(lists, &claims, ListKind::RESOURCES.list.key());
        ours.into_iter().chain(merged).collect()
    };
    aggregate::list(&invocation, &ListKind::RESOURCES, merge).await
}

/// `resources/templates/list`, of the group that `params.group` names or of all.
///
/// # Errors
///
/// See [`list`].
pub async fn templates(invocation: Invocation) -> Reply {
    let merge =
        |_: &Requester, lists: &GroupEntries| uri_owner::merge(lists, &[], ListKind::TEMPLATES.list.key());
    aggregate::list(&invocation, &ListKind::TEMPLATES, merge).await
}

/// `resources/read`: reads a stored result, or goes to the named group, else to the owner of the URI, else to the
/// groups that may serve it.
///
/// # Errors
///
/// `params.uri` is no string, there is no such group, or several groups named the URI; or no group gave the resource,
/// and of their errors this one says most.
pub async fn read(invocation: Invocation) -> Reply {
    let uri = invocation.string("uri")?;
    if let Some(id) = uri.strip_prefix(URI_PREFIX)
        && let Some(reply) = read_stored(&invocation, id, &uri).await
    {
        return reply;
    }
    let ask = |candidate| read_at(&invocation, candidate, &uri);
    uri_lookup::ask_candidates(&invocation, &uri, ask).await?
}

/// Reads a stored result. `None` if there is none of this id and the URI may be one of a group that is called like
/// ours.
///
/// # Errors
///
/// There is none, and no group can have the URI.
async fn read_stored(invocation: &Invocation, id: &str, uri: &str) -> Option<Reply> {
    if let Some(session) = invocation.context.session()
        && let Some(stored) = session.results.get(id).await
        && let Some(result) = ToolResult::parse(&stored.result)
    {
        return Some(Ok(preview::contents(&result, uri)));
    }
    let is_of_group = uri_owner::parse_rewritten(uri)
        .is_some_and(|(group, _)| invocation.groups().get(&GroupName::new(&group)).is_some());
    let names_group = invocation.params.get("group").is_some();
    // No other group has it, so no other group is asked.
    (!is_of_group && !names_group).then(|| Err(errors::resource_not_found(uri).into()))
}

async fn read_at(invocation: &Invocation, Candidate { group, uri, .. }: Candidate, known_as: &str) -> Reply {
    let params = invocation.params_with("uri", &uri);
    let result = forward_method(&invocation.context, &group, Method::ResourcesRead, params).await?;
    let is_renamed = known_as != uri && uri_owner::keeps_scheme(&uri);
    Ok(if is_renamed { renamed(&result, &uri, known_as) } else { result })
}

/// Replaces the URI of the contents by the one that the client asked for, because it compares them.
fn renamed(result: &Raw, uri: &str, known_as: &str) -> Raw {
    let Some(contents) = raw::elements(result, "contents") else { return result.clone() };
    let rename = |content: &Raw| match raw::get_str(content, "uri") {
        Some(own) if own == uri => raw::set_str(content, "uri", known_as),
        _ => content.clone(),
    };
    let contents: Vec<_> = contents.iter().map(rename).collect();
    raw::set(result, "contents", &raw::array(&contents))
}
