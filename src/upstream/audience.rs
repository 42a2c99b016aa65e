//! The clients that upstreams speak to: they are asked, told, and waited for when they do not read.

use crate::config::GroupName;
use crate::wire::{Raw, Reply, raw};
use client::Client;
use parking_lot::Mutex;
use questions::Question;
use std::sync::Arc;

pub mod client;
pub mod listener;
pub mod questions;

/// What we offer upstreams of what a client declares. The rest of it is between the client and us.
const OFFERED: [&str; 4] = ["roots", "sampling", "elicitation", "tasks"];
#[derive(Default)]
pub struct Audience(Mutex<Vec<Arc<Client>>>);

impl Audience {
    pub fn attach(&self, client: Arc<Client>) {
        self.0.lock().push(client);
    }

    /// Returns when every client has room for more.
    pub async fn ready(&self) {
        let clients = self.clients();
        for client in clients {
            client.peer().output().ready().await;
        }
    }

    /// What the clients attached now can do for upstreams, as a JSON object.
    pub fn offer(&self) -> Raw {
        let clients = self.clients();
        let Some(client) = clients.first() else { return Raw::from_static(b"{}") };
        OFFERED.iter().fold(Raw::from_static(b"{}"), |offer, capability| {
            match client.capability(capability) {
                Some(value) if clients.iter().all(|client| client.can(capability)) => {
                    raw::set(&offer, capability, &value)
                }
                _ => offer,
            }
        })
    }

    /// The log level to ask upstreams for.
    pub fn level(&self) -> Option<String> {
        self.clients().iter().find_map(|client| client.level())
    }

    /// Passes a notification of `group` on.
    pub fn notify(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        for client in self.clients() {
            client.tell(group, method, params);
        }
    }

    /// Asks the client. What it did not declare that it can do is refused here.
    pub async fn ask(&self, question: Question) -> Reply {
        match &self.clients()[..] {
            [client] => questions::ask(client, question).await,
            // Which of several has the call in flight that this is about is for a second front to say.
            _ => Err(questions::unsupported(&question.method)),
        }
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        self.0.lock().clone()
    }
}
