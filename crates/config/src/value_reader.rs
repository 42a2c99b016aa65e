//! Reads the types of `file` from the syntax tree of a parsed config.
//!
//! serde's own JSON deserializers lack what this adds: an error has the position and the path of its value and never
//! repeats the value, variables in strings are expanded, the names of fields are looked up in the table of `fields`,
//! and unknown fields are collected.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::num::NonZeroUsize;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use serde::de::{self, DeserializeOwned, IntoDeserializer};

use super::fields::{self, ConfigField};
use super::nearest::nearest;
use super::vars::{self, ExpandContext};

/// An error in a value.
#[derive(Debug)]
pub(super) struct ValueError {
    /// What is wrong, without the path.
    message: String,
    /// What to do about it.
    pub(super) hint: Option<String>,
    /// The path of the value from the innermost step outwards, such as `[1]`, `.args`.
    path: Vec<String>,
    /// The byte offset of the value in the text; `None` until the reader of the value returns.
    pub(super) offset: Option<usize>,
}

impl ValueError {
    /// Creates an error without a hint. The reader of the value adds the position and the path.
    pub(super) fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, path: Vec::new(), offset: None }
    }

    /// Creates the error of a value that has another type than the expected one.
    pub(super) fn wrong_type(expected: &str, found: &Value<'_>) -> Self {
        Self::new(format_args!("expected {expected}, found {}", json_type(found)))
    }

    /// Creates the error of a field that an object has twice.
    fn duplicate(field: &str) -> Self {
        Self {
            hint: Some("other spellings of a name count as the same field".to_owned()),
            ..Self::new(format_args!("`{field}` is given twice"))
        }
    }

    /// Sets the position, unless a value inside this one has set it.
    pub(super) fn at(mut self, offset: usize) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// Adds what to write instead, if the value has the wrong type.
    fn with_example(mut self) -> Self {
        let Some(expected) = self.message.strip_prefix("expected ").filter(|_| self.hint.is_none()) else {
            return self;
        };
        let field = self.path.first().and_then(|step| step.strip_prefix('.'));
        self.hint = match (expected, field) {
            (_, Some("args")) if expected.starts_with("a list") => {
                Some(r#"write each argument as a string of its own: "args": ["-y", "package"]"#.to_owned())
            }
            (_, Some(field @ ("env" | "environment"))) if expected.starts_with("an object") => {
                Some(format!(r#"write "{field}": {{"NAME": "value"}}"#))
            }
            (_, Some(field @ ("headers" | "http_headers"))) if expected.starts_with("an object") => {
                Some(format!(r#"write "{field}": {{"Authorization": "Bearer …"}}"#))
            }
            ("a list, found a string", Some(field)) => Some(format!("write {field:?}: [\"…\"]")),
            ("a string, found a number" | "a string, found true or false", _) => {
                Some("put the value into quotation marks".to_owned())
            }
            _ => None,
        };
        self
    }

    /// Sets the position and the path of the value of a member, for an error in it.
    pub(super) fn of_member(self, member: &ObjectProp<'_>) -> Self {
        self.at(member.value.start()).inside(format!(".{}", member.name.as_str()))
    }

    /// Adds a step to the outside of the path.
    fn inside(mut self, step: String) -> Self {
        self.path.push(step);
        self
    }
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        match path.trim_start_matches('.') {
            "" => f.write_str(&self.message),
            path => write!(f, "`{path}`: {}", self.message),
        }
    }
}

impl std::error::Error for ValueError {}

/// The errors of the words that serde reads.
impl de::Error for ValueError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message)
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<String> = expected.iter().map(|variant| format!("\"{variant}\"")).collect();
        Self::new(format_args!("expected {}", expected.join(" or ")))
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
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// Fails if the value is not of this type, or if a variable in it cannot be expanded.
    fn read(value: &Value<'_>, reader: &ValueReader<'_>) -> Result<Self, ValueError>;
}

/// Reads values of one file.
pub(super) struct ValueReader<'a> {
    context: ExpandContext<'a>,
    /// The unknown fields of the values read so far.
    unknown: RefCell<Vec<UnknownField>>,
}

impl<'a> ValueReader<'a> {
    /// Makes a reader that expands variables in this context.
    pub(super) fn new(context: ExpandContext<'a>) -> Self {
        Self { context, unknown: RefCell::default() }
    }

    /// Reads a value as a `T`.
    ///
    /// # Errors
    ///
    /// Returns the first error in the value, with its position and path.
    pub(super) fn read<T: ReadValue>(&self, value: &Value<'_>) -> Result<T, ValueError> {
        T::read(value, self).map_err(|error| error.at(value.start()).with_example())
    }

    /// Returns the unknown fields of all values that were read.
    pub(super) fn into_unknown(self) -> Vec<UnknownField> {
        self.unknown.into_inner()
    }

    /// Reads the members of an object that are among these fields, each with `read`, which gets the field's name.
    ///
    /// # Errors
    ///
    /// Fails if the value is no object, if it has a field twice, in any spelling, or with the first error of `read`.
    pub(super) fn read_members(
        &self,
        value: &Value<'_>,
        fields: &'static [ConfigField],
        mut read: impl FnMut(&'static str, &Value<'_>) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        let Value::Object(object) = value else { return Err(ValueError::wrong_type("an object", value)) };
        let mut seen = Vec::new();
        for member in &object.properties {
            let name = member.name.as_str();
            match fields::find(fields, name) {
                Some(field) if field.ignores(&member.value) => {
                    tracing::debug!(field = name, "ignored a field in the form of another client");
                }
                Some(field) if seen.contains(&field.name) => return Err(ValueError::duplicate(field.name)),
                Some(field) => {
                    seen.push(field.name);
                    read(field.name, &member.value).map_err(|error| error.of_member(member))?;
                }
                None if fields::is_ignored(name) => {
                    tracing::debug!(field = name, "ignored a field of another client");
                }
                None => self.unknown.borrow_mut().push(UnknownField::new(member, fields)),
            }
        }
        Ok(())
    }
}

