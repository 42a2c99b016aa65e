//! Compiles a schema document into nodes.
//!
//! A node has the rules of one schema, and the types of values for which the schema has rules that are not checked.
//! Those are keywords that are not implemented, and implemented ones whose value has an unexpected form. Most of the
//! latter come from older drafts of JSON Schema, so no draft needs a special case.

use super::json::{JsonNumber, TypeSet};
use crate::reference;
use memchr::memmem;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The index of a schema's node. That of the whole document is 0.
pub(super) type NodeId = usize;

/// A compiled schema. A value fits it if it keeps every rule. Fields without a comment have the rule of that keyword.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// `type`. A schema that is `false` allows no types.
    pub(super) types: TypeSet,
    /// The types of values for which the schema has rules that are not checked.
    pub(super) unchecked: TypeSet,
    /// `enum` and `const`, each with the values that it allows, as JSON.
    pub(super) choices: Vec<Vec<String>>,
    /// The limits of numbers, strings and arrays.
    pub(super) limits: Vec<Limit>,
    pub(super) items: Option<NodeId>,
    /// By the bytes of their names, because those of arguments need not be decoded then.
    pub(super) properties: BTreeMap<Vec<u8>, NodeId>,
    pub(super) required: BTreeSet<Vec<u8>>,
    /// `additionalProperties`.
    pub(super) additional: Option<NodeId>,
    /// `allOf` and `$ref`.
    pub(super) all_of: Vec<NodeId>,
    /// `anyOf` and `oneOf`: the alternatives, and whether only one of them may fit.
    pub(super) alternatives: Vec<(Vec<NodeId>, bool)>,
}

/// A limit of a number, of the number of a string's characters, or of the number of an array's elements.
#[derive(Debug)]
pub(super) struct Limit {
    /// The types of values that have the limit.
    pub(super) types: TypeSet,
    pub(super) bound: JsonNumber,
    /// Whether a number that compares so to the bound is allowed.
    pub(super) allows: fn(Ordering) -> bool,
    /// The text about a value beyond the limit, without the value.
    pub(super) text: String,
}

/// Compiles a schema document, which is JSON text. The first node is that of the whole document.
///
/// # Errors
///
/// The text is not JSON.
pub(super) fn compile(text: &[u8]) -> serde_json::Result<Vec<SchemaNode>> {
    let document: Value = serde_json::from_slice(text)?;
    // An identifier changes what references are relative to.
    let follows_references = memmem::find(text, br#""$id""#).is_none();
    let mut compiler = Compiler { schemas: Vec::new(), ids: HashMap::new(), follows_references };
    compiler.id(&document);
    let mut nodes = Vec::new();
    while let Some(schema) = compiler.schemas.get(nodes.len()) {
        nodes.push(compiler.node(schema));
    }
    Ok(nodes)
}

struct Compiler<'s> {
    /// The schemas that are needed, in the order of their nodes: first the whole document. References may lead in
    /// circles, so schemas are listed here before they are compiled.
    schemas: Vec<&'s Value>,
    /// The nodes of these schemas, by the addresses of the schemas.
    ids: HashMap<*const Value, NodeId>,
    follows_references: bool,
}

impl<'s> Compiler<'s> {
    /// Returns the node of a schema, which is compiled later if it is new.
    fn id(&mut self, schema: &'s Value) -> NodeId {
        *self.ids.entry(schema).or_insert_with(|| {
            self.schemas.push(schema);
            self.schemas.len() - 1
        })
    }

    /// Returns the nodes of a list of schemas. `None` if the value is no such list.
    fn ids(&mut self, value: &'s Value) -> Option<Vec<NodeId>> {
        let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
        Some(schemas.iter().map(|schema| self.id(schema)).collect())
    }

    fn node(&mut self, schema: &'s Value) -> SchemaNode {
        let mut node = SchemaNode { types: TypeSet::ALL, ..SchemaNode::default() };
        match schema {
            Value::Bool(true) => {}
            Value::Bool(false) => node.types = TypeSet::NONE,
            Value::Object(members) => {
                for keyword in members.keys() {
                    if self.add(&mut node, keyword, members).is_none() {
                        node.unchecked = TypeSet::ALL;
                    }
                }
            }
            _ => node.unchecked = TypeSet::ALL,
        }
        node
    }

