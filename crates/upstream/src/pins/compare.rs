//! Compares the tools of two versions of a server.

use super::definition::{DefinitionDigest, PinnedTool, by_name};
use super::record::{ApprovedTool, PinRecord, PinTarget, SeenTool};
use std::collections::BTreeSet;
use wire::Raw;

/// How the tools of a version of a server differ from those of another one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VersionDifferences {
    /// The tools that are new or differ, by name.
    pub changed: Vec<ApprovedTool>,
    /// The names of the tools that are gone.
    pub gone: Vec<String>,
}

/// Compares the tools of a server, each a name and its definition, with those of an earlier version of it. The first
/// thousand tools of each are compared.
pub fn compare<'t>(
    earlier: impl Iterator<Item = (&'t str, &'t Raw)>,
    now: impl Iterator<Item = (&'t str, &'t Raw)>,
) -> VersionDifferences {
    let target = PinTarget { config: String::new(), group: String::new(), server: String::new() };
    let (earlier, now) = (seen(earlier), seen(now));
    let names: BTreeSet<_> = now.iter().map(|(name, _)| name.clone()).collect();
    let gone = earlier.iter().map(|(name, _)| name).filter(|name| !names.contains(*name)).cloned().collect();
    // A group that has shown no tool yet trusts the first ones, but here all of them are new.
    let first = PinRecord::observe(None, &target, &earlier, true, 0);
    let first = first.unwrap_or_else(|| PinRecord::empty(&target));
    let record = PinRecord::observe(Some(first), &target, &now, true, 0);
    let changed = record.and_then(|mut record| record.approve(None, false).ok()).unwrap_or_default();
    VersionDifferences { changed, gone }
}

fn seen<'t>(tools: impl Iterator<Item = (&'t str, &'t Raw)>) -> Vec<SeenTool> {
    let tools = tools.map(|(name, definition)| {
        let tool = PinnedTool::new(DefinitionDigest::of(definition), definition);
        (name.to_owned(), tool.with_details(definition, None))
    });
    by_name(tools, |tool| &mut tool.digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_ref(tools: &[(String, Raw)]) -> impl Iterator<Item = (&str, &Raw)> {
        tools.iter().map(|(name, definition)| (name.as_str(), definition))
    }

    #[test]
    fn tools_that_are_new_differ_or_are_gone_are_named() {
        let definition = |name: &str, description: &str, schema: &str| {
            let text = format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#);
            (name.to_owned(), Raw::from(text))
        };
        let same = definition("same", "a", r#"{"type":"object","properties":{"x":{},"y":{}}}"#);
        let reordered = definition("same", "a", r#"{"properties":{"y":{},"x":{}},"type":"object"}"#);
        let earlier = [
            same,
            definition("other", "a", r#"{"properties":{"x":{"type":"string"}}}"#),
            definition("old", "a", "{}"),
        ];
        let now = [
            reordered,
            definition("other", "b", r#"{"properties":{"x":{"type":"number"}}}"#),
            definition("new", "c", "{}"),
        ];
        let VersionDifferences { changed, gone } = compare(by_ref(&earlier), by_ref(&now));
        assert_eq!(gone, ["old"]);
        let names: Vec<_> = changed.iter().map(|tool| (tool.name.as_str(), tool.old.as_deref())).collect();
        assert_eq!(names, [("new", None), ("other", Some("a"))]);
        assert_eq!(changed[0].parts, ["new"]);
        assert_eq!(changed[1].parts, ["description", "inputSchema.properties.x.type"]);
        let from_nothing = compare(by_ref(&[]), by_ref(&now)).changed;
        assert!(from_nothing.iter().all(|tool| tool.parts == ["new"]) && from_nothing.len() == 3);
        assert_eq!(compare(by_ref(&now), by_ref(&now)), VersionDifferences::default());
        assert_eq!(compare(by_ref(&now), by_ref(&[])).gone.len(), 3);
    }
}
