//! Logins that this process has begun, for the client to offer them to its user. One for each group at a time, whoever
//! asks for it; it waits for the browser whether or not the request that began it does.

use super::{GroupManager, lock};
use crate::config::{Endpoint, GroupName, Http};
use crate::transport::remote::credentials::Logins;
use crate::transport::remote::fault::Fault;
use crate::upstream::Upstream;
use crate::upstream::lifecycle::COOL_DOWN;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// To find out where to log in and to register there: each request of it has its own deadline.
const BEGIN: Duration = Duration::from_secs(60);
/// How long a login waits for the browser.
pub const OPEN: Duration = Duration::from_secs(5 * 60);
/// Who declined is not asked again for so long.
const DECLINED: Duration = Duration::from_secs(5 * 60);

/// All of them, by group.
#[derive(Default)]
pub(super) struct Invitations {
    latest: HashMap<GroupName, (Http, Invitation)>,
    logins: JoinSet<()>,
}

/// One login. Clones share it.
#[derive(Clone)]
pub struct Invitation {
    /// Names it to the client.
    pub id: Arc<str>,
    stage: watch::Sender<Stage>,
    showing: Arc<AtomicBool>,
}

/// The user is being asked, until this is dropped.
pub struct Showing(Arc<AtomicBool>);

impl Drop for Showing {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// How far a login has come.
#[derive(Debug, Clone)]
pub enum Stage {
    Beginning,
    /// It waits for the browser to open this URL and come back.
    Open(String),
    LoggedIn,
    /// There is none that a person could do in a browser.
    Impossible,
    Failed(Fault, Instant),
    /// Nobody came.
    Late,
    Declined(Instant),
}

impl Stage {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Beginning | Self::Open(_))
    }

    fn is_standing(&self) -> bool {
        match self {
            Self::Declined(at) => at.elapsed() < DECLINED,
            Self::Failed(_, at) => at.elapsed() < COOL_DOWN,
            stage => !stage.is_over(),
        }
    }
}

impl GroupManager {
    /// The login of a group that needs one: the one that is open, or one that begins now. `None`: nobody logs in to
    /// such a group.
    pub fn invite(&self, group: &Upstream) -> Option<Invitation> {
        let server = group.snapshot().server.clone()?;
        let Endpoint::Http(http) = &server.endpoint else { return None };
        let mut invitations = lock(&self.invitations);
        while invitations.logins.try_join_next().is_some() {}
        if let Some((of, invitation)) = invitations.latest.get(&group.name) {
            if of == http && invitation.stage.borrow().is_standing() {
                return Some(invitation.clone());
            }
            // Of a config that is no more.
            invitation.reach(Stage::Late);
        }
        let invitation = Invitation::new();
        let login = run(invitation.clone(), self.transport.logins.clone(), group.clone(), http.clone());
        invitations.logins.spawn(login);
        invitations.latest.insert(group.name.clone(), (http.clone(), invitation.clone()));
        Some(invitation)
    }

    /// The same for who is only told of it. Its port may be the one that `dynamic-mcp login` needs, which is told as well:
    /// then the login is left to that.
    pub fn invite_in_words(&self, group: &Upstream) -> Option<Invitation> {
        let server = group.snapshot().server.clone()?;
        let Endpoint::Http(http) = &server.endpoint else { return None };
        let port = http.oauth.as_ref().and_then(|oauth| oauth.redirect_port);
        if port.is_none() { self.invite(group) } else { None }
    }

    /// The URL of the login to this group that waits for somebody to open it.
    pub fn open_login(&self, group: &GroupName) -> Option<String> {
        match &*lock(&self.invitations).latest.get(group)?.1.stage.borrow() {
            Stage::Open(url) => Some(url.clone()),
            _ => None,
        }
    }
}

impl Invitation {
    fn new() -> Self {
        let random = || RandomState::new().hash_one(0);
        let id = format!("{:016x}{:016x}", random(), random()).into();
        Self { id, stage: watch::Sender::new(Stage::Beginning), showing: Arc::default() }
    }

    /// What it has come to once it has begun.
    pub async fn begun(&self) -> Stage {
        self.stage_where(|stage| !matches!(stage, Stage::Beginning)).await
    }

    /// What it has come to in the end.
    pub async fn over(&self) -> Stage {
        self.stage_where(Stage::is_over).await
    }

    /// Whoever gets this asks the user; nobody else does meanwhile.
    pub fn show(&self) -> Option<Showing> {
        let is_first = !self.showing.swap(true, Ordering::AcqRel);
        is_first.then(|| Showing(self.showing.clone()))
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
async fn run(invitation: Invitation, logins: Arc<dyn Logins>, group: Upstream, http: Http) {
    tokio::select! {
        _ = invitation.over() => {}
        end = log_in(&invitation, &*logins, &group, &http) => invitation.reach(end),
    }
}

async fn log_in(invitation: &Invitation, logins: &dyn Logins, group: &Upstream, http: &Http) -> Stage {
    let login = match timeout(BEGIN, logins.begin(&group.name, http)).await {
        Ok(Ok(Some(login))) => login,
        Ok(Ok(None)) => return Stage::Impossible,
        Ok(Err(fault)) => return Stage::Failed(fault, Instant::now()),
        Err(_) => {
            let fault = Fault::unreachable("its authorization server takes too long");
            return Stage::Failed(fault, Instant::now());
        }
    };
    invitation.reach(Stage::Open(login.url));
    match timeout(OPEN, login.done).await {
        Ok(Ok(())) => {
            tracing::info!(group = %group.name, "somebody logged in, connecting");
            // Before anybody hears of it: who then asks for the group waits for this attempt.
            group.mended().await;
            Stage::LoggedIn
        }
        Ok(Err(fault)) => {
            tracing::warn!(group = %group.name, %fault, "a login that was begun failed");
            Stage::Failed(fault, Instant::now())
        }
        Err(_) => Stage::Late,
    }
}
