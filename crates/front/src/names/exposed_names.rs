//! The names under which clients see the tools and prompts of upstreams: `group__name`. Pure.
//!
//! A name may be read in several ways: `a__b__echo` is `b__echo` of group `a`, or `echo` of group `a__b`. It belongs to
//! the group with the longest name that fits, whether or not that group is connected and has such a tool. So no
//! upstream can take a name of another group by what it calls its tools. Everything else gets a name with a hash, which
//! begins with the name of its own group only.

use base::blocking::BlockingError;
use base::digest;
use config::tool_rules::Rules;
use config::{Config, GroupName};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use upstream::{Catalog, GroupManager};

/// The longest exposed name, in bytes. With the prefix that clients add, a name must have less than 64.
pub const MAX_LENGTH: usize = 46;

/// The table of exposed names.
#[derive(Debug, Default)]
pub struct ExposedNames {
    /// The group and the upstream's own name of each exposed name.
    owners: BTreeMap<String, (GroupName, String)>,
    /// The exposed name of each group's own names.
    exposed: HashMap<GroupName, HashMap<String, String>>,
}

impl ExposedNames {
    /// Builds the table from all pairs of a group and a name. `groups`: all groups, in config order, including groups
    /// without known names.
    pub fn new<'a>(groups: &[GroupName], pairs: impl Iterator<Item = (&'a GroupName, &'a str)>) -> Self {
        let mut names = Self::default();
        let prefixes = Prefixes::of(groups);
        let mut pairs: Vec<_> = pairs.collect();
        // A name that is the same without replaced characters comes first.
        pairs.sort_by_cached_key(|(group, name)| plain_name(group, name) != verbatim_name(group, name));
        for (group, name) in pairs {
            let plain = plain_name(group, name);
            let is_same = |(g, n): &(GroupName, String)| g == group && n == name;
            let is_own = prefixes.fitting_groups(&plain).first() == Some(&group);
            let is_taken = names.owners.get(&plain).is_some_and(|owner| !is_same(owner));
            let exposed = match is_own && !is_taken && plain.len() <= MAX_LENGTH {
                true => plain,
                false => hashed_name(group, name, is_own),
            };
            let owner =
                names.owners.entry(exposed.clone()).or_insert_with(|| (group.clone(), name.to_owned()));
            if is_same(owner) {
                names.exposed.entry(group.clone()).or_default().entry(name.to_owned()).or_insert(exposed);
            }
        }
        names
    }

    /// Returns the group and the upstream's own name behind an exposed name. `None` if no name of the table has it.
    pub fn resolve(&self, exposed: &str) -> Option<(GroupName, String)> {
        self.owners.get(exposed).cloned()
    }

    /// Returns the exposed name of `name` of `group`. `None` if the table was made without it, or if another name has
    /// the same hash.
    pub fn exposed(&self, group: &GroupName, name: &str) -> Option<&str> {
        self.exposed.get(group)?.get(name).map(String::as_str)
    }
}

/// Returns the groups to which an exposed name may belong: the one with the longest name that it begins with. If
/// several groups have the same prefix, because characters were replaced, the one without replaced characters is first,
/// then config order counts.
pub(crate) fn groups_of<'g>(groups: &'g [GroupName], exposed: &str) -> Vec<&'g GroupName> {
    Prefixes::of(groups).fitting_groups(exposed)
}

/// The groups by the beginnings of their exposed names, in config order.
struct Prefixes<'g> {
    groups: HashMap<String, Vec<&'g GroupName>>,
    /// The lengths of the beginnings, the longest first. Servers choose long names, but no lengths of this list.
    lengths: BTreeSet<Reverse<usize>>,
}

impl<'g> Prefixes<'g> {
    fn of(groups: &'g [GroupName]) -> Self {
        let mut prefixes = Self { groups: HashMap::new(), lengths: BTreeSet::new() };
        for group in groups {
            let prefix = plain_name(group, "");
            prefixes.lengths.insert(Reverse(prefix.len()));
            prefixes.groups.entry(prefix).or_default().push(group);
        }
        prefixes
    }

