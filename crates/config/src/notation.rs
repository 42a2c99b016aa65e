//! The notation of variables in the strings of a config: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `{env:VAR}`,
//! `{file:PATH}`, `{keyring:NAME}` and `{command:…}`.
//!
//! [`parts`] reads a string and [`write`](fn@write) writes one. Text in which one of these stands is escaped: `$${` stands for
//! `${`, `$$` for `$`, and doubled braces before `env:`, `file:`, `keyring:` and `command:` for single ones, so that
//! `{{file:` stands for `{file:`. `${:-text}` stands for `text`.

use std::borrow::Cow;

/// What may follow a brace, so that it begins a variable.
const KINDS: [&str; 4] = ["env:", "file:", "keyring:", "command:"];

/// A part of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StringPart<'t> {
    /// Text that stands for itself, without escapes.
    Text(Cow<'t, str>),
    /// A variable of the environment.
    Env {
        /// Its name.
        name: Cow<'t, str>,
        /// What counts if it is unset or empty.
        default: Option<Cow<'t, str>>,
    },
    /// The path of a `{file:…}`.
    File(Cow<'t, str>),
    /// What stands between the braces of `{keyring:…}` or `{command:…}`.
    Secret(Cow<'t, str>),
}

/// A `${` is not closed, or contains no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads a string. A `$` that begins no variable stands for itself, because passwords contain them.
///
/// # Errors
///
/// [`Malformed`] if a `${` is not closed or contains no name.
pub fn parts(text: &str) -> Result<Vec<StringPart<'_>>, Malformed> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{']) {
        add_text(&mut parts, &rest[..at]);
        let (part, after) = match rest.as_bytes()[at] {
            b'$' => dollar(&rest[at..])?,
            _ => braces(&rest[at..])?,
        };
        push(&mut parts, part);
        rest = after;
    }
    add_text(&mut parts, rest);
    Ok(parts)
}

/// Writes a string that has these parts. Only text is escaped: a name must be one that [`is_env_name`] accepts, and
/// what else stands between braces must have no `}`.
pub fn write<'p, 't: 'p>(parts: impl IntoIterator<Item = &'p StringPart<'t>>) -> String {
    let (mut out, mut text) = (String::new(), String::new());
    for part in parts {
        let variable = match part {
            StringPart::Text(more) => {
                text += more;
                continue;
            }
            StringPart::Env { name, default: None } => format!("${{{name}}}"),
            StringPart::Env { name, default: Some(default) } => format!("${{{name}:-{default}}}"),
            StringPart::File(path) => format!("{{file:{path}}}"),
            StringPart::Secret(body) => format!("{{{body}}}"),
        };
        escape_before(&mut out, &text, &variable);
        text.clear();
        out += &variable;
    }
    escape_before(&mut out, &text, "");
    out
}

/// Writes a string that stands for exactly this text, with everything escaped that would be a variable.
pub fn escape(text: &str) -> String {
    write(&[StringPart::Text(text.into())])
}

/// Returns the text that a string stands for; `None` if it has variables or is malformed.
pub fn literal(text: &str) -> Option<String> {
    match parts(text).ok()?.as_mut_slice() {
        [] => Some(String::new()),
        [StringPart::Text(text)] => Some(std::mem::take(text).into_owned()),
        _ => None,
    }
}

/// Returns the string as [`write`](fn@write) writes it, so that strings of one meaning are equal. A malformed one stays
/// as it is.
pub fn canonical(text: &str) -> String {
    parts(text).map_or_else(|Malformed| text.to_owned(), |parts| write(&parts))
}

/// Returns whether a variable of this name can be written.
pub fn is_env_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '(' | ')');
    !name.is_empty() && name.chars().all(is_allowed) && !name.contains(":-") && !name.starts_with("env:")
}

/// Adds a part. Text joins the text that stands before it.
pub fn push<'t>(parts: &mut Vec<StringPart<'t>>, part: StringPart<'t>) {
    match part {
        StringPart::Text(text) => add_text(parts, &text),
        variable => parts.push(variable),
    }
}

fn add_text<'t>(parts: &mut Vec<StringPart<'t>>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(StringPart::Text(before)) => before.to_mut().push_str(text),
        _ => parts.push(StringPart::Text(text.to_owned().into())),
    }
}

/// Reads what begins with a dollar sign. Returns it with what follows.
///
/// # Errors
///
/// [`Malformed`] if a `${` is not closed or contains no name.
fn dollar(text: &str) -> Result<(StringPart<'_>, &str), Malformed> {
    if let Some(after) = text.strip_prefix("$${") {
        return Ok((StringPart::Text("${".into()), after));
    }
    if let Some(after) = text.strip_prefix("$$") {
        return Ok((StringPart::Text("$".into()), after));
    }
    match text.strip_prefix("${") {
        Some(after) => {
            let (body, after) = after.split_once('}').ok_or(Malformed)?;
            Ok((env(body)?, after))
        }
        None => Ok((StringPart::Text("$".into()), &text[1..])),
    }
}

/// Reads what begins with braces. Returns it with what follows.
///
/// # Errors
///
/// [`Malformed`] if an `{env:…}` contains no name. Braces that are not closed are text.
fn braces(text: &str) -> Result<(StringPart<'_>, &str), Malformed> {
    let count = leading_braces(text);
    let (run, after) = text.split_at(count);
    let Some(kind) = KINDS.iter().find(|kind| after.starts_with(**kind)) else {
        return Ok((StringPart::Text(run.into()), after));
    };
    if count > 1 {
        // Half of them stand for themselves. Of an odd number, the last one is left for the variable.
        return Ok((StringPart::Text(run[..count / 2].into()), &text[count / 2 * 2..]));
    }
    let Some((body, after_variable)) = after.split_once('}') else {
        return Ok((StringPart::Text(run.into()), after));
    };
    let part = match *kind {
        "env:" => env(body)?,
        "file:" => StringPart::File(body[kind.len()..].into()),
        _ => StringPart::Secret(body.into()),
    };
    Ok((part, after_variable))
}

