//! What is wrong with a file: text that is not JSON, and oddities that do no harm.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};

use super::source_text::SourceText;
use crate::env::Env;
use crate::value_reader::{UnknownField, ValueError, ValueReader};
use crate::{ConfigError, OWN_GROUP};
use base::text::quoted_list;

/// A limit of so many seconds is probably one of milliseconds.
const MIN_DOUBTFUL_SECONDS: f64 = 5000.0;

/// Whether servers can be shared on this system.
pub(super) const CAN_SHARE: bool = cfg!(target_os = "linux");

/// Makes the error for text that is not JSON. A bracket that is missing is reported at the end of the text, where it is
/// usually to be added.
pub(super) fn syntax_error(text: &SourceText, error: &ParseError) -> ConfigError {
    let (missing, what) = match error.kind() {
        ParseErrorKind::UnterminatedObject => ('}', "object"),
        ParseErrorKind::UnterminatedArray => (']', "list"),
        kind => {
            let at = error.range().start;
            if let Some((message, hint)) = wrong_bracket(text, at).or_else(|| yaml(text.as_str())) {
                return text.error(at, format_args!("not valid JSON: {message}"), Some(hint));
            }
            let message = format!("not valid JSON: {}", kind.to_string().to_lowercase());
            // `\U` of `C:\Users`, and `\u` of `C:\users`, which needs four digits.
            let is_escape = matches!(kind, ParseErrorKind::String(_))
                && ["escape", "hex digits"].iter().any(|part| message.contains(part));
            let hint = match text.as_str().get(at..).and_then(|rest| rest.chars().next()) {
                _ if is_escape => Some(r"write each backslash of a path twice, as in C:\\Users"),
                Some('“' | '”' | '„' | '‘' | '’') => Some(r#"write straight quotation marks: ""#),
                Some('\'') => Some(r#"write "…" in place of '…'"#),
                _ if matches!(kind, ParseErrorKind::MultipleRootJsonValues) => {
                    Some("the file goes on after its last bracket; delete the rest")
                }
                _ => None,
            };
            return text.error(at, message, hint.map(str::to_owned));
        }
    };
    let (line, column) = text.position(error.range().start);
    let message = format!(
        "not valid JSON: a `{missing}` is missing; the {what} that begins at {line}:{column} is not closed"
    );
    text.error(text.as_str().trim_end().len(), message, None)
}

/// Returns what is wrong with a closing bracket at this offset, and what to do about it: it closes nothing, or
/// something else than what is open. `None`: there is none, or nothing is wrong with it.
fn wrong_bracket(text: &SourceText, at: usize) -> Option<(String, String)> {
    let found = text.as_str()[at..].chars().next().filter(|found| matches!(found, '}' | ']'))?;
    let place = |offset: usize| {
        let (line, column) = text.position(offset);
        format!("{line}:{column}")
    };
    Some(match open_bracket(&text.as_str()[..at]) {
        None => (format!("this `{found}` closes nothing"), "delete it".to_owned()),
        Some((offset, '[')) if found == '}' => (
            format!("a `]` is missing; the list that begins at {} is not closed", place(offset)),
            "write `]` before this `}`".to_owned(),
        ),
        Some((offset, '{')) if found == ']' => (
            format!("a `}}` is missing; the object that begins at {} is not closed", place(offset)),
            "write `}` before this `]`".to_owned(),
        ),
        Some(_) => return None,
    })
}

/// Returns the last bracket in a text that is not closed, and its offset. Strings and comments do not count.
fn open_bracket(text: &str) -> Option<(usize, char)> {
    let (mut open, mut chars) = (Vec::new(), text.char_indices().peekable());
    while let Some((offset, c)) = chars.next() {
        match c {
            '"' => loop {
                match chars.next() {
                    None | Some((_, '"')) => break,
                    Some((_, '\\')) => drop(chars.next()),
                    Some(_) => {}
                }
            },
            '/' if text[offset..].starts_with("//") => while chars.next().is_some_and(|(_, c)| c != '\n') {},
            '/' if text[offset..].starts_with("/*") => {
                let end = text[offset..].find("*/").map_or(text.len(), |end| offset + end);
                while chars.next_if(|(at, _)| *at <= end).is_some() {}
            }
            '{' | '[' => open.push((offset, c)),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// Returns what is wrong with a file whose first line is one of YAML, and what to do about it.
fn yaml(text: &str) -> Option<(String, String)> {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let is_key = |key: &str| key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let is_yaml =
        first == "---" || first.split_once(':').is_some_and(|(key, _)| is_key(key) && !key.is_empty());
    let hint = r#"write {"mcpServers": {NAME: {"command": "…", "args": ["…"]}}}"#;
    is_yaml.then(|| ("it looks like YAML".to_owned(), hint.to_owned()))
}

/// Returns the error for servers, or a single one, that are not within `mcpServers`.
pub(super) fn unwrapped(root: &Object<'_>, text: &SourceText) -> Option<ConfigError> {
    const HINT: &str = r#"write {"mcpServers": {…}} around"#;
    if is_server(root) {
        let hint = format!(r#"{HINT} it, with a name: {{"mcpServers": {{NAME: {{…}}}}}}"#);
        return Some(text.error(root.start(), "the file is a server without a name", Some(hint)));
    }
    let names = root.properties.iter().map(|member| member.name.as_str());
    let names: Vec<_> = names.filter(|name| *name != "$schema").collect();
    let are_servers = names.iter().all(|name| root.get_object(name).is_some_and(is_server));
    (are_servers && !names.is_empty()).then(|| {
        let names = quoted_list(names);
        let message = format!("the servers {names} are not within `mcpServers`");
        text.error(root.start(), message, Some(format!("{HINT} them")))
    })
}

/// Returns whether an object is one server, as opposed to servers by name.
pub(super) fn is_server(object: &Object<'_>) -> bool {
    object.properties.iter().any(|member| {
        matches!(member.name.as_str(), "command" | "url" | "type") && member.value.as_object().is_none()
    })
}

/// Returns what is wrong with the name of a server, and what to do about it; `None` if nothing is. Only a disabled
/// server may have the reserved name.
pub fn name_error(name: &str, is_disabled: bool) -> Option<(String, Option<String>)> {
    if name.trim().is_empty() {
        return Some(("the server's name is empty".to_owned(), None));
    }
    let message = format!("the name `{OWN_GROUP}` is reserved for dynamic-mcp itself");
    (name == OWN_GROUP && !is_disabled).then(|| (message, Some("rename the server".to_owned())))
}

/// Returns a warning for each argument, variable and header that looks as if a shell expanded it.
pub(super) fn unexpanded(server: &Value<'_>, text: &SourceText, env: &Env) -> Vec<ConfigError> {
    let members = server.as_object().map_or(&[][..], |server| &server.properties);
    let mut warnings = Vec::new();
    for member in members {
        let name = member.name.as_str();
        match (name, &member.value) {
            ("args" | "command", Value::Array(list)) => {
                for (n, value) in list.elements.iter().enumerate() {
                    let found = value.as_string_lit().and_then(|value| unexpanded_part(&value.value, env));
                    warnings.extend(
                        found.map(|found| unexpanded_value(text, &format!("{name}[{n}]"), value, found)),
                    );
                }
            }
            ("env" | "environment" | "headers" | "http_headers", Value::Object(values)) => {
                for value in &values.properties {
                    let place = format!("{name}.{}", value.name.as_str());
                    let found =
                        value.value.as_string_lit().and_then(|value| variable_alone(&value.value, env));
                    warnings.extend(found.map(|found| unexpanded_value(text, &place, &value.value, found)));
                }
            }
            _ => {}
        }
    }
    warnings
}

/// Returns the warning for a value that is not expanded: what of it, and what to write instead.
fn unexpanded_value(
    text: &SourceText,
    place: &str,
    value: &Value<'_>,
    (what, instead): (String, String),
) -> ConfigError {
    let message = format!("`{place}`: `{what}` is not expanded, because no shell reads it");
    text.error(value.start(), message, Some(format!("write `{instead}`")))
}

/// Returns a warning for a `timeout` that is one number, or has a number of seconds that is meant as milliseconds.
pub(super) fn doubtful_timeout(server: &Value<'_>, text: &SourceText) -> Option<ConfigError> {
    let timeout = &server.as_object()?.get("timeout")?.value;
    if let Value::Object(limits) = timeout {
        return limits.properties.iter().find_map(|limit| {
            let Value::NumberLit(number) = &limit.value else { return None };
            let seconds: f64 =
                number.value.parse().ok().filter(|seconds| *seconds >= MIN_DOUBTFUL_SECONDS)?;
            let message = format!("`timeout.{}` is {seconds} seconds", limit.name.as_str());
            let hint = format!("if milliseconds are meant, write \"{}s\"", seconds / 1000.0);
            Some(text.error(limit.value.start(), message, Some(hint)))
        });
    }
    let Value::NumberLit(number) = timeout else { return None };
    let number: f64 = number.value.parse().ok().filter(|number| *number > 0.0)?;
    // Nobody waits for a call for twenty minutes on purpose, and no server answers within a second reliably.
    let seconds = if number >= 1000.0 { number / 1000.0 } else { number };
    let message = "`timeout` as one number has no effect: clients count it in seconds or in milliseconds";
    let hint = format!("write \"timeout\": {{\"tools\": \"{seconds}s\"}}");
    Some(text.error(timeout.start(), message, Some(hint)))
}

/// Returns a warning if `object`, a server or the settings, asks for a shared process on a system where there are none.
pub(super) fn share_without_effect(
    object: &Value<'_>,
    text: &SourceText,
    can_share: bool,
) -> Option<ConfigError> {
    let share = &object.as_object()?.get("share")?.value;
    let (message, hint) = match share.as_string_lit()?.value.as_ref() {
        "auto" => (
            "`share` has no value \"auto\" any more, so each instance starts its own server",
            r#"delete it, or write "directory" or "user" for a server without state between calls"#,
        ),
        "directory" | "user" if !can_share => (
            "`share` has no effect: servers are shared on Linux only, so each instance starts its own",
            r#"write "client", unless Linux uses this file too"#,
        ),
        _ => return None,
    };
    Some(text.error(share.start(), message, Some(hint.to_owned())))
}

/// Makes the error for a value that cannot be read.
pub(super) fn value_error(text: &SourceText, error: &ValueError) -> ConfigError {
    text.error(error.offset, &error.message, error.hint.clone())
}

/// Makes a warning for each unknown field of the values that were read.
pub(super) fn unknown_fields(text: &SourceText, reader: &ValueReader<'_>) -> Vec<ConfigError> {
    reader.unknown.borrow().iter().map(|field| unknown_field(text, field)).collect()
}

/// Makes the warning for an unknown field.
pub(super) fn unknown_field(text: &SourceText, field: &UnknownField) -> ConfigError {
    let hint = field.nearest.map(|nearest| format!("did you mean `{nearest}`?"));
    text.error(field.offset, format_args!("unknown field `{}`", field.name), hint)
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

/// Returns the variable that a value of `env` or `headers` ends with, as a word of its own, and what to write instead. A
/// variable that is not set is not named: it may be a part of a password.
fn variable_alone(text: &str, env: &Env) -> Option<(String, String)> {
    let word = text.rsplit(' ').next()?;
    let name = word.strip_prefix('$')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_uppercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let name = if env.get(name).is_some() { name } else { "NAME" };
    is_name.then(|| (format!("${name}"), format!("${{{name}}}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::json_text::parse_json;
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
        let retired = warning(r#"{"share": "auto"}"#, true).unwrap();
        assert!(retired.contains(r#"no value "auto" any more"#), "{retired}");
        for object in [r#"{"share": "client"}"#, r#"{"share": 1}"#, "{}"] {
            assert_eq!(warning(object, false), None, "{object}");
        }
    }
}