    fn fitting_groups(&self, exposed: &str) -> Vec<&'g GroupName> {
        let mut beginnings = self.lengths.iter().filter_map(|Reverse(length)| exposed.get(..*length));
        let longest = beginnings.find_map(|beginning| self.groups.get(beginning));
        let mut groups = longest.cloned().unwrap_or_default();
        // The sort is stable.
        groups.sort_by_key(|group| Reverse(exposed.starts_with(group.as_str())));
        groups
    }
}

/// Returns `group__name`, with `_` in place of every character that some clients reject.
pub fn plain_name(group: &GroupName, name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    verbatim_name(group, name).chars().map(allowed).collect()
}

fn verbatim_name(group: &GroupName, name: &str) -> String {
    format!("{}__{name}", group.as_str())
}

/// Returns the plain name, cut and followed by six hex digits of a hash of both names. If `is_own` is false, another
/// group's name fits the plain name; then what follows the group's name has no two underscores in a row, so that it
/// completes no other group's name.
fn hashed_name(group: &GroupName, name: &str, is_own: bool) -> String {
    let mut hash = Sha256::new();
    hash.update(group.as_str());
    hash.update([0]);
    hash.update(name);
    let digits = digest::hex(&hash.finalize()[..3]);
    let prefix = plain_name(group, "");
    let Some(room) = (MAX_LENGTH - 7).checked_sub(prefix.len()) else {
        return format!("{}_{digits}", &prefix[..MAX_LENGTH - 7]);
    };
    let mut words = plain_name(group, name)[prefix.len()..].to_owned();
    if !is_own {
        words = words.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
    }
    words.truncate(room);
    match words.trim_end_matches('_') {
        "" => format!("{prefix}{digits}"),
        words => format!("{prefix}{words}_{digits}"),
    }
}

/// The exposed names of all known tools, kept until a catalog or a rule changes.
#[derive(Default)]
pub struct KnownNames(Mutex<Option<(NamesSource, Arc<ExposedNames>)>>);

/// What a table was made of. The pointers keep nothing alive but their addresses.
struct NamesSource {
    config: Weak<Config>,
    /// The catalog and the rules of each group.
    groups: Vec<(Weak<Catalog>, Weak<Rules>)>,
}

