//! Values of a config file that can be written in more than one way.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::time::Duration;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::byte_size;
use crate::duration;
use crate::glob::Glob;
use crate::value_reader::{ReadValue, ValueCursor, read_with};

/// A program, or a list of a program and its first arguments. Never empty.
pub struct CommandLine(pub Vec<String>);

impl ReadValue for CommandLine {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let words = match at.value {
            Value::StringLit(_) => vec![String::read(at)?],
            Value::Array(_) => Vec::read(at)?,
            _ => return at.wrong_type("a string or a list of strings"),
        };
        match words.first() {
            Some(program) if !program.trim().is_empty() => Some(Self(words)),
            _ => at.fail("expected the name of a program"),
        }
    }
}

/// A list of words, or the words in one string.
pub struct WordList(pub Vec<String>);

impl ReadValue for WordList {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        match at.value {
            Value::StringLit(_) => {
                Some(Self(String::read(at)?.split_whitespace().map(str::to_owned).collect()))
            }
            Value::Array(_) => Vec::read(at).map(Self),
            _ => at.wrong_type("a string or a list of strings"),
        }
    }
}

impl From<WordList> for Vec<String> {
    fn from(words: WordList) -> Self {
        words.0
    }
}

/// A duration: a number of seconds, or a string with a unit.
#[derive(Clone, Copy)]
pub struct DurationValue(pub Duration);

impl ReadValue for DurationValue {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let duration = match at.value {
            Value::NumberLit(seconds) => duration::from_seconds(at.float(seconds.value)?),
            Value::StringLit(_) => duration::parse(&String::read(at)?),
            _ => return at.wrong_type(duration::EXPECTED),
        };
        duration.map(Self).or_else(|| at.fail(format_args!("expected {}", duration::EXPECTED)))
    }
}

impl From<DurationValue> for Option<Duration> {
    /// Returns `None` for 0.
    fn from(DurationValue(duration): DurationValue) -> Self {
        Some(duration).filter(|duration| !duration.is_zero())
    }
}

/// The size above which results are stored; `None`: none is.
#[derive(Clone, Copy)]
pub struct StoreAboveValue(pub Option<NonZeroUsize>);

impl ReadValue for StoreAboveValue {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let size = match at.value {
            Value::BooleanLit(bool) if !bool.value => return Some(Self(None)),
            Value::BooleanLit(_) => None,
            Value::NumberLit(bytes) => byte_size::from_bytes(at.float(bytes.value)?),
            Value::StringLit(_) => byte_size::parse(&String::read(at)?),
            _ => return at.wrong_type(byte_size::EXPECTED),
        };
        size.map(|size| Self(Some(size)))
            .or_else(|| at.fail(format_args!("expected {}", byte_size::EXPECTED)))
    }
}

impl From<StoreAboveValue> for Option<NonZeroUsize> {
    fn from(size: StoreAboveValue) -> Self {
        size.0
    }
}

/// A timeout. Never 0, because such a timeout would always expire.
#[derive(Clone, Copy)]
pub struct TimeoutValue(pub Duration);

impl ReadValue for TimeoutValue {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        match DurationValue::read(at)?.0 {
            Duration::ZERO => at.fail("a timeout must be longer than 0"),
            duration => Some(Self(duration)),
        }
    }
}

impl From<TimeoutValue> for Duration {
    fn from(timeout: TimeoutValue) -> Self {
        timeout.0
    }
}

impl From<TimeoutValue> for Option<Duration> {
    fn from(timeout: TimeoutValue) -> Self {
        Some(timeout.0)
    }
}

/// When a group connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl ReadValue for Mode {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        const EXPECTED: &str = r#"false, "eager", "pure" or "hybrid""#;
        let word = match at.value {
            Value::BooleanLit(bool) => bool.value.to_string(),
            Value::StringLit(_) => String::read(at)?,
            _ => return at.wrong_type(EXPECTED),
        };
        match word.as_str() {
            "eager" | "false" => Some(Self::Eager),
            "hybrid" => Some(Self::Hybrid),
            "pure" => Some(Self::Pure),
            _ => at.fail(format_args!("expected {EXPECTED}")),
        }
    }
}

/// Which of our own environment variables a child process inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum InheritEnv {
    /// The safe ones, which hold no secrets.
    #[default]
    Safe,
    /// The safe ones and these.
    Named(Vec<String>),
    /// All of them.
    All,
}

impl ReadValue for InheritEnv {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        match at.value {
            Value::BooleanLit(bool) => Some(if bool.value { Self::All } else { Self::Safe }),
            Value::Array(_) => Vec::read(at).map(Self::Named),
            _ => at.wrong_type("true, false or a list of names"),
        }
    }
}

/// The transport of a server, in the words of any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobPattern {
    /// The glob.
    pub glob: Glob,
    /// The glob as it was written.
    pub written: String,
}

impl TryFrom<String> for GlobPattern {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        Ok(Self { glob: parse_glob(&written)?, written })
    }
}

/// A glob over the names of servers. With a `!` before it, it excludes the servers that it matches.
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

read_with!(parse_string: TransportType, GlobPattern, ServerPattern);

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
