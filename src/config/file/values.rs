//! Values of a config that may be written in more than one way.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use globset::ErrorKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::config::duration;
use crate::config::{self, Mode};

/// What such a value can be in JSON, before it is known what is wanted.
enum Written {
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<String>),
}

impl Written {
    /// An error that says what it is, and not its content.
    fn not(&self, expected: &str) -> String {
        let found = match self {
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "another string",
            Self::List(_) => "a list",
        };
        format!("expected {expected}, found {found}")
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, a number, a string or a list of strings")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Written, E> {
                Ok(Written::Bool(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Written, E> {
                // A wait of more than 2^52 seconds is refused anyway.
                Ok(Written::Number(value as f64))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Written, E> {
                Ok(Written::Number(value as f64))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Written, E> {
                Ok(Written::Number(value))
            }
            fn visit_string<E: de::Error>(self, value: String) -> Result<Written, E> {
                Ok(Written::Text(value))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Written, E> {
                Ok(Written::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Written, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(Written::List(texts))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// A program, or a program and its first arguments.
#[derive(Deserialize)]
#[serde(try_from = "Written")]
pub struct Command(pub Vec<String>);

impl TryFrom<Written> for Command {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Text(program) if !program.trim().is_empty() => Ok(Self(vec![program])),
            Written::List(words) if words.first().is_some_and(|program| !program.trim().is_empty()) => {
                Ok(Self(words))
            }
            Written::Text(_) | Written::List(_) => Err("names no program".to_owned()),
            other => Err(other.not("a string or a list of strings")),
        }
    }
}

/// A list of words, or the words in one string.
#[derive(Deserialize)]
#[serde(try_from = "Written")]
pub struct Words(pub Vec<String>);

impl TryFrom<Written> for Words {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Text(words) => Ok(Self(words.split_whitespace().map(str::to_owned).collect())),
            Written::List(words) => Ok(Self(words)),
            other => Err(other.not("a string or a list of strings")),
        }
    }
}

/// A duration: a number of seconds, or a string with a unit.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "Written")]
pub struct Period(pub Duration);

impl TryFrom<Written> for Period {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let duration = match &written {
            Written::Number(seconds) => duration::from_seconds(*seconds),
            Written::Text(text) => duration::parse(text),
            _ => return Err(written.not(duration::EXPECTED)),
        };
        duration.map(Self).ok_or_else(|| format!("expected {}", duration::EXPECTED))
    }
}

/// How long to wait for something; never 0, for such a wait would always fail.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "Period")]
pub struct Wait(pub Duration);

impl TryFrom<Period> for Wait {
    type Error = &'static str;

    fn try_from(Period(duration): Period) -> Result<Self, Self::Error> {
        if duration.is_zero() { Err("a wait of 0 would always fail") } else { Ok(Self(duration)) }
    }
}

/// When to connect.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "Written")]
pub struct Startup(pub Mode);

impl TryFrom<Written> for Startup {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match &written {
            Written::Bool(false) => Ok(Self(Mode::Eager)),
            Written::Text(text) => match text.as_str() {
                "eager" | "false" => Ok(Self(Mode::Eager)),
                "hybrid" => Ok(Self(Mode::Hybrid)),
                "pure" => Ok(Self(Mode::Pure)),
                _ => Err(STARTUPS.to_owned()),
            },
            Written::Bool(true) => Err(STARTUPS.to_owned()),
            other => Err(other.not("false, \"eager\", \"pure\" or \"hybrid\"")),
        }
    }
}

const STARTUPS: &str = r#"expected false, "eager", "pure" or "hybrid""#;

/// Which of our own variables a program gets.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct InheritEnv(pub config::InheritEnv);

impl TryFrom<Written> for InheritEnv {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Bool(true) => Ok(Self(config::InheritEnv::All)),
            Written::Bool(false) => Ok(Self(config::InheritEnv::Safe)),
            Written::List(names) => Ok(Self(config::InheritEnv::Named(names))),
            other => Err(other.not("true, false or a list of names")),
        }
    }
}

/// How a server is reached, in the words of any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Kind {
    /// A program.
    Stdio,
    /// A remote server of either kind.
    Remote,
    /// Streamable HTTP.
    Streamable,
    /// The legacy HTTP+SSE transport.
    Sse,
}

impl TryFrom<String> for Kind {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plain: String = text.chars().filter(char::is_ascii_alphabetic).collect();
        match plain.to_ascii_lowercase().as_str() {
            "stdio" | "local" => Ok(Self::Stdio),
            "remote" => Ok(Self::Remote),
            "http" | "streamablehttp" => Ok(Self::Streamable),
            "sse" => Ok(Self::Sse),
            _ => Err(r#"expected "stdio", "http" or "sse""#),
        }
    }
}

/// A glob over names; known to be one.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Glob(pub String);

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match globset::Glob::new(&text) {
            Ok(_) => Ok(Self(text)),
            // These quote what they are about.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidRange(..) | ErrorKind::Regex(_)) => {
                Err("not a glob".to_owned())
            }
            Err(error) => Err(format!("not a glob: {}", error.kind())),
        }
    }
}

/// The schema of a type that is written in more than one way.
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

schema!(Command, {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1});
schema!(Words, {"type": ["string", "array"], "items": {"type": "string"}});
schema!(Period, {"type": ["number", "string"], "minimum": 0, "maximum": 31_536_000});
schema!(Wait, {"type": ["number", "string"], "exclusiveMinimum": 0, "maximum": 31_536_000});
schema!(Startup, {"enum": [false, "false", "eager", "pure", "hybrid"]});
schema!(InheritEnv, {"type": ["boolean", "array"], "items": {"type": "string"}});
schema!(Kind, {
    "type": "string",
    "enum": ["stdio", "http", "sse", "local", "remote", "streamable-http", "streamableHttp", "streamable_http"]
});
schema!(Glob, {"type": "string"});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_type_is_understood() {
        for (text, kind) in [
            ("stdio", Kind::Stdio),
            ("local", Kind::Stdio),
            ("http", Kind::Streamable),
            ("HTTP", Kind::Streamable),
            ("streamable-http", Kind::Streamable),
            ("streamableHttp", Kind::Streamable),
            ("streamable_http", Kind::Streamable),
            ("sse", Kind::Sse),
            ("remote", Kind::Remote),
        ] {
            assert_eq!(Kind::try_from(text.to_owned()), Ok(kind), "{text}");
        }
        assert!(Kind::try_from("websocket".to_owned()).is_err());
    }

    #[test]
    fn a_glob_that_is_none_is_refused_without_repeating_it() {
        let Err(message) = Glob::try_from("secret[".to_owned()) else { panic!("accepted") };
        assert!(message.starts_with("not a glob: ") && !message.contains("secret"), "{message}");
    }
}
