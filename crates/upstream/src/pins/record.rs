//! What is remembered of one group, and how it changes. Pure: observations, approvals and the time in.

use super::definition::{DefinitionDigest, PinnedTool};
use super::varying::{self, VaryingMembers};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The version of the file format.
pub const VERSION: u32 = 1;
/// How many tools of a group are remembered, and how many changed ones. In a pinned group every other tool is refused.
const MAX_TOOLS: usize = 1000;
/// How many definitions of a tool stay approved beside the one that was approved last.
const MAX_EARLIER: usize = 9;
/// How many definitions stay approved of a tool with varying members. Each process of the server may have another one.
const MAX_VARIANTS: usize = 100;
/// The longest name of a tool that is remembered, in bytes.
const MAX_NAME: usize = 256;

/// A tool of a server's catalog, as it was seen.
pub(crate) type SeenTool = (String, PinnedTool);

/// What is remembered of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinRecord {
    /// The version of the file format, `VERSION`.
    pub version: u32,
    /// The config file.
    pub config: String,
    /// The group's name, for people who read this file.
    group: String,
    /// A hash of the program or the address that the config names.
    server: String,
    /// When the config named another program or address than before, in seconds since 1970. The tools of that server
    /// were trusted as they were first seen. `None` if that has never happened, or was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_s: Option<u64>,
    /// The tools as they were first seen or approved last.
    approved: BTreeMap<String, PinnedTool>,
    /// Definitions that were approved before those, oldest first. They stay approved, because a server may list others
    /// for another client or directory. Records of earlier versions of this program lack it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    earlier: BTreeMap<String, Vec<DefinitionDigest>>,
    /// The members of tools that were approved as varying.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    varying: BTreeMap<String, VaryingMembers>,
    /// The tools that were seen to differ from the approved ones, as they were seen last.
    changed: BTreeMap<String, PinnedTool>,
}

/// Identifies the group and server of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinTarget {
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
    /// Whether the difference can be approved as varying.
    pub may_vary: bool,
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
    /// The members that were approved as varying.
    pub varying: VaryingMembers,
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
    /// The difference of this tool cannot be approved as varying, and why.
    NotVarying(String, String),
}

impl PinRecord {
    /// The record without the details of its tools, by which a change is named. What is approved stays approved.
    pub(super) fn without_details(mut self) -> Self {
        let tools = self.approved.values_mut().chain(self.changed.values_mut());
        tools.for_each(|tool| tool.details = None);
        self
    }

