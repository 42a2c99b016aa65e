//! Reads the types of `file` from the syntax tree of a parsed config, in one pass.
//!
//! serde's own JSON deserializers lack what this adds: every error has the position and the path of its value and never
//! repeats the value, variables in strings are expanded, the names of fields are looked up in the table of `fields`,
//! and unknown fields are collected. A member with an error in it counts as not given.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroUsize;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use serde::de::value::StringDeserializer;
use serde::de::{self, DeserializeOwned, IntoDeserializer};

use super::fields::{self, ConfigField};
use super::nearest::nearest;
use super::vars::{self, ExpandContext};

/// An error in a value.
#[derive(Debug)]
pub(super) struct ValueError {
    /// What is wrong, with the path.
    pub(super) message: String,
    /// What to do about it.
    pub(super) hint: Option<String>,
    /// The byte offset of the value in the text.
    pub(super) offset: usize,
    /// The member of the value that is read in which it is, as the file writes its name; `None` if it is in none.
    pub(super) member: Option<String>,
}

/// Returns what to write in place of a value of the wrong type. `step` leads to it.
fn example(message: &str, step: Option<&PathStep<'_>>) -> Option<String> {
    let expected = message.strip_prefix("expected ")?;
    let field = match step {
        Some(PathStep::Member(name)) => *name,
        Some(PathStep::Element(_)) | None => "",
    };
    match (expected, field) {
        (_, "args") if expected.starts_with("a list") => {
            Some(r#"write each argument as a string of its own: "args": ["-y", "package"]"#.to_owned())
        }
        (_, "env" | "environment") if expected.starts_with("an object") => {
            Some(format!(r#"write "{field}": {{"NAME": "value"}}"#))
        }
        (_, "headers" | "http_headers") if expected.starts_with("an object") => {
            Some(format!(r#"write "{field}": {{"Authorization": "Bearer …"}}"#))
        }
        ("a list, found a string", field) if !field.is_empty() => Some(format!("write {field:?}: [\"…\"]")),
        ("a string, found a number" | "a string, found true or false", _) => {
            Some("put the value into quotation marks".to_owned())
        }
        _ => None,
    }
}

/// Returns the name of a value's JSON type, with its article.
pub(super) fn json_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "true or false",
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::NullKeyword(_) => "null",
    }
}

/// A field that is neither known nor ignored.
#[derive(Debug)]
pub(super) struct UnknownField {
    /// The name as the file writes it.
    pub(super) name: String,
    /// The byte offset of the name in the text.
    pub(super) offset: usize,
    /// The known name that is probably meant.
    pub(super) nearest: Option<&'static str>,
}

impl UnknownField {
    /// Describes a member of an object that has these fields.
    pub(super) fn new(member: &ObjectProp<'_>, fields: &'static [ConfigField]) -> Self {
        let name = member.name.as_str();
        let nearest = nearest(name, fields::all_names(fields));
        Self { name: name.to_owned(), offset: member.name.start(), nearest }
    }
}

/// A type of `file`.
pub(super) trait ReadValue: Sized {
    /// Reads the value at a cursor. `None` if it has errors, which the reader has then.
    fn read(at: &ValueCursor<'_>) -> Option<Self>;
}

/// Collects what is wrong with values of one file.
pub(super) struct ValueReader<'a> {
    context: ExpandContext<'a>,
    /// The errors of the values read so far.
    pub(super) errors: RefCell<Vec<ValueError>>,
    /// The unknown fields of the values read so far.
    pub(super) unknown: RefCell<Vec<UnknownField>>,
    /// The strings read so far that may name a secret.
    pub(super) secrets: RefCell<Vec<SecretMention>>,
}

/// A string that may name a secret.
pub(super) struct SecretMention {
    /// The steps to it.
    pub(super) path: Vec<String>,
    /// The string as the file writes it.
    pub(super) text: String,
    /// The byte offset of the string in the text of the file.
    pub(super) offset: usize,
}

/// Returns whether a text may name a value that is fetched. Nothing else is expanded twice, because that reads the files
/// of `{file:…}` a second time.
fn may_name_secret(text: &str) -> bool {
    ["{keyring:", "{command:"].iter().any(|opening| text.contains(opening))
}

impl<'a> ValueReader<'a> {
    /// Makes a reader that expands variables in this context.
    pub(super) fn new(context: ExpandContext<'a>) -> Self {
        Self { context, errors: RefCell::default(), unknown: RefCell::default(), secrets: RefCell::default() }
    }

    /// Returns the cursor at a value that is to be read.
    pub(super) fn at<'c>(&'c self, value: &'c Value<'c>) -> ValueCursor<'c> {
        ValueCursor { value, reader: self, parent: None }
    }
}

/// A value, and its place in the value that is read.
pub(super) struct ValueCursor<'c> {
    /// The value.
    pub(super) value: &'c Value<'c>,
    reader: &'c ValueReader<'c>,
    /// The object or the list that has it, and the step from there.
    parent: Option<(&'c Self, PathStep<'c>)>,
}

