//! The ways to write a value of one type as a value of another, for the repair of arguments.

use serde::de::IgnoredAny;
use wire::object;

/// Another way to write a value.
pub(super) struct Conversion {
    /// The value as JSON text.
    pub(super) text: Vec<u8>,
    /// Whether it counts only if it fits for certain.
    pub(super) needs_certainty: bool,
}

/// Returns the other ways to write a value: a string that has a decimal number, a boolean, an object or an array as that
/// value; a number as a string; a single value as an array.
pub(super) fn conversions(value: &[u8]) -> Vec<Conversion> {
    let texts = match value.first() {
        Some(b'"') => string_conversions(value),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'{') => vec![in_array(value)],
        _ => Vec::new(),
    };
    let mut conversions: Vec<_> =
        texts.into_iter().map(|text| Conversion { text, needs_certainty: false }).collect();
    if let Some(b'-' | b'0'..=b'9') = value.first() {
        conversions.push(Conversion { text: [b"\"", value, b"\""].concat(), needs_certainty: true });
    }
    conversions
}

fn string_conversions(string: &[u8]) -> Vec<Vec<u8>> {
    let Some(text) = object::str(string) else { return Vec::new() };
    let mut texts = Vec::new();
    if is_decimal(&text) {
        texts.push(text.as_bytes().to_vec());
    }
    match &*text {
        "true" | "True" => texts.push(b"true".to_vec()),
        "false" | "False" => texts.push(b"false".to_vec()),
        _ => {}
    }
    match container(&text) {
        Some(json) => {
            if json.starts_with(b"{") {
                texts.push(in_array(&json));
            }
            texts.push(json);
        }
        // A text with separators may be meant as several elements.
        None if text.trim().is_empty() || text.contains([',', ';', '\n']) => {}
        None => texts.push(in_array(string)),
    }
    texts
}

/// Returns the object or the array that a text is, as JSON on one line.
pub(super) fn container(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let is_container = text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok();
    // Line ends in JSON are white space between values.
    is_container
        .then(|| text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).collect())
}

/// Returns whether a text is a decimal number as JSON writes it, without an exponent.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(a, b)| (a, Some(b)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && (whole == "0" || !whole.starts_with('0')) && fraction.is_none_or(is_digits)
}

fn in_array(value: &[u8]) -> Vec<u8> {
    [b"[", value, b"]"].concat()
}
