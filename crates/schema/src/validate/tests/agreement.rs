//! Verdicts compared with those of the jsonschema crate.

use super::super::json::TypeSet;
use super::super::{check, compile};
use super::*;
use serde_json::Map;

pub(super) const CATALOGS: &str = include_str!("../../../../../benches/data/livemcp-70.json");

/// Values of few kinds, so that they are often equal.
fn small_value() -> impl Strategy<Value = Value> {
    let values = vec![
        json!(0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(2),
        json!(-3),
        json!("a"),
        json!(""),
        json!("äö"),
        json!(null),
        json!(true),
        json!([]),
        json!([1]),
        json!({"a": 1}),
    ];
    proptest::sample::select(values)
}

/// One keyword with a value for it.
fn rule() -> impl Strategy<Value = Value> {
    let types = vec!["object", "array", "string", "integer", "number", "boolean", "null"];
    let kind = proptest::sample::select(types);
    let bounds = vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let sizes = vec!["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    prop_oneof![
        kind.clone().prop_map(|kind| json!({"type": kind})),
        (kind.clone(), kind)
            .prop_filter("distinct", |(a, b)| a != b)
            .prop_map(|(a, b)| json!({"type": [a, b]})),
        small_value().prop_map(|value| json!({"const": value})),
        proptest::collection::vec(small_value(), 1..4).prop_map(|values| json!({"enum": values})),
        (
            proptest::sample::select(bounds),
            proptest::sample::select(vec![json!(0), json!(1.0), json!(1.5), json!(-1)])
        )
            .prop_map(|(keyword, bound)| json!({keyword: bound})),
        (proptest::sample::select(sizes), 0..3).prop_map(|(keyword, size)| json!({keyword: size})),
        (1..4).prop_map(|divisor| json!({"multipleOf": divisor})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"required": ["a"], "title": "t"})),
        Just(json!({"required": ["b", "c"]})),
        Just(json!({"$ref": "#/$defs/d"})),
        Just(json!({"$ref": "#"})),
    ]
}

pub(super) fn valid_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        rule(),
        (rule(), rule()).prop_map(|(a, b)| merged(&[a, b]))
    ];
    let schema = leaf.prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        let rules = prop_oneof![
            inner.clone().prop_map(|a| json!({"items": a, "format": "email"})),
            two.clone().prop_map(|(a, b)| json!({"prefixItems": [a], "items": b})),
            two.clone().prop_map(|(a, b)| json!({"properties": {"a": a}, "additionalProperties": b})),
            two.clone().prop_map(|(a, b)| json!({"anyOf": [a, b]})),
            two.clone().prop_map(|(a, b)| json!({"oneOf": [a, b, {"type": "null"}]})),
            two.clone().prop_map(|(a, b)| json!({"allOf": [a, b]})),
            two.prop_map(|(a, b)| json!({"properties": {"a": a, "b": b}, "type": "object"})),
        ];
        (rules, rule()).prop_map(|(a, b)| merged(&[a, b]))
    });
    (schema.clone(), schema).prop_map(|(root, definition)| match root {
        Value::Object(mut members) => {
            members.insert("$defs".to_owned(), json!({"d": definition}));
            Value::from(members)
        }
        other => other,
    })
}

/// The keywords of several schemas in one.
fn merged(schemas: &[Value]) -> Value {
    let members = schemas.iter().filter_map(Value::as_object).flatten();
    members.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}

pub(super) fn arguments() -> impl Strategy<Value = Value> {
    small_value().prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"a": a, "b": b})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"c": a, "b": b})),
            inner.prop_map(|a| json!({"a": a})),
        ]
    })
}

/// The jsonschema crate's validator.
pub(super) fn oracle(schema: &Value) -> Option<jsonschema::Validator> {
    jsonschema::options().offline().should_validate_formats(false).build(schema).ok()
}

/// Whether the verdict does not contradict what is known.
fn agrees(verdict: &ArgumentVerdict, is_valid: bool) -> bool {
    match verdict {
        ArgumentVerdict::Fits => is_valid,
        ArgumentVerdict::Misfit(_) | ArgumentVerdict::OptionalNulls => !is_valid,
        ArgumentVerdict::Unknown => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2000 }))]

    #[test]
    fn verdicts_do_not_contradict_the_jsonschema_crate(
        schema in valid_schema(),
        args in arguments(),
        pretty in any::<bool>(),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&args).unwrap() } else { args.to_string() };
        let verdict = verdict(&schema, &text);
        if let Some(oracle) = oracle(&schema) {
            prop_assert!(agrees(&verdict, oracle.is_valid(&args)), "{verdict:?}");
        }
    }
}

