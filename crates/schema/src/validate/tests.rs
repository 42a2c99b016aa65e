use super::*;
use crate::tests::schema_like_json;
use proptest::prelude::*;
use serde_json::{Value, json};

mod agreement;
mod repairs;

fn definition_of(schema: &Value) -> Raw {
    json!({"name": "t", "inputSchema": schema}).to_string().into()
}

fn verdict(schema: &Value, args: &str) -> ArgumentVerdict {
    ArgumentValidator::default().validate("t", &definition_of(schema), args.as_bytes())
}

#[test]
fn only_what_no_server_can_take_is_fatal() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "maximum": 3},
            "b": {"type": "boolean"},
            "e": {"enum": ["open"]},
            "s": {"type": ["string", "null"]},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "l": {"type": "array", "items": {"type": "string"}},
            "u": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "any": {"anyOf": [{"type": "string"}, {"type": "array", "maxItems": 1}]},
        },
        "required": ["n"],
        "additionalProperties": false,
    });
    let are_fatal = |args: &str| match verdict(&schema, args) {
        ArgumentVerdict::Misfit(violations) => Some(violations.are_fatal()),
        _ => None,
    };
    for (args, expected) in [
        (r#"{"n":1}"#, None),
        ("{}", Some(false)),
        (r#"{"n":[1]}"#, Some(true)),
        (r#"{"n":{}}"#, Some(true)),
        (r#"{"n":1,"s":[]}"#, Some(true)),
        (r#"{"n":1,"u":{}}"#, Some(true)),
        (r#"{"n":1,"o":"x"}"#, Some(true)),
        (r#"{"n":1,"l":true}"#, Some(true)),
        (r#"{"n":1,"o":[]}"#, Some(false)),
        (r#"{"n":1,"o":{}}"#, Some(false)),
        (r#"{"n":1,"l":[{}]}"#, Some(false)),
        (r#"{"n":1,"any":{}}"#, Some(false)),
        (r#"{"n":null}"#, Some(false)),
        (r#"{"n":9}"#, Some(false)),
        (r#"{"n":1.5}"#, Some(false)),
        (r#"{"n":1,"b":0}"#, Some(false)),
        (r#"{"n":1,"b":"yes"}"#, Some(false)),
        (r#"{"n":1,"e":"OPEN"}"#, Some(false)),
        (r#"{"n":1,"x":{}}"#, Some(false)),
    ] {
        assert_eq!(are_fatal(args), expected, "{args}");
    }
}

/// The text about arguments that do not fit.
fn message(schema: &Value, args: &str) -> Option<String> {
    match verdict(schema, args) {
        ArgumentVerdict::Misfit(violations) => Some(violations.to_string()),
        ArgumentVerdict::Fits | ArgumentVerdict::OptionalNulls | ArgumentVerdict::Unknown => None,
    }
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
            "env": {"additionalProperties": {"type": "string"}},
            "old": false,
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    for (args, expected) in [
        ("{}", "- query is missing"),
        (r#"{"query":1}"#, r#"- query: 1 is not of type "string""#),
        (r#"{"query":"ab","limit":101}"#, "- limit: 101 is greater than the maximum of 100"),
        (r#"{"query":"ab","limit":1.5}"#, r#"- limit: 1.5 is not of type "integer""#),
        (r#"{"query":"ab","limit":"\ud800"}"#, r#"- limit: "\ud800" is not of type "integer""#),
        (r#"{"query":"ab","in":"x"}"#, r#"- in: "x" is not one of "web", "news""#),
        (r#"{"query":"ab","range":{}}"#, "- range/from is missing"),
        (r#"{"query":"ab","tags":["a", 2 ]}"#, r#"- tags/1: 2 is not of type "string""#),
        (r#"{"query":"ab","env":{"a\u002fb":1}}"#, r#"- env/a/b: 1 is not of type "string""#),
        (r#"{"query":"ab","q":1,"z":2}"#, "- q: there is no such parameter\n- z: there is no such parameter"),
        (r#"{"query":null,"limit":null}"#, r#"- query: null is not of type "string""#),
        (r#"{"query":"ab","q":null}"#, "- q: there is no such parameter"),
        (r#"{"query":"ab","Limits":3}"#, "- Limits: there is no such parameter; did you mean `limit`?"),
        (r#"{"query":"ab","old":3}"#, "- old: there is no such parameter; did you mean `old`?"),
        (r#"{"limit":"x"}"#, "- limit: \"x\" is not of type \"integer\"\n- query is missing"),
        (" [] ", r#"- [] is not of type "object""#),
    ] {
        assert_eq!(message(&schema, args).as_deref(), Some(expected), "{args}");
    }
    let long = message(&schema, &json!({"query": ["x".repeat(5000)]}).to_string());
    assert_eq!(long.unwrap(), r#"- query: the list is not of type "string""#);
    let long = message(&schema, &json!("x".repeat(99)).to_string());
    assert_eq!(long.unwrap(), format!(r#"- "{}…" is not of type "object""#, "x".repeat(58)));
    let many = message(&json!({"items": {"type": "string"}}), "[1,2,3,4,5,6,7]").unwrap();
    assert!(many.lines().count() == 6 && many.ends_with("\n- and more"), "{many}");
}

#[test]
fn every_checked_keyword_has_a_message() {
    for (schema, args, expected) in [
        (json!({"type": ["null", "number"]}), r#""a""#, r#""a" is not of type "null" or "number""#),
        (json!({"const": "x"}), r#"{"a":1}"#, r#"{"a":1} is not "x""#),
        (json!({"enum": ["a", "b", 3]}), r#""z""#, r#""z" is not one of "a", "b", 3"#),
        (json!({"enum": [1.5]}), "1.25", "1.25 is not 1.5"),
        (json!({"enum": ["\n"]}), r#""\u000b""#, r#""\u000b" is not "\n""#),
        (json!({"minimum": 1.50}), "1", "1 is less than the minimum of 1.5"),
        (
            json!({"maximum": 12345678901234567890_u64}),
            "12345678901234567891",
            "12345678901234567891 is greater than the maximum of 12345678901234567890",
        ),
        (json!({"exclusiveMinimum": 0}), "-0.0", "-0.0 is not greater than 0"),
        (json!({"exclusiveMaximum": 9}), "9e0", "9e0 is not less than 9"),
        (json!({"minLength": 2}), r#""\u00e4""#, r#""\u00e4" is shorter than the minimum length of 2"#),
        (json!({"maxLength": 2}), r#""äöü""#, r#""äöü" is longer than the maximum length of 2"#),
        (json!({"minItems": 2}), "[1]", "[1] has fewer items than the minimum of 2"),
        (json!({"maxItems": 1}), "[1, 2]", "[1, 2] has more items than the maximum of 1"),
        (json!({"items": false}), "[1]", "0: no value is allowed here"),
        (json!({"allOf": [{}, {"required": ["b", "a"]}]}), "{}", "a is missing\n- b is missing"),
        (
            json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}),
            "1",
            r#"1 is not of type "null""#,
        ),
    ] {
        assert_eq!(message(&schema, args), Some(format!("- {expected}")), "{schema}");
    }
}

#[test]
fn the_alternative_that_was_meant_is_explained() {
    let point = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]});
    let shape = |kind: &str, size: &str| json!({"properties": {"kind": {"const": kind}}, "required": [size]});
    for (schema, value, expected) in [
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!(3),
            r#"p: 3 is not of type "string" or "null""#,
        ),
        (json!({"anyOf": [point, {"type": "null"}]}), json!({}), "p/x is missing"),
        (json!({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}), json!("b"), r#"p: "b" is not "a""#),
        (
            json!({"oneOf": [shape("circle", "r"), shape("square", "a")]}),
            json!({"kind": "square", "r": 1}),
            "p/a is missing",
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"minItems": 3, "enum": [1]}, {"required": ["b"]}]}),
            json!({}),
            "p: none of the alternatives fits: a is missing; {} is not 1; b is missing",
        ),
        (
            json!({"anyOf": [{"items": {"anyOf": [{"type": "null"}, {"enum": [7]}]}}, {"type": "null"}]}),
            json!([1]),
            "p/0: 1 is not 7",
        ),
        (json!({"anyOf": [false, false]}), json!(1), "p: no value is allowed here"),
        (
            json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
            json!(1),
            "p: 1 fits more than one alternative, and only one may fit",
        ),
    ] {
        let schema = json!({"properties": {"p": schema}});
        let args = json!({"p": value}).to_string();
        assert_eq!(message(&schema, &args), Some(format!("- {expected}")), "{schema}");
    }
}

#[test]
fn rules_that_are_not_checked_make_the_fit_unknown() {
    for (schema, args) in [
        (json!({"type": "nonsense"}), "1"),
        (json!({"type": []}), "1"),
        (json!({"properties": [], "additionalProperties": false}), r#"{"a":1}"#),
        (json!({"required": true}), "{}"),
        (json!({"enum": []}), "1"),
        (json!({"enum": [[1]]}), "[2]"),
        (json!({"const": {"a": 1}}), r#"{"a":2}"#),
        (json!({"anyOf": []}), "1"),
        (json!({"minimum": 0, "exclusiveMinimum": true}), "0"),
        (json!({"minLength": "3"}), r#""ab""#),
        (json!({"items": [{"type": "string"}]}), "[1]"),
        (json!({"prefixItems": [{}], "items": false}), "[1]"),
        (json!({"patternProperties": {"^x": {}}, "additionalProperties": false}), r#"{"xa":1}"#),
        (json!({"pattern": "("}), r#""a""#),
        (json!({"format": "email"}), r#""a""#),
        (json!({"multipleOf": 2}), "3"),
        (json!({"uniqueItems": true}), "[1,1]"),
        (json!({"contains": {"type": "string"}}), "[1]"),
        (json!({"minProperties": 1}), "{}"),
        (json!({"propertyNames": {"maxLength": 1}}), r#"{"ab":1}"#),
        (json!({"dependentRequired": {"a": ["b"]}}), r#"{"a":1}"#),
        (json!({"not": {"type": "string"}}), r#""a""#),
        (json!({"if": {}, "then": {"type": "string"}}), "1"),
        (json!({"unheard-of": 1}), "1"),
        (json!({"$ref": "https://example.com/limit.json"}), "1"),
        (json!({"$ref": "file:///etc/hostname"}), "1"),
        (json!({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "string"}}}), "1"),
        (json!({"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {}}}), r#""ab""#),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}, "b": {"$id": "b"}}}), "1"),
        (json!({"type": "string", "nullable": true}), "null"),
        (json!({"type": "integer"}), "5.0"),
        (json!({"type": "integer"}), "1e400"),
        (json!({"type": "integer"}), "0.12345678901234567890"),
        (json!({"maximum": 5}), "123456789012345678901234567890"),
        (json!({"maximum": 0.1}), "0.1000000000000000000001"),
        (json!({"const": 0.1}), "0.1000000000000000000001"),
        (json!({"maxLength": 1}), r#""\ud800aa""#),
        (json!({"type": "string", "description": "x".repeat(MAX_SCHEMA_BYTES)}), "1"),
        (json!({"type": "string"}), "{"),
        (json!({"type": "string"}), "1 2"),
        (json!({"type": "string"}), ""),
    ] {
        assert_eq!(verdict(&schema, args), ArgumentVerdict::Unknown, "{schema} {args}");
    }
    let huge = json!("x".repeat(MAX_ARGUMENT_BYTES)).to_string();
    assert_eq!(verdict(&json!({"type": "null"}), &huge), ArgumentVerdict::Unknown);
    let definition = r#"{"name":"t"}"#.into();
    assert_eq!(ArgumentValidator::default().validate("t", &definition, b"[]"), ArgumentVerdict::Unknown);
}

#[test]
fn rules_that_are_not_checked_concern_only_values_of_their_types_and_hide_no_certain_misfit() {
    let fits = |schema: Value, args: &str| verdict(&schema, args) == ArgumentVerdict::Fits;
    assert!(fits(json!({"pattern": "^a", "uniqueItems": true, "minProperties": 1, "multipleOf": 2}), "null"));
    assert!(fits(json!({"anyOf": [{"type": "integer"}, {"pattern": "^a"}]}), "1"));
    assert!(fits(
        json!({"title": "t", "default": 1, "x-order": 1, "$defs": {"a": {"type": "nonsense"}}}),
        "1"
    ));
    for (schema, args) in [
        (json!({"type": "string", "pattern": "^a", "maxLength": 2}), r#""aaa""#),
        (json!({"properties": {"a": {"type": "nonsense"}}, "required": ["b"]}), r#"{"a":1}"#),
        (json!({"minimum": 0, "exclusiveMinimum": true}), "-1"),
        (json!({"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}}), "1"),
        (json!({"oneOf": [{"type": "string"}, {"pattern": "^a"}, {"type": "string"}]}), r#""b""#),
    ] {
        assert!(message(&schema, args).is_some(), "{schema} {args}");
    }
}

#[test]
fn arguments_with_a_repeated_key_are_no_misfit() {
    let schema =
        json!({"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}});
    for args in [r#"{"a":1,"a":"x"}"#, r#"{"a":"x","\u0061":1}"#, r#"{"b":"x","b":1}"#] {
        assert_eq!(verdict(&schema, args), ArgumentVerdict::Unknown, "{args}");
    }
}

#[test]
fn null_passes_as_the_absence_of_an_optional_property() {
    let schema = json!({
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["b"],
        "allOf": [{"properties": {"a": {"minLength": 1, "type": "string"}}}],
        "additionalProperties": false,
    });
    assert_eq!(verdict(&schema, r#" {"a":null,"b":"x"}"#), ArgumentVerdict::OptionalNulls);
    assert_eq!(message(&schema, r#"{"a":null,"b":1}"#).unwrap(), r#"- b: 1 is not of type "string""#);
    assert!(message(&schema, r#"{"a":"a","b":null}"#).is_some(), "b is required");
    let nested = json!({"properties": {"o": {"properties": {"a": {"type": "string"}}}}});
    assert!(message(&nested, r#"{"o":{"a":null}}"#).is_some(), "only properties of the arguments themselves");
}

/// Some of these would take longer than the age of the universe.
#[test]
fn checks_that_would_take_too_long_end_without_a_verdict() {
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
}

#[test]
fn keeps_the_schemas_that_were_used_last() {
    let validator = ArgumentValidator::default();
    for n in 0..MAX_SCHEMAS + 10 {
        let definition = definition_of(&json!({"required": [format!("p{n}")]}));
        for _ in 0..2 {
            assert!(matches!(validator.validate("t", &definition, b"{}"), ArgumentVerdict::Misfit(_)));
        }
    }
    let schemas = validator.schemas.lock();
    assert_eq!(schemas.len(), MAX_SCHEMAS);
    let is_kept =
        |n| schemas.iter().any(|(known, _)| *known == definition_of(&json!({"required": [format!("p{n}")]})));
    assert!(is_kept(10) && !is_kept(9), "the least recently used is dropped first");
}

proptest! {
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
        for text in [&bytes[..], &bytes[..place], &garbage] {
            if let ArgumentVerdict::Misfit(violations) = validator.validate("t", &definition, text) {
                prop_assert!(violations.to_string().lines().all(|line| line.starts_with("- ")));
            }
        }
        bytes[place] = byte;
        let _changed = validator.validate("t", &definition, &bytes);
        let _compiled = compile::compile(&bytes).map(|nodes| check::check(&nodes, &garbage));
    }
}
