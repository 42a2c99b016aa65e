//! What is remembered of one group, and how it changes. Pure: observations, approvals and the time in.

use super::definition::{DefinitionDigest, PinnedTool};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// The version of the file format.
pub const VERSION: u32 = 1;
/// How many tools of a group are remembered, and how many changed ones. In a pinned group every other tool is refused.
const MAX_TOOLS: usize = 1000;
/// How many definitions of a tool stay approved beside the one that was approved last.
const MAX_EARLIER: usize = 9;
/// The longest name of a tool that is remembered, in bytes.
const MAX_NAME: usize = 256;

/// A tool of a server's catalog, as it was seen.
pub type SeenTool = (String, PinnedTool);

/// What is remembered of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    /// The version of the file format, `VERSION`.
    pub version: u32,
    /// The config file.
    pub config: String,
    /// The group's name, for people who read this file.
    group: String,
    /// A hash of the program or the address that the config names.
    server: String,
    /// When the config named another program or address than before, in seconds since 1970. Its tools were trusted as
    /// they were then. `None` if that has never happened, or was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_s: Option<u64>,
    /// The tools as they were first seen or approved last.
    approved: BTreeMap<String, PinnedTool>,
    /// Definitions that were approved before those, oldest first. They stay approved, because a server may list others
    /// for another client or directory. Records of earlier versions of this program lack it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    earlier: BTreeMap<String, Vec<DefinitionDigest>>,
    /// The tools that were seen to differ from the approved ones, as they were seen last.
    changed: BTreeMap<String, PinnedTool>,
}

/// Identifies the group and server of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinTarget {
    /// The config file.
    pub config: String,
    /// The group's name.
    pub group: String,
    /// A hash of the program or the address that the config names.
    pub server: String,
}

/// How one tool differs from what was first seen or approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange {
    /// The parts that changed; `new` for a new tool.
    pub parts: Vec<String>,
    /// Identifies the definition as it is now.
    digest: DefinitionDigest,
}

/// A tool that was approved.
#[derive(Debug, PartialEq, Eq)]
pub struct ApprovedTool {
    /// The tool's name.
    pub name: String,
    /// The parts that changed; `new` for a new tool.
    pub parts: Vec<String>,
    /// The description before; `None` for a new tool.
    pub old: Option<String>,
    /// The description that is approved.
    pub new: String,
}

/// Why nothing was approved.
#[derive(Debug, PartialEq, Eq)]
pub enum NotApproved {
    /// No tool of the group differs.
    NothingChanged,
    /// The tool does not differ.
    ToolNotChanged,
    /// The tool has never been seen. These have changed.
    UnknownTool(Vec<String>),
}

impl PinRecord {
    /// Returns the record after these tools were seen. The first tools that are ever seen of a server are trusted. Later,
    /// a tool that differs counts as changed. So does a new tool if the group is `pinned`; otherwise it is trusted as it
    /// is now. Returns `None` if no tool has ever been seen.
    pub fn observe(
        previous: Option<Self>,
        target: &PinTarget,
        seen: &[SeenTool],
        pinned: bool,
        now_s: u64,
    ) -> Option<Self> {
        let is_replaced = previous.as_ref().is_some_and(|record| record.server != target.server);
        let Some(mut record) = previous.filter(|_| !is_replaced) else {
            let approved: BTreeMap<_, _> =
                seen.iter().filter(|(name, _)| fits(name)).take(MAX_TOOLS).cloned().collect();
            let replaced_s = is_replaced.then_some(now_s);
            return (!approved.is_empty()).then(|| Self {
                version: VERSION,
                config: target.config.clone(),
                group: target.group.clone(),
                server: target.server.clone(),
                replaced_s,
                approved,
                earlier: BTreeMap::new(),
                changed: BTreeMap::new(),
            });
        };
        for (name, tool) in seen.iter().filter(|(name, _)| fits(name)) {
            if record.accepts(name, &tool.digest, pinned) {
                record.changed.remove(name);
                if !record.approved.contains_key(name) && record.approved.len() < MAX_TOOLS {
                    record.approved.insert(name.clone(), tool.clone());
                }
            } else {
                record.changed.insert(name.clone(), tool.clone());
            }
        }
        record.forget_surplus(seen);
        Some(record)
    }

