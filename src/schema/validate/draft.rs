//! The drafts of JSON Schema, and which keywords each has.

use super::node::TypeSet;

/// A version of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft2019,
    Draft2020,
}

impl Draft {
    /// The drafts that a document may be written in, by its `$schema`.
    pub(super) fn candidates(named: Option<&str>) -> &'static [Self] {
        let Some(uri) = named else { return &[Self::Draft2020, Self::Draft7, Self::Draft4] };
        let uri = uri.trim_end_matches('#').trim_start_matches("http://").trim_start_matches("https://");
        match uri {
            "json-schema.org/draft-04/schema" => &[Self::Draft4],
            "json-schema.org/draft-06/schema" => &[Self::Draft6],
            "json-schema.org/draft-07/schema" => &[Self::Draft7],
            "json-schema.org/draft/2019-09/schema" => &[Self::Draft2019],
            _ => &[Self::Draft2020],
        }
    }

    /// The keyword for a schema's identifier.
    pub(super) fn id_keyword(self) -> &'static str {
        if self == Self::Draft4 { "id" } else { "$id" }
    }

    /// The types of values for which `keyword` is a rule that is not checked.
    pub(super) fn unchecked_types(self, keyword: &str) -> TypeSet {
        match keyword {
            "pattern" => TypeSet::STRING,
            "contentEncoding" | "contentMediaType" if self <= Self::Draft7 => TypeSet::STRING,
            "contains" | "minContains" | "maxContains" | "unevaluatedItems" => TypeSet::ARRAY,
            "prefixItems" if self < Self::Draft2020 => TypeSet::ARRAY,
            "patternProperties"
            | "propertyNames"
            | "dependentRequired"
            | "dependentSchemas"
            | "dependencies"
            | "unevaluatedProperties" => TypeSet::OBJECT,
            "const" if self == Self::Draft4 => TypeSet::ALL,
            _ if CHECKED.contains(&keyword) || ANNOTATIONS.contains(&keyword) => TypeSet::NONE,
            _ if keyword.starts_with("x-") => TypeSet::NONE,
            _ => TypeSet::ALL,
        }
    }
}

/// Keywords that are checked, unless a draft reads them otherwise.
const CHECKED: &[&str] = &[
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "oneOf",
    "prefixItems",
    "properties",
    "required",
    "type",
    "uniqueItems",
];

/// Keywords that are not rules for values. `then` and `else` are part of `if`.
const ANNOTATIONS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "else",
    "example",
    "examples",
    "format",
    "id",
    "readOnly",
    "then",
    "title",
    "writeOnly",
];
