//! The context of one request of a client: who makes it, its era, its progress, and how the user can be asked.
//! It sends requests to upstreams and questions to the user on behalf of that request.

use super::input_required::{self, InputCall};
use super::requester::{Requester, SessionState};
use crate::arguments::text_limits;
use crate::client::input_channels::InputChannel;
use crate::client::notifications::LogInterest;
use crate::client::question_limit::TooManyQuestions;
use crate::client::{Client, client_requests};
use crate::errors::{self, RpcError};
use crate::names::exposed_names::ExposedNames;
use crate::names::lookup;
use base::blocking;
use config::GroupName;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval_at, timeout};
use upstream::clients::ClientRequest;
use upstream::connection::translate;
use upstream::{GroupManager, Lease, Upstream};
use wire::body::Body;
use wire::params::Params;
use wire::peer::{CallError, CallOptions, Progress};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{Era, capability, meta};
use wire::{CallReply, Frame, Raw, Reply, raw};

/// The number of a call through which the client cannot be asked for input.
const NO_INPUT_CHANNEL: u64 = 0;

/// How the user can be asked something before a request is answered.
#[derive(Clone)]
pub enum UserInput {
    /// Not at all.
    None,
    /// By a request to the client.
    Requests,
    /// Through the answer to the request (stateless clients).
    Answer(InputChannel),
}

/// The context of one request. Cheap to clone.
#[derive(Clone)]
pub struct RequestContext {
    /// Who makes the request.
    pub requester: Arc<Requester>,
    /// The era in which the request was made.
    pub era: Era,
    /// Where progress goes, if the client gave a token.
    pub progress: Option<Progress>,
    /// The least severe log messages that the client wants while the request is open (stateless era).
    log_level: Option<String>,
    /// How the user can be asked something.
    pub(crate) input: UserInput,
    /// How many bytes of the request, and of catalogs that are read more than once for it, are worked on.
    request_bytes: usize,
}

impl RequestContext {
    /// Creates the context of a request with these params.
    pub fn new(requester: Arc<Requester>, era: Era, params: &Params, input: UserInput) -> Self {
        let meta = params.meta();
        let member = |key| meta.as_ref().and_then(|meta| meta.get(key));
        let log_level = member(meta::LOG_LEVEL).filter(|_| era == Era::Stateless);
        Self {
            era,
            progress: member("progressToken")
                .map(|token| Progress::new(requester.client.peer().output().clone(), token)),
            log_level: log_level.and_then(|level| serde_json::from_slice(&level).ok()),
            input,
            request_bytes: params.len(),
            requester,
        }
    }

    /// Returns the groups of this instance.
    pub fn groups(&self) -> &Arc<GroupManager> {
        self.requester.groups()
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.requester.client
    }

    /// Returns what is remembered of the client; `None` if that is carried by the client.
    pub(crate) fn session(&self) -> Option<&SessionState> {
        self.requester.session()
    }

    /// Returns whether the user may be asked something before the answer.
    pub(crate) fn may_ask(&self) -> bool {
        !matches!(self.input, UserInput::None)
    }

    fn input_channel(&self) -> Option<&InputChannel> {
        match &self.input {
            UserInput::Answer(channel) => Some(channel),
            UserInput::None | UserInput::Requests => None,
        }
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
        work: impl FnOnce(&Requester) -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let requester = self.requester.clone();
        let bytes = self.request_bytes.saturating_add(self.groups().catalog_bytes());
        let done = blocking::run_on(bytes, move || work(&requester)).await;
        done.map_err(|_| errors::lists_took_too_long())
    }

    /// Returns the exposed names of all known tools.
    ///
    /// # Errors
    ///
    /// Making the table took too long.
    pub(crate) async fn exposed_names(&self) -> Result<Arc<ExposedNames>, RpcError> {
        let names = self.requester.instance.names.get(self.groups()).await;
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
        match &self.input {
            UserInput::None => None,
            UserInput::Requests => self.client().capabilities.get(capability::ELICITATION),
            UserInput::Answer(channel) => raw::get(&channel.capabilities, capability::ELICITATION),
        }
    }

    /// Asks the user something about a group, on the proxy's own behalf. Waits for its turn and then for the answer,
    /// for an hour each at most. An error of the client is an `Ok(Err(_))`.
    ///
    /// # Errors
    ///
    /// Too many questions about the group wait for the user.
    pub(crate) async fn elicit(&self, group: &GroupName, params: Value) -> Result<Reply, TooManyQuestions> {
        let client = self.client();
        let _permit = client.questions.acquire(group).await?;
        let request = ClientRequest {
            group: group.clone(),
            method: Method::ElicitationCreate.name().to_owned(),
            params: Some(params.to_string().into()),
            call: None,
            progress: None,
        };
        Ok(client_requests::deliver(client, self.input_channel(), request).await)
    }

