//! The profiles of servers.json by which each client goes on to see the servers that it had.
//!
//! A profile that `import` makes leaves servers out (`["*", "!x"]`), so that a server that is added later appears
//! everywhere. One that exists is only added to: it never loses a server that it chooses.
//!
//! # Theory of operation
//!
//! `access` collects, for each client, its servers and the rules for their tools. `client_profiles` turns that into
//! profiles of servers.json, each of which is a [`Profile`] here. `own_profiles` knows the clients that use this program
//! already, and the profile of each.
//! `not_carried` names the rules that have no counterpart.

use serde_json::{Map, Value, json};

use super::json::into_members;
use super::rules::tool_rules::ToolRuleSet;
use base::text::name as visible_name;
use config::file::values::ServerPattern;
use config::glob::Glob;
use config::notation::{escape, literal};

pub(crate) mod access;
pub(crate) mod client_profiles;
pub(crate) mod not_carried;
pub(crate) mod own_profiles;

/// How many servers of a profile are named.
const MAX_NAMED: usize = 8;

/// A profile, as the file has it or will have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    /// Globs, and those that leave servers out with `!` before them.
    servers: Vec<String>,
    /// The rules for tools, by server.
    tools: Map<String, Value>,
}

/// A server, from the view of one profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProfileCandidate<'s> {
    /// Its name.
    pub(crate) name: &'s str,
    /// Whether a profile that chooses it may leave it out.
    pub(crate) may_be_left_out: bool,
    /// Whether the profile should choose it; `None`: as it does now.
    pub(crate) is_wanted: Option<bool>,
}

impl Profile {
    /// One that chooses every server.
    pub(crate) fn of_all() -> Self {
        Self { servers: vec!["*".to_owned()], tools: Map::new() }
    }

    /// Reads one. `None` if it is no profile. Without `servers`, it chooses all.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let servers = if value.is_object() { value.get("servers") } else { Some(value) };
        let servers = servers.cloned().unwrap_or_else(|| json!(["*"]));
        let servers = servers.as_array()?.iter().map(|glob| Some(glob.as_str()?.to_owned()));
        let tools = value.get("tools");
        let tools = into_members(tools.cloned());
        Some(Self { servers: servers.collect::<Option<_>>()?, tools })
    }

    /// Returns the value for the file.
    pub(crate) fn value(&self) -> Value {
        match self.tools.is_empty() {
            true => json!(self.servers),
            false => json!({"servers": self.servers, "tools": self.tools}),
        }
    }

    /// Returns whether it chooses all servers but those that it names.
    pub(crate) fn is_by_exclusion(&self) -> bool {
        self.servers.iter().any(|glob| glob == "*")
    }

    /// Returns whether it chooses a server.
    pub(crate) fn chooses(&self, server: &str) -> bool {
        let patterns = self.servers.iter().filter_map(|glob| ServerPattern::try_from(text(glob)).ok());
        ServerPattern::choose_server(patterns.collect::<Vec<_>>().iter(), server)
    }

    /// Returns the profile with the wanted servers, and without those that are not wanted and may be left out. `None`
    /// if that is impossible because a glob excludes a wanted server, or because it chooses one that may not be left
    /// out.
    pub(crate) fn adapted(&self, candidates: &[ProfileCandidate<'_>]) -> Option<Self> {
        let mut adapted = self.clone();
        for ProfileCandidate { name, may_be_left_out, is_wanted } in candidates {
            let glob = escape(&Glob::escape(name));
            let exclusion = format!("!{glob}");
            match is_wanted {
                Some(true) if !adapted.chooses(name) => {
                    adapted.servers.retain(|known| *known != exclusion);
                    if !adapted.chooses(name) {
                        // A glob that begins with `!` excludes.
                        let mark = if glob.starts_with('!') { "\\" } else { "" };
                        adapted.servers.push(format!("{mark}{glob}"));
                    }
                    if !adapted.chooses(name) {
                        return None;
                    }
                }
                Some(false) if adapted.chooses(name) => match may_be_left_out {
                    true => adapted.servers.push(exclusion),
                    false => return None,
                },
                _ => {}
            }
        }
        Some(adapted)
    }

    /// Leaves out these servers, which it chooses so far.
    pub(crate) fn without<'s>(mut self, servers: impl IntoIterator<Item = &'s str>) -> Self {
        self.servers.extend(servers.into_iter().map(|name| format!("!{}", escape(&Glob::escape(name)))));
        self
    }

    /// Returns the rules for the tools of a server.
    pub(crate) fn rules(&self, server: &str) -> ToolRuleSet {
        ToolRuleSet::read(self.tools.get(server))
    }

    /// Adds rules for a server. If the profile has rules for it already, those stay. Returns whether the rules that it has
    /// then refuse at least as much as `rules`.
    pub(crate) fn add_rules_if_none(&mut self, server: &str, rules: &ToolRuleSet) -> bool {
        if !self.tools.contains_key(server) {
            self.tools.insert(server.to_owned(), Value::Object(rules.members()));
        }
        rules.is_within(&self.rules(server))
    }

    /// Says which servers it chooses.
    pub(crate) fn describe(&self) -> String {
        let (out, chosen): (Vec<_>, Vec<_>) = self.servers.iter().partition(|glob| glob.starts_with('!'));
        let names = |globs: &[&String]| {
            let name = |glob: &&String| visible_name(&plain_name(glob.strip_prefix('!').unwrap_or(glob)));
            let names: Vec<_> = globs.iter().map(name).collect();
            match names.len() {
                ..=MAX_NAMED => names.join(", "),
                count => {
                    format!("{} and {} others", names[..MAX_NAMED - 2].join(", "), count - MAX_NAMED + 2)
                }
            }
        };
        let chosen = if chosen == ["*"] { "all servers".to_owned() } else { names(&chosen) };
        if out.is_empty() { chosen } else { format!("{chosen} but {}", names(&out)) }
    }
}

