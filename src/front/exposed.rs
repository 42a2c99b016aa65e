//! The names under which an upstream's prompts and tools stand beside those of others. Pure.

use crate::config::GroupName;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// With a client's own prefix, a name has to stay below 64 characters.
const LONGEST: usize = 46;

/// Exposed names and what they stand for.
#[derive(Debug, Default)]
pub struct Names {
    stand_for: BTreeMap<String, (GroupName, String)>,
    of: HashMap<GroupName, HashMap<String, String>>,
}

impl Names {
    /// Of all `(group, name)` pairs, in config order: the first to claim a name gets it.
    pub fn new<'a>(pairs: impl Iterator<Item = (&'a GroupName, &'a str)>) -> Self {
        let mut names = Self::default();
        for (group, name) in pairs {
            let plain = plain(group, name);
            let whose = |(g, n): &(GroupName, String)| g == group && n == name;
            let taken = names.stand_for.get(&plain).is_some_and(|owner| !whose(owner));
            let exposed = if taken || plain.len() > LONGEST { marked(&plain, group, name) } else { plain };
            let owner =
                names.stand_for.entry(exposed.clone()).or_insert_with(|| (group.clone(), name.to_owned()));
            if whose(owner) {
                names.of.entry(group.clone()).or_default().entry(name.to_owned()).or_insert(exposed);
            }
        }
        names
    }

    /// What `exposed` stands for.
    pub fn resolve(&self, exposed: &str) -> Option<(GroupName, String)> {
        self.stand_for.get(exposed).cloned()
    }

    /// The name under which `name` of `group` stands.
    pub fn of(&self, group: &GroupName, name: &str) -> Option<&str> {
        self.of.get(group)?.get(name).map(String::as_str)
    }
}

/// `group__name` in the characters that all clients take.
pub fn plain(group: &GroupName, name: &str) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    format!("{group}__{name}").chars().map(fine).collect()
}

/// Cut, and told from others by a hash of both names.
fn marked(plain: &str, group: &GroupName, name: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(group.as_str());
    hash.update([0]);
    hash.update(name);
    let digits: String = hash.finalize().iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{digits}", &plain[..plain.len().min(LONGEST - 7)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_and_unique() {
        let (a, b) = (GroupName::new("a"), GroupName::new("a__b"));
        let long = "x".repeat(100);
        let pairs = [(&a, "b__c"), (&b, "c"), (&a, "ünï code"), (&a, &long), (&a, "b__c")];
        let names = Names::new(pairs.into_iter());
        assert_eq!(names.stand_for.len(), 4);
        assert_eq!(names.resolve("a__b__c"), Some((a.clone(), "b__c".to_owned())), "the first keeps it");
        for (group, name) in pairs {
            let exposed = names.of(group, name).unwrap();
            assert!(
                exposed.len() <= LONGEST
                    && exposed.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c))
            );
            assert_eq!(names.resolve(exposed), Some((group.clone(), name.to_owned())));
        }
    }
}
