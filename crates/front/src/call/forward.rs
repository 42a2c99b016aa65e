//! Sends a request to its group, and once more where that is safe. Calls of tools and every other method that is forwarded
//! use the same loop:
//!
//! ```text
//! let reply = loop {
//!     let connection = forwarder.connect(need).await?;
//!     let request = …;
//!     if let Some(reply) = forwarder.send(&connection.lease, &request).await? {
//!         break reply;
//!     }
//! };
//! ```
//!
//! A request is sent again once if the connection broke and the request cannot have been carried out, or carrying it
//! out twice does no harm. It is also sent again after the user logged in, if that is what it needed. It is prepared again
//! for each connection. `carried` is for clients without a connection.

use super::task;
use crate::ask::acquire::{self, acquire_for_user};
use crate::client::attribution::{Attribution, Refusal};
use crate::errors;
use crate::errors::request_error::{REMOVED, REPLACED, RequestError, Unanswered};
use crate::names::origins;
use crate::session::context::RequestContext;
use crate::session::input_required::needs_input;
use crate::session::request_span;
use crate::session::requester::ClientMemory;
use base::clock;
use base::fair::{self, UserShare};
use config::GroupName;
use std::sync::Arc;
use std::time::Duration;
use upstream::{Lease, Need, Snapshot, Upstream};
use wire::body::Body;
use wire::peer::{CallError, CallOptions, Rejection, RetryHint};
use wire::protocol::methods::{Method, TimeoutClass};
use wire::protocol::{Era, code};
use wire::{CallReply, Raw, Reply, raw};

mod carried;

/// The longest time that a request may take, regardless of progress.
pub(crate) const MAX_TOTAL: Duration = Duration::from_secs(3600);

/// A request as it is sent on one connection.
pub(crate) struct PreparedRequest {
    /// The method.
    pub method: Method,
    /// The params for the upstream.
    pub params: Body,
    /// The limit without progress.
    pub timeout: Duration,
    /// Whether carrying the request out twice does no harm.
    pub repeatable: bool,
    /// Whether the answer may be a task (2025-11-25), because the client asked for one.
    pub may_become_task: bool,
    /// Whether the proxy makes the call as a task and waits for its result, because the tool does not run otherwise.
    pub(crate) run_as_task: bool,
}

/// A connection on which a request can be sent.
pub(crate) struct LeasedConnection {
    /// The lease, which keeps it open.
    pub lease: Lease,
    /// The state of the group when it was leased.
    pub snapshot: Arc<Snapshot>,
}

/// Forwards one request until it is answered.
pub(crate) struct Forwarder<'a> {
    context: &'a RequestContext,
    /// The group. If a reload replaces it while it connects, its successor.
    pub group: Upstream,
    /// How many losses of the group's state callers knew of when the request came.
    pub known_losses: u64,
    /// Whether the request was sent again, so that it is not once more.
    repeated: bool,
    /// Whether the user was offered the login that the request needs.
    login_offered: bool,
}

impl<'a> Forwarder<'a> {
    /// Nothing is sent yet.
    pub(crate) fn new(context: &'a RequestContext, group: Upstream) -> Self {
        let known_losses = group.known_losses();
        Self { context, group, known_losses, repeated: false, login_offered: false }
    }

    /// Leases the connection for the next attempt, if there is one.
    pub(crate) fn connected(&self) -> Option<LeasedConnection> {
        self.group.if_connected().map(|(snapshot, lease)| LeasedConnection { lease, snapshot })
    }

    /// Leases a connection for the next attempt, connecting the group if there is none, once it has what is needed. May
    /// offer the user a login (see [`acquire_for_user`]).
    ///
    /// # Errors
    ///
    /// The group could not be connected in time, or dynamic-mcp shuts down.
    pub(crate) async fn connect(&mut self, need: Need) -> Result<LeasedConnection, RequestError> {
        if let Some(connection) = self.connected() {
            return Ok(connection);
        }
        let acquired = acquire_for_user(self.context, self.group.clone(), need).await;
        let (group, lease) = acquired.map_err(|unavailable| self.unless_shutting_down(unavailable.into()))?;
        let snapshot = group.snapshot();
        self.group = group;
        Ok(LeasedConnection { lease, snapshot })
    }

