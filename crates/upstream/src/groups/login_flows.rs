//! The logins that this process has started, so that its client can offer them to the user.
//!
//! A group has at most one login at a time, which all requests share. The login waits for the browser even if the
//! request that started it ends.

use super::manager::GroupManager;
use crate::backoff::COOL_DOWN;
use crate::error::UpstreamError;
use crate::handle::Upstream;
use base::random;
use config::{Config, Endpoint, GroupName, HttpConfig};
use http_client::credentials::LoginService;
use http_client::error::{RemoteError, RemoteErrorKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// The limit for finding the authorization server and registering there. Each HTTP request also has its own limit.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a login waits for the browser.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a user who declined a login is not asked again.
const DECLINED_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// After a login has ended, how long no other one is started, even if the server rejects the new token.
const ENDED_INTERVAL: Duration = Duration::from_secs(60);
/// The interval between checks for a login in another process.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The logins of one session, by group.
#[derive(Default)]
pub struct LoginFlows(Mutex<FlowsByGroup>);

#[derive(Default)]
struct FlowsByGroup {
    /// The last login of each group, and the entry of the config that it belongs to.
    latest: HashMap<GroupName, (HttpConfig, LoginFlow)>,
    /// The tasks that run the logins.
    tasks: JoinSet<()>,
}

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
    fn is_current(&self) -> bool {
        match self {
            Self::Starting | Self::Open(..) => true,
            Self::Declined(at) => at.elapsed() < DECLINED_INTERVAL,
            Self::LoggedIn(at) | Self::Failed { opened: true, at, .. } => at.elapsed() < ENDED_INTERVAL,
            Self::Blocked(_, at) | Self::Failed { opened: false, at, .. } => at.elapsed() < COOL_DOWN,
            Self::Impossible | Self::Expired => false,
        }
    }
}

impl LoginFlows {
    /// Returns the current login of a group, or starts one, which replaces the last. Returns before the login has an
    /// address. An open login is current whatever its purpose. One of the same purpose stays current for a while after
    /// its end, unless it has expired or is impossible. Returns `None` if the group is not a remote server.
    pub fn start(
        &self,
        groups: &Arc<GroupManager>,
        group: &Upstream,
        purpose: LoginPurpose,
    ) -> Option<LoginFlow> {
        let server = remote_config(&groups.config(), &group.name)?;
        let mut flows = self.0.lock();
        while flows.tasks.try_join_next().is_some() {}
        if let Some((of, flow)) = flows.latest.get(&group.name) {
            let is_open = !flow.stage.borrow().is_final();
            let is_current = flow.stage.borrow().is_current() && (is_open || flow.purpose == purpose);
            if *of == server && is_current {
                return Some(flow.clone());
            }
            flow.enter(LoginStage::Expired);
        }
        let flow = LoginFlow::new(purpose);
        flows.tasks.spawn(run(flow.clone(), groups.clone(), group.clone(), server.clone()));
        flows.latest.insert(group.name.clone(), (server, flow.clone()));
        Some(flow)
    }

    /// Starts a login like [`start`](Self::start), for an answer that names the address only in its text. Returns
    /// `None` for a server with a fixed redirect port, because the text also names `dynamic-mcp login`, which needs the
    /// port.
    pub fn start_for_text(
        &self,
        groups: &Arc<GroupManager>,
        group: &Upstream,
        purpose: LoginPurpose,
    ) -> Option<LoginFlow> {
        let port = remote_config(&groups.config(), &group.name)?.oauth.and_then(|oauth| oauth.redirect_port);
        if port.is_none() { self.start(groups, group, purpose) } else { None }
    }

    /// Returns the address of the group's open login, if logging in would help.
    pub fn open_url(&self, group: &Upstream) -> Option<String> {
        let (_, flow) = self.0.lock().latest.get(&group.name)?.clone();
        let helps = flow.purpose == LoginPurpose::MoreScopes || group.snapshot().state.needs_login();
        match &*flow.stage.borrow() {
            LoginStage::Open(url, _) if helps => Some(url.clone()),
            _ => None,
        }
    }
}

impl GroupManager {
    /// Returns the config of a remote group with its secrets. `config`: the same without them, which is returned if the
    /// group is unknown, invalid or local now.
    ///
    /// # Errors
    ///
    /// `Config` if a secret is not known.
    async fn fetched_remote_config(
        &self,
        group: &GroupName,
        config: HttpConfig,
    ) -> Result<HttpConfig, RemoteError> {
        let Some(Ok(server)) = self.config().server(group).cloned() else { return Ok(config) };
        let fetched = self.environment.transport.secrets.resolve(server).await;
        match &fetched.map_err(|error| RemoteError::config(error.to_string()))?.endpoint {
            Endpoint::Http(http) => Ok(http.clone()),
            Endpoint::Stdio(_) => Ok(config),
        }
    }
}

