//! The registry: all that this instance has of its groups, one entry for each.
//!
//! An entry lives from when the config names the group until the config has it no more and its task has ended. What
//! belongs to one task and must not outlive it, such as a login that the task waits for, is in the task's handle.
//!
//! The registry also decides when the findings of start-up discovery enter `tools/list`. Pure: events and time in.

use super::surface::{GroupListing, Note, Surface};
use crate::catalog::Catalog;
use crate::handle::Upstream;
use crate::pins::group::GroupPins;
use config::{GroupName, Mode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When the findings of discovery first enter the list. They also enter it after each further `NEXT_TICK`, and at the
/// end of the discovery.
const FIRST_TICK: Duration = Duration::from_secs(10);
/// The interval between the later moments.
const NEXT_TICK: Duration = Duration::from_secs(30);

/// The groups of an instance.
#[derive(Default)]
pub(super) struct GroupRegistry {
    /// The entries by name. Each call finds one, and a start with many groups finds each several times.
    entries: foldhash::HashMap<GroupName, GroupEntry>,
    /// How far the groups are.
    pub(super) stage: RegistryStage,
    /// When the findings of the discovery in progress enter the list next; `None` if none is in progress.
    next_tick: Option<Instant>,
}

/// How far the groups of an instance are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RegistryStage {
    /// No client has connected.
    #[default]
    NoClient,
    /// A client has connected, and what the cache has is listed.
    Restored,
    /// The groups have tasks.
    Started,
}

/// What the cache has of a server.
pub(super) struct RestoredGroup {
    /// Why it could not be used at the last run.
    pub(super) note: Option<Note>,
    /// Its catalog, and what the list shows of that.
    pub(super) catalog: Option<(Arc<Catalog>, Surface)>,
}

/// What an instance has of one group.
#[derive(Default)]
pub(super) struct GroupEntry {
    /// The handle of its task; `None` before the groups are started.
    pub(super) handle: Option<Upstream>,
    /// Whether the config no longer has it, and its task has not ended.
    pub(super) is_retired: bool,
    /// What is remembered of its tools; `None` if its entry in the config is invalid or the record was not read yet.
    pub(super) pins: Option<Arc<GroupPins>>,
    /// The catalog that the cache has, until the group is started with it.
    pub(super) restored: Option<Arc<Catalog>>,
    /// What `tools/list` has of it.
    pub(super) listing: GroupListing,
}

impl GroupRegistry {
    /// Returns the group of exactly this name, if its task was started and the config has it.
    pub(super) fn get(&self, name: &str) -> Option<Upstream> {
        self.entries.get(name).filter(|entry| !entry.is_retired)?.handle.clone()
    }

    /// Returns the entry of a group. Makes an empty one if there is none.
    pub(super) fn entry(&mut self, name: &GroupName) -> &mut GroupEntry {
        self.entries.entry(name.clone()).or_default()
    }

    /// Returns the entry of this task, unless it is that of a later task.
    pub(super) fn entry_of(&mut self, group: &Upstream) -> Option<&mut GroupEntry> {
        let entry = self.entries.get_mut(&group.name)?;
        entry.handle.as_ref().is_some_and(|handle| handle.is_same(group)).then_some(entry)
    }

    /// Keeps a group that the config no longer has until its task has ended. Returns its handle.
    pub(super) fn retire(&mut self, name: &GroupName) -> Option<Upstream> {
        self.unlist(name);
        let entry = self.entry(name);
        (entry.is_retired, entry.pins) = (true, None);
        let group = entry.handle.clone();
        if group.as_ref().is_none_or(Upstream::has_ended) {
            self.entries.remove(name);
        }
        group
    }

    /// Removes the group of a task that has ended, if the config no longer has it.
    pub(super) fn forget(&mut self, group: &Upstream) {
        if self.entry_of(group).is_some_and(|entry| entry.is_retired) {
            self.entries.remove(&group.name);
        }
    }

    /// What is remembered of the tools of all groups.
    pub(super) fn pins(&self) -> Vec<Arc<GroupPins>> {
        self.entries.values().filter_map(|entry| entry.pins.clone()).collect()
    }

    /// The surfaces that the list shows.
    pub(super) fn surfaces(&self) -> BTreeMap<GroupName, Arc<Surface>> {
        let shown =
            |(name, entry): (&GroupName, &GroupEntry)| Some((name.clone(), entry.listing.shown.clone()?));
        self.entries.iter().filter_map(shown).collect()
    }

    /// The groups that cannot be used, as the list shows them.
    pub(super) fn notes(&self) -> BTreeMap<GroupName, Note> {
        let note =
            |(name, entry): (&GroupName, &GroupEntry)| Some((name.clone(), entry.listing.note.clone()?));
        self.entries.iter().filter_map(note).collect()
    }

