//! The names under which clients see the tools and prompts of upstreams: `group__name`. Pure.

use crate::config::GroupName;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// The longest exposed name. With the prefix that clients add, a name must have less than 64 characters.
const MAX_LENGTH: usize = 46;

/// The table of exposed names.
#[derive(Debug, Default)]
pub struct ExposedNames {
    /// The group and the upstream's own name of each exposed name.
    owners: BTreeMap<String, (GroupName, String)>,
    /// The exposed name of each group's own names.
    exposed: HashMap<GroupName, HashMap<String, String>>,
}

impl ExposedNames {
    /// Builds the table from all pairs of a group and a name, in config order. The first pair to claim a name gets it.
    pub fn new<'a>(pairs: impl Iterator<Item = (&'a GroupName, &'a str)>) -> Self {
        let mut names = Self::default();
        for (group, name) in pairs {
            let plain = plain_name(group, name);
            let is_same = |(g, n): &(GroupName, String)| g == group && n == name;
            let taken = names.owners.get(&plain).is_some_and(|owner| !is_same(owner));
            let exposed =
                if taken || plain.len() > MAX_LENGTH { hashed_name(&plain, group, name) } else { plain };
            let owner =
                names.owners.entry(exposed.clone()).or_insert_with(|| (group.clone(), name.to_owned()));
            if is_same(owner) {
                names.exposed.entry(group.clone()).or_default().entry(name.to_owned()).or_insert(exposed);
            }
        }
        names
    }

    /// Returns the group and the upstream's own name behind an exposed name.
    pub fn resolve(&self, exposed: &str) -> Option<(GroupName, String)> {
        self.owners.get(exposed).cloned()
    }

    /// Returns the exposed name of `name` of `group`.
    pub fn exposed(&self, group: &GroupName, name: &str) -> Option<&str> {
        self.exposed.get(group)?.get(name).map(String::as_str)
    }
}

/// Returns `group__name`, with `_` in place of every character that some clients reject.
pub fn plain_name(group: &GroupName, name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    format!("{group}__{name}").chars().map(allowed).collect()
}

/// Returns the plain name, cut and followed by six hex digits of a hash of both names.
fn hashed_name(plain: &str, group: &GroupName, name: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(group.as_str());
    hash.update([0]);
    hash.update(name);
    let digits: String = hash.finalize().iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{digits}", &plain[..plain.len().min(MAX_LENGTH - 7)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_and_unique() {
        let (a, b) = (GroupName::new("a"), GroupName::new("a__b"));
        let long = "x".repeat(100);
        let pairs = [(&a, "b__c"), (&b, "c"), (&a, "ünï code"), (&a, &long), (&a, "b__c")];
        let names = ExposedNames::new(pairs.into_iter());
        assert_eq!(names.owners.len(), 4);
        assert_eq!(
            names.resolve("a__b__c"),
            Some((a.clone(), "b__c".to_owned())),
            "the first pair keeps the name"
        );
        for (group, name) in pairs {
            let exposed = names.exposed(group, name).unwrap();
            assert!(
                exposed.len() <= MAX_LENGTH
                    && exposed.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c))
            );
            assert_eq!(names.resolve(exposed), Some((group.clone(), name.to_owned())));
        }
    }
}
