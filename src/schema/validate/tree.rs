//! JSON as a tree in which numbers keep their text. Schemas are compiled from it, and arrays and objects compared.

use super::decimal::Decimal;
use super::reader::{JsonKind, JsonReader, MalformedJson, unescape};

/// More deeply nested values are not read.
const MAX_DEPTH: usize = 128;

/// A JSON value. Values are equal by the rules of JSON Schema: the spelling of numbers and the order of members make no
/// difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JsonTree {
    Null,
    Boolean(bool),
    Number(JsonNumber),
    String(Box<str>),
    Array(Vec<Self>),
    Object(JsonMembers),
}

/// A number as it is written.
#[derive(Debug, Clone)]
pub(super) struct JsonNumber(Box<str>);

impl JsonNumber {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn decimal(&self) -> Option<Decimal<'_>> {
        Decimal::parse(self.0.as_bytes())
    }
}

impl PartialEq for JsonNumber {
    fn eq(&self, other: &Self) -> bool {
        match (self.decimal(), other.decimal()) {
            (Some(a), Some(b)) => a == b,
            _ => self.0 == other.0,
        }
    }
}

impl Eq for JsonNumber {}

/// The members of an object, sorted by name. Of members with the same name the last counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonMembers(Vec<(Box<str>, JsonTree)>);

impl JsonMembers {
    fn new(mut members: Vec<(Box<str>, JsonTree)>) -> Self {
        members.reverse();
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        members.dedup_by(|(later, _), (earlier, _)| later == earlier);
        Self(members)
    }

    pub(super) fn get(&self, name: &str) -> Option<&JsonTree> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &JsonTree)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl JsonTree {
    /// Parses JSON text. Strings that are not Unicode text and values nested deeper than 128 levels are errors.
    pub(super) fn parse(text: &[u8]) -> Result<Self, MalformedJson> {
        let mut reader = JsonReader::new(text);
        let tree = Self::read(&mut reader, MAX_DEPTH)?;
        if reader.is_at_end() { Ok(tree) } else { Err(MalformedJson) }
    }

    fn read(reader: &mut JsonReader<'_>, depth: usize) -> Result<Self, MalformedJson> {
        let depth = depth.checked_sub(1).ok_or(MalformedJson)?;
        let string = |content| unescape(content).map(Box::from).ok_or(MalformedJson);
        Ok(match reader.kind()? {
            JsonKind::Null | JsonKind::Boolean | JsonKind::Number => Self::scalar(reader.scalar())?,
            JsonKind::String => Self::String(string(reader.string()?)?),
            JsonKind::Array => {
                reader.enter();
                let mut elements = Vec::new();
                while reader.next_element()? {
                    elements.push(Self::read(reader, depth)?);
                }
                Self::Array(elements)
            }
            JsonKind::Object => {
                reader.enter();
                let mut members = Vec::new();
                while let Some(key) = reader.next_key()? {
                    members.push((string(key)?, Self::read(reader, depth)?));
                }
                Self::Object(JsonMembers::new(members))
            }
        })
    }

    fn scalar(text: &[u8]) -> Result<Self, MalformedJson> {
        match text {
            b"null" => Ok(Self::Null),
            b"true" => Ok(Self::Boolean(true)),
            b"false" => Ok(Self::Boolean(false)),
            number => {
                let text = std::str::from_utf8(number).map_err(|_| MalformedJson)?;
                Ok(Self::Number(JsonNumber(text.into())))
            }
        }
    }

    /// The value that a JSON pointer (RFC 6901) leads to.
    pub(super) fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut value = self;
        let (before, segments) = pointer.split_once('/').unwrap_or((pointer, ""));
        if !before.is_empty() {
            return None;
        }
        for segment in segments.split('/').filter(|_| !pointer.is_empty()) {
            value = match value {
                Self::Object(members) => members.get(&segment.replace("~1", "/").replace("~0", "~"))?,
                Self::Array(elements) => elements.get(segment.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    pub(super) fn as_object(&self) -> Option<&JsonMembers> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

/// Writes the value as compact JSON.
impl std::fmt::Display for JsonTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(number) => f.write_str(number.text()),
            Self::String(text) => f.write_str(&quoted(text)),
            Self::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", elements.join(","))
            }
            Self::Object(members) => {
                let members = members.iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
                write!(f, "{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> JsonTree {
        JsonTree::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn equality_is_that_of_json_schema() {
        assert_eq!(tree(r#"{"a":[1.0,"\u0062"],"b":null}"#), tree(r#" {"b":null, "a":[1,"b"]} "#));
        assert_eq!(tree(r#"{"a":1,"a":2}"#), tree(r#"{"a":2}"#), "of equal names the last counts");
        for (a, b) in [("0", "false"), ("[]", "{}"), ("\"1\"", "1"), ("[1,2]", "[2,1]")] {
            assert_ne!(tree(a), tree(b));
        }
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in ["", "{", "[1", "\"\\ud800\"", "{} x", "{\"a\"1}", &deep] {
            assert_eq!(JsonTree::parse(text.as_bytes()), Err(MalformedJson), "{text}");
        }
    }

    #[test]
    fn values_are_written_compactly() {
        let text = r#"{"a":[1.50,"\"",null],"b":true}"#;
        assert_eq!(tree(&text.replace(',', " , ")).to_string(), text);
    }
}
