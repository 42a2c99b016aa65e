//! What `tools/list` shows of each group (its *surface*), and when that may change. Pure: events and time in.
//!
//! Clients cache prompts by the bytes of the list, so the bytes change as rarely as possible, and never because of a
//! call. The surface of a group comes from the cache or from start-up discovery. The findings of discovery enter the
//! list together, at few moments (`registry`). Later, a surface changes only when the tools of the server change.

use crate::catalog::Catalog;
use crate::pins::changes::RefusedTools;
use config::Mode;
use config::tool_rules::Rules;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What the list shows of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surface {
    /// The upstream's title, or its instructions. They describe a group without a description in the config.
    pub about: Option<String>,
    /// The upstream's instructions, for the flat surface.
    pub instructions: Option<String>,
    /// The names of the tools that models can call.
    pub tools: Vec<String>,
}

impl Surface {
    /// Makes the surface of a group with this catalog and these rules. Leaves out refused tools, because even the name
    /// of a changed tool may mislead a model.
    pub fn of(catalog: &Arc<Catalog>, rules: &Rules, refused: &RefusedTools) -> Self {
        let info = &catalog.info;
        let names = catalog.as_listed().tools.iter().filter(|tool| !tool.app_only).map(|tool| &tool.name);
        let tools = names.filter(|name| rules.allows(name) && !refused.contains(name));
        Self {
            about: info.title.clone().or_else(|| info.instructions.clone()),
            instructions: info.instructions.clone(),
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

/// What the list has of one group, and what it is about to have.
#[derive(Debug, Default)]
pub(super) struct GroupListing {
    /// What the list shows.
    pub(super) shown: Option<Arc<Surface>>,
    /// Why the group cannot be used, as the list shows it.
    pub(super) note: Option<Note>,
    /// What the current discovery found, which is not shown yet.
    found: Option<Arc<Surface>>,
    /// The outcome of the attempt of discovery, which is not shown yet: the note of a failed group; `None` of another.
    found_note: Option<Option<Note>>,
    /// Whether the group takes part in the current discovery.
    pub(super) is_member: bool,
    /// Whether discovery waits for its first attempt.
    pub(super) is_expected: bool,
}

impl GroupListing {
    /// Handles a catalog that was read in this process. Returns whether the list changes now.
    pub(super) fn catalog_read(&mut self, mode: Mode, surface: Surface, is_discovering: bool) -> bool {
        match &self.shown {
            // The group works again. During discovery, `attempt_ended` says so.
            Some(shown) if **shown == surface => !is_discovering && self.note.take().is_some(),
            // It enters the list at the next start.
            None if mode == Mode::Pure => false,
            None if is_discovering => {
                self.found = Some(Arc::new(surface));
                false
            }
            Some(_) | None => {
                self.show(Arc::new(surface));
                true
            }
        }
    }

    /// Replaces the surface of a group whose rules changed, whether it is shown already or found by discovery. `enters`:
    /// the group is no longer pure, so that the list has it from now on.
    pub(super) fn replace(&mut self, surface: Surface, enters: bool) {
        if self.found.is_some() {
            self.found = Some(Arc::new(surface));
        } else if enters || self.shown.is_some() {
            self.shown = Some(Arc::new(surface));
        }
    }

    /// Handles the end of an attempt of the current discovery. `note`: why it failed; `None` if it succeeded.
    pub(super) fn attempt_ended(&mut self, note: Option<Note>) {
        if self.is_member {
            self.found_note = Some(note);
        }
        self.is_expected = false;
    }

    /// Shows what discovery found. Returns whether the list changes.
    pub(super) fn show_found(&mut self) -> bool {
        let before = (self.shown.clone(), self.note.clone());
        if let Some(note) = self.found_note.take() {
            self.note = note;
        }
        if let Some(found) = self.found.take() {
            self.show(found);
        }
        before != (self.shown.clone(), self.note.clone())
    }

    /// Shows a surface, and removes the note, because the group can be used.
    fn show(&mut self, surface: Arc<Surface>) {
        (self.shown, self.note) = (Some(surface), None);
    }
}
