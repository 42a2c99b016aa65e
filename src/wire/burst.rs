//! Handles messages that were read together, and writes together what that sends.

use super::cork::corked;
use super::lines::LineReader;
use super::peer::{Incoming, Peer};
use tokio::io::AsyncRead;

/// How many messages are handled before other tasks run.
const MAX_MESSAGES: usize = 128;

/// Passes a message to `handle`, and then those that were read with it, as long as `handle` returns that more can be
/// handled now. Other tasks run before `receive` is called again.
pub async fn handle_all<R: AsyncRead + Unpin>(
    peer: &Peer,
    first: Incoming,
    lines: &mut LineReader<R>,
    mut handle: impl FnMut(Incoming, &mut LineReader<R>) -> bool,
) {
    let is_full = corked(|| {
        let mut next = first;
        for _ in 0..MAX_MESSAGES {
            if !handle(next, lines) {
                return false;
            }
            let Some(incoming) = peer.receive_buffered(lines) else { return false };
            next = incoming;
        }
        // This one was read, and has to be handled.
        handle(next, lines);
        true
    });
    if is_full {
        tokio::task::yield_now().await;
    }
}
