//! What is remembered of a tool's definition: a digest that decides whether it changed, and enough to say what changed.

use super::canonical::canonical;
use super::members::DefinitionMembers;
use base::digest;
use base::text::{one_line, shorten};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wire::{Raw, raw};

/// How many characters of a description are remembered.
const MAX_DESCRIPTION: usize = 1000;
/// How many characters of a server's version are remembered.
const MAX_VERSION: usize = 64;
/// How many members of a part are named when they change.
const MAX_MEMBERS_NAMED: usize = 4;
/// How many characters of a member's path are shown.
const MAX_PATH_SHOWN: usize = 120;
/// The length of a digest in bytes.
const DIGEST_BYTES: usize = 24;
/// The length of the hash of a part in bytes. It only says which part changed.
const PART_BYTES: usize = 8;
/// The parts that are named when they change. All other members together are `OTHER_MEMBERS`.
const PARTS: &[&str] =
    &["title", "description", "inputSchema", "outputSchema", "annotations", "execution", "icons", "_meta"];
const OTHER_MEMBERS: &str = "other members";
/// The hints of `annotations` in MCP.
pub const HINTS: &[&str] = &["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Identifies the content of a definition: a SHA-256, cut to 24 bytes, as hex digits. The order of members and white
/// space do not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionDigest(Box<str>);

impl DefinitionDigest {
    /// Computes the digest of a definition.
    pub fn of(definition: &[u8]) -> Self {
        Self(digest::of(&canonical(definition), DIGEST_BYTES).into())
    }

    /// The digest of two definitions of the same name.
    fn and(&self, other: &Self) -> Self {
        Self(digest::of(format!("{} {}", self.0, other.0).as_bytes(), DIGEST_BYTES).into())
    }
}

/// What is remembered of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinnedTool {
    /// Decides whether the definition changed.
    pub digest: DefinitionDigest,
    /// A hash of each part that the definition has.
    parts: BTreeMap<String, String>,
    /// The beginning of the description, on one line.
    pub description: String,
    /// The hints of `annotations`: `true`, `false` or `other`.
    hints: BTreeMap<String, String>,
    /// The details for a pinned group. Records of earlier versions of this program lack them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<PinnedDetails>,
}

/// What is remembered of a tool of a pinned group in addition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PinnedDetails {
    /// The version of the server that had the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// The members of the definition.
    pub(super) members: DefinitionMembers,
}

impl PinnedTool {
    /// Reads a definition, of which `digest` is known.
    pub(crate) fn new(digest: DefinitionDigest, definition: &Raw) -> Self {
        let mut parts: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for (name, value) in raw::entries(definition).unwrap_or_default() {
            // The name is the key of the record.
            if name == "name" {
                continue;
            }
            let known = PARTS.iter().find(|part| **part == name);
            let content = parts.entry(known.unwrap_or(&OTHER_MEMBERS)).or_default();
            if known.is_none() {
                content.extend_from_slice(name.as_bytes());
            }
            content.extend_from_slice(&canonical(&value));
        }
        let annotations = raw::get(definition, "annotations");
        let hint = |name: &&str| {
            let value = raw::get(annotations.as_ref()?, name)?;
            let value = match &value[..] {
                b"true" => "true",
                b"false" => "false",
                _ => "other",
            };
            Some(((*name).to_owned(), value.to_owned()))
        };
        let description = raw::get_str(definition, "description").unwrap_or_default();
        Self {
            digest,
            parts: parts
                .into_iter()
                .map(|(part, content)| (part.to_owned(), digest::of(&content, PART_BYTES)))
                .collect(),
            description: one_line(&description).chars().take(MAX_DESCRIPTION).collect(),
            hints: HINTS.iter().filter_map(hint).collect(),
            details: None,
        }
    }