/// A step of a path.
enum PathStep<'c> {
    Member(&'c str),
    Element(usize),
}

impl ValueCursor<'_> {
    /// Notes an error of the value.
    pub(super) fn fail<T>(&self, message: impl Display) -> Option<T> {
        self.fail_at(self.value.start(), message, None)
    }

    /// Notes that the value has another type than the expected one.
    pub(super) fn wrong_type<T>(&self, expected: &str) -> Option<T> {
        self.fail(format_args!("expected {expected}, found {}", json_type(self.value)))
    }

    /// Notes an error in the value, at this offset.
    pub(super) fn fail_at<T>(&self, offset: usize, message: impl Display, hint: Option<String>) -> Option<T> {
        self.fail_in(None, offset, message, hint)
    }

    /// Notes an error in the value that is about a member of it.
    fn fail_in<T>(
        &self,
        member: Option<&str>,
        offset: usize,
        message: impl Display,
        hint: Option<String>,
    ) -> Option<T> {
        let message = message.to_string();
        let hint = hint.or_else(|| example(&message, self.parent.as_ref().map(|(_, step)| step)));
        let steps = self.steps();
        let message = match path_text(&steps).as_str() {
            "" => message,
            path => format!("`{path}`: {message}"),
        };
        let member = steps.into_iter().next().or_else(|| member.map(str::to_owned));
        self.reader.errors.borrow_mut().push(ValueError { message, hint, offset, member });
        None
    }

    /// Returns the steps to the value: names of members as the file writes them, and places in lists, such as `[1]`.
    fn steps(&self) -> Vec<String> {
        let Some((parent, step)) = &self.parent else { return Vec::new() };
        let mut steps = parent.steps();
        steps.push(match step {
            PathStep::Member(name) => (*name).to_owned(),
            PathStep::Element(index) => format!("[{index}]"),
        });
        steps
    }

    /// Reads the members of an object that are among these fields, each with `read`, which gets the field's name.
    /// Returns `None` if there are errors in the object. Members without errors are read in any case.
    pub(super) fn read_members(
        &self,
        fields: &'static [ConfigField],
        mut read: impl FnMut(&'static str, &ValueCursor<'_>) -> Option<()>,
    ) -> Option<()> {
        let Value::Object(object) = self.value else { return self.wrong_type("an object") };
        let (mut seen, mut all) = (Vec::new(), Some(()));
        for member in &object.properties {
            let name = member.name.as_str();
            match fields::find(fields, name) {
                Some(field) if field.ignores(&member.value) => {
                    tracing::debug!(field = name, "ignored a field in the form of another client");
                }
                Some(field) if seen.contains(&field.name) => {
                    let hint = "other spellings of a name count as the same field".to_owned();
                    let message = format_args!("`{}` is given twice", field.name);
                    all = self.fail_in(Some(name), self.value.start(), message, Some(hint));
                }
                Some(field) => {
                    seen.push(field.name);
                    all = read(field.name, &self.member(member)).and(all);
                }
                None if fields::is_ignored(name) => {
                    tracing::debug!(field = name, "ignored a field of another client");
                }
                None => self.reader.unknown.borrow_mut().push(UnknownField::new(member, fields)),
            }
        }
        all
    }

    fn member<'c>(&'c self, member: &'c ObjectProp<'c>) -> ValueCursor<'c> {
        let step = PathStep::Member(member.name.as_str());
        ValueCursor { value: &member.value, reader: self.reader, parent: Some((self, step)) }
    }

    fn integer<T>(&self, expected: &str, convert: impl FnOnce(i128) -> Option<T>) -> Option<T> {
        let Value::NumberLit(number) = self.value else { return self.wrong_type(expected) };
        match digits(number.value).parse().map(convert) {
            Ok(Some(number)) => Some(number),
            Ok(None) => self.fail(format_args!("out of range: expected {expected}")),
            Err(_) => {
                self.float(number.value)?;
                self.fail(format_args!("expected {expected}, found a number with a fraction or an exponent"))
            }
        }
    }

    /// Reads a number that need not be whole.
    pub(super) fn float(&self, number: &str) -> Option<f64> {
        digits(number).parse().ok().or_else(|| self.fail("not a number"))
    }

    /// Reads a string as one of several words.
    pub(super) fn word<T: DeserializeOwned>(&self) -> Option<T> {
        let text: StringDeserializer<WordError> = String::read(self)?.into_deserializer();
        T::deserialize(text).or_else(|WordError(error)| self.fail(error).ok_or(())).ok()
    }

    /// Reads a string as what is made of it.
    pub(super) fn parse_string<T: TryFrom<String, Error: Display>>(&self) -> Option<T> {
        T::try_from(String::read(self)?).map_or_else(|error| self.fail(error), Some)
    }
}

