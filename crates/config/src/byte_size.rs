//! Sizes in config files: a number of bytes, or a number with a unit.

use std::num::NonZeroUsize;

/// What error messages say is expected.
pub(super) const EXPECTED: &str = "a number of bytes above 0, a size such as \"50kB\" or \"1MB\", or false";

/// Returns a number of bytes, without its fraction; `None` if it is not at least 1, or above 2^53.
pub(super) fn from_bytes(bytes: f64) -> Option<NonZeroUsize> {
    // Exact in both directions up to this limit.
    let is_size = (1.0..=9_007_199_254_740_992.0).contains(&bytes);
    if is_size { NonZeroUsize::new(bytes as usize) } else { None }
}

/// Parses a size such as `50000`, `50kB`, `50 KiB` or `1.5MB`. The case of the unit makes no difference. `None` if the
/// text is no size, or is one that [`from_bytes`] refuses.
pub(super) fn parse(text: &str) -> Option<NonZeroUsize> {
    let text = text.trim();
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let number: f64 = number.parse().ok()?;
    from_bytes(match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => number,
        "k" | "kb" => number * 1e3,
        "m" | "mb" => number * 1e6,
        "kib" => number * 1024.0,
        "mib" => number * 1024.0 * 1024.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_is_understood() {
        for (text, bytes) in [
            ("50000", 50_000),
            ("1", 1),
            ("50kB", 50_000),
            ("50 KB", 50_000),
            ("50k", 50_000),
            ("10KiB", 10_240),
            ("1.5MB", 1_500_000),
            ("1 MiB", 1_048_576),
            ("7B", 7),
        ] {
            assert_eq!(parse(text).map(usize::from), Some(bytes), "{text}");
        }
        for text in ["", "0", "kB", "-1", "1GB", "1e3", "1 kB more", "0.5", "99999999999MB", "٣kB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in ".*") {
            let _unused = parse(&text);
        }
    }
}