    /// Adds the details that a pinned group needs. `version`: that of the server.
    pub(super) fn with_details(mut self, definition: &Raw, version: Option<&str>) -> Self {
        let version = version.map(|version| one_line(version).chars().take(MAX_VERSION).collect());
        self.details = Some(PinnedDetails { version, members: DefinitionMembers::of(definition) });
        self
    }

    /// Names the parts that differ from those of `earlier`, or the members if they are known, such as `description`,
    /// `inputSchema.properties.a.default` or `annotations (readOnlyHint false → true)`.
    pub(crate) fn differences(&self, earlier: &Self) -> Vec<String> {
        let parts: BTreeSet<_> = self.parts.keys().chain(earlier.parts.keys()).collect();
        let changed = parts.into_iter().filter(|part| self.parts.get(*part) != earlier.parts.get(*part));
        changed
            .flat_map(|part| match part.as_str() {
                "annotations" => vec![format!("annotations{}", self.changed_hints(earlier))],
                part => self.changed_members(earlier, part),
            })
            .collect()
    }

    /// The members of a part that differ; the part if they are not known.
    fn changed_members(&self, earlier: &Self, part: &str) -> Vec<String> {
        let (Some(new), Some(old)) = (&self.details, &earlier.details) else { return vec![part.to_owned()] };
        let is_in_part = |path: &&str| {
            path.strip_prefix(part).is_some_and(|rest| matches!(rest.chars().next(), None | Some('.' | '[')))
        };
        let paths = new.members.differing(&old.members).into_iter().filter(is_in_part);
        let paths: BTreeSet<&str> = paths.map(|path| old.members.known(path).unwrap_or(part)).collect();
        let more = paths.len().saturating_sub(MAX_MEMBERS_NAMED);
        let named = paths.iter().take(MAX_MEMBERS_NAMED).map(|path| shorten(path, MAX_PATH_SHOWN));
        match (paths.is_empty(), more) {
            (true, _) => vec![part.to_owned()],
            (_, 0) => named.collect(),
            _ => named.chain([format!("{more} more of {part}")]).collect(),
        }
    }

    /// The hints that differ, in parentheses; empty if none does.
    fn changed_hints(&self, earlier: &Self) -> String {
        let value = |tool: &Self, hint: &str| tool.hints.get(hint).map_or("unset", String::as_str).to_owned();
        let changed = HINTS.iter().filter(|hint| self.hints.get(**hint) != earlier.hints.get(**hint));
        let changed: Vec<_> =
            changed.map(|hint| format!("{hint} {} → {}", value(earlier, hint), value(self, hint))).collect();
        if changed.is_empty() { String::new() } else { format!(" ({})", changed.join(", ")) }
    }
}

