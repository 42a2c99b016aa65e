//! Whether arguments fit a tool's schema. Only what clearly does not is told; what cannot be judged fits.

use super::{of_arguments, reference};
use crate::wire::Raw;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::{Arc, OnceLock};

mod plain;

/// Schemas that are kept ready.
const KEPT: usize = 256;
/// A larger schema is not checked against: reading it takes longer than the upstream's own answer.
const LARGEST: usize = 128 << 10;
/// Nor are larger arguments checked.
const LARGEST_ARGUMENTS: usize = 1 << 20;
/// Values in a schema, those behind references counted wherever they are used.
const WORK: usize = 20_000;
/// What a regular expression counts.
const REGEX: usize = 200;
/// Deeper arguments are not checked against a schema that refers to itself: each level may double the work.
const DEEPEST: usize = 12;
/// Steps of one match of a `pattern`.
const BACKTRACKING: usize = 10_000;
/// Mistakes told at once.
const TOLD: usize = 5;
/// Characters of a mistake.
const LONGEST: usize = 300;
/// Digits that a number has in common with the text it was read from, whatever the number.
const EXACT_DIGITS: usize = 15;

/// The schemas of tools, ready for use. Kept by their definitions' bytes: a catalog that is read again changes nothing.
#[derive(Default)]
pub struct Checks(Mutex<VecDeque<(Raw, Option<Arc<Check>>)>>);

struct Check {
    schema: Value,
    /// Made for the first arguments that do not fit at first sight.
    full: OnceLock<Option<Full>>,
}

struct Full {
    validator: Validator,
    recursive: bool,
}

impl Checks {
    /// What is wrong with `args` by the schema in `definition`, one mistake a line. `tool` is for the log, in which a
    /// schema that cannot be used is named once.
    pub fn problem(&self, tool: impl Display, definition: &Raw, args: &Raw) -> Option<String> {
        if args.len() > LARGEST_ARGUMENTS || !exact(args) {
            return None;
        }
        let check = self.ready(&tool, definition)?;
        let args: Value = serde_json::from_slice(args).ok()?;
        if plain::surely_fit(&check.schema, &args) {
            return None;
        }
        let full = check.full.get_or_init(|| noted(&tool, compile(&check.schema))).as_ref()?;
        if full.recursive && depth(&args) > DEEPEST {
            return None;
        }
        mistakes(&full.validator, &args)?;
        mistakes(&full.validator, &without_optional_nulls(args, &check.schema))
    }

    fn ready(&self, tool: impl Display, definition: &Raw) -> Option<Arc<Check>> {
        let mut kept = self.0.lock();
        if let Some(at) = kept.iter().position(|(known, _)| known == definition) {
            let found = kept.remove(at)?;
            let check = found.1.clone();
            kept.push_front(found);
            return check;
        }
        let schema = of_arguments(definition).and_then(|schema| noted(tool, read(&schema)));
        let check = schema.map(|schema| Arc::new(Check { schema, full: OnceLock::new() }));
        kept.truncate(KEPT - 1);
        kept.push_front((definition.clone(), check.clone()));
        check
    }
}

/// Whoever has nothing to say of an optional argument may say null: many servers take that as if it was not there.
fn without_optional_nulls(mut args: Value, schema: &Value) -> Value {
    let optional = |name: &str| {
        let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
        !required && schema["properties"].get(name).is_some()
    };
    if let Some(members) = args.as_object_mut() {
        members.retain(|name, value| !value.is_null() || !optional(name));
    }
    args
}

fn noted<T>(tool: impl Display, outcome: Result<T, String>) -> Option<T> {
    let note = |why: &String| {
        tracing::warn!(%tool, why, "the arguments of this tool are not checked before calls");
    };
    outcome.inspect_err(note).ok()
}

fn read(schema: &Raw) -> Result<Value, String> {
    if schema.len() > LARGEST {
        return Err(format!("its schema has {} bytes", schema.len()));
    }
    serde_json::from_slice(schema).map_err(|error| error.to_string())
}

