//! On whose behalf something is asked of a group, and where news of it go.

use super::rounds;
use super::tasks::Tasks;
use crate::config::GroupName;
use crate::protocol::{Era, meta};
use crate::upstream::audience::client::{Carrier, Client, Wish};
use crate::upstream::audience::questions::{self, Question};
use crate::upstream::{Lease, dialect};
use crate::wire::peer::{CallError, CallOptions, CancelParams, Progress};
use crate::wire::{Raw, Reply, raw};
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Clone)]
pub struct Caller {
    client: Arc<Client>,
    /// How the request was made.
    pub era: Era,
    pub progress: Option<Progress>,
    pub cancelled: CancelParams,
    /// The tasks of its client.
    pub tasks: Arc<Tasks>,
    /// From this level on, log messages are wanted meanwhile.
    log_level: Option<String>,
    /// Its client may be asked something before it is answered.
    pub may_ask: bool,
    /// How the client hears what a server with a handshake asks it.
    pub carrier: Option<Carrier>,
}

impl Caller {
    /// Of a request with these params.
    pub fn new(client: Arc<Client>, tasks: Arc<Tasks>, era: Era, params: &Raw) -> Self {
        let given = raw::get(params, "_meta");
        let given = |key| given.as_ref().and_then(|given| raw::get(given, key));
        let output = client.peer().output().clone();
        let log_level = given(meta::LOG_LEVEL).filter(|_| era == Era::Stateless);
        Self {
            era,
            progress: given("progressToken").map(|token| Progress::new(output, token)),
            cancelled: CancelParams::default(),
            tasks,
            log_level: log_level.and_then(|level| serde_json::from_slice(&level).ok()),
            may_ask: false,
            carrier: None,
            client,
        }
    }

    /// Whether the client opens URLs for its user.
    pub fn shows_urls(&self) -> bool {
        self.elicitation().is_some_and(|modes| raw::get(&modes, "url").is_some())
    }

    /// Whether the client shows forms: it says so, or says nothing of the modes that later revisions have.
    pub fn shows_forms(&self) -> bool {
        let says = |modes: &Raw, mode| raw::get(modes, mode).is_some();
        self.elicitation().is_some_and(|modes| says(&modes, "form") || !says(&modes, "url"))
    }

    fn elicitation(&self) -> Option<Raw> {
        match &self.carrier {
            Some(carrier) => raw::get(&carrier.capabilities, "elicitation"),
            None => self.client.capability("elicitation"),
        }
    }

    /// Asks the user something about a group, on our own behalf.
    pub async fn elicit(&self, group: &GroupName, params: Value) -> Reply {
        let (method, params) = ("elicitation/create".to_owned(), Raw::from(params.to_string()));
        if let Some(carrier) = &self.carrier {
            let params = questions::named(&params, group.as_str());
            return questions::pose_by(&carrier.posed, method, Some(params)).await;
        }
        let (group, params, cancelled) = (group.clone(), Some(params), CancelParams::default());
        questions::ask(&self.client, Question { group, method, params, progress: None, cancelled }).await
    }

    /// What the user was sent away for is done. In the stateless era the answer itself says so.
    pub fn tell_complete(&self, elicitation: &str) {
        if self.era == Era::Handshake {
            let params = json!({ "elicitationId": elicitation }).to_string();
            self.client.peer().notify("notifications/elicitation/complete", Some(params.into()));
        }
    }

    /// Asks the group on whose connection `lease` is.
    pub async fn ask(
        &self,
        group: &GroupName,
        lease: &Lease,
        method: &str,
        params: Raw,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let _heard: Option<Wish> = self.log_level.as_ref().map(|level| self.client.wants_log(group, level));
        let options =
            CallOptions { progress: self.progress.clone(), cancelled: self.cancelled.clone(), ..options };
        let is_bridged = lease.era() == Era::Stateless && self.era == Era::Handshake;
        let params = match self.client.level().filter(|_| is_bridged) {
            Some(level) => dialect::with_level(&params, &level),
            None => params,
        };
        if is_bridged && rounds::may_ask(method) {
            return rounds::call(&self.client, group, lease, method, params, options).await;
        }
        let _carries = self.carrier.as_ref().map(|carrier| self.client.carries(group, carrier.clone()));
        lease.call(method, Some(params), self.era, options).await
    }
}
