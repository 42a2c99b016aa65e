//! What `tools/list` shows of each group (its *surface*), and when that may change. Pure: events and time in.
//!
//! Clients cache prompts by the bytes of the list, so the bytes change as rarely as possible, and never because of a
//! call. The surface of a group comes from the cache or from start-up discovery. The findings of discovery enter the
//! list together, at few moments. Later, a surface changes only when the tools of the server change.

use crate::catalog::Catalog;
use crate::pins::changes::RefusedTools;
use config::tool_rules::Rules;
use config::{GroupName, Mode};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When the findings of discovery first enter the list. They also enter it after each further `NEXT_TICK`, and at the
/// end of the discovery.
const FIRST_TICK: Duration = Duration::from_secs(10);
/// The interval between the later moments.
const NEXT_TICK: Duration = Duration::from_secs(30);

/// What the list shows of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surface {
    /// The upstream's title, or its instructions. They describe a group without a description in the config.
    pub about: Option<String>,
    /// The names of the tools that models can call.
    pub tools: Vec<String>,
}

impl Surface {
    /// Makes the surface of a group with this catalog and these rules. Leaves out refused tools, because even the name
    /// of a changed tool may mislead a model.
    pub fn of(catalog: &Catalog, rules: &Rules, refused: &RefusedTools) -> Self {
        let info = &catalog.info;
        let names = catalog.tools.iter().filter(|tool| !tool.app_only).map(|tool| &tool.name);
        let tools = names.filter(|name| rules.allows(name) && !refused.contains(name));
        Self {
            about: info.title.clone().or_else(|| info.instructions.clone()),
            tools: tools.cloned().collect(),
        }
    }
}

/// Why a group cannot be used, as `tools/list` says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The reason in a few words, without any text of a server.
    pub reason: Cow<'static, str>,
    /// Whether this is what an earlier run found.
    pub is_of_last_run: bool,
}

impl Note {
    /// What this run has found.
    pub fn new(reason: Cow<'static, str>) -> Self {
        Self { reason, is_of_last_run: false }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.is_of_last_run { " as of the last run" } else { "" };
        write!(f, "not available{when}: {}", self.reason)
    }
}

/// The notes by group.
pub(crate) type NoteMap = Arc<BTreeMap<GroupName, Note>>;

/// The surfaces by group.
pub(crate) type SurfaceMap = Arc<BTreeMap<GroupName, Arc<Surface>>>;

/// The surfaces of all groups.
#[derive(Debug, Default)]
pub(crate) struct Surfaces {
    /// The surfaces that the list shows.
    shown: SurfaceMap,
    /// The groups that cannot be used, as the list shows them.
    notes: NoteMap,
    /// The findings of the current discovery, which are not shown yet.
    found: BTreeMap<GroupName, Arc<Surface>>,
    /// The outcomes of the attempts of discovery, which are not shown yet: the note of a failed group; `None` of
    /// another.
    found_notes: BTreeMap<GroupName, Option<Note>>,
    /// The discovery in progress.
    discovery: Option<DiscoveryRound>,
}

#[derive(Debug)]
struct DiscoveryRound {
    /// The groups that take part.
    members: BTreeSet<GroupName>,
    /// The groups whose first attempt has not ended.
    open: BTreeSet<GroupName>,
    /// When the findings so far enter the list.
    next_tick: Instant,
}

impl Surfaces {
    /// Shows a surface from the cache at once.
    pub(crate) fn restore(&mut self, group: &GroupName, surface: Surface) {
        Arc::make_mut(&mut self.shown).insert(group.clone(), Arc::new(surface));
    }

    /// The surfaces that the list shows.
    pub(crate) fn shown(&self) -> SurfaceMap {
        self.shown.clone()
    }

    /// The groups that cannot be used, as the list shows them.
    pub(crate) fn notes(&self) -> NoteMap {
        self.notes.clone()
    }

    /// Notes at once why a group cannot be used: at start, or when the config has changed.
    pub(crate) fn set_note(&mut self, group: &GroupName, note: Note) {
        Arc::make_mut(&mut self.notes).insert(group.clone(), note);
    }

    /// Returns whether discovery waits for a group.
    pub(crate) fn is_expected(&self, group: &GroupName) -> bool {
        self.discovery.as_ref().is_some_and(|discovery| discovery.open.contains(group))
    }

    /// Returns whether discovery is in progress.
    pub(crate) fn is_discovering(&self) -> bool {
        self.discovery.is_some()
    }

    /// Starts discovery, or adds groups to it: they connect for their catalog, at start or because a reload added them.
    pub(crate) fn start_discovery(&mut self, groups: impl IntoIterator<Item = GroupName>, now: Instant) {
        let mut groups: BTreeSet<_> = groups.into_iter().collect();
        if let Some(discovery) = &mut self.discovery {
            discovery.members.extend(groups.iter().cloned());
            discovery.open.append(&mut groups);
        } else if !groups.is_empty() {
            let members = groups.clone();
            self.discovery = Some(DiscoveryRound { members, open: groups, next_tick: now + FIRST_TICK });
        }
    }

