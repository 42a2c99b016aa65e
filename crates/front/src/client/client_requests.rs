//! Sends a request of an upstream to the client: as a request (handshake era), or through the answer to an open call
//! of the client (stateless era).

use super::Client;
use super::input_channels::{CallHint, InputChannel, NoInputChannel, PendingInput};
use super::question_limit::TooManyQuestions;
use crate::errors;
use base::text::visible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use upstream::clients::ClientRequest;
use upstream::connection::task_ids;
use wire::peer::CallOptions;
use wire::protocol::methods::Method;
use wire::protocol::{capability, code};
use wire::{Raw, Reply, error_object, raw};

/// The limit for an answer. A person may have to give it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a request for roots waits for a call of a stateless client. A server asks at its start, before the call that
/// it was started for.
const CALL_WAIT: Duration = Duration::from_secs(1);

/// Sends a request of an upstream to the client, and waits for the answer for an hour at most. `channel`: the call of a
/// stateless client that the request belongs to, if it is known. A question to the user first waits while too many are
/// open, for another hour at most.
///
/// # Errors
///
/// Those of [`deliver`]; or an error that says that too many questions wait already.
pub async fn send(client: &Arc<Client>, channel: Option<&InputChannel>, request: ClientRequest) -> Reply {
    let _permit = match is_question(&request.method) {
        true => {
            let permit = client.questions.acquire(&request.group).await;
            Some(permit.map_err(|TooManyQuestions| errors::too_many_questions(&request.group))?)
        }
        false => None,
    };
    deliver(client, channel, request).await
}

/// Sends a request at once: the caller has waited for its turn among the open questions. Waits for the answer for an
/// hour at most.
///
/// # Errors
///
/// The client's own error; "method not found" if the client did not declare the capability, or if the call that the
/// request belongs to has ended; or an error that says that the client must not see the request, that it may belong to
/// any of several calls, that the task is unknown, or that the client gave no answer.
pub async fn deliver(client: &Arc<Client>, channel: Option<&InputChannel>, request: ClientRequest) -> Reply {
    let Some(needed) = needed_capability(&request.method) else { return Err(unsupported(&request.method)) };
    let is_stateless = client.capabilities.is_stateless();
    // A stateless client declares its capabilities with each call.
    let is_able = match channel {
        Some(channel) => raw::get(&channel.capabilities, needed).is_some(),
        None if is_stateless => needed != capability::TASKS,
        None => client.capabilities.get(needed).is_some(),
    };
    if !is_able {
        return Err(unsupported(&request.method));
    }
    let params = client.attribution.request(&request.group, &request.method, request.params);
    let params = params.map_err(|why| error_object(code::INVALID_PARAMS, why, None))?;
    let request = ClientRequest { params, ..request };
    let requests = match channel {
        Some(channel) => Some(channel.requests.clone()),
        None if is_stateless => {
            if needed == capability::ROOTS && client.capabilities.get(needed).is_some() {
                let opened = client.input_channels.opened(&request.group);
                // Without a call, the server learns below that it cannot ask.
                drop(timeout(CALL_WAIT, opened).await);
            }
            let task = request.params.as_ref().and_then(task_ids::related);
            let hint = CallHint { number: request.call, task };
            let requests = client.input_channels.find(&request.group, &hint, needed);
            Some(requests.map_err(|why| match why {
                NoInputChannel::Unsupported => unsupported(&request.method),
                NoInputChannel::Ambiguous => ambiguous(&request.method),
            })?)
        }
        None => None,
    };
    match requests {
        Some(requests) => send_through(&requests, request.method, request.params).await,
        None => send_directly(client, needed, request).await,
    }
}

/// Returns whether the user may have to answer a request of this method.
pub(crate) fn is_question(method: &str) -> bool {
    matches!(needed_capability(method), Some(capability::ELICITATION | capability::SAMPLING))
}

/// Returns the capability that a client declares for a method.
fn needed_capability(method: &str) -> Option<&'static str> {
    match Method::parse(method)? {
        method @ (Method::RootsList | Method::SamplingCreateMessage | Method::ElicitationCreate) => {
            method.info().capability
        }
        Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksList => {
            Some(capability::TASKS)
        }
        _ => None,
    }
}

/// Returns the error for a request that the client does not support.
pub fn unsupported(method: &str) -> Raw {
    error_object(
        code::METHOD_NOT_FOUND,
        &format!("{} is not supported by this client", visible(method)),
        None,
    )
}

/// Returns the error for a request that may belong to any of several open calls.
fn ambiguous(method: &str) -> Raw {
    let message = format!(
        "{method} cannot be passed on: several calls are open, and it does not say which one it belongs to"
    );
    error_object(code::INTERNAL_ERROR, &message, None)
}

async fn send_directly(client: &Arc<Client>, needed: &str, request: ClientRequest) -> Reply {
    let task = request.params.as_ref().and_then(|params| raw::get_str(params, "taskId"));
    let is_own_task = |task: &str| client.group_of_task(task).is_some_and(|group| group == request.group);
    if needed == capability::TASKS && task.is_some_and(|task| !is_own_task(&task)) {
        return Err(error_object(code::INVALID_PARAMS, "unknown task", None));
    }
    let wants_task = request.params.as_ref().is_some_and(|params| raw::get(params, "task").is_some());
    let options = CallOptions { progress: request.progress, ..CallOptions::within(ANSWER_TIMEOUT) };
    match client.peer().call(&request.method, request.params, options).await {
        Ok(Ok(result)) => {
            let task = raw::get(&result, "task").filter(|_| wants_task);
            if let Some(id) = task.and_then(|task| raw::get_str(&task, "taskId")) {
                client.add_task(id, &request.group);
            }
            let result = task_ids::restore_related(&result);
            let is_list = request.method == Method::TasksList.name();
            Ok(if is_list { own_tasks(&result, is_own_task) } else { result })
        }
        Ok(Err(error)) => Err(error),
        Err(error) => Err(no_answer(&error.to_string())),
    }
}

/// Sends a request through the answer to an open call of the client.
///
/// # Errors
///
/// The client's own error; "method not found" if the call has ended; or an error that says that the client gave no
/// answer: the call ended meanwhile, or an hour has passed.
async fn send_through(channel: &mpsc::Sender<PendingInput>, method: String, params: Option<Raw>) -> Reply {
    let (answer, answered) = oneshot::channel();
    if channel.send(PendingInput { method: method.clone(), params, answer }).await.is_err() {
        return Err(unsupported(&method));
    }
    match timeout(ANSWER_TIMEOUT, answered).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => Err(no_answer("its call has ended")),
        Err(_) => Err(no_answer("it did not answer in time")),
    }
}

fn no_answer(why: &str) -> Raw {
    error_object(code::INTERNAL_ERROR, &format!("the client gave no answer: {why}"), None)
}

/// Removes the tasks that the client created for other groups from a list of tasks.
fn own_tasks(result: &Raw, is_own: impl Fn(&str) -> bool) -> Raw {
    let Some(tasks) = raw::elements(result, "tasks") else { return result.clone() };
    let own = tasks.into_iter().filter(|task| raw::get_str(task, "taskId").is_some_and(|id| is_own(&id)));
    raw::set(result, "tasks", &raw::array(&own.collect::<Vec<_>>()))
}
