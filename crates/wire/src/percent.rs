//! Percent-encoding of names inside other names (RFC 3986 section 2.1).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes everything except the unreserved characters (RFC 3986 section 2.3).
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes the output of `encode`; `None` for any other text.
pub fn decode(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?.into_owned();
    (encode(&decoded) == text).then_some(decoded)
}
