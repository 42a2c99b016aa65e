//! Violations of a schema, as data and as text for a model.

use super::reader::JsonReader;
use std::fmt;
use std::ops::Range;

/// A longer line about a violation is cut.
const MAX_LINE_CHARACTERS: usize = 300;
/// A longer value is not repeated as a whole.
const MAX_VALUE_CHARACTERS: usize = 60;
/// Names that are less similar (Jaro-Winkler, 0 to 1) are not suggested.
const MIN_NAME_SIMILARITY: f64 = 0.8;

/// A keyword of JSON Schema that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keyword {
    Type,
    Enum,
    Const,
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
    MultipleOf,
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    UniqueItems,
    Items,
    MinProperties,
    MaxProperties,
    Required,
    AdditionalProperties,
    AnyOf,
    OneOf,
    /// A schema that is `false`.
    False,
}

impl Keyword {
    /// The keyword as it is written in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Enum => "enum",
            Self::Const => "const",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::ExclusiveMinimum => "exclusiveMinimum",
            Self::ExclusiveMaximum => "exclusiveMaximum",
            Self::MultipleOf => "multipleOf",
            Self::MinLength => "minLength",
            Self::MaxLength => "maxLength",
            Self::MinItems => "minItems",
            Self::MaxItems => "maxItems",
            Self::UniqueItems => "uniqueItems",
            Self::Items => "items",
            Self::MinProperties => "minProperties",
            Self::MaxProperties => "maxProperties",
            Self::Required => "required",
            Self::AdditionalProperties => "additionalProperties",
            Self::AnyOf => "anyOf",
            Self::OneOf => "oneOf",
            Self::False => "false",
        }
    }
}

/// A rule of a schema that the arguments break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The place of the value, or of the missing property: a JSON pointer (RFC 6901) into the arguments.
    pub path: String,
    /// The rule that is broken.
    pub keyword: Keyword,
    /// What the rule requires: types, values or a bound as JSON; the most similar name, for a parameter that does not
    /// exist; the violation of each alternative, for `anyOf` and `oneOf`. Empty if the keyword says it all.
    pub expected: String,
    /// The bytes of the value in the arguments. For a missing property, those of the object that lacks it.
    pub given: Range<usize>,
    /// The value as the text repeats it.
    shown: String,
}

impl Violation {
    pub(super) fn new(
        path: String,
        keyword: Keyword,
        expected: String,
        given: Range<usize>,
        args: &[u8],
    ) -> Self {
        let shown = shown(args.get(given.clone()).unwrap_or_default());
        Self { path, keyword, expected, given, shown }
    }

    /// The violation without its place.
    pub(super) fn reason(&self) -> String {
        let (given, expected) = (&self.shown, &self.expected);
        match self.keyword {
            Keyword::Type => format!("{given} is not of type {expected}"),
            Keyword::Enum => format!("{given} is not one of {expected}"),
            Keyword::Const => format!("{given} is not {expected}"),
            Keyword::Minimum => format!("{given} is less than the minimum of {expected}"),
            Keyword::Maximum => format!("{given} is greater than the maximum of {expected}"),
            Keyword::ExclusiveMinimum => format!("{given} is not greater than {expected}"),
            Keyword::ExclusiveMaximum => format!("{given} is not less than {expected}"),
            Keyword::MultipleOf => format!("{given} is not a multiple of {expected}"),
            Keyword::MinLength => {
                format!("{given} has fewer than {}", counted(expected, "character", "characters"))
            }
            Keyword::MaxLength => {
                format!("{given} has more than {}", counted(expected, "character", "characters"))
            }
            Keyword::MinItems => format!("{given} has fewer than {}", counted(expected, "item", "items")),
            Keyword::MaxItems => format!("{given} has more than {}", counted(expected, "item", "items")),
            Keyword::UniqueItems => format!("{given} has an item twice"),
            Keyword::Items => format!("there is no such item: the list has at most {expected}"),
            Keyword::MinProperties => {
                format!("{given} has fewer than {}", counted(expected, "property", "properties"))
            }
            Keyword::MaxProperties => {
                format!("{given} has more than {}", counted(expected, "property", "properties"))
            }
            Keyword::Required => "is missing".to_owned(),
            Keyword::AdditionalProperties if expected.is_empty() => "there is no such parameter".to_owned(),
            Keyword::AdditionalProperties => {
                format!("there is no such parameter; did you mean `{expected}`?")
            }
            Keyword::AnyOf => format!("none of the alternatives fits: {expected}"),
            Keyword::OneOf if expected.is_empty() => {
                format!("{given} fits more than one of the alternatives, and only one may fit")
            }
            Keyword::OneOf => format!("none of the alternatives fits: {expected}"),
            Keyword::False => "no value is allowed here".to_owned(),
        }
    }
}

/// Writes the place and what was expected there, on one line.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.path.strip_prefix('/') {
            None => "the arguments",
            Some(place) => place,
        };
        let separator = if self.keyword == Keyword::Required { " " } else { ": " };
        f.write_str(&on_one_line(&format!("{place}{separator}{}", self.reason()), MAX_LINE_CHARACTERS))
    }
}

/// The violations that arguments certainly have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations {
    /// The first violations, in the order of the arguments.
    pub first: Vec<Violation>,
    /// The number of further violations.
    pub more: usize,
}

/// Writes a line for each violation.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.first.iter().map(|violation| format!("- {violation}")).collect();
        if self.more > 0 {
            lines.push(format!("- and {} more", self.more));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// `name` as a segment of a JSON pointer.
pub(super) fn pointer_segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Joins values as `"a", "b" or "c"`.
pub(super) fn one_of(values: &[String]) -> String {
    match values {
        [] => String::new(),
        [only] => only.clone(),
        [before @ .., last] => format!("{} or {last}", before.join(", ")),
    }
}

/// The candidate that is most similar to `name`. Case, underscores and hyphens make no difference.
pub(super) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let plain = |name: &str| -> String {
        name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
    };
    let name = plain(name);
    let rated = candidates.map(|candidate| (strsim::jaro_winkler(&name, &plain(candidate)), candidate));
    let near = rated.filter(|(similarity, _)| *similarity > MIN_NAME_SIMILARITY);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
}

fn counted(count: &str, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == "1" { singular } else { plural })
}

/// A value as a message repeats it: whole if it is short, else its beginning or its kind.
fn shown(value: &[u8]) -> String {
    let text = compact(value);
    if text.chars().count() <= MAX_VALUE_CHARACTERS {
        return text;
    }
    match text.as_bytes().first() {
        Some(b'{') => "the object".to_owned(),
        Some(b'[') => "the list".to_owned(),
        Some(b'"') => on_one_line(&text, MAX_VALUE_CHARACTERS - 1) + "\"",
        _ => on_one_line(&text, MAX_VALUE_CHARACTERS),
    }
}

/// The beginning of a value, without the white space between its tokens.
fn compact(value: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = JsonReader::new(value);
    while let Some(token) = rest.next_token().filter(|_| text.len() <= 4 * MAX_VALUE_CHARACTERS) {
        text.push_str(&String::from_utf8_lossy(token));
    }
    text
}

/// The text without control characters, cut after a number of characters.
fn on_one_line(text: &str, max_characters: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut line: String = characters.by_ref().take(max_characters).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}
