//! The skills extension (SEP-2640): `skills/list`, `skills/get` and `resources/directory/read`.
//!
//! The skills of all groups are one list. If two groups have a skill with the same URI, the later group's gets the name
//! of its group in front of its path, in its entry and wherever its files are named.

use super::uri_lookup::Candidate;
use super::{aggregate, uri_lookup};
use crate::call::forward::forward_method;
use crate::names::known_lists::{GroupEntries, ListKind};
use crate::names::{known_lists, uri_owner};
use crate::session::context::Invocation;
use crate::session::requester::Requester;
use config::GroupName;
use std::time::Duration;
use tokio::time::timeout;
use wire::protocol::code;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

/// How long `skills/list` waits for groups that are being discovered.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// `skills/list`, of the group that `params.group` names or of all. The list of all waits for groups that are being
/// discovered, for five seconds at most.
///
/// # Errors
///
/// There is no such group, the cursor is unknown, or it took too long; or those of `forward_method`.
pub async fn list(invocation: Invocation) -> Reply {
    if invocation.group()?.is_none() {
        // Other lists do not wait, because clients are told when they change. There is no such notification for skills.
        drop(timeout(DISCOVERY_TIMEOUT, invocation.groups().first_catalogs_read()).await);
    }
    let merge = |requester: &Requester, lists: &GroupEntries| {
        let claims = known_lists::resources_and_claims(requester.groups());
        let mut merged = Vec::new();
        for (group, skills) in lists {
            for skill in skills.iter() {
                let is_owner = uri_owner::lister(&skill.key, &claims).is_none_or(|owner| owner == group);
                merged.push(match is_owner {
                    true => skill.definition.clone(),
                    false => with_group(group, &skill.definition),
                });
            }
        }
        merged
    };
    aggregate::list(&invocation, &ListKind::SKILLS, merge).await
}

/// `skills/get`.
///
/// # Errors
///
/// See `ask_owner`.
pub async fn get(invocation: Invocation) -> Reply {
    let name = |group: &GroupName, result: &Raw| match raw::get(result, "skill") {
        Some(skill) => raw::set(result, "skill", &with_group(group, &skill)),
        None => result.clone(),
    };
    ask_owner(&invocation, Method::SkillsGet, name).await
}

/// `resources/directory/read`.
///
/// # Errors
///
/// See `ask_owner`.
pub(crate) async fn read_directory(invocation: Invocation) -> Reply {
    ask_owner(&invocation, Method::ResourcesDirectoryRead, with_group_in_files).await
}

/// Forwards a request about a URI to its group, or to those that may have it. `rename` puts the name of the group into
/// the URIs of a result, if it is in the URI of the request.
///
/// # Errors
///
/// `params.uri` is no string, there is no such group, or several groups named the URI; or no group gave what the URI
/// names, and of their errors this one says most.
async fn ask_owner(
    invocation: &Invocation,
    method: Method,
    rename: impl Fn(&GroupName, &Raw) -> Raw,
) -> Reply {
    let known_as = invocation.string("uri")?;
    let ask = |Candidate { group, uri, .. }| {
        let (known_as, rename) = (&known_as, &rename);
        async move {
            let params = invocation.params_with("uri", &uri);
            let result = forward_method(&invocation.context, &group, method, params).await?;
            Ok(if uri != *known_as { rename(&group.name, &result) } else { result })
        }
    };
    let reply = uri_lookup::ask_candidates(invocation, &known_as, ask).await;
    // The extension has one code for what does not exist, in every revision.
    reply.map_err(|error| match raw::error_code(&error) {
        Some(code::RESOURCE_NOT_FOUND) => {
            raw::set(&error, "code", code::INVALID_PARAMS.to_string().as_bytes())
        }
        _ => error,
    })?
}

/// Puts the name of a group into the URIs of a skill's entry.
fn with_group(group: &GroupName, skill: &Raw) -> Raw {
    with_group_in_files(group, &renamed(group, skill))
}

/// Puts the name of a group into the URIs of `resources`.
fn with_group_in_files(group: &GroupName, of: &Raw) -> Raw {
    let Some(files) = raw::elements(of, "resources") else { return of.clone() };
    let files: Vec<_> = files.iter().map(|file| renamed(group, file)).collect();
    raw::set(of, "resources", &raw::array(&files))
}

fn renamed(group: &GroupName, object: &Raw) -> Raw {
    match raw::get_str(object, "uri") {
        Some(uri) => raw::set_str(object, "uri", &uri_owner::rewrite(group, &uri)),
        None => object.clone(),
    }
}