/// Reads `NAME`, `env:NAME`, or either with `:-default`.
///
/// # Errors
///
/// [`Malformed`] if it is no name.
fn env(body: &str) -> Result<StringPart<'_>, Malformed> {
    let (name, default) = match body.split_once(":-") {
        Some(("", default)) => return Ok(StringPart::Text(default.into())),
        Some((name, default)) => (name, Some(default.into())),
        None => (body, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    match is_env_name(name) {
        true => Ok(StringPart::Env { name: name.into(), default }),
        false => Err(Malformed),
    }
}

/// Writes text that stands before `next`, a variable, or nothing at the end.
fn escape_before(out: &mut String, text: &str, next: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('$') {
            let is_last = after.is_empty();
            let following = if is_last { next } else { after };
            match following.as_bytes().first() {
                Some(b'{') if is_last => out.push_str("${:-$}"),
                Some(b'{') => out.push_str("$${"),
                Some(b'$') => out.push_str("$$"),
                _ => out.push('$'),
            }
            rest = after.strip_prefix('{').unwrap_or(after);
            continue;
        }
        let (run, after) = rest.split_at(leading_braces(rest));
        let is_doubled = match after.is_empty() {
            true => next.starts_with('{'),
            false => KINDS.iter().any(|kind| after.starts_with(kind)),
        };
        (0..if is_doubled { 2 } else { 1 }).for_each(|_| out.push_str(run));
        rest = after;
    }
    out.push_str(rest);
}

fn leading_braces(text: &str) -> usize {
    text.len() - text.trim_start_matches('{').len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> StringPart<'_> {
        StringPart::Text(text.into())
    }

    fn var(name: &str) -> StringPart<'_> {
        StringPart::Env { name: name.into(), default: None }
    }

    #[test]
    fn every_form_can_be_written_literally() {
        for (written, stands_for) in [
            ("$${VAR}", "${VAR}"),
            ("$${VAR:-x}", "${VAR:-x}"),
            ("$${env:VAR}", "${env:VAR}"),
            ("{{env:VAR}", "{env:VAR}"),
            ("{{file:~/x}", "{file:~/x}"),
            ("{{keyring:x}", "{keyring:x}"),
            ("{{command:rm x}", "{command:rm x}"),
            ("{{{{file:x}", "{{file:x}"),
            ("$${{{file:x}", "${{file:x}"),
            ("$$", "$"),
            ("$$$$", "$$"),
            ("a$b {c} {{d}} $", "a$b {c} {{d}} $"),
            ("${:-}", ""),
        ] {
            assert_eq!(literal(written).as_deref(), Some(stands_for), "{written}");
        }
    }

    #[test]
    fn what_stands_before_a_variable_stays_apart_from_it() {
        let file = || StringPart::File("f".into());
        for (written, expected) in [
            ("$$${A}", vec![text("$"), var("A")]),
            ("${:-$}{file:f}", vec![text("$"), file()]),
            ("{{{file:f}", vec![text("{"), file()]),
            ("{${A}", vec![text("{"), var("A")]),
            ("x{file:f}{file:f}", vec![text("x"), file(), file()]),
            ("{{{{{keyring:k}}", vec![text("{{"), StringPart::Secret("keyring:k".into()), text("}")]),
        ] {
            assert_eq!(parts(written).as_ref(), Ok(&expected), "{written}");
            assert_eq!(write(&expected), written);
        }
    }

    #[test]
    fn an_open_variable_is_an_error_and_an_open_brace_is_text() {
        assert_eq!(parts("${A"), Err(Malformed));
        assert_eq!(parts("${}"), Err(Malformed));
        assert_eq!(parts("{env:a b}"), Err(Malformed));
        assert_eq!(literal("{file:x").as_deref(), Some("{file:x"));
        assert_eq!(canonical("${A"), "${A");
    }

    /// Text of the characters and words that mean something.
    const PIECES: &str = r"([$]|[{]|[}]|:-|env:|file:|keyring:|command:|A|/|é){0,14}";

    fn any_part() -> impl Strategy<Value = StringPart<'static>> {
        prop_oneof![
            PIECES.prop_map(|text| StringPart::Text(text.into())),
            Just(var("A")),
            Just(StringPart::Env { name: "B".into(), default: Some("$${file:x".into()) }),
            Just(StringPart::File("~/f".into())),
            Just(StringPart::Secret("command:op read".into())),
        ]
    }

    /// The parts with texts that stand together as one.
    fn joined(all: &[StringPart<'static>]) -> Vec<StringPart<'static>> {
        all.iter().fold(Vec::new(), |mut joined, part| {
            push(&mut joined, part.clone());
            joined
        })
    }

    proptest! {
        #[test]
        fn escaped_text_stands_for_itself(text in PIECES) {
            prop_assert_eq!(literal(&escape(&text)), Some(text));
        }

        #[test]
        fn what_is_written_is_read_again(parts in proptest::collection::vec(any_part(), 0..6)) {
            let written = write(&parts);
            prop_assert_eq!(super::parts(&written), Ok(joined(&parts)), "{}", written);
        }

        #[test]
        fn strings_of_one_meaning_are_written_in_one_way(text in PIECES) {
            let canonical = canonical(&text);
            prop_assert_eq!(super::canonical(&canonical), &canonical[..]);
            prop_assert_eq!(parts(&canonical), parts(&text));
        }
    }
}
