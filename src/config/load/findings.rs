//! What is wrong with a file: text that is not JSON, all errors of an entry, and oddities that do no harm.

use std::borrow::Cow;

use jsonc_parser::ast::{NullKeyword, StringLit, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use serde::de::DeserializeOwned;

use super::source_text::SourceText;
use crate::config::de::ValueReader;
use crate::config::vars::{Env, ExpandContext};
use crate::config::{ConfigError, OWN_GROUP};

/// How many errors of one entry are reported.
const MAX_ERRORS: usize = 20;

/// Whether servers can be shared on this system.
pub(super) const CAN_SHARE: bool = cfg!(target_os = "linux");

/// An entry with errors.
pub(super) struct ReadEntry<T> {
    /// What could be read of it.
    pub(super) value: Option<T>,
    /// What is wrong with it.
    pub(super) errors: Vec<ConfigError>,
    /// The byte offsets of the values that are wrong.
    pub(super) wrong: Vec<usize>,
    /// A warning for each unknown field.
    pub(super) warnings: Vec<ConfigError>,
}

/// Makes the error for text that is not JSON. A bracket that is missing is reported at the end of the text, where it is
/// usually to be added.
pub(super) fn syntax_error(text: &SourceText, error: &ParseError) -> ConfigError {
    let (missing, what) = match error.kind() {
        ParseErrorKind::UnterminatedObject => ('}', "object"),
        ParseErrorKind::UnterminatedArray => (']', "list"),
        kind => {
            let message = format!("not valid JSON: {}", kind.to_string().to_lowercase());
            return text.error(error.range().start, message, None);
        }
    };
    let (line, column) = text.position(error.range().start);
    let message = format!(
        "not valid JSON: a `{missing}` is missing; the {what} that begins at {line}:{column} is not closed"
    );
    text.error(text.as_str().trim_end().len(), message, None)
}

/// What is wrong with the name of a server, and what to do about it.
pub(crate) fn name_error(name: &str, is_disabled: bool) -> Option<(String, Option<String>)> {
    if name.trim().is_empty() {
        return Some(("the server's name is empty".to_owned(), None));
    }
    let message = format!("the name `{OWN_GROUP}` is reserved for dynamic-mcp itself");
    (name == OWN_GROUP && !is_disabled).then(|| (message, Some("rename the server".to_owned())))
}

/// Reads an entry, and whatever is right in it if it has errors. Each error is found by reading the entry again
/// without the value that had the one before.
pub(super) fn read_entry<T: DeserializeOwned>(
    value: &Value<'_>,
    text: &SourceText,
    context: ExpandContext<'_>,
) -> ReadEntry<T> {
    let (mut errors, mut wrong): (Vec<ConfigError>, Vec<usize>) = (Vec::new(), Vec::new());
    // A copy is made only of an entry that has errors.
    let mut rest = Cow::Borrowed(value);
    loop {
        let reader = ValueReader::new(context);
        let read = reader.read(&rest);
        let offset = read.as_ref().err().map(|error| error.offset.unwrap_or_else(|| value.start()));
        let is_replaced = match &read {
            Ok(_) => false,
            Err(error) => {
                let offset = offset.unwrap_or_default();
                let seen = wrong.iter().filter(|known| **known == offset).count();
                if seen == 0 {
                    errors.push(text.error(offset, error, error.hint.clone()));
                }
                wrong.push(offset);
                seen < 2 && errors.len() < MAX_ERRORS && replace_at(rest.to_mut(), offset, seen > 0)
            }
        };
        if !is_replaced {
            let unknown = reader.into_unknown();
            let warnings =
                unknown.iter().map(|field| unknown_field(text, &field.name, field.offset, field.nearest));
            return ReadEntry { value: read.ok(), errors, wrong, warnings: warnings.collect() };
        }
    }
}

/// Returns a warning for each argument that looks as if a shell expanded it.
pub(super) fn unexpanded_args(server: &Value<'_>, text: &SourceText, env: &Env) -> Vec<ConfigError> {
    let members = server.as_object().map_or(&[][..], |server| &server.properties);
    let lists = members.iter().filter(|member| matches!(member.name.as_str(), "args" | "command"));
    let values = lists.flat_map(|member| {
        let elements = member.value.as_array().map_or(&[][..], |list| &list.elements);
        elements.iter().enumerate().map(move |(n, value)| (member.name.as_str(), n, value))
    });
    let warning = |(name, n, value): (&str, usize, &Value<'_>)| {
        let (what, instead) = unexpanded_part(value.as_string_lit()?.value.as_ref(), env)?;
        let message = format!("`{name}[{n}]`: `{what}` is not expanded, because no shell reads it");
        Some(text.error(value.start(), message, Some(format!("write `{instead}`"))))
    };
    values.filter_map(warning).collect()
}

/// Returns a warning if `object`, a server or the settings, asks for a shared process on a system where there are none.
pub(super) fn share_without_effect(
    object: &Value<'_>,
    text: &SourceText,
    can_share: bool,
) -> Option<ConfigError> {
    let share = &object.as_object()?.properties.iter().find(|member| member.name.as_str() == "share")?.value;
    let asks_for_sharing = matches!(share.as_string_lit()?.value.as_ref(), "directory" | "user");
    (asks_for_sharing && !can_share).then(|| {
        let message =
            "`share` has no effect: servers are shared on Linux only, so each window starts its own";
        text.error(
            share.start(),
            message,
            Some(r#"write "client", unless Linux uses this file too"#.to_owned()),
        )
    })
}

/// Makes the warning for an unknown field. `nearest`: the known name that is probably meant.
pub(super) fn unknown_field(
    text: &SourceText,
    name: &str,
    offset: usize,
    nearest: Option<&str>,
) -> ConfigError {
    let hint = nearest.map(|nearest| format!("did you mean `{nearest}`?"));
    text.error(offset, format_args!("unknown field `{name}`"), hint)
}

/// Replaces the value at this offset: by an empty string, which most fields accept, or by null, which all others do.
/// Returns whether there was one.
fn replace_at(value: &mut Value<'_>, offset: usize, by_null: bool) -> bool {
    if value.start() == offset {
        let range = value.range();
        *value = match by_null {
            true => Value::NullKeyword(NullKeyword { range }),
            false => Value::StringLit(StringLit { range, value: "".into() }),
        };
        return true;
    }
    let is_inside = |value: &Value<'_>| (value.start()..value.end()).contains(&offset);
    let inner = match value {
        Value::Object(object) => {
            object.properties.iter_mut().map(|member| &mut member.value).find(|v| is_inside(v))
        }
        Value::Array(list) => list.elements.iter_mut().find(|value| is_inside(value)),
        _ => None,
    };
    inner.is_some_and(|inner| replace_at(inner, offset, by_null))
}

/// Returns the part of an argument that a shell would expand, and what to write instead: `$NAME` for a variable that is
/// set, or a leading `~`.
fn unexpanded_part(text: &str, env: &Env) -> Option<(String, String)> {
    if text == "~" || text.starts_with("~/") {
        return Some(("~".to_owned(), "${HOME}".to_owned()));
    }
    text.match_indices('$').find_map(|(at, _)| {
        let name: String =
            text[at + 1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let is_escaped = text[..at].ends_with('$');
        let is_set = name.starts_with(|c: char| c.is_ascii_uppercase()) && env.get(&name).is_some();
        (is_set && !is_escaped).then(|| (format!("${name}"), format!("${{{name}}}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::json_text::parse_json;
    use std::path::Path;

    fn warning(object: &str, can_share: bool) -> Option<String> {
        let text = SourceText::new(Path::new("c.json"), object);
        let object = Value::Object(parse_json(&text).unwrap());
        share_without_effect(&object, &text, can_share).map(|warning| warning.to_string())
    }

    #[test]
    fn share_is_a_warning_where_nothing_is_shared() {
        for value in ["directory", "user"] {
            let object = format!(r#"{{"command": "x", "share": "{value}"}}"#);
            let without = warning(&object, false).unwrap();
            assert!(without.starts_with("c.json:1:27: `share` has no effect"), "{without}");
            assert_eq!(warning(&object, true), None);
        }
        for object in [r#"{"share": "auto"}"#, r#"{"share": "client"}"#, r#"{"share": 1}"#, "{}"] {
            assert_eq!(warning(object, false), None, "{object}");
        }
    }
}
