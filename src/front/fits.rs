//! Whether a call's arguments fit its tool, told before the upstream is bothered.

use super::errors;
use crate::groups::GroupManager;
use crate::schema::signature::signature;
use crate::schema::validate::ArgumentVerdict;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Read, Tool, shorten};
use crate::wire::Raw;

/// Characters of a signature beside the mistakes.
const SIGNATURE: usize = 4000;

/// `Err` is text for the model. The tools are read once more before anything is refused: the upstream may have changed
/// and not said so.
pub async fn check(groups: &GroupManager, group: &Upstream, tool: &Tool, args: &Raw) -> Result<(), String> {
    if misfit(groups, group, tool, args).is_none() {
        return Ok(());
    }
    group.refresh().await;
    misfit(groups, group, tool, args).map_or(Ok(()), Err)
}

fn misfit(groups: &GroupManager, group: &Upstream, tool: &Tool, args: &Raw) -> Option<String> {
    let catalog = group.snapshot().catalog.clone()?;
    // What an earlier process read never refuses.
    let Read::Here(_) = catalog.read else { return None };
    let (_, definition) = catalog.definitions()?.find(|(known, _)| known.name == tool.name)?;
    let label = format_args!("{}__{}", group.name, tool.name);
    let ArgumentVerdict::Misfit(violations) = groups.argument_validator.validate(label, definition, args)
    else {
        return None;
    };
    let signature = shorten(&signature(definition).call, SIGNATURE);
    Some(errors::bad_arguments(&group.name, &tool.name, &violations.to_string(), &signature))
}
