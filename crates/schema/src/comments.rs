//! The parts of a schema that a signature has in comments: limits, formats, examples and descriptions.

use super::exact_numbers;
use base::text::one_line;
use serde_json::{Map, Value};

/// A longer list of values, or a longer value, is cut.
pub const MAX_VALUE_BYTES: usize = 2000;
/// A longer description is cut.
const MAX_DESCRIPTION_CHARACTERS: usize = 4000;

/// Keywords that a signature has, as types, comments or defaults.
const WRITTEN_KEYWORDS: &[&str] = &[
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "description",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
    "uniqueItems",
];
/// Keywords that a signature leaves out because they are no rules for values. A title repeats the name in words.
const OMITTED_KEYWORDS: &[&str] =
    &["$comment", "$defs", "$id", "$schema", "definitions", "readOnly", "title", "writeOnly"];

/// Returns the text with a backslash in each `*/`, so that it does not end the comment that it stands in. JSON and
/// regular expressions still mean the same.
pub(crate) fn escape_comment(text: &str) -> String {
    text.replace("*/", r"*\/")
}

/// Returns a value as it is written in a type or a comment. `None` if it is too long for either.
pub fn literal(value: &Value) -> Option<String> {
    let text = exact_numbers::json(value);
    (text.len() <= MAX_VALUE_BYTES).then_some(text)
}

/// Returns whether a signature has every keyword of the schema. The keywords in `unwritten` count as missing.
pub(crate) fn are_keywords_written(schema: &Map<String, Value>, unwritten: &[&str]) -> bool {
    let is_written = |key: &str| WRITTEN_KEYWORDS.contains(&key) && !unwritten.contains(&key);
    schema
        .keys()
        .all(|key| is_written(key) || OMITTED_KEYWORDS.contains(&key.as_str()) || key.starts_with("x-"))
}

/// Returns the comments on a schema: its limits and the like, then its description; and whether nothing was cut.
pub(crate) fn comments_on(schema: &Map<String, Value>) -> (Vec<String>, bool) {
    let mut comments: Vec<String> = Vec::new();
    comments.extend(number_range(schema));
    let sizes = [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "items"),
        ("minProperties", "maxProperties", "members"),
    ];
    for (min, max, unit) in sizes {
        let range = range(schema.get(min).filter(|min| **min != 0), schema.get(max));
        comments.extend(range.map(|range| format!("{range} {unit}")));
    }
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    comments.extend(text("format").map(str::to_owned));
    comments.extend(text("pattern").map(|pattern| format!("/{pattern}/")));
    comments.extend(text("contentEncoding").map(str::to_owned));
    comments.extend(text("contentMediaType").map(str::to_owned));
    comments
        .extend(schema.get("multipleOf").map(|step| format!("multiple of {}", exact_numbers::json(step))));
    let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    comments.extend(flag("uniqueItems").then(|| "unique".to_owned()));
    comments.extend(flag("deprecated").then(|| "deprecated".to_owned()));
    let examples: Vec<&Value> = match schema.get("examples").or_else(|| schema.get("example")) {
        Some(Value::Array(examples)) => examples.iter().collect(),
        example => example.into_iter().collect(),
    };
    let literals: Vec<String> = examples.iter().filter_map(|example| literal(example)).collect();
    if !literals.is_empty() {
        comments.push(format!("e.g. {}", literals.join(", ")));
    }
    let (description, is_complete) =
        cut(one_line(text("description").unwrap_or_default()), MAX_DESCRIPTION_CHARACTERS);
    comments.extend(Some(description).filter(|description| !description.is_empty()));
    (comments, is_complete && literals.len() == examples.len())
}

/// Cuts a text that is too long. Also returns whether it was not.
pub(crate) fn cut(mut text: String, max_characters: usize) -> (String, bool) {
    let Some((end, _)) = text.char_indices().nth(max_characters) else { return (text, true) };
    text.truncate(end);
    text.push('…');
    (text, false)
}

fn number_range(schema: &Map<String, Value>) -> Option<String> {
    // In draft 4 the exclusive keyword is a flag beside the bound, later it is a bound of its own.
    let bounds = |key: &str, exclusive_key: &str| match (schema.get(key), schema.get(exclusive_key)) {
        (Some(bound), Some(Value::Bool(true))) => (None, Some(bound)),
        (bound, exclusive) => (bound, exclusive.filter(|exclusive| exact_numbers::is_number(exclusive))),
    };
    let (min, above) = bounds("minimum", "exclusiveMinimum");
    let (max, below) = bounds("maximum", "exclusiveMaximum");
    let exclusive = [
        above.map(|above| format!("> {}", exact_numbers::json(above))),
        below.map(|below| format!("< {}", exact_numbers::json(below))),
    ];
    let all: Vec<String> = range(min, max).into_iter().chain(exclusive.into_iter().flatten()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn range(min: Option<&Value>, max: Option<&Value>) -> Option<String> {
    match (min.map(exact_numbers::json), max.map(exact_numbers::json)) {
        (Some(min), Some(max)) if min == max => Some(format!("exactly {min}")),
        (Some(min), Some(max)) => Some(format!("{min}..{max}")),
        (Some(min), None) => Some(format!(">= {min}")),
        (None, Some(max)) => Some(format!("<= {max}")),
        (None, None) => None,
    }
}