    /// Tells a client of the handshake era that a URL elicitation is done. In the stateless era the answer to the
    /// request says so.
    pub(crate) fn complete_elicitation(&self, id: &str) {
        if self.era == Era::Handshake {
            let params = json!({ "elicitationId": id }).to_string();
            self.client().peer().notify(notification::ELICITATION_COMPLETE, Some(params.into()));
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
            if let Some(session) = self.session()
                && session.subscription_order.is_used()
            {
                // Boxed, so that the future of a call that need not wait is small.
                Box::pin(session.subscription_order.wait(group)).await;
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
        let client = self.client();
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
        let channel = self.input_channel();
        let registered = channel.map(|channel| client.input_channels.register(group, task, channel.clone()));
        if let Some(registered) = &registered {
            options.origin = Some(registered.number);
        }
        let answer = lease.call(method.name(), Some(params), self.era, &options);
        let reply = match &registered {
            Some(registered) => unblocked(answer, client, group, lease, registered.number).await?,
            None => answer.await?,
        };
        if channel.is_none() || !reply.as_ref().is_ok_and(input_required::has_too_many_questions) {
            return Ok(reply);
        }
        let call = InputCall { client, channel, group, lease, method, options };
        call.answer(params.join(), Some(reply)).await
    }
}

/// How long a call waits before the server is asked whether it serves several calls at once.
const BLOCKED_AFTER: Duration = Duration::from_secs(5);
/// How long a server that serves several calls at once may take to answer a `ping`.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Awaits the answer to a call. If the server answers nothing meanwhile, not even a `ping`, while other calls at it wait for
/// input, it serves one call after the other, and their clients may have abandoned the questions: these calls end.
async fn unblocked<T>(
    answer: impl Future<Output = T>,
    client: &Client,
    group: &GroupName,
    lease: &Lease,
    number: u64,
) -> T {
    let mut answer = pin!(answer);
    loop {
        if let Ok(reply) = timeout(BLOCKED_AFTER, &mut answer).await {
            return reply;
        }
        let suspended = client.input_channels.suspended(group, number);
        if suspended.is_empty() {
            continue;
        }
        let options = CallOptions::within(PING_TIMEOUT);
        let pong = lease.peer().call(Method::Ping.name(), None::<Raw>, options);
        tokio::select! {
            biased;
            reply = &mut answer => return reply,
            pong = pong => if matches!(pong, Err(CallError::TimedOut(_))) {
                tracing::warn!(%group, "ended calls that wait for input, because they block others");
                suspended.iter().for_each(|call| call.abandoned.notify_one());
            },
        }
    }
}

/// A request of the client.
#[derive(Clone)]
pub struct Invocation {
    /// The context of the request.
    pub context: RequestContext,
    /// The client's params, a JSON object.
    pub params: Params,
}

impl Invocation {
    /// Returns the groups of this instance.
    pub fn groups(&self) -> &GroupManager {
        self.context.groups()
    }

    /// Returns the group that `params.group` names, in any spelling, if it names one. `null` names none.
    ///
    /// # Errors
    ///
    /// There is no such group, or the member is no string.
    pub fn group(&self) -> Result<Option<Upstream>, RpcError> {
        let name = self.params.get("group").filter(|name| &name[..] != b"null");
        let Some(name) = name else { return Ok(None) };
        let name: String = serde_json::from_slice(&name)
            .map_err(|_| errors::invalid_params("params.group must be a string"))?;
        lookup::group(self.groups(), &name).map(Some).map_err(errors::invalid_params)
    }

    /// Returns the params without `group`, which upstreams do not know.
    pub(crate) fn params_without_group(&self) -> Raw {
        raw::remove(&self.params, "group")
    }

    /// Returns the params without `group`, with a string member replaced.
    pub fn params_with(&self, key: &str, value: &str) -> Raw {
        raw::set_str(&self.params_without_group(), key, value)
    }

    /// Returns a string member of the params, whose length was checked before the request was dispatched.
    ///
    /// # Errors
    ///
    /// The member is missing or not a string.
    pub fn string(&self, key: &str) -> Result<String, RpcError> {
        debug_assert!(text_limits::is_checked(key), "{key} has no limit");
        let text = self.params.get_str(key).map(Cow::into_owned);
        text.ok_or_else(|| errors::invalid_params(format!("params.{key} must be a string")))
    }
}

/// The interval between two notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Sends progress to a client while its request waits for something else than the server's answer.
pub struct WaitProgress<'a> {
    /// Where progress goes, if the client gave a token.
    progress: Option<&'a Progress>,
    /// The value that was sent last.
    value: f64,
}

impl<'a> WaitProgress<'a> {
    /// Progress for a request; `None` if the client gave no token.
    pub fn new(progress: Option<&'a Progress>) -> Self {
        Self { progress, value: -16.0 }
    }

    /// Waits for `done` and returns its output. Sends `message` every five seconds until then, if the client gave a
    /// token.
    pub async fn during<T>(&mut self, message: &str, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        let Some(progress) = self.progress else { return done.await };
        let started = Instant::now();
        let mut due = interval_at(started + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        loop {
            tokio::select! {
                biased;
                outcome = &mut done => return outcome,
                _ = due.tick() => {
                    let seconds = started.elapsed().as_secs();
                    self.send(progress, &format!("{message} ({seconds} s so far)"));
                }
            }
        }
    }

    /// Sends a notification. The value grows with each notification, as it must, and stays below 0, so that the
    /// server's own progress continues from there.
    fn send(&mut self, progress: &Progress, message: &str) {
        let Some(token) = progress.token() else { return };
        self.value /= 2.0;
        let params = json!({ "progress": self.value, "message": message });
        let params = raw::set(&params.to_string().into(), "progressToken", &token);
        progress.output.send(Frame::notification(notification::PROGRESS, Some(params)));
    }
}
