//! Which group a URI belongs to, and under which URI clients see it. Pure.
//!
//! URIs stay verbatim. If two groups list the same URI, it belongs to the first one in config order, and the other
//! group's is rewritten: to `dynamic-mcp://GROUP/ENCODED-URI`, or for MCP Apps and skills to `ui://GROUP/…` and
//! `skill://GROUP/…`: hosts look for the first scheme, and the path of a skill has a meaning.

use config::GroupName;
use std::collections::HashSet;
use upstream::catalog::claims::APP_SCHEME;
use upstream::catalog::entries::{ListEntries, ListEntry, SKILL_SCHEME};
use wire::percent::{decode, encode};
use wire::{Raw, raw};

/// The scheme of rewritten URIs.
const SCHEME: &str = "dynamic-mcp://";

/// How the URIs of our own apps begin. A group's own URI that begins so is rewritten.
const RESERVED: &str = "ui://dynamic-mcp/";

/// The schemes that rewritten URIs keep: those of MCP Apps and of skills.
const KEPT_SCHEMES: [&str; 2] = [APP_SCHEME, SKILL_SCHEME];

/// Returns whether a URI has a scheme that rewritten ones keep.
pub(crate) fn keeps_scheme(uri: &str) -> bool {
    split_kept_scheme(uri).is_some()
}

/// Splits a scheme that rewritten URIs keep off a URI.
fn split_kept_scheme(uri: &str) -> Option<(&str, &str)> {
    KEPT_SCHEMES.iter().find_map(|scheme| Some((*scheme, uri.strip_prefix(scheme)?)))
}

/// Merges the lists of all groups, in config order. A URI that an earlier group lists or claims is rewritten. `key`:
/// the member of a definition that has its URI.
pub fn merge(lists: &[(GroupName, ListEntries)], claims: &[(GroupName, ListEntries)], key: &str) -> Vec<Raw> {
    let mut claimed = HashSet::new();
    let mut merged = Vec::new();
    for (index, (group, list)) in lists.iter().enumerate() {
        let earlier = &lists[..index];
        let names: HashSet<_> = earlier.iter().map(|(group, _)| group).collect();
        let earlier_claims: Vec<_> = claims.iter().filter(|(name, _)| names.contains(name)).collect();
        let is_of_earlier_skill = |uri: &str| {
            let earlier = || earlier.iter().chain(earlier_claims.iter().copied());
            uri.starts_with(SKILL_SCHEME) && earlier().any(|(_, list)| has(list, uri))
        };
        for listed in list.iter() {
            let is_free = !is_reserved(&listed.key) && !is_of_earlier_skill(&listed.key);
            merged.push(if claimed.insert(listed.key.clone()) && is_free {
                listed.definition.clone()
            } else {
                raw::set_str(&listed.definition, key, &rewrite(group, &listed.key))
            });
        }
        let of_group = claims.iter().filter(|(name, _)| name == group).flat_map(|(_, list)| list.iter());
        claimed.extend(of_group.map(|claim| claim.key.clone()));
    }
    merged
}

/// Rewrites `uri` of `group` so that it names the group.
pub(crate) fn rewrite(group: &GroupName, uri: &str) -> String {
    let encoded = encode(group.as_str());
    match split_kept_scheme(uri) {
        Some((scheme, rest)) => format!("{scheme}{encoded}/{rest}"),
        None => at_group(&encoded, uri),
    }
}

/// Returns the URI that names `uri` of `group` explicitly, whether or not a group lists it. Clients may use it for
/// every URI.
pub fn explicit(group: &GroupName, uri: &str) -> String {
    at_group(&encode(group.as_str()), uri)
}

fn at_group(encoded_group: &str, uri: &str) -> String {
    format!("{SCHEME}{encoded_group}/{}", encode(uri))
}

/// Returns the URI under which clients see `uri` of `group`.
pub(crate) fn client_uri(group: &GroupName, uri: &str, resources: &[(GroupName, ListEntries)]) -> String {
    match lister(uri, resources) {
        _ if is_reserved(uri) => rewrite(group, uri),
        Some(owner) if owner != group => rewrite(group, uri),
        _ => uri.to_owned(),
    }
}

/// Returns the first group that lists `uri`. No group has a reserved one.
pub(crate) fn lister<'a>(uri: &str, resources: &'a [(GroupName, ListEntries)]) -> Option<&'a GroupName> {
    if is_reserved(uri) {
        return None;
    }
    resources.iter().find(|(_, list)| has(list, uri)).map(|(group, _)| group)
}

/// Returns whether a list has a URI, or a skill to whose directory the URI belongs.
fn has(list: &ListEntries, uri: &str) -> bool {
    list.has(uri) || list.has_skill_of(uri)
}

