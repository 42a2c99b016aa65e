//! The first words with an upstream.
//!
//! Phases (DESIGN of the seed): nothing but `initialize`, or `server/discover`, is sent before its answer, then
//! `notifications/initialized` in the handshake era, then requests. What the upstream sends meanwhile is answered if it
//! is a `ping`, else refused or ignored.

use super::audience::Audience;
use super::catalog::{Catalog, Introduction};
use super::error::UpstreamError;
use super::session::{Session, error_code};
use crate::config::Endpoint;
use crate::protocol::{
    Era, HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, REVISIONS, STATELESS, code, is_stateless, meta,
};
use crate::wire::peer::CallOptions;
use crate::wire::{Raw, Reply, raw};
use serde_json::json;
use std::time::Duration;

/// `npx` and `uvx` download before they start what they run.
const CHILD: Duration = Duration::from_secs(60);
const REMOTE: Duration = Duration::from_secs(5);
/// How much longer than its refusal of a handshake a server may take to say that it is of the other era: many say nothing
/// to a method that they do not know.
pub(super) const PROBE: Duration = Duration::from_secs(3);

/// An upstream that could not be introduced.
pub(super) struct Unknown {
    pub(super) error: UpstreamError,
    pub(super) other: Other,
}

/// Whether an upstream may be of the other era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    No,
    Maybe,
    /// It says so, and yet it would go on in this one.
    Rather,
}

impl From<UpstreamError> for Unknown {
    fn from(error: UpstreamError) -> Self {
        Self { error, other: Other::No }
    }
}

impl Session {
    pub(super) async fn introduce(&self, offer: &Raw, audience: &Audience) -> Result<Catalog, Unknown> {
        match self.era {
            Era::Handshake => self.shake_hands(offer, audience).await,
            Era::Stateless => self.discover().await,
        }
    }

    async fn shake_hands(&self, offer: &Raw, audience: &Audience) -> Result<Catalog, Unknown> {
        let answer = self.initialize(offer).await?;
        let introduction = Introduction::read(&answer, self.era);
        let named_other = is_stateless(&introduction.protocol_version);
        if named_other && !self.insists && matches!(self.server.endpoint, Endpoint::Http(_)) {
            let what = format!("its revision is {}, which has no handshake", introduction.protocol_version);
            return Err(Unknown { error: self.protocol("initialize", what), other: Other::Rather });
        }
        check_introduction(&answer, &introduction);
        self.peer.notify("notifications/initialized", None);
        let logs = introduction.declares("logging");
        let level = audience.level().filter(|_| logs);
        self.set_level(level.as_deref()).await;
        // A process that took the handshake goes on with it; another one is started only if that leads nowhere.
        let other = if named_other { Other::Maybe } else { Other::No };
        let catalog = self.catalog(introduction).await.map_err(|error| Unknown { error, other })?;
        // Whoever sets another meanwhile does not find this connection yet.
        let now = audience.level().filter(|now| logs && level.as_ref() != Some(now));
        self.set_level(now.as_deref()).await;
        Ok(catalog)
    }

    async fn set_level(&self, level: Option<&str>) {
        let Some(level) = level else { return };
        let params = json!({ "level": level }).to_string();
        let options = CallOptions::within(self.server.timeout.list);
        // Its answer says nothing that matters here.
        drop(self.peer.call("logging/setLevel", Some(params.into()), options).await);
    }

    /// `initialize`; again with a revision the server names when it refuses ours.
    async fn initialize(&self, offer: &Raw) -> Result<Raw, Unknown> {
        let reply = self.ask_initialize(LATEST_HANDSHAKE, offer).await.map_err(|error| {
            let other = match &error {
                UpstreamError::Remote(fault) if fault.may_mean_stateless_era() => Other::Maybe,
                _ => Other::No,
            };
            Unknown { error, other }
        })?;
        let Err(refusal) = &reply else { return Ok(self.accept("initialize", reply)?) };
        let supported = supported(refusal);
        let common = HANDSHAKE_REVISIONS.iter().rev().find(|known| supported.iter().any(|s| s == *known));
        if let Some(revision) = common {
            return Ok(self.accept("initialize", self.ask_initialize(revision, offer).await?)?);
        }
        // To a server of the stateless era this is a method it does not know; with which code it says so is its own affair.
        let other = if speaks_none_of_ours(refusal) { Other::No } else { Other::Maybe };
        self.accept("initialize", reply).map_err(|error| Unknown { error, other })
    }

