//! Finds the group and the tool that a model means, or suggests the nearest names.

use crate::errors::shown;
use crate::names::exposed_names;
use crate::names::spelling::{self, Match};
use base::text::{self, quoted, quoted_list};
use config::GroupName;
use config::tool_rules::Rules;
use upstream::catalog::list_limits::CatalogList;
use upstream::{Catalog, GroupManager, Upstream};

/// How many names an error for an unknown name suggests.
const MAX_SUGGESTIONS: usize = 3;
/// From which Jaro-Winkler similarity on a name is near: those of two unrelated words are mostly lower.
const MIN_LIKENESS: f64 = 0.7;
/// A longer name is not near any other. To compare two names takes a step for each pair of their characters.
const MAX_NEAR_NAME: usize = 128;
/// How many names an error for an ambiguous name lists.
const MAX_CANDIDATES: usize = 10;

/// Finds a group by its name, in any [spelling].
///
/// # Errors
///
/// No group has the name, or several may be meant. The text for the model says that the config disables the group, if
/// it does, and otherwise suggests the nearest names.
pub fn group(groups: &GroupManager, name: &str) -> Result<Upstream, String> {
    groups.get_by_name(name).map_or_else(|| misspelled_group(groups, name), Ok)
}

/// Finds a group whose name is this one in another [spelling].
///
/// # Errors
///
/// See [`group`].
pub(crate) fn misspelled_group(groups: &GroupManager, name: &str) -> Result<Upstream, String> {
    let all = groups.all();
    let known = all.iter().map(|group| (group, group.name.as_str()));
    if let Some(group) = spelling::find(known, name).unique() {
        return Ok(group.clone());
    }
    Err(disabled(groups, name).unwrap_or_else(|| match all.is_empty() {
        true => {
            "There are no groups: the config has no server that can be used; get_status says why.".to_owned()
        }
        false => {
            let names = all.iter().map(|group| group.name.as_str());
            format!("There is no group {}. {}", shown(name), suggest(name, names, "groups"))
        }
    }))
}

/// Says that the config disables the group of this name, in any [spelling], if it does.
pub fn disabled(groups: &GroupManager, name: &str) -> Option<String> {
    let config = groups.config();
    let known = config.disabled.iter().map(|server| (server, server.name.as_str()));
    let server = spelling::find(known, name).unique()?;
    Some(format!("Group {} is {server}. Tell the user.", server.name))
}

/// Finds a tool of a group in its catalog, by its name in any [spelling], with or without the name of
/// the group before it. Returns its place in the catalog. A tool that the config does not allow does not exist. If the
/// list lacks tools because it exceeds a limit, only exact names count.
pub fn tool(group: &GroupName, catalog: &Catalog, rules: &Rules, name: &str) -> Match<usize> {
    if let Some(exact) = catalog.place(name) {
        return if rules.allows(name) { Match::One(exact) } else { Match::None };
    }
    if catalog.left_off.lacks_named(CatalogList::Tools) {
        // The list may have left off a tool of this name, so the name is not taken as the spelling of another one.
        return Match::None;
    }
    let known = catalog.tools.iter().enumerate().map(|(index, tool)| (index, tool.name.as_str()));
    let allowed = known.filter(|(_, name)| rules.allows(name));
    match spelling::find(allowed.clone(), name) {
        Match::None => spelling::without_group(group.as_str(), name)
            .map_or(Match::None, |name| spelling::find(allowed, name)),
        found => found,
    }
}

/// Finds a tool in what is known of a group, as [`tool`] does.
pub(crate) fn known_tool(group: &Upstream, name: &str) -> Match<String> {
    let snapshot = group.snapshot();
    let Some(catalog) = &snapshot.catalog else { return Match::None };
    let name_of = |index: usize| catalog.tools[index].name.clone();
    match tool(&group.name, catalog, &snapshot.rules, name) {
        Match::None => Match::None,
        Match::One(index) => Match::One(name_of(index)),
        Match::Several(indexes) => Match::Several(indexes.into_iter().map(name_of).collect()),
    }
}

/// Finds the group and the tool of a name that is no exposed name and no tool's exact name: a tool with the name of its
/// group before it, or a tool's name in another spelling. If no known tool fits but the name begins with that of a
/// group, returns that group with the rest: its tools may not be known yet. `None` if there is nothing at all.
///
/// # Errors
///
/// The name may mean several tools. The text for the model names them.
pub fn misspelled(groups: &[Upstream], name: &str) -> Result<Option<(Upstream, String)>, String> {
    let split: Vec<(&Upstream, &str)> = groups
        .iter()
        .filter_map(|group| Some((group, spelling::without_group(group.name.as_str(), name)?)))
        .collect();
    let candidates = match split.is_empty() {
        true => groups.iter().map(|group| (group, name)).collect(),
        false => split.clone(),
    };
    let mut found: Vec<(&Upstream, String)> = Vec::new();
    for (group, tool) in candidates {
        match known_tool(group, tool) {
            Match::None => {}
            Match::One(tool) => found.push((group, tool)),
            Match::Several(tools) => found.extend(tools.into_iter().map(|tool| (group, tool))),
        }
    }
    match &found[..] {
        // A group whose tools are not known yet may have it.
        [] => {
            let longest = split.into_iter().max_by_key(|(group, _)| group.name.as_str().len());
            Ok(longest.map(|(group, tool)| (group.clone(), tool.to_owned())))
        }
        [(group, tool)] => Ok(Some(((*group).clone(), tool.clone()))),
        several => {
            let names = several.iter().map(|(group, tool)| format!("{} / {}", group.name, text::name(tool)));
            let names: Vec<String> = names.take(MAX_CANDIDATES).collect();
            Err(format!(
                "{} may mean several tools: {}. Name one of them exactly.",
                quoted(name),
                names.join(", ")
            ))
        }
    }
}

