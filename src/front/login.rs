//! Offers the user the login that a group needs: by URL elicitation where the client has it, else in words.

use super::caller::Caller;
use super::errors;
use super::reach::News;
use crate::groups::GroupManager;
use crate::groups::login_flows::{Asking, Invitation, Purpose, Stage};
use crate::protocol::Era;
use crate::upstream::Upstream;
use crate::wire::raw;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a request waits for a login that the user has agreed to. The login itself waits longer.
const PATIENCE: Duration = Duration::from_secs(2 * 60);
/// How long whoever asks for the status of a group waits for the address of its login.
const BEGIN: Duration = Duration::from_secs(5);

/// What came of it.
pub enum Outcome {
    LoggedIn,
    /// What the model is told.
    Not(String),
    /// Nobody can log in there in a browser.
    Impossible,
}

/// One login on behalf of one request.
struct Offer<'a> {
    caller: &'a Caller,
    group: &'a Upstream,
    invitation: Invitation,
    url: String,
    until: Instant,
}

/// Has the user log in to a group, on behalf of a request that waits for it.
pub async fn offer(
    caller: &Caller,
    groups: &GroupManager,
    group: &Upstream,
    purpose: Purpose,
    news: &mut News<'_>,
) -> Outcome {
    let invitation = match caller.shows_urls() {
        true => groups.invite(group, purpose),
        false => groups.invite_in_words(group, purpose),
    };
    let Some(invitation) = invitation else { return Outcome::Impossible };
    let what = format!("the login to group {} begins", group.name);
    let (url, until) = match news.while_waiting(&what, invitation.begun()).await {
        Stage::Open(url, until) => (url, until),
        stage => return outcome(group, purpose, stage),
    };
    let offer = Offer { caller, group, invitation, url, until };
    if !caller.shows_urls() {
        return offer.in_words();
    }
    let what = format!("group {} waits for the user to agree to a login", group.name);
    let asked = news.while_waiting(&what, offer.agree()).await;
    let asks = match asked {
        Ok(asks) => asks,
        Err(outcome) => return outcome,
    };
    let what = format!("group {} waits for its login in the browser", group.name);
    match news.while_waiting(&what, timeout(PATIENCE, offer.invitation.over())).await {
        Ok(stage) => {
            if asks && matches!(stage, Stage::LoggedIn(_) | Stage::Failed { .. }) {
                caller.tell_complete(&offer.invitation.id);
            }
            outcome(group, purpose, stage)
        }
        Err(_) => Outcome::Not(errors::login_goes_on(&offer.url)),
    }
}

impl Offer<'_> {
    /// Of several requests at once, one asks the user; all hear of it. `Ok`: the user agreed, and whether this one asked.
    async fn agree(&self) -> Result<bool, Outcome> {
        loop {
            let Some(turn) = self.invitation.turn() else {
                tokio::select! {
                    biased;
                    stage = self.invitation.over() => return Err(self.outcome(stage)),
                    asked = self.invitation.asked() => match self.judged(asked) {
                        Some(outcome) => return outcome.map(|()| false),
                        None => continue,
                    },
                }
            };
            let answer = tokio::select! {
                biased;
                // Whoever else saw to it.
                stage = self.invitation.over() => return Err(self.outcome(stage)),
                answer = self.ask() => answer,
            };
            let answer = match answer.as_deref() {
                Some("accept") => Asking::Agreed,
                Some("decline") => {
                    self.invitation.decline();
                    return Err(self.outcome(Stage::Declined(Instant::now())));
                }
                Some("cancel") => Asking::Dismissed,
                _ => Asking::Unable,
            };
            turn.answered(answer);
            return self.judged(answer).unwrap_or(Ok(())).map(|()| true);
        }
    }

    /// What follows from an answer of the user; `None`: there is none.
    fn judged(&self, asked: Asking) -> Option<Result<(), Outcome>> {
        match asked {
            Asking::Agreed => Some(Ok(())),
            Asking::Dismissed => Some(Err(Outcome::Not(errors::LOGIN_DISMISSED.to_owned()))),
            Asking::Unable => Some(Err(self.in_words())),
            Asking::Nobody | Asking::Somebody => None,
        }
    }

    /// The action that the user chose.
    async fn ask(&self) -> Option<String> {
        let wish = match self.invitation.purpose {
            Purpose::Connecting => "The server wants you to log in.",
            Purpose::Rights => {
                "The server refuses this call for want of rights. To grant them, log in once more: \
                 the page says which they are."
            }
        };
        let message = format!(
            "{wish} The page comes back to dynamic-mcp on this machine, which keeps what the login grants; neither the \
             client nor the model sees it."
        );
        let mut params = json!({ "mode": "url", "message": message, "url": self.url });
        if self.caller.era == Era::Handshake {
            params["elicitationId"] = json!(&*self.invitation.id);
        }
        let answer = self.caller.elicit(&self.group.name, params).await.ok()?;
        raw::get_str(&answer, "action")
    }

    fn in_words(&self) -> Outcome {
        Outcome::Not(errors::login_url(&self.url, self.until.saturating_duration_since(Instant::now())))
    }

    fn outcome(&self, stage: Stage) -> Outcome {
        outcome(self.group, self.invitation.purpose, stage)
    }
}

fn outcome(group: &Upstream, purpose: Purpose, stage: Stage) -> Outcome {
    match stage {
        Stage::LoggedIn(_) => Outcome::LoggedIn,
        Stage::Impossible => Outcome::Impossible,
        Stage::Failed { why, .. } => Outcome::Not(errors::login_failed(&why.to_string())),
        Stage::Declined(_) => Outcome::Not(errors::login_declined(purpose).to_owned()),
        Stage::Beginning | Stage::Open(..) | Stage::Late => Outcome::Not(errors::login_late(&group.name)),
    }
}

/// Begins the login of a group that waits for one, so that its status can say where it is.
pub async fn begin(groups: &GroupManager, group: &Upstream) {
    if !group.snapshot().state.needs_login() || groups.notice_login(group).await {
        return;
    }
    if let Some(invitation) = groups.invite_in_words(group, Purpose::Connecting) {
        // What it says then is as much as is known.
        drop(timeout(BEGIN, invitation.begun()).await);
    }
}
