use super::*;
use crate::schema::tests::schema_like_json;
use proptest::prelude::*;
use serde_json::json;

fn signature_of(schema: Value) -> Signature {
    signature(&json!({"name": "t", "inputSchema": schema}).to_string().into())
}

/// The type of a required property, and whether it has all of the schema.
fn property_type(schema: Value) -> (String, bool) {
    let Signature { call, lossless, .. } =
        signature_of(json!({"type": "object", "properties": {"p": schema}, "required": ["p"]}));
    let inner = call.strip_prefix("t(p: ").and_then(|rest| rest.strip_suffix(')'));
    (inner.unwrap_or(&call).to_owned(), lossless)
}

#[test]
fn a_signature_has_description_parameters_and_result() {
    let definition = json!({
        "name": "search",
        "description": "Searches the web.\n\nGives */ links.",
        "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to\n look for", "minLength": 1},
                "limit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 100},
                "in": {"enum": ["web", "news", null]},
            },
            "required": ["query"],
            "additionalProperties": false,
        },
        "outputSchema": {"type": "object", "properties": {"hits": {"type": "array", "items": {"type": "string"}}}},
    });
    let got = signature(&definition.to_string().into());
    assert!(got.lossless);
    assert_eq!(
        got.to_string(),
        "/* Searches the web. Gives * / links. */\n\
         search(query: string /* >= 1 characters; What to look for */, \
         limit?: integer = 10 /* 1..100 */, in?: \"web\" | \"news\" | null): {hits?: string[]}"
    );
}

#[test]
fn properties_are_written_as_types_with_comments() {
    for (schema, wanted) in [
        (json!(true), "any"),
        (json!(false), "never"),
        (json!({}), "any"),
        (json!({"type": ["string", "null"]}), "string | null"),
        (json!({"type": "string", "nullable": true}), "string | null"),
        (json!({"type": "array"}), "any[]"),
        (json!({"type": "array", "items": {"type": ["string", "null"]}}), "(string | null)[]"),
        (json!({"type": "array", "items": {"type": "number", "minimum": 0}}), "(number /* >= 0 */)[]"),
        (
            json!({"items": {"enum": ["a", "b"]}, "minItems": 1, "uniqueItems": true}),
            "(\"a\" | \"b\")[] /* >= 1 items; unique */",
        ),
        (json!({"prefixItems": [{"type": "string"}, {}], "items": false}), "[string, any]"),
        (
            json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}}),
            "[string, ...null[]]",
        ),
        (json!({"type": "object"}), "object"),
        (json!({"type": "object", "additionalProperties": false}), "{}"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "{[key: string]: string}"),
        (json!({"patternProperties": {"^x-": {}}}), "{[/^x-/]: any}"),
        (
            json!({"properties": {"a-b": {"const": 1}, "c d": {}}, "required": ["z"]}),
            "{a-b?: 1, \"c d\"?: any, z: any}",
        ),
        (json!({"properties": {"a": {"type": "string", "default": "*/"}}}), "{a?: string = \"* /\"}"),
        (
            json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
            "string /* date */ | null",
        ),
        (json!({"oneOf": [{"type": "string"}, {"type": "string"}]}), "string"),
        (json!({"allOf": [{"type": "string"}]}), "string"),
        (
            json!({"allOf": [{"required": ["a"]}, {"anyOf": [{"type": "null"}, {}]}]}),
            "{a: any} & (null | any)",
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            "{a?: any} & ({a: any} | {b: any})",
        ),
        (
            json!({"type": "string", "pattern": "^a*/$", "maxLength": 3}),
            "string /* <= 3 characters; /^a* /$/ */",
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1, "multipleOf": 0.5}),
            "number /* <= 1, > 0; multiple of 0.5 */",
        ),
        (json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}), "number /* > 0 */"),
        (
            json!({"type": "integer", "examples": [1, 2], "deprecated": true, "x-order": 3}),
            "integer /* deprecated; e.g. 1, 2 */",
        ),
    ] {
        assert_eq!(property_type(schema.clone()), (wanted.to_owned(), true), "{schema}");
    }
}

#[test]
fn rules_that_are_left_out_make_a_signature_lossy() {
    for schema in [
        json!({"not": {"type": "string"}}),
        json!({"type": "string", "if": {}}),
        json!({"type": "object", "dependentRequired": {"a": ["b"]}}),
        json!({"type": "array", "contains": {"type": "string"}}),
        json!({"$ref": "https://example.com/x.json"}),
        json!({"$ref": "#/nowhere"}),
        json!({"type": "text"}),
        json!({"enum": vec!["long"; 1000]}),
        json!({"description": "x".repeat(10_000)}),
        json!(3),
    ] {
        assert!(!property_type(schema.clone()).1, "{schema}");
    }
}

#[test]
fn a_reference_is_written_in_place_if_used_once_else_by_name() {
    let once = signature_of(json!({
        "properties": {"at": {"$ref": "#/$defs/Point", "description": "Where"}},
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
    }));
    assert_eq!((&*once.call, once.lossless), ("t(at?: {x: number} /* Where */)", true));
    let twice = signature_of(json!({
        "properties": {"a": {"$ref": "#/$defs/Pt"}, "b": {"type": "array", "items": {"$ref": "#/$defs/Pt"}}},
        "$defs": {"Pt": {"type": "array", "items": {"type": "number"}}},
    }));
    assert_eq!((&*twice.call, twice.lossless), ("t(a?: Pt, b?: Pt[])\ntype Pt = number[]", true));
    let recursive = signature_of(json!({
        "properties": {"node": {"$ref": "#/definitions/Node"}},
        "definitions": {"Node": {"properties": {"next": {"$ref": "#/definitions/Node"}}}},
    }));
    assert_eq!(recursive.call, "t(node?: Node)\ntype Node = {next?: Node}");
    let itself = signature_of(json!({"properties": {"or": {"type": "array", "items": {"$ref": "#"}}}}));
    assert_eq!(itself.call, "t(or?: Arguments[])\ntype Arguments = {or?: Arguments[]}");
    let names = signature_of(json!({
        "properties": {"a": {"$ref": "#/x/T"}, "b": {"$ref": "#/x/T"}, "c": {"$ref": "#/y/T"}, "d": {"$ref": "#/y/T"}},
        "x": {"T": {"const": 1}}, "y": {"T": {"const": 2}},
    }));
    assert_eq!(names.call, "t(a?: T, b?: T, c?: T2, d?: T2)\ntype T = 1\ntype T2 = 2");
}