fn text(glob: &str) -> String {
    literal(glob).unwrap_or_else(|| glob.to_owned())
}

/// Returns the name that a glob of `Glob::escape` matches, or the glob.
fn plain_name(glob: &str) -> String {
    let glob = text(glob);
    let (mut plain, mut chars) = (String::new(), glob.chars().peekable());
    while let Some(c) = chars.next() {
        // A character that stands for itself is the only one of its class.
        plain.push(if c == '[' { chars.next().unwrap_or(c) } else { c });
        if c == '[' {
            chars.next_if_eq(&']');
        }
    }
    if Glob::escape(&plain) == glob { plain } else { glob }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, may_be_left_out: bool, is_wanted: Option<bool>) -> ProfileCandidate<'_> {
        ProfileCandidate { name, may_be_left_out, is_wanted }
    }

    #[test]
    fn a_profile_is_only_added_to() {
        let adapted = |profile: Value, candidates: &[ProfileCandidate<'_>]| {
            Profile::read(&profile).unwrap().adapted(candidates).map(|profile| profile.value())
        };
        let (new, old) = (true, false);
        for (profile, candidates, expected) in [
            (
                json!(["*"]),
                &[candidate("a", new, Some(false)), candidate("b[1]", new, Some(false))][..],
                json!(["*", "!a", "!b[[]1[]]"]),
            ),
            (
                json!(["*", "!a"]),
                &[candidate("a", old, Some(false)), candidate("b", old, None)],
                json!(["*", "!a"]),
            ),
            (json!(["*", "!a"]), &[candidate("a", old, Some(true))], json!(["*"])),
            (json!(["a"]), &[candidate("!x", new, Some(true))], json!(["a", "\\!x"])),
            (json!(["*"]), &[candidate("!x", new, Some(false))], json!(["*", "!!x"])),
            (
                json!(["work*"]),
                &[candidate("a", new, Some(true)), candidate("work1", old, None)],
                json!(["work*", "a"]),
            ),
        ] {
            assert_eq!(adapted(profile, candidates), Some(expected));
        }
        assert_eq!(adapted(json!(["*"]), &[candidate("a", old, Some(false))]), None, "it would lose a");
        assert_eq!(adapted(json!(["*", "!a*"]), &[candidate("ab", new, Some(true))]), None);
    }

    #[test]
    fn a_profile_with_rules_is_an_object_and_the_users_rules_stay() {
        let mut profile =
            Profile::read(&json!({"servers": ["*"], "tools": {"gh": {"deny": ["a"]}}})).unwrap();
        let rules = |globs: &[&str]| ToolRuleSet::read(Some(&json!({"deny": globs})));
        assert!(
            !profile.add_rules_if_none("gh", &rules(&["b"]))
                && profile.add_rules_if_none("gh", &rules(&["a"]))
        );
        assert!(profile.add_rules_if_none("fs", &rules(&["b"])));
        let expected = json!({"servers": ["*"], "tools": {"gh": {"deny": ["a"]}, "fs": {"deny": ["b"]}}});
        assert_eq!(profile.value(), expected);
        assert_eq!(
            Profile::of_all().without(["a"; 19]).describe(),
            "all servers but a, a, a, a, a, a and 13 others"
        );
        assert_eq!(
            Profile::of_all().without(["a", "b[1]", "!x", ""]).describe(),
            r#"all servers but a, "b[1]", "!x", """#
        );
    }
}
