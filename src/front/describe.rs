//! `get_dynamic_tools`: which of a group's tools are told, and in how much detail.

use super::arguments::{Detail, Listing};
use super::caller::Caller;
use super::forms::{self, Entry};
use super::{errors, lookup, reach};
use crate::groups::GroupManager;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, Read, Tool};
use crate::wire::Raw;
use serde_json::json;

/// English text and JSON have about four characters a token.
const CHARACTERS_PER_TOKEN: usize = 4;

/// Answers `get_dynamic_tools`.
pub async fn get_dynamic_tools(groups: &GroupManager, arguments: Option<&Raw>, caller: &Caller) -> Raw {
    let listing = match Listing::read(arguments) {
        Ok(listing) => listing,
        Err(problem) => return errors::tool_error(&problem),
    };
    match tell(groups, &listing, caller).await {
        Ok(text) => json!({ "content": [{ "type": "text", "text": text }] }).to_string().into(),
        Err(problem) => errors::tool_error(&problem),
    }
}

/// `Err` is text for the model.
async fn tell(groups: &GroupManager, listing: &Listing, caller: &Caller) -> Result<String, String> {
    let group = &lookup::named(groups, &listing.group)?;
    group.touch();
    let budget = groups.config().settings.tools_budget * CHARACTERS_PER_TOKEN;
    if let Some(catalog) = group.snapshot().catalog.clone() {
        // What an earlier process read may answer, and never refuses.
        let final_word = matches!(catalog.read, Read::Here(_));
        match answer(group, &catalog, listing, budget) {
            Answer::Whole(text) => return Ok(text),
            Answer::Partly(outcome) if final_word => return outcome,
            Answer::Partly(_) | Answer::DefinitionsLost => {}
        }
    }
    let (group, _held_while_reading) = reach::lease_for(caller, groups, group).await?;
    let catalog =
        group.snapshot().catalog.clone().ok_or("The group's tools are not known yet; call again.")?;
    match answer(&group, &catalog, listing, budget) {
        Answer::Whole(text) => Ok(text),
        Answer::Partly(outcome) => outcome,
        Answer::DefinitionsLost => Err("The definitions are not known yet; call again.".to_owned()),
    }
}

enum Answer {
    Whole(String),
    /// Some of the tools that were named are not in this catalog.
    Partly(Result<String, String>),
    /// The cache has the names and no longer the definitions.
    DefinitionsLost,
}

fn answer(group: &Upstream, catalog: &Catalog, listing: &Listing, budget: usize) -> Answer {
    let rules = group.snapshot().rules.clone();
    let tools: Vec<_> = catalog.tools.iter().filter(|tool| rules.allows(&tool.name)).collect();
    let (chosen, missing) = choose(catalog, &tools, listing.tools.as_deref(), group);
    let all = format!("{} tools", tools.len());
    let count = if listing.tools.is_some() { format!("{} of {all}", chosen.len()) } else { all };
    let head = forms::head(&group.name, &count, catalog.introduction.instructions.as_deref());
    let text = if listing.detail == Some(Detail::Stub) {
        forms::stubs(head, &chosen, &group.name)
    } else {
        let Some(definitions) = catalog.definitions() else { return Answer::DefinitionsLost };
        let definitions: Vec<Entry<'_>> = definitions.collect();
        let of = |tool: &&Tool| definitions.iter().find(|(entry, _)| entry.name == tool.name).copied();
        let entries: Vec<Entry<'_>> = chosen.iter().filter_map(of).collect();
        match listing.detail {
            Some(Detail::Signature) => forms::signatures(head, &forms::signed(&entries), &group.name),
            Some(_) => forms::definitions(head, &entries, &group.name),
            None => within(budget, head, &entries, group),
        }
    };
    match missing.is_empty() {
        true => Answer::Whole(text),
        false if chosen.is_empty() => Answer::Partly(Err(missing)),
        false => Answer::Partly(Ok(format!("{text}\n{missing}"))),
    }
}

/// The tools that are named, in that order, or all; and what to say of names that none has.
fn choose<'a>(
    catalog: &'a Catalog,
    tools: &[&'a Tool],
    names: Option<&[String]>,
    group: &Upstream,
) -> (Vec<&'a Tool>, String) {
    let Some(names) = names else { return (tools.to_vec(), String::new()) };
    let mut chosen: Vec<&Tool> = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        let found =
            lookup::tool(catalog, name).and_then(|tool| tools.iter().find(|known| known.name == tool.name));
        match found {
            Some(tool) if chosen.iter().any(|known| known.name == tool.name) => {}
            Some(tool) => chosen.push(tool),
            None => {
                let known = tools.iter().map(|tool| tool.name.as_str());
                missing.push(lookup::unknown_tool(group.name.as_str(), name, known));
            }
        }
    }
    (chosen, missing.join("\n"))
}

/// As much as the budget allows: definitions, or signatures that say the same, or stubs.
fn within(budget: usize, head: String, entries: &[Entry<'_>], group: &Upstream) -> String {
    let size: usize = entries.iter().map(|(_, definition)| definition.len()).sum();
    if size <= budget {
        return forms::definitions(head, entries, &group.name);
    }
    let signed = forms::signed(entries);
    let size: usize = signed.iter().map(|signature| signature.to_string().len()).sum();
    if size <= budget && signed.iter().all(|signature| signature.lossless) {
        return forms::signatures(head, &signed, &group.name);
    }
    let tools: Vec<_> = entries.iter().map(|(tool, _)| *tool).collect();
    forms::stubs(head, &tools, &group.name)
}
