//! Additions to MCP for programs: `tools/list` with `lazy`, `tools/describe` and
//! `tools/describe_batch`. They see every known tool as `group__tool`.

use super::{definitions, tool_list};
use crate::config::GroupName;
use crate::front::errors::{self, RpcError};
use crate::front::exposed_names::ExposedNames;
use crate::front::interaction::acquire::acquire;
use crate::front::interaction::context::{RequestContext, SessionState};
use crate::front::interaction::invocation::Invocation;
use crate::front::known_names::exposed_names;
use crate::front::{changed_tools, lookup};
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::upstream::Upstream;
use crate::wire::{Raw, Reply, raw};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How many names one `tools/describe_batch` may have.
const MAX_NAMES: usize = 1000;

/// `tools/list` with `lazy`: every known tool as a stub, or with its full definition. In the stateless era no list may
/// depend on earlier calls, so groups that became known through a call are left out.
pub fn list(groups: &GroupManager, lazy: bool, era: Era) -> Raw {
    let surfaces = groups.surfaces();
    let is_listed = |group: &GroupName| era == Era::Handshake || surfaces.contains_key(group);
    if !lazy {
        let definitions = tool_list::known_definitions(groups, |group| {
            let is_listed = is_listed(&group.name);
            move |_, _| is_listed
        });
        return tool_list::result_of(&definitions);
    }
    let names = exposed_names(groups);
    let mut stubs: Vec<Raw> = Vec::new();
    for group in groups.all().into_iter().filter(|group| is_listed(&group.name)) {
        let snapshot = group.snapshot();
        let refused = snapshot.refused();
        let tools = snapshot.catalog.iter().flat_map(|catalog| &catalog.tools);
        for tool in tools.filter(|tool| snapshot.rules.allows(&tool.name)) {
            let Some(name) = names.exposed(&group.name, &tool.name) else { continue };
            let is_refused = refused.contains(&tool.name);
            let description = if is_refused { changed_tools::STUB } else { &tool.summary };
            stubs.push(json!({ "name": name, "description": description }).to_string().into());
        }
    }
    tool_list::result_of(&stubs)
}

/// Parses the `lazy` of `tools/list`. `None`: the list is the surface.
///
/// # Errors
///
/// `lazy` is not a boolean.
pub fn parse_lazy(params: Option<&Raw>) -> Result<Option<bool>, RpcError> {
    let lazy = params.and_then(|params| raw::get(params, "lazy")).unwrap_or(Raw::from_static(b"null"));
    serde_json::from_slice(&lazy).map_err(|_| errors::invalid_params("params.lazy must be a boolean"))
}

/// `tools/describe`.
pub async fn describe(invocation: Invocation) -> Reply {
    let name = invocation.string("name")?;
    let mut found = find(&invocation.context, std::slice::from_ref(&name)).await?;
    if found.tools.is_empty()
        && let Some(text) = refusal(&invocation.context, &name).await?
    {
        return Err(errors::invalid_params(text).into());
    }
    match (found.tools.pop(), found.errors.pop()) {
        (Some(tool), _) => Ok([b"{\"tool\":", &tool[..], b"}"].concat().into()),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(errors::unknown_tool(&name, &definitions::NAMES).into()),
    }
}

/// Returns the text about the tool exposed as `name` if it is refused because it changed.
async fn refusal(context: &RequestContext, name: &str) -> Result<Option<String>, RpcError> {
    let Some((group, tool)) = names(context).await?.resolve(name) else { return Ok(None) };
    let group = context.groups().get(&group);
    Ok(group.and_then(|group| changed_tools::refusal(&group.name, &group.snapshot(), &tool)))
}

/// The exposed names of all known tools.
async fn names(context: &RequestContext) -> Result<Arc<ExposedNames>, RpcError> {
    let names = context.session.names.get(&context.session.groups).await;
    names.map_err(|_| errors::lists_took_too_long())
}

/// `tools/describe_batch`.
pub async fn describe_batch(invocation: Invocation) -> Reply {
    let names = raw::get(&invocation.params, "names").and_then(|names| serde_json::from_slice(&names).ok());
    let mut names: Vec<String> =
        names.ok_or_else(|| errors::invalid_params("params.names must be a list of strings"))?;
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    if names.len() > MAX_NAMES {
        let message = format!("params.names has {} names, the limit is {MAX_NAMES}", names.len());
        return Err(errors::invalid_params(message).into());
    }
    let found = find(&invocation.context, &names).await?;
    let not_found = json!(found.missing).to_string();
    let tools = raw::array(&found.tools);
    Ok([b"{\"tools\":", &tools[..], b",\"notFound\":", not_found.as_bytes(), b"}"].concat().into())
}

#[derive(Default)]
/// The outcome of looking up tools by their exposed names.
struct FoundTools {
    /// The definitions that were found.
    tools: Vec<Raw>,
    /// The names that no group has.
    missing: Vec<String>,
    /// Why groups that may have a missing tool could not be connected.
    errors: Vec<RpcError>,
}

/// Finds definitions by exposed names. Groups that may have an unknown tool are connected, all at once.
async fn find(context: &RequestContext, names: &[String]) -> Result<FoundTools, RpcError> {
    let groups = context.groups();
    let known = known_definitions(context, names).await?;
    let unknown = names.iter().filter(|name| !known.contains_key(name.as_str()));
    let table = self::names(context).await?;
    let all = groups.all();
    let candidates: BTreeMap<GroupName, Upstream> = unknown
        .flat_map(|name| match table.resolve(name) {
            // The tool is known, but the cache has lost its definition.
            Some((group, _)) => groups.get(&group).into_iter().collect(),
            None => lookup::with_prefix(&all, name),
        })
        .map(|group| (group.name.clone(), group))
        .collect();
    let acquiring = candidates.values().map(|group| async move {
        let acquired = acquire(groups, group, context.progress.as_ref()).await;
        acquired.map(|_lease| ()).map_err(RpcError::from)
    });
    let errors = join_all(acquiring).await.into_iter().filter_map(Result::err).collect();
    let mut found = FoundTools { errors, ..FoundTools::default() };
    let known = if candidates.is_empty() { known } else { known_definitions(context, names).await? };
    for name in names {
        match known.get(name.as_str()) {
            Some(definition) => found.tools.push(definition.clone()),
            None => found.missing.push(name.clone()),
        }
    }
    Ok(found)
}

/// The known definitions of these tools, verbatim except for the name and hints that do not count. Tools that are refused
/// because they changed are left out.
async fn known_definitions(
    context: &RequestContext,
    names: &[String],
) -> Result<HashMap<String, Raw>, RpcError> {
    let (table, names) = (self::names(context).await?, names.to_vec());
    let find = move |session: &SessionState| {
        let definition = |name: String| {
            let (group, tool) = table.resolve(&name)?;
            let snapshot = session.groups.get(&group)?.snapshot();
            if snapshot.refused().contains(&tool) {
                return None;
            }
            let catalog = snapshot.catalog.as_ref()?;
            let definition = catalog.definition(catalog.place(&tool)?)?;
            let definition = tool_list::with_trusted_hints(definition, &tool, &snapshot.rules);
            let definition = tool_list::with_name(&definition, &name);
            Some((name, definition))
        };
        names.into_iter().filter_map(definition).collect()
    };
    context.run_on_lists(find).await
}
