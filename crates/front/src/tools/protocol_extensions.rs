//! Additions to MCP for programs: `tools/list` with `lazy`, `tools/describe` and
//! `tools/describe_batch`. They see every known tool as `group__tool`.

use super::tool_list::{self, ToolList};
use crate::ask::acquire::acquire;
use crate::call::found_tool::find_tool;
use crate::call::resolve;
use crate::errors::{self, RpcError, changed_tools};
use crate::names::exposed_names::exposed_names;
use crate::names::{lookup, own_tools};
use crate::notify::list_changes::KnownLists;
use crate::session::context::Invocation;
use crate::session::context::RequestContext;
use crate::session::requester::Requester;
use base::blocking;
use config::GroupName;
use config::tool_rules::Rules;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use upstream::{GroupManager, Need};
use wire::protocol::Era;
use wire::{Raw, Reply, raw};

/// How many names one `tools/describe_batch` may have.
const MAX_NAMES: usize = 1000;

/// `tools/list` with `lazy`: every known tool as a stub, or with its full definition. In the stateless era no list may
/// depend on earlier calls, so groups that became known through a call are left out.
fn list(groups: &GroupManager, lazy: bool, era: Era) -> Raw {
    let surfaces = groups.surfaces();
    let is_listed = |group: &GroupName| era == Era::Handshake || surfaces.contains_key(group);
    if !lazy {
        let listed = tool_list::listed_tools(groups, |group| {
            let is_listed = is_listed(&group.name);
            move |_, _| is_listed
        });
        return tool_list::result_of(&listed.definitions);
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
fn parse_lazy(params: Option<&Raw>) -> Result<Option<bool>, RpcError> {
    match params.and_then(|params| raw::get(params, "lazy")).as_deref() {
        None | Some(b"null") => Ok(None),
        Some(b"true") => Ok(Some(true)),
        Some(b"false") => Ok(Some(false)),
        Some(_) => Err(errors::invalid_params("params.lazy must be a boolean")),
    }
}

/// Reads the list of tools that a request asks for. `known`: the lists as the client
/// knows them, which then have this one.
///
/// # Errors
///
/// The params are not those of `tools/list`. The future fails if reading the list took too long.
pub(crate) fn read_list(
    list: &ToolList,
    groups: &Arc<GroupManager>,
    params: Option<&Raw>,
    era: Era,
    known: Option<&KnownLists>,
) -> Result<impl Future<Output = Reply> + Send + use<>, RpcError> {
    tool_list::check_params(params)?;
    let lazy = parse_lazy(params)?;
    let (list, groups, known) = (list.clone(), groups.clone(), known.cloned());
    Ok(async move {
        let listed = match lazy {
            Some(lazy) => groups.run_on_lists(move |groups| self::list(groups, lazy, era)).await,
            None => list
                .result(&groups)
                .await
                .inspect(|tools| known.iter().for_each(|known| known.tools_listed(tools))),
        };
        listed.map_err(|_| Raw::from(errors::lists_took_too_long()))
    })
}

/// `tools/describe`.
///
/// # Errors
///
/// `params.name` is no string, or those of `find` and `find_unknown`.
pub async fn describe(invocation: Invocation) -> Reply {
    let name = invocation.string("name")?;
    let (_, found) = find(&invocation.context, vec![name]).await?.remove(0);
    Ok([b"{\"tool\":", &found?[..], b"}"].concat().into())
}

/// `tools/describe_batch`. A name whose definition is not found, for any reason, is in `notFound`. A name that is given
/// twice counts once.
///
/// # Errors
///
/// `params.names` is no list of strings, has more than `MAX_NAMES`, or those of `find`.
pub async fn describe_batch(invocation: Invocation) -> Reply {
    let (bytes, params) = (invocation.params.len(), invocation.params.clone());
    let names = blocking::run_on(bytes, move || names_of(&params)).await;
    let names = names.map_err(|_| errors::lists_took_too_long())??;
    let (mut tools, mut not_found) = (Vec::new(), Vec::new());
    for (name, found) in find(&invocation.context, names).await? {
        match found {
            Ok(definition) => tools.push(definition),
            Err(_) => not_found.push(name),
        }
    }
    let (tools, not_found) = (raw::array(&tools), json!(not_found).to_string());
    Ok([b"{\"tools\":", &tools[..], b",\"notFound\":", not_found.as_bytes(), b"}"].concat().into())
}

/// Reads the names of a `tools/describe_batch`, each once.
///
/// # Errors
///
/// See [`describe_batch`].
fn names_of(params: &Raw) -> Result<Vec<String>, RpcError> {
    let names = raw::get(params, "names").and_then(|names| serde_json::from_slice(&names).ok());
    let mut names: Vec<String> =
        names.ok_or_else(|| errors::invalid_params("params.names must be a list of strings"))?;
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    match names.len() <= MAX_NAMES {
        true => Ok(names),
        false => Err(errors::invalid_params(format!(
            "params.names has {} names, the limit is {MAX_NAMES}",
            names.len()
        ))),
    }
}

/// Finds the definitions of tools by all names that `tools/call` accepts, in the order of the names. Groups that may
/// have an unknown tool are connected, all at once.
///
/// # Errors
///
/// Reading what is known took too long. That a single tool is not found is an error in its place.
async fn find(
    context: &RequestContext,
    names: Vec<String>,
) -> Result<Vec<(String, Result<Raw, RpcError>)>, RpcError> {
    let context = &context.with_names(names.len());
    let known = &known_definitions(context, &names).await?;
    let found = names.into_iter().map(|name| async move {
        let definition = match known.get(&name) {
            Some(definition) => Ok(definition.clone()),
            None => find_unknown(context, &name).await,
        };
        (name, definition)
    });
    Ok(join_all(found).await)
}

/// Finds the definition of a tool whose exposed name is not known, or whose definition the cache has lost. Connects its
/// group, and offers no login.
///
/// # Errors
///
/// No group has the tool, several may be meant, its group is not available, it has changed and is refused, its list
/// lacks it, or it took too long.
async fn find_unknown(context: &RequestContext, name: &str) -> Result<Raw, RpcError> {
    // There may be many such names, and other requests wait.
    tokio::task::yield_now().await;
    let with_page = context.requester.status_page().is_some();
    if own_tools::NAMES.contains(&name) || with_page && own_tools::is_of_page(name) {
        let ours = tool_list::our_definition(context.groups(), name, with_page);
        return ours.ok_or_else(|| errors::unknown_tool(name));
    }
    let (group, tool) = resolve::by_direct_name(context, name, false).await?;
    let (group, _lease) = acquire(context.groups(), &group, Need::Tools, context.progress.as_ref()).await?;
    let found = find_tool(&group, group.snapshot(), &tool).await.map_err(errors::invalid_params)?;
    if let Some(text) = changed_tools::refusal(&group.name, &found.snapshot, &found.name) {
        return Err(errors::invalid_params(text));
    }
    let definition = found
        .definition()
        .ok_or_else(|| errors::invalid_params(lookup::unlisted_tool(&group.name, &found.name)))?;
    let table = context.exposed_names().await?;
    let exposed = table.exposed(&group.name, &found.name).unwrap_or(name);
    Ok(described(definition, &found.name, exposed, &found.snapshot.rules))
}

/// Returns the known definitions of tools by their exposed names. Tools that are refused because they changed are left
/// out.
///
/// # Errors
///
/// It took too long.
async fn known_definitions(
    context: &RequestContext,
    names: &[String],
) -> Result<HashMap<String, Raw>, RpcError> {
    let (table, names) = (context.exposed_names().await?, names.to_vec());
    let find = move |requester: &Requester| {
        let definition = |name: String| {
            let (group, tool) = table.resolve(&name)?;
            let snapshot = requester.groups().get(&group)?.snapshot();
            if snapshot.refused().contains(&tool) {
                return None;
            }
            let catalog = snapshot.catalog.as_ref()?;
            let definition = catalog.definition(catalog.place(&tool)?)?;
            let definition = described(definition, &tool, &name, &snapshot.rules);
            Some((name, definition))
        };
        names.into_iter().filter_map(definition).collect()
    };
    context.run_on_lists(find).await
}

/// Returns a definition as it is described: verbatim except for the name and hints that do not count.
fn described(definition: &Raw, tool: &str, exposed: &str, rules: &Rules) -> Raw {
    tool_list::with_name(&tool_list::with_trusted_hints(definition, tool, rules), exposed)
}
