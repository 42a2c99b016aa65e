//! How the tools of a group differ from what was first seen or approved, and which of them are refused for it.

use super::record::ToolChange;
use config::tool_rules::ToolOverrides;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why the file of a record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinProblem {
    /// It cannot be read, so it is unknown what was approved.
    Unreadable(String),
    /// It cannot be written, so what was seen is forgotten at exit.
    Unwritable(String),
}

impl PinProblem {
    /// What is wrong, and what to do.
    pub fn text(&self) -> &str {
        let (Self::Unreadable(why) | Self::Unwritable(why)) = self;
        why
    }
}

/// How the tools of a group differ from what was first seen or approved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ToolChanges {
    /// The changed tools by name.
    pub tools: BTreeMap<String, ToolChange>,
    /// Why the record cannot be read or written.
    pub problem: Option<PinProblem>,
    /// When the config named another program or address, whose tools were then trusted anew, in seconds since 1970.
    pub replaced_s: Option<u64>,
}

impl ToolChanges {
    /// Returns whether some tool would be refused in a pinned group.
    pub fn refuse(&self) -> bool {
        !self.tools.is_empty() || self.unreadable().is_some()
    }

    /// Returns whether there is something that an approval may have changed.
    pub(crate) fn await_approval(&self) -> bool {
        self.refuse() || self.replaced_s.is_some()
    }

    /// Why the record cannot be read, so that every tool may differ.
    pub fn unreadable(&self) -> Option<&str> {
        match &self.problem {
            Some(PinProblem::Unreadable(why)) => Some(why),
            _ => None,
        }
    }
}

/// The tools of a group that are refused because they changed, by the names that clients see. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RefusedTools(
    /// The differences, and what gives the server's own names; `None` if no tool is refused for a difference.
    Option<(Arc<ToolChanges>, ToolOverrides)>,
);

/// Why a tool is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyRefused<'c> {
    /// It changed, or is new.
    Changed(&'c ToolChange),
    /// The record of what was approved cannot be read.
    Unreadable(&'c str),
}

impl RefusedTools {
    /// Refuses the tools that differ. `names` gives the server's own names.
    pub(super) fn new(changes: Arc<ToolChanges>, names: &ToolOverrides) -> Self {
        Self(Some((changes, names.clone())))
    }

    /// Returns whether the tool is refused.
    pub fn contains(&self, tool: &str) -> bool {
        self.why(tool).is_some()
    }

    /// Says why the tool is refused; `None` if it is not.
    pub fn why(&self, tool: &str) -> Option<WhyRefused<'_>> {
        let (changes, names) = self.0.as_ref()?;
        let changed = changes.tools.get(names.own_name(tool)).map(WhyRefused::Changed);
        changed.or_else(|| changes.unreadable().map(WhyRefused::Unreadable))
    }

    /// Returns whether both were made of the same differences.
    pub fn is_same(&self, other: &Self) -> bool {
        let changes = |refused: &Self| refused.0.as_ref().map(|(changes, _)| Arc::as_ptr(changes));
        changes(self) == changes(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_tools_are_the_same_only_if_they_were_made_of_the_same_differences() {
        let names = ToolOverrides::default();
        let changes: Arc<ToolChanges> = Arc::default();
        let refused = RefusedTools::new(changes.clone(), &names);
        assert!(refused.is_same(&RefusedTools::new(changes, &names)));
        assert!(!refused.is_same(&RefusedTools::new(Arc::default(), &names)));
        assert!(!refused.is_same(&RefusedTools::default()));
        assert!(RefusedTools::default().is_same(&RefusedTools::default()));
    }

    #[test]
    fn an_approval_is_awaited_for_every_reason_to_approve() {
        let unreadable = Some(PinProblem::Unreadable("why".into()));
        let unwritable = Some(PinProblem::Unwritable("why".into()));
        for (problem, replaced_s, refuse, await_approval) in [
            (None, None, false, false),
            (unwritable.clone(), None, false, false),
            (unreadable.clone(), None, true, true),
            (unwritable, Some(7), false, true),
            (unreadable, Some(7), true, true),
        ] {
            let changes = ToolChanges { problem, replaced_s, ..ToolChanges::default() };
            assert_eq!((changes.refuse(), changes.await_approval()), (refuse, await_approval), "{changes:?}");
            assert!(changes.problem.is_none_or(|problem| problem.text() == "why"));
        }
    }
}
