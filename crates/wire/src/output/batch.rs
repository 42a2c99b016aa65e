//! The frames that are written together.

use super::pollable_fd::PollableFd;
use crate::Frame;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// The largest number of parts of frames in one write: `IOV_MAX` of Linux and macOS.
const MAX_PARTS_PER_WRITE: usize = 1024;

/// How many bytes were written.
#[derive(Clone, Copy, Default)]
pub(super) struct WrittenBytes {
    /// Of all frames.
    pub(super) all: usize,
    /// Of those that are replies.
    pub(super) replies: usize,
}

impl WrittenBytes {
    /// A whole frame.
    pub(super) fn of(frame: &Frame) -> Self {
        let all = frame.len();
        Self { all, replies: if frame.is_reply { all } else { 0 } }
    }
}

/// Removes the written bytes from the frames. Returns how many there were, by kind.
pub(super) fn advance(batch: &mut VecDeque<Frame>, written: usize) -> WrittenBytes {
    let (mut left, mut replies) = (written, 0);
    while let Some(frame) = batch.front_mut() {
        let before = left;
        left = frame.advance(left);
        if frame.is_reply {
            replies += before - left;
        }
        if !frame.is_empty() {
            break;
        }
        batch.pop_front();
    }
    WrittenBytes { all: written, replies }
}

/// Writes as many frames as the descriptor takes, without waiting. Returns the number of bytes that were written.
///
/// # Errors
///
/// `WouldBlock` if it takes nothing now, else as writing fails.
pub(super) fn try_write(direct: &PollableFd, batch: &VecDeque<Frame>) -> io::Result<usize> {
    if let [frame] = batch.as_slices().0
        && let Some(text) = frame.one_piece()
    {
        return direct.try_write(&[IoSlice::new(text)]);
    }
    let slices: Vec<_> = batch.iter().flat_map(Frame::slices).take(MAX_PARTS_PER_WRITE).collect();
    direct.try_write(&slices)
}