    /// Returns whether a tool may be used with this definition: it was first seen with it or approved, or it is a new tool
    /// of a group that is not `pinned`.
    pub fn accepts(&self, name: &str, digest: &DefinitionDigest, pinned: bool) -> bool {
        let Some(approved) = self.approved.get(name) else { return !pinned };
        approved.digest == *digest || self.earlier.get(name).is_some_and(|earlier| earlier.contains(digest))
    }

    /// Returns whether nothing is left to approve of one of these tools, although it is not accepted: what was to be
    /// approved was the definition that another client is shown.
    pub fn lacks_one_of(&self, tools: &[SeenTool], pinned: bool) -> bool {
        self.changed.len() < MAX_TOOLS
            && tools.iter().any(|(name, tool)| {
                fits(name) && !self.changed.contains_key(name) && !self.accepts(name, &tool.digest, pinned)
            })
    }

    /// Forgets changed tools beyond the bound: first those that were not just seen.
    fn forget_surplus(&mut self, seen: &[SeenTool]) {
        if self.changed.len() > MAX_TOOLS {
            let seen: HashSet<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
            self.changed.retain(|name, _| seen.contains(name.as_str()));
        }
        while self.changed.len() > MAX_TOOLS {
            self.changed.pop_last();
        }
    }

    /// Returns whether all of these tools are as they were first seen or approved.
    pub fn has_all(&self, target: &PinTarget, seen: &[(String, DefinitionDigest)]) -> bool {
        let is_approved = |(name, digest): &(String, DefinitionDigest)| {
            !self.changed.contains_key(name) && self.accepts(name, digest, true)
        };
        self.is_about(target) && seen.iter().all(is_approved)
    }

    /// The names of the tools, sorted.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        let new = self.changed.keys().filter(|tool| !self.approved.contains_key(*tool));
        self.approved.keys().chain(new).map(String::as_str)
    }

    /// Returns whether the record is about the server that the config names now.
    pub fn is_about(&self, target: &PinTarget) -> bool {
        self.server == target.server
    }

    /// Returns the differences of these tools, by name.
    pub fn changes<'t>(
        &self,
        seen: impl Iterator<Item = (&'t str, &'t DefinitionDigest)>,
        pinned: bool,
    ) -> BTreeMap<String, ToolChange> {
        seen.filter_map(|(name, digest)| {
            if self.accepts(name, digest, pinned) {
                return None;
            }
            let changed = self.changed.get(name).filter(|changed| changed.digest == *digest);
            let parts = changed_parts(self.approved.get(name), changed);
            Some((name.to_owned(), ToolChange { parts, digest: digest.clone() }))
        })
        .collect()
    }

    /// Approves the changed tools as they were seen last, or one of them.
    ///
    /// # Errors
    ///
    /// There is nothing to approve.
    pub fn approve(&mut self, tool: Option<&str>) -> Result<Vec<ApprovedTool>, NotApproved> {
        let names: Vec<String> = match tool {
            Some(tool) if self.changed.contains_key(tool) => vec![tool.to_owned()],
            Some(tool) if self.approved.contains_key(tool) => return Err(NotApproved::ToolNotChanged),
            Some(_) => return Err(NotApproved::UnknownTool(self.changed.keys().cloned().collect())),
            None if self.changed.is_empty() && self.replaced_s.is_none() => {
                return Err(NotApproved::NothingChanged);
            }
            None => self.changed.keys().cloned().collect(),
        };
        if tool.is_none() {
            self.replaced_s = None;
        }
        let mut approved = Vec::new();
        for name in names {
            let Some(new) = self.changed.remove(&name) else { continue };
            let old = self.approved.insert(name.clone(), new.clone());
            if let Some(old) = &old {
                let earlier = self.earlier.entry(name.clone()).or_default();
                earlier.push(old.digest.clone());
                if earlier.len() > MAX_EARLIER {
                    earlier.remove(0);
                }
            }
            approved.push(ApprovedTool {
                parts: changed_parts(old.as_ref(), Some(&new)),
                name,
                old: old.map(|old| old.description),
                new: new.description,
            });
        }
        Ok(approved)
    }
}

