//! Strategies that the tests of these modules share.

use proptest::prelude::*;
use serde_json::Value;

/// JSON of the words that schemas are made of.
pub(super) fn schema_like_json() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(vec![
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "enum",
        "$ref",
        "#",
        "#/$defs/a",
        "$defs",
        "a",
        "object",
        "array",
        "string",
        "required",
        "default",
        "description",
        "prefixItems",
        "additionalProperties",
        "minimum",
        "const",
        "nullable",
        "*/",
        "",
        "ü\u{0}",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Value>()),
        ]
    })
}
