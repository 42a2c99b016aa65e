//! Reads connections: one loop for the client, the upstreams, and the sessions and servers of the host.
//!
//! Messages that were read together are handled together, and what that sends is written together (`coalesce`).

use super::lines::LineReader;
use super::output::Output;
use super::peer::{Incoming, Peer, Unread};
use crate::output::coalesce::{coalesced, run_woken};
use std::pin::pin;

/// What the owner of a connection does with its messages, and what else it waits for.
pub trait ConnectionHandler: Send {
    /// How many messages are handled before other tasks run.
    const MESSAGES_PER_TURN: usize = 128;

    /// Waits until a message can be handled, if `is_ready` returns false. Returns false if no more are to be read.
    fn ready(&mut self, lines: &mut LineReader) -> impl Future<Output = bool> + Send;

    /// Waits for a message. Continues the open requests and the other work of the connection meanwhile; returns `None`
    /// after that, so that `ready` is asked again.
    fn wait_for<T: Send>(
        &mut self,
        message: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Option<T>> + Send;

    /// Handles a message, without waiting.
    fn handle_message(&mut self, incoming: Incoming, lines: &mut LineReader);

    /// Returns whether the next message can be handled without a call of `ready`. It is asked before and after every
    /// message. `ready` is called only while it returns false, so it also returns false if `ready` has work to do or has to
    /// end the connection. Once `ready` has returned true, one message is handled, whatever this returns.
    fn is_ready(&self) -> bool;
}

/// Reads messages until the stream ends, or the handler wants no more. Open calls of the peer then still wait, until
/// the caller calls [`Peer::end`] or their time is over.
pub async fn run<H: ConnectionHandler>(handler: &mut H, peer: &Peer, lines: &mut LineReader) {
    while handler.is_ready() || handler.ready(lines).await {
        // Pinned here, because it would be moved twice otherwise.
        let message = handler.wait_for(pin!(peer.next(lines))).await;
        match message {
            Some(Some(first)) => {
                let is_long = handle_buffered(handler, peer, first, lines);
                if is_long {
                    tokio::task::yield_now().await;
                }
            }
            Some(None) => return,
            None => {}
        }
    }
}

/// Handles a message, and then those that were read with it. Returns whether other tasks have to run now.
fn handle_buffered<H: ConnectionHandler>(
    handler: &mut H,
    peer: &Peer,
    first: Unread,
    lines: &mut LineReader,
) -> bool {
    let is_large = first.is_large();
    coalesced(|| {
        let incoming = peer.read(first);
        let is_large_answer = is_large && matches!(incoming, Incoming::Handled);
        handler.handle_message(incoming, lines);
        let mut is_ready = handler.is_ready();
        for _ in 1..H::MESSAGES_PER_TURN {
            // What follows an answer stays behind it.
            run_woken();
            let next = if is_ready { peer.next_buffered(lines) } else { None };
            let Some(unread) = next else { return is_large_answer };
            handler.handle_message(peer.read(unread), lines);
            is_ready = handler.is_ready();
        }
        is_ready
    })
}

/// Waits until the output takes more. Returns false if the stream ends first: a side that reads no answers may still close
/// it.
pub async fn ready_or_ended(output: &Output, lines: &mut LineReader) -> bool {
    if output.is_ready() {
        return true;
    }
    tokio::select! {
        biased;
        () = output.ready() => true,
        () = lines.ended() => false,
    }
}
