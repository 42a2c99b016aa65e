//! Offers the user the login that a group needs: by URL elicitation if the client supports it, else as text.

use crate::errors::tool_errors;
use crate::session::context::RequestContext;
use crate::session::context::WaitProgress;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use upstream::login::{Consent, LoginFlow, LoginPurpose, LoginStage};
use upstream::{GroupManager, Upstream, UpstreamError};
use wire::protocol::Era;
use wire::raw;

/// How long a request waits for a login that the user agreed to. The login itself stays open for longer.
const LOGIN_WAIT: Duration = Duration::from_secs(2 * 60);
/// How long `get_status` waits for the address of a login.
const START_WAIT: Duration = Duration::from_secs(5);

/// The outcome of an offer.
pub enum LoginOutcome {
    /// The user has logged in.
    LoggedIn,
    /// The user has not logged in. The text is for the model.
    NotLoggedIn(String),
    /// The server has no login that a person could do in a browser.
    Impossible,
    /// No login is possible until the config or the system is changed, for this reason.
    Blocked(Arc<UpstreamError>),
}

/// A login that is offered on behalf of one request.
struct Offer<'a> {
    /// The context of the request.
    context: &'a RequestContext,
    /// The group that needs the login.
    group: &'a Upstream,
    /// The login.
    flow: LoginFlow,
    /// The address to open.
    url: String,
    /// When the login expires.
    expires: Instant,
}

/// Offers the user the login to a group. Waits until the address of the login is known. A client that opens URLs asks
/// the user to agree; then the login is awaited for two minutes at most, and stays open after that. For any other
/// client, the outcome is a text with the address, and the login is not awaited.
pub async fn offer(
    context: &RequestContext,
    group: &Upstream,
    purpose: LoginPurpose,
    progress: &mut WaitProgress<'_>,
) -> LoginOutcome {
    if context.session().is_none() {
        return LoginOutcome::Impossible;
    }
    let flow = match context.can_elicit_urls() {
        true => context.groups().start_login(group, purpose),
        false => context.groups().start_login_for_text(group, purpose),
    };
    let Some(flow) = flow else { return LoginOutcome::Impossible };
    let message = format!("the login to group {} is being prepared", group.name);
    let (url, expires) = match progress.during(&message, flow.started()).await {
        LoginStage::Open(url, expires) => (url, expires),
        stage => return outcome(group, purpose, stage),
    };
    let offer = Offer { context, group, flow, url, expires };
    if !context.can_elicit_urls() {
        return offer.as_text();
    }
    let message = format!("group {} waits for the user to agree to a login", group.name);
    let asked_here = match progress.during(&message, offer.ask_for_consent()).await {
        Ok(asked_here) => asked_here,
        Err(outcome) => return outcome,
    };
    let message = format!("group {} waits for its login in the browser", group.name);
    match progress.during(&message, timeout(LOGIN_WAIT, offer.flow.ended())).await {
        Ok(stage) => {
            if asked_here && matches!(stage, LoginStage::LoggedIn(_) | LoginStage::Failed { .. }) {
                context.complete_elicitation(&offer.flow.id);
            }
            outcome(group, purpose, stage)
        }
        Err(_) => LoginOutcome::NotLoggedIn(tool_errors::login_in_progress(&offer.url)),
    }
}

