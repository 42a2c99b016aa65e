//! Requests that come one by one, each from a requester of its own (HTTP). Nothing connects them but what a client
//! carries, so the next one may reach another process.
//!
//! The same handlers serve them as those of a connection. There are no phases. What needs a connection is neither
//! advertised nor served.

use super::clients::RequestClients;
use super::dispatch::ServedSurface;
use super::phase::{AdvertisedCapabilities, MethodAvailability};
use super::served_instance::{ServedInstance, SessionOptions};
use super::{initialize, stateless};
use crate::client::Client;
use crate::client::attribution::Attribution;
use crate::errors::{self, RpcError};
use crate::session::caller::Caller;
use crate::session::request_span;
use crate::session::requester::{ClientMemory, Requester};
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
}

impl RequestServer {
    /// Creates the server of an instance. `clients`: what its upstreams know as their clients.
    pub fn new(
        groups: Arc<GroupManager>,
        clients: Arc<RequestClients>,
        options: SessionOptions,
    ) -> Arc<Self> {
        let instance = ServedInstance::new(groups, options, None);
        clients.set_instance(&instance.state);
        Arc::new(Self { instance, clients })
    }

    /// Returns the groups.
    pub fn groups(&self) -> &Arc<GroupManager> {
        self.instance.groups()
    }

    /// Starts the groups. Returns before they are connected.
    pub async fn start(&self) {
        self.groups().start().await;
        self.instance.tool_list();
    }

    /// Tells the clients that listen which lists change. Never completes.
    pub async fn follow_lists(&self) {
        let groups = self.groups();
        let list = self.instance.tool_list();
        let mut changes = list.changes(groups, true);
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
        self.instance.options.latest_revision
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
        // What needs a connection is not advertised.
        let advertised = AdvertisedCapabilities { connected: false, ..initialize::advertised(self.groups()) };
        let capabilities = match era {
            Era::Stateless => Some(stateless::check(&request, self.latest_revision())?),
            Era::Handshake => None,
        };
        let method = served_method(&request, era, advertised)?;
        if let Some(result) = self.handshake(&request, method, advertised) {
            return Ok(request_span::continued(Box::pin(ready(Ok(result)))));
        }
        let client = Client::new(Peer::new(output).0, Attribution::new(self.groups()));
        capabilities.iter().for_each(|capabilities| client.add_capabilities(capabilities));
        if method == Method::SubscriptionsListen {
            self.clients.listen(&client);
        }
        let (instance, memory) = (self.instance.state.clone(), ClientMemory::Carried(caller));
        let requester = Arc::new(Requester { instance, client, memory });
        let surface = ServedSurface { advertised, tool_list: self.instance.tool_list(), known: None };
        self.instance.serve(&requester, &mut request, method, era, surface).map(request_span::continued)
    }

    /// Answers a request with which a connection would begin or be checked.
    fn handshake(
        &self,
        request: &Request,
        method: Method,
        advertised: AdvertisedCapabilities,
    ) -> Option<Raw> {
        match method {
            Method::Ping => Some(Raw::from_static(b"{}")),
            Method::Initialize => {
                let params = request.params.clone().unwrap_or_else(Params::empty);
                let revision = initialize::negotiate(&params, self.latest_revision());
                Some(initialize::initialize_result(revision, self.groups(), advertised))
            }
            _ => None,
        }
    }
}

/// Returns the method of a request, if it is served.
///
/// # Errors
///
/// It does not exist, or needs a connection.
fn served_method(
    request: &Request,
    era: Era,
    advertised: AdvertisedCapabilities,
) -> Result<Method, RpcError> {
    let availability = match era {
        Era::Stateless => MethodAvailability::in_stateless_era(&request.method, advertised),
        Era::Handshake => MethodAvailability::in_handshake_era(&request.method, advertised),
    };
    match availability {
        MethodAvailability::Available(method)
            if !matches!(method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) =>
        {
            Ok(method)
        }
        MethodAvailability::Unknown => Err(errors::unknown_method()),
        MethodAvailability::Available(_) | MethodAvailability::NotNegotiated(_) => {
            Err(errors::needs_connection(&request.method))
        }
    }
}
