//! Fuzz target: frames between us and the warden process.
#![allow(clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use super::protocol::{MAX_FRAME_BYTES, WardenEvent, WardenRequest, decode, encode, next_frame};
use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::fuzz::split_first_byte;

/// A stream of frames: it is cut into the same frames however it arrives, and a message that can be decoded is the same
/// after it was encoded. The first byte chooses the direction and the chunks.
pub fn warden(data: &[u8]) {
    let (variant, data) = split_first_byte(data);
    let frames = frames(data, 1 << 20);
    assert_eq!(frames, self::frames(data, [1, 3, 64][variant / 2 % 3]));
    for frame in &frames {
        assert!(frame.len() <= MAX_FRAME_BYTES);
        match variant % 2 {
            0 => check::<WardenRequest<'_>>(frame),
            _ => check::<WardenEvent>(frame),
        }
    }
}

/// Returns the frames of a stream until one is malformed.
fn frames(data: &[u8], chunk_size: usize) -> Vec<Bytes> {
    let (mut input, mut frames) = (BytesMut::new(), Vec::new());
    for chunk in data.chunks(chunk_size) {
        input.extend_from_slice(chunk);
        loop {
            match next_frame(&mut input) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return frames,
            }
        }
    }
    frames
}

fn check<M: Serialize + DeserializeOwned>(frame: &[u8]) {
    if let Ok(message) = decode::<M>(frame) {
        let encoded = encode(&message);
        let again = decode::<M>(&encoded[4..]).expect("our own frame");
        assert_eq!(encode(&again), encoded);
    }
}
