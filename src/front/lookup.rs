//! Finds the group and the tool a model means, or the nearest names to tell it.

use super::exposed;
use crate::groups::GroupManager;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, Tool};

/// Names offered to whoever named none that exists.
const NEAREST: usize = 3;

/// The group called `name`, or its nearest kin.
pub fn named(groups: &GroupManager, name: &str) -> Result<Upstream, String> {
    match groups.named(name) {
        Some(group) => Ok(group),
        None => group(&groups.all(), name).cloned(),
    }
}

/// The group called `name`: exactly so, else the only one that differs in case.
pub fn group<'a>(groups: &'a [Upstream], name: &str) -> Result<&'a Upstream, String> {
    let exact = groups.iter().find(|group| group.name.as_str() == name);
    let caseless = || only(groups.iter().filter(|group| group.name.as_str().eq_ignore_ascii_case(name)));
    exact.or_else(caseless).ok_or_else(|| {
        let names = groups.iter().map(|group| group.name.as_str());
        match groups.is_empty() {
            true => {
                "There are no groups: the config names no server that could be used; get_status says why."
                    .to_owned()
            }
            false => format!("There is no group {name:?}. {}", suggest(name, names, "groups")),
        }
    })
}

/// The tool called `name`: exactly so, else the only one that differs in case.
pub fn tool<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a Tool> {
    let caseless = || only(catalog.tools.iter().filter(|tool| tool.name.eq_ignore_ascii_case(name)));
    catalog.tool(name).or_else(caseless)
}

/// What to tell whoever named a tool that does not exist.
pub fn unknown_tool<'a>(group: &str, name: &str, tools: impl Iterator<Item = &'a str>) -> String {
    format!("Group {group} has no tool {name:?}. {}", suggest(name, tools, "tools"))
}

/// `group__tool` taken apart, where the first part is a group.
pub fn split<'g, 'n>(groups: &'g [Upstream], name: &'n str) -> Option<(&'g Upstream, &'n str)> {
    name.match_indices("__").find_map(|(at, _)| {
        let owner = groups.iter().find(|group| group.name.as_str() == &name[..at])?;
        Some((owner, &name[at + 2..]))
    })
}

/// The groups that `name` may belong to because their exposed `group__` begins it.
pub fn beginning(groups: &[Upstream], name: &str) -> Vec<Upstream> {
    groups.iter().filter(|group| name.starts_with(&exposed::plain(&group.name, ""))).cloned().collect()
}

/// The groups whose known catalog has a tool of exactly this name that may be called.
pub fn owners<'a>(groups: &'a [Upstream], name: &str) -> Vec<&'a Upstream> {
    let has = |group: &&Upstream| {
        let snapshot = group.snapshot();
        snapshot.catalog.as_ref().is_some_and(|catalog| catalog.tool(name).is_some())
            && snapshot.rules.allows(name)
    };
    groups.iter().filter(has).collect()
}

fn only<T>(mut candidates: impl Iterator<Item = T>) -> Option<T> {
    let first = candidates.next()?;
    candidates.next().is_none().then_some(first)
}

fn suggest<'a>(name: &str, known: impl Iterator<Item = &'a str>, what: &str) -> String {
    // However words are joined: `readOnly` is `read_only`.
    let bare = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let name = bare(name);
    let mut ranked: Vec<_> = known
        .map(|candidate| {
            let bare = bare(candidate);
            let inside = bare.contains(&name) || name.contains(&bare);
            (strsim::jaro_winkler(&name, &bare) + f64::from(u8::from(inside)), candidate)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let nearest: Vec<_> = ranked.iter().take(NEAREST).map(|(_, name)| *name).collect();
    match (nearest.len(), ranked.len()) {
        (0, _) => format!("It has no {what} at all."),
        (shown, all) if shown == all => format!("The {what}: {}.", nearest.join(", ")),
        _ => format!("The nearest {what}: {}.", nearest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["read_file", "write_file", "list_directory", "move_file"];
        let text = suggest("readfile", known.into_iter(), "tools");
        assert!(text.starts_with("The nearest tools: read_file"), "{text}");
        let text = suggest("readonly_echo", ["echo", "sleep", "env", "read_only_echo"].into_iter(), "tools");
        assert!(text.starts_with("The nearest tools: read_only_echo, echo"), "{text}");
        assert_eq!(suggest("x", ["a"].into_iter(), "groups"), "The groups: a.");
        assert_eq!(suggest("x", [].into_iter(), "tools"), "It has no tools at all.");
    }
}
