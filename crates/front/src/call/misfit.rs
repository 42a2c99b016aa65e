//! What happens to arguments that do not fit the tool's schema: what has one reading is repaired, what no server can take
//! is refused, and the server decides about the rest. If it answers with an error, the answer gets what does not fit.
//!
//! A call whose arguments fit never comes here.

use super::found_tool::FoundTool;
use crate::errors::{changed_tools, tool_errors};
use crate::results::content::text_block;
use crate::session::context::RequestContext;
use base::blocking::{self, MAX_INLINE_BYTES};
use base::text::{joined_up_to, quoted, shorten};
use schema::signature::signature;
use schema::validate::{ArgumentVerdict, Violations};
use std::collections::HashSet;
use tracing::{Level, enabled};
use upstream::Upstream;
use upstream::catalog::CatalogSource;
use wire::protocol::code;
use wire::{Raw, Reply, json_string, raw};

/// How many characters of a signature an error shows.
const MAX_SIGNATURE: usize = 4000;
/// How many repaired arguments the log names.
const MAX_CHANGED: usize = 10;
/// The member of an error's `data` with what does not fit.
const ERROR_MEMBER: &str = "dynamic-mcp/arguments";

/// What becomes of arguments that do not fit.
#[derive(Default)]
pub(super) struct ResolvedArguments {
    /// The arguments to send in place of those that were given.
    pub(super) repaired: Option<Raw>,
    /// What does not fit of the arguments that are sent. Behind a pointer, because few calls have it.
    pub(super) misfit: Option<Box<Violations>>,
}

/// Checks the arguments against the tool's schema, and repairs what does not fit. The server decides about arguments whose
/// check takes too long.
///
/// # Errors
///
/// No server can take the arguments, or the tool has changed and is refused. The text for the model.
pub(super) async fn fit(
    context: &RequestContext,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
) -> Result<ResolvedArguments, String> {
    let verdict = match args.len() <= MAX_INLINE_BYTES {
        true => find(context, group, tool, args),
        false => Box::pin(on_arguments(context, group, tool, args, find)).await.flatten(),
    };
    match verdict {
        None => Ok(ResolvedArguments::default()),
        Some(verdict) => Box::pin(resolve(context, group, tool, args, verdict)).await,
    }
}

/// Checks the arguments against the schema in the live catalog. `None` if they fit, or if that is not known: a cached
/// catalog may be outdated, so it never rejects a call.
fn find(context: &RequestContext, group: &Upstream, tool: &FoundTool, args: &Raw) -> Option<ArgumentVerdict> {
    let CatalogSource::Live(_) = tool.catalog.source else { return None };
    match tool.validate(&context.requester.instance.validator, &group.name, args) {
        ArgumentVerdict::Fits | ArgumentVerdict::Unknown => None,
        verdict => Some(verdict),
    }
}

/// Does work on arguments: here if they are few, else on a thread that may block. `None` if it took too long.
async fn on_arguments<T: Send + 'static>(
    context: &RequestContext,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
    work: impl FnOnce(&RequestContext, &Upstream, &FoundTool, &Raw) -> T + Send + 'static,
) -> Option<T> {
    let (context, group, tool, args) = (context.clone(), group.clone(), tool.clone(), args.clone());
    blocking::run_on(args.len(), move || work(&context, &group, &tool, &args)).await.ok()
}

/// Decides whether `args` are sent, repaired or refused. `verdict` says how they fit the schema. The catalog is read
/// again before a call is refused or repaired, because the server may have changed the schema without a notification.
/// It is not read again if only nulls are removed.
///
/// # Errors
///
/// No server can take the arguments, or the tool has changed and is refused. The text for the model.
async fn resolve(
    context: &RequestContext,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
    verdict: ArgumentVerdict,
) -> Result<ResolvedArguments, String> {
    let drops_only_nulls = verdict == ArgumentVerdict::OptionalNulls;
    let resolved = correct(context, group, tool, args, verdict).await;
    let is_fatal = resolved.misfit.as_ref().is_some_and(|violations| violations.are_fatal());
    if drops_only_nulls || resolved.repaired.is_none() && !is_fatal {
        return Ok(resolved);
    }
    group.refresh_if_old().await;
    // The error would show the new definition.
    changed_tools::refusal(&group.name, &group.snapshot(), &tool.name).map_or(Ok(()), Err)?;
    let Some(tool) = FoundTool::find_exact(group.snapshot(), &tool.name) else {
        return Ok(ResolvedArguments::default());
    };
    let Some(verdict) = on_arguments(context, group, &tool, args, find).await.flatten() else {
        return Ok(ResolvedArguments::default());
    };
    let resolved = correct(context, group, &tool, args, verdict).await;
    match &resolved.misfit {
        Some(violations) if violations.are_fatal() => {
            let (violations, signature) = (violations.to_string(), shown_signature(&tool));
            Err(tool_errors::invalid_arguments(&group.name, &tool.name, &violations, &signature))
        }
        _ => Ok(resolved),
    }
}

