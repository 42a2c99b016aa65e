//! Offers the user the login that a group needs: by URL elicitation where the client has it, else in words.

use super::caller::Caller;
use super::errors;
use super::reach::News;
use crate::groups::GroupManager;
use crate::groups::invitations::{Invitation, OPEN, Stage};
use crate::protocol::Era;
use crate::upstream::Upstream;
use crate::wire::raw;
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

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

/// Has the user log in to a group, on behalf of a request that waits for it.
pub async fn offer(caller: &Caller, groups: &GroupManager, group: &Upstream, news: &mut News<'_>) -> Outcome {
    let invitation = match caller.shows_urls() {
        true => groups.invite(group),
        false => groups.invite_in_words(group),
    };
    let Some(invitation) = invitation else { return Outcome::Impossible };
    let what = format!("the login to group {} begins", group.name);
    let url = match news.while_waiting(&what, invitation.begun()).await {
        Stage::Open(url) => url,
        stage => return outcome(group, stage),
    };
    if !caller.shows_urls() {
        return Outcome::Not(errors::login_url(&url, OPEN));
    }
    // Of several calls at once, one asks.
    if let Some(_showing) = invitation.show() {
        let answer = tokio::select! {
            biased;
            // Whoever else saw to it.
            stage = invitation.over() => return outcome(group, stage),
            answer = ask(caller, group, &invitation, &url) => answer,
        };
        match answer.as_deref() {
            Some("accept") => {}
            Some("decline") => {
                invitation.decline();
                return Outcome::Not(errors::LOGIN_DECLINED.to_owned());
            }
            Some("cancel") => return Outcome::Not(errors::LOGIN_DISMISSED.to_owned()),
            _ => return Outcome::Not(errors::login_url(&url, OPEN)),
        }
    }
    let what = format!("group {} waits for its login in the browser", group.name);
    match news.while_waiting(&what, timeout(PATIENCE, invitation.over())).await {
        Ok(stage) => {
            caller.tell_complete(&invitation.id);
            outcome(group, stage)
        }
        Err(_) => Outcome::Not(errors::login_goes_on(&url)),
    }
}

/// The action that the user chose.
async fn ask(caller: &Caller, group: &Upstream, invitation: &Invitation, url: &str) -> Option<String> {
    let message = "The server wants you to log in. The page comes back to dynamic-mcp on this machine, which keeps \
                   what the login grants; neither the client nor the model sees it.";
    let mut params = json!({ "mode": "url", "message": message, "url": url });
    if caller.era == Era::Handshake {
        params["elicitationId"] = json!(&*invitation.id);
    }
    let answer = caller.elicit(&group.name, params).await.ok()?;
    raw::get_str(&answer, "action")
}

fn outcome(group: &Upstream, stage: Stage) -> Outcome {
    match stage {
        Stage::LoggedIn => Outcome::LoggedIn,
        Stage::Impossible => Outcome::Impossible,
        Stage::Failed(fault, _) => Outcome::Not(errors::login_failed(&fault.to_string())),
        Stage::Declined(_) => Outcome::Not(errors::LOGIN_DECLINED.to_owned()),
        Stage::Beginning | Stage::Open(_) | Stage::Late => Outcome::Not(errors::login_late(&group.name)),
    }
}

/// Begins the login of a group that waits for one, so that its status can say where it is.
pub async fn begin(groups: &GroupManager, group: &Upstream) {
    let waits = group.snapshot().state.needs_login();
    if let Some(invitation) = waits.then(|| groups.invite_in_words(group)).flatten() {
        // What it says then is as much as is known.
        drop(timeout(BEGIN, invitation.begun()).await);
    }
}
