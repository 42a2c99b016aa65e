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
        let mut more = handle(first, lines);
        for _ in 1..MAX_MESSAGES {
            let next = if more { peer.receive_buffered(lines) } else { None };
            let Some(incoming) = next else { return false };
            more = handle(incoming, lines);
        }
        more
    });
    if is_full {
        tokio::task::yield_now().await;
    }
}
