//! Passes on what upstreams send to the client: requests, notifications and log messages.

use crate::client::Client;
use crate::client::client_requests;
use crate::session::requester::InstanceState;
use config::GroupName;
use futures_util::future::BoxFuture;
use std::sync::{Arc, OnceLock, Weak};
use upstream::clients::{ClientRequest, Clients, LogLevel};
use wire::protocol::capability;
use wire::{Raw, Reply};

/// The capabilities of a client that upstreams are offered as a whole. The others concern only the client and the
/// proxy.
const OFFERED: [&str; 4] =
    [capability::ROOTS, capability::SAMPLING, capability::ELICITATION, capability::TASKS];

/// The client of this instance, once its session begins. An instance has one session.
#[derive(Default)]
pub struct FrontClient(OnceLock<AttachedClient>);

struct AttachedClient {
    client: Arc<Client>,
    /// The instance, whose tasks upstreams report about. It has the groups, which have this.
    instance: Weak<InstanceState>,
}

impl FrontClient {
    /// Sets the client. An instance does this once: a second client is not taken.
    pub(super) fn attach(&self, client: Arc<Client>, instance: &Arc<InstanceState>) {
        let is_first = self.0.set(AttachedClient { client, instance: Arc::downgrade(instance) }).is_ok();
        debug_assert!(is_first, "an instance has one session");
    }

    fn client(&self) -> Option<&Arc<Client>> {
        self.0.get().map(|attached| &attached.client)
    }
}

impl Clients for FrontClient {
    fn is_ready(&self) -> bool {
        self.client().is_none_or(|client| client.peer().output().is_ready())
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(client) = self.client() {
                client.peer().output().ready().await;
            }
        })
    }

    fn offered_capabilities(&self) -> Raw {
        match self.client() {
            Some(client) => client.capabilities.offered(&OFFERED),
            None => Raw::from_static(b"{}"),
        }
    }

    fn log_level(&self) -> Option<String> {
        self.client().and_then(|client| client.notifications.log_level())
    }

    fn notify(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        if let Some(AttachedClient { client, instance }) = self.0.get() {
            client.notify_from(group, method, params);
            if let Some(instance) = instance.upgrade() {
                instance.open_tasks.observe(method, params);
            }
        }
    }

    fn log(&self, about: Option<&GroupName>, level: LogLevel, message: &str) {
        if let Some(client) = self.client() {
            client.notifications.log(about, level, message);
        }
    }

    fn request(&self, request: ClientRequest) -> BoxFuture<'static, Reply> {
        let client = self.client().cloned();
        Box::pin(async move {
            match client {
                Some(client) => client_requests::send(&client, None, request).await,
                None => Err(client_requests::unsupported(&request.method)),
            }
        })
    }
}
