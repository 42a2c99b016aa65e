//! The state of a login that this process has started, so that its client can offer it to the user.
//!
//! A group has at most one login at a time, which all requests share. The login waits for the browser even if the
//! request that started it ends, and ends with the group's task. `groups::logins` runs it.

use crate::backoff::COOL_DOWN;
use crate::error::UpstreamError;
use base::random;
use http_client::error::RemoteError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a user who declined a login is not asked again.
const DECLINED_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// After a login has ended, how long no other one is started, even if the server rejects the new token.
const ENDED_INTERVAL: Duration = Duration::from_secs(60);

/// One login. Clones share it.
#[derive(Clone)]
pub struct LoginFlow {
    /// The id that the client knows.
    pub id: Arc<str>,
    /// What the login is for.
    pub purpose: LoginPurpose,
    /// How far the login has come.
    stage: watch::Sender<LoginStage>,
    /// Whether the user was asked to agree to the login.
    consent: watch::Sender<Consent>,
}

/// What a login is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginPurpose {
    /// The group cannot be used without a login.
    Connect,
    /// A request needs more scopes than the login has.
    MoreScopes,
}

/// How far a login has come.
#[derive(Debug, Clone)]
pub enum LoginStage {
    /// The address is not known yet.
    Starting,
    /// It waits for the browser to open this address and return, until this time at most.
    Open(String, Instant),
    /// The user has logged in.
    LoggedIn(Instant),
    /// The server has no login that a person could do in a browser.
    Impossible,
    /// No login is possible until the config or the system is changed, for this reason, as was found at this time.
    Blocked(Arc<UpstreamError>, Instant),
    /// It failed.
    Failed {
        /// Why it failed.
        error: RemoteError,
        /// Whether the browser had opened the address.
        opened: bool,
        /// When it failed.
        at: Instant,
    },
    /// The browser did not return in time, or the config changed.
    Expired,
    /// The user declined it.
    Declined(Instant),
}

/// Whether the user was asked to agree to a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// No request asks; the next one may.
    NotAsked,
    /// A request is asking.
    Asking,
    /// The user agreed.
    Given,
    /// The user closed the question.
    Dismissed,
    /// The client cannot show the question.
    Unsupported,
}

/// The right to ask the user. Until it is dropped, no other request asks.
pub struct ConsentTurn(watch::Sender<Consent>);

impl ConsentTurn {
    /// Tells all requests the user's answer.
    pub fn finish(self, answer: Consent) {
        self.0.send_replace(answer);
    }
}

impl Drop for ConsentTurn {
    fn drop(&mut self) {
        self.0.send_if_modified(|consent| {
            let is_unanswered = *consent == Consent::Asking;
            if is_unanswered {
                *consent = Consent::NotAsked;
            }
            is_unanswered
        });
    }
}

impl LoginStage {
    fn is_final(&self) -> bool {
        !matches!(self, Self::Starting | Self::Open(..))
    }

    /// Returns whether a request that needs a login gets this one instead of a new one.
    fn is_recent(&self) -> bool {
        match self {
            Self::Starting | Self::Open(..) => true,
            Self::Declined(at) => at.elapsed() < DECLINED_INTERVAL,
            Self::LoggedIn(at) | Self::Failed { opened: true, at, .. } => at.elapsed() < ENDED_INTERVAL,
            Self::Blocked(_, at) | Self::Failed { opened: false, at, .. } => at.elapsed() < COOL_DOWN,
            Self::Impossible | Self::Expired => false,
        }
    }
}

impl LoginFlow {
    /// A login whose address is not known yet.
    pub(crate) fn new(purpose: LoginPurpose) -> Self {
        let (stage, consent) =
            (watch::Sender::new(LoginStage::Starting), watch::Sender::new(Consent::NotAsked));
        Self { id: random::hex_id().into(), purpose, stage, consent }
    }

    /// Returns whether a request that needs a login for this purpose gets this one. An open login is current whatever its
    /// purpose. One of the same purpose stays current for a while after its end, unless it has expired or is impossible.
    pub(crate) fn is_current(&self, purpose: LoginPurpose) -> bool {
        let stage = self.stage.borrow();
        stage.is_recent() && (!stage.is_final() || self.purpose == purpose)
    }

    /// Returns whether a group that cannot connect waits for this login.
    pub(crate) fn is_awaited(&self) -> bool {
        self.purpose == LoginPurpose::Connect && !self.stage.borrow().is_final()
    }

    /// Returns the address that the browser has to open, if the login waits for that.
    pub(crate) fn open_url(&self) -> Option<String> {
        match &*self.stage.borrow() {
            LoginStage::Open(url, _) => Some(url.clone()),
            _ => None,
        }
    }

    /// Waits until the login is past `Starting`, and returns its stage.
    pub async fn started(&self) -> LoginStage {
        self.wait_for(|stage| !matches!(stage, LoginStage::Starting)).await
    }

    /// Waits until the login has ended, and returns its last stage.
    pub async fn ended(&self) -> LoginStage {
        self.wait_for(LoginStage::is_final).await
    }

    /// Returns the right to ask the user, unless another request asks. The answer to an earlier question is forgotten.
    pub fn take_turn(&self) -> Option<ConsentTurn> {
        let is_free = self.consent.send_if_modified(|consent| {
            let is_free = *consent != Consent::Asking;
            *consent = Consent::Asking;
            is_free
        });
        is_free.then(|| ConsentTurn(self.consent.clone()))
    }

    /// Waits until the request that asks the user has an answer or gives up. If no request asks, returns at once.
    pub async fn consent(&self) -> Consent {
        match self.consent.subscribe().wait_for(|consent| *consent != Consent::Asking).await {
            Ok(consent) => *consent,
            Err(_) => Consent::NotAsked,
        }
    }

    /// Ends the login, because the user declined it. Does nothing if it has ended.
    pub fn decline(&self) {
        self.enter(LoginStage::Declined(Instant::now()));
    }

    async fn wait_for(&self, is_reached: impl FnMut(&LoginStage) -> bool) -> LoginStage {
        match self.stage.subscribe().wait_for(is_reached).await {
            Ok(stage) => stage.clone(),
            Err(_) => LoginStage::Expired,
        }
    }

    /// Enters the next stage, unless the login has ended.
    pub(crate) fn enter(&self, next: LoginStage) {
        self.stage.send_if_modified(|stage| {
            let is_open = !stage.is_final();
            if is_open {
                *stage = next;
            }
            is_open
        });
    }
}
