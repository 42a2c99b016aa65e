//! JSON-RPC batches: messages that come in one array, and whose answers go back in one (only revision 2025-03-26).

use super::{Frame, MessageError, Raw, Reply};
use serde_json::value::RawValue;
use std::collections::VecDeque;

/// The largest number of messages in one batch.
const MAX_MESSAGES: usize = 1000;
/// How many bytes of answers are held back for the rest of their batches. Above that those of a batch are sent, and its
/// rest follows in an array of its own.
const MAX_HELD_BYTES: usize = 4 << 20;

/// The batches of one connection that are not answered yet.
#[derive(Default)]
pub struct Batches {
    /// Whether the other side may send batches.
    pub accepted: bool,
    /// The messages of the last batch that are not read yet.
    unread: VecDeque<Raw>,
    /// Whether the last one of `open` is being read.
    reading: bool,
    /// The batches that are not answered yet, the latest last.
    open: Vec<OpenBatch>,
}

/// A batch with requests that are not answered yet.
#[derive(Default)]
struct OpenBatch {
    /// The ids of the requests that are not answered yet.
    waiting: Vec<Raw>,
    /// The answers that are held back.
    answers: Vec<Frame>,
    /// The length of `answers` in bytes.
    bytes: usize,
}

impl OpenBatch {
    /// Adds an answer. `held`: how many bytes of answers all batches hold back. Returns the frame to send now, if these
    /// exceed `MAX_HELD_BYTES`.
    fn add(&mut self, answer: Frame, held: usize) -> Option<Frame> {
        self.bytes += answer.len();
        let is_too_much = held + answer.len() > MAX_HELD_BYTES;
        self.answers.push(answer);
        if is_too_much { self.take() } else { None }
    }

    fn take(&mut self) -> Option<Frame> {
        self.bytes = 0;
        let answers = std::mem::take(&mut self.answers);
        (!answers.is_empty()).then(|| Frame::batch(&answers))
    }
}

impl Batches {
    /// Splits a line that is an array into messages, which `next_unread` returns.
    ///
    /// # Errors
    ///
    /// Returns why the batch is rejected: batches are not accepted, it is not JSON, it is empty, or it has more than
    /// [`MAX_MESSAGES`]. None of its messages is read then.
    pub(crate) fn split_array(&mut self, line: &Raw) -> Result<(), MessageError> {
        if !self.accepted {
            return Err(MessageError::Batch);
        }
        let messages: Vec<&RawValue> = serde_json::from_slice(line).map_err(|_| MessageError::NotJson)?;
        match messages.len() {
            0 => Err(MessageError::EmptyBatch),
            messages if messages > MAX_MESSAGES => {
                Err(MessageError::LargeBatch { messages, limit: MAX_MESSAGES })
            }
            _ => {
                self.unread.extend(messages.iter().map(|message| line.slice_ref(message.get().as_bytes())));
                self.open.push(OpenBatch::default());
                self.reading = true;
                Ok(())
            }
        }
    }

