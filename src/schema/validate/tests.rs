use super::*;
use crate::schema::tests::schema_like_json;
use proptest::prelude::*;
use serde_json::{Value, json};

mod agreement;

fn definition_of(schema: &Value) -> Raw {
    json!({"name": "t", "inputSchema": schema}).to_string().into()
}

fn verdict(schema: &Value, args: &str) -> ArgumentVerdict {
    ArgumentValidator::default().validate("t", &definition_of(schema), args.as_bytes())
}

fn violations(schema: &Value, args: &str) -> Option<Violations> {
    match verdict(schema, args) {
        ArgumentVerdict::Misfit(violations) => Some(violations),
        ArgumentVerdict::Fits | ArgumentVerdict::Unknown => None,
    }
}

fn message(schema: &Value, args: &str) -> Option<String> {
    violations(schema, args).map(|violations| violations.to_string())
}

#[test]
fn messages_name_the_property_and_what_was_expected() {
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
        (r#"{"query":"ab","q":1,"z":2}"#, "- q: there is no such parameter\n- z: there is no such parameter"),
        (r#"{"query":null,"limit":null}"#, r#"- query: null is not of type "string""#),
        (r#"{"query":"ab","q":null}"#, "- q: there is no such parameter"),
        (r#"{"query":"ab","Limits":3}"#, "- Limits: there is no such parameter; did you mean `limit`?"),
        ("[]", r#"- the arguments: [] is not of type "object""#),
    ] {
        assert_eq!(message(&schema, args).as_deref(), Some(wanted), "{args}");
    }
    assert_eq!(message(&schema, r#"{"query":"ab","limit":null}"#), None, "null for an optional property");
    assert_eq!(message(&schema, r#"{"limit":"x"}"#).unwrap().lines().count(), 2, "all violations at once");
    let long = message(&schema, &format!(r#"{{"query":["{}"]}}"#, "x".repeat(5000))).unwrap();
    assert_eq!(long, r#"- query: the list is not of type "string""#);
}

#[test]
fn every_keyword_has_a_message() {
    for (schema, value, wanted) in [
        (json!({"type": ["null", "number"]}), json!("a"), r#""a" is not of type "number" or "null""#),
        (json!({"const": "x"}), json!({"a": 1}), r#"{"a":1} is not "x""#),
        (json!({"minimum": 1.50}), json!(1), "1 is less than the minimum of 1.5"),
        (json!({"exclusiveMinimum": 0}), json!(0), "0 is not greater than 0"),
        (json!({"exclusiveMaximum": 9}), json!(9.0), "9.0 is not less than 9"),
        (json!({"multipleOf": 5}), json!(7), "7 is not a multiple of 5"),
        (json!({"minLength": 1}), json!(""), r#""" has fewer than 1 character"#),
        (json!({"maxLength": 2}), json!("äöü"), r#""äöü" has more than 2 characters"#),
        (json!({"minItems": 2}), json!([1]), "[1] has fewer than 2 items"),
        (json!({"maxItems": 1}), json!([1, 2]), "[1,2] has more than 1 item"),
        (json!({"uniqueItems": true}), json!([1, 2, 1]), "[1,2,1] has an item twice"),
        (json!({"minProperties": 1}), json!({}), "{} has fewer than 1 property"),
        (json!({"maxProperties": 0}), json!({"a": 1}), r#"{"a":1} has more than 0 properties"#),
        (json!(false), json!(1), "no value is allowed here"),
        (json!({"enum": ["a", "b", 3]}), json!("z"), r#""z" is not one of "a", "b" or 3"#),
    ] {
        let schema = json!({"properties": {"p": schema}});
        let args = json!({"p": value}).to_string();
        assert_eq!(message(&schema, &args), Some(format!("- p: {wanted}")), "{schema}");
    }
    let tuple = json!({"properties": {"p": {"prefixItems": [{}], "items": false}}});
    let wanted = "- p/1: there is no such item: the list has at most 1";
    assert_eq!(message(&tuple, r#"{"p":[1,2]}"#).unwrap(), wanted);
    let long = message(&json!({"required": ["a"], "type": "array"}), &json!("x".repeat(99)).to_string());
    assert_eq!(long.unwrap(), format!(r#"- the arguments: "{}…" is not of type "array""#, "x".repeat(58)));
}

#[test]
fn the_likely_alternative_is_explained() {
    let point = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]});
    let circle =
        json!({"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["r"]});
    let square =
        json!({"properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["a"]});
    for (schema, value, wanted) in [
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!(3),
            r#"p: 3 is not of type "string" or "null""#,
        ),
        (json!({"anyOf": [point, {"type": "null"}]}), json!({}), "p/x is missing"),
        (json!({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}), json!("b"), r#"p: "b" is not one of "a""#),
        (json!({"oneOf": [circle, square]}), json!({"kind": "square", "r": 1}), "p/a is missing"),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            "p: none of the alternatives fits: p/a is missing; p/b is missing",
        ),
        (json!({"anyOf": [false, false]}), json!(1), "p: no value is allowed here"),
        (
            json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
            json!(1),
            "p: 1 fits more than one of the alternatives, and only one may fit",
        ),
    ] {
        let schema = json!({"properties": {"p": schema}});
        let args = json!({"p": value}).to_string();
        assert_eq!(message(&schema, &args), Some(format!("- {wanted}")), "{schema}");
    }
}

#[test]
fn violations_say_where_and_by_which_rule() {
    let schema = json!({"properties": {"a/b": {"items": {"maximum": 5}}}, "required": ["z"]});
    let args = r#"{"a\/b": [1, 7]}"#;
    let Violations { first, more } = violations(&schema, args).unwrap();
    assert_eq!((first.len(), more), (2, 0));
    assert_eq!((first[0].path.as_str(), first[0].keyword), ("/a~1b/1", Keyword::Maximum));
    assert_eq!((&args[first[0].given.clone()], first[0].expected.as_str()), ("7", "5"));
    assert_eq!((first[1].path.as_str(), first[1].keyword), ("/z", Keyword::Required));
    let many = violations(&json!({"items": {"type": "string"}}), "[1,2,3,4,5,6,7]").unwrap();
    assert_eq!((many.first.len(), many.more), (5, 2));
    assert!(many.to_string().ends_with("\n- and 2 more"), "{many}");
}

#[test]
fn arguments_that_fit_or_cannot_be_judged_pass() {
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
        assert_eq!(message(&limit, args), None, "{args}");
    }
    for schema in [
        json!(true),
        json!({"type": "nonsense"}),
        json!({"properties": {"limit": {"pattern": "("}}}),
        json!({"properties": {"limit": {"$ref": "https://example.com/limit.json"}}}),
        json!({"properties": {"limit": {"$ref": "file:///etc/hostname"}}}),
        json!({"properties": {"limit": {"$ref": "#limit"}}, "$defs": {"l": {"$anchor": "limit", "type": "string"}}}),
        json!({"properties": {"limit": {"type": "integer"}}, "description": "x".repeat(MAX_SCHEMA_BYTES)}),
        json!({"$schema": "https://example.com/unknown", "type": "object"}),
        json!({"properties": {"limit": {"format": "email"}}}),
        json!({"properties": {"limit": {"type": "integer"}, "other": {"type": "nonsense"}}}),
        json!({"properties": {"limit": {"type": "integer"}}, "$defs": {"unused": {"minimum": "1"}}}),
        json!({"properties": {"limit": {"not": {"type": "string"}}}}),
        json!({"properties": {"limit": {"type": "string", "nullable": true}}}),
    ] {
        assert_eq!(message(&schema, r#"{"limit":"a"}"#), None, "{schema}");
    }
    let definition = r#"{"name":"t"}"#.into();
    assert_eq!(ArgumentValidator::default().validate("t", &definition, b"[]"), ArgumentVerdict::Unknown);
}

#[test]
fn numbers_are_compared_by_all_their_digits() {
    let schema = json!({"properties": {"n": {"maximum": 1}, "id": {}}});
    let with = |maximum: &str, id: &str| {
        schema.to_string().replace(r#""maximum":1"#, maximum).replace(r#""id":{}"#, id)
    };
    let check = |schema: String, args: &str| {
        let definition = format!(r#"{{"name":"t","inputSchema":{schema}}}"#).into();
        ArgumentValidator::default().validate("t", &definition, args.as_bytes())
    };
    let above = with(r#""maximum":12345678901234567890"#, r#""id":{}"#);
    assert_eq!(check(above.clone(), r#"{"n":12345678901234567890}"#), ArgumentVerdict::Fits);
    assert!(matches!(check(above, r#"{"n":12345678901234567891}"#), ArgumentVerdict::Misfit(_)));
    let ids = with(r#""maximum":0.1"#, r#""id":{"enum":[12345678901234567890]}"#);
    assert_eq!(check(ids.clone(), r#"{"n":0.1,"id":12345678901234567890}"#), ArgumentVerdict::Fits);
    assert!(matches!(check(ids.clone(), r#"{"id":12345678901234567891}"#), ArgumentVerdict::Misfit(_)));
    assert!(matches!(check(ids.clone(), r#"{"n":0.10001}"#), ArgumentVerdict::Misfit(_)));
    let unportable = r#"{"n":0.100000000000000000000001}"#;
    assert_eq!(check(ids, unportable), ArgumentVerdict::Unknown, "programs round that to 0.1");
}

#[test]
fn the_last_of_repeated_keys_counts() {
    let schema = json!({
        "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}, "maxProperties": 2,
    });
    for (args, fits) in [
        (r#"{"a":1,"a":"x"}"#, true),
        (r#"{"a":"x","\u0061":1}"#, false),
        (r#"{"b":"x","b":1}"#, true),
        (r#"{"b":1,"b":"x"}"#, false),
        (r#"{"b":"x","\u0062":2}"#, true),
        (r#"{"b":1,"b":2,"b":3}"#, true),
        (r#"{"b":1,"c":2,"d":3}"#, false),
    ] {
        assert_eq!(verdict(&schema, args) == ArgumentVerdict::Fits, fits, "{args}");
        assert_eq!(message(&schema, args).is_none(), fits, "{args}");
    }
    let least = json!({"minProperties": 2});
    assert_eq!(verdict(&least, r#"{"b":1,"c":2}"#), ArgumentVerdict::Fits);
    assert!(message(&least, r#"{"b":1,"b":2}"#).is_some());
}

#[test]
fn null_passes_as_the_absence_of_an_optional_property() {
    let schema = json!({
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["b"],
        "allOf": [{"properties": {"a": {"minLength": 1, "type": "string"}}}],
        "additionalProperties": false,
    });
    assert_eq!(verdict(&schema, r#"{"a":null,"b":"x"}"#), ArgumentVerdict::Unknown);
    assert_eq!(message(&schema, r#"{"a":null,"b":1}"#).unwrap(), r#"- b: 1 is not of type "string""#);
    assert!(message(&schema, r#"{"b":null}"#).is_some(), "b is required");
    let nested = json!({"properties": {"o": {"properties": {"a": {"type": "string"}}}}});
    assert!(
        message(&nested, r#"{"o":{"a":null}}"#).is_some(),
        "only for properties of the arguments themselves"
    );
    let at_least_one = json!({"properties": {"a": {"type": "string"}}, "minProperties": 1});
    assert!(message(&at_least_one, r#"{"a":null}"#).unwrap().contains("fewer than 1 property"));
}

#[test]
fn unchecked_rules_hide_no_certain_misfit() {
    let schema = json!({"properties": {"p": {"type": "string", "pattern": "^a", "maxLength": 2}}});
    assert!(message(&schema, r#"{"p":"aaa"}"#).is_some());
    assert_eq!(verdict(&schema, r#"{"p":"b"}"#), ArgumentVerdict::Unknown);
    let any = json!({"properties": {"p": {"anyOf": [{"type": "integer"}, {"pattern": "^a"}]}}});
    assert_eq!(verdict(&any, r#"{"p":"b"}"#), ArgumentVerdict::Unknown);
    assert_eq!(verdict(&any, r#"{"p":1}"#), ArgumentVerdict::Fits);
    let one = json!({"oneOf": [{"type": "string"}, {"pattern": "^a"}, {"type": "string"}]});
    assert!(message(&one, "\"b\"").is_some(), "two fit for certain");
    let patterns =
        json!({"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": false});
    assert_eq!(verdict(&patterns, r#"{"b":1}"#), ArgumentVerdict::Unknown);
}

#[test]
fn the_draft_is_the_one_that_is_named_else_the_first_that_the_schema_is_valid_in() {
    let tuple = json!({"properties": {"p": {"items": [{"type": "string"}]}}});
    assert!(message(&tuple, r#"{"p":[1]}"#).is_some(), "draft 7, unnamed");
    let mut named = tuple.clone();
    named["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert!(message(&named, r#"{"p":[1]}"#).is_some());
    let strict = json!({"properties": {"p": {"minimum": 0, "exclusiveMinimum": true}}});
    assert!(message(&strict, r#"{"p":0}"#).is_some(), "draft 4, unnamed");
    let prefix = json!({"properties": {"p": {"prefixItems": [{"type": "string"}]}}});
    assert!(message(&prefix, r#"{"p":[1]}"#).is_some(), "2020-12, unnamed");
    let mut older = prefix.clone();
    older["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(message(&older, r#"{"p":[1]}"#), None, "draft 7 knows no prefixItems");
    let beside =
        json!({"properties": {"p": {"$ref": "#/definitions/s", "maxLength": 1}}, "definitions": {"s": {}}});
    assert!(message(&beside, r#"{"p":"ab"}"#).is_some());
    let mut older = beside.clone();
    older["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(message(&older, r#"{"p":"ab"}"#), None, "in draft 7 $ref stands alone");
    let parameters = json!({"name": "t", "parameters": {"required": ["a"]}}).to_string().into();
    let verdict = ArgumentValidator::default().validate("t", &parameters, b"{}");
    assert!(matches!(verdict, ArgumentVerdict::Misfit(_)));
}

#[test]
fn checks_that_would_multiply_end_without_a_verdict() {
    let begin = tokio::time::Instant::now();
    let both = |to: String| json!({"allOf": [{"$ref": to}, {"$ref": to}]});
    let defs: serde_json::Map<_, _> =
        (0..60).map(|n| (format!("d{n}"), both(format!("#/$defs/d{}", (n + 1) % 60)))).collect();
    assert_eq!(message(&json!({"$ref": "#/$defs/d0", "$defs": defs}), "{}"), None);
    let chain: serde_json::Map<_, _> =
        (0..3000).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}))).collect();
    assert_eq!(message(&json!({"$ref": "#/$defs/d0", "$defs": chain}), "{}"), None);
    let branch = json!({"properties": {"a": {"$ref": "#"}}});
    let tree = json!({"anyOf": [branch, branch], "properties": {"z": {"type": "string"}}});
    let deep = |levels| (0..levels).fold("{\"z\":1}".to_owned(), |inner, _| format!(r#"{{"a":{inner}}}"#));
    assert_eq!(message(&tree, &deep(100)), None);
    assert_eq!(message(&tree, &deep(20)), None);
    assert!(message(&tree, r#"{"a":{"z":1}}"#).is_some(), "a small tree is followed");
    assert_eq!(message(&json!({"items": {"$ref": "#"}}), &"[".repeat(500_000)), None);
    let objects: Vec<Value> = (0..900).map(|n| json!({"a": vec![n; 100]})).collect();
    let unique = json!({"uniqueItems": true});
    assert_eq!(message(&unique, &Value::from(objects).to_string()), None);
    assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
}

#[test]
fn keeps_the_schemas_that_were_used_last() {
    let validator = ArgumentValidator::default();
    for n in 0..MAX_SCHEMAS + 10 {
        let definition = definition_of(&json!({"required": [format!("p{n}")]}));
        let misfits = || matches!(validator.validate("t", &definition, b"{}"), ArgumentVerdict::Misfit(_));
        assert!(misfits());
        assert!(misfits());
    }
    let cache = validator.schemas.lock();
    assert_eq!(cache.entries.len(), MAX_SCHEMAS);
    let first = definition_of(&json!({"required": ["p0"]}));
    assert!(
        cache.entries.iter().all(|entry| entry.definition != first),
        "the least recently used is dropped first"
    );
}

#[test]
fn common_keywords_are_checked_completely() {
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
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["text"],
        "additionalProperties": false,
        "$defs": {"range": {"type": "object", "properties": {"from": {"type": "number"}}, "required": ["from"]}},
    });
    let fitting = json!({
        "text": "äöü", "n": 9, "in": null, "range": {"from": 1.5}, "tags": ["a", "b"], "more": "x", "env": {"ab": ""},
    });
    assert_eq!(verdict(&schema, &fitting.to_string()), ArgumentVerdict::Fits);
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
        ("other", json!(1)),
    ] {
        let mut args = fitting.clone();
        args[place] = wrong;
        assert!(message(&schema, &args.to_string()).is_some(), "{args}");
    }
    let pattern = json!({"properties": {"a": {"pattern": "^a$"}}});
    assert_eq!(verdict(&pattern, r#"{"a":"a"}"#), ArgumentVerdict::Unknown);
    let endless = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
    assert_eq!(verdict(&endless, "{}"), ArgumentVerdict::Unknown);
}

proptest! {
    #[test]
    fn any_schema_has_a_verdict_on_any_arguments(schema in schema_like_json(), args in schema_like_json()) {
        let lines = message(&schema, &args.to_string()).unwrap_or_default();
        prop_assert!(lines.lines().all(|line| line.starts_with("- ")));
    }

    #[test]
    fn any_bytes_have_a_verdict(
        schema in schema_like_json(),
        args in schema_like_json(),
        cut in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        garbage in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let definition = definition_of(&schema);
        let validator = ArgumentValidator::default();
        let mut bytes = args.to_string().into_bytes();
        let place = cut.index(bytes.len());
        let _whole = validator.validate("t", &definition, &bytes[..place]);
        bytes[place] = byte;
        let _changed = validator.validate("t", &definition, &bytes);
        let _random = validator.validate("t", &definition, &garbage);
        let _compiled = compile::compile(&bytes).map(|schema| check::check(&schema, &garbage));
    }
}
