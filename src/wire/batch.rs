//! Messages that come as one JSON array, and whose answers go back as one (revision 2025-03-26 alone).

use super::{Frame, MessageError, Raw, Reply};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::collections::VecDeque;

/// Messages of one batch.
const MESSAGES: usize = 1000;
/// Answers that are kept for the others of their batch; what is over that is sent, and the rest follows in an array of
/// its own.
const KEPT: usize = 4 << 20;

#[derive(Default)]
pub struct Batches {
    /// Whether the other side may send any.
    pub accepted: bool,
    /// What came in a batch and was not looked at yet.
    unread: VecDeque<Raw>,
    /// The last of `open` is being read.
    reading: bool,
    open: Vec<Open>,
}

/// Requests that came together and are not all answered.
#[derive(Default)]
struct Open {
    waiting: Vec<Raw>,
    answers: Vec<Frame>,
    /// Of `answers`.
    bytes: usize,
}

impl Open {
    /// What is to be sent at once, if this is more than is kept.
    fn keep(&mut self, answer: Frame) -> Option<Frame> {
        self.bytes += answer.len();
        self.answers.push(answer);
        if self.bytes > KEPT { self.take() } else { None }
    }

    fn take(&mut self) -> Option<Frame> {
        self.bytes = 0;
        let answers = std::mem::take(&mut self.answers);
        (!answers.is_empty()).then(|| together(&answers))
    }
}

impl Batches {
    /// Takes a line apart that holds an array. `Err`: nothing of it is looked at.
    pub fn take(&mut self, line: &Raw) -> Result<(), MessageError> {
        if !self.accepted {
            return Err(MessageError::Batch);
        }
        let messages: Vec<&RawValue> = serde_json::from_slice(line).map_err(|_| MessageError::NotJson)?;
        match messages.len() {
            0 => Err(MessageError::EmptyBatch),
            messages if messages > MESSAGES => Err(MessageError::LargeBatch { messages, limit: MESSAGES }),
            _ => {
                self.unread.extend(messages.iter().map(|message| line.slice_ref(message.get().as_bytes())));
                self.open.push(Open::default());
                self.reading = true;
                Ok(())
            }
        }
    }

    /// The next message of the batch that is being read.
    pub fn next_unread(&mut self) -> Option<Raw> {
        self.unread.pop_front()
    }

    /// A request of the batch that is being read.
    pub fn expect(&mut self, id: &Raw) {
        if let Some(open) = self.open.last_mut() {
            open.waiting.push(id.clone());
        }
    }

    /// Keeps an answer that is not to be sent alone. `Err` gives it back; `Ok` is what is to be sent instead, if anything.
    pub fn keep(&mut self, id: &Raw, reply: Reply) -> Result<Option<Frame>, Reply> {
        match self.settle(id) {
            None => Err(reply),
            Some(at) => {
                let full = self.open[at].keep(Frame::response(id, reply));
                Ok(full.or_else(|| self.finished(at)))
            }
        }
    }

    /// The same of the answer to a message that could not be read, the last one that `next_unread` gave.
    pub fn keep_refusal(&mut self, id: &Raw, error: Raw) -> Result<Option<Frame>, Raw> {
        match self.open.last_mut().filter(|_| self.reading) {
            None => Err(error),
            Some(open) => Ok(open.keep(Frame::response(id, Err(error)))),
        }
    }

    /// A request that will have no answer.
    pub fn forget(&mut self, id: &Raw) -> Option<Frame> {
        let at = self.settle(id)?;
        self.finished(at)
    }

    fn settle(&mut self, id: &Raw) -> Option<usize> {
        let at = self.open.iter().position(|open| open.waiting.contains(id))?;
        let waiting = &mut self.open[at].waiting;
        waiting.iter().position(|waits| waits == id).map(|at| waiting.swap_remove(at));
        Some(at)
    }

    /// All answers of a batch that are left, once nothing of it is waited for or unread.
    fn finished(&mut self, at: usize) -> Option<Frame> {
        let may_grow = at + 1 == self.open.len() && self.reading;
        if may_grow || !self.open[at].waiting.is_empty() {
            return None;
        }
        self.open.remove(at).take()
    }

    /// The messages that `next_unread` gave were dealt with. What is left to send if they were the last ones of their batch.
    pub fn end_reading(&mut self) -> Option<Frame> {
        if !self.unread.is_empty() || !std::mem::take(&mut self.reading) {
            return None;
        }
        self.finished(self.open.len().checked_sub(1)?)
    }
}

fn together(answers: &[Frame]) -> Frame {
    let texts = answers.iter().map(|frame| frame.0.concat().trim_ascii_end().to_vec());
    let joined = texts.collect::<Vec<_>>().join(&b","[..]);
    Frame([Bytes::from_static(b"["), joined.into(), Bytes::from_static(b"]\n")])
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
    fn what_is_refused_leaves_nothing_behind() {
        let mut batches = batches();
        assert_eq!(batches.take(&raw("[]")), Err(MessageError::EmptyBatch));
        assert_eq!(batches.take(&raw("[1")), Err(MessageError::NotJson));
        let many = format!("[{}]", vec!["1"; MESSAGES + 1].join(","));
        let refused = MessageError::LargeBatch { messages: MESSAGES + 1, limit: MESSAGES };
        assert_eq!(batches.take(&many.into()), Err(refused));
        assert!(batches.open.is_empty() && batches.unread.is_empty());
        assert_eq!(Batches::default().take(&raw("[1]")), Err(MessageError::Batch));
    }

    #[test]
    fn more_answers_than_are_kept_go_in_several_arrays() {
        let mut batches = batches();
        batches.take(&raw("[1,2,3]")).unwrap();
        while batches.next_unread().is_some() {}
        for id in ["1", "2", "3"] {
            batches.expect(&raw(id));
        }
        assert!(batches.end_reading().is_none());
        let large = Raw::from(vec![b'1'; KEPT / 2]);
        assert!(batches.keep(&raw("1"), Ok(large.clone())).unwrap().is_none());
        assert!(batches.keep(&raw("2"), Ok(large)).unwrap().unwrap().len() > KEPT);
        let rest = batches.keep(&raw("3"), Ok(raw("{}"))).unwrap().unwrap();
        assert_eq!(rest.0.concat(), b"[{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}]\n");
        assert!(batches.open.is_empty());
    }
}
