//! `prompts/*`: the prompts of all groups under exposed names.

use super::aggregate::{self, GroupEntries, ListKind};
use super::forward::forward_method;
use crate::front::errors::{self, RpcError};
use crate::front::exposed_names::ExposedNames;
use crate::front::interaction::acquire::acquire_for_user;
use crate::front::interaction::invocation::Invocation;
use crate::front::lookup;
use crate::protocol::methods::Method;
use crate::text::quoted;
use crate::upstream::Upstream;
use crate::wire::{Raw, Reply, raw};

/// `prompts/list`. `ours` is the definition of our own prompt, which comes first.
pub async fn list(invocation: Invocation, ours: Raw) -> Reply {
    if let Some(group) = invocation.group()? {
        let params = invocation.params_without_group();
        return forward_method(&invocation.context, &group, Method::PromptsList, params).await;
    }
    let lists = aggregate::current(invocation.groups(), &ListKind::PROMPTS).await;
    let names = exposed_names(&lists);
    let mut merged = vec![ours];
    for (group, entries) in &lists {
        for entry in entries {
            if let Some(name) = names.exposed(group, &entry.key) {
                merged.push(raw::set_str(&entry.definition, "name", name));
            }
        }
    }
    aggregate::page(&invocation.params, &ListKind::PROMPTS, merged)
}

/// `prompts/get`.
pub async fn get(invocation: Invocation) -> Reply {
    let name = invocation.string("name")?;
    let (group, name) = find_owner(&invocation, &name).await?;
    let params = invocation.params_with("name", &name);
    forward_method(&invocation.context, &group, Method::PromptsGet, params).await
}

/// Finds the group of a prompt and its name there. If the name is unknown, the groups whose prefix it has are connected.
///
/// # Errors
///
/// No group has such a prompt, or the only group that may have it could not be connected.
pub(super) async fn find_owner(invocation: &Invocation, name: &str) -> Result<(Upstream, String), Raw> {
    if let Some(group) = invocation.group()? {
        return Ok((group, name.to_owned()));
    }
    let groups = invocation.groups();
    let find_known = || {
        let names = exposed_names(&aggregate::known(groups, &ListKind::PROMPTS));
        let (group, name) = names.resolve(name)?;
        Some((groups.get(&group)?, name))
    };
    if let Some(found) = find_known() {
        return Ok(found);
    }
    let mut error = errors::invalid_params(format!("unknown prompt: {}", quoted(name)));
    for group in lookup::with_prefix(&groups.all(), name) {
        match acquire_for_user(&invocation.context, group).await {
            Ok((group, _lease)) => group.refresh().await,
            Err(unavailable) => error = RpcError::from(unavailable),
        }
        if let Some(found) = find_known() {
            return Ok(found);
        }
    }
    Err(error.into())
}

fn exposed_names(lists: &GroupEntries) -> ExposedNames {
    let pairs = lists
        .iter()
        .flat_map(|(group, entries)| entries.iter().map(move |entry| (group, entry.key.as_str())));
    let names: Vec<_> = lists.iter().map(|(group, _)| group.clone()).collect();
    ExposedNames::new(&names, pairs)
}
