//! Repairs of arguments that do not fit.

use super::super::json::TypeSet;
use super::super::{check, compile, repair};
use super::agreement::{CATALOGS, Random, arguments, oracle, valid_schema};
use super::*;
use std::collections::BTreeMap;

/// The arguments as they are repaired for a tool that destroys nothing.
fn repaired(schema: &Value, args: &str) -> Option<String> {
    repaired_with(schema, args, true)
}

fn repaired_with(schema: &Value, args: &str, drops_nulls: bool) -> Option<String> {
    let repaired =
        ArgumentValidator::default().repair("t", &definition_of(schema), args.as_bytes(), drops_nulls);
    repaired.map(|text| String::from_utf8(text.to_vec()).unwrap())
}

/// A schema with one optional property, `p`.
fn property(schema: Value) -> Value {
    json!({"type": "object", "properties": {"p": schema}})
}

#[test]
fn what_models_get_wrong_is_repaired() {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let integers = json!({"type": "array", "items": {"type": "integer"}});
    let range = json!({"type": "object", "properties": {"from": {"type": "integer"}}, "required": ["from"]});
    let optional = |schema: &Value| json!({"anyOf": [schema, {"type": "null"}]});
    for (schema, value, expected) in [
        (json!({"type": "integer"}), r#""5""#, "5"),
        (json!({"type": "integer"}), r#""-0""#, "-0"),
        (json!({"type": "integer", "format": "int64"}), r#""5""#, "5"),
        (json!({"type": "number"}), r#""0.10""#, "0.10"),
        (json!({"type": "integer"}), r#""123456789012345678901234567890""#, "123456789012345678901234567890"),
        (json!({"type": "number"}), r#""\u0035""#, "5"),
        (json!({"enum": [1, 2]}), r#""2""#, "2"),
        (json!({"type": "string"}), "5", r#""5""#),
        (json!({"type": "string"}), "-1.50e3", r#""-1.50e3""#),
        (json!({"type": "string", "enum": ["1", "2"]}), "2", r#""2""#),
        (json!({"type": "boolean"}), r#""true""#, "true"),
        (json!({"type": "boolean"}), r#""False""#, "false"),
        (range.clone(), r#""{\"from\": 1e400 }""#, r#"{"from": 1e400 }"#),
        (range.clone(), r#""{\"from\":\n\"1\"}""#, r#"{"from": 1}"#),
        (strings.clone(), r#""[\"a\", \"b,c\"]""#, r#"["a", "b,c"]"#),
        (strings.clone(), r#""a""#, r#"["a"]"#),
        (strings.clone(), "7", r#"["7"]"#),
        (strings.clone(), "[1, \"b\",2 ]", r#"["1", "b","2" ]"#),
        (strings.clone(), r#""[1, 2]""#, r#"["1", "2"]"#),
        (integers.clone(), r#""7""#, "[7]"),
        (integers.clone(), "7", "[7]"),
        (json!({"type": "array"}), r#"{"a":1}"#, r#"[{"a":1}]"#),
        (json!({"type": "array", "items": range}), r#""{\"from\":\"1\"}""#, r#"[{"from":1}]"#),
        (optional(&json!({"type": "integer"})), r#""5""#, "5"),
        (optional(&strings), r#""a""#, r#"["a"]"#),
        (optional(&range), r#"{"from":"5"}"#, r#"{"from":5}"#),
        (optional(&range), r#""{\"from\":\"5\"}""#, r#"{"from":5}"#),
        (json!({"allOf": [{"type": "integer"}, {"minimum": 3}]}), r#""5""#, "5"),
        (
            json!({"additionalProperties": {"type": "string"}}),
            r#"{"a": 1, "b":"x"}"#,
            r#"{"a": "1", "b":"x"}"#,
        ),
        (
            json!({"type": "array", "items": {"type": "string", "format": "uri"}}),
            r#""http://a""#,
            r#"["http://a"]"#,
        ),
    ] {
        let (args, expected) = (format!(r#"{{ "p" : {value} }}"#), format!(r#"{{ "p" : {expected} }}"#));
        assert_eq!(repaired(&property(schema.clone()), &args), Some(expected), "{schema} {value}");
    }
}

#[test]
fn what_is_not_certain_is_not_repaired() {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let point = |type_name: &str| json!({"properties": {"x": {"type": type_name}}, "required": ["x"]});
    for (schema, value, why) in [
        (json!({"type": "integer"}), r#""5 ""#, "no number"),
        (json!({"type": "integer"}), r#""05""#, "no number in JSON"),
        (json!({"type": "integer"}), r#""0x5""#, "no decimal"),
        (json!({"type": "number"}), r#""1e3""#, "no decimal"),
        (json!({"type": "number"}), r#""5.""#, "no decimal"),
        (json!({"type": "integer"}), r#""5.5""#, "no integer"),
        (json!({"type": "integer", "maximum": 4}), r#""5""#, "does not fit either"),
        (json!({"type": "integer"}), r#""\ud800""#, "no text"),
        (json!({"type": "boolean"}), r#""yes""#, "no boolean"),
        (json!({"type": "boolean"}), "1", "no boolean"),
        (json!({"type": "string"}), "true", "no string"),
        (json!({"type": "string", "pattern": "^a"}), "5", "the pattern is not checked"),
        (json!({"type": "string", "format": "date"}), "5", "the format is not checked"),
        (json!({"type": "string"}), r#"{"a":1}"#, "no string"),
        (json!({"type": "object"}), r#""{'a': 1}""#, "no JSON"),
        (json!({"type": "object"}), r#""{\"a\":1} ""#.trim_end_matches('"'), "not complete"),
        (strings.clone(), r#""a, b""#, "one element or two"),
        (strings.clone(), r#""""#, "one element or none"),
        (json!({"minLength": 3}), r#""ab""#, "another type would only evade the rule"),
        (json!({"minimum": 3}), "1", "another type would only evade the rule"),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}),
            "5",
            "a string or a list",
        ),
        (json!({"anyOf": [point("string"), point("boolean")]}), r#"{"x":1.5,"y":{}}"#, ""),
        (
            json!({"oneOf": [point("integer"), {"properties": {"x": {"type": "integer"}}, "required": ["x"]}]}),
            r#"{"x":"1"}"#,
            "fits both alternatives",
        ),
        (json!({"properties": {"x": {"type": "integer"}}}), r#"{"x":"1","x":"2"}"#, "a repeated key"),
    ] {
        let args = format!(r#"{{"p":{value}}}"#);
        let repaired = repaired(&property(schema.clone()), &args);
        if why.is_empty() {
            assert_eq!(repaired.as_deref(), Some(r#"{"p":{"x":"1.5","y":{}}}"#));
        } else {
            assert_eq!(repaired, None, "{schema} {value}: {why}");
        }
    }
    let two = json!({"properties": {"p": {"type": "integer"}, "q": {"type": "integer"}}});
    assert_eq!(repaired(&two, r#"{"p":"1","q":"2", "r" :"3"}"#).unwrap(), r#"{"p":1,"q":2, "r" :"3"}"#);
}

#[test]
fn what_can_be_repaired_is_repaired_beside_what_cannot() {
    let schema = json!({
        "properties": {
            "n": {"type": "integer"},
            "b": {"type": "boolean"},
            "e": {"enum": ["open"]},
            "o": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}},
        },
        "required": ["n"],
        "additionalProperties": false,
    });
    for (args, expected) in [
        (r#"{"n":"7", "b":0 ,"x" : 1}"#, Some(r#"{"n":7, "b":0 ,"x" : 1}"#)),
        (r#"{"n":"7","b":"true","e":"OPEN"}"#, Some(r#"{"n":7,"b":true,"e":"OPEN"}"#)),
        (r#"{"b":"false"}"#, Some(r#"{"b":false}"#)),
        (r#"{"n":"x","o":"{\"a\":1.50e0}"}"#, None),
        (r#"{"n":"x","o":"{\"a\": 1}"}"#, Some(r#"{"n":"x","o":{"a": 1}}"#)),
        (r#"{"n":1,"b":"yes"}"#, None),
        (r#"{"n":1,"o":{"a":"1","b":1}}"#, Some(r#"{"n":1,"o":{"a":1,"b":1}}"#)),
        (r#"{"input":{"n":"7","b":0}}"#, None),
    ] {
        assert_eq!(repaired(&schema, args).as_deref(), expected, "{args}");
    }
}

#[test]
fn null_for_an_optional_property_is_dropped_unless_the_tool_is_destructive() {
    let inner = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let schema = json!({
        "properties": {"o": inner, "n": {"type": "integer"}, "s": {"type": ["string", "null"]}, "r": {"type": "string"}},
        "required": ["r"],
    });
    for (args, dropped, kept) in [
        (r#"{ "n": null , "r":"x"}"#, Some(r#"{ "r":"x"}"#), None),
        (r#"{"r":"x", "n":null}"#, Some(r#"{"r":"x"}"#), None),
        (r#"{"r":"x","n":null,"o" : null, "s":null}"#, Some(r#"{"r":"x", "s":null}"#), None),
        (r#"{"r":1,"n":null}"#, Some(r#"{"r":"1"}"#), Some(r#"{"r":"1","n":null}"#)),
        (r#"{"r":"x","o":{ "a":null }}"#, Some(r#"{"r":"x","o":{  }}"#), None),
        (r#"{"r":null,"n":1}"#, None, None),
        (r#"{"r":"x","s":null}"#, None, None),
    ] {
        assert_eq!(repaired_with(&schema, args, true).as_deref(), dropped, "{args}");
        assert_eq!(repaired_with(&schema, args, false).as_deref(), kept, "{args}");
    }
}

#[test]
fn a_wrapper_is_removed_only_from_arguments_that_do_not_fit() {
    let schema = json!({
        "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["q"],
    });
    for (args, expected) in [
        (r#"{"input":{"q":"a","n": 1e2}}"#, Some(r#"{"q":"a","n": 1e2}"#)),
        (r#"{"params":{"q":"a","n":"1"}}"#, Some(r#"{"q":"a","n":1}"#)),
        (r#"{"arguments":"{\"q\":\"a\"}"}"#, Some(r#"{"q":"a"}"#)),
        (r#"{"args":{"input":{"q":"a"}}}"#, Some(r#"{"q":"a"}"#)),
        (r#"{"input":{"q":"a"},"q":"b"}"#, None),
        (r#"{"input":{"q":"a"},"n":1}"#, None),
        (r#"{"body":{"q":"a"}}"#, None),
        (r#"{"input":{"n":1}}"#, None),
        (r#"{"input":["q"]}"#, None),
    ] {
        assert_eq!(repaired(&schema, args).as_deref(), expected, "{args}");
    }
    let open = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    assert_eq!(repaired(&open, r#"{"input":{"q":1}}"#), None, "they fit");
    let own = json!({"properties": {"input": {"type": "object"}}, "required": ["input"]});
    assert_eq!(repaired(&own, r#"{"input":{"q":1}}"#), None, "they fit");
}

#[test]
fn a_repair_that_takes_too_long_is_not_made() {
    let branches: Vec<Value> = (0..12)
        .map(|n| json!({"properties": {"a": {"$ref": "#/$defs/d"}}, "required": [format!("r{n}")]}))
        .collect();
    let schema = json!({"$ref": "#/$defs/d", "$defs": {"d": {"anyOf": branches}}});
    let args = (0..20).fold("{}".to_owned(), |inner, _| format!(r#"{{"a":{inner}}}"#));
    assert_eq!(repaired(&schema, &args), None);
    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(400), "]".repeat(400));
    assert_eq!(
        repaired(
            &json!({"properties": {"a": {"items": {"$ref": "#/properties/a"}, "type": "array"}}}),
            &deep
        ),
        None
    );
}

/// Asserts what holds for any schema and any arguments. Returns the repaired arguments.
fn checked_repair(nodes: &[SchemaNode], text: &str, drops_nulls: bool) -> Option<Vec<u8>> {
    let before = check::check(nodes, text.as_bytes());
    let repaired = repair::repair(nodes, text.as_bytes(), drops_nulls)?;
    match before {
        ArgumentVerdict::Misfit(_) => {}
        ArgumentVerdict::OptionalNulls => assert!(drops_nulls),
        fitting => panic!("{fitting:?} is repaired: {text}"),
    }
    let after = check::check(nodes, &repaired);
    let value: Value = serde_json::from_slice(&repaired).unwrap();
    if matches!(after, ArgumentVerdict::Misfit(_)) {
        // Each member was repaired by itself, and what did not fit for other reasons is left.
        let (before, after): (Value, &Value) = (serde_json::from_str(text).unwrap(), &value);
        let is_kept = |name: &String| drops_nulls || after.get(name).is_some();
        assert!(before.as_object().unwrap().keys().all(is_kept), "{text}");
        return Some(repaired);
    }
    assert!(!repaired.contains(&b'\n') && value.is_object() == text.trim_start().starts_with('{'), "{text}");
    if after == ArgumentVerdict::Fits {
        assert_eq!(repair::repair(nodes, &repaired, drops_nulls), None, "{text}");
    }
    Some(repaired)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 3000 }))]

    #[test]
    fn repaired_arguments_keep_their_members_and_fitting_ones_never_change(
        schema in valid_schema(),
        args in arguments(),
        drops_nulls in any::<bool>(),
    ) {
        let nodes = compile::compile(schema.to_string().as_bytes()).unwrap();
        if let Some(repaired) = checked_repair(&nodes, &args.to_string(), drops_nulls)
            && check::check(&nodes, &repaired) == ArgumentVerdict::Fits
            && let Some(oracle) = oracle(&schema)
        {
            prop_assert!(!oracle.is_valid(&args));
            prop_assert!(oracle.is_valid(&serde_json::from_slice(&repaired).unwrap()));
        }
    }

    #[test]
    fn any_bytes_are_repaired_or_left(schema in schema_like_json(), args in schema_like_json(), cut in 0_usize..200) {
        if let Ok(nodes) = compile::compile(schema.to_string().as_bytes()) {
            let bytes = args.to_string().into_bytes();
            drop(repair::repair(&nodes, &bytes[..cut.min(bytes.len())], true));
            drop(repair::repair(&nodes, &bytes, false));
        }
    }
}

/// Ways in which models write a value of a property, for a value that fits.
fn mistakes(value: &Value) -> Vec<(&'static str, Value)> {
    match value {
        Value::Number(number) if !number.to_string().contains('e') => {
            vec![("a number in a string", json!(number.to_string()))]
        }
        Value::Bool(bool) => vec![("a boolean in a string", json!(bool.to_string()))],
        Value::Object(_) => vec![("an object in a string", json!(value.to_string()))],
        Value::Array(elements) if elements.len() == 1 && elements[0] != "" => vec![
            ("an array in a string", json!(value.to_string())),
            ("an element without its array", elements[0].clone()),
        ],
        Value::Array(_) => vec![("an array in a string", json!(value.to_string()))],
        _ => Vec::new(),
    }
}

/// For each of 527 real tools: arguments that fit, with one mistake of each kind in each property. What is repaired is what
/// was meant.
#[test]
fn mistakes_in_calls_of_real_tools_are_undone() {
    let catalogs: Vec<Value> = serde_json::from_str(CATALOGS).unwrap();
    let mut random = Random(7);
    // How many mistakes of a kind do not fit, and how many of them are undone.
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut other = Vec::new();
    for tool in catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap()) {
        let schema = &tool["inputSchema"];
        let nodes = compile::compile(schema.to_string().as_bytes()).unwrap();
        let is_checked = nodes.iter().all(|node| node.unchecked == TypeSet::NONE);
        for _ in 0..12 {
            let meant = random.value(schema, schema, 6);
            let Some(members) = meant
                .as_object()
                .filter(|_| check::check(&nodes, meant.to_string().as_bytes()) == ArgumentVerdict::Fits)
            else {
                continue;
            };
            assert_eq!(checked_repair(&nodes, &meant.to_string(), true), None);
            let mut wrong: Vec<_> = members
                .iter()
                .flat_map(|(name, value)| {
                    mistakes(value).into_iter().map(|(kind, mistake)| (kind, merged(&meant, name, mistake)))
                })
                .collect();
            wrong.push(("a wrapper", json!({"input": meant})));
            let optional = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .find(|(name, _)| !members.contains_key(*name));
            wrong.extend(
                optional.map(|(name, _)| ("null for an optional", merged(&meant, name, Value::Null))),
            );
            for (kind, wrong) in wrong {
                let text = wrong.to_string();
                let is_wrong = matches!(
                    check::check(&nodes, text.as_bytes()),
                    ArgumentVerdict::Misfit(_) | ArgumentVerdict::OptionalNulls
                );
                let (misfits, undone) = counts.entry(kind).or_default();
                *misfits += usize::from(is_wrong);
                if let Some(repaired) = checked_repair(&nodes, &text, true) {
                    let repaired: Value = serde_json::from_slice(&repaired).unwrap();
                    *undone += usize::from(repaired == meant);
                    if repaired != meant && is_checked {
                        other.push(format!(
                            "{} {kind}: {text} became {repaired} instead of {meant}",
                            tool["name"]
                        ));
                    }
                }
            }
        }
    }
    assert!(other.is_empty(), "{other:#?}");
    eprintln!("mistakes that do not fit, and those that are undone: {counts:?}");
    for (kind, (misfits, undone)) in &counts {
        assert!(undone * 100 >= misfits * 97, "{kind}: {undone} of {misfits}");
        assert!(*misfits >= 50, "{kind}: {misfits}");
    }
    assert_eq!(counts.len(), 7);
}

/// The arguments with another value for one property.
fn merged(args: &Value, name: &str, value: Value) -> Value {
    let mut args = args.clone();
    args[name] = value;
    args
}
