//! Returns the exposed names of all known tools.

use super::exposed_names::ExposedNames;
use base::blocking::BlockingError;
use config::tool_rules::Rules;
use config::{Config, GroupName};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use upstream::{Catalog, GroupManager};

/// The exposed names of all known tools, kept until a catalog or a rule changes.
#[derive(Default)]
pub struct KnownNames(Mutex<Option<(NamesSource, Arc<ExposedNames>)>>);

/// What a table was made of. The pointers keep nothing alive but their addresses.
struct NamesSource {
    config: Weak<Config>,
    /// The catalog and the rules of each group.
    groups: Vec<(Weak<Catalog>, Weak<Rules>)>,
}

impl NamesSource {
    fn of(groups: &GroupManager) -> Self {
        let of_group = |snapshot: &upstream::Snapshot| {
            let catalog = snapshot.catalog.as_ref().map(Arc::downgrade).unwrap_or_default();
            (catalog, Arc::downgrade(&snapshot.rules))
        };
        Self {
            config: Arc::downgrade(&groups.config()),
            groups: groups.all().iter().map(|group| of_group(&group.snapshot())).collect(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same =
            |((catalog, rules), (other, other_rules)): (&(Weak<_>, Weak<_>), &(Weak<_>, Weak<_>))| {
                Weak::ptr_eq(catalog, other) && Weak::ptr_eq(rules, other_rules)
            };
        Weak::ptr_eq(&self.config, &other.config)
            && self.groups.len() == other.groups.len()
            && self.groups.iter().zip(&other.groups).all(is_same)
    }
}

impl KnownNames {
    /// Returns the names as they are now. The table is made again if the config, a catalog or a rule has changed.
    ///
    /// # Errors
    ///
    /// Making the table took too long, or was aborted.
    pub async fn get(&self, groups: &Arc<GroupManager>) -> Result<Arc<ExposedNames>, BlockingError> {
        let source = NamesSource::of(groups);
        let known =
            self.0.lock().as_ref().filter(|(of, _)| of.is_same(&source)).map(|(_, names)| names.clone());
        if let Some(names) = known {
            return Ok(names);
        }
        let names = Arc::new(groups.run_on_lists(exposed_names).await?);
        *self.0.lock() = Some((source, names.clone()));
        Ok(names)
    }
}

/// Makes the table of the exposed names of all known tools that the config allows.
pub fn exposed_names(groups: &GroupManager) -> ExposedNames {
    let known: Vec<(GroupName, Arc<Catalog>, Arc<Rules>)> = groups
        .all()
        .iter()
        .filter_map(|group| {
            let snapshot = group.snapshot();
            Some((group.name.clone(), snapshot.catalog.clone()?, snapshot.rules.clone()))
        })
        .collect();
    let pairs = known.iter().flat_map(|(group, catalog, rules)| {
        let tools = catalog.tools.iter().map(|tool| tool.name.as_str());
        tools.filter(|tool| rules.allows(tool)).map(move |tool| (group, tool))
    });
    let names: Vec<_> = groups.config().servers.iter().map(|(name, _)| name.clone()).collect();
    ExposedNames::new(&names, pairs)
}
