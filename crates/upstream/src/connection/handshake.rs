//! The first exchange with a server: `initialize` in the handshake era, `server/discover` in the stateless one.
//!
//! The proxy sends nothing else before the answer. Then it sends `notifications/initialized` (handshake era) and reads
//! the lists. It answers a `ping` of the server meanwhile, and rejects or ignores everything else that the server
//! sends.

use super::session::{
    Session, common_handshake_revision, has_no_common_revision, strings, supported_revisions,
};
use crate::catalog::{Catalog, ServerInfo};
use crate::clients::Clients;
use crate::error::UpstreamError;
use base::text::{quoted, quoted_list};
use config::{Endpoint, ServerConfig};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use wire::peer::CallOptions;
use wire::protocol::methods::{Method, notification};
use wire::protocol::{
    CLIENT_NAME, Era, HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, STATELESS, capability, is_stateless, meta,
};
use wire::{Raw, Reply, raw};

/// The limit for `initialize` of a child process: `npx` and `uvx` download a package first.
const CHILD_TIMEOUT: Duration = Duration::from_secs(60);
/// The limit for `initialize` of a remote server.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(5);
/// How much longer than its error answer to `initialize` a server may take to answer `server/discover`. Many servers do
/// not answer a method that they do not know.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// A failure in one era, and whether the other era may work.
pub(super) struct EraError<E = UpstreamError> {
    /// What failed.
    pub(super) error: E,
    /// Whether the server may belong to the other era.
    pub(super) other: OtherEra,
}

/// Whether a server may belong to the other era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherEra {
    /// The server belongs to this era, or the other era would not help.
    No,
    /// The answer leaves it open.
    Maybe,
    /// The server names the other era, although it would continue in this one.
    Preferred,
}

impl<E: From<UpstreamError>> From<UpstreamError> for EraError<E> {
    fn from(error: UpstreamError) -> Self {
        Self { error: error.into(), other: OtherEra::No }
    }
}

/// Does the handshake of the session's era and reads the catalog.
///
/// # Errors
///
/// The server does not answer in time, its answer is an error or is not MCP, it names the other era, or the tools
/// cannot be read. The error says whether the other era may work.
pub(super) async fn connect(
    session: &Session,
    offered: &Raw,
    clients: &dyn Clients,
) -> Result<Catalog, EraError> {
    match session.live.era {
        Era::Handshake => session.shake_hands(offered, clients).await,
        Era::Stateless => session.discover().await,
    }
}

impl Session {
    /// Does the handshake of the handshake era and reads the catalog.
    ///
    /// # Errors
    ///
    /// Those of `initialize`; a remote server names a stateless revision and the era is not certain; or the tools
    /// cannot be read.
    async fn shake_hands(&self, offered: &Raw, clients: &dyn Clients) -> Result<Catalog, EraError> {
        let answer = self.initialize(offered).await?;
        let info = ServerInfo::read(&answer, self.live.era);
        let names_other_era = is_stateless(&info.protocol_version);
        if names_other_era && !self.is_certain && matches!(self.server.endpoint, Endpoint::Http(_)) {
            let what = format!("its revision is {}, which has no handshake", quoted(&info.protocol_version));
            let error = self.protocol_error(Method::Initialize.name(), what);
            return Err(EraError { error, other: OtherEra::Preferred });
        }
        warn_about(&answer, &info);
        self.live.peer.notify(notification::INITIALIZED, None);
        self.live.roots.begin();
        let logs = info.declares(capability::LOGGING);
        let level = clients.log_level().filter(|_| logs);
        // A process that accepted the handshake is used; another one is started only if its tools cannot be read.
        let other = if names_other_era { OtherEra::Maybe } else { OtherEra::No };
        let (_, catalog) =
            tokio::join!(self.set_level(level.as_deref()), self.catalog(info, true, names_other_era));
        let catalog = catalog.map_err(|error| EraError { error, other })?;
        // A client that changes the level meanwhile does not find this connection yet.
        let now = clients.log_level().filter(|now| logs && level.as_ref() != Some(now));
        self.set_level(now.as_deref()).await;
        Ok(catalog)
    }

    /// Asks the server for log messages of this level, if there is one. Waits up to `timeout.list` for the answer; an
    /// error does not matter.
    async fn set_level(&self, level: Option<&str>) {
        let Some(level) = level else { return };
        let params = json!({ "level": level }).to_string();
        let options = CallOptions::within(self.server.timeout.list);
        // Without the level the server sends more or fewer messages; nothing else depends on it.
        drop(self.live.peer.call(Method::LoggingSetLevel.name(), Some(Raw::from(params)), options).await);
    }

