//! Requests of the other side that are being served: each is started at once, answered when its future completes, and
//! dropped when it is cancelled.

use super::peer::{CancelParams, Peer};
use super::{Raw, Reply, raw};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::{AbortHandle, Id, JoinSet};

/// The future that answers one request.
pub type ResponseFuture = BoxFuture<'static, Reply>;

/// The requests of one connection that are not answered yet.
pub struct InboundRequests {
    /// Sends the answers.
    peer: Arc<Peer>,
    /// The answer to a request whose future panicked.
    internal_error: Raw,
    /// The open requests by task.
    open: HashMap<Id, OpenRequest>,
    /// The tasks of the open requests.
    tasks: JoinSet<()>,
}

/// A request that has a task of its own.
struct OpenRequest {
    /// The id as the other side wrote it.
    id: Raw,
    /// Filled with the params of a `notifications/cancelled` before the task is aborted.
    cancel_params: CancelParams,
    /// The task that answers it.
    task: AbortHandle,
}

impl InboundRequests {
    /// Serves requests that arrive on `peer`. `internal_error` is the JSON-RPC error for a future that panics.
    pub fn new(peer: Arc<Peer>, internal_error: Raw) -> Self {
        Self { peer, internal_error, open: HashMap::new(), tasks: JoinSet::new() }
    }

    /// The number of open requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns whether no request is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Polls the future once, so that what it sends leaves in the order of the requests. If it has to wait, it gets a
    /// task of its own.
    pub fn start(&mut self, id: Raw, mut answer: ResponseFuture, cancel_params: CancelParams) {
        let first =
            catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))));
        match first {
            Ok(Poll::Ready(reply)) => self.peer.reply(&id, reply),
            Ok(Poll::Pending) => {
                let (peer, to) = (self.peer.clone(), id.clone());
                // The task itself sends the answer, which saves a turn of the scheduler.
                let task = self.tasks.spawn(async move { peer.reply(&to, answer.await) });
                self.open.insert(task.id(), OpenRequest { id, cancel_params, task });
            }
            Err(_) => self.peer.reply(&id, Err(self.internal_error.clone())),
        }
    }

    /// Removes the next request whose task has ended. Never completes while no task runs. Cancel-safe.
    pub async fn ended(&mut self) {
        let (task, panicked) = match self.tasks.join_next_with_id().await {
            Some(Ok((task, ()))) => (task, false),
            Some(Err(error)) => (error.id(), error.is_panic()),
            None => return std::future::pending().await,
        };
        if let Some(open) = self.open.remove(&task).filter(|_| panicked) {
            self.peer.reply(&open.id, Err(self.internal_error.clone()));
        }
    }

    /// Drops the future of the request that a `notifications/cancelled` names. The calls that it made are cancelled
    /// with the same params.
    pub fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        let task = self.open.iter().find(|(_, open)| open.id == id).map(|(task, _)| *task);
        if let Some(open) = task.and_then(|task| self.open.remove(&task)) {
            drop(open.cancel_params.set(params));
            open.task.abort();
            self.peer.forget(&id);
        }
    }

    /// Answers every open request with `error` and drops its future.
    pub fn abandon(&mut self, error: &Raw) {
        for (_, open) in std::mem::take(&mut self.open) {
            if !open.task.is_finished() {
                open.task.abort();
                self.peer.reply(&open.id, Err(error.clone()));
            }
        }
    }
}
