//! LoginService that this process has begun, for the client to offer them to its user. One for each group at a time, whoever
//! asks for it; it waits for the browser whether or not the request that began it does.

use super::GroupManager;
use crate::config::{Endpoint, GroupName, HttpConfig};
use crate::transport::remote::credentials::LoginService;
use crate::transport::remote::error::RemoteError;
use crate::upstream::Upstream;
use crate::upstream::lifecycle::COOL_DOWN;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// To find out where to log in and to register there: each request of it has its own deadline.
const BEGIN: Duration = Duration::from_secs(60);
/// How long a login waits for the browser.
const OPEN: Duration = Duration::from_secs(5 * 60);
/// Who declined is not asked again for so long.
const DECLINED: Duration = Duration::from_secs(5 * 60);
/// A server that still refuses after a login, or a browser that came back without one, is no reason for another one.
const DONE: Duration = Duration::from_secs(60);
/// How often it is looked whether somebody logged in elsewhere.
const GAP: Duration = Duration::from_secs(2);

/// All of them, by group.
#[derive(Default)]
pub(super) struct Invitations {
    latest: HashMap<GroupName, (HttpConfig, Invitation)>,
    logins: JoinSet<()>,
}

/// One login. Clones share it.
#[derive(Clone)]
pub struct Invitation {
    /// Names it to the client.
    pub id: Arc<str>,
    pub purpose: Purpose,
    stage: watch::Sender<Stage>,
    asking: watch::Sender<Asking>,
}

/// What a login is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The group cannot be used without.
    Connecting,
    /// A single request takes more rights than were granted.
    Rights,
}

/// How far a login has come.
#[derive(Debug, Clone)]
pub enum Stage {
    Beginning,
    /// It waits for the browser to open this URL and come back, until then.
    Open(String, Instant),
    LoggedIn(Instant),
    /// There is none that a person could do in a browser.
    Impossible,
    /// Nobody was asked to open anything, or the browser came back without a login.
    Failed {
        why: RemoteError,
        opened: bool,
        at: Instant,
    },
    /// Nobody came.
    Late,
    Declined(Instant),
}

/// How far the user has been asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Nobody asks: the next one may.
    Nobody,
    Somebody,
    Agreed,
    Dismissed,
    /// The client does not show it.
    Unable,
}

/// Whoever has this asks the user; until it is dropped nobody else does.
pub struct Turn(watch::Sender<Asking>);

impl Turn {
    /// Tells all who wait what came of it.
    pub fn answered(self, answer: Asking) {
        self.0.send_replace(answer);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.send_if_modified(|asking| {
            let unanswered = *asking == Asking::Somebody;
            if unanswered {
                *asking = Asking::Nobody;
            }
            unanswered
        });
    }
}

impl Stage {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Beginning | Self::Open(..))
    }

    /// Whether it is what whoever needs a login now gets.
    fn stands(&self) -> bool {
        match self {
            Self::Beginning | Self::Open(..) => true,
            Self::Declined(at) => at.elapsed() < DECLINED,
            Self::LoggedIn(at) | Self::Failed { opened: true, at, .. } => at.elapsed() < DONE,
            Self::Failed { opened: false, at, .. } => at.elapsed() < COOL_DOWN,
            Self::Impossible | Self::Late => false,
        }
    }
}

impl GroupManager {
    /// The login of a group that needs one: the one that is open, or one that begins now. `None`: nobody logs in to
    /// such a group.
    pub fn invite(&self, group: &Upstream, purpose: Purpose) -> Option<Invitation> {
        let http = self.address(&group.name)?;
        let mut invitations = self.invitations.lock();
        while invitations.logins.try_join_next().is_some() {}
        if let Some((of, invitation)) = invitations.latest.get(&group.name) {
            let open = !invitation.stage.borrow().is_over();
            let stands = invitation.stage.borrow().stands() && (open || invitation.purpose == purpose);
            if *of == http && stands {
                return Some(invitation.clone());
            }
            invitation.reach(Stage::Late);
        }
        let invitation = Invitation::new(purpose);
        let login = run(invitation.clone(), self.transport.logins.clone(), group.clone(), http.clone());
        invitations.logins.spawn(login);
        invitations.latest.insert(group.name.clone(), (http, invitation.clone()));
        Some(invitation)
    }

    /// The same for who is only told of it. Its port may be the one that `dynamic-mcp login` needs, which is told as well:
    /// then the login is left to that.
    pub fn invite_in_words(&self, group: &Upstream, purpose: Purpose) -> Option<Invitation> {
        let port = self.address(&group.name)?.oauth.and_then(|oauth| oauth.redirect_port);
        if port.is_none() { self.invite(group, purpose) } else { None }
    }