    /// Handles a catalog that was read in this process. Returns whether the list changes now.
    pub(crate) fn catalog_read(&mut self, group: &GroupName, mode: Mode, surface: Surface) -> bool {
        match self.shown.get(group) {
            // The group works again. During discovery, `attempt_ended` says so.
            Some(shown) if **shown == surface => {
                !self.is_discovering() && Arc::make_mut(&mut self.notes).remove(group).is_some()
            }
            // It enters the list at the next start.
            None if mode == Mode::Pure => false,
            None if self.is_discovering() => {
                self.found.insert(group.clone(), Arc::new(surface));
                false
            }
            Some(_) | None => self.show([(group.clone(), Arc::new(surface))]),
        }
    }

    /// Replaces the surface of a group whose rules changed, whether it is shown already or found by discovery. `enters`:
    /// the group is no longer pure, so that the list has it from now on.
    pub(crate) fn replace(&mut self, group: &GroupName, surface: Surface, enters: bool) {
        if self.found.contains_key(group) {
            self.found.insert(group.clone(), Arc::new(surface));
        } else if enters || self.shown.contains_key(group) {
            self.restore(group, surface);
        }
    }

    /// Handles the end of a group's attempt. `note`: why the attempt failed; `None` if it succeeded. After discovery a
    /// failure changes nothing, because the list must not depend on calls. Returns whether the list changes now, or
    /// discovery is over.
    pub(crate) fn attempt_ended(&mut self, group: &GroupName, note: Option<Note>) -> bool {
        let Some(discovery) = &mut self.discovery else { return false };
        if discovery.members.contains(group) {
            self.found_notes.insert(group.clone(), note);
        }
        discovery.open.remove(group);
        if !discovery.open.is_empty() {
            return false;
        }
        self.discovery = None;
        self.show_found();
        true
    }

    /// Removes a group that the config removed or changed. Returns whether the list changes now.
    pub(crate) fn remove(&mut self, group: &GroupName) -> bool {
        self.found.remove(group);
        let shown = Arc::make_mut(&mut self.shown).remove(group).is_some();
        let noted = Arc::make_mut(&mut self.notes).remove(group).is_some();
        let changed = self.attempt_ended(group, None);
        self.found_notes.remove(group);
        changed || shown || noted
    }

