//! Makes the rules for a server's tools from its entry, the settings and the profile in use.

use crate::CommonConfig;
use crate::file::ServerEntry;
use crate::file::profiles::ProfileToolsEntry;
use crate::file::tools::ToolsEntry;
use crate::file::values::GlobPattern;
use crate::glob::Glob;
use crate::tool_rules::{OwnGlob, Rules, ToolOverride, ToolOverrides};
use base::text::quoted;
use std::collections::BTreeMap;

/// Resolves each list by itself: the server's own replaces that of the settings. The lists of names that other clients
/// write are added to the result, and so are the rules of the profile in use, which allow nothing more. `common` has the
/// rules beside `tools`. `report` gets what is wrong, and what to do about it.
pub(super) fn resolve_tool_rules(
    entry: &ServerEntry,
    settings: Option<&ToolsEntry>,
    profile: Option<&ProfileToolsEntry>,
    common: &CommonConfig,
    report: impl FnMut(String, String),
) -> Rules {
    let own = entry.tools.as_ref();
    let configured = |field: fn(&ToolsEntry) -> Option<&Vec<GlobPattern>>| {
        globs(own.and_then(field).or_else(|| settings.and_then(field)))
    };
    let names = |names: &Option<Vec<String>>| {
        names.iter().flatten().map(|name| Glob::literal(name)).collect::<Vec<_>>()
    };
    let of_profile = |field: fn(&ProfileToolsEntry) -> &Vec<GlobPattern>| globs(profile.map(field));
    let own_allow = [configured(|tools| tools.allow.as_ref()), names(&entry.include_tools)].concat();
    // An empty `allow` of ours allows all tools. Clients whose list this is allow none then.
    let is_limited = !own_allow.is_empty() || entry.include_tools.is_some();
    let profile_allow = profile.map(|profile| globs(Some(&profile.allow)));
    Rules {
        allow: is_limited.then_some(own_allow).into_iter().chain(profile_allow).collect(),
        deny: [
            configured(|tools| tools.deny.as_ref()),
            names(&entry.exclude_tools),
            of_profile(|tools| &tools.deny),
        ]
        .concat(),
        ask: configured(|tools| tools.ask.as_ref()),
        profile_ask: of_profile(|tools| &tools.ask),
        read_only: configured(|tools| tools.read_only.as_ref()),
        expose: globs(Some(&common.expose)),
        overrides: resolve_overrides(own, settings, report),
        distrusts_annotations: !common.trust_annotations,
    }
}

/// Resolves the overrides. The names that clients see must be valid, and different from each other.
fn resolve_overrides(
    own: Option<&ToolsEntry>,
    settings: Option<&ToolsEntry>,
    mut report: impl FnMut(String, String),
) -> ToolOverrides {
    let configured = |tools: &'_ ToolsEntry| tools.overrides.clone();
    let configured = own.and_then(configured).or_else(|| settings.and_then(configured)).unwrap_or_default();
    let overrides: BTreeMap<String, ToolOverride> =
        configured.into_iter().map(|(own, entry)| (own, entry.into())).collect();
    let mut shown_as: BTreeMap<&str, &str> = BTreeMap::new();
    for (own, tool) in &overrides {
        let shown = tool.name.as_deref().unwrap_or(own);
        if tool.name.is_some() && !is_tool_name(shown) {
            let message = format!("`tools.override`: {} is no name for a tool", quoted(shown));
            let hint = "a name has 1 to 128 of the characters a-z A-Z 0-9 _ - .".to_owned();
            report(message, hint);
        } else if let Some(other) = shown_as.insert(shown, own) {
            let (other, own, shown) = (quoted(other), quoted(own), quoted(shown));
            let message = format!("`tools.override`: both {other} and {own} would be named {shown}");
            report(message, "give one of them another `name`".to_owned());
        }
    }
    ToolOverrides::new(overrides)
}

/// Returns whether a text is a name for a tool (MCP 2025-11-25, "Tool Names").
fn is_tool_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Returns the globs for tools that an entry itself has. The globs of `settings` are for the tools of all servers.
pub(super) fn own_globs(entry: &ServerEntry) -> Vec<OwnGlob> {
    let tools = entry.tools.as_ref();
    let lists = [
        ("tools.allow", tools.and_then(|tools| tools.allow.as_ref())),
        ("tools.deny", tools.and_then(|tools| tools.deny.as_ref())),
        ("tools.ask", tools.and_then(|tools| tools.ask.as_ref())),
        ("tools.read_only", tools.and_then(|tools| tools.read_only.as_ref())),
        ("expose", entry.common.expose.as_ref()),
    ];
    let globs =
        lists.into_iter().flat_map(|(field, list)| list.into_iter().flatten().map(move |glob| (field, glob)));
    globs.map(|(field, glob)| OwnGlob { field, written: glob.written.clone() }).collect()
}

fn globs(patterns: Option<&Vec<GlobPattern>>) -> Vec<Glob> {
    patterns.into_iter().flatten().map(|pattern| pattern.glob.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_for_a_tool_has_a_length_and_characters_of_the_protocol() {
        for name in ["a", "Get_2.x-y", &"a".repeat(128)] {
            assert!(is_tool_name(name), "{name}");
        }
        for name in ["", "a b", "é", "a/b", "\n", &"a".repeat(129)] {
            assert!(!is_tool_name(name), "{name}");
        }
    }
}