/// Returns a path as it stands in texts, such as `args[1]`.
pub(super) fn path_text(steps: &[String]) -> String {
    let text = |step: &String| if step.starts_with('[') { step.clone() } else { format!(".{step}") };
    let path: String = steps.iter().map(text).collect();
    path.trim_start_matches('.').to_owned()
}

/// TOML allows underscores between digits.
fn digits(number: &str) -> String {
    number.replace('_', "")
}

/// A string is none of the words of its type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WordError(String);

impl de::Error for WordError {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<String> = expected.iter().map(|variant| format!("\"{variant}\"")).collect();
        Self(format!("expected {}", expected.join(" or ")))
    }
}

impl<T: ReadValue> ReadValue for Option<T> {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        match at.value {
            Value::NullKeyword(_) => Some(None),
            _ => T::read(at).map(Some),
        }
    }
}

impl<T: ReadValue> ReadValue for Vec<T> {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let Value::Array(list) = at.value else { return at.wrong_type("a list") };
        let element = |(index, value)| {
            T::read(&ValueCursor { value, reader: at.reader, parent: Some((at, PathStep::Element(index))) })
        };
        // All of them are read, so that all errors are found.
        let elements: Vec<Option<T>> = list.elements.iter().enumerate().map(element).collect();
        elements.into_iter().collect()
    }
}

impl<T: ReadValue> ReadValue for BTreeMap<String, T> {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let Value::Object(object) = at.value else { return at.wrong_type("an object") };
        let member = |member: &ObjectProp<'_>| (member.name.as_str().to_owned(), T::read(&at.member(member)));
        let members: Vec<(String, Option<T>)> = object.properties.iter().map(member).collect();
        members.into_iter().map(|(name, value)| Some((name, value?))).collect()
    }
}

impl ReadValue for String {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let Value::StringLit(text) = at.value else { return at.wrong_type("a string") };
        if may_name_secret(&text.value) {
            let mention =
                SecretMention { path: at.steps(), text: text.value.to_string(), offset: at.value.start() };
            at.reader.secrets.borrow_mut().push(mention);
        }
        let expanded = vars::expand(&text.value, at.reader.context);
        expanded.map_or_else(|error| at.fail_at(at.value.start(), &error, Some(error.hint())), Some)
    }
}

impl ReadValue for bool {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        at.value.as_boolean_lit().map(|bool| bool.value).or_else(|| at.wrong_type("true or false"))
    }
}

impl ReadValue for usize {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        at.integer("a whole number", |number| number.try_into().ok())
    }
}

impl ReadValue for NonZeroUsize {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        at.integer("a whole number above 0", |number| Self::new(number.try_into().ok()?))
    }
}

/// A port.
impl ReadValue for u16 {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let port = |number: i128| number.try_into().ok().filter(|port| *port > 0);
        at.integer("a whole number from 1 to 65535", port)
    }
}

