//! Logins in other processes: who waits for one notices it.

use super::GroupManager;
use crate::config::{GroupName, Mode};
use crate::upstream::lifecycle::State;
use crate::upstream::{Snapshot, Upstream};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout};

/// How often it is looked whether somebody has, while a group waits for it.
const GAP: Duration = Duration::from_secs(2);
/// A login so young may have come while the group still tried without it.
const YOUNG: Duration = Duration::from_secs(15);
/// A disk that is slow holds up nothing else.
const PATIENCE: Duration = Duration::from_secs(1);

/// The groups, each with the change of its login that it has been started for, or that was there before it failed.
#[derive(Default)]
pub(super) struct Awaited {
    groups: HashMap<GroupName, Waiting>,
    next: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Not looked at yet.
    New,
    Knows(Option<SystemTime>),
}

impl Awaited {
    /// Groups changed.
    pub(super) fn look<'n>(&mut self, changed: impl Iterator<Item = (&'n GroupName, Option<Upstream>)>) {
        for (name, group) in changed {
            match group.as_ref().map(Upstream::snapshot) {
                Some(snapshot) if waits(&snapshot) => {
                    self.groups.entry(name.clone()).or_insert(Waiting::New);
                }
                // It tries again, and may fail again: what it was started for, it is not started for twice.
                Some(snapshot) if snapshot.connecting.is_some() => {}
                _ => drop(self.groups.remove(name)),
            }
        }
        if self.groups.is_empty() {
            self.next = None;
        } else {
            self.next.get_or_insert_with(Instant::now);
        }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Starts those whose login changed.
    pub(super) async fn check(&mut self, manager: &GroupManager) {
        let checked = timeout(PATIENCE, async {
            for (name, waiting) in &mut self.groups {
                let Some(group) = manager.get(name).filter(|group| waits(&group.snapshot())) else {
                    continue;
                };
                let changed = changed(manager, name).await;
                let before = std::mem::replace(waiting, Waiting::Knows(changed));
                if is_news(before, changed) {
                    tracing::info!(group = %name, "somebody logged in, connecting");
                    group.start().await;
                }
            }
        });
        if checked.await.is_err() {
            tracing::debug!("it takes long to look for logins");
        }
        self.next = Some(Instant::now() + GAP);
    }
}

impl GroupManager {
    /// Has a group that failed for want of a login try again, if somebody logged in after that. False: nobody has.
    pub async fn notice_login(&self, group: &Upstream) -> bool {
        let failed = match &group.snapshot().state {
            State::Failed(failure) => SystemTime::now().checked_sub(failure.at.elapsed()),
            _ => None,
        };
        let changed = timeout(PATIENCE, changed(self, &group.name)).await.ok().flatten();
        let is_new = failed.zip(changed).is_some_and(|(failed, changed)| changed > failed);
        if is_new {
            group.mended().await;
        }
        is_new
    }
}

/// Whether a group would connect by itself, if there were a login.
fn waits(snapshot: &Snapshot) -> bool {
    let wants = match snapshot.mode() {
        Mode::Eager => true,
        Mode::Hybrid => snapshot.catalog.is_none(),
        Mode::Pure => false,
    };
    wants && snapshot.state.needs_login() && snapshot.connecting.is_none()
}

async fn changed(manager: &GroupManager, name: &GroupName) -> Option<SystemTime> {
    manager.transport.logins.last_changed(name, &manager.address(name)?).await
}

/// Whether to try with a login that changed last at `now`.
fn is_news(before: Waiting, now: Option<SystemTime>) -> bool {
    match (before, now) {
        (_, None) => false,
        (Waiting::New, Some(at)) => at.elapsed().is_ok_and(|age| age < YOUNG),
        (Waiting::Knows(last), Some(at)) => last != Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_started_once_for_each_login() {
        let now = SystemTime::now();
        let old = now - Duration::from_secs(3600);
        assert!(is_news(Waiting::New, Some(now)), "it may have come while the group tried without it");
        assert!(!is_news(Waiting::New, Some(old)), "the group has tried with it");
        assert!(!is_news(Waiting::Knows(Some(now)), Some(now)));
        assert!(is_news(Waiting::Knows(Some(old)), Some(now)));
        assert!(is_news(Waiting::Knows(None), Some(old)), "whatever the clock says");
        assert!(!is_news(Waiting::Knows(Some(old)), None), "somebody logged out");
    }
}
