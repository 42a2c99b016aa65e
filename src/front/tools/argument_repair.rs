//! What happens to arguments that do not fit the tool's schema: they are repaired if there is one way to do so, else the
//! model is told what is wrong.
//!
//! A call whose arguments fit never comes here.

use super::found_tool::FoundTool;
use crate::front::interaction::context::RequestContext;
use crate::front::{changed_tools, tool_errors};
use crate::schema::signature::signature;
use crate::schema::validate::ArgumentVerdict;
use crate::text::{quoted_list, shorten};
use crate::upstream::Upstream;
use crate::upstream::catalog::{CatalogSource, Tool};
use crate::wire::{Raw, raw};

/// How many characters of a signature an error shows.
const MAX_SIGNATURE: usize = 4000;

/// Arguments that do not fit, as far as is known.
pub struct ArgumentMisfit {
    verdict: ArgumentVerdict,
    /// The tool's definition.
    definition: Raw,
}

/// Checks arguments against the schema in the live catalog. `None` if they fit, or if that is not known: a cached catalog
/// may be outdated, so it never rejects a call.
pub(super) fn find_misfit(
    context: &RequestContext,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
) -> Option<ArgumentMisfit> {
    let CatalogSource::Live(_) = tool.catalog.source else { return None };
    let definition = tool.definition()?;
    let label = format_args!("{}__{}", group.name.as_str(), tool.name);
    match context.session.validator.validate(label, definition, args) {
        ArgumentVerdict::Fits | ArgumentVerdict::Unknown => None,
        verdict => Some(ArgumentMisfit { verdict, definition: definition.clone() }),
    }
}

/// Returns the arguments to send in place of `args`; `None` to send `args`. The catalog is read again before a call is
/// rejected or repaired, because the server may have changed the schema without a notification.
///
/// # Errors
///
/// The text for the model.
pub(super) async fn resolve(
    context: &RequestContext,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
    misfit: ArgumentMisfit,
) -> Result<Option<Raw>, String> {
    if misfit.verdict == ArgumentVerdict::OptionalNulls {
        return Ok(repair(context, group, tool, args, &misfit.definition));
    }
    group.refresh().await;
    // The error would show the new definition.
    changed_tools::refusal(&group.name, &group.snapshot(), &tool.name).map_or(Ok(()), Err)?;
    let Some(tool) = FoundTool::named(group, &tool.name) else { return Ok(None) };
    let Some(ArgumentMisfit { verdict, definition }) = find_misfit(context, group, &tool, args) else {
        return Ok(None);
    };
    let repaired = repair(context, group, &tool, args, &definition);
    match verdict {
        ArgumentVerdict::Misfit(violations) if repaired.is_none() => {
            let signature = shorten(&signature(&definition).call, MAX_SIGNATURE);
            let violations = violations.to_string();
            Err(tool_errors::invalid_arguments(&group.name, &tool.name, &violations, &signature))
        }
        _ => Ok(repaired),
    }
}

/// Returns the only repair of arguments that do not fit, if there is one.
fn repair(
    context: &RequestContext,
    group: &Upstream,
    tool: &Tool,
    args: &Raw,
    definition: &Raw,
) -> Option<Raw> {
    let is_harmless = tool.read_only || hint(definition, "destructiveHint") == Some(false);
    let drops_nulls = group.snapshot().rules.accepts_claim(&tool.name, is_harmless);
    let validator = &context.session.validator;
    let label = format_args!("{}__{}", group.name.as_str(), tool.name);
    let repaired = validator.repair(label, definition, args, drops_nulls)?;
    let changed = changed_members(args, &repaired);
    tracing::debug!(group = %group.name, tool = tool.name, "repaired arguments that do not fit: {changed}");
    Some(repaired)
}

/// A hint in the annotations of a definition.
fn hint(definition: &Raw, name: &str) -> Option<bool> {
    let value = raw::get(&raw::get(definition, "annotations")?, name)?;
    serde_json::from_slice(&value).ok()
}

/// The names of the members that were changed or removed.
fn changed_members(before: &Raw, after: &Raw) -> String {
    let after = raw::entries(after).unwrap_or_default();
    let before = raw::entries(before).unwrap_or_default();
    quoted_list(before.iter().filter(|entry| !after.contains(entry)).map(|(name, _)| name.as_str()))
}
