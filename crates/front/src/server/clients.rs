//! The clients of an instance, as upstreams see them: what upstreams send them is passed on here. An instance has one
//! client with a connection, or the clients of single requests. Of what a server sends to those nothing belongs to one of
//! them, but what they listen for.

use crate::client::{Client, client_requests};
use crate::errors;
use crate::session::requester::InstanceState;
use config::GroupName;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use upstream::clients::{ClientRequest, Clients, LogLevel};
use wire::protocol::capability;
use wire::protocol::methods::notification;
use wire::{Raw, Reply};

/// The capabilities of a client that upstreams are offered as a whole. The others concern only the client and the
/// proxy.
const OFFERED: [&str; 4] =
    [capability::ROOTS, capability::SAMPLING, capability::ELICITATION, capability::TASKS];

/// The client of this instance, once its session begins. An instance has one session.
#[derive(Default)]
pub struct FrontClient(OnceLock<SoleClient>);

struct SoleClient {
    client: Arc<Client>,
    /// The instance, whose tasks upstreams report about. It has the groups, which have this.
    instance: Weak<InstanceState>,
}

impl FrontClient {
    /// Sets the client. An instance does this once: a second client is not taken.
    pub(super) fn attach(&self, client: Arc<Client>, instance: &Arc<InstanceState>) {
        let is_first = self.0.set(SoleClient { client, instance: Arc::downgrade(instance) }).is_ok();
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
        if let Some(SoleClient { client, instance }) = self.0.get() {
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

/// The clients that listen.
#[derive(Default)]
pub struct RequestClients {
    /// Each until its request ends.
    listening: Mutex<Vec<Weak<Client>>>,
    /// The instance, whose tasks upstreams report about.
    instance: OnceLock<Weak<InstanceState>>,
}

impl RequestClients {
    /// Sets the instance. Only the first call counts.
    pub(super) fn set_instance(&self, instance: &Arc<InstanceState>) {
        drop(self.instance.set(Arc::downgrade(instance)));
    }

    /// Passes notifications to a client that it listens for, until its request has ended.
    pub(super) fn listen(&self, client: &Arc<Client>) {
        let mut listening = self.listening.lock();
        listening.retain(|client| client.strong_count() > 0);
        listening.push(Arc::downgrade(client));
    }

    /// Tells the listeners of a list that it changed. `method`: the notification that says so.
    pub(super) fn list_changed(&self, method: &'static str) {
        for client in self.all() {
            client.notifications.list_changed(method);
        }
    }

    /// A copy, because what a client is told may run code that takes the lock.
    fn all(&self) -> Vec<Arc<Client>> {
        self.listening.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Clients for RequestClients {
    /// A client that does not read loses its own stream, and delays no other.
    fn is_ready(&self) -> bool {
        true
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn offered_capabilities(&self) -> Raw {
        Raw::from_static(b"{}")
    }

    fn log_level(&self) -> Option<String> {
        None
    }

    fn see_processes(&self) -> bool {
        false
    }

    /// Log messages may be about the calls of others. Everything else that no listener asks for has no reader.
    fn notify(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        if let Some(instance) = self.instance.get().and_then(Weak::upgrade) {
            instance.open_tasks.observe(method, params);
        }
        if matches!(method, notification::RESOURCES_UPDATED | notification::TASKS) {
            for client in self.all() {
                client.notify_from(group, method, params);
            }
        }
    }

    fn log(&self, _: Option<&GroupName>, _: LogLevel, _: &str) {}

    fn request(&self, request: ClientRequest) -> BoxFuture<'static, Reply> {
        let error = errors::asks_over_http(&request.group, &request.method);
        tracing::debug!(group = %request.group, method = %request.method, "refused a request of a server");
        Box::pin(std::future::ready(Err(error.into())))
    }
}
