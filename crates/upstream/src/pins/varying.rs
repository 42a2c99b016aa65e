//! Members of a definition that are different at each start of a server, such as a list of words in random order.

use super::definition::PinnedTool;
use super::members::is_single;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a varying member is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Varying {
    /// Without the order of its words or elements.
    Order,
    /// Not at all.
    Value,
}

/// The varying members of a tool, by their paths.
pub(crate) type VaryingMembers = BTreeMap<String, Varying>;

/// Returns the members in which a tool differs from the approved definition, to be approved as varying.
///
/// # Errors
///
/// The difference cannot be approved as varying. Says why.
pub(super) fn of_difference(approved: &PinnedTool, now: &PinnedTool) -> Result<VaryingMembers, String> {
    let (Some(old), Some(new)) = (&approved.details, &now.details) else {
        return Err(
            "its members were not remembered when it was approved; approve it without --varying, and \
                    with it if it differs again"
                .to_owned(),
        );
    };
    if old.version != new.version {
        let shown = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
        let (old, new) = (shown(&old.version), shown(&new.version));
        return Err(format!(
            "the version of its server changed from {old} to {new}, so the difference may be one of the version; \
             approve it without --varying"
        ));
    }
    let mut varying = VaryingMembers::new();
    for path in new.members.differing(&old.members) {
        if !is_single(path) {
            return Err("it has too many members to tell which one varies".to_owned());
        }
        let is_reordered = new.members.is_reordered(&old.members, path);
        varying.insert(path.to_owned(), if is_reordered { Varying::Order } else { Varying::Value });
    }
    Ok(varying)
}

/// Returns whether a tool differs from the approved definition in varying members only. False if the members of either
/// are not remembered, or if none differs.
pub(super) fn explains(varying: &VaryingMembers, approved: &PinnedTool, now: &PinnedTool) -> bool {
    let (Some(old), Some(new)) = (&approved.details, &now.details) else { return false };
    let varies = |path: &str| match varying.get(path) {
        Some(Varying::Value) => true,
        Some(Varying::Order) => new.members.is_reordered(&old.members, path),
        None => false,
    };
    let differing = new.members.differing(&old.members);
    !differing.is_empty() && differing.into_iter().all(varies)
}
