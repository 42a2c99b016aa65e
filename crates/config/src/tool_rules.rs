//! Which tools of a server may be used and how, and what clients see of them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Globs over the names that a server gives its tools. They hold on every route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// The only tools that may be used: a tool must match one glob of each list. None allows all.
    pub allow: Vec<Vec<String>>,
    /// Tools that may not be used.
    pub deny: Vec<String>,
    /// Tools whose calls the user confirms one by one.
    pub ask: Vec<String>,
    /// `ask` of the profile in use.
    pub(crate) profile_ask: Vec<String>,
    /// Tools that count as read-only even if their annotations say otherwise.
    pub read_only: Vec<String>,
    /// What clients see of single tools.
    pub overrides: ToolOverrides,
}

/// A glob for tools in the entry of a server, as opposed to globs in `settings` and in the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnGlob {
    /// Its field, such as `tools.deny`.
    pub field: &'static str,
    /// The glob as it is written.
    pub written: String,
}

/// What clients see of single tools, by the server's own names. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOverrides(Arc<BTreeMap<String, ToolOverride>>);

/// What clients see of one tool instead of what the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOverride {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Arguments that clients neither see nor pass.
    pub hidden_args: Vec<String>,
}

impl ToolOverrides {
    /// Creates the overrides, by the server's own names. The names that clients see are different from each other.
    pub fn new(overrides: BTreeMap<String, ToolOverride>) -> Self {
        Self(Arc::new(overrides))
    }

    /// Returns whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the overrides with the server's own names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ToolOverride)> {
        self.0.iter().map(|(own, tool)| (own.as_str(), tool))
    }

    /// Returns the override of the tool that the server calls `own`.
    pub fn of(&self, own: &str) -> Option<&ToolOverride> {
        self.0.get(own)
    }

    /// Returns the name that the server gives the tool which clients see as `shown`. A name that an override assigns
    /// belongs to the overridden tool alone, even if the server has another tool of that name.
    #[inline(always)]
    pub fn own_name<'n>(&'n self, shown: &'n str) -> &'n str {
        // Usually there are none, and each call asks several times.
        if self.0.is_empty() { shown } else { self.find_own_name(shown) }
    }

    fn find_own_name<'n>(&'n self, shown: &'n str) -> &'n str {
        let given = self.0.iter().find(|(_, tool)| tool.name.as_deref() == Some(shown));
        given.map_or(shown, |(own, _)| own)
    }

    /// Returns the name under which clients see the tool that the server calls `own`; `None` if its name is given to
    /// another one.
    pub fn shown_name<'n>(&'n self, own: &'n str) -> Option<&'n str> {
        let shown = self.0.get(own).and_then(|tool| tool.name.as_deref()).unwrap_or(own);
        (self.own_name(shown) == own).then_some(shown)
    }
}
