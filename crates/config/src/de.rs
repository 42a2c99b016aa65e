//! A serde deserializer for the types of `file`, over the syntax tree of a parsed config.
//!
//! serde's own JSON deserializers lack what it adds: an error has the position and the path of its value and never
//! repeats the value, variables in strings are expanded, the names of fields are looked up in the table of `fields`,
//! and unknown fields are collected.

use std::cell::RefCell;
use std::fmt::{self, Display};

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor};

use super::fields::{self, ConfigField};
use super::file;
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
    /// The byte offset of the value in the text; `None` until the deserializer of the value returns.
    pub(super) offset: Option<usize>,
}

impl ValueError {
    fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, path: Vec::new(), offset: None }
    }

    /// Creates the error of a field that an object has twice.
    fn duplicate(field: &str) -> Self {
        Self {
            hint: Some("other spellings of a name count as the same field".to_owned()),
            ..Self::new(format_args!("`{field}` is given twice"))
        }
    }

    /// Sets the position, unless a value inside this one has set it.
    fn at(mut self, value: &Value<'_>) -> Self {
        self.offset.get_or_insert_with(|| value.start());
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

impl de::Error for ValueError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format_args!("expected {}, found {}", expected_in_json(expected), found_in_json(found)))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format_args!("out of range: expected {}", expected_in_json(expected)))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<String> = expected.iter().map(|variant| format!("\"{variant}\"")).collect();
        Self::new(format_args!("expected {}", expected.join(" or ")))
    }
}

/// Returns what serde expects, in the terms of JSON.
fn expected_in_json(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "u16" => "a whole number up to 65535".to_owned(),
        "a nonzero u16" => "a whole number from 1 to 65535".to_owned(),
        "a nonzero usize" => "a whole number above 0".to_owned(),
        "usize" | "u64" => "a whole number".to_owned(),
        // The derived types of profiles.
        other if other.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns what serde found, in the terms of JSON.
fn found_in_json(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a number",
        Unexpected::Float(_) => "a number with a fraction or an exponent",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        _ => "an object",
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
    pub(super) fn read<T: DeserializeOwned>(&self, value: &Value<'_>) -> Result<T, ValueError> {
        let read = T::deserialize(ValueDeserializer { value, reader: self });
        read.map_err(|error| error.at(value).with_example())
    }

    /// Returns the unknown fields of all values that were read.
    pub(super) fn into_unknown(self) -> Vec<UnknownField> {
        self.unknown.into_inner()
    }
}

#[derive(Clone, Copy)]
struct ValueDeserializer<'n> {
    value: &'n Value<'n>,
    reader: &'n ValueReader<'n>,
}

impl<'n> ValueDeserializer<'n> {
    /// Shows the value to the visitor. `fields` is the table of a struct's fields.
    ///
    /// # Errors
    ///
    /// Fails with the position of the innermost wrong value if the visitor refuses the value, or if a variable in it
    /// cannot be expanded.
    fn visit<'de, V: Visitor<'de>>(
        self,
        visitor: V,
        fields: Option<&'static [ConfigField]>,
    ) -> Result<V::Value, ValueError> {
        match self.value {
            Value::StringLit(text) => match vars::expand(&text.value, self.reader.context) {
                Ok(text) => visitor.visit_string(text),
                Err(error) => Err(ValueError { hint: Some(error.hint()), ..ValueError::new(error) }),
            },
            Value::NumberLit(number) => visit_number(number.value, visitor),
            Value::BooleanLit(bool) => visitor.visit_bool(bool.value),
            Value::NullKeyword(_) => visitor.visit_unit(),
            Value::Object(object) => visitor.visit_map(ObjectAccess {
                left: object.properties.iter(),
                reader: self.reader,
                fields,
                seen: Vec::new(),
                current: None,
            }),
            Value::Array(list) => {
                visitor.visit_seq(ListAccess { left: list.elements.iter().enumerate(), reader: self.reader })
            }
        }
        .map_err(|error| error.at(self.value))
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &str, visitor: V) -> Result<V::Value, ValueError> {
    // TOML allows underscores between digits.
    let number = number.replace('_', "");
    if let Ok(number) = number.parse() {
        visitor.visit_u64(number)
    } else if let Ok(number) = number.parse() {
        visitor.visit_i64(number)
    } else {
        let number = number.parse().map_err(|_| ValueError::new("not a number"))?;
        visitor.visit_f64(number)
    }
}

impl<'de> de::Deserializer<'de> for ValueDeserializer<'_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.visit(visitor, None)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.value {
            Value::NullKeyword(_) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        type_name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self.value {
            // A derived visitor would take the fields in order from the list.
            Value::Array(_) => Err(ValueError::new("expected an object, found a list").at(self.value)),
            _ => self.visit(visitor, Some(file::fields_of(type_name))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let text = String::deserialize(self)?;
        visitor.visit_enum(text.into_deserializer()).map_err(|error: ValueError| error.at(self.value))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// Reads the members of an object: of a map all of them, of a struct those that are its fields.
struct ObjectAccess<'n> {
    left: std::slice::Iter<'n, ObjectProp<'n>>,
    reader: &'n ValueReader<'n>,
    /// The fields of a struct; `None` for a map.
    fields: Option<&'static [ConfigField]>,
    /// The fields that were read, or are read next.
    seen: Vec<&'static str>,
    /// The member whose value is read next.
    current: Option<&'n ObjectProp<'n>>,
}

impl<'n> ObjectAccess<'n> {
    /// Returns the name by which serde knows a member. Returns `None` for a member that is skipped.
    ///
    /// # Errors
    ///
    /// Fails if the object has had this field before, in any spelling.
    fn serde_name(&mut self, member: &'n ObjectProp<'n>) -> Result<Option<&'n str>, ValueError> {
        let name = member.name.as_str();
        let Some(fields) = self.fields else { return Ok(Some(name)) };
        if let Some(field) = fields::find(fields, name) {
            if !field.ignores(&member.value) {
                if self.seen.contains(&field.name) {
                    return Err(ValueError::duplicate(field.name));
                }
                self.seen.push(field.name);
                return Ok(Some(field.name));
            }
            tracing::debug!(field = name, "ignored a field in the form of another client");
        } else if fields::is_ignored(name) {
            tracing::debug!(field = name, "ignored a field of another client");
        } else {
            self.reader.unknown.borrow_mut().push(UnknownField::new(member, fields));
        }
        Ok(None)
    }
}

impl<'de> de::MapAccess<'de> for ObjectAccess<'_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ValueError> {
        loop {
            self.current = self.left.next();
            let Some(member) = self.current else { return Ok(None) };
            if let Some(name) = self.serde_name(member)? {
                let name: StrDeserializer<'_, ValueError> = name.into_deserializer();
                return seed.deserialize(name).map(Some);
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ValueError> {
        let Some(member) = self.current else { return Err(ValueError::new("no value")) };
        seed.deserialize(ValueDeserializer { value: &member.value, reader: self.reader })
            .map_err(|error| error.at(&member.value).inside(format!(".{}", member.name.as_str())))
    }
}

struct ListAccess<'n> {
    left: std::iter::Enumerate<std::slice::Iter<'n, Value<'n>>>,
    reader: &'n ValueReader<'n>,
}

impl<'de> de::SeqAccess<'de> for ListAccess<'_> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        let Some((index, value)) = self.left.next() else { return Ok(None) };
        seed.deserialize(ValueDeserializer { value, reader: self.reader })
            .map(Some)
            .map_err(|error| error.at(value).inside(format!("[{index}]")))
    }
}

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
