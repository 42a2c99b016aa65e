use super::*;
use crate::schema::tests::anything;
use proptest::prelude::*;
use serde_json::json;

fn problem(schema: &Value, args: &str) -> Option<String> {
    let definition = json!({"name": "t", "inputSchema": schema}).to_string().into();
    Checks::default().problem("t", &definition, &args.to_owned().into())
}

#[test]
fn mistakes_name_the_property_and_what_was_expected() {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 2},
            "limit": {"type": "integer", "maximum": 100},
            "in": {"enum": ["web", "news"]},
            "range": {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    for (args, wanted) in [
        ("{}", "- query is missing"),
        (r#"{"query":1}"#, r#"- query: 1 is not of type "string""#),
        (r#"{"query":"ab","limit":101}"#, "- limit: 101 is greater than the maximum of 100"),
        (r#"{"query":"ab","limit":1.5}"#, r#"- limit: 1.5 is not of type "integer""#),
        (r#"{"query":"ab","in":"x"}"#, r#"- in: "x" is not one of "web" or "news""#),
        (r#"{"query":"ab","range":{}}"#, "- range/from is missing"),
        (r#"{"query":"ab","tags":["a",2]}"#, r#"- tags/1: 2 is not of type "string""#),
        (r#"{"query":"ab","q":1,"z":2}"#, "- q, z: there is no such parameter"),
        (r#"{"query":null,"limit":null}"#, r#"- query: null is not of type "string""#),
        (r#"{"query":"ab","q":null}"#, "- q: there is no such parameter"),
        ("[]", r#"- the arguments: [] is not of type "object""#),
    ] {
        assert_eq!(problem(&schema, args).as_deref(), Some(wanted), "{args}");
    }
    assert_eq!(problem(&schema, r#"{"query":"ab","limit":null}"#), None, "as if it was not there");
    assert_eq!(problem(&schema, r#"{"limit":"x"}"#).unwrap().lines().count(), 2, "all at once");
    let long = problem(&schema, &format!(r#"{{"query":["{}"]}}"#, "x".repeat(5000))).unwrap();
    assert_eq!(long, r#"- query: the list is not of type "string""#);
}

#[test]
fn what_fits_and_what_cannot_be_judged_passes() {
    let limit = json!({"properties": {"limit": {"type": "integer", "maximum": 5}}});
    for args in [
        "{}",
        r#"{"limit":5}"#,
        r#"{"limit":5.0}"#,
        r#"{"limit":1e400}"#,
        r#"{"limit":123456789012345678901234567890}"#,
        r#"{"limit":0.12345678901234567890}"#,
        r#"{"limit":"\ud800"}"#,
        "{",
    ] {
        assert_eq!(problem(&limit, args), None, "{args}");
    }
    for schema in [
        json!(true),
        json!({"type": "nonsense"}),
        json!({"properties": {"limit": {"pattern": "("}}}),
        json!({"properties": {"limit": {"$ref": "https://example.com/limit.json"}}}),
        json!({"properties": {"limit": {"$ref": "file:///etc/hostname"}}}),
        json!({"properties": {"limit": {"$ref": "#limit"}}, "$defs": {"l": {"$anchor": "limit", "type": "string"}}}),
        json!({"properties": {"limit": {"type": "string"}}, "description": "x".repeat(LARGEST)}),
        json!({"$schema": "https://example.com/unknown", "type": "object"}),
        json!({"properties": {"limit": {"format": "email"}}}),
    ] {
        assert_eq!(
            problem(&schema, r#"{"limit":"a"}"#).filter(
                |_| schema["properties"]["limit"]["type"].is_null() || schema["description"].is_string()
            ),
            None,
            "{schema}"
        );
    }
    let definition = r#"{"name":"t"}"#.into();
    assert_eq!(Checks::default().problem("t", &definition, &"[]".into()), None);
}

#[test]
fn the_draft_is_the_one_that_is_named_else_the_first_that_the_schema_is_one_of() {
    let tuple = json!({"properties": {"p": {"items": [{"type": "string"}]}}});
    assert!(problem(&tuple, r#"{"p":[1]}"#).is_some(), "draft 7, unnamed");
    let mut named = tuple.clone();
    named["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert!(problem(&named, r#"{"p":[1]}"#).is_some());
    let strict = json!({"properties": {"p": {"minimum": 0, "exclusiveMinimum": true}}});
    assert!(problem(&strict, r#"{"p":0}"#).is_some(), "draft 4, unnamed");
    let prefix = json!({"properties": {"p": {"prefixItems": [{"type": "string"}]}}});
    assert!(problem(&prefix, r#"{"p":[1]}"#).is_some(), "2020-12, unnamed");
    let mut older = prefix.clone();
    older["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(problem(&older, r#"{"p":[1]}"#), None, "draft 7 knows no prefixItems");
    let parameters = json!({"name": "t", "parameters": {"required": ["a"]}}).to_string().into();
    assert!(Checks::default().problem("t", &parameters, &"{}".into()).is_some());
}

#[test]
fn schemas_and_arguments_that_multiply_are_not_followed() {
    let begin = tokio::time::Instant::now();
    let both = |to: String| json!({"allOf": [{"$ref": to}, {"$ref": to}]});
    let defs: serde_json::Map<_, _> =
        (0..60).map(|n| (format!("d{n}"), both(format!("#/$defs/d{}", (n + 1) % 60)))).collect();
    assert_eq!(problem(&json!({"$ref": "#/$defs/d0", "$defs": defs}), "{}"), None);
    let branch = json!({"properties": {"a": {"$ref": "#"}}});
    let tree = json!({"anyOf": [branch, branch], "not": {"required": ["z"]}});
    let deep = (0..100).fold("{\"z\":1}".to_owned(), |inner, _| format!(r#"{{"a":{inner}}}"#));
    assert_eq!(problem(&tree, &deep), None);
    assert!(problem(&tree, r#"{"a":{"z":1}}"#).is_some(), "within reason it is");
    let slow = json!({"properties": {"p": {"pattern": r"^(a|b|ab)*\1(?=c)$"}}});
    assert_eq!(problem(&slow, &format!(r#"{{"p":"{}"}}"#, "ab".repeat(30))), None);
    assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
}

#[test]
fn as_many_schemas_are_kept_as_there_is_room_for() {
    let checks = Checks::default();
    for n in 0..KEPT + 10 {
        let definition =
            json!({"name": "t", "inputSchema": {"required": [format!("p{n}")]}}).to_string().into();
        assert!(checks.problem("t", &definition, &"{}".into()).is_some());
        assert!(checks.problem("t", &definition, &"{}".into()).is_some());
    }
    assert_eq!(checks.0.lock().len(), KEPT);
}

#[test]
fn what_most_tools_say_is_told_without_the_full_validator() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 3, "description": "d", "default": ""},
            "n": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 10},
            "in": {"enum": ["a", 1, null]},
            "range": {"$ref": "#/$defs/range"},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "more": {"anyOf": [{"type": "boolean"}, {"const": "x"}]},
            "env": {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"maxLength": 2}},
        },
        "required": ["text"],
        "additionalProperties": false,
        "$defs": {"range": {"type": "object", "properties": {"from": {"type": "number"}}, "required": ["from"]}},
    });
    let fitting = json!({
        "text": "äöü", "n": 9, "in": null, "range": {"from": 1.5}, "tags": ["a", "b"], "more": "x", "env": {"ab": ""},
    });
    assert!(plain::surely_fit(&schema, &fitting));
    for (place, wrong) in [
        ("text", json!("äöüß")),
        ("text", json!("")),
        ("n", json!(-1)),
        ("n", json!(10)),
        ("n", json!(1.5)),
        ("in", json!("b")),
        ("range", json!({})),
        ("range", json!({"from": "1"})),
        ("tags", json!([])),
        ("tags", json!(["a", "b", "c"])),
        ("tags", json!([1])),
        ("more", json!(1)),
        ("env", json!({"a": 1})),
        ("env", json!({"abc": ""})),
        ("other", json!(1)),
    ] {
        let mut args = fitting.clone();
        args[place] = wrong;
        assert!(
            !plain::surely_fit(&schema, &args) && problem(&schema, &args.to_string()).is_some(),
            "{args}"
        );
    }
    let unknown = json!({"properties": {"a": {"pattern": "^a$"}}});
    assert!(!plain::surely_fit(&unknown, &json!({"a": "a"})), "the full validator is to say so");
    let endless = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
    assert!(!plain::surely_fit(&endless, &json!({})));
}

/// Schemas of the keywords that are understood, of few words, so that they are often kept.
fn plain_schema() -> impl Strategy<Value = Value> {
    let value =
        proptest::sample::select(vec![json!(0), json!(1.0), json!(2), json!("a"), json!(null), json!([])]);
    let kind =
        proptest::sample::select(vec!["object", "array", "string", "integer", "number", "null", "nonsense"]);
    let bound = (
        proptest::sample::select(vec![
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxItems",
        ]),
        proptest::sample::select(vec![json!(0), json!(1), json!(1.5), json!(true), json!(-1)]),
    );
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kind.clone().prop_map(|kind| json!({"type": kind})),
        kind.prop_map(|kind| json!({"type": [kind, "string"]})),
        value.clone().prop_map(|value| json!({"const": value})),
        proptest::collection::vec(value, 1..4).prop_map(|values| json!({"enum": values})),
        bound.prop_map(|(keyword, bound)| json!({keyword: bound})),
        Just(json!({"$ref": "#/properties/a", "title": "t"})),
        Just(json!({"required": ["a"]})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.clone().prop_map(|a| json!({"items": a, "format": "email"})),
            two.clone().prop_map(|(a, b)| json!({"properties": {"a": a}, "additionalProperties": b})),
            two.clone().prop_map(|(a, b)| json!({"anyOf": [a, b]})),
            two.clone().prop_map(|(a, b)| json!({"allOf": [a], "propertyNames": b})),
            two.prop_map(
                |(a, b)| json!({"properties": {"a": a, "b": b}, "required": ["b"], "type": "object"})
            ),
        ]
    })
}

/// Arguments of the same few words.
fn plain_args() -> impl Strategy<Value = Value> {
    let leaf = proptest::sample::select(vec![
        json!(0),
        json!(1),
        json!(1.0),
        json!("a"),
        json!(""),
        json!(null),
        json!({}),
    ]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"a": a, "b": b})),
            inner.prop_map(|a| json!({"a": a})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_surely_fits_fits(schema in plain_schema(), args in plain_args()) {
        if plain::surely_fit(&schema, &args)
            && let Ok(full) = compile(&schema)
        {
            prop_assert_eq!(mistakes(&full.validator, &args), None);
        }
    }
}

proptest! {
    #[test]
    fn any_schema_has_a_verdict_on_any_arguments(schema in anything(), args in anything()) {
        let told = problem(&schema, &args.to_string());
        prop_assert!(told.is_none_or(|told| told.lines().all(|line| line.starts_with("- "))));
    }

    #[test]
    fn numbers_are_exact_where_their_text_comes_back(number in any::<i64>()) {
        let text = number.to_string();
        let digits = text.trim_start_matches('-').len();
        prop_assert_eq!(exact(format!(r#"{{"n":[{text}, "1234567890123456789"]}}"#).as_bytes()), digits <= EXACT_DIGITS);
    }
}
