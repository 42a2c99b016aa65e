//! `get_dynamic_tools`: which tools of a group are described, and in how much detail.

use super::group_status::BrokenGroups;
use super::render::{self, ToolEntry, UnshownDefinitions};
use crate::arguments::{DescribeArguments, Detail};
use crate::ask::acquire::acquire_for_user;
use crate::call::{large_results, stored_result};
use crate::errors::{LISTS_TOOK_TOO_LONG, changed_tools, tool_errors};
use crate::names::lookup;
use crate::names::spelling::Match;
use crate::results::preview;
use crate::session::context::RequestContext;
use base::blocking;
use base::text::{CHARACTERS_PER_TOKEN, counted};
use config::OWN_GROUP;
use serde_json::json;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use upstream::catalog::CatalogSource;
use upstream::catalog::list_limits::CatalogList;
use upstream::{Catalog, GroupManager, Need, Tool, Upstream};
use wire::Raw;

/// Answers `get_dynamic_tools`.
pub async fn get_dynamic_tools(context: &RequestContext, arguments: Option<&Raw>) -> Raw {
    let text = match DescribeArguments::parse(arguments) {
        Ok(arguments) => describe(context, &arguments).await,
        Err(text) => Err(text),
    };
    match text {
        Ok(text) => json!({ "content": [{ "type": "text", "text": text }] }).to_string().into(),
        Err(text) => tool_errors::result(&text),
    }
}

/// Describes the tools from the known catalog if it has all of them, else connects the group first, which may offer the
/// user a login. Without a group, lists the groups.
///
/// # Errors
///
/// There is no such group; it is not available; none of the named tools exists; or it took too long. The text for the
/// model.
async fn describe(context: &RequestContext, arguments: &DescribeArguments) -> Result<String, String> {
    let groups = context.groups();
    let Some(name) = &arguments.group else { return Ok(list_groups(groups)) };
    if name == OWN_GROUP {
        return Ok(stored_result::DESCRIPTION.to_owned());
    }
    let (group, arguments) = match lookup::group(groups, name) {
        Ok(group) => (group, Cow::Borrowed(arguments)),
        // The name of a tool, as our texts show it.
        Err(text) => match tool_named_as_group(context, name.clone()).await {
            Some((group, tool)) if arguments.tools.is_none() => {
                (group, Cow::Owned(DescribeArguments { tools: Some(vec![tool]), ..arguments.clone() }))
            }
            _ => return Err(text),
        },
    };
    let (group, arguments) = (&group, &*arguments);
    group.expect_call();
    let budget = groups.config().settings.tools_budget * CHARACTERS_PER_TOKEN;
    if let Some(catalog) = group.snapshot().catalog.clone() {
        // A cached catalog may be outdated, so it may answer a request but never reject it.
        let may_reject = matches!(catalog.source, CatalogSource::Live(_));
        if let Some(answer) = answer(group, catalog, arguments, budget).await?
            && (answer.is_complete || may_reject)
        {
            return Ok(answer.description?.store_rest(context).await);
        }
    }
    let acquired = acquire_for_user(context, group.clone(), Need::Tools).await;
    let (group, _lease) = acquired.map_err(|unavailable| unavailable.for_model())?;
    let catalog =
        group.snapshot().catalog.clone().ok_or("The tools of this group are not known yet; call again.")?;
    let answer = answer(&group, catalog, arguments, budget).await?;
    let answer = answer.ok_or("The definitions are not known yet; call again.")?;
    Ok(answer.description?.store_rest(context).await)
}

/// Finds the group and the tool if `name`, which is no group's, is the name of a tool, in any spelling, with or without its
/// group before it. Looks only at what is known, and connects no group. If no known tool fits but the name begins with that
/// of a group, returns that group and the rest: the group may not have such a tool. `None` if nothing fits, if several tools
/// may be meant, or if it took too long.
async fn tool_named_as_group(context: &RequestContext, name: String) -> Option<(Upstream, String)> {
    let found = context.run_on_lists(move |requester| lookup::misspelled(&requester.groups().all(), &name));
    found.await.ok()?.ok()?
}

/// Lists the groups, for a model that names none.
fn list_groups(groups: &GroupManager) -> String {
    let all = groups.all();
    if all.is_empty() {
        return "There are no groups: the config has no server that can be used; get_status says why."
            .to_owned();
    }
    let broken = BrokenGroups::of(groups);
    let line = |group: &Upstream| {
        let snapshot = group.snapshot();
        let about = snapshot.server.as_ref().and_then(|server| server.description.as_deref());
        let info = snapshot.catalog.as_ref().map(|catalog| &catalog.info);
        let about = about.or_else(|| info?.title.as_deref().or(info?.instructions.as_deref()));
        render::group(&group.name, snapshot.allowed_tools(), broken.brief(&group.name), about)
    };
    render::groups(all.iter().map(line))
}

/// What one catalog says about the tools.
struct Answer {
    /// The result, or the text for the model.
    description: Result<Description, String>,
    /// Whether the catalog has all of the named tools. If not, another catalog may have them.
    is_complete: bool,
}

/// The text for the model about the tools that it asked for.
struct Description {
    text: String,
    /// The definitions of named tools that did not fit in the text.
    rest: Option<UnshownDefinitions>,
}

impl Description {
    /// Stores what did not fit, and returns the text, which says how to read that, or how to ask for it if it cannot be
    /// stored.
    async fn store_rest(self, context: &RequestContext) -> String {
        let Some(UnshownDefinitions { result, introduction, by_name }) = self.rest else { return self.text };
        match large_results::keep(context, &result, None).await {
            Some(id) => format!("{}\n{introduction}{}", self.text, preview::how_to_read(&id, "select")),
            None => format!("{}\n{by_name}", self.text),
        }
    }
}

