//! Handles messages that were read together, and writes together what that sends.

use super::cork::{corked, run_woken};
use super::lines::LineReader;
use super::peer::{Incoming, Peer, Unread};

/// How many messages are handled before other tasks run.
const MAX_MESSAGES: usize = 128;

/// Reads a message and passes it to `handle`, and then those that were read with it, as long as `handle` returns that more
/// can be handled now. Other tasks run before `next` is called again.
pub async fn handle_all(
    peer: &Peer,
    first: Unread,
    lines: &mut LineReader,
    mut handle: impl FnMut(Incoming, &mut LineReader) -> bool,
) {
    let is_large = first.is_large();
    let must_yield = corked(|| {
        let incoming = peer.read(first);
        let is_large_answer = is_large && matches!(incoming, Incoming::Handled);
        let mut more = handle(incoming, lines);
        for _ in 1..MAX_MESSAGES {
            // What follows an answer stays behind it.
            run_woken();
            let next = if more { peer.next_buffered(lines) } else { None };
            let Some(unread) = next else { return is_large_answer };
            more = handle(peer.read(unread), lines);
        }
        more
    });
    if must_yield {
        tokio::task::yield_now().await;
    }
}