    /// When `tick` is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.discovery.as_ref().map(|discovery| discovery.next_tick)
    }

    /// Shows what discovery found so far, if that is due. Returns whether the list changes now.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        match &mut self.discovery {
            Some(discovery) if discovery.next_tick <= now => {
                discovery.next_tick = now + NEXT_TICK;
                self.show_found()
            }
            _ => false,
        }
    }

    /// Shows what discovery found so far. Returns whether the list changes now.
    pub(crate) fn show_found(&mut self) -> bool {
        let before = self.notes.clone();
        let notes = Arc::make_mut(&mut self.notes);
        for (group, note) in std::mem::take(&mut self.found_notes) {
            match note {
                Some(note) => drop(notes.insert(group, note)),
                None => drop(notes.remove(&group)),
            }
        }
        let noted = before != self.notes;
        let found = std::mem::take(&mut self.found);
        self.show(found) || noted
    }

    /// Shows these surfaces, and removes the notes of their groups, which can be used. Returns whether a surface
    /// changed.
    fn show(&mut self, surfaces: impl IntoIterator<Item = (GroupName, Arc<Surface>)>) -> bool {
        let before = self.shown.clone();
        for (group, surface) in surfaces {
            Arc::make_mut(&mut self.notes).remove(&group);
            Arc::make_mut(&mut self.shown).insert(group, surface);
        }
        before != self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_name(group: &str) -> GroupName {
        GroupName::new(group)
    }

    fn surface(tools: &[&str]) -> Surface {
        Surface { about: None, tools: tools.iter().map(ToString::to_string).collect() }
    }

    #[tokio::test(start_paused = true)]
    async fn findings_enter_the_list_after_ten_seconds_then_every_thirty_and_at_the_end() {
        let start = Instant::now();
        let mut surfaces = Surfaces::default();
        surfaces.start_discovery(["a", "b", "c"].map(group_name), start);
        assert!(!surfaces.catalog_read(&group_name("a"), Mode::Hybrid, surface(&["x"])));
        assert!(!surfaces.attempt_ended(&group_name("a"), None));
        assert_eq!(surfaces.deadline(), Some(start + FIRST_TICK));
        assert!(surfaces.tick(start + FIRST_TICK));
        assert_eq!(surfaces.shown().len(), 1);
        assert!(!surfaces.catalog_read(&group_name("b"), Mode::Eager, surface(&["y"])));
        assert!(!surfaces.attempt_ended(&group_name("b"), None));
        assert_eq!(surfaces.deadline(), Some(start + FIRST_TICK + NEXT_TICK));
        assert!(!surfaces.tick(start + FIRST_TICK + NEXT_TICK / 2), "the bytes stay equal in between");
        assert!(surfaces.attempt_ended(&group_name("c"), None), "the end of discovery shows the rest");
        assert_eq!((surfaces.shown().len(), surfaces.is_discovering()), (2, false));
        // The group failed during discovery and enters at its first success.
        assert!(surfaces.catalog_read(&group_name("c"), Mode::Hybrid, surface(&["z"])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pure_group_enters_the_list_at_the_next_start_and_then_follows_its_upstream() {
        let mut surfaces = Surfaces::default();
        assert!(!surfaces.catalog_read(&group_name("p"), Mode::Pure, surface(&["x"])));
        assert!(surfaces.shown().is_empty());
        let mut next = Surfaces::default();
        next.restore(&group_name("p"), surface(&["x"]));
        assert!(!next.catalog_read(&group_name("p"), Mode::Pure, surface(&["x"])));
        assert!(next.catalog_read(&group_name("p"), Mode::Pure, surface(&["x", "y"])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_is_denied_after_it_was_found_does_not_enter_the_list() {
        let mut surfaces = Surfaces::default();
        surfaces.start_discovery(["a", "b"].map(group_name), Instant::now());
        surfaces.catalog_read(&group_name("a"), Mode::Hybrid, surface(&["x", "y"]));
        surfaces.replace(&group_name("a"), surface(&["x"]), false);
        surfaces.replace(&group_name("b"), surface(&["z"]), false);
        assert!(surfaces.tick(Instant::now() + FIRST_TICK));
        assert_eq!(surfaces.shown().values().map(|s| s.tools.len()).collect::<Vec<_>>(), [1]);
        surfaces.replace(&group_name("a"), surface(&[]), false);
        assert_eq!(surfaces.shown()[&group_name("a")].tools.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_group_is_not_shown_and_not_waited_for() {
        let mut surfaces = Surfaces::default();
        surfaces.restore(&group_name("a"), surface(&["x"]));
        surfaces.start_discovery(["b"].map(group_name), Instant::now());
        assert!(surfaces.remove(&group_name("a")));
        assert!(surfaces.remove(&group_name("b")), "its discovery is over");
        assert!(!surfaces.is_discovering());
    }

    #[tokio::test(start_paused = true)]
    async fn notes_change_only_when_the_findings_of_discovery_enter_the_list() {
        let start = Instant::now();
        let note = |reason: &'static str| Some(Note::new(reason.into()));
        let shown = |surfaces: &Surfaces| -> Vec<String> {
            surfaces.notes().iter().map(|(group, note)| format!("{group} is {note}")).collect()
        };
        let mut surfaces = Surfaces::default();
        for group in ["a", "b"] {
            let last = Note { is_of_last_run: true, ..Note::new("login needed".into()) };
            surfaces.set_note(&group_name(group), last);
        }
        let before =
            ["a", "b"].map(|group| format!("{group} is not available as of the last run: login needed"));
        surfaces.start_discovery(["a", "b", "c"].map(group_name), start);
        surfaces.catalog_read(&group_name("a"), Mode::Hybrid, surface(&["x"]));
        surfaces.attempt_ended(&group_name("a"), None);
        surfaces.attempt_ended(&group_name("b"), note("it does not answer"));
        surfaces.attempt_ended(&group_name("pure"), note("it does not answer"));
        assert_eq!(shown(&surfaces), before);
        assert!(surfaces.tick(start + FIRST_TICK));
        assert_eq!(shown(&surfaces), ["b is not available: it does not answer"]);
        assert!(surfaces.attempt_ended(&group_name("c"), note("its process ends")));
        let last = ["b is not available: it does not answer", "c is not available: its process ends"];
        assert_eq!(shown(&surfaces), last);
        // Discovery is over.
        assert!(!surfaces.attempt_ended(&group_name("a"), note("its process ends")));
        assert!(!surfaces.attempt_ended(&group_name("c"), None));
        assert_eq!(shown(&surfaces), last);
        // A group that enters the list late works.
        assert!(surfaces.catalog_read(&group_name("c"), Mode::Hybrid, surface(&["x"])));
        assert_eq!(shown(&surfaces), last[..1]);
        // So does one whose tools were known from the cache.
        surfaces.restore(&group_name("b"), surface(&["x"]));
        assert!(surfaces.catalog_read(&group_name("b"), Mode::Hybrid, surface(&["x"])));
        assert!(shown(&surfaces).is_empty());
        surfaces.set_note(&group_name("b"), Note::new("login needed".into()));
        assert!(surfaces.remove(&group_name("b")));
        assert!(shown(&surfaces).is_empty());
    }
}
