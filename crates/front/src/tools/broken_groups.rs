//! The groups that cannot be used at the moment, as searches and lists of groups show them.

use base::text::{one_line, shorten};
use config::GroupName;
use std::borrow::Cow;
use std::collections::HashMap;
use upstream::{GroupManager, State, Upstream};

/// The length of the error of a group that cannot be used.
const MAX_ERROR: usize = 400;

/// The groups that cannot be used now, and why in a few words.
pub(super) struct BrokenGroups(HashMap<GroupName, Cow<'static, str>>);

impl BrokenGroups {
    /// Creates the groups that cannot be used at the moment.
    pub(super) fn of(groups: &GroupManager) -> Self {
        let notes = groups.notes();
        let brief = |group: &Upstream| {
            let snapshot = group.snapshot();
            match &snapshot.state {
                State::Failed(failure) => Some(failure.error.brief()),
                // Its last attempt succeeded.
                _ if snapshot.attempted => None,
                _ => notes.get(&group.name).map(|note| note.reason.clone()),
            }
        };
        let all = groups.all();
        Self(all.iter().filter_map(|group| Some((group.name.clone(), brief(group)?))).collect())
    }

    /// Why a group cannot be used, in a few words. `None` if it can be used.
    pub(super) fn brief(&self, group: &GroupName) -> Option<&str> {
        self.0.get(group).map(|brief| &**brief)
    }

    /// Says why a group cannot be used, if that is so, with the remedy that its error names.
    pub(super) fn sentence(&self, groups: &GroupManager, name: &GroupName) -> Option<String> {
        let brief = self.brief(name)?;
        let error = groups.get(name).and_then(|group| match &group.snapshot().state {
            State::Failed(failure) => Some(one_line(&failure.error.to_string())),
            _ => None,
        });
        let why = error.map_or_else(|| brief.to_owned(), |error| shorten(&error, MAX_ERROR));
        Some(format!(
            "{name} is configured and not available: {why}\nTell the user; get_status has all of it."
        ))
    }
}
