//! The limits for the texts by which a request identifies something. They are checked here, before anything is looked for,
//! compared or kept. What is only passed on has no limit but that of a message: arguments, `_meta`, cursors and states.

use crate::errors::{self, RpcError};
use crate::names::uri_owner;
use base::text::grouped;
use serde_json::value::RawValue;
use std::fmt::Display;
use wire::object::{Object, Value};
use wire::params::Params;
use wire::protocol::max_bytes;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitedText {
    /// A name.
    Name,
    /// The words of a search.
    Query,
    /// A URI, or the id of a task.
    Uri,
}

/// The members of params that identify something.
const MEMBERS: [(&str, LimitedText); 5] = [
    ("name", LimitedText::Name),
    ("uri", LimitedText::Uri),
    ("group", LimitedText::Name),
    ("taskId", LimitedText::Uri),
    ("level", LimitedText::Name),
];

/// The members of params that are objects in which such members are.
const NESTED: [(&str, &[(&str, LimitedText)]); 2] = [
    ("ref", &[("type", LimitedText::Name), ("name", LimitedText::Name), ("uri", LimitedText::Uri)]),
    ("argument", &[("name", LimitedText::Name)]),
];

/// The lists of names and URIs: in params themselves, or in an object there.
const LISTS: [(Option<&str>, &str, LimitedText); 3] = [
    (None, "names", LimitedText::Name),
    (Some("notifications"), "resourceSubscriptions", LimitedText::Uri),
    (Some("notifications"), "taskIds", LimitedText::Uri),
];

impl LimitedText {
    fn noun(self) -> &'static str {
        match self {
            Self::Name => "names",
            Self::Query => "search queries",
            Self::Uri => "URIs",
        }
    }

    /// Returns the limit for this text.
    fn max_bytes(self, text: &str) -> usize {
        match self {
            Self::Name => max_bytes::NAME,
            Self::Query => max_bytes::QUERY,
            // It has the URI that the server lists and the name of the group. Encoding makes three bytes of one.
            Self::Uri if uri_owner::may_be_rewritten(text) => 3 * (max_bytes::URI + max_bytes::NAME),
            Self::Uri => max_bytes::URI,
        }
    }

    /// Checks an argument of one of our tools.
    ///
    /// # Errors
    ///
    /// It is too long. The text is for the model.
    pub(crate) fn check_argument(self, key: &str, text: &str) -> Result<(), String> {
        self.check(format_args!("Argument {key:?}"), text).map_err(|error| format!("{error}."))
    }

    /// Checks a text. `what` is its place in the request, for the error.
    ///
    /// # Errors
    ///
    /// The text is too long.
    pub(crate) fn check(self, what: impl Display, text: &str) -> Result<(), String> {
        let (bytes, limit) = (text.len(), self.max_bytes(text));
        match bytes <= limit {
            true => Ok(()),
            false => Err(format!(
                "{what} has {} bytes, and the limit for {} is {}",
                grouped(bytes),
                self.noun(),
                grouped(limit)
            )),
        }
    }

    /// Checks a member, if it is a string.
    fn check_value(self, what: impl Display, value: Value<'_>) -> Result<(), RpcError> {
        // A string is never longer than it is written.
        let text = if value.text().len() > max_bytes::NAME { value.as_str() } else { None };
        text.map_or(Ok(()), |text| self.check(what, &text)).map_err(errors::invalid_params)
    }
}

/// Checks all texts in the params of a request by which it identifies something.
///
/// # Errors
///
/// One of them is too long.
pub(crate) fn check(params: &Params) -> Result<(), RpcError> {
    // Nearly all requests are so short that no text in them is too long.
    match params.object() {
        Some(object) if params.len() > max_bytes::NAME => check_members(object),
        _ => Ok(()),
    }
}

fn check_members(params: &Object) -> Result<(), RpcError> {
    check_of(params, "params", &MEMBERS)?;
    for (key, members) in NESTED {
        if let Some(object) = nested(params, key) {
            check_of(&object, &format!("params.{key}"), members)?;
        }
    }
    for (outer, key, kind) in LISTS {
        let inner = outer.map(|outer| nested(params, outer));
        let list = match &inner {
            None => params.get(key),
            Some(object) => object.as_ref().and_then(|object| object.get(key)),
        };
        let path = [Some("params"), outer, Some(key)].into_iter().flatten().collect::<Vec<_>>().join(".");
        let list = list.filter(|list| list.len() > max_bytes::NAME).unwrap_or_default();
        let elements: Vec<&RawValue> = serde_json::from_slice(&list).unwrap_or_default();
        for element in elements.into_iter().map(RawValue::get).filter(|text| text.len() > max_bytes::NAME) {
            let text = wire::object::str(element.as_bytes()).unwrap_or_default();
            kind.check(format_args!("an element of {path}"), &text).map_err(errors::invalid_params)?;
        }
    }
    Ok(())
}