impl NamesSource {
    fn of(groups: &GroupManager) -> Self {
        let of_group = |snapshot: &upstream::Snapshot| {
            let catalog = snapshot.catalog.as_ref().map(Arc::downgrade).unwrap_or_default();
            (catalog, Arc::downgrade(&snapshot.rules))
        };
        Self {
            config: Arc::downgrade(&groups.config()),
            groups: groups.all().iter().map(|group| of_group(&group.snapshot())).collect(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same =
            |((catalog, rules), (other, other_rules)): (&(Weak<_>, Weak<_>), &(Weak<_>, Weak<_>))| {
                Weak::ptr_eq(catalog, other) && Weak::ptr_eq(rules, other_rules)
            };
        Weak::ptr_eq(&self.config, &other.config)
            && self.groups.len() == other.groups.len()
            && self.groups.iter().zip(&other.groups).all(is_same)
    }
}

impl KnownNames {
    /// Returns the names as they are now. The table is made again if the config, a catalog or a rule has changed.
    ///
    /// # Errors
    ///
    /// Making the table took too long, or was aborted.
    pub async fn get(&self, groups: &Arc<GroupManager>) -> Result<Arc<ExposedNames>, BlockingError> {
        let source = NamesSource::of(groups);
        let known =
            self.0.lock().as_ref().filter(|(of, _)| of.is_same(&source)).map(|(_, names)| names.clone());
        if let Some(names) = known {
            return Ok(names);
        }
        let names = Arc::new(groups.run_on_lists(exposed_names).await?);
        *self.0.lock() = Some((source, names.clone()));
        Ok(names)
    }
}

/// Makes the table of the exposed names of all known tools that the config allows.
pub fn exposed_names(groups: &GroupManager) -> ExposedNames {
    let known: Vec<(GroupName, Arc<Catalog>, Arc<Rules>)> = groups
        .all()
        .iter()
        .filter_map(|group| {
            let snapshot = group.snapshot();
            Some((group.name.clone(), snapshot.catalog.clone()?, snapshot.rules.clone()))
        })
        .collect();
    let pairs = known.iter().flat_map(|(group, catalog, rules)| {
        let tools = catalog.tools.iter().map(|tool| tool.name.as_str());
        tools.filter(|tool| rules.allows(tool)).map(move |tool| (group, tool))
    });
    let names: Vec<_> = groups.config().servers.iter().map(|(name, _)| name.clone()).collect();
    ExposedNames::new(&names, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use tokio::time::Instant;

    fn groups(names: &[&str]) -> Vec<GroupName> {
        names.iter().map(|name| GroupName::new(name)).collect()
    }

    #[test]
    fn names_are_short_plain_and_unique() {
        let all = groups(&["a", "a__b"]);
        let (a, b) = (&all[0], &all[1]);
        let long = "x".repeat(100);
        let pairs = [(a, "b__c"), (b, "c"), (a, "ünï code"), (a, &long), (a, "b__c")];
        let names = ExposedNames::new(&all, pairs.into_iter());
        assert_eq!(names.owners.len(), 4);
        for (group, name) in pairs {
            let exposed = names.exposed(group, name).unwrap();
            assert!(
                exposed.len() <= MAX_LENGTH
                    && exposed.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c))
            );
            assert_eq!(names.resolve(exposed), Some((group.clone(), name.to_owned())));
        }
    }

    #[test]
    fn no_group_takes_a_name_of_a_group_with_a_longer_name() {
        let all = groups(&["a", "a__b"]);
        let (a, b) = (&all[0], &all[1]);
        for pairs in [&[(a, "b__echo")][..], &[(a, "b__echo"), (b, "echo")], &[(b, "echo"), (a, "b__echo")]] {
            let names = ExposedNames::new(&all, pairs.iter().copied());
            let owner = names.resolve("a__b__echo");
            let is_known = pairs.contains(&(b, "echo"));
            assert_eq!(owner, is_known.then(|| (b.clone(), "echo".to_owned())), "{pairs:?}");
            let other = names.exposed(a, "b__echo").unwrap();
            assert_eq!((&other[..10], groups_of(&all, other)), ("a__b_echo_", vec![a]));
        }
        assert_eq!(groups_of(&all, "a__b__echo"), [b], "whatever is known");
        assert_eq!(groups_of(&all, "a__c"), [a]);
        assert_eq!(groups_of(&groups(&["a", "a_"]), "a___x"), [&GroupName::new("a_")]);
    }

    /// A server chooses its names, and every table of names has those of all servers.
    #[test]
    fn a_name_of_underscores_takes_no_longer_than_another_one() {
        let all = groups(&["g", "h"]);
        let underscores = "_".repeat(1 << 20);
        let begin = Instant::now();
        let names = ExposedNames::new(&all, [(&all[0], underscores.as_str())].into_iter());
        assert_eq!(names.owners.len(), 1);
        assert_eq!(groups_of(&all, &format!("g{underscores}")), [&all[0]]);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    #[test]
    fn a_name_without_replaced_characters_is_preferred() {
        let all = groups(&["my group", "my_group"]);
        let (spaced, plain) = (&all[0], &all[1]);
        assert_eq!(groups_of(&all, "my_group__x"), [plain, spaced]);
        let names = ExposedNames::new(&all, [(spaced, "x"), (plain, "a b"), (plain, "a_b")].into_iter());
        assert_eq!(names.resolve("my_group__x"), None, "my_group may have it once it is known");
        assert_eq!(names.resolve("my_group__a_b"), Some((plain.clone(), "a_b".to_owned())));
    }

    proptest! {
        #[test]
        fn every_exposed_name_leads_to_its_own_group(
            names in proptest::collection::vec("[ab_]{1,5}", 1..5),
            tools in proptest::collection::vec((0..5usize, "[ab_ ]{1,8}"), 0..8),
        ) {
            let all: Vec<_> = names.iter().map(|name| GroupName::new(name)).collect();
            let pairs: Vec<_> = tools.iter().map(|(n, tool)| (&all[n % all.len()], tool.as_str())).collect();
            let table = ExposedNames::new(&all, pairs.iter().copied());
            for (group, tool) in pairs {
                if let Some(exposed) = table.exposed(group, tool) {
                    let fitting = groups_of(&all, exposed);
                    prop_assert_eq!(fitting.first(), Some(&group), "{}", exposed);
                }
            }
        }
    }
}
