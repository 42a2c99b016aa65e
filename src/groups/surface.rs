//! What of the groups' catalogs stands in `tools/list`, and when that may change. Pure: events and time in.
//!
//! The list's bytes stay the same while nothing changed, because clients' prompt caches depend on them, and they never
//! depend on calls that were made. So a group's surface is what the cache or the discovery at start found; what
//! discovery finds enters together, at few moments; and later only an upstream that says something else changes it.

use crate::config::{GroupName, Mode};
use crate::rules::Rules;
use crate::upstream::catalog::Catalog;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What discovery has found enters the list first after this long, then each so often, and at its end.
const FIRST: Duration = Duration::from_secs(10);
const NEXT: Duration = Duration::from_secs(30);

/// What the list tells of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surface {
    /// For groups without a description in the config: the upstream's title, or its instructions.
    pub about: Option<String>,
    /// The names of the tools that may be seen.
    pub tools: Vec<String>,
}

impl Surface {
    pub fn of(catalog: &Catalog, rules: &Rules) -> Self {
        let introduction = &catalog.introduction;
        let tools = catalog.tools.iter().map(|tool| &tool.name).filter(|name| rules.allows(name));
        Self {
            about: introduction.title.clone().or_else(|| introduction.instructions.clone()),
            tools: tools.cloned().collect(),
        }
    }
}

/// The surfaces shown, by group.
pub type Shown = Arc<BTreeMap<GroupName, Arc<Surface>>>;

#[derive(Debug, Default)]
pub struct Surfaces {
    shown: Shown,
    /// Found by the discovery that goes on; not shown yet.
    found: BTreeMap<GroupName, Arc<Surface>>,
    discovery: Option<Discovery>,
}

#[derive(Debug)]
struct Discovery {
    /// Groups whose first attempt has not ended.
    open: BTreeSet<GroupName>,
    next: Instant,
}

impl Surfaces {
    /// What the cache remembers of a group that is new.
    pub fn remember(&mut self, group: &GroupName, surface: Surface) {
        Arc::make_mut(&mut self.shown).insert(group.clone(), Arc::new(surface));
    }

    pub fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// Whether discovery has yet to hear of a group.
    pub fn expects(&self, group: &GroupName) -> bool {
        self.discovery.as_ref().is_some_and(|discovery| discovery.open.contains(group))
    }

    pub fn discovering(&self) -> bool {
        self.discovery.is_some()
    }

    /// Groups connect for their catalog now: at start, or because a reload added them.
    pub fn discover(&mut self, groups: impl IntoIterator<Item = GroupName>, now: Instant) {
        let mut groups: BTreeSet<_> = groups.into_iter().collect();
        if let Some(discovery) = &mut self.discovery {
            discovery.open.append(&mut groups);
        } else if !groups.is_empty() {
            self.discovery = Some(Discovery { open: groups, next: now + FIRST });
        }
    }

    /// A catalog was read in this process. True: the list changes now.
    pub fn learnt(&mut self, group: &GroupName, mode: Mode, surface: Surface) -> bool {
        match self.shown.get(group) {
            Some(shown) if **shown == surface => false,
            Some(_) => self.show([(group.clone(), Arc::new(surface))]),
            // It is known from the next start on.
            None if mode == Mode::Pure => false,
            None if self.discovering() => {
                self.found.insert(group.clone(), Arc::new(surface));
                false
            }
            None => self.show([(group.clone(), Arc::new(surface))]),
        }
    }

    /// Other rules for a group: what is shown of it, or was found and will be, is by these.
    pub fn revise(&mut self, group: &GroupName, surface: Surface) {
        if self.found.contains_key(group) {
            self.found.insert(group.clone(), Arc::new(surface));
        } else if self.shown.contains_key(group) {
            self.remember(group, surface);
        }
    }

