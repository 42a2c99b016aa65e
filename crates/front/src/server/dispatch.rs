//! Routes each request to its handler.

use super::phase::AdvertisedCapabilities;
use super::served_instance::ServedInstance;
use super::{initialize, stateless};
use crate::arguments::text_limits;
use crate::call::{self, ToolCall};
use crate::client::suspended_calls::{self, SuspendedCall};
use crate::errors::{self, RpcError};
use crate::names::own_tools;
use crate::notify::list_changes::KnownLists;
use crate::passthrough::{resources, skills, tasks, topic_subscriptions};
use crate::session::context::Invocation;
use crate::session::context::{RequestContext, UserInput};
use crate::session::requester::Requester;
use crate::tools::tool_list::{self, ToolList};
use crate::tools::{describe, own_prompts, page_actions, protocol_extensions, status, status_app};
use futures_util::future::join_all;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use wire::inbound::ResponseFuture;
use wire::params::Params;
use wire::peer::CallOptions;
use wire::protocol::methods::Method;
use wire::protocol::{Era, capability, meta};
use wire::{Raw, Request};

/// The limit for a group to set its log level.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

/// What a request may learn of the instance itself.
pub(super) struct ServedSurface<'a> {
    /// The capabilities that are advertised.
    pub(super) advertised: AdvertisedCapabilities,
    /// `tools/list`.
    pub(super) tool_list: &'a ToolList,
    /// The lists as the client knows them, if it is told of changes.
    pub(super) known: Option<&'a KnownLists>,
}

impl ServedInstance {
    /// Returns the future that answers a request, with the members that its era asks for. Takes the params of the request.
    /// Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// The request is rejected at once: it is one for `tools/list` with wrong params, or those of [`dispatch`](Self::dispatch).
    pub(super) fn serve(
        &self,
        requester: &Arc<Requester>,
        request: &mut Request,
        method: Method,
        era: Era,
        ServedSurface { advertised, tool_list, known }: ServedSurface<'_>,
    ) -> Result<ResponseFuture, RpcError> {
        let groups = self.groups();
        let answer: ResponseFuture = match method {
            Method::ServerDiscover => Box::pin(ready(Ok(initialize::discover_result(groups, advertised)))),
            Method::ToolsList => {
                let params = request.params.as_deref();
                Box::pin(protocol_extensions::read_list(tool_list, groups, params, era, known)?)
            }
            _ => self.dispatch(requester, request, method, era)?,
        };
        // How long lists of the groups may be cached is not known.
        let is_ours = matches!(method, Method::ServerDiscover | Method::ToolsList);
        let cacheable = is_ours.then(|| groups.clone());
        Ok(match era {
            Era::Handshake => answer,
            Era::Stateless => Box::pin(async move {
                let reply = answer.await;
                stateless::complete(method, reply, cacheable.map_or(0, |groups| tool_list::ttl_ms(&groups)))
            }),
        })
    }

    /// Returns the future that answers a request which may involve groups.
    ///
    /// # Errors
    ///
    /// The request is rejected at once: its params are no object or ambiguous, have a text that is too long, name a
    /// suspended call that is not there, or lack what the method needs.
    fn dispatch(
        &self,
        requester: &Arc<Requester>,
        request: &mut Request,
        method: Method,
        era: Era,
    ) -> Result<ResponseFuture, RpcError> {
        let params = request.params.take().filter(|params| &params[..] != b"null");
        let params = params.unwrap_or_else(Params::empty);
        if params.object().is_none() {
            return Err(errors::invalid_params("params must be an object"));
        }
        params.check_spelling().map_err(|member| errors::ambiguous_params(&member))?;
        text_limits::check(&params)?;
        // A call that waits for its client has to be found by the next request.
        let may_ask = method.info().may_request_input && requester.session().is_some();
        if !may_ask || era == Era::Handshake {
            let input = if may_ask { UserInput::Requests } else { UserInput::None };
            let context = RequestContext::new(requester.clone(), era, &params, input);
            return self.handle(request, method, Invocation { context, params });
        }
        if let Some(mut call) = self.suspended.take(&params)? {
            call.resume(&params);
            return Ok(Box::pin(self.suspended.clone().run(call)));
        }
        let capabilities = params.meta().and_then(|meta| meta.get(meta::CAPABILITIES));
        let capabilities = capabilities.unwrap_or(Raw::from_static(b"{}"));
        let (channel, new_requests) = suspended_calls::input_channel(capabilities);
        let input = UserInput::Answer(channel.clone());
        let context = RequestContext::new(requester.clone(), era, &params, input);
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
            Method::PromptsList => Box::pin(own_prompts::list(invocation)),
            Method::PromptsGet => Box::pin(own_prompts::get(invocation)),
            Method::CompletionComplete => Box::pin(own_prompts::complete(invocation)),
            Method::TasksList => Box::pin(tasks::list(invocation)),
            Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel => {
                Box::pin(tasks::forward(invocation, method))
            }
            Method::LoggingSetLevel => set_log_level(invocation)?,
            // They are answered above, or the client cannot send them.
            Method::Initialize
            | Method::Ping
            | Method::ServerDiscover
            | Method::ToolsList
            | Method::RootsList
            | Method::SamplingCreateMessage
            | Method::ElicitationCreate => return Err(errors::unknown_method()),
        })
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
        if own_tools::is_of_page(&name) && invocation.context.requester.status_page().is_some() {
            if name == own_tools::PAGE_ACTION {
                return Ok(Box::pin(page_actions::call(invocation)));
            }
            let with_others = name == own_tools::STATUS_DATA;
            return Ok(Box::pin(async move { status_app::call(&invocation.context, with_others).await }));
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
}

fn call_dynamic_tool(Invocation { context, params }: Invocation, read_only: bool) -> ResponseFuture {
    // The future borrows the call, because what a future is given is in it twice.
    let call = ToolCall { context, params, read_only, by_our_tool: true };
    Box::pin(async move { call::call_dynamic_tool(&call).await })
}

/// `logging/setLevel`: remembers the level for groups that connect later, and tells the connected ones. The future
/// waits for them for two seconds at most, and their errors are ignored.
///
/// # Errors
///
/// `params.level` is no string, or no log level.
fn set_log_level(invocation: Invocation) -> Result<ResponseFuture, RpcError> {
    let level = invocation.string("level")?;
    invocation.context.client().notifications.set_log_level(level).map_err(errors::invalid_params)?;
    let calls = invocation.groups().all().into_iter().filter_map(|group| {
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