    async fn ask_initialize(&self, revision: &str, offer: &Raw) -> Result<Reply, UpstreamError> {
        let params = json!({
            "protocolVersion": revision,
            "clientInfo": { "name": "dynamic-mcp", "title": "dynamic-mcp", "version": env!("CARGO_PKG_VERSION") },
        });
        let options = CallOptions { cancellable: false, ..CallOptions::within(self.time()) };
        let params = raw::set(&params.to_string().into(), "capabilities", offer);
        self.ask("initialize", Some(params), options).await
    }

    /// How long the first answer may take.
    fn time(&self) -> Duration {
        let time = self.configured_time();
        self.at_most.map_or(time, |at_most| at_most.min(time))
    }

    fn configured_time(&self) -> Duration {
        let default = match self.server.endpoint {
            Endpoint::Stdio(_) => CHILD,
            Endpoint::Http(_) => REMOTE,
        };
        self.server.timeout.initialize.unwrap_or(default)
    }

    /// A server that was stateless and is so no more does not know this method, or says nothing at all.
    async fn discover(&self) -> Result<Catalog, Unknown> {
        const STEP: &str = "server/discover";
        let unlike = |error| Unknown { error, other: Other::Maybe };
        let ask = || self.ask(STEP, None, CallOptions::within(self.time()));
        let mut reply = ask().await.map_err(unlike)?;
        if let Err(refusal) = &reply
            && supported(refusal).iter().any(|revision| revision == STATELESS)
        {
            // It names what it was asked in: once more.
            reply = ask().await.map_err(unlike)?;
        }
        let certain = reply.as_ref().is_err_and(speaks_none_of_ours);
        let other = if certain { Other::No } else { Other::Maybe };
        let answer = self.accept(STEP, reply).map_err(|error| Unknown { error, other })?;
        let supported = strings(raw::get(&answer, "supportedVersions"));
        if !supported.iter().any(|revision| revision == STATELESS) {
            return Err(unlike(self.protocol(STEP, format!("its revisions are {supported:?}"))));
        }
        let info = raw::get(&answer, "_meta").and_then(|given| raw::get(&given, meta::SERVER));
        let answer = raw::set(&answer, "protocolVersion", json!(STATELESS).to_string().as_bytes());
        let answer = info.map_or_else(|| answer.clone(), |info| raw::set(&answer, "serverInfo", &info));
        Ok(self.catalog(Introduction::read(&answer, self.era)).await?)
    }
}

/// The revisions that a refusal names.
pub(super) fn supported(refusal: &Raw) -> Vec<String> {
    strings(raw::get(refusal, "data").and_then(|data| raw::get(&data, "supported")))
}

/// Whether a refusal says, as the stateless era has it, that we have no revision in common: then no other era helps.
fn speaks_none_of_ours(refusal: &Raw) -> bool {
    let supported = supported(refusal);
    error_code(refusal) == code::UNSUPPORTED_REVISION
        && !supported.is_empty()
        && !supported.iter().any(|revision| REVISIONS.contains(&revision.as_str()))
}

fn strings(list: Option<Raw>) -> Vec<String> {
    list.and_then(|list| serde_json::from_slice(&list).ok()).unwrap_or_default()
}

/// Old and sloppy servers are taken as they are; the log says so.
fn check_introduction(answer: &Raw, introduction: &Introduction) {
    if introduction.protocol_version.is_empty() {
        tracing::warn!("the server's answer to initialize has no protocolVersion");
    } else if !HANDSHAKE_REVISIONS.contains(&introduction.protocol_version.as_str()) {
        let revision = &introduction.protocol_version;
        tracing::warn!(%revision, "the server speaks a protocol revision that dynamic-mcp does not know");
    }
    if introduction.capabilities.is_none() {
        tracing::warn!("the server's answer to initialize has no capabilities");
    }
    if raw::get(answer, "tools").is_some() {
        tracing::warn!("the server's answer to initialize carries tools; those of tools/list are used");
    }
}