/// Parses a rewritten URI of an MCP App or a skill. Returns the group and the group's own URI. `None` if the URI has another
/// scheme, or if the group neither lists nor claims its own URI. A group's own URI may look like a rewritten one, so look
/// for the URI itself with [`lister`] first. `resources`: what `known_lists::resources_and_claims` returns.
pub(crate) fn parse_kept_scheme<'a>(
    uri: &str,
    resources: &'a [(GroupName, ListEntries)],
) -> Option<(&'a GroupName, String)> {
    let (scheme, rest) = split_kept_scheme(uri)?;
    let (group, rest) = rest.split_once('/')?;
    let (group, original) = (decode(group)?, format!("{scheme}{rest}"));
    let mut lists = resources.iter().filter(|(name, _)| name.as_str() == group);
    lists.find(|(_, list)| has(list, &original)).map(|(group, _)| (group, original))
}

/// Returns whether a URI is one of our own apps.
pub(crate) fn is_reserved(uri: &str) -> bool {
    uri.starts_with(RESERVED)
}

/// Returns whether a URI has the scheme of rewritten ones.
pub(crate) fn is_rewritten(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

/// Returns whether a URI may have the name of a group in it, put there by [`rewrite`].
pub(crate) fn may_be_rewritten(uri: &str) -> bool {
    is_rewritten(uri) || keeps_scheme(uri)
}

/// How much a URI resembles one that a group lists. More is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Affinity {
    /// Not at all.
    None,
    /// It has the same scheme.
    Scheme,
    /// It has the same scheme and the same authority (RFC 3986, section 3).
    Authority,
}

impl Affinity {
    /// Compares a URI with one that is listed, or with a template.
    pub(crate) fn between(listed: &str, uri: &str) -> Self {
        match (scheme_and_authority(listed), scheme_and_authority(uri)) {
            (Some((a, _)), Some((b, _))) if !a.eq_ignore_ascii_case(b) => Self::None,
            (Some((_, a)), Some((_, b))) if a.eq_ignore_ascii_case(b) => Self::Authority,
            (Some(_), Some(_)) => Self::Scheme,
            _ => Self::None,
        }
    }
}

/// Returns whether a URI has an authority, which is not empty. `file:///x` and `memo:1` have no authority that could
/// belong to a group.
pub(crate) fn has_authority(uri: &str) -> bool {
    scheme_and_authority(uri).is_some_and(|(_, authority)| !authority.is_empty())
}

/// Splits the scheme and the authority off a URI. The authority is empty if there is none.
fn scheme_and_authority(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    Some((scheme, &authority[..end]))
}

/// Parses a rewritten URI: the group and its own URI.
pub(crate) fn parse_rewritten(uri: &str) -> Option<(String, String)> {
    let (group, uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    Some((decode(group)?, decode(uri)?))
}

/// Returns the group that lists `uri`, else the first one with a template of its scheme that matches it.
pub fn owner<'a>(
    uri: &str,
    resources: &'a [(GroupName, ListEntries)],
    templates: &'a [(GroupName, ListEntries)],
) -> Option<&'a GroupName> {
    let covers = |listed: &ListEntry| {
        !is_reserved(uri) && !is_catch_all(&listed.key) && matches_template(&listed.key, uri)
    };
    let by_template = || templates.iter().find(|(_, list)| list.iter().any(covers));
    lister(uri, resources).or_else(|| by_template().map(|(group, _)| group))
}

/// Returns the groups with a template that names no scheme and matches `uri`. They take what belongs to no other group.
pub(crate) fn catch_alls<'a>(
    uri: &str,
    templates: &'a [(GroupName, ListEntries)],
) -> impl Iterator<Item = &'a GroupName> {
    let covers = |listed: &ListEntry| is_catch_all(&listed.key) && matches_template(&listed.key, uri);
    templates.iter().filter(move |(_, list)| list.iter().any(covers)).map(|(group, _)| group)
}

/// Returns whether a template names no scheme, so that it covers URIs of other groups too.
fn is_catch_all(template: &str) -> bool {
    template.split_once(':').is_none_or(|(scheme, _)| scheme.contains('{'))
}

