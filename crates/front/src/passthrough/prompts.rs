//! `prompts/*`: the prompts of all groups under exposed names. `completion/complete` goes to the group of the prompt or of
//! the resource template that `params.ref` names.

use super::{aggregate, uri_lookup};
use crate::ask::acquire::acquire_for_user;
use crate::call::forward::forward_method;
use crate::errors::{self, RpcError};
use crate::names::exposed_names::{self, ExposedNames};
use crate::names::known_lists::{self, GroupEntries, ListKind};
use crate::names::lookup;
use crate::session::context::Invocation;
use crate::session::requester::Requester;
use upstream::catalog::list_limits::CatalogList;
use upstream::{Catalog, Need, Upstream};
use wire::object::Object;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

/// `prompts/list`. `ours` are the definitions of our own prompts, which come first. If `params.group` names a group, its
/// own answer is returned, without ours.
///
/// # Errors
///
/// There is no such group, the cursor is unknown, or it took too long; or those of `forward_method`.
pub async fn list(invocation: Invocation, ours: Vec<Raw>) -> Reply {
    let merge = |_: &Requester, lists: &GroupEntries| {
        let names = names_of(lists);
        let mut merged = ours;
        for (group, entries) in lists {
            for entry in entries.iter() {
                if let Some(name) = names.exposed(group, &entry.key) {
                    merged.push(raw::set_str(&entry.definition, "name", name));
                }
            }
        }
        merged
    };
    aggregate::list(&invocation, &ListKind::PROMPTS, merge).await
}

/// `prompts/get`.
///
/// # Errors
///
/// `params.name` is no string; its group is not found; or those of `forward_method`.
pub async fn get(invocation: Invocation) -> Reply {
    let name = invocation.string("name")?;
    let (group, name) = find_owner(&invocation, &name).await?;
    let params = invocation.params_with("name", &name);
    forward_method(&invocation.context, &group, Method::PromptsGet, params).await
}

/// Finds the group of a prompt and its name there. If `params.group` names a group, the name is not checked. If no known
/// list has the name, connects the groups whose prefix it has one after the other, which may ask the user to log in, and
/// looks again. If none of them has it, returns the first whose list is incomplete: it may have the prompt all the same.
///
/// # Errors
///
/// Fails if `params.group` names no group, or if no group may have the prompt. If groups of its prefix could not be
/// connected, the error says why the last of them could not.
async fn find_owner(invocation: &Invocation, name: &str) -> Result<(Upstream, String), Raw> {
    if let Some(group) = invocation.group()? {
        return Ok((group, name.to_owned()));
    }
    let groups = invocation.groups();
    if let Some(found) = find_known(invocation, name).await? {
        return Ok(found);
    }
    let mut error = errors::invalid_params(format!("unknown prompt: {}", errors::shown(name)));
    let mut incomplete = None;
    for group in lookup::with_prefix(&groups.all(), name) {
        match acquire_for_user(&invocation.context, group.clone(), Need::Handshake).await {
            Ok((group, _lease)) => group.refresh(Need::Lists).await,
            Err(unavailable) => error = RpcError::from(unavailable),
        }
        if let Some(found) = find_known(invocation, name).await? {
            return Ok(found);
        }
        let lacks_some = |catalog: &Catalog| catalog.left_off.lacks_named(CatalogList::Prompts);
        if group.snapshot().catalog.as_deref().is_some_and(lacks_some) {
            let prefix = exposed_names::plain_name(&group.name, "").len();
            let own = || name.get(prefix..).unwrap_or_default().to_owned();
            incomplete.get_or_insert_with(|| (group, own()));
        }
    }
    // A prompt that is left off the list can be used all the same.
    incomplete.ok_or_else(|| error.into())
}

/// Finds the group of a prompt and its name there in what is known now.
///
/// # Errors
///
/// It took too long.
async fn find_known(invocation: &Invocation, name: &str) -> Result<Option<(Upstream, String)>, RpcError> {
    let exposed = name.to_owned();
    let find = move |requester: &Requester| {
        let names = names_of(&known_lists::entries(requester.groups(), &ListKind::PROMPTS));
        let (group, name) = names.resolve(&exposed)?;
        Some((requester.groups().get(&group)?, name))
    };
    invocation.context.run_on_lists(find).await
}

fn names_of(lists: &GroupEntries) -> ExposedNames {
    let pairs = lists
        .iter()
        .flat_map(|(group, entries)| entries.iter().map(move |entry| (group, entry.key.as_str())));
    let names: Vec<_> = lists.iter().map(|(group, _)| group.clone()).collect();
    ExposedNames::new(&names, pairs)
}

/// `completion/complete`.
///
/// # Errors
///
/// `params.ref` is missing, wrong or ambiguous; its group is not found; or those of `forward_method`.
pub async fn complete(invocation: Invocation) -> Reply {
    let reference =
        raw::get(&invocation.params, "ref").ok_or_else(|| errors::invalid_params("params.ref is missing"))?;
    // Its server must find the same reference in it.
    let members =
        Object::parse(&reference).map_or(Ok(()), |object| object.check_spelling(&["type", "name", "uri"]));
    members.map_err(|member| errors::ambiguous_params(&member))?;
    let (group, key, value) = match raw::get_str(&reference, "type").as_deref() {
        Some("ref/prompt") => {
            let name = raw::get_str(&reference, "name");
            let name = name.ok_or_else(|| errors::invalid_params("params.ref.name must be a string"))?;
            let (group, name) = find_owner(&invocation, &name).await?;
            (group, "name", name)
        }
        Some("ref/resource") => {
            let uri = raw::get_str(&reference, "uri");
            let uri = uri.ok_or_else(|| errors::invalid_params("params.ref.uri must be a string"))?;
            let (group, uri) = find_template_owner(&invocation, &uri).await?;
            (group, "uri", uri)
        }
        _ => return Err(errors::invalid_params("params.ref.type must be ref/prompt or ref/resource").into()),
    };
    let reference = raw::set_str(&reference, key, &value);
    let params = raw::set(&invocation.params_without_group(), "ref", &reference);
    forward_method(&invocation.context, &group, Method::CompletionComplete, params).await
}

/// Returns the group that lists exactly this template, else the owner of a URI of this form, in what is known now.
///
/// # Errors
///
/// There is none, several groups named the URI, `params.group` names no group, or it took too long.
async fn find_template_owner(invocation: &Invocation, uri: &str) -> Result<(Upstream, String), Raw> {
    if raw::get(&invocation.params, "group").is_none() {
        let template = uri.to_owned();
        let find = move |requester: &Requester| {
            let lists = known_lists::entries(requester.groups(), &ListKind::TEMPLATES);
            let owner = lists.iter().find(|(_, entries)| entries.has(&template))?;
            requester.groups().get(&owner.0)
        };
        if let Some(group) = invocation.context.run_on_lists(find).await? {
            return Ok((group, uri.to_owned()));
        }
    }
    uri_lookup::find_known_owner(invocation, uri)
        .await?
        .ok_or_else(|| errors::invalid_params(format!("unknown resource: {}", errors::shown(uri))).into())
}