    /// Lists what the cache has of a group. Returns its catalog.
    pub(super) fn list_restored(
        &mut self,
        name: &GroupName,
        restored: RestoredGroup,
    ) -> Option<Arc<Catalog>> {
        let listing = &mut self.entry(name).listing;
        listing.note = listing.note.take().or(restored.note);
        let (catalog, surface) = restored.catalog?;
        listing.shown = Some(Arc::new(surface));
        Some(catalog)
    }

    /// Forgets what the list has of all groups.
    pub(super) fn unlist_all(&mut self) {
        self.listings().for_each(|listing| *listing = GroupListing::default());
        self.next_tick = None;
    }

    /// Returns whether discovery waits for a group.
    pub(super) fn is_expected(&self, group: &GroupName) -> bool {
        self.entries.get(group).is_some_and(|entry| entry.listing.is_expected)
    }

    /// Returns whether discovery is in progress.
    pub(super) fn is_discovering(&self) -> bool {
        self.next_tick.is_some()
    }

    /// Starts discovery, or adds groups to it: they connect for their catalog, at start or because a reload added them.
    pub(super) fn start_discovery(&mut self, groups: impl IntoIterator<Item = GroupName>, now: Instant) {
        for group in groups {
            let listing = &mut self.entry(&group).listing;
            (listing.is_member, listing.is_expected) = (true, true);
            self.next_tick.get_or_insert(now + FIRST_TICK);
        }
    }

    /// Handles a catalog that was read in this process. Returns whether the list changes now.
    pub(super) fn catalog_read(&mut self, group: &GroupName, mode: Mode, surface: Surface) -> bool {
        let is_discovering = self.is_discovering();
        self.entry(group).listing.catalog_read(mode, surface, is_discovering)
    }

    /// Handles the end of a group's attempt. `note`: why the attempt failed; `None` if it succeeded. After discovery a
    /// failure changes nothing, because the list must not depend on calls. Returns whether the list changes now, or
    /// discovery is over.
    pub(super) fn attempt_ended(&mut self, group: &GroupName, note: Option<Note>) -> bool {
        if !self.is_discovering() {
            return false;
        }
        self.entry(group).listing.attempt_ended(note);
        if self.listings().any(|listing| listing.is_expected) {
            return false;
        }
        self.next_tick = None;
        self.show_found();
        self.listings().for_each(|listing| listing.is_member = false);
        true
    }

    /// Removes a group from the list because the config removed or changed it. Returns whether the list changes now.
    pub(super) fn unlist(&mut self, group: &GroupName) -> bool {
        let listing = std::mem::take(&mut self.entry(group).listing);
        let is_shown = listing.shown.is_some() || listing.note.is_some();
        self.attempt_ended(group, None) || is_shown
    }