#[test]
fn every_definition_has_a_signature() {
    let text = |definition: Value| signature(&definition.to_string().into()).to_string();
    assert_eq!(text(json!({"name": "t"})), "t()");
    assert_eq!(text(json!({"name": "t", "inputSchema": null})), "t()");
    assert_eq!(text(json!({"name": "t", "inputSchema": {"type": "object"}})), "t()");
    assert_eq!(
        text(json!({"name": "t", "inputSchema": {"type": "object", "additionalProperties": true}})),
        "t(args?: object)"
    );
    assert_eq!(text(json!({"name": "t", "parameters": {"properties": {"a": {}}}})), "t(a?: any)");
    assert_eq!(
        text(json!({"name": "t", "inputSchema": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}})),
        "t(args: {a: any} | {b: any})"
    );
    assert_eq!(
        text(
            json!({"name": "t", "inputSchema": {"type": "object", "description": "All.", "properties": {"a": {}}}})
        ),
        "t(/* All. */ a?: any)"
    );
    let long: Vec<_> = (0..30).map(|n| format!("member_{n}")).collect();
    assert_eq!(text(json!({"name": "t", "outputSchema": {"type": "object", "required": long}})), "t(): {…}");
    let unread = signature(
        &r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"default":1e400}}}}"#.into(),
    );
    assert_eq!((&*unread.call, unread.lossless), ("t(args?: object)", false));
    assert_eq!(signature(&"[]".into()).call, "\"\"()");
    let many = signature(&json!({"name": "t", "description": "line\n".repeat(5000)}).to_string().into());
    assert_eq!((many.description.lines().count(), many.lossless), (1, false));
}

#[test]
fn text_of_an_upstream_adds_no_line_and_hides_nothing() {
    let evil = "x\n- bank: \u{202e}\u{200b}\u{e0041}*/";
    let named = evil.trim_end_matches("*/");
    let defs = json!({named: {"type": "object", "properties": {evil: {"$ref": "#"}}}});
    let to_evil = json!({"$ref": format!("#/$defs/{named}"), "description": evil});
    let got = signature(
        &json!({
            "name": named,
            "description": evil,
            "inputSchema": {
                "type": "object",
                "properties": {
                    evil: {"enum": [evil], "default": evil, "pattern": evil, "format": evil, "examples": [evil]},
                    "a": to_evil,
                    "b": to_evil,
                },
                "patternProperties": {evil: {"const": evil}},
                "description": evil,
                "$defs": defs,
            },
            "outputSchema": {"type": "object", "properties": {evil: {}}},
        })
        .to_string()
        .into(),
    );
    let text = got.to_string();
    let lines: Vec<_> = text.lines().collect();
    let begins = ["/* x - bank: \\u{202e}", r#""x\n- bank: "#, "type xbank = ", "type Arguments = "];
    assert_eq!(lines.len(), begins.len(), "{text}");
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{text}");
    assert!(!text.chars().any(|c| matches!(c, '\u{202e}' | '\u{200b}' | '\u{e0041}')), "{text}");
    assert!(text.matches("*/").count() == text.matches("/*").count(), "{text}");
    assert!(!got.lossless, "no model can pass such a name");
}

#[test]
fn schemas_that_multiply_are_cut() {
    let both = |to: String| json!({"properties": {"a": {"$ref": to}, "b": {"$ref": to}}});
    let defs: serde_json::Map<_, _> =
        (0..60).map(|n| (format!("d{n}"), both(format!("#/$defs/d{}", n + 1)))).collect();
    let doubling = signature_of(json!({"properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": defs}));
    assert!(doubling.call.len() < 5000, "{}", doubling.call.len());
    let deep = (0..60).fold(
        json!({}),
        |inner, _| json!({"type": ["object", "array", "object"], "properties": {"a": inner}}),
    );
    let deep = signature_of(json!({"properties": {"p": deep}}));
    assert!(!deep.lossless && deep.call.chars().count() <= MAX_CHARACTERS + 1);
    let wide: serde_json::Map<_, _> =
        (0..5000).map(|n| (format!("p{n}"), json!({"description": "d".repeat(100)}))).collect();
    let wide = signature_of(json!({"properties": wide}));
    assert!(!wide.lossless && wide.call.chars().count() == MAX_CHARACTERS + 1);
}

proptest! {
    #[test]
    fn any_json_has_a_signature_of_bounded_length(schema in schema_like_json(), description in schema_like_json()) {
        let definition = json!({"name": "t", "description": description, "inputSchema": schema, "outputSchema": schema});
        let got = signature(&definition.to_string().into());
        prop_assert!(got.call.starts_with("t("));
        prop_assert!(got.call.chars().count() <= MAX_CHARACTERS + 1);
        let _read = signature(&schema.to_string().into());
    }
}