    /// Sends the request, and returns the reply, which may be the upstream's own error, adapted to the client's era.
    /// Waits for `request.timeout`, or with progress for `MAX_TOTAL` at most. `None`: there is none, and another
    /// attempt may be made. If the request needs a login, offers it to the user and waits for it.
    ///
    /// # Errors
    ///
    /// The upstream did not answer, and no further attempt is made; or its answer does not exist in the client's era.
    pub(crate) async fn send(
        &mut self,
        lease: &Lease,
        request: &PreparedRequest,
    ) -> Result<Option<Reply>, RequestError> {
        let (context, group, method) = (self.context, &self.group, request.method);
        let (opened, _share) = match &context.requester.memory {
            ClientMemory::Carried(caller) => {
                let opened = carried::open(caller, group, method, &request.params);
                (opened.map_err(errors::invalid_params)?, Some(share(group, method)?))
            }
            ClientMemory::Session(_) => (None, None),
        };
        let params = opened.as_deref().unwrap_or(&request.params);
        let options = CallOptions {
            max_total: MAX_TOTAL.max(request.timeout),
            may_become_task: request.may_become_task,
            ..CallOptions::within(request.timeout)
        };
        if method == Method::ToolsCall {
            group.stats.begin_call();
        }
        let started = clock::now();
        let outcome = match request.run_as_task {
            true => Box::pin(task::run(context, group, lease, params, options)).await,
            false => context.send(&group.name, lease, method, params, options).await,
        };
        if method == Method::ToolsCall {
            let took = clock::now().saturating_duration_since(started);
            group.stats.record(took, outcome.as_ref().map_or(true, is_failure));
        }
        match outcome {
            Ok(reply) => self.adapt(lease, request, reply).map(Some),
            // Boxed, so that the future of a request that is answered is small.
            Err(error) => Box::pin(self.check_failure(lease, request, error)).await,
        }
    }

    /// Adapts the answer of an upstream to the client's era, and remembers the URIs in a result.
    ///
    /// # Errors
    ///
    /// The answer cannot be given to this client.
    fn adapt(
        &self,
        lease: &Lease,
        request: &PreparedRequest,
        CallReply { reply, members }: CallReply,
    ) -> Result<Reply, RequestError> {
        let (context, group, method) = (self.context, &self.group, request.method);
        let eras = (lease.era(), context.era);
        let to_era = |reply| {
            let adapted = adapt_to_era(&context.client().attribution, &group.name, method, eras, reply);
            adapted.map_err(|why| RequestError::Untranslatable { group: group.clone(), method, why })
        };
        match &context.requester.memory {
            ClientMemory::Session(session) => {
                if let Ok(result) = &reply
                    && members.uri
                {
                    let uris = origins::uris(result);
                    if !uris.is_empty() {
                        session.uri_origins.lock().record(&group.name, uris);
                    }
                }
                match reply.is_ok() && eras == (Era::Handshake, Era::Handshake) {
                    true => Ok(reply),
                    false => to_era(reply),
                }
            }
            ClientMemory::Carried(caller) => {
                let seal = |result| carried::seal(caller, group, method, &request.params, result);
                Ok(to_era(reply)?.map(seal))
            }
        }
    }

    /// Decides whether another attempt may be made, and returns `None` then. Offers the user the login that the request
    /// needs, once, and waits for it. If the server refused the request because of a lost session and it is not repeated,
    /// that is the reply.
    ///
    /// # Errors
    ///
    /// No further attempt is made. Says why there is no answer.
    async fn check_failure(
        &mut self,
        lease: &Lease,
        request: &PreparedRequest,
        error: CallError,
    ) -> Result<Option<Reply>, RequestError> {
        let groups = self.context.groups();
        if !self.repeated && error.may_be_repeated(request.repeatable) && !groups.is_shutting_down() {
            self.repeated = true;
            return Ok(None);
        }
        let error = match error {
            CallError::Closed { refusal: Some(refusal), .. } => match *refusal {
                Rejection::Error(error) => return self.adapt(lease, request, Err(error).into()).map(Some),
                Rejection::Other(why) => CallError::Failed { why, hint: RetryHint::Never },
            },
            error => error,
        };
        let mut login = None;
        if !self.login_offered && error.needs_login() {
            self.login_offered = true;
            match acquire::log_in(self.context, &self.group).await {
                Ok(()) => return Ok(None),
                Err(outcome) => login = outcome,
            }
        }
        let ended_by = self.end_by_reload().filter(|_| matches!(error, CallError::Closed { .. }));
        let lost = ended_by.map(str::to_owned).or_else(|| lease.lost().map(|lost| lost.to_string()));
        let (group, method) = (self.group.clone(), request.method);
        let unanswered = Box::new(Unanswered { group, method, error, lost, login });
        Err(self.unless_shutting_down(RequestError::Unanswered(unanswered)))
    }

