//! Requests that come one by one, each from a requester of its own (HTTP). Nothing connects them but what a client
//! carries, so the next one may reach another process.
//!
//! The same handlers serve them as those of a connection. There are no phases. What needs a connection is neither
//! advertised nor served.

use super::options::SessionOptions;
use super::phase::{AdvertisedCapabilities, MethodAvailability};
use super::request_clients::RequestClients;
use super::served_instance::ServedInstance;
use super::stateless::{self, RequestMeta};
use super::{answer_tools_list, initialize};
use crate::client::Client;
use crate::client::attribution::Attribution;
use crate::errors::{self, RpcError};
use crate::session::caller::Caller;
use crate::session::request_span;
use crate::session::requester::{ClientMemory, Requester};
use crate::tools::tool_list;
use base::blocking;
use std::future::ready;
use std::sync::Arc;
use upstream::GroupManager;
use wire::inbound::ResponseFuture;
use wire::output::Output;
use wire::params::Params;
use wire::peer::Peer;
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{Raw, Request};

/// Serves the requests of many clients of one instance.
pub struct RequestServer {
    /// What all requests share.
    instance: ServedInstance,
    /// The clients that listen.
    clients: Arc<RequestClients>,
    /// What the command line chooses.
    options: SessionOptions,
}

impl RequestServer {
    /// Creates the server of an instance. `clients`: what its upstreams know as their clients.
    pub fn new(
        groups: Arc<GroupManager>,
        clients: Arc<RequestClients>,
        options: SessionOptions,
    ) -> Arc<Self> {
        let instance = ServedInstance::new(groups, None);
        clients.set_instance(&instance.state);
        Arc::new(Self { instance, clients, options })
    }

    /// Returns the groups.
    pub fn groups(&self) -> &Arc<GroupManager> {
        self.instance.groups()
    }

    /// Starts the groups. Returns before they are connected.
    pub async fn start(&self) {
        self.groups().start().await;
        self.instance.tool_list(self.options.first_list_wait);
    }

    /// Tells the clients that listen which lists change. Never completes.
    pub async fn follow_lists(&self) {
        let groups = self.groups();
        let list = self.instance.tool_list(self.options.first_list_wait);
        let mut changes = answer_tools_list::changes(list, groups, true);
        changes.known().resources_asked();
        changes.known().prompts_asked();
        loop {
            let contents = changes.changed().await;
            for method in changes.update(contents) {
                self.clients.list_changed(method);
            }
        }
    }

    /// Tells every `subscriptions/listen` to end. Returns before they are answered.
    pub fn close(&self) {
        self.instance.subscriptions.close();
    }

    /// Returns the latest revision that clients are offered.
    pub fn latest_revision(&self) -> &'static str {
        self.options.latest_revision
    }

    /// Returns the definition of a tool by the name under which clients see it. `None` for our own tools and unknown ones,
    /// and if it takes too long.
    pub async fn definition(&self, exposed: &str) -> Option<Raw> {
        let groups = self.groups();
        let (group, tool) = self.instance.state.names.get(groups).await.ok()?.resolve(exposed)?;
        let catalog = groups.get(&group)?.snapshot().catalog.clone()?;
        let bytes = catalog.work_bytes();
        let find = move || catalog.definition(catalog.place(&tool)?).cloned();
        blocking::run_on(bytes, find).await.ok()?
    }

    /// Returns the future that answers a request, in the span that is current now. Dropping it cancels the request. What is
    /// sent before the answer goes to `output`. Takes the params of the request.
    ///
    /// # Errors
    ///
    /// The request is rejected at once.
    pub fn serve(
        &self,
        mut request: Request,
        caller: Caller,
        output: Output,
    ) -> Result<ResponseFuture, RpcError> {
        let era = request.era();
        let method = self.check(&request, era)?;
        if let Some(answer) = self.answer_here(&request, method, era)? {
            return Ok(completed(answer, method, era, tool_list::ttl_ms(self.groups())));
        }
        let client = Client::new(Peer::new(output).0, Attribution::new(self.groups()));
        if era == Era::Stateless {
            client.add_capabilities(&RequestMeta::of(&request).capabilities());
        }
        if method == Method::SubscriptionsListen {
            self.clients.listen(&client);
        }
        let (instance, memory) = (self.instance.state.clone(), ClientMemory::Carried(caller));
        let requester = Arc::new(Requester { instance, client, memory });
        let answer = self.instance.dispatch(&requester, &mut request, method, era)?;
        Ok(completed(answer, method, era, 0))
    }

    /// Returns the method of the request, if it is served.
    ///
    /// # Errors
    ///
    /// It does not exist, needs a connection, or the request lacks what each one has to carry.
    fn check(&self, request: &Request, era: Era) -> Result<Method, RpcError> {
        let advertised = self.advertised();
        let availability = match era {
            Era::Stateless => {
                RequestMeta::of(request).check(request, self.options.latest_revision)?;
                MethodAvailability::in_stateless_era(&request.method, advertised)
            }
            Era::Handshake => MethodAvailability::in_handshake_era(&request.method, advertised),
        };
        match availability {
            MethodAvailability::Available(Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) => {
                Err(errors::needs_connection(&request.method))
            }
            MethodAvailability::Available(method) => Ok(method),
            MethodAvailability::NotNegotiated(_) => Err(errors::needs_connection(&request.method)),
            MethodAvailability::Unknown => Err(errors::unknown_method()),
        }
    }

    fn advertised(&self) -> AdvertisedCapabilities {
        AdvertisedCapabilities { connected: false, ..initialize::advertised(self.groups()) }
    }

    /// Answers a request that involves no group. `None` for any other.
    ///
    /// # Errors
    ///
    /// The params of `tools/list` are wrong.
    fn answer_here(
        &self,
        request: &Request,
        method: Method,
        era: Era,
    ) -> Result<Option<ResponseFuture>, RpcError> {
        let groups = self.groups();
        let result = match method {
            Method::Ping => Raw::from_static(b"{}"),
            Method::Initialize => {
                let params = request.params.clone().unwrap_or_else(Params::empty);
                let revision = initialize::negotiate(&params, self.options.latest_revision);
                initialize::initialize_result(revision, groups, self.advertised())
            }
            Method::ServerDiscover => initialize::discover_result(groups, self.advertised()),
            Method::ToolsList => {
                let list = self.instance.tool_list(self.options.first_list_wait).clone();
                let params = request.params.as_deref();
                return Ok(Some(Box::pin(answer_tools_list::read(groups, list, params, era, |_: &Raw| {})?)));
            }
            _ => return Ok(None),
        };
        Ok(Some(Box::pin(ready(Ok(result)))))
    }
}

/// Returns the answer with the members that its era asks for.
fn completed(answer: ResponseFuture, method: Method, era: Era, ttl_ms: u32) -> ResponseFuture {
    let answer = match era {
        Era::Handshake => answer,
        Era::Stateless => Box::pin(async move { stateless::complete(method, answer.await, ttl_ms) }),
    };
    request_span::continued(answer)
}
