//! The clients in front, as upstreams know them.

use super::client::Client;
use super::client_requests;
use crate::config::GroupName;
use crate::protocol::capability;
use crate::upstream::clients::{ClientRequest, Clients, LogLevel};
use crate::wire::{Raw, Reply, raw};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

/// The capabilities of a client that upstreams are offered. The others concern only the client and the proxy.
const OFFERED: [&str; 4] =
    [capability::ROOTS, capability::SAMPLING, capability::ELICITATION, capability::TASKS];

/// The clients that are attached to this instance.
#[derive(Default)]
pub struct ClientRegistry(Mutex<Vec<Arc<Client>>>);

impl ClientRegistry {
    /// Adds a client.
    pub fn attach(&self, client: Arc<Client>) {
        self.0.lock().push(client);
    }

    fn all(&self) -> Vec<Arc<Client>> {
        self.0.lock().clone()
    }
}

impl Clients for ClientRegistry {
    fn is_ready(&self) -> bool {
        self.0.lock().iter().all(|client| client.peer().output().is_ready())
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for client in self.all() {
                client.peer().output().ready().await;
            }
        })
    }

    fn offered_capabilities(&self) -> Raw {
        let clients = self.all();
        let Some(first) = clients.first() else { return Raw::from_static(b"{}") };
        OFFERED.iter().fold(Raw::from_static(b"{}"), |offered, name| match first.capability(name) {
            Some(value) if clients.iter().all(|client| client.has_capability(name)) => {
                raw::set(&offered, name, &value)
            }
            _ => offered,
        })
    }

    fn log_level(&self) -> Option<String> {
        self.all().iter().find_map(|client| client.log_level())
    }

    fn notify(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        for client in self.all() {
            client.notify_from(group, method, params);
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        for client in self.all() {
            client.log(level, message);
        }
    }

    fn request(&self, request: ClientRequest) -> BoxFuture<'static, Reply> {
        let clients = self.all();
        Box::pin(async move {
            match &clients[..] {
                [client] => client_requests::send(client, None, request).await,
                // With several clients, the one whose call is open would have to be found first.
                _ => Err(client_requests::unsupported(&request.method)),
            }
        })
    }
}
