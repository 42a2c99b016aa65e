//! The context of one request of the client: the session it belongs to, its era and its progress.
//! It sends requests to upstreams and questions to the user on behalf of that request.

use super::caller::Caller;
use super::input_required::{self, InputCall};
use super::instance_state::InstanceState;
use super::unspent_nonces::UnspentNonces;
use crate::client::Client;
use crate::client::client_requests;
use crate::client::input_channels::InputChannel;
use crate::client::notifications::LogInterest;
use crate::client::question_limit::TooManyQuestions;
use crate::errors::{self, RpcError};
use crate::exposed_names::ExposedNames;
use crate::origins::Origins;
use crate::results::ResultStore;
use base::blocking;
use config::GroupName;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use upstream::clients::ClientRequest;
use upstream::connection::translate;
use upstream::{GroupManager, Lease};
use wire::body::Body;
use wire::params::Params;
use wire::peer::{CallError, CallOptions, Progress};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{Era, capability, meta};
use wire::{CallReply, Raw, Reply, raw};

/// The number of a call through which the client cannot be asked for input.
const NO_INPUT_CHANNEL: u64 = 0;

/// What all requests of one session share.
pub struct SessionState {
    /// What all sessions of this instance share.
    pub instance: Arc<InstanceState>,
    /// The groups of this instance.
    pub groups: Arc<GroupManager>,
    /// The client.
    pub client: Arc<Client>,
    /// Who makes the request, if the session is a single one. Nothing that the session keeps outlives it then.
    pub caller: Option<Caller>,
    /// The approvals that a stateless client may still use.
    pub(crate) approval_nonces: UnspentNonces,
    /// Which groups named the URIs in results.
    pub(crate) uri_origins: Mutex<Origins>,
    /// The results that are read in parts.
    pub results: ResultStore,
}

impl SessionState {
    /// Creates the state of a new session. `caller`: `None` if the client has a connection.
    pub fn new(instance: Arc<InstanceState>, client: Arc<Client>, caller: Option<Caller>) -> Arc<Self> {
        let observer = Arc::downgrade(&instance);
        client.notifications.observe_tasks(move |task| {
            if let Some(instance) = observer.upgrade() {
                instance.open_tasks.update(task);
            }
        });
        Arc::new(Self {
            groups: instance.groups.clone(),
            results: ResultStore::new(instance.groups.results_dir()),
            instance,
            client,
            caller,
            approval_nonces: UnspentNonces::default(),
            uri_origins: Mutex::default(),
        })
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
    /// The least severe log messages that the client wants while the request is open (stateless era).
    log_level: Option<String>,
    /// Whether the user may be asked something before the answer.
    pub may_request_input: bool,
    /// How a stateless client can be asked for input.
    pub(crate) input_channel: Option<InputChannel>,
    /// How many bytes of the request, and of catalogs that are read more than once for it, are worked on.
    request_bytes: usize,
}

impl RequestContext {
    /// Creates the context of a request with these params. The request may not ask the user and has no input channel
    /// until the caller sets these.
    pub fn new(session: Arc<SessionState>, era: Era, params: &Params) -> Self {
        let meta = params.meta();
        let member = |key| meta.as_ref().and_then(|meta| meta.get(key));
        let log_level = member(meta::LOG_LEVEL).filter(|_| era == Era::Stateless);
        Self {
            era,
            progress: member("progressToken")
                .map(|token| Progress::new(session.client.peer().output().clone(), token)),
            log_level: log_level.and_then(|level| serde_json::from_slice(&level).ok()),
            may_request_input: false,
            input_channel: None,
            request_bytes: params.len(),
            session,
        }
    }

    /// Returns who makes the request, if it is a session of its own.
    pub fn caller(&self) -> Option<&Caller> {
        self.session.caller.as_ref()
    }

    /// Returns the groups of this instance.
    pub fn groups(&self) -> &GroupManager {
        &self.session.groups
    }

    /// Returns the context for work that goes through the lists of the groups for each of so many names. A URI counts
    /// as one more for each KiB.
    pub(crate) fn with_names(&self, count: usize) -> Self {
        let more = count.saturating_sub(1).saturating_mul(self.groups().catalog_bytes());
        Self { request_bytes: self.request_bytes.saturating_add(more), ..self.clone() }
    }