impl Offer<'_> {
    /// Asks the user to agree to the login. If several requests need it at once, one of them asks, and all get the
    /// answer. Returns whether this request asked.
    ///
    /// # Errors
    ///
    /// The outcome for the request, if the user did not agree or the client did not ask. It may also be a success: the
    /// login ended before the user answered.
    async fn ask_for_consent(&self) -> Result<bool, LoginOutcome> {
        loop {
            let Some(turn) = self.flow.take_turn() else {
                tokio::select! {
                    biased;
                    stage = self.flow.ended() => return Err(self.outcome(stage)),
                    consent = self.flow.consent() => match self.consent_outcome(consent) {
                        Some(outcome) => return outcome.map(|()| false),
                        None => continue,
                    },
                }
            };
            let action = tokio::select! {
                biased;
                // Another process or window may finish the login meanwhile.
                stage = self.flow.ended() => return Err(self.outcome(stage)),
                action = self.elicit() => action,
            };
            let consent = match action.as_deref() {
                Some("accept") => Consent::Given,
                Some("decline") => {
                    self.flow.decline();
                    return Err(self.outcome(LoginStage::Declined(Instant::now())));
                }
                Some("cancel") => Consent::Dismissed,
                _ => Consent::Unsupported,
            };
            turn.finish(consent);
            return self.consent_outcome(consent).unwrap_or(Ok(())).map(|()| true);
        }
    }

    /// Returns the outcome of the user's answer; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// The outcome for the request, if the user did not agree or the client did not ask.
    fn consent_outcome(&self, consent: Consent) -> Option<Result<(), LoginOutcome>> {
        match consent {
            Consent::Given => Some(Ok(())),
            Consent::Dismissed => {
                Some(Err(LoginOutcome::NotLoggedIn(tool_errors::LOGIN_DISMISSED.to_owned())))
            }
            Consent::Unsupported => Some(Err(self.as_text())),
            Consent::NotAsked | Consent::Asking => None,
        }
    }

    /// Shows the URL elicitation and returns the user's action. `None` if the client did not answer with one, or too
    /// many questions are open.
    async fn elicit(&self) -> Option<String> {
        let reason = match self.flow.purpose {
            LoginPurpose::Connect => "This server needs you to log in.",
            LoginPurpose::MoreScopes => {
                "This server refused a call because your login lacks a permission. Log in again to grant it; the \
                 page names the permissions."
            }
        };
        let message = format!(
            "{reason} The page returns to dynamic-mcp on this machine, which keeps the login. Neither the client nor \
             the model sees it."
        );
        let mut params = json!({ "mode": "url", "message": message, "url": self.url });
        if self.context.era == Era::Handshake {
            params["elicitationId"] = json!(&*self.flow.id);
        }
        let answer = self.context.elicit(&self.group.name, params).await.ok()?.ok()?;
        raw::get_str(&answer, "action")
    }

    /// Offers the login in a text for the model.
    fn as_text(&self) -> LoginOutcome {
        let remaining = self.expires.saturating_duration_since(Instant::now());
        LoginOutcome::NotLoggedIn(tool_errors::login_url(&self.url, remaining))
    }

    fn outcome(&self, stage: LoginStage) -> LoginOutcome {
        outcome(self.group, self.flow.purpose, stage)
    }
}

fn outcome(group: &Upstream, purpose: LoginPurpose, stage: LoginStage) -> LoginOutcome {
    let text = match stage {
        LoginStage::LoggedIn(_) => return LoginOutcome::LoggedIn,
        LoginStage::Impossible => return LoginOutcome::Impossible,
        LoginStage::Blocked(error, _) => return LoginOutcome::Blocked(error),
        LoginStage::Failed { error, .. } => tool_errors::login_failed(&error.to_string()),
        LoginStage::Declined(_) => tool_errors::login_declined(purpose).to_owned(),
        LoginStage::Starting | LoginStage::Open(..) | LoginStage::Expired => {
            tool_errors::login_expired(&group.name)
        }
    };
    LoginOutcome::NotLoggedIn(text)
}

/// Starts the login of a group that needs one, so that `get_status` can show its address. Waits for the address for
/// five seconds at most. Starts none if the user has logged in since the group failed.
pub(crate) async fn start_for_status(groups: &GroupManager, group: &Upstream) {
    if !group.snapshot().state.needs_login() || groups.retry_if_logged_in(group).await {
        return;
    }
    if let Some(flow) = groups.start_login_for_text(group, LoginPurpose::Connect) {
        // If it takes longer, the status shows what is known by then.
        drop(timeout(START_WAIT, flow.started()).await);
    }
}