/// Writes what a catalog says about the tools. `None`: the cache has the names but has lost the definitions.
///
/// # Errors
///
/// It took too long. The text for the model.
async fn answer(
    group: &Upstream,
    catalog: Arc<Catalog>,
    arguments: &DescribeArguments,
    budget: usize,
) -> Result<Option<Answer>, String> {
    let (group, arguments) = (group.clone(), arguments.clone());
    // Each name may be compared with those of all tools.
    let names = arguments.tools.as_ref().map_or(1, Vec::len);
    blocking::run_on(catalog.work_bytes().saturating_mul(names), move || {
        write_answer(&group, &catalog, &arguments, budget)
    })
    .await
    .map_err(|_| LISTS_TOOK_TOO_LONG.to_owned())
}

fn write_answer(
    group: &Upstream,
    catalog: &Catalog,
    arguments: &DescribeArguments,
    budget: usize,
) -> Option<Answer> {
    let snapshot = group.snapshot();
    let is_shown = |tool: &&Tool| snapshot.rules.allows(&tool.name) && !tool.app_only;
    let tools: Vec<_> = catalog.tools.iter().filter(is_shown).collect();
    let (mut chosen, mut missing) = choose(catalog, &tools, arguments.tools.as_deref(), group);
    let left_out = changed_tools::left_out(group, chosen.iter().copied());
    let left_off =
        catalog.left_off.text().filter(|_| arguments.tools.is_none()).map(|text| format!("({text}.)"));
    let left_out = match (left_out, left_off) {
        (Some(changed), Some(left_off)) => Some(format!("{changed}\n{left_off}")),
        (changed, left_off) => changed.or(left_off),
    };
    let refused = snapshot.refused();
    chosen.retain(|tool| !refused.contains(&tool.name));
    let all = counted(tools.len(), "tool");
    let count = if arguments.tools.is_some() { format!("{} of {all}", chosen.len()) } else { all };
    let head = render::head(&group.name, &count, catalog.info.instructions.as_deref());
    let mut rest = None;
    let text = if arguments.detail == Some(Detail::Stub) {
        render::stubs(head, &chosen, &group.name)
    } else {
        drop(catalog.definitions()?);
        let find = |tool: &&Tool| {
            let place = catalog.place(&tool.name)?;
            Some((catalog.tools.get(place)?, catalog.definition(place)?))
        };
        let entries: Vec<ToolEntry<'_>> = chosen.iter().filter_map(find).collect();
        match arguments.detail {
            Some(Detail::Signature) => {
                render::signatures(head, &render::signatures_of(&entries), &group.name)
            }
            Some(_) => {
                let definitions = render::definitions(head, &entries);
                rest = definitions.unshown(&group.name).filter(|_| arguments.tools.is_some());
                if rest.is_some() { definitions.text } else { definitions.with_hint(&group.name) }
            }
            None => within_budget(budget, head, &entries, group),
        }
    };
    let text = match left_out {
        // A tool that is asked for by name may be approved or unchanged by now.
        Some(line) if arguments.tools.is_some() => {
            missing =
                [missing, line].into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
            text
        }
        Some(line) => format!("{text}\n{line}"),
        None => text,
    };
    let is_complete = missing.is_empty();
    let description = match is_complete {
        true => Ok(Description { text, rest }),
        false if chosen.is_empty() => Err(missing),
        false => Ok(Description { text: format!("{text}\n{missing}"), rest }),
    };
    Some(Answer { description, is_complete })
}

/// Returns the named tools in that order, or all; and an error text for names that no tool has.
fn choose<'a>(
    catalog: &'a Catalog,
    tools: &[&'a Tool],
    names: Option<&[String]>,
    group: &Upstream,
) -> (Vec<&'a Tool>, String) {
    let Some(names) = names else { return (tools.to_vec(), String::new()) };
    let (mut chosen, mut seen): (Vec<&Tool>, HashSet<&str>) = Default::default();
    let mut missing = Vec::new();
    for name in names {
        match lookup::tool(&group.name, catalog, &group.snapshot().rules, name) {
            Match::One(index) if !seen.insert(&catalog.tools[index].name) => {}
            Match::One(index) => chosen.push(&catalog.tools[index]),
            Match::Several(indexes) => {
                let names = indexes.iter().map(|index| catalog.tools[*index].name.as_str());
                missing.push(lookup::ambiguous_tool(&group.name, name, names));
            }
            Match::None if catalog.left_off.lacks_named(CatalogList::Tools) => {
                missing.push(lookup::unlisted_tool(&group.name, name));
            }
            Match::None => {
                let known = tools.iter().map(|tool| tool.name.as_str());
                missing.push(lookup::unknown_tool(&group.name, name, known));
            }
        }
    }
    (chosen, missing.join("\n"))
}

/// Returns the most detail that the budget (in characters) allows: definitions, or signatures that say the same, or
/// stubs.
fn within_budget(budget: usize, head: String, entries: &[ToolEntry<'_>], group: &Upstream) -> String {
    let size: usize = entries.iter().map(|(_, definition)| definition.len()).sum();
    if size <= budget {
        return render::definitions(head, entries).with_hint(&group.name);
    }
    if let Some(signatures) = render::signatures_within(budget, entries) {
        return render::signatures(head, &signatures, &group.name);
    }
    let tools: Vec<_> = entries.iter().map(|(tool, _)| *tool).collect();
    render::stubs(head, &tools, &group.name)
}