    /// A record of no tools.
    pub(super) fn empty(target: &PinTarget) -> Self {
        Self {
            version: VERSION,
            config: target.config.clone(),
            group: target.group.clone(),
            server: target.server.clone(),
            replaced_s: None,
            approved: BTreeMap::new(),
            earlier: BTreeMap::new(),
            varying: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Returns the record after these tools were seen. The first tools that are ever seen of a server are trusted.
    /// Later, a tool that differs counts as changed. So does a new tool if the group is `pinned`; otherwise it is
    /// trusted as it is now. Tools beyond `MAX_TOOLS`, or with a name of more than `MAX_NAME` bytes, are not
    /// remembered. Returns `None` if no tool has ever been seen.
    pub(crate) fn observe(
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
            return (!approved.is_empty()).then(|| Self { replaced_s, approved, ..Self::empty(target) });
        };
        for (name, tool) in seen.iter().filter(|(name, _)| fits(name)) {
            record.accept_varying(name, tool);
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

    /// Returns whether a tool may be used with this definition: it was first seen with it or approved, or it is a new
    /// tool of a group that is not `pinned`.
    pub(crate) fn accepts(&self, name: &str, digest: &DefinitionDigest, pinned: bool) -> bool {
        let Some(approved) = self.approved.get(name) else { return !pinned };
        approved.digest == *digest || self.earlier.get(name).is_some_and(|earlier| earlier.contains(digest))
    }

    /// Accepts a definition that differs from the approved one only in what was approved as varying.
    fn accept_varying(&mut self, name: &str, tool: &PinnedTool) {
        let Some((varying, approved)) = self.varying.get(name).zip(self.approved.get(name)) else { return };
        if !self.accepts(name, &tool.digest, true) && varying::explains(varying, approved, tool) {
            self.keep_approved(name, tool.digest.clone(), MAX_VARIANTS);
        }
    }

    /// Keeps a definition approved beside the one that was approved last. Forgets the oldest one beyond `max`.
    fn keep_approved(&mut self, name: &str, digest: DefinitionDigest, max: usize) {
        let earlier = self.earlier.entry(name.to_owned()).or_default();
        earlier.push(digest);
        if earlier.len() > max {
            earlier.remove(0);
        }
    }

    /// Returns whether nothing is left to approve of one of these tools, although it is not accepted: what was to be
    /// approved was the definition that another client is shown.
    pub(crate) fn lacks_one_of(&self, tools: &[SeenTool], pinned: bool) -> bool {
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
        for _ in 0..self.changed.len().saturating_sub(MAX_TOOLS) {
            self.changed.pop_last();
        }
    }

    /// Returns whether all of these tools are as they were first seen or approved.
    pub(crate) fn has_all(&self, target: &PinTarget, seen: &[(String, DefinitionDigest)]) -> bool {
        let is_approved = |(name, digest): &(String, DefinitionDigest)| {
            !self.changed.contains_key(name) && self.accepts(name, digest, true)
        };
        self.is_about(target) && seen.iter().all(is_approved)
    }

    /// The changed tools, with the parts that changed.
    pub(crate) fn changed_tools(&self) -> HashSet<(String, Vec<String>)> {
        let parts = |(name, now)| (String::clone(name), changed_parts(self.approved.get(name), Some(now)));
        self.changed.iter().map(parts).collect()
    }

    /// The names of the tools.
    pub(crate) fn tool_names(&self) -> BTreeSet<String> {
        self.approved.keys().chain(self.changed.keys()).cloned().collect()
    }

    /// Returns whether the record is about the server that the config names now.
    pub(crate) fn is_about(&self, target: &PinTarget) -> bool {
        self.server == target.server
    }

    /// Returns the differences of these tools, by name.
    pub(crate) fn changes<'t>(
        &self,
        seen: impl Iterator<Item = (&'t str, &'t DefinitionDigest)>,
        pinned: bool,
    ) -> BTreeMap<String, ToolChange> {
        seen.filter_map(|(name, digest)| {
            if self.accepts(name, digest, pinned) {
                return None;
            }
            let changed = self.changed.get(name).filter(|changed| changed.digest == *digest);
            let approved = self.approved.get(name);
            let parts = changed_parts(approved, changed);
            let may_vary =
                approved.zip(changed).is_some_and(|(old, new)| varying::of_difference(old, new).is_ok());
            Some((name.to_owned(), ToolChange { parts, may_vary, digest: digest.clone() }))
        })
        .collect()
    }

    /// Approves the changed tools as they were seen last, or one of them. `varying`: the members that differ may differ
    /// again.
    ///
    /// # Errors
    ///
    /// There is nothing to approve, or not as varying. Nothing is approved then.
    pub(crate) fn approve(
        &mut self,
        tool: Option<&str>,
        varying: bool,
    ) -> Result<Vec<ApprovedTool>, NotApproved> {
        let names: Vec<String> = match tool {
            Some(tool) if self.changed.contains_key(tool) => vec![tool.to_owned()],
            Some(tool) if self.approved.contains_key(tool) => return Err(NotApproved::ToolNotChanged),
            Some(_) => return Err(NotApproved::UnknownTool(self.changed.keys().cloned().collect())),
            None if self.changed.is_empty() && self.replaced_s.is_none() => {
                return Err(NotApproved::NothingChanged);
            }
            None => self.changed.keys().cloned().collect(),
        };
        let members = |name: String| Ok((self.varying_members(&name, varying)?, name));
        let tools = names.into_iter().map(members).collect::<Result<Vec<_>, _>>()?;
        if tool.is_none() {
            self.replaced_s = None;
        }
        Ok(tools.into_iter().filter_map(|(varying, name)| self.approve_tool(name, varying)).collect())
    }

    /// The members in which a changed tool differs, if they are to be approved as varying; none unless `varying`.
    ///
    /// # Errors
    ///
    /// `NotVarying` if the tool is new, or if its difference cannot be approved as varying.
    fn varying_members(&self, name: &str, varying: bool) -> Result<VaryingMembers, NotApproved> {
        if !varying {
            return Ok(VaryingMembers::new());
        }
        let not_varying = |why: String| NotApproved::NotVarying(name.to_owned(), why);
        let tools = self.approved.get(name).zip(self.changed.get(name));
        let (approved, changed) =
            tools.ok_or_else(|| not_varying("it is new; approve it without --varying".to_owned()))?;
        varying::of_difference(approved, changed).map_err(not_varying)
    }

    /// Approves a changed tool as it was seen last. `None` if it has not changed.
    fn approve_tool(&mut self, name: String, varying: VaryingMembers) -> Option<ApprovedTool> {
        let new = self.changed.remove(&name)?;
        let old = self.approved.insert(name.clone(), new.clone());
        if !varying.is_empty() {
            let known = self.varying.entry(name.clone()).or_default();
            for (path, how) in &varying {
                let known = known.entry(path.clone()).or_insert(*how);
                // A member that was approved with any value is not compared more strictly again.
                *known = (*known).max(*how);
            }
        }
        if let Some(old) = &old {
            let max = if self.varying.contains_key(&name) { MAX_VARIANTS } else { MAX_EARLIER };
            self.keep_approved(&name, old.digest.clone(), max);
        }
        Some(ApprovedTool {
            parts: changed_parts(old.as_ref(), Some(&new)),
            name,
            old: old.map(|old| old.description),
            new: new.description,
            varying,
        })
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
mod tests;
