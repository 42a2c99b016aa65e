//! Sends a request to the group that it belongs to. This is the only loop that does so, for calls of tools and for
//! every other method.
//!
//! A request is sent again once if the connection broke and the request cannot have been carried out, or carrying it
//! out twice does no harm. It is also sent again after the user logged in, if that is what it needed.

use super::era_bridge;
use super::task_call;
use crate::front::ask::acquire::{self, Unavailable, acquire_for_user};
use crate::front::errors::{self, RpcError};
use crate::front::session::context::RequestContext;
use crate::front::{origins, tool_errors};
use crate::upstream::Upstream;
use crate::upstream::lease::Lease;
use base::clock;
use std::time::Duration;
use wire::body::Body;
use wire::peer::{CallError, CallOptions};
use wire::protocol::methods::{Method, TimeoutClass};
use wire::{CallReply, Raw, Reply, raw};

/// The longest time that a request may take, regardless of progress.
pub const MAX_TOTAL: Duration = Duration::from_secs(3600);

/// A request to be forwarded. It is prepared again for each connection that it is sent on.
pub trait Outgoing: Send {
    /// Why the request is not sent, or has no answer.
    type Error: From<ForwardError> + Send;

    /// Returns what to send on this connection.
    fn prepare(
        &mut self,
        group: &Upstream,
        lease: &Lease,
    ) -> impl Future<Output = Result<PreparedRequest, Self::Error>> + Send;
}

/// A request as it is sent on one connection.
pub struct PreparedRequest {
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
    pub run_as_task: bool,
}

impl PreparedRequest {
    /// The limits of the request.
    fn options(&self) -> CallOptions {
        CallOptions {
            max_total: MAX_TOTAL.max(self.timeout),
            may_become_task: self.may_become_task,
            ..CallOptions::within(self.timeout)
        }
    }
}

/// The answer to a forwarded request, and the connection that it came on.
pub struct Forwarded {
    /// The group that answered.
    pub group: Upstream,
    /// A lease on the connection.
    pub lease: Lease,
    /// The answer, adapted to the client's era.
    pub reply: Reply,
}

/// Why a request has no answer.
pub enum ForwardError {
    /// The proxy shuts down.
    ShuttingDown,
    /// The group could not be connected.
    Unavailable(Box<Unavailable>),
    /// The upstream did not answer.
    Unanswered(Box<Unanswered>),
    /// The upstream's answer does not exist in the client's era.
    Untranslatable {
        /// The group.
        group: Upstream,
        /// The method.
        method: Method,
        /// Why the answer cannot be translated.
        why: &'static str,
    },
}

/// A request that the upstream did not answer.
pub struct Unanswered {
    /// The group.
    pub group: Upstream,
    /// The method.
    pub method: Method,
    /// Why there is no answer.
    pub error: CallError,
    /// How the connection ended, if it did.
    pub lost: Option<String>,
    /// The outcome of the login offer, as text for the model.
    pub login: Option<String>,
}

impl From<ForwardError> for RpcError {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::ShuttingDown => errors::shutting_down(),
            ForwardError::Unavailable(unavailable) => (*unavailable).into(),
            ForwardError::Unanswered(unanswered) => {
                let Unanswered { group, method, error, lost, login } = *unanswered;
                let error = errors::unanswered(&group.name, method.name(), &error, lost);
                tracing::warn!("{}", error.message);
                error.with_login(login)
            }
            ForwardError::Untranslatable { group, method, why } => {
                errors::untranslatable(&group.name, method.name(), why)
            }
        }
    }
}

impl ForwardError {
    /// Returns the text for the model that called `tool`.
    ///
    /// # Errors
    ///
    /// Returns the error itself if the proxy shuts down, which is not about the tool.
    pub fn tool_error(self, tool: &str) -> Result<String, Self> {
        match self {
            Self::ShuttingDown => Err(Self::ShuttingDown),
            Self::Unavailable(unavailable) => Ok((*unavailable).into()),
            Self::Unanswered(unanswered) => {
                let Unanswered { group, error, lost, login, .. } = *unanswered;
                let text = tool_errors::unanswered(&group.name, tool, &error, lost);
                tracing::warn!("{}", text.lines().next().unwrap_or_default());
                Ok(login.map_or_else(|| text.clone(), |login| format!("{text}\n{login}")))
            }
            Self::Untranslatable { group, why, .. } => {
                Ok(tool_errors::untranslatable(&group.name, tool, why))
            }
        }
    }
}