    /// Returns whether a batch is being read: `next_unread` has messages, or `end_reading` has to be called.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading
    }

    /// Returns the next message of the batch that is being read; `None` if all were returned.
    pub(crate) fn next_unread(&mut self) -> Option<Raw> {
        self.unread.pop_front()
    }

    /// Notes that the batch that is being read has this request.
    pub fn expect(&mut self, id: &Raw) {
        if let Some(open) = self.open.last_mut() {
            open.waiting.push(id.clone());
        }
    }

    /// Holds an answer back if it belongs to a batch. `Ok` is the frame to send now, if any: the answers of the batch
    /// once all are there, or those so far above 4 MiB.
    ///
    /// # Errors
    ///
    /// Returns an answer that belongs to no batch.
    pub fn hold(&mut self, id: &Raw, reply: Reply) -> Result<Option<Frame>, Reply> {
        match self.remove(id) {
            None => Err(reply),
            Some(at) => {
                let held = self.held_bytes();
                let full = self.open[at].add(Frame::response(id, reply), held);
                Ok(full.or_else(|| self.finished(at)))
            }
        }
    }

    /// Holds the answer to a malformed message, the last one that `next_unread` returned. `Ok` is the frame to send now,
    /// if any.
    ///
    /// # Errors
    ///
    /// Returns `error` if no batch is being read.
    pub(crate) fn hold_error(&mut self, id: &Raw, error: Raw) -> Result<Option<Frame>, Raw> {
        let held = self.held_bytes();
        match self.open.last_mut().filter(|_| self.reading) {
            None => Err(error),
            Some(open) => Ok(open.add(Frame::response(id, Err(error)), held)),
        }
    }

    /// Drops a request that gets no answer. Returns the frame to send now, if any.
    pub fn forget(&mut self, id: &Raw) -> Option<Frame> {
        let at = self.remove(id)?;
        self.finished(at)
    }

    /// Returns how many bytes of answers are held back.
    fn held_bytes(&self) -> usize {
        self.open.iter().map(|open| open.bytes).sum()
    }

    fn remove(&mut self, id: &Raw) -> Option<usize> {
        let at = self.open.iter().position(|open| open.waiting.contains(id))?;
        let waiting = &mut self.open[at].waiting;
        waiting.iter().position(|waits| waits == id).map(|at| waiting.swap_remove(at));
        Some(at)
    }

    /// Returns the answers of a batch once every request of it is read and answered.
    fn finished(&mut self, at: usize) -> Option<Frame> {
        let may_grow = at + 1 == self.open.len() && self.reading;
        if may_grow || !self.open[at].waiting.is_empty() {
            return None;
        }
        self.open.remove(at).take()
    }

    /// Notes that the messages that `next_unread` returned are handled. Returns the frame to send now, if their
    /// batch is done.
    pub(crate) fn end_reading(&mut self) -> Option<Frame> {
        if !self.unread.is_empty() || !std::mem::take(&mut self.reading) {
            return None;
        }
        self.finished(self.open.len().checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches() -> Batches {
        Batches { accepted: true, ..Batches::default() }
    }

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn a_rejected_batch_leaves_no_state() {
        let mut batches = batches();
        assert_eq!(batches.split_array(&raw("[]")), Err(MessageError::EmptyBatch));
        assert_eq!(batches.split_array(&raw("[1")), Err(MessageError::NotJson));
        let many = format!("[{}]", vec!["1"; MAX_MESSAGES + 1].join(","));
        let too_large = MessageError::LargeBatch { messages: MAX_MESSAGES + 1, limit: MAX_MESSAGES };
        assert_eq!(batches.split_array(&many.into()), Err(too_large));
        assert!(batches.open.is_empty() && batches.unread.is_empty());
        assert_eq!(Batches::default().split_array(&raw("[1]")), Err(MessageError::Batch));
    }

    #[test]
    fn all_batches_together_hold_no_more_than_one() {
        let mut batches = batches();
        let large = Raw::from(vec![b'1'; MAX_HELD_BYTES / 8]);
        let mut sent = 0;
        for batch in 0..100 {
            let [open, answered] = [0, 1].map(|n| raw(&format!("{}", 2 * batch + n)));
            batches.split_array(&raw("[1,2]")).unwrap();
            while batches.next_unread().is_some() {}
            for id in [&open, &answered] {
                batches.expect(id);
            }
            assert!(batches.end_reading().is_none());
            sent += usize::from(batches.hold(&answered, Ok(large.clone())).unwrap().is_some());
            assert!(batches.held_bytes() <= MAX_HELD_BYTES);
        }
        assert!(sent > 90, "{sent}");
    }

    #[test]
    fn answers_above_the_limit_are_sent_in_several_arrays() {
        let mut batches = batches();
        batches.split_array(&raw("[1,2,3]")).unwrap();
        while batches.next_unread().is_some() {}
        for id in ["1", "2", "3"] {
            batches.expect(&raw(id));
        }
        assert!(batches.end_reading().is_none());
        let large = Raw::from(vec![b'1'; MAX_HELD_BYTES / 2]);
        assert!(batches.hold(&raw("1"), Ok(large.clone())).unwrap().is_none());
        assert!(batches.hold(&raw("2"), Ok(large)).unwrap().unwrap().len() > MAX_HELD_BYTES);
        let rest = batches.hold(&raw("3"), Ok(raw("{}"))).unwrap().unwrap();
        assert_eq!(&rest.text()[..], b"[{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}]\n");
        assert!(batches.open.is_empty());
    }
}