/// A sequence of numbers that looks random.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    fn any_value(&mut self) -> Value {
        let values = [
            json!(null),
            json!(true),
            json!("x"),
            json!(-7),
            json!(2.5),
            json!([1, 1]),
            json!({"q": 1}),
            json!(4e9),
        ];
        values[self.below(values.len())].clone()
    }

    /// A value that mostly fits the schema.
    pub(super) fn value(&mut self, root: &Value, schema: &Value, depth: usize) -> Value {
        if depth == 0 || self.below(12) == 0 {
            return self.any_value();
        }
        if let Some(target) = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?)) {
            return self.value(root, target, depth - 1);
        }
        for keyword in ["enum", "anyOf", "oneOf", "allOf"] {
            if let Some(list) = schema[keyword].as_array().filter(|list| !list.is_empty()) {
                let chosen = &list[self.below(list.len())];
                return if keyword == "enum" { chosen.clone() } else { self.value(root, chosen, depth - 1) };
            }
        }
        let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
        let bound = |keyword: &str| schema[keyword].as_i64();
        match types[self.below(types.len())].as_str() {
            Some("string") => json!("w".repeat(self.below(8) + bound("minLength").unwrap_or(0) as usize)),
            Some("integer") => json!(bound("minimum").unwrap_or(0) + self.below(12) as i64),
            Some("number") => json!(bound("minimum").unwrap_or(0) as f64 + self.below(12) as f64 / 4.0),
            Some("boolean") => json!(self.below(2) == 0),
            Some("null") => Value::Null,
            Some("array") => {
                (0..self.below(4)).map(|_| self.value(root, &schema["items"], depth - 1)).collect()
            }
            Some("object") => self.object(root, schema, depth),
            _ if schema.get("properties").is_some() => self.object(root, schema, depth),
            _ => self.any_value(),
        }
    }

    fn object(&mut self, root: &Value, schema: &Value, depth: usize) -> Value {
        let mut members = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
            if self.below(if is_required { 24 } else { 2 }) != 0 {
                members.insert(name.clone(), self.value(root, property, depth - 1));
            }
        }
        if self.below(12) == 0 {
            members.insert("surplus".to_owned(), self.any_value());
        }
        members.into()
    }
}

#[test]
fn verdicts_on_real_tools_do_not_contradict_the_jsonschema_crate() {
    let catalogs: Vec<Value> = serde_json::from_str(CATALOGS).unwrap();
    let tools: Vec<&Value> =
        catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap()).collect();
    let mut random = Random(1);
    let (mut fitting, mut misfitting) = (0, 0);
    let (mut invalid, mut incomplete) = (Vec::new(), Vec::new());
    for tool in &tools {
        let schema = &tool["inputSchema"];
        let compiled = compile::compile(schema.to_string().as_bytes()).unwrap();
        if compiled.iter().any(|node| node.unchecked != TypeSet::NONE) {
            incomplete.push(tool["name"].as_str().unwrap());
        }
        let Some(oracle) = oracle(schema) else {
            invalid.push(tool["name"].as_str().unwrap());
            continue;
        };
        for _ in 0..40 {
            let args = random.value(schema, schema, 6);
            let verdict = check::check(&compiled, args.to_string().as_bytes());
            let is_valid = oracle.is_valid(&args);
            assert!(
                agrees(&verdict, is_valid),
                "{} {args} {verdict:?} {:?}",
                tool["name"],
                oracle.validate(&args)
            );
            fitting += usize::from(verdict == ArgumentVerdict::Fits);
            misfitting += usize::from(matches!(verdict, ArgumentVerdict::Misfit(_)));
        }
    }
    assert_eq!(tools.len(), 527);
    assert_eq!(invalid, ["read_pdf"], "schemas that are invalid JSON Schema");
    assert!(fitting > 5000 && misfitting > 5000, "{fitting} {misfitting}");
    assert_eq!(
        incomplete.len(),
        7,
        "tools with rules that are not checked, such as `pattern` and `not`: {incomplete:?}"
    );
}
