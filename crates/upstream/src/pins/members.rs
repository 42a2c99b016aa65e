//! The members of a definition, each with a hash of its value, so that a change can be named by the member that
//! differs.

use super::canonical::canonical;
use base::digest;
use base::text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Raw, raw};

/// The length of a hash in bytes. Nobody can make two values with the same one.
const HASH_BYTES: usize = 16;
/// How many members of a definition are told apart.
const MAX_MEMBERS: usize = 128;
/// How deep members are told apart. What is deeper belongs to the member that has it.
const MAX_DEPTH: usize = 16;
/// The longest path of a member, in bytes.
const MAX_PATH: usize = 256;
/// The path of all members that are not told apart.
const OTHERS: &str = "…";

/// The innermost members of a definition by their paths, such as `inputSchema.properties.a.default`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct DefinitionMembers(BTreeMap<String, MemberHash>);

/// A hash of a member's value, a space, and a hash that does not depend on the order of its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct MemberHash(Box<str>);

impl MemberHash {
    fn of(value: &Raw) -> Self {
        let hash = digest::of(&canonical(value), HASH_BYTES);
        Self(match sorted_parts(value) {
            Some(parts) => format!("{hash} {}", digest::of(parts.join("\n").as_bytes(), HASH_BYTES)).into(),
            None => hash.into(),
        })
    }

    /// The hash that does not depend on the order.
    fn unordered(&self) -> Option<&str> {
        self.0.split_once(' ').map(|(_, unordered)| unordered)
    }

    /// Puts two values together.
    fn and(&self, other: &Self) -> Self {
        Self(digest::of(format!("{}\n{}", self.0, other.0).as_bytes(), HASH_BYTES).into())
    }
}

/// The words of a text, as servers list them in any order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter(|word| !word.is_empty())
}

/// The words of a string or the elements of a list, sorted; `None` if the order of a value means nothing.
fn sorted_parts(value: &Raw) -> Option<Vec<String>> {
    let mut parts: Vec<String> = match value.first()? {
        b'"' => {
            let text: String = serde_json::from_slice(value).ok()?;
            words(&text).map(|word| format!("{word:?}")).collect()
        }
        b'[' => {
            let elements = raw::elements_of(value)?;
            elements.iter().map(|element| String::from_utf8_lossy(&canonical(element)).into_owned()).collect()
        }
        _ => return None,
    };
    parts.sort_unstable();
    (parts.len() > 1).then_some(parts)
}

impl DefinitionMembers {
    /// Reads a definition. The name of the tool is not a member, because it is the key of the record.
    pub(super) fn of(definition: &Raw) -> Self {
        let mut members = BTreeMap::new();
        for (name, value) in raw::entries(definition).unwrap_or_default() {
            if name != "name" {
                add(&mut members, segment(&name), &value, 1);
            }
        }
        let first_of_rest = members.keys().nth(MAX_MEMBERS).cloned();
        let rest = first_of_rest.map(|first| members.split_off(&first)).unwrap_or_default();
        for (path, hash) in rest {
            let named = MemberHash(format!("{path} {}", hash.0).into());
            insert(&mut members, OTHERS.to_owned(), named);
        }
        Self(members)
    }

    /// Returns the paths of the members that differ from `earlier`, or that only one of both has.
    pub(super) fn differing<'m>(&'m self, earlier: &'m Self) -> Vec<&'m str> {
        let paths: BTreeSet<_> = self.0.keys().chain(earlier.0.keys()).collect();
        let differs = |path: &&String| self.0.get(*path) != earlier.0.get(*path);
        paths.into_iter().filter(differs).map(String::as_str).collect()
    }

