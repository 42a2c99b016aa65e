//! Servers that list from hash maps: the same tools, in another order each time.

use super::{Catalog, Tool};
use crate::pins::members::words;
use serde_json::Value;
use wire::Raw;

/// Returns whether two catalogs of equally many tools have the same ones, but for the order of the tools, and of the members,
/// elements and words of their definitions. False if the cache has lost the definitions of one of them.
pub(super) fn is_reordered(new: &Catalog, known: &Catalog) -> bool {
    let mut seen = vec![false; known.tools.len()];
    let mut is_known = |(tool, definition): (&Tool, &Raw)| {
        // Of two tools of one name, only the first one is found.
        let place = known.place(&tool.name).filter(|place| !std::mem::replace(&mut seen[*place], true));
        let known = place.and_then(|place| known.definition(place));
        known.is_some_and(|known| known == definition || unordered(known) == unordered(definition))
    };
    new.definitions().is_some_and(|mut tools| tools.all(&mut is_known))
}

/// Writes a definition so that texts that differ by order only become equal. `None` if it is not JSON that can be read.
fn unordered(definition: &Raw) -> Option<String> {
    serde_json::from_slice(definition).ok().map(|value| sorted(&value))
}

fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => joined(
            members.iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted(value))),
            "{}",
        ),
        Value::Array(elements) => joined(elements.iter().map(sorted), "[]"),
        Value::String(text) => joined(words(text).map(|word| Value::from(word).to_string()), "\"\""),
        scalar => scalar.to_string(),
    }
}

fn joined(parts: impl Iterator<Item = String>, kind: &str) -> String {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable();
    format!("{kind}({})", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::list_limits::LeftOff;
    use crate::catalog::tool::read_tool;
    use crate::catalog::{OtherLists, ServerInfo};
    use std::sync::Arc;

    fn catalog(version: &str, definitions: &[&str]) -> Catalog {
        let tools = definitions.iter().map(|text| {
            let definition = Raw::copy_from_slice(text.as_bytes());
            (read_tool(&definition).unwrap(), definition)
        });
        let info = ServerInfo { version: Some(version.to_owned()), ..ServerInfo::default() };
        Catalog::new(info, tools.collect(), OtherLists::default(), LeftOff::default())
    }

    const A: &str = r#"{"name":"a","description":"one, two","inputSchema":{"properties":{"x":{"enum":["p","q"]},"y":{}}}}"#;
    const B: &str = r#"{"name":"b"}"#;

    fn names_and_bytes(catalog: &Arc<Catalog>) -> Vec<(String, Raw)> {
        let listed = catalog.as_listed().definitions().unwrap();
        listed.map(|(tool, definition)| (tool.name.clone(), definition.clone())).collect()
    }

    #[test]
    fn lists_keep_the_known_order_and_bytes_while_nothing_else_differs() {
        let known = Arc::new(catalog("1", &[A, B]));
        for same in [
            r#"{"name":"a","description":"one, two","inputSchema":{"properties":{"y":{},"x":{"enum":["q","p"]}}}}"#,
            r#"{"description":"two, one","name":"a","inputSchema":{"properties":{"x":{"enum":["p","q"]},"y":{}}}}"#,
            A,
        ] {
            let mut new = catalog("1", &[B, same]);
            new.keep_listing_of(&known);
            let new = Arc::new(new);
            assert_eq!(names_and_bytes(&new), names_and_bytes(&known), "{same}");
            assert_eq!(new.tools[0].name, "b", "requests use the live order");
            // The next one is compared with what lists show.
            let mut next = catalog("1", &[same, B]);
            next.keep_listing_of(&new);
            assert_eq!(names_and_bytes(&Arc::new(next)), names_and_bytes(&known), "{same}");
        }
    }

    #[test]
    fn every_other_difference_is_a_change() {
        let known = catalog("1", &[A, B]);
        for (version, tools) in [
            ("2", vec![B, A]),
            ("1", vec![B]),
            ("1", vec![B, A, r#"{"name":"c"}"#]),
            ("1", vec![B, r#"{"name":"c"}"#]),
            ("1", vec![B, B]),
            ("1", vec![r#"{"name":"b","description":"new"}"#, A]),
            ("1", vec![A, B]),
        ] {
            let mut new = catalog(version, &tools);
            new.keep_listing_of(&known);
            let new = Arc::new(new);
            assert!(Arc::ptr_eq(new.as_listed(), &new), "{version} {tools:?}");
        }
    }
}
