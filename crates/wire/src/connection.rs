//! Reads connections: one loop for the client, the upstreams, and the sessions and servers of the host.
//!
//! Messages that were read together are handled in one turn (`inbound`).

use super::lines::{BYTES_PER_TURN, LineReader};
use super::output::{NotReading, Output};
use super::peer::{Incoming, Peer, Unread};
use crate::inbound::{in_turn, run_woken};
use std::pin::pin;

/// The owner of a connection: it handles the messages, and does other work while it waits for them.
pub trait ConnectionHandler: Send {
    /// How many messages are handled before other tasks run.
    const MESSAGES_PER_TURN: usize = 128;
    /// Whether the other side is a server: its requests wait until it has read the replies to those before, and it loses
    /// its connection if it does not read them. A handler of a client waits in `ready`, as long as the client likes.
    const IS_SERVER: bool = false;

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
///
/// # Errors
///
/// Fails if the other side is a server and does not read the replies to its requests.
pub async fn run<H: ConnectionHandler>(
    handler: &mut H,
    peer: &Peer,
    lines: &mut LineReader,
) -> Result<(), NotReading> {
    while handler.is_ready() || handler.ready(lines).await {
        // Pinned here, because it would be moved twice otherwise.
        let message = handler.wait_for(pin!(peer.next(lines))).await;
        match message {
            Some(Some(first)) => match handle_buffered(handler, peer, first, lines) {
                ReadTurn::Over => {}
                ReadTurn::Long => tokio::task::yield_now().await,
                ReadTurn::Unread(incoming) => {
                    replies_taken(handler, peer).await?;
                    in_turn(|| handler.handle_message(incoming, lines));
                }
            },
            Some(None) => return Ok(()),
            None => {}
        }
    }
    Ok(())
}

/// Waits until the other side has read replies. Continues the other work of the connection meanwhile.
///
/// # Errors
///
/// Fails if it does not.
async fn replies_taken<H: ConnectionHandler>(handler: &mut H, peer: &Peer) -> Result<(), NotReading> {
    let mut taken = pin!(peer.output().replies_taken());
    loop {
        if let Some(outcome) = handler.wait_for(&mut taken).await {
            return outcome;
        }
    }
}

/// How handling messages ended.
enum ReadTurn {
    /// No more messages can be handled at once.
    Over,
    /// Other tasks have to run now.
    Long,
    /// This message came, which may need a reply, but the other side has not read the replies to those before it.
    Unread(Incoming),
}

/// Handles a message, and then those that were read with it.
fn handle_buffered<H: ConnectionHandler>(
    handler: &mut H,
    peer: &Peer,
    first: Unread,
    lines: &mut LineReader,
) -> ReadTurn {
    let is_large = first.is_large();
    let mut bytes = first.len();
    in_turn(|| {
        let incoming = peer.read(first);
        if H::IS_SERVER && has_to_wait(&incoming, peer) {
            return ReadTurn::Unread(incoming);
        }
        let is_large_answer = is_large && matches!(incoming, Incoming::Handled);
        handler.handle_message(incoming, lines);
        let mut is_ready = handler.is_ready();
        for _ in 1..H::MESSAGES_PER_TURN {
            // Messages after an answer stay behind it.
            run_woken();
            let next = if is_ready { peer.next_buffered(lines) } else { None };
            let Some(unread) = next else {
                return if is_large_answer { ReadTurn::Long } else { ReadTurn::Over };
            };
            bytes += unread.len();
            let incoming = peer.read(unread);
            if H::IS_SERVER && has_to_wait(&incoming, peer) {
                return ReadTurn::Unread(incoming);
            }
            handler.handle_message(incoming, lines);
            is_ready = handler.is_ready();
            if bytes >= BYTES_PER_TURN {
                break;
            }
        }
        if is_ready { ReadTurn::Long } else { ReadTurn::Over }
    })
}

/// Returns whether a message may need a reply, and has to wait until the other side has read others.
fn has_to_wait(incoming: &Incoming, peer: &Peer) -> bool {
    let may_need_reply = matches!(incoming, Incoming::Request(_) | Incoming::Malformed(..));
    // Most outputs are ready, which is known without a lock.
    may_need_reply && !peer.output().is_ready() && !peer.output().takes_replies()
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
