//! The entries of one list of a server, and an index by which they are found.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use wire::Raw;

/// The conventional scheme of skills.
pub const SKILL_SCHEME: &str = "skill://";
/// The name of the file that makes a directory a skill.
const SKILL_FILE: &str = "/SKILL.md";

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry {
    /// Its `uri`, `uriTemplate` or `name`.
    pub key: String,
    /// The entry itself, verbatim.
    pub definition: Raw,
}

/// The entries of one list, in the server's order. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ListEntries(Arc<IndexedEntries>);

#[derive(Debug, Default)]
struct IndexedEntries {
    entries: Vec<ListEntry>,
    /// Made when it is first needed.
    index: OnceLock<EntryIndex>,
}

/// The places of entries.
#[derive(Debug)]
struct EntryIndex {
    /// Those of all entries, sorted by their keys.
    by_key: Box<[u32]>,
    /// Those of skills, sorted by their directories.
    skills: Box<[u32]>,
}

impl ListEntries {
    /// Returns whether an entry has this key.
    pub fn has(&self, key: &str) -> bool {
        let of = |place: &u32| self[*place as usize].key.as_str();
        self.index().by_key.binary_search_by(|place| of(place).cmp(key)).is_ok()
    }

    /// Returns whether the URI is in the directory of a skill that the list has, or is that directory. Only a URI that
    /// begins with `skill://` can be.
    pub fn has_skill_of(&self, uri: &str) -> bool {
        let is_skill = |directory: &str| {
            let of = |place: &u32| skill_directory(&self[*place as usize].key).unwrap_or_default();
            self.index().skills.binary_search_by(|place| of(place).cmp(directory)).is_ok()
        };
        uri.starts_with(SKILL_SCHEME)
            && (is_skill(uri) || uri.match_indices('/').any(|(end, _)| is_skill(&uri[..end])))
    }

    /// The bytes of the definitions.
    pub fn definition_bytes(&self) -> usize {
        self.iter().map(|entry| entry.definition.len()).sum()
    }

    fn index(&self) -> &EntryIndex {
        self.0.index.get_or_init(|| {
            let places = || 0..u32::try_from(self.len()).unwrap_or(u32::MAX);
            let mut by_key: Box<[u32]> = places().collect();
            by_key.sort_by(|a, b| self[*a as usize].key.cmp(&self[*b as usize].key));
            let directory = |place: &u32| skill_directory(&self[*place as usize].key);
            let mut skills: Box<[u32]> = places().filter(|place| directory(place).is_some()).collect();
            skills.sort_by(|a, b| directory(a).cmp(&directory(b)));
            EntryIndex { by_key, skills }
        })
    }
}

/// The directory of a skill, by its URI.
fn skill_directory(uri: &str) -> Option<&str> {
    uri.strip_suffix(SKILL_FILE)
}

impl Deref for ListEntries {
    type Target = [ListEntry];

    fn deref(&self) -> &[ListEntry] {
        &self.0.entries
    }
}

impl From<Vec<ListEntry>> for ListEntries {
    fn from(entries: Vec<ListEntry>) -> Self {
        Self(Arc::new(IndexedEntries { entries, index: OnceLock::new() }))
    }
}

impl FromIterator<ListEntry> for ListEntries {
    fn from_iter<I: IntoIterator<Item = ListEntry>>(entries: I) -> Self {
        entries.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for ListEntries {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self[..] == other[..]
    }
}

impl Eq for ListEntries {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(keys: &[String]) -> ListEntries {
        keys.iter().map(|key| ListEntry { key: key.clone(), definition: Raw::new() }).collect()
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_search_of_the_list_finds(
            keys in proptest::collection::vec("(skill://)?[ab/]{0,4}(/SKILL.md)?", 0..8),
            uri in "(skill://)?[ab/]{0,6}(/SKILL.md)?",
        ) {
            let entries = entries(&keys);
            prop_assert_eq!(entries.has(&uri), keys.contains(&uri));
            let is_in = |directory: &str| {
                uri.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let of_skill = keys.iter().any(|key| key.strip_suffix(SKILL_FILE).is_some_and(is_in));
            prop_assert_eq!(entries.has_skill_of(&uri), uri.starts_with(SKILL_SCHEME) && of_skill);
        }
    }
}
