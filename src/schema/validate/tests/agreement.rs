//! Verdicts compared with those of a naive reference implementation, and of the jsonschema crate.

use super::*;
use serde_json::Map;

const CATALOGS: &str = include_str!("../../../../benches/data/livemcp-70.json");

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

fn valid_schema() -> impl Strategy<Value = Value> {
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

fn arguments() -> impl Strategy<Value = Value> {
    small_value().prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"a": a, "b": b})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"c": a, "b": b})),
            inner.prop_map(|a| json!({"a": a})),
        ]
    })
}

/// A reference implementation of the checked keywords. `None` where references lead on for too long.
fn naive_fit(root: &Value, schema: &Value, value: &Value, depth: usize) -> Option<bool> {
    let depth = depth.checked_sub(1)?;
    let rules = match schema {
        Value::Bool(all) => return Some(*all),
        // A reference.
        Value::String(to) => return naive_fit(root, root.pointer(&to[1..])?, value, depth),
        rules => rules.as_object().unwrap(),
    };
    let apply = |schema: &Value, value: &Value| naive_fit(root, schema, value, depth);
    let mut fits = true;
    for (keyword, rule) in rules {
        fits &= keeps_rule(keyword, rule, value) && keeps_schemas(keyword, rules, value, &apply)?;
    }
    Some(fits)
}

/// Whether the value keeps a rule that has no schemas in it.
fn keeps_rule(keyword: &str, rule: &Value, value: &Value) -> bool {
    let number =
        |holds: fn(f64, f64) -> bool| value.as_f64().is_none_or(|value| holds(value, rule.as_f64().unwrap()));
    let size = |size: Option<usize>, holds: fn(u64, u64) -> bool| {
        size.is_none_or(|size| holds(size as u64, rule.as_u64().unwrap()))
    };
    let text = value.as_str().map(|text| text.chars().count());
    let (items, members) = (value.as_array(), value.as_object());
    match keyword {
        "type" => {
            let names = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
            names.iter().any(|name| has_type(value, name.as_str().unwrap()))
        }
        "enum" => rule.as_array().unwrap().iter().any(|choice| are_equal(choice, value)),
        "const" => are_equal(rule, value),
        "minimum" => number(|value, bound| value >= bound),
        "maximum" => number(|value, bound| value <= bound),
        "exclusiveMinimum" => number(|value, bound| value > bound),
        "exclusiveMaximum" => number(|value, bound| value < bound),
        "multipleOf" => number(|value, divisor| value % divisor == 0.0),
        "minLength" => size(text, |size, bound| size >= bound),
        "maxLength" => size(text, |size, bound| size <= bound),
        "minItems" => size(items.map(Vec::len), |size, bound| size >= bound),
        "maxItems" => size(items.map(Vec::len), |size, bound| size <= bound),
        "minProperties" => size(members.map(Map::len), |size, bound| size >= bound),
        "maxProperties" => size(members.map(Map::len), |size, bound| size <= bound),
        "uniqueItems" => items.is_none_or(|items| {
            items.iter().enumerate().all(|(at, a)| items[..at].iter().all(|b| !are_equal(a, b)))
        }),
        "required" => members.is_none_or(|members| {
            rule.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
        }),
        _ => true,
    }
}

