//! Routes each request to its handler.

use super::served_instance::ServedInstance;
use super::stateless::RequestMeta;
use crate::call::ToolCall;
use crate::client::suspended_calls;
use crate::client::suspended_calls::{SuspendedCall, SuspendedCalls};
use crate::errors::RpcError;
use crate::notify::subscriptions::Subscriptions;
use crate::passthrough::{resources, skills, tasks, topic_subscriptions};
use crate::session::context::{RequestContext, SessionState};
use crate::session::invocation::Invocation;
use crate::tools::search::ToolSearch;
use crate::tools::{describe, protocol_extensions, status, status_app, status_prompt};
use crate::{call, errors, own_tools, text_limits};
use config::GroupName;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use wire::inbound::ResponseFuture;
use wire::params::Params;
use wire::peer::CallOptions;
use wire::protocol::methods::Method;
use wire::protocol::{Era, capability};
use wire::{Raw, Request, raw};

/// The limit for a group to set its log level.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Routes the requests of one session.
pub(crate) struct Dispatcher {
    /// What all requests of the session share.
    state: Arc<SessionState>,
    /// The subscriptions of all clients of the instance.
    subscriptions: Arc<Subscriptions>,
    /// The calls that wait for input.
    suspended: Arc<SuspendedCalls>,
    /// The index of `search_dynamic_tools`.
    search: Arc<ToolSearch>,
}

impl Dispatcher {
    /// Creates the dispatcher of a new session of an instance.
    pub(super) fn new(instance: &ServedInstance, state: Arc<SessionState>) -> Self {
        let (subscriptions, search) = (instance.subscriptions.clone(), instance.search.clone());
        Self { state, subscriptions, suspended: Arc::default(), search }
    }

    /// Returns the future that answers the request. Takes the params of the request.
    ///
    /// # Errors
    ///
    /// The request is rejected at once: its params are no object or ambiguous, have a text that is too long, name a
    /// suspended call that is not there, or lack what the method needs.
    pub(crate) fn dispatch(
        &self,
        request: &mut Request,
        method: Method,
        era: Era,
    ) -> Result<ResponseFuture, RpcError> {
        // What waits in this process is not there for a request that another one gets.
        let may_request_input = method.info().may_request_input && self.state.caller.is_none();
        let may_suspend = may_request_input && era == Era::Stateless;
        let capabilities = if may_suspend { RequestMeta::of(request).capabilities() } else { Raw::default() };
        let params = request.params.take().filter(|params| &params[..] != b"null");
        let params = params.unwrap_or_else(Params::empty);
        if params.object().is_none() {
            return Err(errors::invalid_params("params must be an object"));
        }
        params.check_spelling().map_err(|member| errors::ambiguous_params(&member))?;
        text_limits::check(&params)?;
        if may_suspend && let Some(mut suspended) = self.suspended.take(&params)? {
            suspended.resume(&params);
            return Ok(Box::pin(self.suspended.clone().run(suspended)));
        }
        let mut context = RequestContext::new(self.state.clone(), era, &params);
        context.may_request_input = may_request_input;
        if !may_suspend {
            return self.handle(request, method, Invocation { context, params });
        }
        let (channel, new_requests) = suspended_calls::input_channel(capabilities);
        context.input_channel = Some(channel.clone());
        let progress = context.progress.clone();
        let answer = self.handle(request, method, Invocation { context, params })?;
        let call = SuspendedCall::new(answer, new_requests, &channel, progress);
        Ok(Box::pin(self.suspended.clone().run(call)))
    }

    /// Returns the future that handles a request.
    ///
    /// # Errors
    ///
    /// The params lack what the method needs, or another part of the server answers the method.
    fn handle(
        &self,
        request: &Request,
        method: Method,
        invocation: Invocation,
    ) -> Result<ResponseFuture, RpcError> {
        let subscriptions = || self.subscriptions.clone();
        Ok(match method {
            Method::ToolsCall => self.call_tool(invocation)?,
            Method::ToolsDescribe => Box::pin(protocol_extensions::describe(invocation)),
            Method::ToolsDescribeBatch => Box::pin(protocol_extensions::describe_batch(invocation)),
            Method::ResourcesList => Box::pin(status_app::list_resources(invocation)),
            Method::ResourceTemplatesList => Box::pin(resources::templates(invocation)),
            Method::ResourcesRead => Box::pin(status_app::read_resource(invocation)),
            Method::ResourcesDirectoryRead => Box::pin(skills::read_directory(invocation)),
            Method::SkillsList => Box::pin(skills::list(invocation)),
            Method::SkillsGet => Box::pin(skills::get(invocation)),
            Method::ResourcesSubscribe => {
                Box::pin(topic_subscriptions::subscribe(subscriptions(), invocation))
            }
            Method::ResourcesUnsubscribe => {
                Box::pin(topic_subscriptions::unsubscribe(subscriptions(), invocation))
            }
            Method::SubscriptionsListen => {
                let id = request.id.clone();
                Box::pin(topic_subscriptions::listen(subscriptions(), invocation, id))
            }
            Method::PromptsList => Box::pin(status_prompt::list(invocation)),
            Method::PromptsGet => Box::pin(status_prompt::get(invocation)),
            Method::CompletionComplete => Box::pin(status_prompt::complete(invocation)),
            Method::TasksList => Box::pin(tasks::list(invocation)),
            Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel => {
                Box::pin(tasks::forward(invocation, method))
            }
            Method::LoggingSetLevel => self.set_log_level(invocation)?,
            // `ClientSession::serve` answers these, or the client cannot send them.
            Method::Initialize
            | Method::Ping
            | Method::ServerDiscover
            | Method::ToolsList
            | Method::RootsList
            | Method::SamplingCreateMessage
            | Method::ElicitationCreate => return Err(errors::unknown_method()),
        })
    }

