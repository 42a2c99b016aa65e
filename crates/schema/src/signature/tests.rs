use super::*;
use crate::tests::schema_like_json;
use proptest::prelude::*;
use serde_json::json;
use wire::tokens::string_end;

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
        "/* Searches the web. Gives *\\/ links. */\n\
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
        (json!({"properties": {"a": {"type": "string", "default": "*/"}}}), "{a?: string = \"*/\"}"),
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
            "string /* <= 3 characters; /^a*\\/$/ */",
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
    assert_eq!(texts_in_comments(&text).len(), 9, "{text}");
    assert!(!got.lossless, "no model can pass such a name");
}

/// The comments of a signature. Panics if one does not end.
fn texts_in_comments(mut text: &str) -> Vec<&str> {
    let mut comments = Vec::new();
    while let Some(start) = text.find(['"', '/']) {
        let rest = &text[start..];
        if rest.starts_with('"') {
            text = &rest[string_end(rest.as_bytes(), 0).unwrap()..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let (comment, after) = comment.split_once("*/").expect("a comment ends");
            comments.push(comment);
            text = after;
        } else {
            text = &rest[1..];
        }
    }
    comments
}

/// The values behind `start`, as long as each is followed by `separator`, byte for byte.
fn values_behind<'t>(text: &'t str, start: &str, separator: &str) -> Vec<&'t str> {
    let mut rest = text.split_once(start).unwrap_or_else(|| panic!("no {start:?} in {text}")).1;
    let mut values = Vec::new();
    loop {
        let (value, after) = rest.split_at(value_end(rest.as_bytes()));
        values.push(value);
        rest = after;
        match rest.strip_prefix(separator) {
            Some(next) => rest = next,
            None => return values,
        }
    }
}

/// Where the JSON value ends with which a text begins.
fn value_end(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    loop {
        match text[at] {
            b'"' => at = string_end(text, at).unwrap() - 1,
            b'[' => depth += 1,
            b']' => depth -= 1,
            b',' if depth > 0 => {}
            _ => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                at += text[at..].iter().take_while(|byte| is_word(byte)).count().max(1) - 1;
            }
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
}

/// A number, a text or an array of them, as JSON.
fn value_text() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?";
    let text = "[ -~é*/]{0,12}".prop_map(|text| Value::from(text).to_string());
    let leaf = prop_oneof![number, text, Just("null".to_owned())];
    let list = proptest::collection::vec(leaf.clone(), 1..4).prop_map(|list| format!("[{}]", list.join(",")));
    prop_oneof![3 => leaf, 1 => list]
}

/// A value with its numbers as texts, which are equal only if all digits are.
fn with_exact_numbers(json: &str) -> Value {
    let value = exact_numbers::parse(json.as_bytes()).unwrap();
    serde_json::from_str(&value.to_string()).unwrap()
}

proptest! {
    #[test]
    fn values_in_a_signature_are_those_of_the_schema(values in proptest::collection::vec(value_text(), 1..4)) {
        let list = format!("[{}]", values.join(","));
        let wanted: Vec<_> = values.iter().map(|value| with_exact_numbers(value)).collect();
        let first = &wanted[..1];
        for (schema, start, separator, wanted) in [
            (format!(r#"{{"enum":{list}}}"#), "p: ", " | ", &wanted[..]),
            (format!(r#"{{"const":{}}}"#, values[0]), "p: ", "\0", first),
            (format!(r#"{{"type":"string","examples":{list}}}"#), "e.g. ", ", ", &wanted[..]),
            (format!(r#"{{"anyOf":[{{"type":"string","default":{}}},{{}}]}}"#, values[0]), "default ", "\0", first),
        ] {
            let definition = format!(
                r#"{{"name":"t","inputSchema":{{"properties":{{"p":{schema}}},"required":["p"]}}}}"#
            );
            let written = signature(&Raw::from(definition));
            if written.lossless {
                let found = values_behind(&written.call, start, separator);
                let found: Vec<_> = found.into_iter().map(with_exact_numbers).collect();
                prop_assert_eq!(&found[..], wanted, "{}", written);
            }
        }
        let definition =
            format!(r#"{{"name":"t","inputSchema":{{"properties":{{"p":{{"default":{}}}}}}}}}"#, values[0]);
        let written = signature(&Raw::from(definition));
        prop_assert!(written.lossless, "{}", written);
        prop_assert_eq!(with_exact_numbers(values_behind(&written.call, "= ", "\0")[0]), first[0].clone());
    }
}

#[test]
fn numbers_have_all_digits() {
    let definition = r#"{"name":"t","inputSchema":{"type":"object","properties":{"p":{"type":"integer","minimum":-12345678901234567890123,"exclusiveMaximum":12345678901234567890124,"default":12345678901234567890123}}}}"#;
    assert_eq!(
        signature(&definition.into()).call,
        "t(p?: integer = 12345678901234567890123 /* >= -12345678901234567890123, < 12345678901234567890124 */)"
    );
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
