//! Reads the types of `file` from a parsed config: every error knows its place and its path, no error repeats a
//! value, variables are replaced on the way, and fields that a type does not have are remembered.
//!
//! serde's own JSON deserializers know none of these, and their messages quote what they found.

use std::cell::RefCell;
use std::fmt::{self, Display};

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Expected, IntoDeserializer, Unexpected, Visitor};

use super::file;
use super::nearest::nearest;
use super::vars::{self, Scope};

/// One thing wrong with a value, and where.
#[derive(Debug)]
pub(super) struct Error {
    message: String,
    pub(super) hint: Option<String>,
    /// From the innermost outwards, such as `[1]`, `.args`.
    path: Vec<String>,
    /// Byte in the text; `None` until the node that holds the value is left.
    pub(super) offset: Option<usize>,
}

impl Error {
    fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, path: Vec::new(), offset: None }
    }

    fn at(mut self, value: &Value<'_>) -> Self {
        self.offset.get_or_insert_with(|| value.start());
        self
    }

    fn below(mut self, step: String) -> Self {
        self.path.push(step);
        self
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        match path.trim_start_matches('.') {
            "" => f.write_str(&self.message),
            path => write!(f, "`{path}`: {}", self.message),
        }
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format_args!("expected {}, found {}", wanted(expected), kind(found)))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format_args!("out of range: expected {}", wanted(expected)))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let expected: Vec<String> = expected.iter().map(|variant| format!("\"{variant}\"")).collect();
        Self::new(format_args!("expected {}", expected.join(" or ")))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self {
            hint: Some("both spellings of one name count as one".to_owned()),
            ..Self::new(format_args!("`{field}` is given twice"))
        }
    }
}

/// serde's words for what it wants, in those of JSON.
fn wanted(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "u16" => "a whole number up to 65535".to_owned(),
        "a nonzero u16" => "a whole number from 1 to 65535".to_owned(),
        "a nonzero usize" => "a whole number above 0".to_owned(),
        "usize" | "u64" => "a whole number".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    }
}

fn kind(found: Unexpected<'_>) -> &'static str {
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

/// What JSON calls a value of this kind.
pub(super) fn kind_of(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "true or false",
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::NullKeyword(_) => "null",
    }
}

/// A field that nobody knows.
#[derive(Debug)]
pub(super) struct Unknown {
    pub(super) name: String,
    /// Byte in the text.
    pub(super) offset: usize,
    pub(super) nearest: Option<&'static str>,
}

/// Reads values of one file.
pub(super) struct Reader<'a> {
    scope: Scope<'a>,
    unknown: RefCell<Vec<Unknown>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(scope: Scope<'a>) -> Self {
        Self { scope, unknown: RefCell::default() }
    }

    pub(super) fn read<T: DeserializeOwned>(&self, value: &Value<'_>) -> Result<T, Error> {
        T::deserialize(Node { value, reader: self })
    }

    /// The fields met so far that nobody knows.
    pub(super) fn into_unknown(self) -> Vec<Unknown> {
        self.unknown.into_inner()
    }

    fn note_unknown(&self, member: &ObjectProp<'_>, fields: &'static [&'static str]) {
        let name = member.name.as_str();
        // Of two spellings our own is the one with underscores.
        let (foreign, own): (Vec<_>, Vec<_>) =
            fields.iter().partition(|field| field.contains(char::is_uppercase));
        self.unknown.borrow_mut().push(Unknown {
            name: name.to_owned(),
            offset: member.name.start(),
            nearest: nearest(name, own.into_iter().chain(foreign)),
        });
    }
}

#[derive(Clone, Copy)]
struct Node<'n> {
    value: &'n Value<'n>,
    reader: &'n Reader<'n>,
}

impl<'n> Node<'n> {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V, fields: Option<Fields>) -> Result<V::Value, Error> {
        match self.value {
            Value::StringLit(text) => match vars::expand(&text.value, self.reader.scope) {
                Ok(text) => visitor.visit_string(text),
                Err(error) => Err(Error { hint: Some(error.hint()), ..Error::new(error) }),
            },
            Value::NumberLit(number) => visit_number(number.value, visitor),
            Value::BooleanLit(bool) => visitor.visit_bool(bool.value),
            Value::NullKeyword(_) => visitor.visit_unit(),
            Value::Object(object) => visitor.visit_map(Members::new(object, self.reader, fields)),
            Value::Array(list) => {
                visitor.visit_seq(Elements { left: list.elements.iter().enumerate(), reader: self.reader })
            }
        }
        .map_err(|error| error.at(self.value))
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &str, visitor: V) -> Result<V::Value, Error> {
    if let Ok(natural) = number.parse() {
        visitor.visit_u64(natural)
    } else if let Ok(whole) = number.parse() {
        visitor.visit_i64(whole)
    } else {
        number.parse().map_err(|_| Error::new("not a number")).and_then(|number| visitor.visit_f64(number))
    }
}

type Fields = &'static [&'static str];