    /// When `tick` is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next_tick
    }

    /// Shows what discovery found so far, if that is due. Returns whether the list changes now.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let is_due = self.next_tick.is_some_and(|at| at <= now);
        if is_due {
            self.next_tick = Some(now + NEXT_TICK);
        }
        is_due && self.show_found()
    }

    /// Shows what discovery found so far. Returns whether the list changes now.
    pub(super) fn show_found(&mut self) -> bool {
        let mut changed = false;
        self.listings().for_each(|listing| changed |= listing.show_found());
        changed
    }

    fn listings(&mut self) -> impl Iterator<Item = &mut GroupListing> {
        self.entries.values_mut().map(|entry| &mut entry.listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_name(group: &str) -> GroupName {
        GroupName::new(group)
    }

    fn surface(tools: &[&str]) -> Surface {
        Surface { about: None, instructions: None, tools: tools.iter().map(ToString::to_string).collect() }
    }

    #[tokio::test(start_paused = true)]
    async fn findings_enter_the_list_after_ten_seconds_then_every_thirty_and_at_the_end() {
        let start = Instant::now();
        let mut registry = GroupRegistry::default();
        registry.start_discovery(["a", "b", "c"].map(group_name), start);
        assert!(!registry.catalog_read(&group_name("a"), Mode::Hybrid, surface(&["x"])));
        assert!(!registry.attempt_ended(&group_name("a"), None));
        assert_eq!(registry.deadline(), Some(start + FIRST_TICK));
        assert!(registry.tick(start + FIRST_TICK));
        assert_eq!(registry.surfaces().len(), 1);
        assert!(!registry.catalog_read(&group_name("b"), Mode::Eager, surface(&["y"])));
        assert!(!registry.attempt_ended(&group_name("b"), None));
        assert_eq!(registry.deadline(), Some(start + FIRST_TICK + NEXT_TICK));
        assert!(!registry.tick(start + FIRST_TICK + NEXT_TICK / 2), "the bytes stay equal in between");
        assert!(registry.attempt_ended(&group_name("c"), None), "the end of discovery shows the rest");
        assert_eq!((registry.surfaces().len(), registry.is_discovering()), (2, false));
        // The group failed during discovery and enters at its first success.
        assert!(registry.catalog_read(&group_name("c"), Mode::Hybrid, surface(&["z"])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pure_group_enters_the_list_at_the_next_start_and_then_follows_its_upstream() {
        let mut registry = GroupRegistry::default();
        assert!(!registry.catalog_read(&group_name("p"), Mode::Pure, surface(&["x"])));
        assert!(registry.surfaces().is_empty());
        let mut next = GroupRegistry::default();
        next.entry(&group_name("p")).listing.shown = Some(Arc::new(surface(&["x"])));
        assert!(!next.catalog_read(&group_name("p"), Mode::Pure, surface(&["x"])));
        assert!(next.catalog_read(&group_name("p"), Mode::Pure, surface(&["x", "y"])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_is_denied_after_it_was_found_does_not_enter_the_list() {
        let mut registry = GroupRegistry::default();
        registry.start_discovery(["a", "b"].map(group_name), Instant::now());
        registry.catalog_read(&group_name("a"), Mode::Hybrid, surface(&["x", "y"]));
        registry.entry(&group_name("a")).listing.replace(surface(&["x"]), false);
        registry.entry(&group_name("b")).listing.replace(surface(&["z"]), false);
        assert!(registry.tick(Instant::now() + FIRST_TICK));
        assert_eq!(registry.surfaces().values().map(|s| s.tools.len()).collect::<Vec<_>>(), [1]);
        registry.entry(&group_name("a")).listing.replace(surface(&[]), false);
        assert_eq!(registry.surfaces()[&group_name("a")].tools.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_group_is_not_shown_and_not_waited_for() {
        let mut registry = GroupRegistry::default();
        registry.entry(&group_name("a")).listing.shown = Some(Arc::new(surface(&["x"])));
        registry.start_discovery(["b"].map(group_name), Instant::now());
        assert!(registry.unlist(&group_name("a")));
        assert!(registry.unlist(&group_name("b")), "its discovery is over");
        assert!(!registry.is_discovering());
    }

    #[tokio::test(start_paused = true)]
    async fn notes_change_only_when_the_findings_of_discovery_enter_the_list() {
        let start = Instant::now();
        let note = |reason: &'static str| Some(Note::new(reason.into()));
        let shown = |registry: &GroupRegistry| -> Vec<String> {
            registry.notes().iter().map(|(group, note)| format!("{group} is {note}")).collect()
        };
        let mut registry = GroupRegistry::default();
        for group in ["a", "b"] {
            let last = Note { is_of_last_run: true, ..Note::new("login needed".into()) };
            registry.entry(&group_name(group)).listing.note = Some(last);
        }
        let before =
            ["a", "b"].map(|group| format!("{group} is not available as of the last run: login needed"));
        registry.start_discovery(["a", "b", "c"].map(group_name), start);
        registry.catalog_read(&group_name("a"), Mode::Hybrid, surface(&["x"]));
        registry.attempt_ended(&group_name("a"), None);
        registry.attempt_ended(&group_name("b"), note("it does not answer"));
        registry.attempt_ended(&group_name("pure"), note("it does not answer"));
        assert_eq!(shown(&registry), before);
        assert!(registry.tick(start + FIRST_TICK));
        assert_eq!(shown(&registry), ["b is not available: it does not answer"]);
        assert!(registry.attempt_ended(&group_name("c"), note("its process ends")));
        let last = ["b is not available: it does not answer", "c is not available: its process ends"];
        assert_eq!(shown(&registry), last);
        // Discovery is over.
        assert!(!registry.attempt_ended(&group_name("a"), note("its process ends")));
        assert!(!registry.attempt_ended(&group_name("c"), None));
        assert_eq!(shown(&registry), last);
        // A group that enters the list late works.
        assert!(registry.catalog_read(&group_name("c"), Mode::Hybrid, surface(&["x"])));
        assert_eq!(shown(&registry), last[..1]);
        // So does one whose tools were known from the cache.
        registry.entry(&group_name("b")).listing.shown = Some(Arc::new(surface(&["x"])));
        assert!(registry.catalog_read(&group_name("b"), Mode::Hybrid, surface(&["x"])));
        assert!(shown(&registry).is_empty());
        registry.entry(&group_name("b")).listing.note = Some(Note::new("login needed".into()));
        assert!(registry.unlist(&group_name("b")));
        assert!(shown(&registry).is_empty());
    }
}
