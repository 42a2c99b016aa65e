//! The URIs that groups claim although no list of resources has to have them.

use super::aggregate::{self, GroupEntries, ListKind};
use crate::groups::GroupManager;
use crate::upstream::Upstream;
use crate::upstream::entries::ListEntries;

/// The URIs that the groups claim, as far as is known.
pub fn all(groups: &GroupManager) -> GroupEntries {
    groups.all().iter().map(|group| (group.name.clone(), of_group(group))).collect()
}

/// The resources that the groups list, and then what they claim beside those, for each group in config order.
pub fn with_resources(groups: &GroupManager) -> GroupEntries {
    let resources = aggregate::known(groups, &ListKind::RESOURCES).into_iter();
    resources.zip(all(groups)).flat_map(|(resources, claims)| [resources, claims]).collect()
}

fn of_group(group: &Upstream) -> ListEntries {
    group.snapshot().catalog.as_ref().map(|catalog| catalog.claims().clone()).unwrap_or_default()
}
