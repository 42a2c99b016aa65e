//! Arguments held against a tool's `inputSchema`, as far as the definitions beside this file use JSON Schema.

use super::records::Record;
use serde_json::Value;

/// What is wrong with the arguments, if anything is.
pub(super) fn check(schema: &Value, args: &Record) -> Result<(), String> {
    let missing = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = missing.into_iter().find(|name| !args.contains_key(*name)) {
        return Err(format!("argument {name:?} is missing"));
    }
    for (name, value) in args {
        let property =
            schema["properties"].get(name).ok_or_else(|| format!("there is no argument {name:?}"))?;
        value_fits(property, value).map_err(|expected| format!("argument {name:?} must be {expected}"))?;
    }
    Ok(())
}

/// `Err`: what was expected.
fn value_fits(schema: &Value, value: &Value) -> Result<(), String> {
    match schema["type"].as_str() {
        Some("string") => text_fits(schema, value.as_str().ok_or("a string")?),
        Some("boolean") => value.as_bool().map(|_| ()).ok_or_else(|| "true or false".to_owned()),
        Some("integer") => {
            let (min, max) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
            let number = value.as_i64().ok_or("a whole number")?;
            match (min.is_none_or(|min| number >= min), max.is_none_or(|max| number <= max)) {
                (true, true) => Ok(()),
                (false, _) => Err(format!("{} or more", min.unwrap_or_default())),
                (_, false) => Err(format!("{} or less", max.unwrap_or_default())),
            }
        }
        Some("array") => {
            let items = value.as_array().ok_or("a list")?;
            let checked: Result<(), String> =
                items.iter().try_for_each(|item| value_fits(&schema["items"], item));
            checked.map_err(|expected| format!("a list, each of its entries {expected}"))
        }
        Some("object") => {
            let checked = check(schema, value.as_object().ok_or("an object")?);
            checked.map_err(|problem| format!("an object as the schema has it: {problem}"))
        }
        _ => Ok(()),
    }
}

fn text_fits(schema: &Value, text: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    if schema["minLength"].as_u64().is_some_and(|min| length < min) {
        return Err("longer".to_owned());
    }
    if let Some(max) = schema["maxLength"].as_u64().filter(|max| length > *max) {
        return Err(format!("{max} characters or less"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.iter().any(|one| one == text)
    {
        return Err(format!("one of {}", Value::from(allowed.clone())));
    }
    match schema["pattern"].as_str() {
        Some(pattern) if !has_shape(text, pattern) => Err(format!("as the pattern {pattern} has it")),
        _ => Ok(()),
    }
}

/// The patterns here are digits and what stands between them, perhaps optional as a whole.
fn has_shape(text: &str, pattern: &str) -> bool {
    let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
    let inner = pattern.strip_prefix('(').and_then(|rest| rest.strip_suffix(")?"));
    let shape = inner.unwrap_or(pattern).replace("\\d{4}", "0000").replace("\\d{2}", "00");
    let alike = |(c, s): (char, char)| if s == '0' { c.is_ascii_digit() } else { c == s };
    let same = text.len() == shape.len() && text.chars().zip(shape.chars()).all(alike);
    same || (inner.is_some() && text.is_empty())
}
