//! References within a schema document (`$ref`).

use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::collections::HashMap;

/// Returns the part of the document `root` that `reference` leads to. `None` for references to other documents, to
/// anchors, and to nothing.
pub fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(&pointer(reference)?)
}

/// Returns the JSON pointer (RFC 6901) that a reference within its document is, without percent-encoding. Returns the
/// name of an anchor as it is, although that is no pointer. `None` for references to other documents.
pub fn pointer(reference: &str) -> Option<String> {
    let pointer = percent_decode_str(reference.strip_prefix('#')?);
    Some(pointer.decode_utf8().ok()?.into_owned())
}

/// Counts each reference in `schema`.
pub(crate) fn count_references(schema: &Value) -> HashMap<&str, usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_followed_with_all_their_escapes() {
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