/// Adds what does not fit of the arguments to the server's answer, if that is an error that they may have caused.
///
/// # Errors
///
/// The server's own error.
pub(super) fn explain(group: &Upstream, tool: &FoundTool, misfit: &Violations, reply: Reply) -> Reply {
    let finding = || {
        tool_errors::failed_with_misfit(&group.name, &tool.name, &misfit.to_string(), &shown_signature(tool))
    };
    match reply {
        Ok(result) if raw::get(&result, "isError").is_some_and(|value| &value[..] == b"true") => {
            let mut content = raw::elements(&result, "content").unwrap_or_default();
            content.push(text_block(&finding()));
            Ok(raw::set(&result, "content", &raw::array(&content)))
        }
        Err(error) if raw::error_code(&error) == Some(code::INVALID_PARAMS) => {
            let data = raw::get(&error, "data").unwrap_or(Raw::from_static(b"null"));
            let data = match &data[..] {
                b"null" | b"\"\"" => raw::set_str(&Raw::from_static(b"{}"), ERROR_MEMBER, &finding()),
                [b'{', ..] => raw::set_str(&data, ERROR_MEMBER, &finding()),
                _ => raw::array(&[data, json_string(&finding())]),
            };
            Err(raw::set(&error, "data", &data))
        }
        reply => reply,
    }
}

fn shown_signature(tool: &FoundTool) -> String {
    let call = tool.definition().map(|definition| signature(definition).call);
    shorten(&call.unwrap_or_default(), MAX_SIGNATURE)
}

/// Repairs what can be repaired, and finds what does not fit then. If that takes too long, the server decides.
async fn correct(
    context: &RequestContext,
    group: &Upstream,
    tool: &FoundTool,
    args: &Raw,
    verdict: ArgumentVerdict,
) -> ResolvedArguments {
    let correct = move |context: &RequestContext, group: &Upstream, tool: &FoundTool, args: &Raw| {
        let repaired = repair(context, group, tool, args);
        let verdict = match &repaired {
            Some(repaired) => tool.validate(&context.requester.instance.validator, &group.name, repaired),
            None => verdict,
        };
        let misfit = match verdict {
            ArgumentVerdict::Misfit(violations) => Some(Box::new(violations)),
            _ => None,
        };
        ResolvedArguments { repaired, misfit }
    };
    on_arguments(context, group, tool, args, correct).await.unwrap_or_default()
}

/// Returns the arguments with the values repaired that have exactly one repair, if there are any.
fn repair(context: &RequestContext, group: &Upstream, tool: &FoundTool, args: &Raw) -> Option<Raw> {
    let definition = tool.definition()?;
    let is_harmless = tool.read_only || annotation(definition, "destructiveHint") == Some(false);
    let drops_nulls = group.snapshot().rules.relies_on(&tool.name, is_harmless);
    let validator = &context.requester.instance.validator;
    let label = format_args!("{}__{}", group.name.as_str(), tool.name);
    let repaired = validator.repair(label, definition, args, drops_nulls)?;
    if enabled!(Level::DEBUG) {
        tracing::debug!("repaired arguments that do not fit: {}", changed_members(args, &repaired));
    }
    Some(repaired)
}

/// Returns a boolean of the annotations of a definition.
fn annotation(definition: &Raw, name: &str) -> Option<bool> {
    let value = raw::get(&raw::get(definition, "annotations")?, name)?;
    serde_json::from_slice(&value).ok()
}

/// Returns the names of the members that were changed or removed.
fn changed_members(before: &Raw, after: &Raw) -> String {
    let after: HashSet<_> = raw::entries(after).unwrap_or_default().into_iter().collect();
    let before = raw::entries(before).unwrap_or_default();
    let changed = before.iter().filter(|entry| !after.contains(entry)).map(|(name, _)| quoted(name));
    joined_up_to(MAX_CHANGED, changed)
}
