//! The parts of JSON text: the members of an object, the elements of an array, and the text with edits of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use wire::object;
use wire::scan::Scanner;

/// A member of an object, or an element of an array.
pub(super) struct Part<'a> {
    /// The name of the member; `None` for an element.
    pub(super) key: Option<Cow<'a, str>>,
    /// Where it is, with its name.
    whole: Range<usize>,
    /// Where its value is.
    pub(super) value: Range<usize>,
}

/// What happens to a part.
pub(super) enum Edit {
    Keep,
    Replace(Vec<u8>),
    Drop,
}

/// Finds the parts of an object or an array. `None` for other values, for text that is not JSON, and for an object that
/// has a key twice.
pub(super) fn parts_of(value: &[u8]) -> Option<Vec<Part<'_>>> {
    let mut scanner = Scanner::new(value);
    let (mut parts, mut keys) = (Vec::new(), HashSet::new());
    match scanner.peek()? {
        b'{' => scanner.object(|scanner, key, escaped| {
            let start = key.start - 1;
            let key = object::written_str(&value[start..key.end + 1], escaped)?;
            if !keys.insert(key.clone()) {
                return None;
            }
            let value = scanner.value()?;
            parts.push(Part { key: Some(key), whole: start..value.end, value });
            Some(())
        })?,
        _ => scanner.array(|scanner| {
            let value = scanner.value()?;
            parts.push(Part { key: None, whole: value.clone(), value });
            Some(())
        })?,
    };
    Some(parts)
}

/// Writes a value with the edits of its parts, one for each part. All other bytes stay.
pub(super) fn joined(value: &[u8], parts: &[Part<'_>], edits: &[Edit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let (mut end, mut is_first) = (0, true);
    for (part, edit) in parts.iter().zip(edits) {
        let between = &value[end..part.whole.start];
        end = part.whole.end;
        let replacement = match edit {
            Edit::Drop if part.whole.start == parts[0].whole.start => {
                // The bracket.
                out.extend_from_slice(between);
                continue;
            }
            Edit::Drop => continue,
            Edit::Keep => &value[part.value.clone()],
            Edit::Replace(replacement) => replacement,
        };
        // What stands before the first part that stays is the bracket, which is written, and then a comma.
        if !(is_first && part.whole.start != parts[0].whole.start) {
            out.extend_from_slice(between);
        }
        is_first = false;
        out.extend_from_slice(&value[part.whole.start..part.value.start]);
        out.extend_from_slice(replacement);
    }
    out.extend_from_slice(&value[end..]);
    out
}