    /// Tells every open `subscriptions/listen` to end, because the session ends. Returns before they are answered.
    pub(crate) fn close(&self) {
        self.subscriptions.close();
    }

    /// `tools/call`: one of our tools, or a tool of an upstream.
    ///
    /// # Errors
    ///
    /// `params.name` is no string.
    fn call_tool(&self, invocation: Invocation) -> Result<ResponseFuture, RpcError> {
        // Most calls are of this tool, which is found without decoding its name.
        let name = invocation.params.object().and_then(|params| params.value("name"));
        if name.is_some_and(|name| name.is_plain_str(own_tools::CALL_DYNAMIC_TOOL)) {
            return Ok(call_dynamic_tool(invocation, false));
        }
        let name = invocation.string("name")?;
        if own_tools::is_of_page(&name)
            && let Some(reports) = self.state.client.status_reports().cloned()
        {
            let with_others = name == own_tools::STATUS_DATA;
            let answer =
                async move { Ok(status_app::call(&invocation.context, &reports, with_others).await) };
            return Ok(Box::pin(answer));
        }
        Ok(match &*name {
            own_tools::CALL_DYNAMIC_TOOL => call_dynamic_tool(invocation, false),
            own_tools::CALL_DYNAMIC_TOOL_READONLY => call_dynamic_tool(invocation, true),
            own_tools::GET_DYNAMIC_TOOLS => Box::pin(async move {
                let Invocation { context, params } = invocation;
                let arguments = params.get("arguments");
                Ok(describe::get_dynamic_tools(&context, arguments.as_ref()).await)
            }),
            own_tools::SEARCH_DYNAMIC_TOOLS => {
                let search = self.search.clone();
                Box::pin(async move {
                    let arguments = invocation.params.get("arguments");
                    Ok(search.search_dynamic_tools(invocation.groups(), arguments.as_ref()).await)
                })
            }
            own_tools::GET_STATUS => Box::pin(async move {
                let arguments = invocation.params.get("arguments");
                Ok(status::get_status(&invocation.context, arguments.as_ref()).await)
            }),
            _ => {
                let Invocation { context, params } = invocation;
                Box::pin(async move { call::call_directly(context, params, &name).await })
            }
        })
    }

    /// `logging/setLevel`: remembers the level for groups that connect later, and tells the connected ones. The future
    /// waits for them for two seconds at most, and their errors are ignored.
    ///
    /// # Errors
    ///
    /// `params.level` is no string, or no log level.
    fn set_log_level(&self, invocation: Invocation) -> Result<ResponseFuture, RpcError> {
        let level = invocation.string("level")?;
        self.state.client.notifications.set_log_level(level).map_err(errors::invalid_params)?;
        let calls = self.state.groups.all().into_iter().filter_map(|group| {
            let catalog = group.snapshot().catalog.clone();
            let logs = catalog.is_some_and(|catalog| catalog.info.declares(capability::LOGGING));
            let lease = group.try_lease().filter(|lease| logs && lease.era() == Era::Handshake)?;
            let params = invocation.params.clone();
            Some(async move {
                let options = CallOptions::within(SET_LEVEL_TIMEOUT);
                let method = Method::LoggingSetLevel.name();
                // If the server ignores the level, it sends more or fewer messages; nothing else depends on it.
                drop(lease.peer().call(method, Some(params), options).await);
            })
        });
        let calls: Vec<_> = calls.collect();
        Ok(Box::pin(async move {
            join_all(calls).await;
            Ok(Raw::from_static(b"{}"))
        }))
    }

    /// Passes a notification about a task of the client to the group for which the task was created, if it is
    /// connected.
    pub(crate) fn notify_group_of_task(&self, method: &str, params: Option<&Raw>) {
        let id = params.and_then(|params| raw::get_str(params, "taskId"));
        let group: Option<GroupName> = id.and_then(|id| self.state.client.group_of_task(&id));
        let group = group.and_then(|group| self.state.groups.get(&group));
        if let Some(lease) = group.and_then(|group| group.try_lease()) {
            lease.peer().notify(method, params.cloned());
        }
    }

    /// Passes a notification to every connected group of the handshake era.
    pub(crate) fn notify_groups(&self, method: &str, params: Option<&Raw>) {
        for group in self.state.groups.all() {
            if let Some(lease) = group.try_lease().filter(|lease| lease.era() == Era::Handshake) {
                lease.peer().notify(method, params.cloned());
            }
        }
    }
}

fn call_dynamic_tool(Invocation { context, params }: Invocation, read_only: bool) -> ResponseFuture {
    // The future borrows the call, because what a future is given is in it twice.
    let call = ToolCall { context, params, read_only, by_our_tool: true };
    Box::pin(async move { call::call_dynamic_tool(&call).await })
}
