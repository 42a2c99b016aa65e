//! The messages that a peer receives.

use crate::{MessageError, Raw, Reply, Request};

/// A message that has come, and that `Peer::read` reads.
pub enum Unread {
    /// A line of the stream, or why it cannot be read.
    Line(Result<Raw, MessageError>),
    /// A message of a batch.
    OfBatch(Raw),
}

/// A message from the other side.
#[derive(Debug)]
pub enum Incoming {
    /// A request of the other side.
    Request(Request),
    /// A notification that no call took.
    Notification {
        /// The method's name.
        method: String,
        /// The params, if it has any.
        params: Option<Raw>,
    },
    /// An answer or progress, which went to its call.
    Handled,
    /// An answer to no request that is open.
    Unmatched {
        /// Its id, as the other side wrote it.
        id: Raw,
        /// The result or the error.
        reply: Reply,
        /// Whether it answers a request of ours whose caller left.
        was_abandoned: bool,
    },
    /// A line that is not a message, and the line itself (empty if it exceeded the limit).
    Malformed(MessageError, Raw),
}