/// Forwards a request to a group, connecting it if there is no connection.
pub async fn forward<O: Outgoing>(
    context: &RequestContext,
    mut group: Upstream,
    outgoing: &mut O,
) -> Result<Forwarded, O::Error> {
    let (mut repeated, mut login_offered) = (false, false);
    loop {
        let acquired = acquire_for_user(context, group).await;
        let (current, lease) = acquired.map_err(|unavailable| {
            unless_shutting_down(context, ForwardError::Unavailable(Box::new(unavailable)))
        })?;
        group = current;
        let request = outgoing.prepare(&group, &lease).await?;
        let (method, repeatable) = (request.method, request.repeatable);
        let started = clock::now();
        let (params, options) = (&request.params, request.options());
        let outcome = match request.run_as_task {
            true => Box::pin(task_call::run(context, &group, &lease, params, options)).await,
            false => context.send(&group.name, &lease, method, params, options).await,
        };
        if method == Method::ToolsCall {
            let took = clock::now().saturating_duration_since(started);
            group.stats.record(took, outcome.as_ref().map_or(true, is_failure));
        }
        let error = match outcome {
            Ok(reply) => return adapt(context, group, lease, method, reply).map_err(O::Error::from),
            Err(error) => error,
        };
        if !repeated && error.may_be_repeated(repeatable) && !context.groups().is_shutting_down() {
            repeated = true;
            continue;
        }
        let mut login = None;
        if !login_offered && error.needs_login() {
            login_offered = true;
            match Box::pin(acquire::log_in(context, &group)).await {
                Ok(()) => continue,
                Err(outcome) => login = outcome,
            }
        }
        let ended_by = end_by_reload(context, &group).filter(|_| matches!(error, CallError::Closed { .. }));
        let lost = ended_by.map(str::to_owned).or_else(|| lease.lost().map(|lost| lost.to_string()));
        let unanswered = Box::new(Unanswered { group, method, error, lost, login });
        return Err(unless_shutting_down(context, ForwardError::Unanswered(unanswered)).into());
    }
}

/// Says what an edit of the config did to the group of a call that has no answer, if there was one.
fn end_by_reload(context: &RequestContext, group: &Upstream) -> Option<&'static str> {
    match context.groups().get(&group.name) {
        None => Some(tool_errors::REMOVED),
        Some(current) if !current.is_same(group) => Some(tool_errors::REPLACED),
        Some(_) => None,
    }
}

/// Adapts the answer of an upstream to the client's era.
fn adapt(
    context: &RequestContext,
    group: Upstream,
    lease: Lease,
    method: Method,
    CallReply { reply, members }: CallReply,
) -> Result<Forwarded, ForwardError> {
    if let Ok(result) = &reply
        && members.uri
    {
        let uris = origins::uris(result);
        if !uris.is_empty() {
            context.session.uri_origins.lock().record(&group.name, uris);
        }
    }
    let (attribution, eras) = (&context.session.client.attribution, (lease.era(), context.era));
    match era_bridge::adapt(attribution, &group.name, method, eras, reply) {
        Ok(reply) => Ok(Forwarded { group, lease, reply }),
        Err(why) => Err(ForwardError::Untranslatable { group, method, why }),
    }
}

/// Returns whether the answer to a call is an error, or a result that says so.
fn is_failure(CallReply { reply, members }: &CallReply) -> bool {
    let is_error = |result| raw::get(result, "isError").is_some_and(|value| value[..] == *b"true");
    reply.as_ref().map_or(true, |result| members.is_error && is_error(result))
}

/// Replaces the error if the proxy shuts down, which then is its cause.
fn unless_shutting_down(context: &RequestContext, error: ForwardError) -> ForwardError {
    if context.groups().is_shutting_down() { ForwardError::ShuttingDown } else { error }
}

/// A request other than a call of a tool.
struct MethodRequest {
    method: Method,
    params: Raw,
}

impl Outgoing for MethodRequest {
    type Error = ForwardError;

    async fn prepare(&mut self, group: &Upstream, _: &Lease) -> Result<PreparedRequest, ForwardError> {
        let info = self.method.info();
        let snapshot = group.snapshot();
        let limits = snapshot.server.as_ref().map(|server| server.timeout.clone()).unwrap_or_default();
        let timeout = match info.timeout {
            TimeoutClass::Longest => MAX_TOTAL,
            TimeoutClass::Tools => limits.tools,
            TimeoutClass::Prompts => limits.prompts,
            TimeoutClass::Resources | TimeoutClass::None => limits.resources,
        };
        Ok(PreparedRequest {
            method: self.method,
            params: self.params.clone().into(),
            timeout,
            repeatable: info.repeatable,
            may_become_task: false,
            run_as_task: false,
        })
    }
}

/// Forwards a request other than a call of a tool, and returns the upstream's answer. A server that lacks the method says
/// so itself.
pub async fn forward_method(
    context: &RequestContext,
    group: &Upstream,
    method: Method,
    params: Raw,
) -> Reply {
    let forwarded = forward(context, group.clone(), &mut MethodRequest { method, params }).await;
    forwarded.map_err(RpcError::from)?.reply
}