    /// The URL of the login to this group that waits for somebody to open it, if it would help.
    pub fn open_login(&self, group: &Upstream) -> Option<String> {
        let (_, invitation) = self.invitations.lock().latest.get(&group.name)?.clone();
        let helps = invitation.purpose == Purpose::Rights || group.snapshot().state.needs_login();
        match &*invitation.stage.borrow() {
            Stage::Open(url, _) if helps => Some(url.clone()),
            _ => None,
        }
    }

    /// Ends the logins that are to servers of a config that is no more.
    pub(super) fn end_strange_logins(&self) {
        for (name, (of, invitation)) in &self.invitations.lock().latest {
            if self.address(name).as_ref() != Some(of) {
                invitation.reach(Stage::Late);
            }
        }
    }

    /// Where a remote group is.
    pub(super) fn address(&self, group: &GroupName) -> Option<HttpConfig> {
        match &self.config().server(group)?.as_ref().ok()?.endpoint {
            Endpoint::Http(http) => Some(http.clone()),
            Endpoint::Stdio(_) => None,
        }
    }
}

impl Invitation {
    fn new(purpose: Purpose) -> Self {
        let random = || RandomState::new().hash_one(0);
        let id = format!("{:016x}{:016x}", random(), random()).into();
        let (stage, asking) = (watch::Sender::new(Stage::Beginning), watch::Sender::new(Asking::Nobody));
        Self { id, purpose, stage, asking }
    }

    /// What it has come to once it has begun.
    pub async fn begun(&self) -> Stage {
        self.stage_where(|stage| !matches!(stage, Stage::Beginning)).await
    }

    /// What it has come to in the end.
    pub async fn over(&self) -> Stage {
        self.stage_where(Stage::is_over).await
    }

    /// The turn to ask the user, unless somebody asks already.
    pub fn turn(&self) -> Option<Turn> {
        let is_free = self.asking.send_if_modified(|asking| {
            let is_free = *asking != Asking::Somebody;
            *asking = Asking::Somebody;
            is_free
        });
        is_free.then(|| Turn(self.asking.clone()))
    }

    /// What came of the asking that goes on.
    pub async fn asked(&self) -> Asking {
        match self.asking.subscribe().wait_for(|asking| *asking != Asking::Somebody).await {
            Ok(asking) => *asking,
            Err(_) => Asking::Nobody,
        }
    }

    /// The user does not want to.
    pub fn decline(&self) {
        self.reach(Stage::Declined(Instant::now()));
    }

    async fn stage_where(&self, is_reached: impl FnMut(&Stage) -> bool) -> Stage {
        match self.stage.subscribe().wait_for(is_reached).await {
            Ok(stage) => stage.clone(),
            Err(_) => Stage::Late,
        }
    }

    /// What is over stays as it is.
    fn reach(&self, next: Stage) {
        self.stage.send_if_modified(|stage| {
            let goes_on = !stage.is_over();
            if goes_on {
                *stage = next;
            }
            goes_on
        });
    }
}

/// Does the login, unless it is ended from outside.
async fn run(invitation: Invitation, logins: Arc<dyn LoginService>, group: Upstream, http: HttpConfig) {
    tokio::select! {
        biased;
        _ = invitation.over() => {}
        end = log_in(&invitation, &*logins, &group, &http) => invitation.reach(end),
        () = logged_in_elsewhere(&*logins, &group, &http), if invitation.purpose == Purpose::Connecting => {
            tracing::info!(group = %group.name, "somebody logged in, connecting");
            group.mended().await;
            invitation.reach(Stage::LoggedIn(Instant::now()));
        }
    }
}

async fn log_in(
    invitation: &Invitation,
    logins: &dyn LoginService,
    group: &Upstream,
    http: &HttpConfig,
) -> Stage {
    let failed = |why, opened| Stage::Failed { why, opened, at: Instant::now() };
    let login = match timeout(BEGIN, logins.begin_login(&group.name, http)).await {
        Ok(Ok(Some(login))) => login,
        Ok(Ok(None)) => return Stage::Impossible,
        Ok(Err(fault)) => return failed(fault, false),
        Err(_) => return failed(RemoteError::unreachable("its authorization server takes too long"), false),
    };
    invitation.reach(Stage::Open(login.url, Instant::now() + OPEN));
    match timeout(OPEN, login.done).await {
        Ok(Ok(())) => {
            tracing::info!(group = %group.name, "somebody logged in, connecting");
            // Before anybody hears of it: who then asks for the group waits for this attempt.
            group.mended().await;
            Stage::LoggedIn(Instant::now())
        }
        Ok(Err(fault)) => {
            tracing::warn!(group = %group.name, %fault, "a login that was begun failed");
            failed(fault, true)
        }
        Err(_) => Stage::Late,
    }
}

/// In another process: what is kept changes while this login waits.
async fn logged_in_elsewhere(logins: &dyn LoginService, group: &Upstream, http: &HttpConfig) {
    let before = logins.last_changed(&group.name, http).await;
    loop {
        sleep(GAP).await;
        let now = logins.last_changed(&group.name, http).await;
        if now.is_some() && now != before {
            return;
        }
    }
}