    /// Returns the longest beginning of a path that these members have, too. The rest of the path may be text that
    /// nobody approved, which no model may read.
    pub(super) fn known<'p>(&self, path: &'p str) -> Option<&'p str> {
        let mut ends = path.match_indices(['.', '[']).map(|(end, _)| end).chain([path.len()]).rev();
        let is_known = |end: usize| {
            let from = self.0.range(path[..end].to_owned()..).map(|(known, _)| known);
            let mut rests = from.map_while(|known| known.strip_prefix(&path[..end]));
            rests.any(|rest| matches!(rest.chars().next(), None | Some('.' | '[')))
        };
        ends.find(|end| is_known(*end)).map(|end| &path[..end])
    }

    /// Returns whether a member differs from that of `earlier` by the order of its parts only.
    pub(super) fn is_reordered(&self, earlier: &Self, path: &str) -> bool {
        let unordered = |members: &Self| members.0.get(path)?.unordered().map(str::to_owned);
        unordered(self).is_some_and(|now| unordered(earlier) == Some(now))
    }
}

/// Returns whether a path stands for one member.
pub(super) fn is_single(path: &str) -> bool {
    path != OTHERS
}

/// Writes a key as a part of a path. Different keys are written differently.
fn segment(key: &str) -> String {
    let is_plain = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$'));
    if is_plain { key.to_owned() } else { text::quoted(key) }
}

/// Adds a value, or the members that it has.
fn add(members: &mut BTreeMap<String, MemberHash>, path: String, value: &Raw, depth: usize) {
    let inner: Vec<(String, Raw)> = match value.first() {
        Some(b'{') if depth < MAX_DEPTH => {
            let entries = raw::entries(value).unwrap_or_default().into_iter();
            entries.map(|(key, value)| (format!("{path}.{}", segment(&key)), value)).collect()
        }
        Some(b'[') if depth < MAX_DEPTH => {
            let elements = raw::elements_of(value).unwrap_or_default();
            let has_members = elements.iter().any(|element| matches!(element.first(), Some(b'{' | b'[')));
            let numbered = elements.into_iter().enumerate().filter(|_| has_members);
            numbered.map(|(n, element)| (format!("{path}[{n}]"), element)).collect()
        }
        _ => Vec::new(),
    };
    if inner.is_empty() || inner.iter().any(|(path, _)| path.len() > MAX_PATH) {
        insert(members, path, MemberHash::of(value));
        return;
    }
    inner.into_iter().for_each(|(path, value)| add(members, path, &value, depth + 1));
}

