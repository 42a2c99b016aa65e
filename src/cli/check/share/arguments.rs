//! Arguments that are made from the input schema of a tool.

use schema::reference;
use serde_json::{Map, Value, json};

/// Objects and lists that are nested deeper are left empty.
const MAX_DEPTH: usize = 4;
/// How many references and alternatives are followed from one schema.
const MAX_STEPS: usize = 20;
/// The most items of a list.
const MAX_ITEMS: u64 = 10;
/// Every tool gets the same texts, so that one finds what another one kept under them.
const WORDS: [&str; 2] = ["one", "two"];

/// Returns arguments for a tool with this input schema: the required ones, the same with other values, and all, each
/// once. Whether they mean anything to the tool is not known.
pub(super) fn generate(schema: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for (round, takes_all) in [(0, false), (1, false), (1, true)] {
        let arguments = ArgumentMaker { root: schema, round, takes_all }.object(schema, 0);
        if !found.contains(&arguments) {
            found.push(arguments);
        }
    }
    found
}

/// Makes one object.
struct ArgumentMaker<'s> {
    /// The document in which references are resolved.
    root: &'s Value,
    /// Chooses among the possible values.
    round: usize,
    /// Whether optional members are set.
    takes_all: bool,
}

impl<'s> ArgumentMaker<'s> {
    /// Follows references, and the first alternative that is not `null`.
    fn resolved(&self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..MAX_STEPS {
            let alternatives = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema[key].as_array());
            schema = match (schema["$ref"].as_str(), alternatives) {
                (Some(target), _) => reference::resolve(self.root, target).unwrap_or(&Value::Null),
                (None, Some(all)) => all.iter().find(|one| one["type"] != "null").unwrap_or(&Value::Null),
                (None, None) => return schema,
            };
        }
        &Value::Null
    }

    fn object(&self, schema: &'s Value, depth: usize) -> Value {
        let schema = self.resolved(schema);
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let members = schema["properties"].as_object().into_iter().flatten();
        let wanted = members.filter(|(name, _)| self.takes_all || required.contains(&name.as_str()));
        wanted
            .map(|(name, schema)| (name.clone(), self.value(schema, depth + 1)))
            .collect::<Map<_, _>>()
            .into()
    }

    fn value(&self, schema: &'s Value, depth: usize) -> Value {
        // What stands beside a reference or alternatives counts first.
        for schema in [schema, self.resolved(schema)] {
            let listed = ["examples", "enum"].iter().filter_map(|key| schema[key].as_array()).flatten();
            let values: Vec<&Value> =
                ["const", "default"].iter().filter_map(|key| schema.get(key)).chain(listed).collect();
            if let Some(value) =
                values.get(self.round).or_else(|| values.last()).filter(|value| !value.is_null())
            {
                return (*value).clone();
            }
        }
        let schema = self.resolved(schema);
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap_or(&Value::Null),
            kind => kind,
        };
        match kind.as_str() {
            _ if depth > MAX_DEPTH => Value::Null,
            Some("integer" | "number") => self.number(schema),
            Some("boolean") => json!(self.round > 0),
            Some("null") => Value::Null,
            Some("array") => {
                let count = schema["minItems"].as_u64().unwrap_or(1).clamp(1, MAX_ITEMS);
                (0..count).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            Some("object") => self.object(schema, depth),
            None if schema["properties"].is_object() => self.object(schema, depth),
            _ => json!(self.text(schema)),
        }
    }

    /// Returns the lowest number that is allowed, or the next one, if that is allowed.
    fn number(&self, schema: &Value) -> Value {
        let limit = |key: &str| schema[key].as_i64();
        let above = limit("exclusiveMinimum").map(|limit| limit.saturating_add(1));
        let below = limit("exclusiveMaximum").map(|limit| limit.saturating_sub(1));
        let least = limit("minimum").or(above);
        let most = limit("maximum").or(below).unwrap_or(i64::MAX);
        let step = limit("multipleOf").filter(|step| *step > 0).unwrap_or(1);
        let first = least.unwrap_or_else(|| most.min(1));
        // The first multiple from there on.
        let first = first.saturating_add((step - first.rem_euclid(step)) % step);
        let next = first.saturating_add(step);
        json!(if self.round > 0 && next <= most { next } else { first })
    }

    fn text(&self, schema: &Value) -> String {
        let day = self.round + 1;
        match schema["format"].as_str().unwrap_or_default() {
            "date" => return format!("2024-02-0{day}"),
            "date-time" => return format!("2024-02-0{day}T10:00:00Z"),
            "time" => return format!("1{day}:00:00Z"),
            "email" => return format!("{}@example.com", WORDS[self.round]),
            "uri" | "url" => return format!("https://example.com/{}", WORDS[self.round]),
            "uuid" => return format!("00000000-0000-4000-8000-00000000000{day}"),
            _ => {}
        }
        let limit = |key: &str| schema[key].as_u64().and_then(|limit| usize::try_from(limit).ok());
        let (least, most) = (limit("minLength").unwrap_or(0).min(1000), limit("maxLength").unwrap_or(1000));
        format!("{:x<least$}", WORDS[self.round]).chars().take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::validate::{ArgumentValidator, ArgumentVerdict};

    #[test]
    fn arguments_are_made_from_every_part_of_a_schema() {
        let schema = json!({
            "type": "object",
            "required": ["text", "count", "kind", "when", "list", "nested"],
            "properties": {
                "text": {"type": "string", "minLength": 5},
                "count": {"type": "integer", "minimum": 3, "multipleOf": 5, "maximum": 20},
                "kind": {"enum": ["a", "b"]},
                "when": {"type": "string", "format": "date"},
                "list": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/flag"}},
                "nested": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["x"], "properties": {"x": {"const": 7}}}]},
                "more": {"type": ["null", "number"], "default": 1.5, "examples": [2.5]},
            },
            "$defs": {"flag": {"type": "boolean"}},
        });
        let least = json!({
            "text": "onexx", "count": 5, "kind": "a", "when": "2024-02-01", "list": [false, false], "nested": {"x": 7},
        });
        let mut other = json!({
            "text": "twoxx", "count": 10, "kind": "b", "when": "2024-02-02", "list": [true, true], "nested": {"x": 7},
        });
        let made = generate(&schema);
        assert_eq!(made[..2], [least, other.clone()]);
        other["more"] = json!(2.5);
        assert_eq!(made[2..], [other]);
        let definition = json!({"inputSchema": schema}).to_string().into();
        for arguments in made {
            let verdict =
                ArgumentValidator::default().validate("t", &definition, arguments.to_string().as_bytes());
            assert!(!matches!(verdict, ArgumentVerdict::Misfit(_)), "{arguments}");
        }
    }

    #[test]
    fn a_tool_without_parameters_gets_one_empty_object_and_no_schema_is_too_deep() {
        assert_eq!(generate(&json!({"type": "object"})), [json!({})]);
        assert_eq!(generate(&Value::Null), [json!({})]);
        let endless = json!({"required": ["x"], "properties": {"x": {"$ref": "#"}}});
        assert!(generate(&endless)[0]["x"]["x"].is_object());
        let circle = json!({"required": ["x"], "properties": {"x": {"$ref": "#/properties/x"}}});
        assert_eq!(generate(&circle)[0], json!({"x": "one"}));
    }
}
