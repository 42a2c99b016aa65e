//! The limits for the lists of a server, which no honest server meets, and what is left off the lists.
//!
//! An entry that exceeds a limit or has no name is left off and named in a finding; entries are never cut. The limits
//! are checked once, when a list is read, before anything else is done with an entry. So the rest of the program may
//! rely on them.

use base::text::{counted, quoted_list, shorten};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::protocol::max_bytes;
use wire::raw;

/// The limit for the tools of a group. The first ones are kept.
pub(crate) const MAX_TOOLS: usize = 10_000;
/// The limit for one definition, in bytes.
pub(crate) const MAX_DEFINITION_BYTES: usize = 1 << 20;
/// The limit for the depth of one definition: how deep its objects and arrays are nested.
pub const MAX_DEPTH: usize = 256;
/// The limit for all definitions of a group, in bytes. The first ones are kept.
pub(crate) const MAX_LIST_BYTES: usize = 16 << 20;
/// The limit for the pages of one list that bring no new entry, which only ends lists that never end.
pub(crate) const MAX_REPEATED_PAGES: usize = 100;
/// How many of the entries that are left off are named.
const MAX_NAMED: usize = 5;
/// How many characters of a name are kept.
const MAX_NAME: usize = 64;

/// One of the lists of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogList {
    /// `tools/list`.
    Tools,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
    /// `prompts/list`.
    Prompts,
    /// `skills/list`.
    Skills,
    /// `tasks/list`, which is in no catalog.
    Tasks,
}

impl CatalogList {
    /// The member of a page that has the entries.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
            Self::Skills => "skills",
            Self::Tasks => "tasks",
        }
    }

    /// The member of an entry that identifies it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources | Self::Skills => "uri",
            Self::Templates => "uriTemplate",
            Self::Tasks => "taskId",
        }
    }

    /// The longest value of that member, in bytes.
    pub(super) fn max_key_bytes(self) -> usize {
        match self {
            Self::Tools | Self::Prompts => max_bytes::NAME,
            Self::Resources | Self::Skills | Self::Templates | Self::Tasks => max_bytes::URI,
        }
    }

    /// The noun for an entry of the list.
    fn noun(self) -> &'static str {
        match self {
            Self::Templates => "resource template",
            list => list.member().trim_end_matches('s'),
        }
    }
}

/// Why an entry is left off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOffReason {
    /// [`MAX_TOOLS`].
    Count,
    /// [`MAX_DEFINITION_BYTES`].
    Size,
    /// [`MAX_DEPTH`].
    Depth,
    /// [`MAX_LIST_BYTES`].
    Total,
    /// The list has further pages, which are not read.
    Pages,
    /// The entry lacks the member by which entries are told apart.
    Nameless,
    /// [`CatalogList::max_key_bytes`].
    LongName,
    /// An entry before it has the same name. The first one counts.
    Repeated,
    /// The rest of the list, or all of it, could not be read.
    Unread,
}

impl LeftOffReason {
    /// Returns the limit for definitions that this one exceeds by itself, whatever else the list has.
    pub fn of(definition: &[u8]) -> Option<Self> {
        match definition.len() {
            // A level takes two bytes.
            0..=MAX_DEPTH => None,
            length if length > MAX_DEFINITION_BYTES => Some(Self::Size),
            _ => (raw::depth(definition) > MAX_DEPTH).then_some(Self::Depth),
        }
    }

    /// Returns whether a request may name the entry, although the list does not show it.
    fn may_be_requested(self) -> bool {
        !matches!(self, Self::Nameless | Self::LongName | Self::Repeated)
    }

    /// The reason as text that follows the number and the noun.
    fn text(self, list: CatalogList) -> String {
        match self {
            Self::Count => "after the first 10,000".to_owned(),
            Self::Size => format!("with a definition of more than {} MiB", MAX_DEFINITION_BYTES >> 20),
            Self::Depth => format!("with a definition of more than {MAX_DEPTH} levels"),
            Self::Total => format!("after the first {} MiB of definitions", MAX_LIST_BYTES >> 20),
            Self::Pages => "of further pages".to_owned(),
            Self::Nameless => "without a name".to_owned(),
            Self::LongName => {
                format!("with a `{}` of more than {} KiB", list.key(), list.max_key_bytes() >> 10)
            }
            Self::Repeated => "with the name of one before".to_owned(),
            Self::Unread => "that could not be read".to_owned(),
        }
    }
}

/// What is left off the lists of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeftOff(BTreeMap<CatalogList, BTreeMap<LeftOffReason, LeftOffEntries>>);

/// The entries of one list that are left off for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LeftOffEntries {
    /// How many there are; 0 if that is not known.
    count: usize,
    /// The names of the first ones.
    first: Vec<String>,
}