impl<'de> de::Deserializer<'de> for Node<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visit(visitor, None)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::NullKeyword(_) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            // A derived visitor would take its fields in order from a list.
            Value::Array(_) => Err(Error::new("expected an object, found a list").at(self.value)),
            _ => self.visit(visitor, Some(fields)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: Fields,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = String::deserialize(self)?;
        visitor.visit_enum(text.into_deserializer()).map_err(|error: Error| error.at(self.value))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

/// The members of an object; of a struct's (`fields` is given) only those it has.
struct Members<'n> {
    left: std::slice::Iter<'n, ObjectProp<'n>>,
    reader: &'n Reader<'n>,
    fields: Option<Fields>,
    current: Option<&'n ObjectProp<'n>>,
}

impl<'n> Members<'n> {
    fn new(object: &'n Object<'n>, reader: &'n Reader<'n>, fields: Option<Fields>) -> Self {
        Self { left: object.properties.iter(), reader, fields, current: None }
    }

    fn is_wanted(&self, member: &ObjectProp<'_>) -> bool {
        let Some(fields) = self.fields else { return true };
        let name = member.name.as_str();
        let known = fields.contains(&name);
        if !known && file::is_foreign(name) {
            tracing::debug!(field = name, "a field of other clients is ignored");
        } else if !known {
            self.reader.note_unknown(member, fields);
        }
        known
    }
}

impl<'de> de::MapAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        loop {
            self.current = self.left.next();
            let Some(member) = self.current else { return Ok(None) };
            if self.is_wanted(member) {
                let name: StrDeserializer<'_, Error> = member.name.as_str().into_deserializer();
                return seed.deserialize(name).map(Some);
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(member) = self.current else { return Err(Error::new("no value")) };
        seed.deserialize(Node { value: &member.value, reader: self.reader })
            .map_err(|error| error.at(&member.value).below(format!(".{}", member.name.as_str())))
    }
}

struct Elements<'n> {
    left: std::iter::Enumerate<std::slice::Iter<'n, Value<'n>>>,
    reader: &'n Reader<'n>,
}

impl<'de> de::SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.left.next() else { return Ok(None) };
        seed.deserialize(Node { value, reader: self.reader })
            .map(Some)
            .map_err(|error| error.at(value).below(format!("[{index}]")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::config::vars::Env;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Plate {
        name: Option<String>,
        #[serde(alias = "portNumber")]
        port_number: Option<u16>,
        list: Vec<String>,
        map: BTreeMap<String, String>,
        inner: Option<Box<Self>>,
    }

    fn read(text: &str) -> (Result<Plate, (String, usize)>, Vec<Unknown>) {
        let env = Env::new([("A", "one")], "/");
        let reader = Reader::new(Scope { env: &env, dir: Path::new("/") });
        let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
        let plate = reader.read(&parsed.value.unwrap());
        (plate.map_err(|error| (error.to_string(), error.offset.unwrap())), reader.into_unknown())
    }

    #[test]
    fn strings_are_expanded_wherever_they_stand() {
        let (plate, _) =
            read(r#"{"name": "${A}", "list": ["{env:A}"], "map": {"${A}": "$$"}, "inner": {"name": null}}"#);
        let plate = plate.unwrap();
        assert_eq!(plate.name.as_deref(), Some("one"));
        assert_eq!(plate.list, ["one"]);
        assert_eq!(plate.map["${A}"], "$");
        assert_eq!(plate.inner, Some(Box::default()));
    }

    #[test]
    fn an_error_has_its_path_and_place_and_no_value() {
        for (text, message) in [
            (r#"{"name": 4711}"#, "`name`: expected a string, found a number"),
            (r#"{"list": ["a", true]}"#, "`list[1]`: expected a string, found true or false"),
            (r#"{"inner": {"map": {"K": []}}}"#, "`inner.map.K`: expected a string, found a list"),
            (r#"{"list": "secret"}"#, "`list`: expected a list, found a string"),
            (r#"{"port_number": 70000}"#, "`port_number`: out of range: expected a whole number up to 65535"),
            (r#"{"inner": []}"#, "`inner`: expected an object, found a list"),
            (r#"{"name": "${B}"}"#, "`name`: the variable `B` is not defined"),
            (r#"[]"#, "expected an object, found a list"),
        ] {
            assert_eq!(read(text).0.unwrap_err().0, message, "{text}");
        }
        assert_eq!(read(r#"{"list": ["a", 5]}"#).0.unwrap_err().1, 15);
    }

    #[test]
    fn a_field_given_in_both_spellings_is_an_error() {
        let (plate, _) = read(r#"{"port_number": 1, "portNumber": 2}"#);
        assert_eq!(plate.unwrap_err().0, "`port_number` is given twice");
    }

    #[test]
    fn unknown_fields_are_remembered_with_the_nearest() {
        let (plate, unknown) = read(r#"{"nam": "${B}", "inner": {"zzz": 1, "alwaysAllow": []}}"#);
        assert!(plate.is_ok());
        let found: Vec<_> =
            unknown.iter().map(|field| (field.name.as_str(), field.offset, field.nearest)).collect();
        assert_eq!(found, [("nam", 1, Some("name")), ("zzz", 26, None)]);
    }
}
