//! `completion/complete`: goes to the group of the prompt or of the resource template that `params.ref` names.

use super::{prompts, uri_lookup};
use crate::call::attempts::forward_method;
use crate::known_lists::ListKind;
use crate::session::invocation::Invocation;
use crate::session::requester::Requester;
use crate::{errors, known_lists};
use upstream::Upstream;
use wire::object::Object;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, raw};

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
            let (group, name) = prompts::find_owner(&invocation, &name).await?;
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