impl LeftOff {
    /// Adds an entry. `name` returns what it is called, if that can be told.
    pub fn add(&mut self, list: CatalogList, limit: LeftOffReason, name: impl FnOnce() -> Option<String>) {
        let entries = self.0.entry(list).or_default().entry(limit).or_default();
        entries.count += 1;
        if entries.first.len() < MAX_NAMED {
            entries.first.extend(name().map(|name| shorten(&name, MAX_NAME)));
        }
    }

    /// Adds entries of which it is not known how many there are.
    pub(crate) fn add_unknown(&mut self, list: CatalogList, reason: LeftOffReason) {
        self.0.entry(list).or_default().entry(reason).or_default();
    }

    /// Adds what is left off another list.
    pub fn merge(&mut self, other: Self) {
        for (list, limits) in other.0 {
            for (limit, LeftOffEntries { count, first }) in limits {
                let entries = self.0.entry(list).or_default().entry(limit).or_default();
                entries.count += count;
                entries.first.extend(first);
                entries.first.truncate(MAX_NAMED);
            }
        }
    }

    /// Returns whether the lists have everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a list lacks entries that a request may name. Those may still be called, although the list does
    /// not show them.
    pub fn lacks_named(&self, list: CatalogList) -> bool {
        self.0.get(&list).is_some_and(|reasons| reasons.keys().any(|reason| reason.may_be_requested()))
    }

    /// Says what is left off, one text for each list and limit.
    pub fn texts(&self) -> Vec<String> {
        let all = self.0.iter().flat_map(|(list, limits)| limits.iter().map(move |entries| (list, entries)));
        let text = |(list, (limit, entries)): (&CatalogList, (&LeftOffReason, &LeftOffEntries))| {
            let (count, noun, what) = (entries.count, list.noun(), limit.text(*list));
            let named = quoted_list(entries.first.iter().map(String::as_str));
            let more = if count > entries.first.len() { ", …" } else { "" };
            match (count, named.is_empty()) {
                (0, _) => format!("the {noun}s {what}"),
                (_, true) => format!("{} {what}", counted(count, noun)),
                (_, false) => format!("{} {what} ({named}{more})", counted(count, noun)),
            }
        };
        all.map(text).collect()
    }

    /// Says what is left off and what that means, on one line; `None` if nothing is.
    pub fn text(&self) -> Option<String> {
        let texts = self.texts();
        let mut reasons = self.0.values().flat_map(BTreeMap::keys);
        let note = match reasons.any(|reason| reason.may_be_requested()) {
            true => "; a request that names one still reaches the server",
            false => "",
        };
        (!texts.is_empty()).then(|| format!("left off the lists: {}{note}", texts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_at_a_limit_is_within_it() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(LeftOffReason::of(deep(MAX_DEPTH).as_bytes()), None);
        assert_eq!(LeftOffReason::of(deep(MAX_DEPTH + 1).as_bytes()), Some(LeftOffReason::Depth));
        let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert_eq!(LeftOffReason::of(long(MAX_DEFINITION_BYTES).as_bytes()), None);
        assert_eq!(LeftOffReason::of(long(MAX_DEFINITION_BYTES + 1).as_bytes()), Some(LeftOffReason::Size));
    }

    #[test]
    fn what_is_left_off_is_counted_and_the_first_are_named() {
        let mut left_off = LeftOff::default();
        assert_eq!(left_off.text(), None);
        left_off.add(CatalogList::Tools, LeftOffReason::Depth, || Some("deep".to_owned()));
        for n in 0..7 {
            left_off.add(CatalogList::Tools, LeftOffReason::Count, || Some(format!("t{n}")));
        }
        let mut other = LeftOff::default();
        other.add_unknown(CatalogList::Templates, LeftOffReason::Pages);
        left_off.merge(other);
        let text = left_off.text().unwrap();
        for part in [
            r#"7 tools after the first 10,000 ("t0", "t1", "t2", "t3", "t4", …); "#,
            r#"1 tool with a definition of more than 256 levels ("deep"); "#,
            "the resource templates of further pages; ",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(left_off.lacks_named(CatalogList::Tools) && !left_off.lacks_named(CatalogList::Prompts));
        assert!(text.ends_with("; a request that names one still reaches the server"), "{text}");
    }

    #[test]
    fn an_entry_that_no_request_can_name_is_not_said_to_be_reachable() {
        let mut left_off = LeftOff::default();
        left_off.add(CatalogList::Tools, LeftOffReason::LongName, || Some("x".repeat(2000)));
        left_off.add(CatalogList::Templates, LeftOffReason::LongName, || None);
        let text = left_off.text().unwrap();
        let wanted = "1 resource template with a `uriTemplate` of more than 8 KiB";
        assert!(text.contains("1 tool with a `name` of more than 1 KiB (\"xxx"), "{text}");
        assert!(text.ends_with(wanted) && !left_off.lacks_named(CatalogList::Tools), "{text}");
    }
}
