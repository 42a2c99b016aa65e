//! Random ids that cannot be guessed.

use crate::digest;
use ring::rand::{SecureRandom, SystemRandom};
use std::hash::{BuildHasher, RandomState};

/// Returns 32 random hex digits.
pub fn hex_id() -> String {
    let mut bytes = [0; 16];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        // The system's generator does not fail once the machine has booted. The hasher's keys came from it, too.
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&RandomState::new().hash_one(0).to_ne_bytes());
        }
    }
    digest::hex(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        let (a, b) = (hex_id(), hex_id());
        assert_eq!((a.len(), b.len()), (32, 32));
        assert_ne!(a, b);
    }
}