/// Adds a member. One that is given twice counts twice.
fn insert(members: &mut BTreeMap<String, MemberHash>, path: String, hash: MemberHash) {
    let both = members.get(&path).map(|known| known.and(&hash));
    members.insert(path, both.unwrap_or(hash));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(json: &str) -> DefinitionMembers {
        DefinitionMembers::of(&Raw::copy_from_slice(json.as_bytes()))
    }

    #[test]
    fn the_innermost_members_that_differ_are_named() {
        let old = members(
            r#"{"name":"a","inputSchema":{"properties":{"x.y":{"default":"a, b c"},"z":{"enum":["p","q"],"anyOf":[{"type":"string"}]}}}}"#,
        );
        let cases = [
            (
                r#"{"name":"b","inputSchema":{"properties":{"z":{"anyOf":[{"type":"string"}],"enum":["p","q"]},"x.y":{"default":"c b,a"}}}}"#,
                r#"inputSchema.properties."x.y".default"#,
                true,
            ),
            (
                r#"{"inputSchema":{"properties":{"x.y":{"default":"a, b c"},"z":{"enum":["q","p"],"anyOf":[{"type":"string"}]}}}}"#,
                "inputSchema.properties.z.enum",
                true,
            ),
            (
                r#"{"inputSchema":{"properties":{"x.y":{"default":"a, b c"},"z":{"enum":["p","q"],"anyOf":[{"type":"null"}]}}}}"#,
                "inputSchema.properties.z.anyOf[0].type",
                false,
            ),
        ];
        for (json, path, is_reordered) in cases {
            let new = members(json);
            assert_eq!(new.differing(&old), [path]);
            assert_eq!(new.is_reordered(&old, path), is_reordered, "{path}");
        }
        assert_eq!(members(r#"{"title":"x","a":{}}"#).differing(&members(r#"{"a":[]}"#)), ["a", "title"]);
        assert_eq!(members(r#"{"a":1,"a":2}"#).differing(&members(r#"{"a":2}"#)), ["a"]);
    }

    #[test]
    fn of_a_new_member_only_what_was_known_before_is_named() {
        let old = members(r#"{"inputSchema":{"properties":{"a":{"type":"string"},"a-b":1}}}"#);
        for (path, known) in [
            ("inputSchema.properties.a.type", Some("inputSchema.properties.a.type")),
            ("inputSchema.properties.a.default", Some("inputSchema.properties.a")),
            (r#"inputSchema.properties."send all. Now""#, Some("inputSchema.properties")),
            ("inputSchema.prop", Some("inputSchema")),
            ("title", None),
        ] {
            assert_eq!(old.known(path), known, "{path}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_a_change_of_the_rest_is_one_of_the_rest() {
        let many = |last: u32| {
            let members: Vec<_> =
                (0..1000).map(|n| format!(r#""k{n:04}":{}"#, if n == 999 { last } else { 1 })).collect();
            format!("{{{}}}", members.join(","))
        };
        let (old, new) = (members(&many(1)), members(&many(2)));
        assert_eq!(old.0.len(), MAX_MEMBERS + 1);
        assert_eq!(new.differing(&old), [OTHERS]);
        assert!(!is_single(OTHERS));
        let deep = |value: u32| format!("{}{value}{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        assert_eq!(members(&deep(1)).differing(&members(&deep(2))).len(), 1);
        let long = |key: usize| members(&format!(r#"{{"a":{{"{}":1}}}}"#, "k".repeat(key)));
        assert_eq!(long(MAX_PATH - "a.".len() + 1).0.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(long(MAX_PATH - "a.".len()).0.keys().next().unwrap().len(), MAX_PATH);
    }

    #[test]
    fn members_are_told_apart_to_a_fixed_depth() {
        for (open, close, segment) in [(r#"{"a":"#, "}", ".a"), ("[", "]", "[0]")] {
            let (open, close) = (open.repeat(MAX_DEPTH + 4), close.repeat(MAX_DEPTH + 4));
            let deep = members(&format!(r#"{{"a":{open}{{}}{close}}}"#));
            let path = format!("a{}", segment.repeat(MAX_DEPTH - 1));
            assert_eq!(deep.0.keys().collect::<Vec<_>>(), [&path]);
        }
    }

    #[test]
    fn a_single_word_has_no_order() {
        let (old, new) = (members(r#"{"d":"a","":1}"#), members(r#"{"d":"a;","":1}"#));
        assert_eq!(new.differing(&old), ["d"]);
        assert!(!new.is_reordered(&old, "d"));
        assert!(members(r#"{"d":"b;a"}"#).is_reordered(&members(r#"{"d":"a;b"}"#), "d"));
        assert_eq!(new.0.keys().collect::<Vec<_>>(), [r#""""#, "d"], "an empty key is quoted");
    }

    proptest! {
        #[test]
        fn equal_members_are_an_equal_definition(
            one in "\\{(\"[ab.]{1,2}\":([12]|\"a b\"|\\{\"a\":1\\}|\\[1,\\{\\}\\]),){0,3}\"z\":1\\}",
            other in "\\{(\"[ab.]{1,2}\":([12]|\"a b\"|\\{\"a\":1\\}|\\[1,\\{\\}\\]),){0,3}\"z\":1\\}",
        ) {
            let is_same = canonical(one.as_bytes()) == canonical(other.as_bytes());
            prop_assert_eq!(members(&one) == members(&other), is_same);
        }
    }
}