    /// Does work on the request and on what the groups list: here if both are little, else on a thread that may block.
    ///
    /// # Errors
    ///
    /// It took too long.
    pub async fn run_on_lists<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SessionState) -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let session = self.session.clone();
        let bytes = self.request_bytes.saturating_add(session.groups.catalog_bytes());
        let done = blocking::run_on(bytes, move || work(&session)).await;
        done.map_err(|_| errors::lists_took_too_long())
    }

    /// Returns the exposed names of all known tools.
    ///
    /// # Errors
    ///
    /// Making the table took too long.
    pub(crate) async fn exposed_names(&self) -> Result<Arc<ExposedNames>, RpcError> {
        let names = self.session.instance.names.get(&self.session.groups).await;
        names.map_err(|_| errors::lists_took_too_long())
    }

    /// Returns whether the client opens URLs for its user.
    pub(crate) fn can_elicit_urls(&self) -> bool {
        self.elicitation().is_some_and(|modes| raw::get(&modes, "url").is_some())
    }

    /// Returns whether the client shows forms: it declares them, or declares no mode, as in earlier revisions.
    pub(crate) fn can_elicit_forms(&self) -> bool {
        let has = |modes: &Raw, mode| raw::get(modes, mode).is_some();
        self.elicitation().is_some_and(|modes| has(&modes, "form") || !has(&modes, "url"))
    }

    fn elicitation(&self) -> Option<Raw> {
        match &self.input_channel {
            _ if self.caller().is_some() => None,
            Some(channel) => raw::get(&channel.capabilities, capability::ELICITATION),
            None => self.session.client.capabilities.get(capability::ELICITATION),
        }
    }

    /// Asks the user something about a group, on the proxy's own behalf. Waits for its turn and then for the answer,
    /// for an hour each at most. An error of the client is an `Ok(Err(_))`.
    ///
    /// # Errors
    ///
    /// Too many questions about the group wait for the user.
    pub(crate) async fn elicit(&self, group: &GroupName, params: Value) -> Result<Reply, TooManyQuestions> {
        let client = &self.session.client;
        let _permit = client.questions.acquire(group).await?;
        let request = ClientRequest {
            group: group.clone(),
            method: Method::ElicitationCreate.name().to_owned(),
            params: Some(params.to_string().into()),
            call: None,
            progress: None,
        };
        Ok(client_requests::deliver(client, self.input_channel.as_ref(), request).await)
    }

    /// Tells a client of the handshake era that a URL elicitation is done. In the stateless era the answer to the
    /// request says so.
    pub(crate) fn complete_elicitation(&self, id: &str) {
        if self.era == Era::Handshake {
            let params = json!({ "elicitationId": id }).to_string();
            self.session.client.peer().notify(notification::ELICITATION_COMPLETE, Some(params.into()));
        }
    }

    /// Sends a request to a group on behalf of the client, and waits for the answer within the limits of `options`.
    /// First waits until the client's subscriptions at the group are sent, for a second at most. If the server asks for
    /// input and the client cannot be asked through the answer, asks it and sends the request again.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. An error that the server answers with is an `Ok(Err(_))`.
    pub fn send<'a>(
        &'a self,
        group: &'a GroupName,
        lease: &'a Lease,
        method: Method,
        params: &'a Body,
        mut options: CallOptions,
    ) -> impl Future<Output = Result<CallReply, CallError>> + Send + 'a {
        options.progress = self.progress.clone();
        options.origin = Some(NO_INPUT_CHANNEL);
        // An async function would have the options twice in its future.
        async move {
            if let Some(order) = self.session.instance.subscription_order.get()
                && self.caller().is_none()
            {
                // Boxed, so that the future of a call that need not wait is small.
                Box::pin(order.wait(group)).await;
            }
            match (self.era, lease.era()) {
                (Era::Handshake, Era::Handshake) => {
                    lease.call_with(method.name(), Some(params), &options).await
                }
                // Boxed, so that the future of most calls is small.
                _ => {
                    let reply =
                        Box::pin(self.send_statelessly(group, lease, method, params, options)).await?;
                    Ok(reply.into())
                }
            }
        }
    }

    /// Sends a request where the client or the server is of the stateless era.
    ///
    /// # Errors
    ///
    /// See [`send`](Self::send).
    async fn send_statelessly(
        &self,
        group: &GroupName,
        lease: &Lease,
        method: Method,
        params: &Body,
        mut options: CallOptions,
    ) -> Result<Reply, CallError> {
        let client = &self.session.client;
        let _interest: Option<LogInterest> =
            self.log_level.as_ref().map(|level| client.notifications.add_log_interest(group, level));
        let is_bridged = lease.era() == Era::Stateless && self.era == Era::Handshake;
        let level = if is_bridged { client.notifications.log_level() } else { None };
        let with_level = level.map(|level| Body::from(translate::with_log_level(&params.join(), &level)));
        let params = with_level.as_ref().unwrap_or(params);
        if is_bridged && method.info().may_request_input {
            let params = input_required::with_capabilities(client, &params.join());
            options.origin = None;
            let call = InputCall { client, channel: None, group, lease, method, options };
            return call.answer(params, None).await;
        }
        let task = || raw::get_str(&params.join(), "taskId");
        let task = (method == Method::TasksResult).then(task).flatten();
        let channel = self.input_channel.as_ref();
        let registered = channel.map(|channel| client.input_channels.register(group, task, channel.clone()));
        if let Some(registered) = &registered {
            options.origin = Some(registered.number);
        }
        let reply = lease.call(method.name(), Some(params), self.era, &options).await?;
        if channel.is_none() || !reply.as_ref().is_ok_and(input_required::has_too_many_questions) {
            return Ok(reply);
        }
        let call = InputCall { client, channel, group, lease, method, options };
        call.answer(params.join(), Some(reply)).await
    }
}
