//! What programs ask for tools by: lists of all that is known, and single definitions, under `group__tool`.

use super::relay::Asked;
use super::{errors, list, lookup, reach};
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::upstream::Upstream;
use crate::wire::peer::Progress;
use crate::wire::{Raw, Reply, raw};
use errors::Refusal;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};

/// That may be asked for at once.
const NAMES: usize = 1000;

/// `tools/list` with `lazy`: every known tool as a stub, or with its full definition. In the stateless era no list may
/// depend on what was called before, so there a group that became known by a call is left out.
pub fn list(groups: &GroupManager, lazy: bool, era: Era) -> Raw {
    let shown = groups.shown();
    let listed = |group: &GroupName| era == Era::Handshake || shown.contains_key(group);
    if !lazy {
        return list::result(&list::known(groups, |group, _, _| listed(&group.name)));
    }
    let names = list::tools(groups);
    let mut stubs: Vec<Raw> = Vec::new();
    for group in groups.all().into_iter().filter(|group| listed(&group.name)) {
        let snapshot = group.snapshot();
        let tools = snapshot.catalog.iter().flat_map(|catalog| &catalog.tools);
        for tool in tools.filter(|tool| snapshot.rules.allows(&tool.name)) {
            let Some(name) = names.of(&group.name, &tool.name) else { continue };
            stubs.push(json!({ "name": name, "description": tool.summary }).to_string().into());
        }
    }
    list::result(&stubs)
}

/// Whether `tools/list` asks for more than the surface: its `lazy`.
pub fn lazy(params: Option<&Raw>) -> Result<Option<bool>, Refusal> {
    let lazy = params.and_then(|params| raw::get(params, "lazy")).unwrap_or(Raw::from_static(b"null"));
    serde_json::from_slice(&lazy).map_err(|_| errors::bad_params("params.lazy must be a boolean"))
}

/// `tools/describe`.
pub async fn describe(asked: Asked) -> Reply {
    let name = asked.text("name")?;
    let mut found = find(&asked.groups, std::slice::from_ref(&name), asked.caller.progress.as_ref()).await;
    match (found.tools.pop(), found.unreachable.pop()) {
        (Some(tool), _) => Ok([b"{\"tool\":", &tool[..], b"}"].concat().into()),
        (None, Some(refusal)) => Err(refusal.into()),
        (None, None) => Err(errors::unknown_tool(&name).into()),
    }
}

/// `tools/describe_batch`.
pub async fn describe_batch(asked: Asked) -> Reply {
    let names = raw::get(&asked.params, "names").and_then(|names| serde_json::from_slice(&names).ok());
    let mut names: Vec<String> =
        names.ok_or_else(|| errors::bad_params("params.names must be a list of strings"))?;
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    if names.len() > NAMES {
        let problem = format!("params.names has {} names, the limit is {NAMES}", names.len());
        return Err(errors::bad_params(problem).into());
    }
    let found = find(&asked.groups, &names, asked.caller.progress.as_ref()).await;
    let not_found = json!(found.missing).to_string();
    let tools = found.tools.join(&b","[..]);
    Ok([b"{\"tools\":[", &tools[..], b"],\"notFound\":", not_found.as_bytes(), b"}"].concat().into())
}

#[derive(Default)]
struct Found {
    tools: Vec<Raw>,
    missing: Vec<String>,
    /// Why groups that may have had the missing ones could not be asked.
    unreachable: Vec<Refusal>,
}

/// The definitions of these tools. Groups that may have one that is not known are connected, all at once.
async fn find(groups: &GroupManager, names: &[String], progress: Option<&Progress>) -> Found {
    let known = definitions(groups, names);
    let open = names.iter().filter(|name| !known.contains_key(name.as_str()));
    let table = list::tools(groups);
    let all = groups.all();
    let may_have: BTreeMap<GroupName, Upstream> = open
        .flat_map(|name| match table.resolve(name) {
            // Its definition is lost, not the tool.
            Some((group, _)) => groups.get(&group).into_iter().collect(),
            None => lookup::beginning(&all, name),
        })
        .map(|group| (group.name.clone(), group))
        .collect();
    let reached = may_have.values().map(|group| async move {
        let reached = reach::lease(groups, group, progress).await;
        reached.map(|_held| ()).map_err(|unreachable| errors::unreachable(&unreachable))
    });
    let unreachable = join_all(reached).await.into_iter().filter_map(Result::err).collect();
    let mut found = Found { unreachable, ..Found::default() };
    let known = if may_have.is_empty() { known } else { definitions(groups, names) };
    for name in names {
        match known.get(name.as_str()) {
            Some(definition) => found.tools.push(definition.clone()),
            None => found.missing.push(name.clone()),
        }
    }
    found
}

/// Those of `names` that are known, by name, verbatim but for it.
fn definitions<'n>(groups: &GroupManager, names: &'n [String]) -> HashMap<&'n str, Raw> {
    let table = list::tools(groups);
    let definition = |name: &'n String| {
        let (group, tool) = table.resolve(name)?;
        let catalog = groups.get(&group)?.snapshot().catalog.clone()?;
        let (_, definition) = catalog.definitions()?.find(|(known, _)| known.name == tool)?;
        Some((name.as_str(), list::renamed(definition, name)))
    };
    names.iter().filter_map(definition).collect()
}