fn nested(params: &Object, key: &str) -> Option<Object> {
    Object::parse(&params.get(key)?)
}

fn check_of(object: &Object, path: &str, members: &[(&str, LimitedText)]) -> Result<(), RpcError> {
    for (key, kind) in members {
        if let Some(value) = object.value(key) {
            kind.check_value(format_args!("{path}.{key}"), value)?;
        }
    }
    Ok(())
}

/// Returns whether this member of params is checked. What a handler reads as a name or a URI must be.
pub(crate) fn is_checked(key: &str) -> bool {
    MEMBERS.iter().any(|(member, _)| *member == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(params: &str) -> Result<(), String> {
        check(&Params::from(wire::Raw::copy_from_slice(params.as_bytes())))
            .map_err(|error| error.message.into_owned())
    }

    fn long(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    #[test]
    fn what_identifies_something_has_a_limit() {
        for (at, limit) in [
            (r#"{"name":"@"}"#, 1024),
            (r#"{"group":"@","uri":"a:b"}"#, 1024),
            (r#"{"level":"@"}"#, 1024),
            (r#"{"uri":"@"}"#, 8192),
            (r#"{"taskId":"@"}"#, 8192),
            (r#"{"ref":{"type":"@"}}"#, 1024),
            (r#"{"ref":{"type":"ref/prompt","name":"@"}}"#, 1024),
            (r#"{"ref":{"uri":"@"}}"#, 8192),
            (r#"{"argument":{"name":"@","value":"v"}}"#, 1024),
            (r#"{"names":["a","@"]}"#, 1024),
            (r#"{"notifications":{"resourceSubscriptions":["@"]}}"#, 8192),
            (r#"{"notifications":{"taskIds":["@"]}}"#, 8192),
        ] {
            assert_eq!(outcome(&at.replace('@', &long(limit))), Ok(()), "{at}");
            let error = outcome(&at.replace('@', &long(limit + 1))).unwrap_err();
            let text = format!("{} bytes", grouped(limit + 1));
            assert!(error.contains(&text) && error.contains("the limit for"), "{at}: {error}");
        }
        let error = outcome(&format!(r#"{{"name":"{}"}}"#, long(2_000_000)));
        assert_eq!(error.unwrap_err(), "params.name has 2,000,000 bytes, and the limit for names is 1,024");
    }

    #[test]
    fn what_is_passed_on_has_none() {
        let long = long(20_000);
        for at in [
            r#"{"name":"t","arguments":{"name":"@","uri":"@"}}"#,
            r#"{"_meta":{"name":"@"}}"#,
            r#"{"cursor":"@"}"#,
            r#"{"requestState":"@","inputResponses":{"name":"@"}}"#,
            r#"{"argument":{"name":"n","value":"@"},"context":{"arguments":{"name":"@"}}}"#,
            r#"{"name":["@"]}"#,
        ] {
            assert_eq!(outcome(&at.replace('@', &long)), Ok(()), "{at}");
        }
    }

    #[test]
    fn a_text_counts_as_it_is_meant_and_not_as_it_is_written() {
        let escaped = |count: usize| format!(r#"{{"name":"{}"}}"#, "\\u0061".repeat(count));
        assert_eq!(outcome(&escaped(1024)), Ok(()));
        assert!(outcome(&escaped(1025)).is_err());
    }

    #[test]
    fn a_uri_that_names_its_group_may_be_three_times_as_long() {
        let group = config::GroupName::new(&"ü".repeat(100));
        let uri = uri_owner::explicit(&group, &"ü".repeat(max_bytes::URI / 2));
        assert!(uri.len() > 3 * max_bytes::URI);
        assert_eq!(LimitedText::Uri.check("params.uri", &uri), Ok(()));
        assert!(LimitedText::Uri.check("params.uri", &format!("dynamic-mcp://{}", long(30_000))).is_err());
    }
}