    /// Adds the rule of one keyword. `None` if its value has an unexpected form.
    fn add(&mut self, node: &mut SchemaNode, keyword: &str, members: &'s Map<String, Value>) -> Option<()> {
        let value = &members[keyword];
        let mut limit = |types, allows: fn(Ordering) -> bool, text: &str| {
            let bound = value.as_number()?.to_string();
            let text = format!("{text} {bound}");
            node.limits.push(Limit { types, bound: JsonNumber::parse(bound.as_bytes())?, allows, text });
            Some(())
        };
        let (number, string, array) = (TypeSet::NUMBER, TypeSet::STRING, TypeSet::ARRAY);
        match keyword {
            "$ref" => {
                let reference = value.as_str().filter(|_| self.follows_references)?;
                let target = reference::resolve(self.schemas[0], reference)?;
                node.all_of.push(self.id(target));
            }
            // Older drafts ignore the rules beside `$ref`.
            _ if members.contains_key("$ref") && unchecked_types(keyword) != TypeSet::NONE => return None,
            "type" => {
                node.types = TypeSet::from_keyword(value)?;
                // A keyword of OpenAPI, which JSON Schema does not define.
                if members.get("nullable") == Some(&Value::Bool(true)) {
                    node.types = node.types.union(TypeSet::NULL);
                    node.unchecked = node.unchecked.union(TypeSet::NULL);
                }
            }
            "enum" => {
                let choices = value.as_array().filter(|choices| !choices.is_empty())?;
                node.choices.push(choices.iter().map(Value::to_string).collect());
            }
            "const" => node.choices.push(vec![value.to_string()]),
            "minimum" => limit(number, Ordering::is_ge, "is less than the minimum of")?,
            "maximum" => limit(number, Ordering::is_le, "is greater than the maximum of")?,
            "exclusiveMinimum" => limit(number, Ordering::is_gt, "is not greater than")?,
            "exclusiveMaximum" => limit(number, Ordering::is_lt, "is not less than")?,
            "minLength" => limit(string, Ordering::is_ge, "is shorter than the minimum length of")?,
            "maxLength" => limit(string, Ordering::is_le, "is longer than the maximum length of")?,
            "minItems" => limit(array, Ordering::is_ge, "has fewer items than the minimum of")?,
            "maxItems" => limit(array, Ordering::is_le, "has more items than the maximum of")?,
            // Beside `prefixItems`, which is not checked, it is the schema of the other elements.
            "items" if members.contains_key("prefixItems") => {}
            "items" => node.items = Some(self.id(value)),
            "properties" => {
                let properties = value.as_object()?.iter();
                node.properties =
                    properties.map(|(name, schema)| (name.clone().into_bytes(), self.id(schema))).collect();
            }
            "required" => {
                let names =
                    value.as_array()?.iter().map(|name| name.as_str().map(|name| name.as_bytes().to_vec()));
                node.required = names.collect::<Option<_>>()?;
            }
            // Patterns, which are not checked, may declare the property.
            "additionalProperties" if members.contains_key("patternProperties") => {}
            "additionalProperties" => {
                members.get("properties").is_none_or(Value::is_object).then_some(())?;
                node.additional = Some(self.id(value));
            }
            "allOf" => node.all_of.extend(self.ids(value)?),
            "anyOf" => node.alternatives.push((self.ids(value)?, false)),
            "oneOf" => node.alternatives.push((self.ids(value)?, true)),
            _ => node.unchecked = node.unchecked.union(unchecked_types(keyword)),
        }
        Some(())
    }
}

/// Returns the types of values for which a keyword is a rule that is not checked.
fn unchecked_types(keyword: &str) -> TypeSet {
    const ANNOTATIONS: &str = "$anchor $comment $defs $dynamicAnchor $id $recursiveAnchor $schema $vocabulary default \
        definitions deprecated description example examples id nullable readOnly title writeOnly";
    const OF_ARRAYS: &str =
        "additionalItems contains maxContains minContains prefixItems unevaluatedItems uniqueItems";
    const OF_OBJECTS: &str = "dependencies dependentRequired dependentSchemas maxProperties minProperties \
        patternProperties propertyNames unevaluatedProperties";
    let is_in = |keywords: &str| keywords.split(' ').any(|known| known == keyword);
    match keyword {
        "contentEncoding" | "contentMediaType" | "contentSchema" | "pattern" => TypeSet::STRING,
        "multipleOf" => TypeSet::NUMBER,
        "format" => TypeSet::STRING.union(TypeSet::NUMBER),
        _ if keyword.starts_with("x-") || is_in(ANNOTATIONS) => TypeSet::NONE,
        _ if is_in(OF_ARRAYS) => TypeSet::ARRAY,
        _ if is_in(OF_OBJECTS) => TypeSet::OBJECT,
        _ => TypeSet::ALL,
    }
}
