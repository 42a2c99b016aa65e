//! `prompts/*` and `completion/complete`: prompts of all groups under exposed names.

use super::exposed::Names;
use super::gather::{self, Kind};
use super::relay::{Asked, Passed, pass};
use super::{errors, lookup, reach, resources};
use crate::config::GroupName;
use crate::upstream::Upstream;
use crate::upstream::catalog::Listed;
use crate::wire::{Raw, Reply, raw};

pub async fn list(asked: Asked) -> Reply {
    if let Some(group) = asked.group()? {
        let params = asked.without_group();
        return pass(&asked, &group, Passed { method: "prompts/list", capability: "prompts", params }).await;
    }
    let lists = gather::fresh(&asked.groups, &Kind::PROMPTS).await;
    let names = names(&lists);
    let mut merged = Vec::new();
    for (group, list) in &lists {
        for listed in list {
            if let Some(name) = names.of(group, &listed.key) {
                let name = serde_json::Value::from(name).to_string();
                merged.push(raw::set(&listed.entry, "name", name.as_bytes()));
            }
        }
    }
    gather::page(&asked.params, &Kind::PROMPTS, merged)
}

pub async fn get(asked: Asked) -> Reply {
    let name = asked.text("name")?;
    let (group, name) = target(&asked, &name).await?;
    let name = serde_json::Value::from(name).to_string();
    let params = raw::set(&asked.without_group(), "name", name.as_bytes());
    pass(&asked, &group, Passed { method: "prompts/get", capability: "prompts", params }).await
}

/// Goes to the group of the prompt or of the template that `params.ref` names.
pub async fn complete(asked: Asked) -> Reply {
    let reference =
        raw::get(&asked.params, "ref").ok_or_else(|| errors::bad_params("params.ref is missing"))?;
    let (group, key, value) = match raw::get_str(&reference, "type").as_deref() {
        Some("ref/prompt") => {
            let name = raw::get_str(&reference, "name");
            let name = name.ok_or_else(|| errors::bad_params("params.ref.name must be a string"))?;
            let (group, name) = target(&asked, &name).await?;
            (group, "name", name)
        }
        Some("ref/resource") => {
            let uri = raw::get_str(&reference, "uri");
            let uri = uri.ok_or_else(|| errors::bad_params("params.ref.uri must be a string"))?;
            let (group, uri) = template(&asked, &uri)?;
            (group, "uri", uri)
        }
        _ => return Err(errors::bad_params("params.ref.type must be ref/prompt or ref/resource").into()),
    };
    let reference = raw::set(&reference, key, serde_json::Value::from(value).to_string().as_bytes());
    let params = raw::set(&asked.without_group(), "ref", &reference);
    pass(&asked, &group, Passed { method: "completion/complete", capability: "completions", params }).await
}

/// The group that lists exactly this template, else the one that a URI of this form belongs to.
fn template(asked: &Asked, uri: &str) -> Result<(Upstream, String), Raw> {
    let lists = gather::known(&asked.groups, &Kind::TEMPLATES);
    let owner = lists.iter().find(|(_, list)| resources::listed(list).any(|key| key == uri));
    let owner = owner.filter(|_| raw::get(&asked.params, "group").is_none()).map(|(group, _)| group);
    if let Some(group) = owner.and_then(|group| asked.groups.get(group)) {
        return Ok((group, uri.to_owned()));
    }
    resources::target(asked, uri)?
        .ok_or_else(|| errors::bad_params(format!("unknown resource: {uri}")).into())
}

/// The group of a prompt and its name there. A name that is not known connects the groups that it may belong to.
async fn target(asked: &Asked, name: &str) -> Result<(Upstream, String), Raw> {
    if let Some(group) = asked.group()? {
        return Ok((group, name.to_owned()));
    }
    let find = || {
        let (group, name) = names(&gather::known(&asked.groups, &Kind::PROMPTS)).resolve(name)?;
        Some((asked.groups.get(&group)?, name))
    };
    if let Some(found) = find() {
        return Ok(found);
    }
    let mut refusal = errors::bad_params(format!("unknown prompt: {name}"));
    for group in lookup::beginning(&asked.groups.all(), name) {
        match reach::lease_for(&asked.caller, &asked.groups, &group).await {
            Ok((group, _held)) => group.refresh().await,
            Err(unreachable) => refusal = errors::unreachable(&unreachable),
        }
        if let Some(found) = find() {
            return Ok(found);
        }
    }
    Err(refusal.into())
}

fn names(lists: &[(GroupName, Vec<Listed>)]) -> Names {
    Names::new(lists.iter().flat_map(|(group, list)| resources::listed(list).map(move |name| (group, name))))
}