/// Names the parts of a tool that changed; `definition` if they are not known.
fn changed_parts(approved: Option<&PinnedTool>, now: Option<&PinnedTool>) -> Vec<String> {
    let parts = match (approved, now) {
        (None, _) => vec!["new".to_owned()],
        (Some(approved), Some(now)) => now.differences(approved),
        (Some(_), None) => Vec::new(),
    };
    if parts.is_empty() { vec!["definition".to_owned()] } else { parts }
}

/// Returns whether a name is short enough to be remembered.
fn fits(name: &str) -> bool {
    name.len() <= MAX_NAME
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Raw;

    fn target(server: &str) -> PinTarget {
        PinTarget { config: "/c.json".into(), group: "g".into(), server: server.into() }
    }

    fn seen(tools: &[(&str, &str)]) -> Vec<SeenTool> {
        let pinned = |(name, description): &(&str, &str)| {
            let json = serde_json::json!({ "name": name, "description": description }).to_string();
            let definition = Raw::from(json);
            ((*name).to_owned(), PinnedTool::new(DefinitionDigest::of(&definition), &definition))
        };
        tools.iter().map(pinned).collect()
    }

    fn observe(record: Option<PinRecord>, tools: &[(&str, &str)], pinned: bool) -> PinRecord {
        PinRecord::observe(record, &target("s"), &seen(tools), pinned, 0).unwrap()
    }

    /// The names and changed parts of these tools.
    fn changes(record: &PinRecord, tools: &[(&str, &str)], pinned: bool) -> Vec<(String, String)> {
        let seen = seen(tools);
        let tools = seen.iter().map(|(name, tool)| (name.as_str(), &tool.digest));
        let changes = record.changes(tools, pinned);
        changes.into_iter().map(|(name, change)| (name, change.parts.join(", "))).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn the_first_tools_are_trusted_and_later_ones_are_compared() {
        let first = observe(None, &[("a", "1"), ("b", "1")], true);
        assert!(changes(&first, &[("a", "1")], true).is_empty());
        let now = [("a", "2"), ("b", "1"), ("c", "1")];
        let pinned = observe(Some(first.clone()), &now, true);
        assert_eq!(changes(&pinned, &now, true), pairs(&[("a", "description"), ("c", "new")]));
        let open = observe(Some(first.clone()), &now, false);
        assert_eq!(changes(&open, &now, false), pairs(&[("a", "description")]));
        assert!(changes(&open, &[("c", "1")], true).is_empty(), "it is known when the group is pinned later");
        let back = observe(Some(pinned), &[("a", "1"), ("b", "1")], true);
        assert_eq!(back, observe(Some(first), &[("c", "1")], true), "c may come back");
    }

    #[test]
    fn a_tool_that_was_removed_is_compared_when_it_comes_back() {
        let first = observe(None, &[("a", "1"), ("b", "1")], false);
        let without = observe(Some(first), &[("a", "1")], false);
        let back = observe(Some(without), &[("b", "2")], false);
        assert_eq!(changes(&back, &[("b", "2")], false), pairs(&[("b", "description")]));
    }

    #[test]
    fn another_program_is_another_server() {
        let first = observe(None, &[("a", "1")], true);
        let other = PinRecord::observe(Some(first), &target("t"), &seen(&[("a", "2")]), true, 7).unwrap();
        assert!(changes(&other, &[("a", "2")], true).is_empty());
        assert_eq!(other.replaced_s, Some(7));
        let mut approved = other;
        assert_eq!(approved.approve(None), Ok(Vec::new()));
        assert_eq!(approved.replaced_s, None);
    }

    #[test]
    fn only_what_was_seen_is_approved() {
        let first = observe(None, &[("a", "1"), ("b", "1")], true);
        let mut record = observe(Some(first), &[("a", "2"), ("b", "2"), ("c", "1")], true);
        assert_eq!(
            record.approve(Some("x")),
            Err(NotApproved::UnknownTool(["a", "b", "c"].map(str::to_owned).into()))
        );
        let approved = record.approve(Some("a")).unwrap();
        let expected = ApprovedTool {
            name: "a".into(),
            parts: vec!["description".into()],
            old: Some("1".into()),
            new: "2".into(),
        };
        assert_eq!(approved, [expected]);
        assert_eq!(record.approve(Some("a")), Err(NotApproved::ToolNotChanged));
        assert_eq!(changes(&record, &[("a", "3")], true), pairs(&[("a", "definition")]), "changed once more");
        assert_eq!(record.approve(None).unwrap().len(), 2);
        assert_eq!(record.approve(None), Err(NotApproved::NothingChanged));
        assert!(changes(&record, &[("a", "2"), ("b", "2"), ("c", "1")], true).is_empty());
    }

    #[test]
    fn what_was_approved_stays_approved_within_the_bound() {
        let text = |n: usize| n.to_string();
        let mut record = observe(None, &[("a", &text(0)), ("b", "1")], true);
        for n in 1..=MAX_EARLIER + 1 {
            record = observe(Some(record), &[("a", &text(n))], true);
            assert_eq!(changes(&record, &[("a", &text(n))], true).len(), 1, "it was never approved");
            record.approve(None).unwrap();
        }
        for n in 1..=MAX_EARLIER + 1 {
            record = observe(Some(record), &[("a", &text(n))], true);
            assert!(changes(&record, &[("a", &text(n))], true).is_empty(), "{n}");
        }
        assert_eq!(record.approve(None), Err(NotApproved::NothingChanged));
        record = observe(Some(record), &[("a", &text(0))], true);
        assert_eq!(changes(&record, &[("a", &text(0))], true), pairs(&[("a", "description")]), "the oldest");
        let other = PinRecord::observe(Some(record), &target("t"), &seen(&[("a", "x")]), true, 7).unwrap();
        assert_eq!(changes(&other, &[("a", "1")], true).len(), 1, "of another server nothing is approved");
    }

    #[test]
    fn a_record_of_an_earlier_version_is_read_and_stays_as_it_is_until_something_is_approved() {
        let record = observe(Some(observe(None, &[("a", "1")], true)), &[("a", "2")], true);
        let json = serde_json::to_value(&record).unwrap();
        assert!(json.get("earlier").is_none(), "{json}");
        let mut read: PinRecord = serde_json::from_value(json).unwrap();
        assert_eq!(read, record);
        read.approve(None).unwrap();
        let written = serde_json::to_string(&read).unwrap();
        let read: PinRecord = serde_json::from_str(&written).unwrap();
        assert!(changes(&read, &[("a", "1")], true).is_empty(), "{written}");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_rest_of_a_pinned_group_is_refused() {
        let names: Vec<String> = (0..MAX_TOOLS + 10).map(|n| format!("t{n:05}")).collect();
        let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let first = observe(None, &tools, true);
        assert_eq!(first.approved.len(), MAX_TOOLS);
        assert_eq!(changes(&first, &tools, true).len(), 10);
        let changed: Vec<_> = names.iter().map(|name| (name.as_str(), "2")).collect();
        let record = observe(Some(first), &changed, true);
        assert_eq!(record.changed.len(), MAX_TOOLS);
        assert_eq!(changes(&record, &changed, true).len(), names.len());
        let long = "x".repeat(MAX_NAME + 1);
        let record = observe(Some(record), &[(&long, "1")], true);
        assert_eq!(changes(&record, &[(&long, "1")], true), pairs(&[(&long, "new")]));
        assert_eq!(PinRecord::observe(None, &target("s"), &[], true, 0), None, "nothing was seen");
    }
}
