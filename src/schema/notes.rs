//! What a schema says beside its type: bounds, formats, descriptions, and which of its keywords are said at all.

use serde_json::{Map, Value};

/// A list of values ends here.
pub const LONGEST_VALUES: usize = 2000;
/// A description ends here.
const LONGEST_TEXT: usize = 4000;

/// Keywords that the types, the comments or the defaults below say.
const SAID: &[&str] = &[
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
/// Keywords that ask nothing of a value. A title repeats the name in words.
const SILENT: &[&str] =
    &["$comment", "$defs", "$id", "$schema", "definitions", "readOnly", "title", "writeOnly"];

/// Text that does not end the comment it stands in.
pub fn comment(text: &str) -> String {
    text.replace("*/", "* /")
}

/// A value as it is written in a type or a comment, unless it is too long for either.
pub fn value(value: &Value) -> Option<String> {
    let text = value.to_string();
    (text.len() <= LONGEST_VALUES).then(|| comment(&text))
}

/// Whether the types, the comments or the defaults say all keywords but those that are `unsaid` here.
pub fn say_all(map: &Map<String, Value>, unsaid: &[&str]) -> bool {
    let said = |key: &str| SAID.contains(&key) && !unsaid.contains(&key);
    map.keys().all(|key| said(key) || SILENT.contains(&key.as_str()) || key.starts_with("x-"))
}

/// Bounds and the like, then the description; and whether that is all of them.
pub fn of(map: &Map<String, Value>) -> (Vec<String>, bool) {
    let mut notes: Vec<String> = Vec::new();
    notes.extend(range(map));
    let counted = [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "items"),
        ("minProperties", "maxProperties", "members"),
    ];
    for (min, max, what) in counted {
        let bounds = span(map.get(min).filter(|min| **min != 0), map.get(max));
        notes.extend(bounds.map(|bounds| format!("{bounds} {what}")));
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    notes.extend(text("format").map(str::to_owned));
    notes.extend(text("pattern").map(|pattern| format!("/{pattern}/")));
    notes.extend(text("contentEncoding").map(str::to_owned));
    notes.extend(text("contentMediaType").map(str::to_owned));
    notes.extend(map.get("multipleOf").map(|step| format!("multiple of {step}")));
    let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
    notes.extend(flag("uniqueItems").then(|| "unique".to_owned()));
    notes.extend(flag("deprecated").then(|| "deprecated".to_owned()));
    let examples: Vec<&Value> = match map.get("examples").or_else(|| map.get("example")) {
        Some(Value::Array(examples)) => examples.iter().collect(),
        example => example.into_iter().collect(),
    };
    let shown: Vec<String> = examples.iter().filter_map(|example| value(example)).collect();
    if !shown.is_empty() {
        notes.push(format!("e.g. {}", shown.join(", ")));
    }
    let (description, whole) = description(text("description").unwrap_or_default());
    notes.extend(Some(description).filter(|description| !description.is_empty()));
    (notes, whole && shown.len() == examples.len())
}

/// On one line, and whether it is whole.
fn description(text: &str) -> (String, bool) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => (format!("{}…", &text[..end]), false),
        None => (text, true),
    }
}

fn range(map: &Map<String, Value>) -> Option<String> {
    // Draft 4: a flag beside the bound. Later: a bound of its own.
    let bound = |key: &str, strict_key: &str| match (map.get(key), map.get(strict_key)) {
        (Some(bound), Some(Value::Bool(true))) => (None, Some(bound)),
        (bound, strict) => (bound, strict.filter(|strict| strict.is_number())),
    };
    let (min, above) = bound("minimum", "exclusiveMinimum");
    let (max, below) = bound("maximum", "exclusiveMaximum");
    let strict = [above.map(|above| format!("> {above}")), below.map(|below| format!("< {below}"))];
    let all: Vec<String> = span(min, max).into_iter().chain(strict.into_iter().flatten()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn span(min: Option<&Value>, max: Option<&Value>) -> Option<String> {
    match (min, max) {
        (Some(min), Some(max)) if min == max => Some(format!("exactly {min}")),
        (Some(min), Some(max)) => Some(format!("{min}..{max}")),
        (Some(min), None) => Some(format!(">= {min}")),
        (None, Some(max)) => Some(format!("<= {max}")),
        (None, None) => None,
    }
}