/// Combines the definitions that a catalog has under one name, so that a change of any of them is a change of the tool.
/// Only the digest covers all of them; the details are those of the first definition, which is the one that is called.
pub fn by_name<T>(
    tools: impl Iterator<Item = (String, T)>,
    digest: impl Fn(&mut T) -> &mut DefinitionDigest,
) -> Vec<(String, T)> {
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut merged: Vec<(String, T)> = Vec::new();
    for (name, mut tool) in tools {
        match positions.get(&name).and_then(|position| merged.get_mut(*position)) {
            Some((_, first)) => {
                let both = digest(first).and(digest(&mut tool));
                *digest(first) = both;
            }
            None => {
                positions.insert(name.clone(), merged.len());
                merged.push((name, tool));
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digest(json: &str) -> DefinitionDigest {
        DefinitionDigest::of(json.as_bytes())
    }

    fn tool(json: &str) -> PinnedTool {
        PinnedTool::new(digest(json), &Raw::copy_from_slice(json.as_bytes()))
    }

    #[test]
    fn the_order_of_members_and_white_space_do_not_matter() {
        let one = r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{}}}}"#;
        let other = r#"{ "inputSchema" : {"properties":{"y":{},"x":{}},"type":"object"},"name":"a"}"#;
        assert_eq!(digest(one), digest(other));
        assert_ne!(digest(one), digest(&one.replace("\"y\"", "\"z\"")));
        assert_ne!(digest(r#"{"enum":["a","b"]}"#), digest(r#"{"enum":["b","a"]}"#), "lists have an order");
        assert_ne!(digest(r#"{"a":["b"]}"#), digest(r#"{"a":{"b":1}}"#));
        assert_ne!(digest(r#"{"big":1e400,"x":1}"#), digest(r#"{"big":1e400,"x":2}"#), "it cannot be read");
    }

    #[test]
    fn a_member_that_is_given_twice_counts_twice() {
        let single = r#"{"name":"a","annotations":{"readOnlyHint":false}}"#;
        for double in [
            r#"{"name":"a","annotations":{"readOnlyHint":true,"readOnlyHint":false}}"#,
            r#"{"name":"a","annotations":{"readOnlyHint":true},"annotations":{"readOnlyHint":false}}"#,
        ] {
            assert_ne!(digest(single), digest(double));
            assert_eq!(tool(double).differences(&tool(single)), ["annotations"], "{double}");
        }
    }

    #[test]
    fn every_part_that_changed_is_named() {
        let old = tool(r#"{"name":"a","description":"Reads.","annotations":{"readOnlyHint":false}}"#);
        let cases: &[(&str, &[&str])] = &[
            (r#"{"name":"a","description":"Reads!","annotations":{"readOnlyHint":false}}"#, &["description"]),
            (
                r#"{"name":"a","description":"Reads.","annotations":{"readOnlyHint":true,"idempotentHint":1}}"#,
                &["annotations (readOnlyHint false → true, idempotentHint unset → other)"],
            ),
            (
                r#"{"name":"a","description":"Reads.","annotations":{"readOnlyHint":false},"inputSchema":{},"outputSchema":{},"x":1}"#,
                &["inputSchema", OTHER_MEMBERS, "outputSchema"],
            ),
            (
                r#"{"name":"a","annotations":{"readOnlyHint":false,"title":"x"}}"#,
                &["annotations", "description"],
            ),
        ];
        for (new, expected) in cases {
            assert_eq!(tool(new).differences(&old), *expected, "{new}");
        }
    }

    #[test]
    fn members_that_differ_are_named_within_a_bound() {
        let tool = |json: &str| {
            let definition = Raw::copy_from_slice(json.as_bytes());
            PinnedTool::new(digest(json), &definition).with_details(&definition, Some("1"))
        };
        let many = |count: usize, value: u32| {
            let members: Vec<_> = (0..count).map(|n| format!(r#""k{n:03}":{value}"#)).collect();
            tool(&format!(r#"{{"_meta":{{{}}}}}"#, members.join(",")))
        };
        assert_eq!(many(1, 2).differences(&many(1, 1)), ["_meta.k000"]);
        let named: Vec<_> = (0..MAX_MEMBERS_NAMED).map(|n| format!("_meta.k{n:03}")).collect();
        assert_eq!(many(MAX_MEMBERS_NAMED, 2).differences(&many(MAX_MEMBERS_NAMED, 1)), named);
        let more = many(MAX_MEMBERS_NAMED + 3, 2).differences(&many(MAX_MEMBERS_NAMED + 3, 1));
        assert_eq!(more, [named, vec!["3 more of _meta".to_owned()]].concat());
        let beyond = |value: u32| {
            let members: Vec<_> = (0..500).map(|n| format!(r#""a{n:03}":1"#)).collect();
            tool(&format!(r#"{{"_meta":{{{}}},"title":"{value}"}}"#, members.join(",")))
        };
        assert_eq!(beyond(2).differences(&beyond(1)), ["title"], "it is not told apart");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_digest_panic(json in "[\\[\\]{}\",:ax0-9 \\\\]{0,40}") {
            let _digest = tool(&json);
        }
    }
}
