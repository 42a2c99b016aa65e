//! A request passed on to the group it is meant for, and its answer back, unaltered.

use super::caller::Caller;
use super::{errors, lookup, reach, stateless};
use crate::groups::GroupManager;
use crate::protocol::{Era, OLDEST_HANDSHAKE};
use crate::upstream::Upstream;
use crate::upstream::catalog::Introduction;
use crate::wire::peer::{CallError, CallOptions};
use crate::wire::{Raw, Reply, raw};
use errors::Refusal;
use std::sync::Arc;
use std::time::Duration;

/// A client's request.
#[derive(Clone)]
pub struct Asked {
    pub groups: Arc<GroupManager>,
    pub params: Raw,
    pub caller: Caller,
}

impl Asked {
    /// The group that `params.group` names.
    pub fn group(&self) -> Result<Option<Upstream>, Refusal> {
        let name = raw::get(&self.params, "group").filter(|name| &name[..] != b"null");
        let Some(name) = name else { return Ok(None) };
        let name: String =
            serde_json::from_slice(&name).map_err(|_| errors::bad_params("params.group must be a string"))?;
        lookup::group(&self.groups.all(), &name).cloned().map(Some).map_err(errors::bad_params)
    }

    /// Params for an upstream, which knows no groups.
    pub fn without_group(&self) -> Raw {
        raw::remove(&self.params, "group")
    }

    /// Params for an upstream that knows a resource by this URI.
    pub fn with_uri(&self, uri: &str) -> Raw {
        raw::set(&self.without_group(), "uri", serde_json::Value::from(uri).to_string().as_bytes())
    }

    /// A string that must be there.
    pub fn text(&self, key: &str) -> Result<String, Refusal> {
        raw::get_str(&self.params, key)
            .ok_or_else(|| errors::bad_params(format!("params.{key} must be a string")))
    }
}

/// What is asked of the group.
pub struct Passed<'a> {
    pub method: &'a str,
    /// What the group must have declared.
    pub capability: &'static str,
    pub params: Raw,
}

/// Connects the group if need be. Asked once more if the connection broke, unless that may do something twice: all else
/// only reads, but for subscriptions, which may be made twice.
pub async fn pass(asked: &Asked, group: &Upstream, passed: Passed<'_>) -> Reply {
    let (mut repeated, mut offered) = (false, false);
    let repeatable = !matches!(passed.method, "tasks/update" | "tasks/cancel");
    loop {
        let reached = reach::lease_for(&asked.caller, &asked.groups, group).await;
        let (group, lease) =
            reached.map_err(|unreachable| shut_down_or(asked, errors::unreachable(&unreachable)))?;
        let snapshot = group.snapshot();
        if snapshot.catalog.as_ref().is_some_and(|catalog| !has(&catalog.introduction, passed.capability)) {
            return Err(errors::lacks(&group.name, passed.capability).into());
        }
        let limits = snapshot.server.as_ref().map(|server| server.timeout.clone()).unwrap_or_default();
        let quiet = match (passed.capability, passed.method) {
            // Waits until the task has ended.
            (_, "tasks/result") => LONGEST,
            ("tasks", _) => limits.tools,
            ("prompts", _) => limits.prompts,
            _ => limits.resources,
        };
        let options = CallOptions { total: LONGEST.max(quiet), ..CallOptions::within(quiet) };
        match asked.caller.ask(&group.name, &lease, passed.method, passed.params.clone(), options).await {
            Ok(Ok(result)) => {
                asked.groups.note_uris(&group.name, &result);
                if lease.era() == Era::Handshake {
                    return Ok(result);
                }
                let given = stateless::from_stateless(&group.name, asked.caller.era, result);
                return given.map_err(|why| errors::not_bridged(&group.name, passed.method, why).into());
            }
            Ok(Err(error)) if lease.era() == Era::Stateless => {
                return Err(stateless::refused_by_stateless(passed.method, asked.caller.era, error));
            }
            Ok(refused) => return refused,
            Err(CallError::Closed { sent })
                if !repeated && (repeatable || !sent) && !asked.groups.is_shutting_down() =>
            {
                repeated = true;
            }
            Err(error) => {
                let lost = lease.lost().map(|lost| lost.to_string());
                let mut refusal = errors::unanswered(&group.name, passed.method, &error, lost);
                if !offered && error.needs_login() {
                    offered = true;
                    match reach::login_for(&asked.caller, &asked.groups, &group).await {
                        Ok(()) => continue,
                        Err(login) => refusal = refusal.with_login(login),
                    }
                }
                return Err(shut_down_or(asked, refusal));
            }
        }
    }
}

/// However much progress is shown.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whether a group that is connected has what it is asked for.
pub fn offers(group: &Upstream, capability: &str) -> bool {
    group.snapshot().catalog.as_ref().is_none_or(|catalog| has(&catalog.introduction, capability))
}

/// Who declares nothing at all may still have it, and completions had no capability of their own at first: then they
/// belong to prompts and resources.
fn has(introduction: &Introduction, capability: &str) -> bool {
    if capability == "tasks" {
        // Whose task it is says so itself, in either era.
        return true;
    }
    let before = capability == "completions" && introduction.protocol_version == OLDEST_HANDSHAKE;
    introduction.offers(capability)
        || before && (introduction.declares("prompts") || introduction.declares("resources"))
}

fn shut_down_or(asked: &Asked, refusal: Refusal) -> Raw {
    if asked.groups.is_shutting_down() { errors::shutting_down().into() } else { refusal.into() }
}
