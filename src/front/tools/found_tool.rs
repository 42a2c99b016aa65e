//! Finds the tool of a call in the catalog of its group.

use crate::front::lookup;
use crate::front::spelling::Match;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, Tool};
use crate::upstream::overrides::{HiddenArg, hidden_args};
use crate::upstream::snapshot::Snapshot;
use std::ops::Deref;
use std::sync::Arc;

/// A tool in a group's catalog.
pub(super) struct FoundTool {
    /// The state of the group in which it was found.
    pub(super) snapshot: Arc<Snapshot>,
    /// The catalog.
    pub(super) catalog: Arc<Catalog>,
    /// Its place in the catalog.
    pub(super) index: usize,
}

impl FoundTool {
    /// Finds the tool of exactly this name as the group has it now.
    pub(super) fn named(group: &Upstream, name: &str) -> Option<Self> {
        let snapshot = group.snapshot();
        let catalog = snapshot.catalog.clone()?;
        let index = catalog.tools.iter().position(|tool| tool.name == name)?;
        Some(Self { snapshot, catalog, index })
    }

    /// The arguments that the config hides.
    pub(super) fn hidden_args(&self) -> Vec<HiddenArg> {
        let overrides = self.snapshot.server.as_ref().map(|server| &server.tools.overrides);
        let Some(of_tool) = overrides.and_then(|overrides| overrides.of(overrides.own_name(&self.name)))
        else {
            return Vec::new();
        };
        let definition = self.catalog.original_definition(self.index);
        definition.map(|definition| hidden_args(definition, of_tool)).unwrap_or_default()
    }
}

impl Deref for FoundTool {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        &self.catalog.tools[self.index]
    }
}

/// Finds a tool in the catalog of a connected group. The catalog is read again before a name is rejected.
///
/// # Errors
///
/// The text for the model.
pub(super) async fn find_tool(group: &Upstream, name: &str) -> Result<FoundTool, String> {
    let find = || {
        let snapshot = group.snapshot();
        let catalog = snapshot.catalog.clone()?;
        match lookup::tool(&group.name, &catalog, &snapshot.rules, name) {
            Match::None => None,
            Match::One(index) => Some(Ok(FoundTool { snapshot, catalog, index })),
            Match::Several(indexes) => {
                let names = indexes.iter().map(|index| catalog.tools[*index].name.as_str());
                Some(Err(lookup::ambiguous_tool(&group.name, name, names)))
            }
        }
    };
    if let Some(found) = find() {
        return found;
    }
    if group.snapshot().rules.allows(name) {
        Box::pin(group.refresh()).await;
        if let Some(found) = find() {
            return found;
        }
    }
    let snapshot = group.snapshot();
    let tools = snapshot.catalog.iter().flat_map(|catalog| &catalog.tools);
    let known = tools.map(|tool| tool.name.as_str()).filter(|tool| snapshot.rules.allows(tool));
    Err(lookup::unknown_tool(&group.name, name, known))
}
