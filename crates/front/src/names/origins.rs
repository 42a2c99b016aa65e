//! Remembers which groups named a URI in a result, so that a URI that is in no list can be read from its group. The ids
//! of elicitations are remembered in the same way, so that a group cannot end the question of another one.

use config::GroupName;
use memchr::memmem;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock};
use wire::Raw;
use wire::protocol::max_bytes;

/// How many names of one group are remembered. Its oldest are forgotten, so no group can make those of another forgotten.
const MAX_NAMES: usize = 1000;
/// The longest name that is remembered, in bytes. No request may have a longer URI.
pub(crate) const MAX_LENGTH: usize = max_bytes::URI;
/// How many URIs are taken from one result.
const MAX_PER_RESULT: usize = 100;

/// The names that each group has used.
#[derive(Debug, Default)]
pub(crate) struct Origins(BTreeMap<GroupName, RecentNames>);

/// The last names of one group.
#[derive(Debug, Default)]
struct RecentNames {
    /// The names.
    known: HashSet<Arc<str>>,
    /// The names, the oldest first.
    order: VecDeque<Arc<str>>,
}

impl Origins {
    /// Remembers names that `group` has used. Names that are too long are left out, and the group's oldest are
    /// forgotten.
    pub(crate) fn record(&mut self, group: &GroupName, names: Vec<String>) {
        let recent = self.0.entry(group.clone()).or_default();
        for name in names.into_iter().filter(|name| name.len() <= MAX_LENGTH) {
            let name = Arc::<str>::from(name);
            if recent.known.insert(name.clone()) {
                recent.order.push_back(name);
            }
        }
        while recent.order.len() > MAX_NAMES {
            if let Some(oldest) = recent.order.pop_front() {
                recent.known.remove(&oldest);
            }
        }
    }

    /// Returns the groups that have used a name.
    pub(crate) fn groups<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a GroupName> {
        self.0.iter().filter(|(_, recent)| recent.known.contains(name)).map(|(group, _)| group)
    }
}

/// Returns the values of members called `uri`, at any depth: the first ones if there are many.
pub fn uris(result: &Raw) -> Vec<String> {
    static KEY: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\"uri\""));
    let found = KEY.find_iter(result).filter_map(|at| {
        let value = result[at + 5..].trim_ascii_start().strip_prefix(b":")?;
        serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()
    });
    found.take(MAX_PER_RESULT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups<'a>(origins: &'a Origins, name: &'a str) -> Vec<&'a str> {
        origins.groups(name).map(GroupName::as_str).collect()
    }

    #[test]
    fn uris_in_results_are_remembered_and_the_oldest_are_forgotten() {
        let mut origins = Origins::default();
        let group = GroupName::new("g");
        let result = r#"{"content":[{"type":"resource_link","uri" : "x://\u00e9","n":1},{"resource":{"uri":"y://2"}}],"uri":3}"#;
        origins.record(&group, uris(&Raw::from(result)));
        assert_eq!(groups(&origins, "x://é"), ["g"]);
        assert_eq!(groups(&origins, "y://2"), ["g"]);
        for n in 0..MAX_NAMES {
            origins.record(&group, vec![format!("z://{n}")]);
        }
        assert!(groups(&origins, "x://é").is_empty());
        assert_eq!(origins.0[&group].known.len(), MAX_NAMES);
    }

    #[test]
    fn no_group_makes_the_names_of_another_one_forgotten_or_its_own() {
        let mut origins = Origins::default();
        let (bank, evil) = (GroupName::new("bank"), GroupName::new("evil"));
        origins.record(&bank, vec!["bank://1".to_owned()]);
        for n in 0..=MAX_NAMES {
            origins.record(&evil, vec![format!("x://{n}")]);
        }
        assert_eq!(groups(&origins, "bank://1"), ["bank"]);
        origins.record(&evil, vec!["bank://1".to_owned(), "x".repeat(MAX_LENGTH + 1)]);
        assert_eq!(groups(&origins, "bank://1"), ["bank", "evil"]);
        assert!(groups(&origins, &"x".repeat(MAX_LENGTH + 1)).is_empty());
    }
}
