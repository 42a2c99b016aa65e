//! The context of one request of the client: the session it belongs to, its era, its progress and its cancellation.
//! It sends requests to upstreams and questions to the user on behalf of that request.

use super::client::{Client, InputChannel, LogInterest};
use super::client_requests::{self, with_group_name};
use super::input_required;
use super::open_tasks::OpenTasks;
use crate::config::GroupName;
use crate::front::uri_origins::UriOrigins;
use crate::groups::GroupManager;
use crate::groups::login_flows::LoginFlows;
use crate::protocol::methods::{Method, notification};
use crate::protocol::{Era, capability, meta};
use crate::schema::validate::ArgumentValidator;
use crate::upstream::clients::ClientRequest;
use crate::upstream::lease::Lease;
use crate::upstream::translate;
use crate::wire::body::Body;
use crate::wire::object::Params;
use crate::wire::peer::{CallError, CallOptions, CancelParams, Progress};
use crate::wire::{Raw, Reply, raw};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

/// What all requests of one session share.
pub struct SessionState {
    /// The groups of this instance.
    pub groups: Arc<GroupManager>,
    /// The client.
    pub client: Arc<Client>,
    /// The client's tasks.
    pub open_tasks: OpenTasks,
    /// The logins that were offered to the user.
    pub login_flows: LoginFlows,
    /// Where URIs in results came from.
    pub uri_origins: Mutex<UriOrigins>,
    /// Checks arguments against the schemas of tools.
    pub validator: ArgumentValidator,
}

impl SessionState {
    /// Creates the state of a new session.
    pub fn new(groups: Arc<GroupManager>, client: Arc<Client>) -> Arc<Self> {
        let state = Arc::new(Self {
            groups,
            client: client.clone(),
            open_tasks: OpenTasks::default(),
            login_flows: LoginFlows::default(),
            uri_origins: Mutex::default(),
            validator: ArgumentValidator::default(),
        });
        let observer = Arc::downgrade(&state);
        client.observe_tasks(move |task| {
            if let Some(state) = observer.upgrade() {
                state.open_tasks.update(task);
            }
        });
        state
    }
}

/// The context of one request. Cheap to clone.
#[derive(Clone)]
pub struct RequestContext {
    /// The session of the request.
    pub session: Arc<SessionState>,
    /// The era in which the request was made.
    pub era: Era,
    /// Where progress goes, if the client gave a token.
    pub progress: Option<Progress>,
    /// Filled with the params of the client's cancellation.
    pub cancel_params: CancelParams,
    /// The least severe log messages that the client wants while the request is open (stateless era).
    log_level: Option<String>,
    /// Whether the user may be asked something before the answer.
    pub may_request_input: bool,
    /// How a stateless client can be asked for input.
    pub input_channel: Option<InputChannel>,
}

impl RequestContext {
    /// Creates the context of a request with these params.
    pub fn new(session: Arc<SessionState>, era: Era, params: &Params) -> Self {
        let meta = params.meta();
        let member = |key| meta.as_ref().and_then(|meta| meta.get(key));
        let log_level = member(meta::LOG_LEVEL).filter(|_| era == Era::Stateless);
        Self {
            era,
            progress: member("progressToken")
                .map(|token| Progress::new(session.client.peer().output().clone(), token)),
            cancel_params: CancelParams::default(),
            log_level: log_level.and_then(|level| serde_json::from_slice(&level).ok()),
            may_request_input: false,
            input_channel: None,
            session,
        }
    }

    /// The groups of this instance.
    pub fn groups(&self) -> &GroupManager {
        &self.session.groups
    }

    /// Returns whether the client opens URLs for its user.
    pub fn can_elicit_urls(&self) -> bool {
        self.elicitation().is_some_and(|modes| raw::get(&modes, "url").is_some())
    }

    /// Returns whether the client shows forms: it declares them, or declares no mode, as in earlier revisions.
    pub fn can_elicit_forms(&self) -> bool {
        let has = |modes: &Raw, mode| raw::get(modes, mode).is_some();
        self.elicitation().is_some_and(|modes| has(&modes, "form") || !has(&modes, "url"))
    }

    fn elicitation(&self) -> Option<Raw> {
        match &self.input_channel {
            Some(channel) => raw::get(&channel.capabilities, capability::ELICITATION),
            None => self.session.client.capability(capability::ELICITATION),
        }
    }

    /// Asks the user something about a group, on the proxy's own behalf.
    pub async fn elicit(&self, group: &GroupName, params: Value) -> Reply {
        let (method, params) = (Method::ElicitationCreate.name().to_owned(), Raw::from(params.to_string()));
        if let Some(channel) = &self.input_channel {
            let params = with_group_name(&params, group.as_str());
            return client_requests::send_through(&channel.requests, method, Some(params)).await;
        }
        let request = ClientRequest {
            group: group.clone(),
            method,
            params: Some(params),
            progress: None,
            cancel_params: CancelParams::default(),
        };
        client_requests::send(&self.session.client, request).await
    }

    /// Tells a client of the handshake era that a URL elicitation is done. In the stateless era the answer to the
    /// request says so.
    pub fn complete_elicitation(&self, id: &str) {
        if self.era == Era::Handshake {
            let params = json!({ "elicitationId": id }).to_string();
            self.session.client.peer().notify(notification::ELICITATION_COMPLETE, Some(params.into()));
        }
    }

    /// Sends a request to a group on behalf of the client.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. An error that the server answers with is an `Ok(Err(_))`.
    pub async fn send(
        &self,
        group: &GroupName,
        lease: &Lease,
        method: Method,
        params: impl Into<Body>,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let client = &self.session.client;
        let _interest: Option<LogInterest> =
            self.log_level.as_ref().map(|level| client.add_log_interest(group, level));
        let options = CallOptions {
            progress: self.progress.clone(),
            cancel_params: self.cancel_params.clone(),
            ..options
        };
        let is_bridged = lease.era() == Era::Stateless && self.era == Era::Handshake;
        let level = if is_bridged { client.log_level() } else { None };
        let params: Body = match level {
            Some(level) => translate::with_log_level(&params.into().join(), &level).into(),
            None => params.into(),
        };
        if is_bridged && method.info().may_request_input {
            let params = params.join();
            return Box::pin(input_required::call(client, group, lease, method, params, options)).await;
        }
        let _registered =
            self.input_channel.as_ref().map(|channel| client.register_input_channel(group, channel.clone()));
        lease.call(method.name(), Some(params), self.era, options).await
    }
}