impl<T: ReadValue> ReadValue for Option<T> {
    fn read(value: &Value<'_>, reader: &ValueReader<'_>) -> Result<Self, ValueError> {
        match value {
            Value::NullKeyword(_) => Ok(None),
            _ => T::read(value, reader).map(Some),
        }
    }
}

impl<T: ReadValue> ReadValue for Vec<T> {
    fn read(value: &Value<'_>, reader: &ValueReader<'_>) -> Result<Self, ValueError> {
        let Value::Array(list) = value else { return Err(ValueError::wrong_type("a list", value)) };
        let element = |(index, value): (usize, &Value<'_>)| {
            T::read(value, reader).map_err(|error| error.at(value.start()).inside(format!("[{index}]")))
        };
        list.elements.iter().enumerate().map(element).collect()
    }
}

impl<T: ReadValue> ReadValue for BTreeMap<String, T> {
    fn read(value: &Value<'_>, reader: &ValueReader<'_>) -> Result<Self, ValueError> {
        let Value::Object(object) = value else { return Err(ValueError::wrong_type("an object", value)) };
        let member = |member: &ObjectProp<'_>| {
            let value = T::read(&member.value, reader).map_err(|error| error.of_member(member))?;
            Ok((member.name.as_str().to_owned(), value))
        };
        object.properties.iter().map(member).collect()
    }
}

impl ReadValue for String {
    fn read(value: &Value<'_>, reader: &ValueReader<'_>) -> Result<Self, ValueError> {
        let Value::StringLit(text) = value else { return Err(ValueError::wrong_type("a string", value)) };
        vars::expand(&text.value, reader.context)
            .map_err(|error| ValueError { hint: Some(error.hint()), ..ValueError::new(error) })
    }
}

impl ReadValue for bool {
    fn read(value: &Value<'_>, _: &ValueReader<'_>) -> Result<Self, ValueError> {
        let bool = value.as_boolean_lit().map(|bool| bool.value);
        bool.ok_or_else(|| ValueError::wrong_type("true or false", value))
    }
}

impl ReadValue for usize {
    fn read(value: &Value<'_>, _: &ValueReader<'_>) -> Result<Self, ValueError> {
        integer(value, "a whole number", |number| number.try_into().ok())
    }
}

impl ReadValue for NonZeroUsize {
    fn read(value: &Value<'_>, _: &ValueReader<'_>) -> Result<Self, ValueError> {
        integer(value, "a whole number above 0", |number| Self::new(number.try_into().ok()?))
    }
}

/// A port.
impl ReadValue for u16 {
    fn read(value: &Value<'_>, _: &ValueReader<'_>) -> Result<Self, ValueError> {
        let port = |number: i128| number.try_into().ok().filter(|port| *port > 0);
        integer(value, "a whole number from 1 to 65535", port)
    }
}

fn integer<T>(
    value: &Value<'_>,
    expected: &str,
    convert: impl FnOnce(i128) -> Option<T>,
) -> Result<T, ValueError> {
    let Value::NumberLit(number) = value else { return Err(ValueError::wrong_type(expected, value)) };
    match digits(number.value).parse() {
        Ok(number) => {
            convert(number).ok_or_else(|| ValueError::new(format_args!("out of range: expected {expected}")))
        }
        Err(_) => {
            float(number.value)?;
            let found = "a number with a fraction or an exponent";
            Err(ValueError::new(format_args!("expected {expected}, found {found}")))
        }
    }
}

/// Reads a number that need not be whole.
///
/// # Errors
///
/// Fails if it is written as JSON has no numbers.
pub(super) fn float(number: &str) -> Result<f64, ValueError> {
    digits(number).parse().map_err(|_| ValueError::new("not a number"))
}

/// TOML allows underscores between digits.
fn digits(number: &str) -> String {
    number.replace('_', "")
}

/// Reads a string as one of several words.
///
/// # Errors
///
/// Says which words are expected.
pub(super) fn word<T: DeserializeOwned>(
    value: &Value<'_>,
    reader: &ValueReader<'_>,
) -> Result<T, ValueError> {
    T::deserialize(String::read(value, reader)?.into_deserializer())
}

/// Reads a string as what is made of it.
///
/// # Errors
///
/// Says why nothing can be made of it.
pub(super) fn from_string<T: TryFrom<String, Error: Display>>(
    value: &Value<'_>,
    reader: &ValueReader<'_>,
) -> Result<T, ValueError> {
    T::try_from(String::read(value, reader)?).map_err(ValueError::new)
}

/// Has values of these types read by a function.
macro_rules! read_with {
    ($read:path: $($type:ty),*) => {
        $(impl $crate::value_reader::ReadValue for $type {
            fn read(
                value: &jsonc_parser::ast::Value<'_>,
                reader: &$crate::value_reader::ValueReader<'_>,
            ) -> Result<Self, $crate::value_reader::ValueError> {
                $read(value, reader)
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

    /// Reads an entry from JSON. Returns it, or the message and the offset of the error; and its unknown fields.
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
        let entry = reader.read(&parsed.value.unwrap());
        (entry.map_err(|error| (error.to_string(), error.offset.unwrap())), reader.into_unknown())
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