/// Has values of these types read by a function of the cursor.
macro_rules! read_with {
    ($read:ident: $($type:ty),*) => {
        $(impl $crate::value_reader::ReadValue for $type {
            fn read(at: &$crate::value_reader::ValueCursor<'_>) -> Option<Self> {
                at.$read()
            }
        })*
    };
}
pub(super) use read_with;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::env::Env;
    use crate::file::ServerEntry;
    use crate::referenced::ReferencedFiles;

    /// Reads an entry from JSON. Returns it, or the message and the offset of the first error; and its unknown fields.
    fn read_entry(text: &str) -> (Result<ServerEntry, (String, usize)>, Vec<UnknownField>) {
        let env = Env::new([("A", "one")], "/");
        let files = ReferencedFiles::default();
        let reader = ValueReader::new(ExpandContext {
            env: &env,
            dir: Path::new("/"),
            files: &files,
            is_project: false,
        });
        let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
        let entry = ServerEntry::read(&reader.at(&parsed.value.unwrap()));
        let error = reader.errors.into_inner().into_iter().next();
        (
            entry.ok_or_else(|| error.map(|error| (error.message, error.offset)).unwrap()),
            reader.unknown.into_inner(),
        )
    }

    fn read_error(text: &str) -> (String, usize) {
        read_entry(text).0.err().unwrap_or_else(|| panic!("{text} is accepted"))
    }

    #[test]
    fn variables_are_expanded_in_every_string() {
        let text = r#"{"description": "${A}", "args": ["{env:A}"], "env": {"${A}": "$$"}, "oauth": {"client_id": "${A}"}}"#;
        let entry = read_entry(text).0.unwrap();
        assert_eq!(entry.description.as_deref(), Some("one"));
        assert_eq!(entry.args.unwrap(), ["one"]);
        assert_eq!(entry.env.unwrap()["${A}"], "$");
        assert_eq!(entry.oauth.unwrap().client_id.as_deref(), Some("one"));
    }

    #[test]
    fn null_is_the_same_as_no_field() {
        let entry = read_entry(r#"{"args": null, "oauth": {"scopes": null}}"#).0.unwrap();
        assert!(entry.args.is_none() && entry.oauth.unwrap().scopes.is_none());
    }

    #[test]
    fn an_error_has_a_path_and_a_position_and_no_value() {
        for (text, message) in [
            (r#"{"cwd": 4711}"#, "`cwd`: expected a string, found a number"),
            (r#"{"args": ["a", true]}"#, "`args[1]`: expected a string, found true or false"),
            (r#"{"env": {"K": []}}"#, "`env.K`: expected a string, found a list"),
            (r#"{"oauth": {"clientId": []}}"#, "`oauth.clientId`: expected a string, found a list"),
            (r#"{"args": "secret"}"#, "`args`: expected a list, found a string"),
            (
                r#"{"oauth": {"redirect_port": 70000}}"#,
                "`oauth.redirect_port`: out of range: expected a whole number from 1 to 65535",
            ),
            (r#"{"tools": []}"#, "`tools`: expected an object, found a list"),
            (r#"{"cwd": "${B}"}"#, "`cwd`: the variable `B` is not defined"),
            (r#"[]"#, "expected an object, found a list"),
        ] {
            assert_eq!(read_error(text).0, message, "{text}");
        }
        assert_eq!(read_error(r#"{"args": ["a", 5]}"#).1, 15);
    }

    #[test]
    fn all_errors_are_found_in_one_pass_and_the_other_members_count() {
        let text = r#"{"command": "x", "args": [1, "b", 2], "env": {"A": "a", "B": {}}, "cwd": "/c"}"#;
        let (env, files) = (Env::new([("", ""); 0], "/"), ReferencedFiles::default());
        let context = ExpandContext { env: &env, dir: Path::new("/"), files: &files, is_project: false };
        let reader = ValueReader::new(context);
        let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
        let value = parsed.value.unwrap();
        let entry = ServerEntry::read_partly(&reader.at(&value)).0;
        assert!(entry.command.is_some() && entry.args.is_none() && entry.env.is_none());
        assert_eq!(entry.cwd.as_deref(), Some("/c"));
        let errors = reader.errors.borrow();
        let errors: Vec<_> = errors.iter().map(|error| (&*error.message, error.member.as_deref())).collect();
        let expected = [
            ("`args[0]`: expected a string, found a number", Some("args")),
            ("`args[2]`: expected a string, found a number", Some("args")),
            ("`env.B`: expected a string, found an object", Some("env")),
        ];
        assert_eq!(errors, expected);
    }

    #[test]
    fn a_field_in_two_spellings_is_an_error() {
        assert_eq!(read_error(r#"{"env_file": "1", "envFile": "2"}"#).0, "`env_file` is given twice");
    }

    #[test]
    fn values_in_the_form_of_other_clients_are_ignored() {
        let (entry, unknown) = read_entry(r#"{"timeout": 60000, "oauth": true}"#);
        let entry = entry.unwrap();
        assert!(entry.timeout.is_none() && entry.oauth.is_none() && unknown.is_empty());
    }

    #[test]
    fn unknown_fields_are_collected_with_the_nearest_name() {
        let (entry, unknown) = read_entry(r#"{"comand": "${B}", "tools": {"zzz": 1, "alwaysAllow": []}}"#);
        assert!(entry.is_ok());
        let found: Vec<_> =
            unknown.iter().map(|field| (field.name.as_str(), field.offset, field.nearest)).collect();
        assert_eq!(found, [("comand", 1, Some("command")), ("zzz", 29, None)]);
    }
}
