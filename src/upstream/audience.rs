//! The clients that upstreams speak to: they are asked, told, and waited for when they do not read.

use crate::config::GroupName;
use crate::protocol::code;
use crate::wire::peer::{CallError, CallOptions, Cancelled, Progress};
use crate::wire::{Raw, Reply, error_object, raw};
use client::Client;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub mod client;

/// A person may have to answer.
const LONGEST_QUESTION: Duration = Duration::from_secs(3600);
/// What we offer upstreams of what a client declares. The rest of it is between the client and us.
const OFFERED: [&str; 3] = ["roots", "sampling", "elicitation"];
#[derive(Default)]
pub struct Audience(Mutex<Vec<Arc<Client>>>);

/// A request from an upstream.
pub struct Question {
    pub group: String,
    pub method: String,
    pub params: Option<Raw>,
    /// The upstream's own token, and where its progress goes.
    pub progress: Option<Progress>,
    pub cancelled: Cancelled,
}

impl Audience {
    pub fn attach(&self, client: Arc<Client>) {
        lock(&self.0).push(client);
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
        let refuse = || {
            let message = format!("{} is not supported by this client", question.method);
            Err(error_object(code::METHOD_NOT_FOUND, &message, None))
        };
        let capability = match question.method.as_str() {
            "roots/list" => "roots",
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            _ => return refuse(),
        };
        let clients = self.clients();
        // Which of several has the call in flight that this is about is for a second front to say.
        let [client] = &clients[..] else { return refuse() };
        if !client.can(capability) {
            return refuse();
        }
        let params = match question.params {
            Some(params) if capability == "elicitation" => Some(named(&params, &question.group)),
            params => params,
        };
        let options = CallOptions {
            progress: question.progress,
            cancelled: question.cancelled,
            ..CallOptions::within(LONGEST_QUESTION)
        };
        match client.peer().call(&question.method, params, options).await {
            Ok(reply) => reply,
            Err(error @ (CallError::Closed { .. } | CallError::TimedOut(_) | CallError::TooLong { .. })) => {
                Err(error_object(code::INTERNAL_ERROR, &format!("the client gave no answer: {error}"), None))
            }
        }
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.0).clone()
    }
}

/// An elicitation says which server asks (the specification wants clients to show it, and the client knows only us).
pub fn named(params: &Raw, group: &str) -> Raw {
    match raw::get_str(params, "message") {
        Some(message) => {
            let message = serde_json::Value::from(format!("[{group}] {message}"));
            raw::set(params, "message", message.to_string().as_bytes())
        }
        None => params.clone(),
    }
}

/// No code that can panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
