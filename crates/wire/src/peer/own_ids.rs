//! The ids that this side gives to its requests: numbers that count up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Parses an id that this side assigned. Some servers return numbers as strings, or as `1.0`.
pub fn own_id(id: &[u8]) -> Option<u64> {
    let digits = match id {
        [b'"', digits @ .., b'"'] => digits,
        number => number,
    };
    let add = |number: u64, digit: &u8| {
        number.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?.into())
    };
    digits.iter().try_fold(0, add).filter(|_| !digits.is_empty()).or_else(|| whole_number(digits))
}

/// Parses a whole number in another form, as JavaScript reads it: exact up to 2^53.
#[cold]
fn whole_number(text: &[u8]) -> Option<u64> {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let number: f64 = serde_json::from_slice(text).ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number);
    // Written without a fraction.
    is_whole.then(|| number.to_string().parse().ok()).flatten()
}

/// A map by own ids.
pub(crate) type OwnIdMap<T> = HashMap<u64, T, BuildHasherDefault<OwnIdHasher>>;

/// Hashes ids that this side assigned, so that the other side cannot choose colliding ones.
#[derive(Default)]
pub(crate) struct OwnIdHasher(u64);

impl Hasher for OwnIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes its index from the low bits, and a tag from the high ones (2^64 divided by the golden ratio).
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_id_is_a_number_also_in_a_string() {
        for (id, expected) in [
            ("7", Some(7)),
            ("\"7\"", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551617", None),
            ("184467440737095516150", None),
            ("-1", None),
            ("1.0", Some(1)),
            ("\"1.0\"", Some(1)),
            ("12e1", Some(120)),
            ("1.5", None),
            ("1e300", None),
            ("\"\"", None),
            ("\"", None),
            ("", None),
            ("\"a\"", None),
        ] {
            assert_eq!(own_id(id.as_bytes()), expected, "{id}");
        }
    }
}
