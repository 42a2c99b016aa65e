//! The other side's requests that are being worked on: begun at once, answered when they are done, dropped when they
//! are cancelled.

use super::peer::{CancelParams, Peer};
use super::{Raw, Reply, raw};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::{AbortHandle, Id, JoinSet};

/// What answers one request.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

pub struct InboundRequests {
    peer: Arc<Peer>,
    /// The answer to a request whose work panicked.
    internal_error: Raw,
    open: HashMap<Id, Open>,
    work: JoinSet<()>,
}

struct Open {
    /// As the other side wrote it.
    id: Raw,
    cancelled: CancelParams,
    task: AbortHandle,
}

impl InboundRequests {
    pub fn new(peer: Arc<Peer>, internal_error: Raw) -> Self {
        Self { peer, internal_error, open: HashMap::new(), work: JoinSet::new() }
    }

    /// How many requests are being worked on.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins the work at once, so that requests leave in the order they came, and gives it a task if it must wait.
    pub fn start(&mut self, id: Raw, mut work: ResponseFuture, cancelled: CancelParams) {
        let first =
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(Waker::noop()))));
        match first {
            Ok(Poll::Ready(reply)) => self.peer.reply(&id, reply),
            Ok(Poll::Pending) => {
                let (peer, to) = (self.peer.clone(), id.clone());
                // Answered by the task itself: one turn of the scheduler less than by way of `ended`.
                let task = self.work.spawn(async move { peer.reply(&to, work.await) });
                self.open.insert(task.id(), Open { id, cancelled, task });
            }
            Err(_) => self.peer.reply(&id, Err(self.internal_error.clone())),
        }
    }

    /// Takes note of the next request that was answered; never resolves while there is none. Cancel-safe.
    pub async fn ended(&mut self) {
        let (task, panicked) = match self.work.join_next_with_id().await {
            Some(Ok((task, ()))) => (task, false),
            Some(Err(error)) => (error.id(), error.is_panic()),
            None => return std::future::pending().await,
        };
        if let Some(open) = self.open.remove(&task).filter(|_| panicked) {
            self.peer.reply(&open.id, Err(self.internal_error.clone()));
        }
    }

    /// Drops the work of the request that a `notifications/cancelled` names; whatever it had asked elsewhere is
    /// cancelled there with the same params.
    pub fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        let task = self.open.iter().find(|(_, open)| open.id == id).map(|(task, _)| *task);
        if let Some(open) = task.and_then(|task| self.open.remove(&task)) {
            drop(open.cancelled.set(params));
            open.task.abort();
            self.peer.forget(&id);
        }
    }

    /// Answers everything that is open with `error`.
    pub fn abandon(&mut self, error: &Raw) {
        for (_, open) in std::mem::take(&mut self.open) {
            if !open.task.is_finished() {
                open.task.abort();
                self.peer.reply(&open.id, Err(error.clone()));
            }
        }
    }
}
