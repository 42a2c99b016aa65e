//! Whether arguments surely fit a schema, told without the full validator: its code and tables cost more memory than
//! everything else, and nearly all schemas of tools say only what is understood here.

use crate::schema::reference;
use serde_json::{Map, Value};

/// Schemas looked at for one call. References may lead to each other without end.
const STEPS: usize = 20_000;
/// And how deep in one another they are followed.
const DEPTH: usize = 100;
/// Larger numbers in a schema need not be what their text says.
const EXACT: f64 = 9e15;

/// `false` says nothing. `true` holds in every draft of JSON Schema.
pub(super) fn surely_fit(schema: &Value, args: &Value) -> bool {
    Walk { root: schema, steps: STEPS, depth: DEPTH }.fits(schema, args)
}

struct Walk<'s> {
    root: &'s Value,
    /// What is left of both.
    steps: usize,
    depth: usize,
}

impl<'s> Walk<'s> {
    fn fits(&mut self, schema: &'s Value, value: &Value) -> bool {
        if self.steps == 0 || self.depth == 0 {
            return false;
        }
        self.steps -= 1;
        self.depth -= 1;
        let fits = match schema {
            Value::Bool(all) => *all,
            Value::Object(rules) => {
                rules.iter().all(|(keyword, rule)| self.keeps(keyword, rule, rules, value))
            }
            _ => false,
        };
        self.depth += 1;
        fits
    }

    /// Whether the value keeps one rule. A rule that is not known, or not written as it should be, is not kept.
    fn keeps(
        &mut self,
        keyword: &str,
        rule: &'s Value,
        rules: &'s Map<String, Value>,
        value: &Value,
    ) -> bool {
        match keyword {
            "$schema" | "$comment" | "$defs" | "definitions" | "title" | "description" | "default"
            | "examples" | "example" | "nullable" | "format" | "deprecated" | "readOnly" | "writeOnly" => {
                true
            }
            "type" => match rule {
                Value::String(name) => is_of(value, name),
                Value::Array(names) => names.iter().filter_map(Value::as_str).any(|name| is_of(value, name)),
                _ => false,
            },
            "enum" => rule.as_array().is_some_and(|choices| choices.contains(value)),
            "const" => rule == value,
            "required" => rule.as_array().is_some_and(|names| names.iter().all(|name| has(value, name))),
            "minimum" => compare(value, rule, |value, bound| value >= bound),
            "maximum" => compare(value, rule, |value, bound| value <= bound),
            "exclusiveMinimum" => compare(value, rule, |value, bound| value > bound),
            "exclusiveMaximum" => compare(value, rule, |value, bound| value < bound),
            "minLength" => {
                count(value.as_str().map(|text| text.chars().count()), rule, |n, bound| n >= bound)
            }
            "maxLength" => {
                count(value.as_str().map(|text| text.chars().count()), rule, |n, bound| n <= bound)
            }
            "minItems" => count(value.as_array().map(Vec::len), rule, |n, bound| n >= bound),
            "maxItems" => count(value.as_array().map(Vec::len), rule, |n, bound| n <= bound),
            // Older drafts have a list of schemas there, which is not one.
            "items" => value.as_array().is_none_or(|items| items.iter().all(|item| self.fits(rule, item))),
            "properties" | "additionalProperties" | "propertyNames" => {
                let Some(members) = value.as_object() else { return true };
                let known = rules.get("properties").and_then(Value::as_object);
                let known = |name: &str| known.and_then(|known| known.get(name));
                members.iter().all(|(name, member)| match (keyword, known(name)) {
                    ("properties", Some(schema)) => self.fits(schema, member),
                    ("properties", None) => rule.is_object(),
                    ("additionalProperties", Some(_)) => true,
                    ("additionalProperties", None) => self.fits(rule, member),
                    _ => self.fits(rule, &Value::from(name.as_str())),
                })
            }
            "anyOf" => rule.as_array().is_some_and(|any| any.iter().any(|schema| self.fits(schema, value))),
            "allOf" => rule.as_array().is_some_and(|all| all.iter().all(|schema| self.fits(schema, value))),
            "$ref" => {
                let target = rule.as_str().and_then(|to| reference::resolve(self.root, to));
                target.is_some_and(|schema| self.fits(schema, value))
            }
            _ => false,
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // 1.0 is one in some drafts.
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    }
}

fn has(value: &Value, name: &Value) -> bool {
    value.as_object().is_none_or(|members| name.as_str().is_some_and(|name| members.contains_key(name)))
}

fn compare(value: &Value, bound: &Value, holds: fn(f64, f64) -> bool) -> bool {
    let Some(bound) = bound.as_f64().filter(|bound| bound.abs() < EXACT) else { return false };
    !value.is_number() || value.as_f64().is_some_and(|value| holds(value, bound))
}

/// What has no size keeps every rule about sizes.
fn count(size: Option<usize>, bound: &Value, holds: fn(u64, u64) -> bool) -> bool {
    bound.as_u64().is_some_and(|bound| size.is_none_or(|size| holds(size as u64, bound)))
}