    /// The first attempt of a group has ended, whatever its outcome. True: the list changes now.
    pub fn attempted(&mut self, group: &GroupName) -> bool {
        let Some(discovery) = &mut self.discovery else { return false };
        discovery.open.remove(group);
        if !discovery.open.is_empty() {
            return false;
        }
        self.discovery = None;
        self.show_found()
    }

    /// Groups that the config no longer has, or has differently. True: the list changes now.
    pub fn forget(&mut self, group: &GroupName) -> bool {
        self.found.remove(group);
        let shown = Arc::make_mut(&mut self.shown).remove(group).is_some();
        self.attempted(group) || shown
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.discovery.as_ref().map(|discovery| discovery.next)
    }

    /// Time has passed. True: the list changes now.
    pub fn tick(&mut self, now: Instant) -> bool {
        match &mut self.discovery {
            Some(discovery) if discovery.next <= now => {
                discovery.next = now + NEXT;
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

    fn name(group: &str) -> GroupName {
        GroupName::new(group)
    }

    fn surface(tools: &[&str]) -> Surface {
        Surface { about: None, tools: tools.iter().map(ToString::to_string).collect() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_discovery_finds_enters_together_at_ten_seconds_then_every_thirty_then_at_its_end() {
        let start = Instant::now();
        let mut surfaces = Surfaces::default();
        surfaces.discover(["a", "b", "c"].map(name), start);
        assert!(!surfaces.learnt(&name("a"), Mode::Hybrid, surface(&["x"])));
        assert!(!surfaces.attempted(&name("a")));
        assert_eq!(surfaces.deadline(), Some(start + FIRST));
        assert!(surfaces.tick(start + FIRST));
        assert_eq!(surfaces.shown().len(), 1);
        assert!(!surfaces.learnt(&name("b"), Mode::Eager, surface(&["y"])));
        assert!(!surfaces.attempted(&name("b")));
        assert_eq!(surfaces.deadline(), Some(start + FIRST + NEXT));
        assert!(!surfaces.tick(start + FIRST + NEXT / 2), "bytes stay equal between");
        assert!(surfaces.attempted(&name("c")), "the end of discovery shows the rest");
        assert_eq!((surfaces.shown().len(), surfaces.discovering()), (2, false));
        // It missed discovery and enters at its first success.
        assert!(surfaces.learnt(&name("c"), Mode::Hybrid, surface(&["z"])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pure_group_stays_out_until_the_next_start_and_then_follows_its_upstream() {
        let mut surfaces = Surfaces::default();
        assert!(!surfaces.learnt(&name("p"), Mode::Pure, surface(&["x"])));
        assert!(surfaces.shown().is_empty());
        let mut next = Surfaces::default();
        next.remember(&name("p"), surface(&["x"]));
        assert!(!next.learnt(&name("p"), Mode::Pure, surface(&["x"])));
        assert!(next.learnt(&name("p"), Mode::Pure, surface(&["x", "y"])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_is_denied_after_it_was_found_does_not_enter_the_list() {
        let mut surfaces = Surfaces::default();
        surfaces.discover(["a", "b"].map(name), Instant::now());
        surfaces.learnt(&name("a"), Mode::Hybrid, surface(&["x", "y"]));
        surfaces.revise(&name("a"), surface(&["x"]));
        surfaces.revise(&name("b"), surface(&["z"]));
        assert!(surfaces.tick(Instant::now() + FIRST));
        assert_eq!(surfaces.shown().values().map(|s| s.tools.len()).collect::<Vec<_>>(), [1]);
        surfaces.revise(&name("a"), surface(&[]));
        assert_eq!(surfaces.shown()[&name("a")].tools.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_is_gone_ends_neither_shown_nor_waited_for() {
        let mut surfaces = Surfaces::default();
        surfaces.remember(&name("a"), surface(&["x"]));
        surfaces.discover(["b"].map(name), Instant::now());
        assert!(surfaces.forget(&name("a")));
        assert!(!surfaces.forget(&name("b")));
        assert!(!surfaces.discovering());
    }
}
