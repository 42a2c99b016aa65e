//! The clients in front, as upstreams know them.

use super::client::{Client, OFFERED_BY_MEMBER};
use super::client_requests;
use crate::config::GroupName;
use crate::protocol::capability;
use crate::upstream::clients::{ClientRequest, Clients, LogLevel};
use crate::wire::{Raw, Reply, raw};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

/// The capabilities of a client that upstreams are offered as a whole. The others concern only the client and the
/// proxy.
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
        let whole = OFFERED.iter().filter_map(|name| {
            let value = first.capability(name)?;
            clients.iter().all(|client| client.has_capability(name)).then_some((*name, value))
        });
        let by_member = OFFERED_BY_MEMBER.iter().filter_map(|name| {
            let others: Vec<_> = clients[1..].iter().map(|client| client.carried_members(name)).collect();
            let mut members = first.carried_members(name);
            members.retain(|(key, _)| others.iter().all(|other| other.iter().any(|(known, _)| known == key)));
            (!members.is_empty()).then(|| (*name, raw::object(&members)))
        });
        whole
            .chain(by_member)
            .fold(Raw::from_static(b"{}"), |all, (name, value)| raw::set(&all, name, &value))
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
