//! Requests of the other side that are being served: each is started at once, answered when its future completes, and
//! dropped when it is cancelled. All of them run in the task of their owner, which saves two switches between tasks for
//! each request.

use super::cork::corked;
use super::peer::{CancelParams, Peer};
use super::{Raw, Reply, raw};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The future that answers one request.
pub type ResponseFuture = BoxFuture<'static, Reply>;

/// The requests of one connection that are not answered yet.
pub struct InboundRequests {
    /// Sends the answers.
    peer: Arc<Peer>,
    /// The answer to a request whose future panicked.
    internal_error: Raw,
    /// The open requests, and those that were cancelled since the last poll.
    open: FuturesUnordered<OpenRequest>,
    /// The number of open requests.
    count: usize,
}

/// A request that is not answered yet.
struct OpenRequest {
    /// The id as the other side wrote it.
    id: Raw,
    /// Filled with the params of a `notifications/cancelled` before the future is dropped.
    cancel_params: CancelParams,
    /// Answers the request. `None` once it is cancelled.
    answer: Option<ResponseFuture>,
    /// Wakes the owner for this request.
    waker: Option<Waker>,
}

/// How a request ended.
enum Ending {
    Answered(Reply),
    Panicked,
    Cancelled,
}

impl Future for OpenRequest {
    type Output = (Raw, Ending);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else {
            return Poll::Ready((self.id.clone(), Ending::Cancelled));
        };
        match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
            Ok(Poll::Ready(reply)) => Poll::Ready((self.id.clone(), Ending::Answered(reply))),
            Err(_) => Poll::Ready((self.id.clone(), Ending::Panicked)),
            Ok(Poll::Pending) => {
                if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    self.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl InboundRequests {
    /// Serves requests that arrive on `peer`. `internal_error` is the JSON-RPC error for a future that panics.
    pub fn new(peer: Arc<Peer>, internal_error: Raw) -> Self {
        Self { peer, internal_error, open: FuturesUnordered::new(), count: 0 }
    }

    /// The number of open requests.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no request is open.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Polls the future once, so that what it sends leaves in the order of the requests. If it has to wait, it continues
    /// whenever the owner polls `ended`, which the owner has to do before it waits for anything.
    pub fn start(&mut self, id: Raw, answer: ResponseFuture, cancel_params: CancelParams) {
        self.open.push(OpenRequest { id, cancel_params, answer: Some(answer), waker: None });
        self.count += 1;
        self.advance();
    }

    /// Polls the requests that can continue. `ended` sees those that are woken later.
    fn advance(&mut self) {
        while let Some(Some((id, ending))) = self.open.next().now_or_never() {
            self.finish(&id, ending);
        }
    }

    fn finish(&mut self, id: &Raw, ending: Ending) {
        let reply = match ending {
            Ending::Answered(reply) => reply,
            Ending::Panicked => Err(self.internal_error.clone()),
            // `cancel` has counted it.
            Ending::Cancelled => return,
        };
        self.count -= 1;
        self.peer.reply(id, reply);
    }

    /// Continues the requests, and returns when some are answered. Never completes while none is open. Cancel-safe.
    pub async fn ended(&mut self) {
        poll_fn(|context| self.poll_ended(context)).await;
    }

    /// Continues the requests. Returns when the other side has to read answers before more is done. Cancel-safe.
    pub async fn serve(&mut self) {
        poll_fn(|context| match self.poll_ended(context) {
            Poll::Ready(()) if !self.peer.output().is_ready() => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Sends all answers that are known, in one write.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut ended = Poll::Pending;
        if self.open.is_empty() {
            return ended;
        }
        corked(|| {
            while let Poll::Ready(Some((id, ending))) = self.open.poll_next_unpin(context) {
                self.finish(&id, ending);
                ended = Poll::Ready(());
            }
        });
        ended
    }

    /// Drops the future of the request that a `notifications/cancelled` names. The calls that it made are cancelled
    /// with the same params.
    pub fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        let named = self.open.iter_mut().find(|open| open.id == id && open.answer.is_some());
        let Some(open) = named else { return };
        drop(open.cancel_params.set(params));
        open.answer = None;
        if let Some(waker) = open.waker.take() {
            waker.wake();
        }
        self.count -= 1;
        self.peer.forget(&id);
        self.advance();
    }

    /// Answers every open request with `error` and drops its future.
    pub fn abandon(&mut self, error: &Raw) {
        self.count = 0;
        for open in std::mem::take(&mut self.open) {
            if open.answer.is_some() {
                self.peer.reply(&open.id, Err(error.clone()));
            }
        }
    }
}
