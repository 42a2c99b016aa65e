//! Hashes as hex digits, for names of files and to notice changes.

use sha2::{Digest, Sha256};

/// Returns the bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the first `length` bytes of the SHA-256 of several parts, as hex digits. The same bytes in other parts have
/// another hash. `length` is at most 32.
pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>, length: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..length])
}

/// Returns the first `length` bytes, at most 32, of the SHA-256 of one text, as hex digits.
pub fn of(bytes: &[u8], length: usize) -> String {
    hex(&Sha256::digest(bytes)[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_hex_digits() {
        assert_eq!(hex(&[0x00, 0x1f, 0xa0, 0xff]), "001fa0ff");
        assert_eq!(of(b"abc", 4), "ba7816bf");
        assert_eq!(of_parts(["abc"], 32), of(b"\x03\0\0\0\0\0\0\0abc", 32));
        assert_ne!(of_parts(["a", "bc"], 16), of_parts(["ab", "c"], 16));
    }
}