    /// Sends `initialize`, and again with an older revision if the server's error names one that is known here. Each
    /// request waits up to `first_answer_timeout`.
    ///
    /// # Errors
    ///
    /// Those of `ask` and `accept`. `TimedOut`, too, if the process prints what an HTTP server prints.
    async fn initialize(&self, offered: &Raw) -> Result<Raw, EraError> {
        const STEP: &str = "initialize";
        let reply = self.send_initialize(LATEST_HANDSHAKE, offered).await.map_err(|error| {
            let other = match &error {
                UpstreamError::Remote(error) if error.may_mean_stateless_era() => OtherEra::Maybe,
                _ => OtherEra::No,
            };
            EraError { error, other }
        })?;
        let Err(error) = &reply else { return Ok(self.accept(STEP, reply)?) };
        if let Some(revision) = common_handshake_revision(error) {
            return Ok(self.accept(STEP, self.send_initialize(revision, offered).await?)?);
        }
        // A server of the stateless era does not know this method. The error code that it answers with varies.
        let other = if has_no_common_revision(error) { OtherEra::No } else { OtherEra::Maybe };
        self.accept(STEP, reply).map_err(|error| EraError { error, other })
    }

    async fn send_initialize(&self, revision: &str, offered: &Raw) -> Result<Reply, UpstreamError> {
        let version = env!("CARGO_PKG_VERSION");
        let params = json!({
            "protocolVersion": revision,
            "clientInfo": { "name": CLIENT_NAME, "title": CLIENT_NAME, "version": version },
        });
        let limit = first_answer_timeout(&self.server, self.limit);
        let options = CallOptions { cancellable: false, ..CallOptions::within(limit) };
        let params = raw::set(&params.to_string().into(), "capabilities", offered);
        let (step, start) = (Method::Initialize.name(), Instant::now());
        tokio::select! {
            biased;
            reply = self.ask(step, Some(params), options) => reply,
            () = self.startup.ends_early(&self.live.skipped) => {
                Err(self.timed_out(step, Duration::from_secs(start.elapsed().as_secs()), None))
            }
        }
    }

    /// Sends `server/discover`, and again if the server rejects a revision that it names as supported, and reads the
    /// catalog. A server that is no longer stateless may reject the method or not answer at all. Each request waits up
    /// to `first_answer_timeout`.
    ///
    /// # Errors
    ///
    /// Those of `ask`, `accept` and `catalog`. `Protocol`, too, if the answer does not name the stateless revision.
    async fn discover(&self) -> Result<Catalog, EraError> {
        let step = Method::ServerDiscover.name();
        let other_era = |error| EraError { error, other: OtherEra::Maybe };
        let limit = first_answer_timeout(&self.server, self.limit);
        let ask = || self.ask(step, None, CallOptions::within(limit));
        let mut reply = ask().await.map_err(other_era)?;
        if let Err(error) = &reply
            && supported_revisions(error).iter().any(|revision| revision == STATELESS)
        {
            // The server rejects a revision that it names as supported, so a second request may succeed.
            reply = ask().await.map_err(other_era)?;
        }
        let is_final = reply.as_ref().is_err_and(has_no_common_revision);
        let other = if is_final { OtherEra::No } else { OtherEra::Maybe };
        let answer = self.accept(step, reply).map_err(|error| EraError { error, other })?;
        let supported = strings(raw::get(&answer, "supportedVersions"));
        if !supported.iter().any(|revision| revision == STATELESS) {
            let what = format!("its revisions are {}", quoted_list(supported.iter().map(String::as_str)));
            return Err(other_era(self.protocol_error(step, what)));
        }
        let server = raw::get(&answer, "_meta").and_then(|meta| raw::get(&meta, meta::SERVER));
        let answer = raw::set(&answer, "protocolVersion", json!(STATELESS).to_string().as_bytes());
        let answer = match server {
            Some(server) => raw::set(&answer, "serverInfo", &server),
            None => answer,
        };
        Ok(self.catalog(ServerInfo::read(&answer, self.live.era), true, false).await?)
    }
}

/// Returns the limit for the first answer: `timeout.initialize` of the config, else `CHILD_TIMEOUT` or
/// `REMOTE_TIMEOUT`; or `limit` if that is shorter.
pub(crate) fn first_answer_timeout(server: &ServerConfig, limit: Option<Duration>) -> Duration {
    let default = match server.endpoint {
        Endpoint::Stdio(_) => CHILD_TIMEOUT,
        Endpoint::Http(_) => REMOTE_TIMEOUT,
    };
    let timeout = server.timeout.initialize.unwrap_or(default);
    limit.map_or(timeout, |limit| limit.min(timeout))
}

/// Logs what is missing or wrong in an answer to `initialize`. Such servers are used as they are.
fn warn_about(answer: &Raw, info: &ServerInfo) {
    if info.protocol_version.is_empty() {
        tracing::warn!("the server's answer to initialize has no protocolVersion");
    } else if !HANDSHAKE_REVISIONS.contains(&info.protocol_version.as_str()) {
        let revision = &info.protocol_version;
        tracing::warn!(%revision, "the server uses a protocol revision that dynamic-mcp does not know");
    }
    if info.capabilities.is_none() {
        tracing::warn!("the server's answer to initialize has no capabilities");
    }
    if raw::get(answer, "tools").is_some() {
        tracing::warn!("the server's answer to initialize has tools, which are ignored; tools/list is used");
    }
}
