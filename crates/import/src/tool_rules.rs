//! What a client may do with the tools of a server: the rules of its file, as globs of ours over the server's own names.
//!
//! Clients put the name of the server before the name of a tool, and a rule is a pattern over both. [`globs_after`]
//! returns the part of a pattern that is about the tools of one server.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::json::strings;
use base::text::joined;
use config::glob::Glob;
use config::notation::{escape, literal};

/// What a rule says about the tools that it names, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ToolEffect {
    /// They are called without a question.
    Allow,
    /// The user is asked before each call.
    Ask,
    /// They are not called.
    Deny,
}

impl ToolEffect {
    /// All of them, with their names in the files of clients and in ours.
    pub(crate) const NAMED: [(&'static str, Self); 3] =
        [("allow", Self::Allow), ("ask", Self::Ask), ("deny", Self::Deny)];
}

/// The rules for the tools of one server, as `tools` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolRuleSet {
    /// The only tools in use; `None`: all.
    allow: Option<BTreeSet<String>>,
    deny: BTreeSet<String>,
    ask: BTreeSet<String>,
}

impl ToolRuleSet {
    /// Takes the rules out of an entry. What else is in its `tools` stays.
    pub(crate) fn take_from(entry: &mut Map<String, Value>) -> Self {
        let rules = Self::read(entry.get("tools"));
        if let Some(Value::Object(tools)) = entry.get_mut("tools") {
            tools.retain(|name, _| ToolEffect::NAMED.iter().all(|(known, _)| name != known));
            if tools.is_empty() {
                entry.shift_remove("tools");
            }
        }
        rules
    }

    /// Writes the rules into an entry that has none.
    pub(crate) fn write_to(&self, entry: &mut Map<String, Value>) {
        let Value::Object(tools) = entry.entry("tools").or_insert_with(|| json!({})) else { return };
        tools.extend(self.members());
        if tools.is_empty() {
            entry.shift_remove("tools");
        }
    }

    /// Reads the `tools` of an entry, or those of a server in a profile.
    pub(crate) fn read(tools: Option<&Value>) -> Self {
        let member = |name| {
            strings(tools.and_then(|tools| tools.get(name))).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        Self {
            allow: Some(member("allow")).filter(|allow| !allow.is_empty()),
            deny: member("deny"),
            ask: member("ask"),
        }
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether these rules are part of `other`, which then refuses at least as much.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let is_allowed = self.allow.is_none() || self.allow == other.allow;
        let asks = |glob: &String| other.ask.contains(glob) || other.deny.contains(glob);
        is_allowed && self.deny.is_subset(&other.deny) && self.ask.iter().all(asks)
    }

    /// Returns the members of `tools` for these rules.
    pub(crate) fn members(&self) -> Map<String, Value> {
        let lists = [("allow", self.allow.as_ref()), ("deny", Some(&self.deny)), ("ask", Some(&self.ask))];
        let member = |(name, globs): (&str, Option<&BTreeSet<String>>)| {
            Some((name.to_owned(), json!(globs.filter(|globs| !globs.is_empty())?)))
        };
        lists.into_iter().filter_map(member).collect()
    }

    /// Adds a rule that counts before all that were added: of the rules that match a tool, the last one counts. Returns
    /// whether that is not all of it, because a glob that refuses more cannot have an exception.
    pub(crate) fn add(&mut self, globs: &[String], effect: ToolEffect) -> bool {
        if globs == ["*"] {
            *self = Self::default();
        }
        let mut is_incomplete = false;
        for glob in globs {
            // The exceptions of a server whose tools are all denied are the ones that are allowed.
            if effect != ToolEffect::Deny && self.allow.is_none() && self.deny.remove("*") {
                self.allow = Some(BTreeSet::new());
            }
            let weaker: &mut [&mut BTreeSet<String>] = match effect {
                ToolEffect::Allow => &mut [&mut self.deny, &mut self.ask],
                ToolEffect::Ask => &mut [&mut self.deny],
                ToolEffect::Deny => &mut [],
            };
            for refused in weaker {
                refused.retain(|refused| !covers(glob, refused));
                is_incomplete |= refused.iter().any(|refused| may_overlap(glob, refused));
            }
            match effect {
                ToolEffect::Deny => drop(self.deny.insert(glob.clone())),
                ToolEffect::Ask => drop(self.ask.insert(glob.clone())),
                ToolEffect::Allow => {}
            }
            if let Some(allow) = self.allow.as_mut().filter(|_| effect != ToolEffect::Deny) {
                allow.insert(glob.clone());
            }
        }
        if self.deny.contains("*") {
            *self = Self { deny: BTreeSet::from(["*".to_owned()]), ..Self::default() };
        }
        is_incomplete
    }

    /// Adds the rules of another part of the same client's file. If both name the only tools in use, ours count.
    pub(crate) fn join(&mut self, other: Self) {
        self.allow = self.allow.take().or(other.allow);
        self.deny.extend(other.deny);
        self.ask.extend(other.ask);
    }

    /// Returns whether no tool may be called.
    pub(crate) fn denies_all(&self) -> bool {
        self.deny.contains("*")
    }

    /// Returns the globs that the user is asked for.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &str> {
        self.ask.iter().map(String::as_str)
    }

