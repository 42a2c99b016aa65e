//! The clients that upstreams speak to: they are asked, told, and waited for when they do not read.

use super::task_ids;
use crate::config::GroupName;
use crate::protocol::code;
use crate::wire::peer::{CallOptions, Cancelled, Progress};
use crate::wire::{Raw, Reply, error_object, raw};
use client::Client;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub mod client;

/// A person may have to answer.
const LONGEST_QUESTION: Duration = Duration::from_secs(3600);
/// What we offer upstreams of what a client declares. The rest of it is between the client and us.
const OFFERED: [&str; 4] = ["roots", "sampling", "elicitation", "tasks"];
#[derive(Default)]
pub struct Audience(Mutex<Vec<Arc<Client>>>);

/// A request from an upstream.
pub struct Question {
    pub group: GroupName,
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
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/list" => "tasks",
            _ => return refuse(),
        };
        let clients = self.clients();
        // Which of several has the call in flight that this is about is for a second front to say.
        let [client] = &clients[..] else { return refuse() };
        if !client.can(capability) {
            return refuse();
        }
        let task = question.params.as_ref().and_then(|params| raw::get_str(params, "taskId"));
        let is_its_own = |task: &str| client.task_of(task).is_some_and(|group| group == question.group);
        if capability == "tasks" && task.is_some_and(|task| !is_its_own(&task)) {
            return Err(error_object(code::INVALID_PARAMS, "unknown task", None));
        }
        let as_task = question.params.as_ref().is_some_and(|params| raw::get(params, "task").is_some());
        let params = match question.params {
            Some(params) if capability == "elicitation" => Some(named(&params, question.group.as_str())),
            params => params,
        };
        let options = CallOptions {
            progress: question.progress,
            cancelled: question.cancelled,
            ..CallOptions::within(LONGEST_QUESTION)
        };
        match client.peer().call(&question.method, params, options).await {
            Ok(Ok(result)) => {
                let task = raw::get(&result, "task").filter(|_| as_task);
                if let Some(id) = task.and_then(|task| raw::get_str(&task, "taskId")) {
                    client.made_task(id, &question.group);
                }
                let result = task_ids::related_back(&result);
                Ok(if question.method == "tasks/list" { own_tasks(&result, is_its_own) } else { result })
            }
            Ok(refused) => refused,
            Err(error) => {
                Err(error_object(code::INTERNAL_ERROR, &format!("the client gave no answer: {error}"), None))
            }
        }
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.0).clone()
    }
}

/// A list of tasks without those that were made for others.
fn own_tasks(result: &Raw, is_its_own: impl Fn(&str) -> bool) -> Raw {
    let Some(tasks) = raw::elements(result, "tasks") else { return result.clone() };
    let own = tasks.into_iter().filter(|task| raw::get_str(task, "taskId").is_some_and(|id| is_its_own(&id)));
    let own = own.collect::<Vec<_>>().join(&b","[..]);
    raw::set(result, "tasks", &[b"[", &own[..], b"]"].concat())
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
