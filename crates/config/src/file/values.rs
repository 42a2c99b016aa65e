//! Values of a config file that can be written in more than one way.

use std::borrow::Cow;
use std::fmt;
use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::byte_size;
use crate::duration;
use crate::glob::Glob;
use crate::object::Resolve;

/// The JSON of a field that may have several forms, before its field is known.
enum FieldValue {
    Bool(bool),
    Number(f64),
    String(String),
    List(Vec<String>),
}

impl FieldValue {
    /// Returns an error that names the kind of value that was found, and not its content.
    fn expected(&self, expected: &str) -> String {
        let found = match self {
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
        };
        format!("expected {expected}, found {found}")
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LooseVisitor;

        impl<'de> Visitor<'de> for LooseVisitor {
            type Value = FieldValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, a number, a string or a list of strings")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<FieldValue, E> {
                Ok(FieldValue::Bool(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<FieldValue, E> {
                // Numbers are durations, and one above 2^52 seconds is too long anyway.
                Ok(FieldValue::Number(value as f64))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<FieldValue, E> {
                Ok(FieldValue::Number(value as f64))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<FieldValue, E> {
                Ok(FieldValue::Number(value))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<FieldValue, E> {
                Ok(FieldValue::String(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<FieldValue, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(FieldValue::List)
            }
        }

        deserializer.deserialize_any(LooseVisitor)
    }
}

/// A program, or a list of a program and its first arguments. Never empty.
#[derive(Deserialize)]
#[serde(try_from = "FieldValue")]
pub struct CommandLine(pub Vec<String>);

impl TryFrom<FieldValue> for CommandLine {
    type Error = String;

    fn try_from(value: FieldValue) -> Result<Self, String> {
        let words = match value {
            FieldValue::String(program) => vec![program],
            FieldValue::List(words) => words,
            other => return Err(other.expected("a string or a list of strings")),
        };
        match words.first() {
            Some(program) if !program.trim().is_empty() => Ok(Self(words)),
            _ => Err("expected the name of a program".to_owned()),
        }
    }
}

/// A list of words, or the words in one string.
#[derive(Deserialize)]
#[serde(try_from = "FieldValue")]
pub struct WordList(pub Vec<String>);

impl TryFrom<FieldValue> for WordList {
    type Error = String;

    fn try_from(value: FieldValue) -> Result<Self, String> {
        match value {
            FieldValue::String(words) => Ok(Self(words.split_whitespace().map(str::to_owned).collect())),
            FieldValue::List(words) => Ok(Self(words)),
            other => Err(other.expected("a string or a list of strings")),
        }
    }
}

impl Resolve<Vec<String>> for WordList {
    fn resolve(self) -> Vec<String> {
        self.0
    }
}

/// A duration: a number of seconds, or a string with a unit.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "FieldValue")]
pub struct DurationValue(pub Duration);

impl TryFrom<FieldValue> for DurationValue {
    type Error = String;

    fn try_from(value: FieldValue) -> Result<Self, String> {
        let duration = match &value {
            FieldValue::Number(seconds) => duration::from_seconds(*seconds),
            FieldValue::String(text) => duration::parse(text),
            _ => return Err(value.expected(duration::EXPECTED)),
        };
        duration.map(Self).ok_or_else(|| format!("expected {}", duration::EXPECTED))
    }
}

impl Resolve<Option<Duration>> for DurationValue {
    /// Returns `None` for 0.
    fn resolve(self) -> Option<Duration> {
        Some(self.0).filter(|duration| !duration.is_zero())
    }
}

/// The size above which results are stored; `None`: none is.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "FieldValue")]
pub struct StoreAboveValue(pub Option<NonZeroUsize>);

impl TryFrom<FieldValue> for StoreAboveValue {
    type Error = String;

    fn try_from(value: FieldValue) -> Result<Self, String> {
        let size = match &value {
            FieldValue::Bool(false) => return Ok(Self(None)),
            FieldValue::Number(bytes) => byte_size::from_bytes(*bytes),
            FieldValue::String(text) => byte_size::parse(text),
            FieldValue::Bool(true) => None,
            FieldValue::List(_) => return Err(value.expected(byte_size::EXPECTED)),
        };
        size.map(|size| Self(Some(size))).ok_or_else(|| format!("expected {}", byte_size::EXPECTED))
    }
}

impl Resolve<Option<NonZeroUsize>> for StoreAboveValue {
    fn resolve(self) -> Option<NonZeroUsize> {
        self.0
    }
}

/// A timeout. Never 0, because such a timeout would always expire.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "DurationValue")]
pub struct TimeoutValue(pub Duration);

impl TryFrom<DurationValue> for TimeoutValue {
    type Error = &'static str;

    fn try_from(DurationValue(duration): DurationValue) -> Result<Self, Self::Error> {
        if duration.is_zero() { Err("a timeout must be longer than 0") } else { Ok(Self(duration)) }
    }
}

impl Resolve<Duration> for TimeoutValue {
    fn resolve(self) -> Duration {
        self.0
    }
}

impl Resolve<Option<Duration>> for TimeoutValue {
    fn resolve(self) -> Option<Duration> {
        Some(self.0)
    }
}

/// When a group connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "FieldValue")]
pub enum Mode {
    /// At start, and the connection stays open.
    Eager,
    /// At start to read the catalog, then on use.
    Hybrid,
    /// On first use.
    Pure,
}

impl Mode {
    /// Returns the word for the mode in config files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Hybrid => "hybrid",
            Self::Pure => "pure",
        }
    }
}

impl TryFrom<FieldValue> for Mode {
    type Error = String;

    fn try_from(value: FieldValue) -> Result<Self, String> {
        const EXPECTED: &str = r#"false, "eager", "pure" or "hybrid""#;
        match &value {
            FieldValue::Bool(false) => Ok(Self::Eager),
            FieldValue::String(text) => match text.as_str() {
                "eager" | "false" => Ok(Self::Eager),
                "hybrid" => Ok(Self::Hybrid),
                "pure" => Ok(Self::Pure),
                _ => Err(format!("expected {EXPECTED}")),
            },
            FieldValue::Bool(true) => Err(format!("expected {EXPECTED}")),
            other => Err(other.expected(EXPECTED)),
        }
    }
}

/// Which of our own environment variables a child process inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "FieldValue")]
pub enum InheritEnv {
    /// The safe ones, which hold no secrets.
    #[default]
    Safe,
    /// The safe ones and these.
    Named(Vec<String>),
    /// All of them.
    All,
}

impl TryFrom<FieldValue> for InheritEnv {
    type Error = String;

    fn try_from(value: FieldValue) -> Result<Self, String> {
        match value {
            FieldValue::Bool(true) => Ok(Self::All),
            FieldValue::Bool(false) => Ok(Self::Safe),
            FieldValue::List(names) => Ok(Self::Named(names)),
            other => Err(other.expected("true, false or a list of names")),
        }
    }
}

/// The transport of a server, in the words of any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum TransportType {
    /// The stdin and stdout of a local program.
    Stdio,
    /// Either of the two HTTP transports.
    Remote,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
}

impl TryFrom<String> for TransportType {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let letters: String = text.chars().filter(char::is_ascii_alphabetic).collect();
        match letters.to_ascii_lowercase().as_str() {
            "stdio" | "local" => Ok(Self::Stdio),
            "remote" => Ok(Self::Remote),
            "http" | "streamablehttp" => Ok(Self::Streamable),
            "sse" => Ok(Self::Sse),
            _ => Err(r#"expected "stdio", "http" or "sse""#),
        }
    }
}

/// A valid glob over names.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct GlobPattern(pub String);

impl TryFrom<String> for GlobPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_glob(&text).map(|_| Self(text))
    }
}

impl Resolve<Vec<String>> for Vec<GlobPattern> {
    fn resolve(self) -> Vec<String> {
        self.into_iter().map(|glob| glob.0).collect()
    }
}

/// A glob over the names of servers. With a `!` before it, it excludes the servers that it matches.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub struct ServerPattern {
    /// Whether it excludes.
    pub excludes: bool,
    /// The glob, without the `!`.
    pub glob: Glob,
    /// The glob as it was written, with the `!`.
    pub written: String,
}

impl ServerPattern {
    /// Returns whether `patterns` choose a server: one matches its name, and none excludes it.
    pub fn choose_server<'p>(patterns: impl Iterator<Item = &'p Self> + Clone, server: &str) -> bool {
        let is_matched = |by_exclusion| {
            patterns.clone().any(|pattern| pattern.excludes == by_exclusion && pattern.glob.matches(server))
        };
        is_matched(false) && !is_matched(true)
    }
}

