//! Notices logins in other processes, for groups that wait for one.

use super::login_flows::remote_config;
use super::manager::GroupManager;
use crate::handle::Upstream;
use crate::snapshot::Snapshot;
use config::{GroupName, Mode};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout};

/// The interval between two checks while a group waits for a login.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A login that is more recent than this may have come after the group's last attempt began.
const RECENT_LOGIN_AGE: Duration = Duration::from_secs(15);
/// The limit for one check, so that a slow disk delays nothing else.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// The groups that wait for a login.
#[derive(Default)]
pub(super) struct LoginWatch {
    /// The groups, and what the last check saw of their logins.
    groups: HashMap<GroupName, LastSeen>,
    /// When the next check is due; `None` if no group waits.
    next_check: Option<Instant>,
}

/// What the last check saw of the stored login of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastSeen {
    /// There was no check yet.
    Unchecked,
    /// The login last changed at this time, or never.
    Changed(Option<SystemTime>),
}

impl LoginWatch {
    /// Adds and removes groups whose snapshot changed.
    pub(super) fn update<'n>(&mut self, changed: impl Iterator<Item = (&'n GroupName, Option<Upstream>)>) {
        for (name, group) in changed {
            match group.as_ref().map(Upstream::snapshot) {
                Some(snapshot) if waits_for_login(&snapshot) => {
                    self.groups.entry(name.clone()).or_insert(LastSeen::Unchecked);
                }
                // Stays in the set, so that a failed attempt is not repeated for the same login.
                Some(snapshot) if snapshot.connecting.is_some() => {}
                _ => drop(self.groups.remove(name)),
            }
        }
        if self.groups.is_empty() {
            self.next_check = None;
        } else {
            self.next_check.get_or_insert_with(Instant::now);
        }
    }

    /// When the next check is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next_check
    }

    /// Tells a group to connect if its stored login changed. At the first check of a group, a login of the last
    /// `RECENT_LOGIN_AGE` counts as changed. Groups that are not reached within `CHECK_TIMEOUT` are not checked.
    pub(super) async fn check(&mut self, manager: &GroupManager) {
        let checked = timeout(CHECK_TIMEOUT, async {
            for (name, last_seen) in &mut self.groups {
                let Some(group) = manager.get(name).filter(|group| waits_for_login(&group.snapshot())) else {
                    continue;
                };
                let changed = login_changed(manager, name).await;
                let before = std::mem::replace(last_seen, LastSeen::Changed(changed));
                if is_new_login(before, changed) {
                    tracing::info!(group = %name, "a login was stored by another process, connecting");
                    group.start().await;
                }
            }
        });
        if checked.await.is_err() {
            tracing::debug!(timeout = ?CHECK_TIMEOUT, "the check for new logins timed out");
        }
        self.next_check = Some(Instant::now() + CHECK_INTERVAL);
    }
}

impl GroupManager {
    /// If a login was stored after the group's last failure, tells the group to connect. Returns whether it did, before
    /// the group is connected. If the look for a login takes longer than `CHECK_TIMEOUT`, none is found.
    pub async fn retry_if_logged_in(&self, group: &Upstream) -> bool {
        let failed = group.snapshot().state.failure().map(|failure| failure.at.elapsed());
        let failed = failed.and_then(|elapsed| SystemTime::now().checked_sub(elapsed));
        let changed = timeout(CHECK_TIMEOUT, login_changed(self, &group.name)).await.ok().flatten();
        // A time in the future, of a clock that was set back since, says nothing.
        let changed = changed.filter(|changed| changed.elapsed().is_ok());
        let is_new = failed.zip(changed).is_some_and(|(failed, changed)| changed > failed);
        if is_new {
            group.logged_in().await;
        }
        is_new
    }
}

/// Returns whether a group would connect without a request if it had a login.
fn waits_for_login(snapshot: &Snapshot) -> bool {
    let connects = match snapshot.mode() {
        Mode::Eager => true,
        Mode::Hybrid => snapshot.catalog.is_none(),
        Mode::Pure => false,
    };
    connects && snapshot.state.needs_login() && snapshot.connecting.is_none()
}

/// When the stored login of a group last changed.
async fn login_changed(manager: &GroupManager, name: &GroupName) -> Option<SystemTime> {
    manager.login_service().last_changed(name, &remote_config(&manager.config(), name)?).await
}

/// Returns whether the group has not yet tried a login that last changed at `now`.
fn is_new_login(before: LastSeen, now: Option<SystemTime>) -> bool {
    match (before, now) {
        (_, None) => false,
        // After a clock was set back, the age is unknown.
        (LastSeen::Unchecked, Some(at)) => at.elapsed().map_or(true, |age| age < RECENT_LOGIN_AGE),
        (LastSeen::Changed(last), Some(at)) => last != Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_started_once_for_each_login() {
        let now = SystemTime::now();
        let old = now - Duration::from_secs(3600);
        assert!(
            is_new_login(LastSeen::Unchecked, Some(now)),
            "it may have come after the last attempt began"
        );
        assert!(!is_new_login(LastSeen::Unchecked, Some(old)), "the last attempt used it");
        assert!(is_new_login(LastSeen::Unchecked, Some(now + Duration::from_secs(3600))), "it is not known");
        assert!(!is_new_login(LastSeen::Changed(Some(now)), Some(now)));
        assert!(is_new_login(LastSeen::Changed(Some(old)), Some(now)));
        assert!(is_new_login(LastSeen::Changed(None), Some(old)), "even if the clock says otherwise");
        assert!(!is_new_login(LastSeen::Changed(Some(old)), None), "somebody logged out");
    }
}