    /// Says what an edit of the config did to the group, if there was one.
    fn end_by_reload(&self) -> Option<&'static str> {
        match self.context.groups().get(&self.group.name) {
            None => Some(REMOVED),
            Some(current) if !current.is_same(&self.group) => Some(REPLACED),
            Some(_) => None,
        }
    }

    /// Replaces the error if the proxy shuts down, which then is its cause.
    fn unless_shutting_down(&self, error: RequestError) -> RequestError {
        if self.context.groups().is_shutting_down() { RequestError::ShuttingDown } else { error }
    }
}

/// Takes the place of one request in flight, for the user of this task.
///
/// # Errors
///
/// The user has as many as are a fair share.
fn share(group: &Upstream, method: Method) -> Result<UserShare, RequestError> {
    let mut share = group.in_flight.share_of(fair::user());
    if share.try_set(1) {
        return Ok(share);
    }
    let why = errors::too_many_in_flight(share.taken_by_user());
    let error = CallError::Failed { why, hint: RetryHint::Never };
    let unanswered = Unanswered { group: group.clone(), method, error, lost: None, login: None };
    Err(RequestError::Unanswered(Box::new(unanswered)))
}

/// Returns whether the answer to a call is an error, or a result that says so.
fn is_failure(CallReply { reply, members }: &CallReply) -> bool {
    let is_error = |result| raw::get(result, "isError").is_some_and(|value| value[..] == *b"true");
    reply.as_ref().map_or(true, |result| members.is_error && is_error(result))
}

/// Forwards a request other than a call of a tool, and returns the upstream's answer. A server that lacks the method
/// says so itself.
///
/// # Errors
///
/// The upstream's own error; or the group could not be connected, did not answer in the time that its config allows, or
/// gave an answer that does not exist in the client's era.
pub(crate) async fn forward_method(
    context: &RequestContext,
    group: &Upstream,
    method: Method,
    params: Raw,
) -> Reply {
    request_span::record_group(&group.name);
    let mut forwarder = Forwarder::new(context, group.clone());
    loop {
        let LeasedConnection { lease, snapshot } = forwarder.connect(group.snapshot().least_need()).await?;
        let request = method_request(&snapshot, method, &params);
        if let Some(reply) = forwarder.send(&lease, &request).await? {
            return reply;
        }
    }
}

fn method_request(snapshot: &Snapshot, method: Method, params: &Raw) -> PreparedRequest {
    let info = method.info();
    let limits = snapshot.server.as_ref().map(|server| server.timeout.clone()).unwrap_or_default();
    let timeout = match info.timeout {
        TimeoutClass::Longest => MAX_TOTAL,
        TimeoutClass::Tools => limits.tools,
        TimeoutClass::Prompts => limits.prompts,
        TimeoutClass::Resources | TimeoutClass::None => limits.resources,
    };
    PreparedRequest {
        method,
        params: params.clone().into(),
        timeout,
        repeatable: info.repeatable,
        may_become_task: false,
        run_as_task: false,
    }
}

/// Adapts a reply of a server to the client's era, and names the group in what it asks the user.
///
/// # Errors
///
/// Says why the reply cannot be given to this client.
fn adapt_to_era(
    attribution: &Attribution,
    group: &GroupName,
    method: Method,
    (server, client): (Era, Era),
    reply: Reply,
) -> Result<Reply, Refusal> {
    Ok(match (server, client, reply) {
        // The server was told that this client has no such capability.
        (Era::Stateless, Era::Handshake, Ok(result)) if needs_input(&result) => {
            return Err("it asks for input in a way that this client does not know (revision 2026-07-28)");
        }
        (_, Era::Handshake, Ok(result)) => Ok(result),
        // Also where the server knows no such results: the client would ask all the same.
        (_, Era::Stateless, Ok(result)) => Ok(attribution.inputs(group, &result)?),
        (Era::Handshake, _, Err(error)) => Err(attribution.error(group, error)?),
        (Era::Stateless, _, Err(error)) => Err(adapt_error(method, client, attribution.error(group, error)?)),
    })
}

/// Adapts an error of a stateless server. Clients of the handshake era know a code of its own for a missing resource.
fn adapt_error(method: Method, client: Era, error: Raw) -> Raw {
    let code = raw::error_code(&error);
    let is_missing = method == Method::ResourcesRead && code == Some(code::INVALID_PARAMS);
    if is_missing && client == Era::Handshake {
        return raw::set(&error, "code", code::RESOURCE_NOT_FOUND.to_string().as_bytes());
    }
    error
}
