//! What an upstream asks its client: by a request of ours, or, where the client makes no handshake and so cannot be asked,
//! by an answer to its own call that says what is missing.

use super::client::{Client, Posed};
use crate::config::GroupName;
use crate::protocol::code;
use crate::upstream::task_ids;
use crate::wire::peer::{CallOptions, CancelParams, Progress};
use crate::wire::{Raw, Reply, error_object, raw};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// A person may have to answer.
const LONGEST: Duration = Duration::from_secs(3600);

/// A request from an upstream.
pub struct Question {
    pub group: GroupName,
    pub method: String,
    pub params: Option<Raw>,
    /// The upstream's own token, and where its progress goes.
    pub progress: Option<Progress>,
    pub cancelled: CancelParams,
}

/// Asks the client. What it did not declare that it can do is refused here.
pub async fn ask(client: &Arc<Client>, question: Question) -> Reply {
    let capability = match question.method.as_str() {
        "roots/list" => "roots",
        "sampling/createMessage" => "sampling",
        "elicitation/create" => "elicitation",
        "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/list" => "tasks",
        method => return Err(unsupported(method)),
    };
    let by_answers = client.is_asked_by_answers();
    // Without a handshake each call says for itself what its client can do.
    let able = if by_answers { capability != "tasks" } else { client.can(capability) };
    if !able {
        return Err(unsupported(&question.method));
    }
    let params = match question.params {
        Some(params) if capability == "elicitation" => Some(named(&params, question.group.as_str())),
        params => params,
    };
    let question = Question { params, ..question };
    match by_answers {
        true => pose(client, capability, question).await,
        false => request(client, capability, question).await,
    }
}

pub fn unsupported(method: &str) -> Raw {
    error_object(code::METHOD_NOT_FOUND, &format!("{method} is not supported by this client"), None)
}

async fn request(client: &Arc<Client>, capability: &str, question: Question) -> Reply {
    let task = question.params.as_ref().and_then(|params| raw::get_str(params, "taskId"));
    let is_its_own = |task: &str| client.task_of(task).is_some_and(|group| group == question.group);
    if capability == "tasks" && task.is_some_and(|task| !is_its_own(&task)) {
        return Err(error_object(code::INVALID_PARAMS, "unknown task", None));
    }
    let as_task = question.params.as_ref().is_some_and(|params| raw::get(params, "task").is_some());
    let options = CallOptions {
        progress: question.progress,
        cancelled: question.cancelled,
        ..CallOptions::within(LONGEST)
    };
    match client.peer().call(&question.method, question.params, options).await {
        Ok(Ok(result)) => {
            let task = raw::get(&result, "task").filter(|_| as_task);
            if let Some(id) = task.and_then(|task| raw::get_str(&task, "taskId")) {
                client.made_task(id, &question.group);
            }
            let result = task_ids::related_back(&result);
            Ok(if question.method == "tasks/list" { own_tasks(&result, is_its_own) } else { result })
        }
        Ok(refused) => refused,
        Err(error) => Err(no_answer(&error.to_string())),
    }
}

/// By the answer to a call of the client that is open at this group.
async fn pose(client: &Arc<Client>, capability: &str, question: Question) -> Reply {
    let carrier = client.carrier(&question.group, capability);
    pose_by(&carrier.ok_or_else(|| unsupported(&question.method))?, question.method, question.params).await
}

/// By the answer to this call.
pub async fn pose_by(carrier: &mpsc::Sender<Posed>, method: String, params: Option<Raw>) -> Reply {
    let (answer, answered) = oneshot::channel();
    if carrier.send(Posed { method: method.clone(), params, answer }).await.is_err() {
        return Err(unsupported(&method));
    }
    match timeout(LONGEST, answered).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => Err(no_answer("its call has ended")),
        Err(_) => Err(no_answer("no answer in time")),
    }
}

fn no_answer(why: &str) -> Raw {
    error_object(code::INTERNAL_ERROR, &format!("the client gave no answer: {why}"), None)
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
