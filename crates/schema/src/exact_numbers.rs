//! Schemas with numbers that `serde_json` would round, such as 12345678901234567890123. Each stands in the parsed schema
//! as a string with a mark before its digits, so that it can be written as the server wrote it.

use serde_json::Value;
use std::borrow::Cow;
use wire::tokens::Tokens;

/// Stands before the digits. No schema uses this character of Unicode's private area.
const MARK: char = '\u{f5e7}';
/// A number with fewer characters is exact in an `f64` or a 64-bit integer.
const MIN_INEXACT: usize = 16;

/// Parses a schema. `None` if it is no JSON, has a number that no `f64` is near to, or a text with the mark, which would
/// look like a number.
pub(super) fn parse(schema: &[u8]) -> Option<Value> {
    let mut mark = [0; 3];
    let mark = MARK.encode_utf8(&mut mark).as_bytes();
    let has = |part: &[u8]| schema.windows(part.len()).any(|text| text.eq_ignore_ascii_case(part));
    let is_clear = !has(mark) && !has(br"\uf5e7");
    serde_json::from_slice(&with_marks(schema)).ok().filter(|_| is_clear)
}

/// Replaces the numbers that would be rounded.
fn with_marks(json: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let (mut end, mut copied) = (0, 0);
    for (at, byte) in Tokens::new(json) {
        if at < end || !matches!(byte, b'-' | b'0'..=b'9') {
            continue;
        }
        let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        end = at + json[at..].iter().take_while(is_part).count();
        let number = &json[at..end];
        if is_rounded(number) {
            out.extend_from_slice(&json[copied..at]);
            out.extend_from_slice(format!("\"{MARK}").as_bytes());
            out.extend_from_slice(number);
            out.push(b'"');
            copied = end;
        }
    }
    if copied == 0 {
        return json.into();
    }
    out.extend_from_slice(&json[copied..]);
    out.into()
}

/// Returns whether a number has more digits than its parsed form.
fn is_rounded(number: &[u8]) -> bool {
    if number.len() < MIN_INEXACT {
        return false;
    }
    let Ok(parsed) = serde_json::from_slice::<Value>(number) else { return false };
    let digits = |text: &[u8]| -> Vec<u8> {
        let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
        let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let end = digits.iter().rposition(|digit| *digit != b'0').map_or(zeros, |last| last + 1);
        digits[zeros.min(end)..end].to_vec()
    };
    digits(number) != digits(parsed.to_string().as_bytes())
}

/// Returns the JSON of a value, with all numbers as they were written.
pub(super) fn json(value: &Value) -> String {
    let text = value.to_string();
    let quoted_mark = format!("\"{MARK}");
    let mut parts = text.split(quoted_mark.as_str());
    let mut json = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once('"').unwrap_or((part, ""));
        json.push_str(number);
        json.push_str(rest);
    }
    json
}

/// Returns whether a value is a number, or stands for one that would be rounded.
pub(super) fn is_number(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.starts_with(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_numbers_that_would_be_rounded_are_marked() {
        for exact in
            ["1", "-1.5e300", "18446744073709551615", "0.1234567890123456", "10000000000000000000000"]
        {
            assert!(parse(exact.as_bytes()).unwrap().is_number(), "{exact}");
        }
        for rounded in ["18446744073709551617", "-0.12345678901234567890123", "12345678901234567890123e3"] {
            let parsed = parse(rounded.as_bytes()).unwrap();
            assert!(is_number(&parsed) && json(&parsed) == rounded, "{rounded}: {parsed}");
        }
        let text = r#"{"a":["12345678901234567890123",12345678901234567890123],"b":"\\\""}"#;
        assert_eq!(json(&parse(text.as_bytes()).unwrap()), text);
        for marked in [format!(r#"["{MARK}1",1]"#), r#"["\uF5E71"]"#.to_owned()] {
            assert_eq!(parse(marked.as_bytes()), None, "a text would look like a number");
        }
    }

    proptest! {
        #[test]
        fn no_number_is_changed(number in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?") {
            let (parsed, written) = (parse(number.as_bytes()).unwrap(), number.parse::<f64>().unwrap());
            let shown = json(&parsed);
            prop_assert_eq!(shown.parse::<f64>().unwrap(), written);
            if !parsed.is_number() {
                prop_assert_eq!(shown, number);
            }
        }
    }
}
