//! How a peer reads messages: first a line, then the message in it.

use super::{CallError, Incoming, Peer, Unread};
use crate::lines::LineReader;
use crate::peer::own_ids::own_id;
use crate::protocol::methods::notification;
use crate::{CallReply, Message, MessageError, Raw};
use std::sync::atomic::Ordering;

/// A message above this size in bytes reaches whom it is for before the next line is read, so that such do not pile up.
const LARGE_MESSAGE: usize = 32 << 10;

impl Unread {
    /// Returns its length in bytes; 0 if it was not kept.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Line(Ok(line)) | Self::OfBatch(line) => line.len(),
            Self::Line(Err(_)) => 0,
        }
    }

    /// Returns whether other tasks have to run after it was read, if it is an answer.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Line(Ok(line)) if line.len() > LARGE_MESSAGE)
    }
}

impl Peer {
    /// Reads one message. Returns `None` at the end of the stream; the owner then calls `end`. It returns after every
    /// message, so that the owner can stop reading while the connections that it feeds are full. Cancel-safe.
    pub async fn receive(&self, lines: &mut LineReader) -> Option<Incoming> {
        let unread = self.next(lines).await?;
        let is_large = unread.is_large();
        let incoming = self.read(unread);
        if is_large && matches!(incoming, Incoming::Handled) {
            tokio::task::yield_now().await;
        }
        Some(incoming)
    }

    /// Waits for the next message, which `read` then reads. `None` at the end of the stream. Cancel-safe.
    pub async fn next(&self, lines: &mut LineReader) -> Option<Unread> {
        // Lets other tasks run even while complete messages are buffered.
        tokio::task::coop::consume_budget().await;
        if self.is_reading_batch() {
            let finished = self.batches.lock().end_reading();
            self.send_batch(finished);
            let waiting = self.batches.lock().next_unread();
            if let Some(line) = waiting {
                return Some(Unread::OfBatch(line));
            }
        }
        lines.next().await.map(Unread::Line)
    }

    /// Reads a message: answers and progress go to their calls, everything else is returned.
    pub fn read(&self, unread: Unread) -> Incoming {
        match unread {
            Unread::Line(line) => self.receive_line(line),
            Unread::OfBatch(line) => {
                let incoming = self.deliver(Message::parse_line(line));
                if let Incoming::Request(request) = &incoming {
                    self.batches.lock().expect(&request.id);
                }
                incoming
            }
        }
    }

    /// Returns the next message if all of it has come. A large one, and those of a batch, are left to `next`.
    pub(crate) fn next_buffered(&self, lines: &mut LineReader) -> Option<Unread> {
        if self.is_reading_batch() {
            return None;
        }
        lines.next_buffered(LARGE_MESSAGE).map(Unread::Line)
    }

    fn is_reading_batch(&self) -> bool {
        self.has_batches() && self.batches.lock().is_reading()
    }

    /// Parses a line. A batch is split, and its messages come from the next calls of `next`.
    fn receive_line(&self, line: Result<Raw, MessageError>) -> Incoming {
        let line = match line {
            Ok(line) => line,
            Err(MessageError::TooLong { id: Some(id), bytes, limit }) if self.is_open(&id) => {
                self.fail(&id, CallError::TooLong { bytes, limit });
                return Incoming::Handled;
            }
            Err(MessageError::OverBudget { id: Some(id), bytes }) if self.is_open(&id) => {
                self.complete(&id, Err(CallError::OverBudget { bytes }));
                return Incoming::Handled;
            }
            Err(malformed) => return Incoming::Malformed(malformed, Raw::new()),
        };
        match Message::parse_line(line) {
            Err((MessageError::Batch, line)) => {
                // The next calls return its messages.
                self.has_batches.store(true, Ordering::Release);
                let taken = self.batches.lock().split_array(&line);
                taken.map_or_else(|what| Incoming::Malformed(what, line), |()| Incoming::Handled)
            }
            message => self.deliver(message),
        }
    }

    /// Passes answers, progress and acknowledgements to their calls, and returns `Incoming::Handled` then. Returns everything
    /// else: also unreadable messages, and answers and progress that belong to no open call.
    fn deliver(&self, message: Result<Message, (MessageError, Raw)>) -> Incoming {
        match message {
            Ok(Message::Request(request)) => Incoming::Request(request),
            Ok(Message::Notification { method, params }) => {
                let handled = match method.as_str() {
                    notification::PROGRESS => self.progress(params.as_ref()),
                    notification::SUBSCRIPTIONS_ACKNOWLEDGED => self.acknowledged(params.as_ref()),
                    _ => false,
                };
                if handled { Incoming::Handled } else { Incoming::Notification { method, params } }
            }
            Ok(Message::Response { id, reply, members }) => {
                let unmatched = self.complete(&id, Ok(CallReply { reply, members }));
                let Some(Ok(CallReply { reply, .. })) = unmatched else { return Incoming::Handled };
                let was_abandoned = own_id(&id).is_some_and(|id| self.calls.lock().take_abandoned(id));
                Incoming::Unmatched { id, reply, was_abandoned }
            }
            Err((malformed, line)) => Incoming::Malformed(malformed, line),
        }
    }
}
