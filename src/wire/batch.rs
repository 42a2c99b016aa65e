//! Messages that come as one JSON array, and whose answers go back as one (revision 2025-03-26 alone).

use super::{Frame, Raw, Reply};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::collections::VecDeque;

#[derive(Default)]
pub struct Batches {
    /// Whether the other side may send any.
    pub accepted: bool,
    /// What came in a batch and was not looked at yet.
    pub unread: VecDeque<Raw>,
    open: Vec<Open>,
}

/// Requests that came together and are not all answered.
#[derive(Default)]
struct Open {
    waiting: Vec<Raw>,
    answers: Vec<Frame>,
}

impl Batches {
    /// Takes a line apart; false if it is no batch.
    pub fn take(&mut self, line: &Raw) -> bool {
        let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(line) else { return false };
        self.unread.extend(messages.iter().map(|message| line.slice_ref(message.get().as_bytes())));
        self.open.push(Open::default());
        !messages.is_empty()
    }

    /// A request of the batch that was taken last.
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
                self.open[at].answers.push(Frame::response(id, reply));
                Ok(self.finished(at))
            }
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

    /// All answers of a batch, once nothing of it is waited for or unread.
    fn finished(&mut self, at: usize) -> Option<Frame> {
        let may_grow = at + 1 == self.open.len() && !self.unread.is_empty();
        if may_grow || !self.open[at].waiting.is_empty() {
            return None;
        }
        let answers = self.open.remove(at).answers;
        (!answers.is_empty()).then(|| together(&answers))
    }

    /// What is left to send when the last message of a batch was looked at.
    pub fn read(&mut self) -> Option<Frame> {
        let last = self.open.len().checked_sub(1).filter(|_| self.unread.is_empty())?;
        self.finished(last)
    }
}

fn together(answers: &[Frame]) -> Frame {
    let texts = answers.iter().map(|frame| frame.0.concat().trim_ascii_end().to_vec());
    let joined = texts.collect::<Vec<_>>().join(&b","[..]);
    Frame([Bytes::from_static(b"["), joined.into(), Bytes::from_static(b"]\n")])
}
