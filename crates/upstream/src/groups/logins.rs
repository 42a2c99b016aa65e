//! Runs the logins that this process has started, and notices logins in other processes, for groups that wait for one.

use super::manager::GroupManager;
use crate::error::UpstreamError;
use crate::handle::Upstream;
use crate::login::{LoginFlow, LoginPurpose, LoginStage};
use crate::transport::Transport;
use config::{Endpoint, GroupName, HttpConfig, Mode, ServerConfig};
use http_client::credentials::LoginService;
use http_client::error::{RemoteError, RemoteErrorKind};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The limit for finding the authorization server and registering there. Each HTTP request also has its own limit.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a login waits for the browser.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The interval between two checks while a group waits for a login.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The limit for one check, so that a slow disk delays nothing else.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

impl GroupManager {
    /// Returns the current login of a group, or starts one, which replaces the last. Returns before the login has an
    /// address. Returns `None` if the group is not a remote server.
    pub fn start_login(&self, group: &Upstream, purpose: LoginPurpose) -> Option<LoginFlow> {
        let server = group.snapshot().server.clone()?;
        remote_config(&server)?;
        let mut login = group.login.lock();
        if let Some(flow) = &*login {
            if flow.is_current(purpose) {
                return Some(flow.clone());
            }
            flow.enter(LoginStage::Expired);
        }
        let flow = LoginFlow::new(purpose);
        *login = Some(flow.clone());
        drop(login);
        let running = run(flow.clone(), self.environment.transport.clone(), group.clone(), server);
        let mut tasks = self.login_tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(running);
        // The login is looked for in other processes, too.
        self.environment.shared.changes.add(&group.name);
        Some(flow)
    }

    /// Starts a login like [`start_login`](Self::start_login), for an answer that names the address only in its text.
    /// Returns `None` for a server with a fixed redirect port, because the text also names `dynamic-mcp login`, which
    /// needs the port.
    pub fn start_login_for_text(&self, group: &Upstream, purpose: LoginPurpose) -> Option<LoginFlow> {
        let server = group.snapshot().server.clone()?;
        let port = remote_config(&server)?.oauth.as_ref().and_then(|oauth| oauth.redirect_port);
        if port.is_none() { self.start_login(group, purpose) } else { None }
    }

    /// Ends the offered logins of those groups whose snapshot changed that have connected without them. Returns whether one
    /// of the others waits for a login.
    pub(super) fn await_login(&self, changed: &BTreeSet<GroupName>) -> bool {
        let mut is_awaited = false;
        for group in changed.iter().filter_map(|name| self.get(name)) {
            if group.snapshot().state.failure().is_none() {
                group.end_awaited_login();
            }
            is_awaited |= waits_for_login(&group);
        }
        is_awaited
    }

    /// Tells each group that waits for a login to connect if another process stored one. Groups that are not reached
    /// within `CHECK_TIMEOUT` are not checked. Returns when the next check is due; `None` if no group waits.
    pub(super) async fn check_logins(&self) -> Option<Instant> {
        let mut waiting = self.all();
        waiting.retain(waits_for_login);
        let next_check = (!waiting.is_empty()).then(|| Instant::now() + CHECK_INTERVAL);
        let checked = timeout(CHECK_TIMEOUT, async {
            for group in waiting {
                self.connect_if_logged_in(&group).await;
            }
        });
        if checked.await.is_err() {
            tracing::debug!(timeout = ?CHECK_TIMEOUT, "the check for new logins timed out");
        }
        next_check
    }

    /// If a login was stored since the group last used one, tells the group to connect. Returns whether it did, before
    /// the group is connected. If the look for a login takes longer than `CHECK_TIMEOUT`, none is found.
    pub async fn retry_if_logged_in(&self, group: &Upstream) -> bool {
        timeout(CHECK_TIMEOUT, self.connect_if_logged_in(group)).await.unwrap_or_default()
    }

    /// Tells a group to connect, and ends its offered login, if another process has changed the stored login since the
    /// group last used it. Returns whether it did.
    async fn connect_if_logged_in(&self, group: &Upstream) -> bool {
        let server = group.snapshot().server.clone();
        let Some(http) = server.as_deref().and_then(remote_config) else { return false };
        if !self.environment.transport.logins.changed_elsewhere(&group.name, http).await {
            return false;
        }
        tracing::info!(group = %group.name, "a login was stored by another process, connecting");
        group.logged_in().await;
        group.end_awaited_login();
        true
    }
}

/// Returns the config of a remote server. `None` if the server is a local one.
fn remote_config(server: &ServerConfig) -> Option<&HttpConfig> {
    match &server.endpoint {
        Endpoint::Http(http) => Some(http),
        Endpoint::Stdio(_) => None,
    }
}

/// Returns whether a group would connect if it had a login, without a request or because of one that offers a login.
fn waits_for_login(group: &Upstream) -> bool {
    let snapshot = group.snapshot();
    let connects = match snapshot.mode() {
        Mode::Eager => true,
        Mode::Hybrid => snapshot.catalog.is_none(),
        Mode::Pure => false,
    };
    let is_offered = group.login.lock().as_ref().is_some_and(LoginFlow::is_awaited);
    is_offered || connects && snapshot.state.needs_login() && snapshot.connecting.is_none()
}

/// Runs a login until it ends, or is ended because the config changed.
async fn run(flow: LoginFlow, transport: Transport, group: Upstream, server: Arc<ServerConfig>) {
    let end = async {
        match transport.secrets.resolve(server).await {
            Ok(server) => log_in(&flow, &*transport.logins, &group, &server).await,
            Err(error) => {
                let error = RemoteError::config(error.to_string());
                LoginStage::Failed { error, opened: false, at: Instant::now() }
            }
        }
    };
    tokio::select! {
        biased;
        _ = flow.ended() => {}
        end = end => flow.enter(end),
    }
}

/// Starts the login, within `START_TIMEOUT`, and waits for the browser, up to `BROWSER_TIMEOUT`. If the user logs in,
/// tells the group to connect. Returns the final stage.
async fn log_in(
    flow: &LoginFlow,
    login_service: &dyn LoginService,
    group: &Upstream,
    server: &ServerConfig,
) -> LoginStage {
    let Some(server) = remote_config(server) else { return LoginStage::Impossible };
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
