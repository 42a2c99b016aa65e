//! What `tools/list` shows of each group, and when that may change. Pure: events and time in.
//!
//! The bytes of the list stay equal while nothing changes, because clients' prompt caches depend on them, and they
//! never depend on calls that were made. So the surface of a group comes from the cache or from start-up discovery. The
//! findings of discovery enter the list together, at few moments. Later, a surface changes only when the upstream's
//! tools change.

use crate::config::{GroupName, Mode};
use crate::pins::changes::RefusedTools;
use crate::rules::Rules;
use crate::upstream::catalog::Catalog;
use std::collections::{BTreeMap, BTreeSet};
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
    /// The names of the tools that can be called.
    pub tools: Vec<String>,
}

impl Surface {
    /// Makes the surface of a group with this catalog and these rules. A refused tool is left out: even its name may be
    /// meant to mislead.
    pub fn of(catalog: &Catalog, rules: &Rules, refused: &RefusedTools) -> Self {
        let info = &catalog.info;
        let names = catalog.tools.iter().map(|tool| &tool.name);
        let tools = names.filter(|name| rules.allows(name) && !refused.contains(name));
        Self {
            about: info.title.clone().or_else(|| info.instructions.clone()),
            tools: tools.cloned().collect(),
        }
    }
}

/// The surfaces by group.
pub type SurfaceMap = Arc<BTreeMap<GroupName, Arc<Surface>>>;

/// The surfaces of all groups.
#[derive(Debug, Default)]
pub struct Surfaces {
    /// The surfaces that the list shows.
    shown: SurfaceMap,
    /// The findings of the current discovery, which are not shown yet.
    found: BTreeMap<GroupName, Arc<Surface>>,
    /// The discovery in progress.
    discovery: Option<DiscoveryRound>,
}

#[derive(Debug)]
struct DiscoveryRound {
    /// The groups whose first attempt has not ended.
    open: BTreeSet<GroupName>,
    /// When the findings so far enter the list.
    next_tick: Instant,
}

impl Surfaces {
    /// Shows a surface from the cache at once.
    pub fn restore(&mut self, group: &GroupName, surface: Surface) {
        Arc::make_mut(&mut self.shown).insert(group.clone(), Arc::new(surface));
    }

    /// The surfaces that the list shows.
    pub fn shown(&self) -> SurfaceMap {
        self.shown.clone()
    }

    /// Returns whether discovery waits for a group.
    pub fn is_expected(&self, group: &GroupName) -> bool {
        self.discovery.as_ref().is_some_and(|discovery| discovery.open.contains(group))
    }

    /// Returns whether discovery is in progress.
    pub fn is_discovering(&self) -> bool {
        self.discovery.is_some()
    }

    /// Starts discovery, or adds groups to it: they connect for their catalog, at start or because a reload added them.
    pub fn start_discovery(&mut self, groups: impl IntoIterator<Item = GroupName>, now: Instant) {
        let mut groups: BTreeSet<_> = groups.into_iter().collect();
        if let Some(discovery) = &mut self.discovery {
            discovery.open.append(&mut groups);
        } else if !groups.is_empty() {
            self.discovery = Some(DiscoveryRound { open: groups, next_tick: now + FIRST_TICK });
        }
    }

    /// Handles a catalog that was read in this process. Returns whether the list changes now.
    pub fn catalog_read(&mut self, group: &GroupName, mode: Mode, surface: Surface) -> bool {
        match self.shown.get(group) {
            Some(shown) if **shown == surface => false,
            Some(_) => self.show([(group.clone(), Arc::new(surface))]),
            // It enters the list at the next start.
            None if mode == Mode::Pure => false,
            None if self.is_discovering() => {
                self.found.insert(group.clone(), Arc::new(surface));
                false
            }
            None => self.show([(group.clone(), Arc::new(surface))]),
        }
    }

    /// Replaces the surface of a group whose rules changed, whether it is shown already or found by discovery.
    pub fn replace(&mut self, group: &GroupName, surface: Surface) {
        if self.found.contains_key(group) {
            self.found.insert(group.clone(), Arc::new(surface));
        } else if self.shown.contains_key(group) {
            self.restore(group, surface);
        }
    }

    /// Handles the end of a group's attempt, in success or failure. Returns whether the list changes now.
    pub fn attempt_ended(&mut self, group: &GroupName) -> bool {
        let Some(discovery) = &mut self.discovery else { return false };
        discovery.open.remove(group);
        if !discovery.open.is_empty() {
            return false;
        }
        self.discovery = None;
        self.show_found()
    }

    /// Removes a group that the config removed or changed. Returns whether the list changes now.
    pub fn remove(&mut self, group: &GroupName) -> bool {
        self.found.remove(group);
        let shown = Arc::make_mut(&mut self.shown).remove(group).is_some();
        self.attempt_ended(group) || shown
    }

    /// When `tick` is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.discovery.as_ref().map(|discovery| discovery.next_tick)
    }

    /// Shows what discovery found so far, if that is due. Returns whether the list changes now.
    pub fn tick(&mut self, now: Instant) -> bool {
        match &mut self.discovery {
            Some(discovery) if discovery.next_tick <= now => {
                discovery.next_tick = now + NEXT_TICK;
                self.show_found()
            }
            _ => false,
        }
    }

    fn show_found(&mut self) -> bool {
        let found = std::mem::take(&mut self.found);
        self.show(found)
    }

    fn show(&mut self, surfaces: impl IntoIterator<Item = (GroupName, Arc<Surface>)>) -> bool {
        let before = self.shown.clone();
        Arc::make_mut(&mut self.shown).extend(surfaces);
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
        assert!(!surfaces.attempt_ended(&group_name("a")));
        assert_eq!(surfaces.deadline(), Some(start + FIRST_TICK));
        assert!(surfaces.tick(start + FIRST_TICK));
        assert_eq!(surfaces.shown().len(), 1);
        assert!(!surfaces.catalog_read(&group_name("b"), Mode::Eager, surface(&["y"])));
        assert!(!surfaces.attempt_ended(&group_name("b")));
        assert_eq!(surfaces.deadline(), Some(start + FIRST_TICK + NEXT_TICK));
        assert!(!surfaces.tick(start + FIRST_TICK + NEXT_TICK / 2), "the bytes stay equal in between");
        assert!(surfaces.attempt_ended(&group_name("c")), "the end of discovery shows the rest");
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
        surfaces.replace(&group_name("a"), surface(&["x"]));
        surfaces.replace(&group_name("b"), surface(&["z"]));
        assert!(surfaces.tick(Instant::now() + FIRST_TICK));
        assert_eq!(surfaces.shown().values().map(|s| s.tools.len()).collect::<Vec<_>>(), [1]);
        surfaces.replace(&group_name("a"), surface(&[]));
        assert_eq!(surfaces.shown()[&group_name("a")].tools.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_group_is_not_shown_and_not_waited_for() {
        let mut surfaces = Surfaces::default();
        surfaces.restore(&group_name("a"), surface(&["x"]));
        surfaces.start_discovery(["b"].map(group_name), Instant::now());
        assert!(surfaces.remove(&group_name("a")));
        assert!(!surfaces.remove(&group_name("b")));
        assert!(!surfaces.is_discovering());
    }
}