impl TryFrom<String> for ServerPattern {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        let excluded = written.strip_prefix('!');
        let glob = parse_glob(excluded.unwrap_or(&written))?;
        Ok(Self { excludes: excluded.is_some(), glob, written })
    }
}

fn parse_glob(text: &str) -> Result<Glob, String> {
    Glob::parse(text).map_err(|error| format!("not a valid glob: {error}"))
}

impl Resolve<usize> for NonZeroUsize {
    fn resolve(self) -> usize {
        self.get()
    }
}

impl Resolve<Option<u16>> for NonZeroU16 {
    fn resolve(self) -> Option<u16> {
        Some(self.get())
    }
}

/// Implements `JsonSchema` with the given schema.
macro_rules! schema {
    ($type:ty, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

schema!(CommandLine, {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1});
schema!(WordList, {"type": ["string", "array"], "items": {"type": "string"}});
schema!(DurationValue, {"type": ["number", "string"], "minimum": 0, "maximum": 31_536_000});
schema!(TimeoutValue, {"type": ["number", "string"], "exclusiveMinimum": 0, "maximum": 31_536_000});
schema!(StoreAboveValue, {"type": ["boolean", "number", "string"], "exclusiveMinimum": 0});
schema!(Mode, {"enum": [false, "false", "eager", "pure", "hybrid"]});
schema!(InheritEnv, {"type": ["boolean", "array"], "items": {"type": "string"}});
schema!(TransportType, {
    "type": "string",
    "enum": ["stdio", "http", "sse", "local", "remote", "streamable-http", "streamableHttp", "streamable_http"]
});
schema!(GlobPattern, {"type": "string"});
schema!(ServerPattern, {"type": "string"});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_transport_type_is_understood() {
        for (text, expected) in [
            ("stdio", TransportType::Stdio),
            ("local", TransportType::Stdio),
            ("http", TransportType::Streamable),
            ("HTTP", TransportType::Streamable),
            ("streamable-http", TransportType::Streamable),
            ("streamableHttp", TransportType::Streamable),
            ("streamable_http", TransportType::Streamable),
            ("sse", TransportType::Sse),
            ("remote", TransportType::Remote),
        ] {
            assert_eq!(TransportType::try_from(text.to_owned()), Ok(expected), "{text}");
        }
        assert!(TransportType::try_from("websocket".to_owned()).is_err());
    }

    #[test]
    fn an_exclamation_mark_excludes_unless_it_is_escaped() {
        for (text, excludes, matched) in [("x*", false, "xy"), ("!x*", true, "xy"), (r"\!x", false, "!x")] {
            let pattern = ServerPattern::try_from(text.to_owned()).unwrap();
            assert!(pattern.excludes == excludes && pattern.glob.matches(matched), "{text}");
        }
        assert!(ServerPattern::try_from("![".to_owned()).is_err());
    }

    #[test]
    fn an_invalid_glob_is_rejected_without_repeating_it() {
        let Err(message) = GlobPattern::try_from("secret[".to_owned()) else {
            panic!("the glob is accepted")
        };
        assert!(message.starts_with("not a valid glob: ") && !message.contains("secret"), "{message}");
    }
}