    /// Says what they do.
    pub(crate) fn describe(&self) -> String {
        let part = |verb: &str, globs: &BTreeSet<String>| {
            let globs = joined(globs.iter().map(|glob| literal(glob).unwrap_or_else(|| glob.clone())));
            (!globs.is_empty()).then(|| format!("{verb} {globs}"))
        };
        let allow = self.allow.as_ref().and_then(|allow| part("has only", allow));
        let parts = [allow, part("denies", &self.deny), part("asks before", &self.ask)];
        let described = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if described.is_empty() { "without rules".to_owned() } else { described }
    }
}

/// Returns whether a glob certainly matches every name that another one matches.
fn covers(glob: &str, other: &str) -> bool {
    let is_name = !other.contains(['*', '?', '[', '{', '\\']);
    glob == other || (is_name && Glob::parse(glob).is_ok_and(|glob| glob.matches(other)))
}

/// Returns whether two globs may match one name: neither begins with what the other one cannot begin with.
fn may_overlap(one: &str, other: &str) -> bool {
    let fixed = |glob: &str| glob.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default().to_owned();
    let is_name = |glob: &str| fixed(glob).len() == glob.len();
    match (is_name(one), is_name(other)) {
        (true, true) => one == other,
        (true, false) => covers(other, one),
        (false, true) => covers(one, other),
        (false, false) => {
            let (one, other) = (fixed(one), fixed(other));
            one.starts_with(&other) || other.starts_with(&one)
        }
    }
}

/// Returns the globs over the names of tools that match what a pattern matches after a prefix: none if it matches
/// nothing that has the prefix. In a pattern, `*` stands for any text and `?` for any character.
pub(crate) fn globs_after(prefix: &str, pattern: &str) -> Vec<String> {
    let pattern: Vec<char> = pattern.chars().collect();
    // Where in the pattern the match of the prefix may end.
    let mut ends = BTreeSet::from([0]);
    for c in prefix.chars() {
        let mut starts = ends;
        ends = BTreeSet::new();
        while let Some(at) = starts.pop_first() {
            match pattern.get(at) {
                Some('*') => {
                    ends.insert(at);
                    // It may match nothing.
                    starts.insert(at + 1);
                }
                Some(&expected) if expected == c || expected == '?' => drop(ends.insert(at + 1)),
                _ => {}
            }
        }
    }
    let rest = |at: &usize| pattern.get(*at..).filter(|rest| !rest.is_empty());
    let rests: Vec<&[char]> = ends.iter().filter_map(rest).collect();
    if rests.iter().any(|rest| rest.iter().all(|c| *c == '*')) {
        return vec!["*".to_owned()];
    }
    rests.into_iter().map(glob).collect()
}

/// Writes a pattern as a glob in a config.
fn glob(pattern: &[char]) -> String {
    let glob = pattern.iter().map(|c| match c {
        '*' | '?' => c.to_string(),
        other => Glob::escape(&other.to_string()),
    });
    escape(&glob.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_pattern_that_is_about_a_server_is_found() {
        for (prefix, pattern, globs) in [
            ("gh_", "gh_delete", &["delete"][..]),
            ("gh_", "gh_delete_*", &["delete_*"]),
            ("gh_", "gh*", &["*"]),
            ("gh_", "*", &["*"]),
            ("gh_", "g*_x", &["*_x", "x"]),
            ("gh_", "*_delete?", &["*_delete?", "delete?"]),
            ("gh_", "gh_a[1]", &["a[[]1[]]"]),
            ("gh_", "gh_${x}", &["$[{]x[}]"]),
            ("gh_", "gh_", &[]),
            ("gh_", "bash", &[]),
            ("gh_", "gitlab_x", &[]),
        ] {
            let mut found = globs_after(prefix, pattern);
            found.sort();
            assert_eq!(found, globs, "{pattern}");
        }
    }

    fn rules(sequence: &[(&str, ToolEffect)]) -> (Value, bool) {
        let mut rules = ToolRuleSet::default();
        let mut is_incomplete = false;
        for (glob, effect) in sequence {
            is_incomplete |= rules.add(&[(*glob).to_owned()], *effect);
        }
        (Value::Object(rules.members()), is_incomplete)
    }

    #[test]
    fn the_last_rule_counts_and_what_cannot_be_said_refuses_more() {
        use ToolEffect::{Allow, Ask, Deny};
        for (sequence, expected, is_incomplete) in [
            (&[("a", Deny), ("b*", Ask)][..], json!({"deny": ["a"], "ask": ["b*"]}), false),
            (
                &[("*", Deny), ("get_*", Allow), ("put", Ask)],
                json!({"allow": ["get_*", "put"], "ask": ["put"]}),
                false,
            ),
            (
                &[("*", Deny), ("get_*", Allow), ("get_x", Deny)],
                json!({"allow": ["get_*"], "deny": ["get_x"]}),
                false,
            ),
            (&[("a", Deny), ("*", Allow)], json!({}), false),
            (&[("a", Deny), ("a", Allow)], json!({}), false),
            (&[("del_a", Deny), ("del_*", Ask)], json!({"ask": ["del_*"]}), false),
            (&[("del_*", Deny), ("del_a", Allow)], json!({"deny": ["del_*"]}), true),
            (&[("*", Ask), ("get_*", Allow)], json!({"ask": ["*"]}), true),
            (&[("del_*", Deny), ("get_*", Allow)], json!({"deny": ["del_*"]}), false),
            (&[("a", Ask), ("*", Deny)], json!({"deny": ["*"]}), false),
        ] {
            assert_eq!(rules(sequence), (expected, is_incomplete), "{sequence:?}");
        }
    }
}
