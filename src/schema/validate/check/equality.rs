//! `enum` and `const`: whether a value equals one of a schema.

use crate::schema::validate::decimal::Decimal;
use crate::schema::validate::reader::{JsonKind, unescape};
use crate::schema::validate::tree::JsonTree;

/// Whether a value equals one of the choices. `None` if that cannot be computed.
pub(super) fn equals_any(choices: &[JsonTree], kind: JsonKind, text: &[u8]) -> Option<bool> {
    let mut is_certain = true;
    for choice in choices {
        match equals(choice, kind, text) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => is_certain = false,
        }
    }
    is_certain.then_some(false)
}

/// Whether a value equals another. `None` if that cannot be computed, or if programs may round the value to the other.
pub(super) fn equals(expected: &JsonTree, kind: JsonKind, text: &[u8]) -> Option<bool> {
    match (expected, kind) {
        (JsonTree::Null, JsonKind::Null) => Some(true),
        (JsonTree::Boolean(value), JsonKind::Boolean) => Some((text == b"true") == *value),
        (JsonTree::String(expected), JsonKind::String) => {
            let content = text.get(1..text.len().checked_sub(1)?)?;
            match content.contains(&b'\\') {
                true => unescape(content).map(|text| *text == **expected),
                false => Some(content == expected.as_bytes()),
            }
        }
        (JsonTree::Number(expected), JsonKind::Number) => {
            let number = Decimal::parse(text)?;
            match number == expected.decimal()? {
                true => Some(true),
                false => number.is_portable().then_some(false),
            }
        }
        (JsonTree::Array(_), JsonKind::Array) | (JsonTree::Object(_), JsonKind::Object) => {
            JsonTree::parse(text).ok().map(|value| value == *expected)
        }
        _ => Some(false),
    }
}