/// Whether the value and its parts fit the schemas of a keyword.
fn keeps_schemas(
    keyword: &str,
    rules: &Map<String, Value>,
    value: &Value,
    apply: &dyn Fn(&Value, &Value) -> Option<bool>,
) -> Option<bool> {
    let rule = &rules[keyword];
    let count = |schemas: &Value| -> Option<usize> {
        let fits = schemas.as_array().unwrap().iter().map(|schema| apply(schema, value));
        Some(fits.collect::<Option<Vec<bool>>>()?.into_iter().filter(|fit| *fit).count())
    };
    let items = value.as_array().into_iter().flatten();
    let members = value.as_object().into_iter().flatten();
    let declared = |name: &str| rules.get("properties").and_then(|properties| properties.get(name));
    let fits: Vec<Option<bool>> = match keyword {
        "prefixItems" => {
            items.zip(rule.as_array().unwrap()).map(|(item, schema)| apply(schema, item)).collect()
        }
        "items" => {
            let first = rules.get("prefixItems").map_or(0, |prefix| prefix.as_array().unwrap().len());
            items.skip(first).map(|item| apply(rule, item)).collect()
        }
        "properties" => members.filter_map(|(name, member)| Some(apply(declared(name)?, member))).collect(),
        "additionalProperties" => {
            let others = members.filter(|(name, _)| declared(name).is_none());
            others.map(|(_, member)| apply(rule, member)).collect()
        }
        "anyOf" => vec![Some(count(rule)? > 0)],
        "oneOf" => vec![Some(count(rule)? == 1)],
        "allOf" => vec![Some(count(rule)? == rule.as_array().unwrap().len())],
        "$ref" => vec![apply(rule, value)],
        _ => Vec::new(),
    };
    Some(fits.into_iter().collect::<Option<Vec<bool>>>()?.into_iter().all(|fit| fit))
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        _ => value.as_f64().is_some_and(|number| number.fract() == 0.0),
    }
}

fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| are_equal(a, b)))
        }
        _ => a == b,
    }
}

/// The jsonschema crate's validator, set up as this one reads schemas.
fn oracle(schema: &Value) -> Option<jsonschema::Validator> {
    use jsonschema::Draft;
    let drafts: &[Option<Draft>] = match schema.get("$schema") {
        Some(_) => &[None, Some(Draft::Draft202012)],
        None => &[Some(Draft::Draft202012), Some(Draft::Draft7), Some(Draft::Draft4)],
    };
    drafts.iter().find_map(|draft| {
        let options = jsonschema::options().offline().should_validate_formats(false);
        draft.map_or_else(|| options.clone(), |draft| options.clone().with_draft(draft)).build(schema).ok()
    })
}

/// Whether the verdict does not contradict what is known.
fn agrees(verdict: &ArgumentVerdict, is_valid: bool) -> bool {
    match verdict {
        ArgumentVerdict::Fits => is_valid,
        ArgumentVerdict::Misfit(_) => !is_valid,
        ArgumentVerdict::Unknown => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn verdicts_are_those_of_the_reference(schema in valid_schema(), args in arguments(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&args).unwrap() } else { args.to_string() };
        let verdict = verdict(&schema, &text);
        if let Some(is_valid) = naive_fit(&schema, &schema, &args, 24) {
            prop_assert!(agrees(&verdict, is_valid), "{verdict:?}");
            let has_null = args.as_object().is_some_and(|members| members.values().any(Value::is_null));
            prop_assert!(verdict != ArgumentVerdict::Unknown || has_null, "a verdict is possible");
        }
    }

    #[test]
    fn verdicts_do_not_contradict_the_jsonschema_crate(
        schema in prop_oneof![valid_schema(), schema_like_json()], args in arguments(),
    ) {
        let recursive = schema.to_string().contains("\"$ref\"");
        if let Some(oracle) = Some(&schema).filter(|_| !recursive).and_then(oracle) {
            let verdict = verdict(&schema, &args.to_string());
            prop_assert!(agrees(&verdict, oracle.is_valid(&args)), "{verdict:?}");
        }
    }
}

/// A sequence of numbers that looks random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
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
    fn value(&mut self, root: &Value, schema: &Value, depth: usize) -> Value {
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
    let (mut fitting, mut misfitting, mut incomplete) = (0, 0, 0);
    for tool in &tools {
        let schema = &tool["inputSchema"];
        let compiled = compile::compile(schema.to_string().as_bytes()).unwrap();
        incomplete += usize::from(!compiled.is_checked_completely());
        let oracle = oracle(schema).unwrap();
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
    assert!(fitting > 5000 && misfitting > 5000, "{fitting} {misfitting}");
    assert_eq!(incomplete, 4, "tools with rules that are not checked: `pattern` and `not`");
}