/// Returns whether `uri` may be an expansion of the template (RFC 6570): it has the literals in order, and a value for
/// each expression.
fn matches_template(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let Some(begin) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(begin) else { return false };
    rest = after;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let Some((expression, literal)) = part.split_once('}') else { return false };
        // `{/x}`, `{?x}`, `{#x}` and the like may expand to nothing, and `{+x}` may contain slashes.
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
    use upstream::catalog::entries::ListEntry;

    fn list(group: &str, uris: &[&str]) -> (GroupName, ListEntries) {
        let listed = uris.iter().map(|uri| ListEntry {
            key: (*uri).to_owned(),
            definition: format!(r#"{{"uri":"{uri}","x":1.0}}"#).into(),
        });
        (GroupName::new(group), listed.collect())
    }

    #[test]
    fn a_uri_belongs_to_the_first_group_and_the_others_are_reachable() {
        let lists = [list("a", &["file:///x", "a://1"]), list("b", &["file:///x"])];
        let merged = merge(&lists, &[], "uri");
        assert_eq!(merged[0], r#"{"uri":"file:///x","x":1.0}"#);
        let ours = raw::get_str(&merged[2], "uri").unwrap();
        assert_eq!(parse_rewritten(&ours), Some(("b".to_owned(), "file:///x".to_owned())));
        assert_eq!(owner("file:///x", &lists, &[]).unwrap().as_str(), "a");
        assert_eq!(owner("nope", &lists, &[]), None);
    }

    #[test]
    fn a_template_without_a_scheme_owns_nothing() {
        let templates = [
            list("evil", &["{+uri}", "b{+x}", "{scheme}://{+rest}", "{a:4}://doc/{id}"]),
            list("bank", &["bank://doc/{id}"]),
        ];
        assert_eq!(owner("bank://doc/1", &[], &templates).unwrap().as_str(), "bank");
        assert_eq!(owner("bank://other/1", &[], &templates), None);
        let catch_all: Vec<_> = catch_alls("bank://other/1", &templates).map(GroupName::as_str).collect();
        assert_eq!(catch_all, ["evil"]);
        assert!(has_authority("bank://doc/1") && !has_authority("file:///x") && !has_authority("memo:1"));
    }

    #[test]
    fn rewritten_apps_stay_in_their_scheme() {
        let lists = [list("a", &["ui://x/1"]), list("b c", &["ui://x/1", "ui://y"])];
        let ours = raw::get_str(&merge(&lists, &[], "uri")[1], "uri").unwrap();
        assert_eq!(ours, "ui://b%20c/x/1");
        assert_eq!(parse_kept_scheme(&ours, &lists), Some((&lists[1].0, "ui://x/1".to_owned())));
        assert_eq!(parse_kept_scheme("ui://b%20c/z", &lists), None);
        assert_eq!(client_uri(&lists[1].0, "ui://x/1", &lists), ours);
        assert_eq!(client_uri(&lists[1].0, "ui://y", &lists), "ui://y");
    }

    #[test]
    fn no_group_has_the_uris_of_our_own_apps() {
        let uri = "ui://dynamic-mcp/status";
        let lists = [list("a", &[uri])];
        let ours = raw::get_str(&merge(&lists, &[], "uri")[0], "uri").unwrap();
        assert_eq!(ours, "ui://a/dynamic-mcp/status");
        assert_eq!(client_uri(&lists[0].0, uri, &lists), ours);
        assert_eq!(parse_kept_scheme(&ours, &lists), Some((&lists[0].0, uri.to_owned())));
        assert_eq!(owner(uri, &lists, &[list("a", &["ui://dynamic-mcp/{x}"])]), None);
    }

    #[test]
    fn a_uri_resembles_those_with_its_scheme_and_more_those_with_its_authority() {
        use Affinity::{Authority, None, Scheme};
        for (listed, uri, affinity) in [
            ("db://main/users", "DB://main/orders?x", Authority),
            ("db://main", "db://main/orders", Authority),
            ("db://other/users", "db://main/users", Scheme),
            ("db://{name}/users", "db://main/users", Scheme),
            ("{scheme}://main/users", "db://main/users", None),
            ("file:///a", "file:///b/c", Authority),
            ("memo:1", "memo:2", Authority),
            ("db://main/users", "main/users", None),
            ("a://x", "b://x", None),
        ] {
            assert_eq!(Affinity::between(listed, uri), affinity, "{listed} {uri}");
        }
    }

    #[test]
    fn a_template_matches_its_expansions() {
        for (template, uri, is_match) in [
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
            assert_eq!(matches_template(template, uri), is_match, "{template} {uri}");
        }
    }

    proptest! {
        #[test]
        fn every_uri_survives_rewriting(group in "\\PC{1,12}", uri in "\\PC{0,40}") {
            prop_assume!(!keeps_scheme(&uri));
            let ours = rewrite(&GroupName::new(&group), &uri);
            prop_assert!(ours.is_ascii());
            prop_assert_eq!(parse_rewritten(&ours), Some((group, uri)));
        }

        #[test]
        fn matching_any_template_never_panics(template in "[a-c{}/?+]{0,12}", uri in "[a-c/]{0,12}") {
            let _is_match = matches_template(&template, &uri);
        }
    }
}