fn compile(schema: &Value) -> Result<Full, String> {
    let mut extent = Extent { root: schema, known: HashMap::new(), recursive: false };
    if extent.of(schema, 0) > WORK {
        return Err("its schema is too large, or refers to what is not in it".to_owned());
    }
    let recursive = extent.recursive;
    // Who names no draft may have meant an older one than the default.
    let drafts: &[Option<Draft>] = match schema.get("$schema") {
        Some(_) => &[None, Some(Draft::Draft202012)],
        None => &[Some(Draft::Draft202012), Some(Draft::Draft7), Some(Draft::Draft4)],
    };
    let mut failure = String::new();
    for draft in drafts {
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKING));
        let options = draft.map_or_else(|| options.clone(), |draft| options.clone().with_draft(draft));
        match options.build(schema) {
            Ok(validator) => return Ok(Full { validator, recursive }),
            Err(error) if failure.is_empty() => failure = shortened(&error.to_string()),
            Err(_) => {}
        }
    }
    Err(failure)
}

/// How large a schema is once every reference in it is followed; endless if one leads elsewhere than to a place in it.
struct Extent<'s> {
    root: &'s Value,
    known: HashMap<&'s str, Option<usize>>,
    recursive: bool,
}

impl<'s> Extent<'s> {
    fn of(&mut self, schema: &'s Value, depth: usize) -> usize {
        // References that lead ever deeper.
        if depth > 512 {
            return usize::MAX;
        }
        let below: &mut dyn Iterator<Item = &'s Value> = match schema {
            Value::Array(items) => &mut items.iter(),
            Value::Object(members) => &mut members.values(),
            _ => return 1,
        };
        let mut extent = 1_usize;
        for value in below {
            extent = extent.saturating_add(self.of(value, depth + 1));
        }
        let has = |key: &str| schema.get(key).is_some();
        let elsewhere = |key: &str| schema.get(key).is_some_and(Value::is_string);
        if depth > 0 && elsewhere("$id") || elsewhere("$dynamicRef") || elsewhere("$recursiveRef") {
            return usize::MAX;
        }
        if has("pattern") || has("patternProperties") {
            extent = extent.saturating_add(REGEX);
        }
        match schema.get("$ref") {
            Some(Value::String(to)) => extent.saturating_add(self.behind(to, depth)),
            _ => extent,
        }
    }

    fn behind(&mut self, to: &'s str, depth: usize) -> usize {
        match self.known.get(to) {
            Some(Some(extent)) => return *extent,
            Some(None) => {
                self.recursive = true;
                return 1;
            }
            None => {}
        }
        let Some(target) = reference::resolve(self.root, to) else { return usize::MAX };
        self.known.insert(to, None);
        let extent = self.of(target, depth + 1);
        self.known.insert(to, Some(extent));
        extent
    }
}

/// Whether every number in it is what its text says: the caller's bytes go to the upstream, whatever we could read.
fn exact(json: &[u8]) -> bool {
    let (mut in_string, mut escaped, mut digits) = (false, false, 0);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'0'..=b'9' => digits += 1,
            b'.' | b'-' | b'+' | b'e' | b'E' => {}
            _ => digits = 0,
        }
        if digits > EXACT_DIGITS {
            return false;
        }
    }
    true
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or_default()
}

fn mistakes(validator: &Validator, args: &Value) -> Option<String> {
    let mut lines = Vec::new();
    let mut more = 0;
    for error in validator.iter_errors(args) {
        match error.kind() {
            // No verdict.
            Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } | Kind::Referencing(_) => {
                return None;
            }
            _ if lines.len() == TOLD => more += 1,
            _ => lines.push(mistake(&error)),
        }
    }
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The property, and what was expected of it.
fn mistake(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let place = path.trim_start_matches('/').to_owned();
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") };
    let expected = match error.kind() {
        Kind::Required { property } => {
            return format!("- {} is missing", inside(property.as_str().unwrap_or_default()));
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let names = unexpected.iter().map(|name| inside(name)).collect::<Vec<_>>().join(", ");
            return shortened(&format!("- {names}: there is no such parameter"));
        }
        _ => error.masked_with(given(error.instance())).to_string(),
    };
    let place = if place.is_empty() { "the arguments" } else { &place };
    shortened(&format!("- {place}: {expected}"))
}

/// What was given, short enough to be repeated.
fn given(value: &Value) -> String {
    let text = value.to_string();
    match text.chars().count() {
        0..=60 => text,
        _ => match value {
            Value::Object(_) => "the object".to_owned(),
            Value::Array(_) => "the list".to_owned(),
            _ => "the value".to_owned(),
        },
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
