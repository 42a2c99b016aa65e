//! References within a schema.

use serde_json::Value;
use std::collections::HashMap;

/// What `reference` means in the document `root`; only what is in that document is found.
pub fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = reference.strip_prefix('#')?;
    root.pointer(&percent_decoded(fragment)?)
}

/// Every reference below `schema`, and how often it stands there.
pub fn count(schema: &Value) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    *counts.entry(reference.as_str()).or_default() += 1;
                }
                open.extend(members.values());
            }
            _ => {}
        }
    }
    counts
}

fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_are_followed_with_all_their_escapes() {
        let root = json!({"$defs": {"a/b": 1, "c d": 2, "e~f": 3}});
        for (reference, wanted) in [
            ("#/$defs/a~1b", Some(1)),
            ("#/$defs/c%20d", Some(2)),
            ("#/%24defs/e~0f", Some(3)),
            ("#/$defs/none", None),
            ("#/$defs/c%2", None),
            ("#anchor", None),
            ("https://example.com/a.json", None),
        ] {
            assert_eq!(resolve(&root, reference).and_then(Value::as_i64), wanted, "{reference}");
        }
        assert_eq!(resolve(&root, "#"), Some(&root));
    }
}