/// Returns the config of a remote group. `None` if the group is unknown, invalid or local.
pub(super) fn remote_config(config: &Config, group: &GroupName) -> Option<HttpConfig> {
    match &config.server(group)?.as_ref().ok()?.endpoint {
        Endpoint::Http(http) => Some(http.clone()),
        Endpoint::Stdio(_) => None,
    }
}

impl LoginFlow {
    fn new(purpose: LoginPurpose) -> Self {
        let (stage, consent) =
            (watch::Sender::new(LoginStage::Starting), watch::Sender::new(Consent::NotAsked));
        Self { id: random::hex_id().into(), purpose, stage, consent }
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
    fn enter(&self, next: LoginStage) {
        self.stage.send_if_modified(|stage| {
            let is_open = !stage.is_final();
            if is_open {
                *stage = next;
            }
            is_open
        });
    }
}

/// Runs a login until it ends, or is ended because the config changed.
async fn run(flow: LoginFlow, groups: Arc<GroupManager>, group: Upstream, server: HttpConfig) {
    let login_service = groups.login_service().clone();
    let config_changed = async {
        let mut config = groups.config_changes();
        let is_obsolete = |config: &Arc<Config>| remote_config(config, &group.name).as_ref() != Some(&server);
        drop(config.wait_for(is_obsolete).await);
    };
    tokio::select! {
        biased;
        _ = flow.ended() => {}
        () = config_changed => flow.enter(LoginStage::Expired),
        end = async {
            match groups.fetched_remote_config(&group.name, server.clone()).await {
                Ok(server) => log_in(&flow, &*login_service, &group, &server).await,
                Err(error) => LoginStage::Failed { error, opened: false, at: Instant::now() },
            }
        } => flow.enter(end),
        () = logged_in_elsewhere(&*login_service, &group, &server), if flow.purpose == LoginPurpose::Connect => {
            tracing::info!(group = %group.name, "a login was stored by another process, connecting");
            group.logged_in().await;
            flow.enter(LoginStage::LoggedIn(Instant::now()));
        }
    }
}

/// Starts the login, within `START_TIMEOUT`, and waits for the browser, up to `BROWSER_TIMEOUT`. If the user logs in,
/// tells the group to connect. Returns the final stage.
async fn log_in(
    flow: &LoginFlow,
    login_service: &dyn LoginService,
    group: &Upstream,
    server: &HttpConfig,
) -> LoginStage {
    let failed = |error, opened| LoginStage::Failed { error, opened, at: Instant::now() };
    let login = match timeout(START_TIMEOUT, login_service.begin_login(&group.name, server)).await {
        Ok(Ok(Some(login))) => login,
        Ok(Ok(None)) => return LoginStage::Impossible,
        Ok(Err(error)) if error.kind == RemoteErrorKind::Config => {
            // The group's last error asked for this login. A new attempt shows whether it is still needed.
            group.logged_in().await;
            return LoginStage::Blocked(Arc::new(UpstreamError::Remote(error)), Instant::now());
        }
        Ok(Err(error)) => return failed(error, false),
        Err(_) => {
            return failed(
                RemoteError::unreachable("its authorization server did not answer in time"),
                false,
            );
        }
    };
    flow.enter(LoginStage::Open(login.url, Instant::now() + BROWSER_TIMEOUT));
    match timeout(BROWSER_TIMEOUT, login.done).await {
        Ok(Ok(())) => {
            tracing::info!(group = %group.name, "the user has logged in, connecting");
            // The group is told first, so that requests that learn of the login wait for this attempt.
            group.logged_in().await;
            LoginStage::LoggedIn(Instant::now())
        }
        Ok(Err(error)) => {
            tracing::warn!(group = %group.name, %error, "the login failed");
            failed(error, true)
        }
        Err(_) => LoginStage::Expired,
    }
}

/// Resolves when another process has stored a login.
async fn logged_in_elsewhere(login_service: &dyn LoginService, group: &Upstream, server: &HttpConfig) {
    let before = login_service.last_changed(&group.name, server).await;
    loop {
        sleep(CHECK_INTERVAL).await;
        let now = login_service.last_changed(&group.name, server).await;
        if now.is_some() && now != before {
            return;
        }
    }
}