/// Returns the text for a name that several tools of a group may have.
pub(crate) fn ambiguous_tool<'a>(
    group: &GroupName,
    name: &str,
    tools: impl Iterator<Item = &'a str>,
) -> String {
    let tools = quoted_list(tools.take(MAX_CANDIDATES));
    format!(
        "Group {group} has several tools that {} may mean: {tools}. Use one of these names.",
        quoted(name)
    )
}

/// Returns the text for a tool that is not in a list which lacks tools.
pub(crate) fn unlisted_tool(group: &GroupName, name: &str) -> String {
    format!(
        "Tool {} is not in the list of group {group}, from which tools are left off because they exceed a limit \
         (get_status names it), so it cannot be described. call_dynamic_tool calls it by this name.",
        shown(name)
    )
}

/// Returns the text for a tool that does not exist, with the nearest names.
pub(crate) fn unknown_tool<'a>(
    group: &GroupName,
    name: &str,
    tools: impl Iterator<Item = &'a str>,
) -> String {
    format!("Group {group} has no tool {}. {}", shown(name), suggest(name, tools, "tools"))
}

/// Splits `group__tool` if the first part is the name of a group. If several names fit, the longest one counts.
pub fn split<'g, 'n>(groups: &'g [Upstream], name: &'n str) -> Option<(&'g Upstream, &'n str)> {
    let tool_of = |group: &Upstream| name.strip_prefix(group.name.as_str())?.strip_prefix("__");
    let fitting = groups.iter().filter_map(|group| Some((group, tool_of(group)?)));
    fitting.min_by_key(|(_, tool)| tool.len())
}

/// Returns the groups to which a tool or prompt exposed as `name` may belong, by the prefix of the name alone.
pub(crate) fn with_prefix(groups: &[Upstream], name: &str) -> Vec<Upstream> {
    let names: Vec<_> = groups.iter().map(|group| group.name.clone()).collect();
    let fitting = exposed_names::groups_of(&names, name);
    fitting.into_iter().filter_map(|name| groups.iter().find(|group| group.name == *name).cloned()).collect()
}

/// Returns the groups whose known catalog has a tool of exactly this name that the config allows.
pub fn owners<'a>(groups: &'a [Upstream], name: &str) -> Vec<&'a Upstream> {
    let has = |group: &&Upstream| {
        let snapshot = group.snapshot();
        snapshot.catalog.as_ref().is_some_and(|catalog| catalog.tool(name).is_some())
            && snapshot.rules.allows(name)
    };
    groups.iter().filter(has).collect()
}

/// Returns whether a group's known catalog has a tool of exactly this name that apps may call.
pub(crate) fn is_for_apps(group: &Upstream, name: &str) -> bool {
    let snapshot = group.snapshot();
    snapshot.catalog.as_ref().and_then(|catalog| catalog.tool(name)).is_some_and(|tool| tool.for_apps)
}

/// Returns a sentence with the nearest of the known names, or with all of them if they are few.
fn suggest<'a>(name: &str, known: impl Iterator<Item = &'a str>, what: &str) -> String {
    // Case and separators do not matter: `readOnly` is near `read_only`.
    let folded = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let name = folded(&text::shorten(name, MAX_NEAR_NAME));
    let mut ranked: Vec<_> = known
        .filter(|candidate| candidate.len() <= MAX_NEAR_NAME)
        .map(|candidate| {
            let candidate_folded = folded(candidate);
            let inside = candidate_folded.contains(&name) || name.contains(&candidate_folded);
            (strsim::jaro_winkler(&name, &candidate_folded) + f64::from(u8::from(inside)), candidate)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near = ranked.iter().filter(|(likeness, _)| *likeness >= MIN_LIKENESS).count();
    let shown = match (near, ranked.len()) {
        (_, all) if all <= MAX_SUGGESTIONS => all,
        (0, _) => MAX_SUGGESTIONS,
        (near, _) => near.min(MAX_SUGGESTIONS),
    };
    let names = quoted_list(ranked[..shown].iter().map(|(_, name)| *name));
    match (near, ranked.len()) {
        (_, 0) => format!("It has no {what}."),
        (_, all) if shown == all => format!("The {what}: {names}."),
        (0, all) => format!("Some of the {all} {what}: {names}."),
        _ => format!("The nearest {what}: {names}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["read_file", "write_file", "list_directory", "move_file"];
        let text = suggest("readfile", known.into_iter(), "tools");
        assert!(text.starts_with("The nearest tools: \"read_file\""), "{text}");
        let text = suggest("readonly_echo", ["echo", "sleep", "env", "read_only_echo"].into_iter(), "tools");
        assert_eq!(text, "The nearest tools: \"read_only_echo\", \"echo\".");
        let text = suggest("browser_open", known.into_iter(), "tools");
        assert!(text.starts_with("Some of the 4 tools: "), "{text}");
        assert_eq!(suggest("x", ["a"].into_iter(), "groups"), "The groups: \"a\".");
        assert_eq!(suggest("x", [].into_iter(), "tools"), "It has no tools.");
    }
}
