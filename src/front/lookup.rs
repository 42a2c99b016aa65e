//! Finds the group and the tool that a model means, or suggests the nearest names.

use super::exposed_names;
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::text::{self, quoted, quoted_list};
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, Tool};

/// How many names an error for an unknown name suggests.
const MAX_SUGGESTIONS: usize = 3;

/// Finds a group by its name.
///
/// # Errors
///
/// Suggests the nearest names.
pub fn group(groups: &GroupManager, name: &str) -> Result<Upstream, String> {
    match groups.get_by_name(name) {
        Some(group) => Ok(group),
        None => group_in(&groups.all(), name).cloned(),
    }
}

/// Finds a group by its name: the one of exactly this name, else the only one that differs in case, else the only one
/// that our texts show under this name.
///
/// # Errors
///
/// Suggests the nearest names.
pub fn group_in<'a>(groups: &'a [Upstream], name: &str) -> Result<&'a Upstream, String> {
    let exact = groups.iter().find(|group| group.name.as_str() == name);
    let caseless = || only(groups.iter().filter(|group| group.name.as_str().eq_ignore_ascii_case(name)));
    let as_shown = || only(groups.iter().filter(|group| is_shown_as(group.name.as_str(), name)));
    exact.or_else(caseless).or_else(as_shown).ok_or_else(|| {
        let names = groups.iter().map(|group| group.name.as_str());
        match groups.is_empty() {
            true => "There are no groups: the config has no server that can be used; get_status says why."
                .to_owned(),
            false => format!("There is no group {}. {}", quoted(name), suggest(name, names, "groups")),
        }
    })
}

/// Finds a tool by its name: the one of exactly this name, else the only one that differs in case, else the only one
/// that our texts show under this name.
pub fn tool<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a Tool> {
    tool_index(catalog, name).map(|index| &catalog.tools[index])
}

/// Does the same, and returns the tool's place in the catalog.
pub fn tool_index(catalog: &Catalog, name: &str) -> Option<usize> {
    let tools = || catalog.tools.iter().enumerate();
    let exact = tools().find(|(_, tool)| tool.name == name);
    let caseless = || only(tools().filter(|(_, tool)| tool.name.eq_ignore_ascii_case(name)));
    let as_shown = || only(tools().filter(|(_, tool)| is_shown_as(&tool.name, name)));
    exact.or_else(caseless).or_else(as_shown).map(|(index, _)| index)
}

/// Returns the text for a tool that does not exist, with the nearest names.
pub fn unknown_tool<'a>(group: &GroupName, name: &str, tools: impl Iterator<Item = &'a str>) -> String {
    format!("Group {group} has no tool {}. {}", quoted(name), suggest(name, tools, "tools"))
}

/// Splits `group__tool` if the first part is the name of a group. If several names fit, the longest one counts.
pub fn split<'g, 'n>(groups: &'g [Upstream], name: &'n str) -> Option<(&'g Upstream, &'n str)> {
    let tool_of = |group: &Upstream| name.strip_prefix(group.name.as_str())?.strip_prefix("__");
    let fitting = groups.iter().filter_map(|group| Some((group, tool_of(group)?)));
    fitting.min_by_key(|(_, tool)| tool.len())
}

/// Returns the groups to which a tool or prompt exposed as `name` may belong, whatever is known of them.
pub fn with_prefix(groups: &[Upstream], name: &str) -> Vec<Upstream> {
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

/// Returns whether our texts show `name` as `shown`, with or without the quotation marks.
fn is_shown_as(name: &str, shown: &str) -> bool {
    text::visible(name) == shown || text::name(name) == shown
}

/// Returns the only candidate; `None` if there are none or several.
fn only<T>(mut candidates: impl Iterator<Item = T>) -> Option<T> {
    let first = candidates.next()?;
    candidates.next().is_none().then_some(first)
}

/// Returns a sentence with the nearest of the known names, or with all of them if they are few.
fn suggest<'a>(name: &str, known: impl Iterator<Item = &'a str>, what: &str) -> String {
    // Case and separators do not matter: `readOnly` is near `read_only`.
    let folded = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let name = folded(name);
    let mut ranked: Vec<_> = known
        .map(|candidate| {
            let candidate_folded = folded(candidate);
            let inside = candidate_folded.contains(&name) || name.contains(&candidate_folded);
            (strsim::jaro_winkler(&name, &candidate_folded) + f64::from(u8::from(inside)), candidate)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown = ranked.len().min(MAX_SUGGESTIONS);
    let nearest = quoted_list(ranked[..shown].iter().map(|(_, name)| *name));
    match (shown, ranked.len()) {
        (0, _) => format!("It has no {what}."),
        (shown, all) if shown == all => format!("The {what}: {nearest}."),
        _ => format!("The nearest {what}: {nearest}."),
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
        assert!(text.starts_with("The nearest tools: \"read_only_echo\", \"echo\""), "{text}");
        assert_eq!(suggest("x", ["a"].into_iter(), "groups"), "The groups: \"a\".");
        assert_eq!(suggest("x", [].into_iter(), "tools"), "It has no tools.");
    }
}
