//! Gets a lease on the group that a request names. While the group connects, the client gets progress; if a login is
//! missing, the user is offered one.

use super::login_offer::{self, LoginOutcome};
use crate::errors::request_error::Unavailable;
use crate::errors::tool_errors;
use crate::session::context::RequestContext;
use crate::session::context::WaitProgress;
use std::sync::Arc;
use tokio::time::Instant;
use upstream::login::LoginPurpose;
use upstream::{AcquireError, GroupManager, Lease, Need, Upstream, UpstreamError};
use wire::peer::Progress;

/// Returns a lease, connecting the group if there is no connection, once that has what is needed. If a reload replaces the group meanwhile, its
/// successor is returned. Waits for as long as the group's config allows (`timeout.wait`); the attempt continues after
/// that. Meanwhile, `progress` gets a message every five seconds. Offers no login.
///
/// # Errors
///
/// The group could not be connected, still connects, or is gone from the config; or dynamic-mcp shuts down.
pub async fn acquire(
    groups: &GroupManager,
    group: &Upstream,
    need: Need,
    progress: Option<&Progress>,
) -> Result<(Upstream, Lease), Unavailable> {
    wait_for_lease(groups, group, need, &mut WaitProgress::new(progress)).await
}

/// Returns a lease like [`acquire`], for a request of the user. If a login is missing and was not completed elsewhere
/// since, offers it to the user and waits for it (see [`login_offer::offer`]). A request that may not ask for input
/// offers none.
///
/// # Errors
///
/// Those of [`acquire`]. `login` says how an offer ended.
pub(crate) async fn acquire_for_user(
    context: &RequestContext,
    group: Upstream,
    need: Need,
) -> Result<(Upstream, Lease), Unavailable> {
    if let Some(lease) = group.try_lease() {
        return Ok((group, lease));
    }
    // Boxed, so that the future of a call that need not wait is small.
    Box::pin(connect_for_user(context, &group, need)).await
}

async fn connect_for_user(
    context: &RequestContext,
    group: &Upstream,
    need: Need,
) -> Result<(Upstream, Lease), Unavailable> {
    let groups = context.groups();
    let mut progress = WaitProgress::new(context.progress.as_ref());
    let mut outcome = wait_for_lease(groups, group, need, &mut progress).await;
    if let Err(unavailable) = &outcome
        && needs_login(&unavailable.error)
        && groups.retry_if_logged_in(&unavailable.group).await
    {
        outcome = wait_for_lease(groups, group, need, &mut progress).await;
    }
    let unavailable = match outcome {
        Err(unavailable) if context.may_ask() && needs_login(&unavailable.error) => unavailable,
        outcome => return outcome,
    };
    let group = &unavailable.group;
    match login_offer::offer(context, group, LoginPurpose::Connect, &mut progress).await {
        LoginOutcome::LoggedIn => wait_for_lease(groups, group, need, &mut progress).await,
        LoginOutcome::NotLoggedIn(login) => Err(Unavailable { login: Some(login), ..unavailable }),
        LoginOutcome::Impossible => Err(unavailable),
        LoginOutcome::Blocked(error) => {
            Err(Unavailable { error: AcquireError::Failed(error), ..unavailable })
        }
    }
}

/// Offers the user a login with the permissions that the group needs for a request, and waits for it (see
/// [`login_offer::offer`]).
///
/// # Errors
///
/// The user did not log in. The text is for the model. There is none if the request may not ask for input, or if the
/// server has no login that a person could do in a browser.
pub async fn log_in(context: &RequestContext, group: &Upstream) -> Result<(), Option<String>> {
    if !context.may_ask() {
        return Err(None);
    }
    let mut progress = WaitProgress::new(context.progress.as_ref());
    match login_offer::offer(context, group, LoginPurpose::MoreScopes, &mut progress).await {
        LoginOutcome::LoggedIn => Ok(()),
        LoginOutcome::NotLoggedIn(login) => Err(Some(login)),
        LoginOutcome::Impossible => Err(None),
        LoginOutcome::Blocked(error) => Err(Some(tool_errors::login_failed(&error.to_string()))),
    }
}

fn needs_login(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Failed(error) if error.needs_login())
}

async fn wait_for_lease(
    groups: &GroupManager,
    group: &Upstream,
    need: Need,
    progress: &mut WaitProgress<'_>,
) -> Result<(Upstream, Lease), Unavailable> {
    let message = format!("group {} is starting", group.name);
    let acquired = progress.during(&message, follow_reloads(groups, group.clone(), need)).await;
    acquired.map_err(|(group, error)| Unavailable {
        group,
        error,
        login: None,
        log_file: groups.log_file().map(Box::from),
    })
}

/// Waits for a lease of the group or, each time that a reload replaces it, of its successor. However many they are, the
/// wait as a whole is no longer than the newest entry allows.
///
/// # Errors
///
/// See [`AcquireError`]. The group is the last of them.
async fn follow_reloads(
    groups: &GroupManager,
    mut group: Upstream,
    need: Need,
) -> Result<(Upstream, Lease), (Upstream, AcquireError)> {
    let started = Instant::now();
    let error = loop {
        let remaining = group.snapshot().wait().saturating_sub(started.elapsed());
        match group.acquire(need, remaining).await {
            Ok(lease) => return Ok((group, lease)),
            Err(AcquireError::Gone) if groups.is_shutting_down() => break AcquireError::ShuttingDown,
            Err(AcquireError::Gone) => match groups.get(&group.name) {
                // Nothing but a panic ends the task of a group that the manager has.
                Some(same) if same.is_same(&group) => {
                    break AcquireError::Failed(Arc::new(UpstreamError::Internal));
                }
                Some(successor) => group = successor,
                None => break AcquireError::Gone,
            },
            Err(AcquireError::StillConnecting(mut progress)) => {
                progress.elapsed = progress.elapsed.max(started.elapsed());
                break AcquireError::StillConnecting(progress);
            }
            Err(error) => break error,
        }
    };
    Err((group, error))
}
