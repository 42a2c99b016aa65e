//! Which group a URI belongs to, and under which URI it is listed. Pure.

use crate::config::GroupName;
use crate::upstream::catalog::Listed;
use crate::wire::percent::{decode, encode};
use crate::wire::{Raw, raw};
use std::collections::HashSet;

/// The scheme of URIs that another group had claimed before.
const SCHEME: &str = "dynamic-mcp://";
/// The scheme of MCP Apps.
pub const APPS: &str = "ui://";

/// What the groups list, in config order, as one list: a URI that an earlier group claims is listed under ours.
pub fn merge(lists: &[(GroupName, Vec<Listed>)], key: &str) -> Vec<Raw> {
    let mut claimed = HashSet::new();
    let mut merged = Vec::new();
    for (group, list) in lists {
        for listed in list {
            merged.push(if claimed.insert(listed.key.clone()) {
                listed.entry.clone()
            } else {
                let uri = serde_json::Value::from(disguised(group, &listed.key)).to_string();
                raw::set(&listed.entry, key, uri.as_bytes())
            });
        }
    }
    merged
}

/// `uri` of `group` under our scheme. Those of MCP Apps stay in theirs, which hosts look for.
pub fn disguised(group: &GroupName, uri: &str) -> String {
    let group = encode(group.as_str());
    match uri.strip_prefix(APPS) {
        Some(rest) => format!("{APPS}{group}/{rest}"),
        None => format!("{SCHEME}{group}/{}", encode(uri)),
    }
}

/// The URI under which a client knows `uri` of `group`.
pub fn known_as(group: &GroupName, uri: &str, resources: &[(GroupName, Vec<Listed>)]) -> String {
    match listing(uri, resources) {
        Some(owner) if owner != group => disguised(group, uri),
        _ => uri.to_owned(),
    }
}

/// The first group that lists `uri`.
pub fn listing<'a>(uri: &str, resources: &'a [(GroupName, Vec<Listed>)]) -> Option<&'a GroupName> {
    let found = resources.iter().find(|(_, list)| list.iter().any(|listed| listed.key == uri));
    found.map(|(group, _)| group)
}

/// What a URI of MCP Apps stands for that an earlier group claims as well, if its group lists that.
pub fn app_behind<'a>(
    uri: &str,
    resources: &'a [(GroupName, Vec<Listed>)],
) -> Option<(&'a GroupName, String)> {
    let (group, rest) = uri.strip_prefix(APPS)?.split_once('/')?;
    let (group, behind) = (decode(group)?, format!("{APPS}{rest}"));
    let (group, list) = resources.iter().find(|(name, _)| name.as_str() == group)?;
    list.iter().any(|listed| listed.key == behind).then_some((group, behind))
}

/// The group and the URI behind one of ours.
pub fn undisguised(uri: &str) -> Option<(String, String)> {
    let (group, uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    Some((decode(group)?, decode(uri)?))
}

/// The group that lists `uri`, else the first with a template that covers it.
pub fn owner<'a>(
    uri: &str,
    resources: &'a [(GroupName, Vec<Listed>)],
    templates: &'a [(GroupName, Vec<Listed>)],
) -> Option<&'a GroupName> {
    let covered = || templates.iter().find(|(_, list)| list.iter().any(|listed| covers(&listed.key, uri)));
    listing(uri, resources).or_else(|| covered().map(|(group, _)| group))
}

/// Whether `uri` can come of the template (RFC 6570): its literals in their order, something for each expression.
pub fn covers(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let Some(begin) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(begin) else { return false };
    rest = after;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let Some((expression, literal)) = part.split_once('}') else { return false };
        // `{/x}`, `{?x}`, `{#x}` and their kin expand to nothing where there is no value, and `{+x}` to slashes too.
        let optional = expression.starts_with(['/', '?', '&', '#', ';', '.']);
        let slashes = expression.starts_with(['+', '#', '/', '?', '&']);
        let end = match (literal.is_empty(), parts.peek()) {
            (true, None) => Some(rest.len()),
            (true, Some(_)) => Some(0),
            (false, _) => rest.find(literal),
        };
        let Some(end) = end else { return false };
        let value = &rest[..end];
        let last = literal.is_empty() && parts.peek().is_none();
        if (value.is_empty() && !optional && (last || !literal.is_empty()))
            || (!slashes && value.contains('/'))
        {
            return false;
        }
        rest = &rest[end + literal.len()..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(group: &str, uris: &[&str]) -> (GroupName, Vec<Listed>) {
        let listed = uris.iter().map(|uri| Listed {
            key: (*uri).to_owned(),
            entry: format!(r#"{{"uri":"{uri}","x":1.0}}"#).into(),
        });
        (GroupName::new(group), listed.collect())
    }

    #[test]
    fn a_uri_belongs_to_the_first_and_the_others_are_reachable() {
        let lists = [list("a", &["file:///x", "a://1"]), list("b", &["file:///x"])];
        let merged = merge(&lists, "uri");
        assert_eq!(merged[0], r#"{"uri":"file:///x","x":1.0}"#);
        let ours = raw::get_str(&merged[2], "uri").unwrap();
        assert_eq!(undisguised(&ours), Some(("b".to_owned(), "file:///x".to_owned())));
        assert_eq!(owner("file:///x", &lists, &[]).unwrap().as_str(), "a");
        assert_eq!(owner("nope", &lists, &[]), None);
    }

    #[test]
    fn apps_stay_in_their_scheme() {
        let lists = [list("a", &["ui://x/1"]), list("b c", &["ui://x/1", "ui://y"])];
        let ours = raw::get_str(&merge(&lists, "uri")[1], "uri").unwrap();
        assert_eq!(ours, "ui://b%20c/x/1");
        assert_eq!(app_behind(&ours, &lists), Some((&lists[1].0, "ui://x/1".to_owned())));
        assert_eq!(app_behind("ui://b%20c/z", &lists), None);
        assert_eq!(known_as(&lists[1].0, "ui://x/1", &lists), ours);
        assert_eq!(known_as(&lists[1].0, "ui://y", &lists), "ui://y");
    }

    #[test]
    fn templates_cover_what_they_expand_to() {
        for (template, uri, covered) in [
            ("test://{id}/data", "test://7/data", true),
            ("test://{id}/data", "test:///data", false),
            ("test://{id}/data", "test://a/b/data", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("file:///{path}", "file:///a/b", false),
            ("x://a{?q}", "x://a", true),
            ("x://a{?q}", "x://a?q=1/2", true),
            ("x://a", "x://a", true),
            ("x://a", "x://ab", false),
            ("x://{a", "x://b", false),
            ("{scheme}://{host}", "http://h", true),
        ] {
            assert_eq!(covers(template, uri), covered, "{template} {uri}");
        }
    }

    proptest! {
        #[test]
        fn every_uri_survives_the_disguise(group in "\\PC{1,12}", uri in "\\PC{0,40}") {
            prop_assume!(!uri.starts_with(APPS));
            let ours = disguised(&GroupName::new(&group), &uri);
            prop_assert!(ours.is_ascii());
            prop_assert_eq!(undisguised(&ours), Some((group, uri)));
        }

        #[test]
        fn any_template_is_matched_without_panic(template in "[a-c{}/?+]{0,12}", uri in "[a-c/]{0,12}") {
            let _covered = covers(&template, &uri);
        }
    }
}
