//! The frames that are written together.

use super::pollable_fd::PollableFd;
use crate::Frame;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// The largest number of parts of frames in one write: `IOV_MAX` of Linux and macOS.
const MAX_PARTS_PER_WRITE: usize = 1024;

/// Removes what was written from the frames.
pub(super) fn advance(batch: &mut VecDeque<Frame>, written: usize) {
    let mut left = written;
    while let Some(frame) = batch.front_mut() {
        left = frame.advance(left);
        if !frame.is_empty() {
            break;
        }
        batch.pop_front();
    }
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
