//! Compiles a schema document into nodes, and marks the rules that are not checked.

use super::draft::Draft;
use super::node::{
    Additional, ArrayRules, CompiledSchema, NodeId, NumberBound, NumberRules, ObjectRules, PropertyRule,
    SchemaNode, SizeRange, TypeSet,
};
use super::tree::{JsonMembers, JsonNumber, JsonTree};
use super::violation::Keyword;
use crate::schema::reference;
use std::collections::{BTreeSet, HashMap, HashSet};
use thiserror::Error;

/// An error that makes a schema unusable. Arguments are not checked against it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum SchemaError {
    #[error("its schema has {bytes} bytes, and at most {limit} are read")]
    TooLarge { bytes: usize, limit: usize },
    #[error("its schema is not valid JSON, or is nested deeper than 128 levels")]
    NotJson,
    #[error("its schema is invalid: {found} is not {expected}")]
    Invalid { found: String, expected: &'static str },
}

/// The characters of an invalid value that an error repeats.
const MAX_FOUND_CHARACTERS: usize = 60;

/// Compiles a schema document. Without `$schema`, it is of the newest draft that it is valid in.
pub(super) fn compile(schema: &[u8]) -> Result<CompiledSchema, SchemaError> {
    let root = JsonTree::parse(schema).map_err(|_| SchemaError::NotJson)?;
    let named = root.as_object().and_then(|members| members.get("$schema"));
    let drafts = Draft::candidates(named.and_then(JsonTree::as_str));
    let mut first_error = None;
    for draft in drafts {
        match Compiler::new(&root, *draft).compile() {
            Ok(compiled) => return Ok(compiled),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(SchemaError::NotJson))
}

struct Compiler<'s> {
    root: &'s JsonTree,
    draft: Draft,
    nodes: Vec<SchemaNode>,
    /// The nodes of the schemas so far, by the addresses of the schemas.
    known: HashMap<usize, NodeId>,
    /// The targets of references that are still to be compiled. A queue, because targets refer to each other.
    pending: Vec<(NodeId, &'s JsonTree)>,
    /// Whether references are followed. A nested `$id` changes what they are relative to, so they are not then.
    follows_references: bool,
}

impl<'s> Compiler<'s> {
    fn new(root: &'s JsonTree, draft: Draft) -> Self {
        let follows_references = !has_nested_id(root, draft.id_keyword(), true);
        Self {
            root,
            draft,
            nodes: Vec::new(),
            known: HashMap::new(),
            pending: Vec::new(),
            follows_references,
        }
    }

    fn compile(mut self) -> Result<CompiledSchema, SchemaError> {
        let root = self.schema(self.root)?;
        while let Some((id, schema)) = self.pending.pop() {
            self.nodes[id] = self.node(schema)?;
        }
        Ok(CompiledSchema {
            nodes: self.nodes,
            root,
            optional: optional_properties(self.root),
            integers_are_literal: self.draft == Draft::Draft4,
        })
    }

    /// Returns the node of a schema, and compiles it if that was not done.
    fn schema(&mut self, schema: &'s JsonTree) -> Result<NodeId, SchemaError> {
        let (id, is_new) = self.reserve(schema);
        if is_new {
            self.nodes[id] = self.node(schema)?;
        }
        Ok(id)
    }

    /// Returns the node of a schema, and whether it is new.
    fn reserve(&mut self, schema: &'s JsonTree) -> (NodeId, bool) {
        let address = std::ptr::from_ref(schema).addr();
        let next = self.nodes.len();
        let id = *self.known.entry(address).or_insert(next);
        if id == next {
            self.nodes.push(SchemaNode::default());
        }
        (id, id == next)
    }

    fn node(&mut self, schema: &'s JsonTree) -> Result<SchemaNode, SchemaError> {
        let mut node = SchemaNode { types: TypeSet::ALL, ..SchemaNode::default() };
        let members = match schema {
            JsonTree::Object(members) => members,
            JsonTree::Boolean(allowed) if self.draft > Draft::Draft4 => {
                node.types = if *allowed { TypeSet::ALL } else { TypeSet::NONE };
                return Ok(node);
            }
            other => return invalid(other, "a schema"),
        };
        if let Some(reference) = members.get("$ref") {
            self.reference(reference, &mut node)?;
            if self.draft <= Draft::Draft7 {
                return Ok(node.complete());
            }
        }
        self.values(members, &mut node)?;
        self.numbers(members, &mut node)?;
        let length = sizes(members, ["minLength", "maxLength"], TypeSet::STRING, &mut node)?;
        node.length = Some(length).filter(|length| !length.is_open()).map(Box::new);
        self.arrays(members, &mut node)?;
        self.objects(members, &mut node)?;
        node.all_of.extend(self.alternatives(members, "allOf")?.into_iter().flatten());
        node.any_of = self.alternatives(members, "anyOf")?;
        node.one_of = self.alternatives(members, "oneOf")?;
        self.unchecked(members, &mut node)?;
        Ok(node.complete())
    }

    /// Compiles `$ref`.
    fn reference(&mut self, reference: &'s JsonTree, node: &mut SchemaNode) -> Result<(), SchemaError> {
        let Some(reference) = reference.as_str() else { return invalid(reference, "a reference") };
        let pointer = reference::pointer(reference).filter(|_| self.follows_references);
        let Some(target) = pointer.and_then(|pointer| self.root.pointer(&pointer)) else {
            node.unchecked = TypeSet::ALL;
            return Ok(());
        };
        let (id, is_new) = self.reserve(target);
        if is_new {
            self.pending.push((id, target));
        }
        node.all_of.push(id);
        Ok(())
    }

    /// Compiles `type`, `nullable`, `enum` and `const`.
    fn values(&self, members: &JsonMembers, node: &mut SchemaNode) -> Result<(), SchemaError> {
        if let Some(names) = members.get("type") {
            let list = names.as_array().unwrap_or_else(|| std::slice::from_ref(names));
            let sets = list.iter().map(|name| name.as_str().and_then(TypeSet::named));
            let Some(types) = sets.collect::<Option<Vec<_>>>().filter(|sets| !sets.is_empty()) else {
                return invalid(names, "a type");
            };
            node.types = types.into_iter().fold(TypeSet::NONE, TypeSet::union);
        }
        node.nullable = members.get("nullable") == Some(&JsonTree::Boolean(true));
        if let Some(choices) = members.get("enum") {
            let list = choices.as_array().filter(|list| !list.is_empty());
            let Some(list) = list else { return invalid(choices, "a list of values") };
            node.choices = Some(list.into());
        }
        if self.draft > Draft::Draft4 {
            node.constant = members.get("const").cloned().map(Box::new);
        }
        Ok(())
    }

    /// Compiles the rules for numbers.
    fn numbers(&self, members: &JsonMembers, node: &mut SchemaNode) -> Result<(), SchemaError> {
        let mut rules = NumberRules::default();
        let pairs =
            [(Keyword::Minimum, Keyword::ExclusiveMinimum), (Keyword::Maximum, Keyword::ExclusiveMaximum)];
        for (inclusive, exclusive) in pairs {
            // In draft 4 the exclusive keyword is a flag beside the bound, later it is a bound of its own.
            let is_exclusive = match members.get(exclusive.name()) {
                None => false,
                Some(JsonTree::Boolean(flag)) if self.draft == Draft::Draft4 => *flag,
                Some(JsonTree::Number(bound)) if self.draft > Draft::Draft4 => {
                    rules.bounds.push((exclusive, NumberBound::new(bound.clone())));
                    false
                }
                Some(other) => return invalid(other, "a bound"),
            };
            if let Some(bound) = number(members, inclusive.name())? {
                let keyword = if is_exclusive { exclusive } else { inclusive };
                rules.bounds.push((keyword, NumberBound::new(bound.clone())));
            }
        }
        if let Some(divisor) = number(members, "multipleOf")? {
            match divisor.text().parse() {
                Ok(divisor) if divisor > 0 => rules.multiple_of = Some(divisor),
                _ => node.unchecked = node.unchecked.union(TypeSet::NUMBER),
            }
        }
        let has_rules = !rules.bounds.is_empty() || rules.multiple_of.is_some();
        node.number = has_rules.then(|| Box::new(rules));
        Ok(())
    }

    /// Compiles the rules for arrays.
    fn arrays(&mut self, members: &'s JsonMembers, node: &mut SchemaNode) -> Result<(), SchemaError> {
        let size = sizes(members, ["minItems", "maxItems"], TypeSet::ARRAY, node)?;
        let unique = match members.get("uniqueItems") {
            None => false,
            Some(JsonTree::Boolean(unique)) => *unique,
            Some(other) => return invalid(other, "true or false"),
        };
        let mut rules = ArrayRules { size, unique, ..ArrayRules::default() };
        let (prefix, rest) = match (self.draft, members.get("items")) {
            (Draft::Draft2020, items) => (members.get("prefixItems"), items),
            (_, Some(list @ JsonTree::Array(_))) => (Some(list), members.get("additionalItems")),
            (_, items) => (None, items),
        };
        if let Some(prefix) = prefix {
            let Some(schemas) = prefix.as_array() else { return invalid(prefix, "a list of schemas") };
            rules.prefix = schemas.iter().map(|schema| self.schema(schema)).collect::<Result<_, _>>()?;
        }
        rules.rest = self.additional(rest)?;
        let has_rules = !size.is_open()
            || unique
            || !rules.prefix.is_empty()
            || !matches!(rules.rest, Additional::Anything);
        node.array = has_rules.then(|| Box::new(rules));
        Ok(())
    }

    /// Compiles the rules for objects.
    fn objects(&mut self, members: &'s JsonMembers, node: &mut SchemaNode) -> Result<(), SchemaError> {
        let size = sizes(members, ["minProperties", "maxProperties"], TypeSet::OBJECT, node)?;
        let mut rules = ObjectRules { size, ..ObjectRules::default() };
        for (name, schema) in schema_map(members, "properties")? {
            rules.properties.push(PropertyRule { name: name.into(), schema: Some(self.schema(schema)?) });
        }
        let required = match members.get("required") {
            None => Vec::new(),
            Some(list) => match list.as_array().map(|names| names.iter().map(JsonTree::as_str).collect()) {
                Some(Some(names)) => names,
                _ => return invalid(list, "a list of names"),
            },
        };
        add_required(&mut rules, &required);
        rules.additional = self.additional(members.get("additionalProperties"))?;
        rules.has_patterns = schema_map(members, "patternProperties")?.next().is_some();
        let has_rules = !size.is_open()
            || !rules.properties.is_empty()
            || !matches!(rules.additional, Additional::Anything);
        node.object = has_rules.then(|| Box::new(rules));
        Ok(())
    }

    fn additional(&mut self, schema: Option<&'s JsonTree>) -> Result<Additional, SchemaError> {
        Ok(match schema {
            None | Some(JsonTree::Boolean(true)) => Additional::Anything,
            Some(JsonTree::Boolean(false)) => Additional::Nothing,
            Some(schema) => Additional::Schema(self.schema(schema)?),
        })
    }

    fn alternatives(
        &mut self,
        members: &'s JsonMembers,
        keyword: &str,
    ) -> Result<Option<Box<[NodeId]>>, SchemaError> {
        let Some(list) = members.get(keyword) else { return Ok(None) };
        let Some(schemas) = list.as_array().filter(|schemas| !schemas.is_empty()) else {
            return invalid(list, "a list of schemas");
        };
        schemas.iter().map(|schema| self.schema(schema)).collect::<Result<_, _>>().map(Some)
    }

    /// Marks the keywords that are not checked. The schemas in them are compiled too, because a document with any
    /// invalid schema is unusable.
    fn unchecked(&mut self, members: &'s JsonMembers, node: &mut SchemaNode) -> Result<(), SchemaError> {
        for (keyword, value) in members.iter() {
            node.unchecked = node.unchecked.union(self.draft.unchecked_types(keyword));
            match keyword {
                "not" | "if" | "then" | "else" | "contains" | "propertyNames" => {
                    self.schema(value)?;
                }
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                    for (_, schema) in schema_map(members, keyword)? {
                        self.schema(schema)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn invalid<T>(found: &JsonTree, expected: &'static str) -> Result<T, SchemaError> {
    let found = found.to_string().chars().take(MAX_FOUND_CHARACTERS).collect();
    Err(SchemaError::Invalid { found, expected })
}

fn number<'s>(members: &'s JsonMembers, keyword: &str) -> Result<Option<&'s JsonNumber>, SchemaError> {
    match members.get(keyword) {
        None => Ok(None),
        Some(JsonTree::Number(number)) => Ok(Some(number)),
        Some(other) => invalid(other, "a number"),
    }
}

fn sizes(
    members: &JsonMembers,
    keywords: [&str; 2],
    types: TypeSet,
    node: &mut SchemaNode,
) -> Result<SizeRange, SchemaError> {
    let mut size = |keyword| {
        let Some(limit) = number(members, keyword)? else { return Ok(None) };
        let is_size = limit.decimal().is_some_and(|limit| limit.is_integer() && !limit.is_negative());
        if !is_size {
            return invalid(&JsonTree::Number(limit.clone()), "a size");
        }
        let parsed = limit.text().parse().ok();
        if parsed.is_none() {
            node.unchecked = node.unchecked.union(types);
        }
        Ok(parsed)
    };
    Ok(SizeRange { min: size(keywords[0])?, max: size(keywords[1])? })
}

fn schema_map<'s>(
    members: &'s JsonMembers,
    keyword: &str,
) -> Result<impl Iterator<Item = (&'s str, &'s JsonTree)> + use<'s>, SchemaError> {
    let map = match members.get(keyword) {
        None => None,
        Some(JsonTree::Object(map)) => Some(map),
        Some(other) => return invalid(other, "an object of schemas"),
    };
    Ok(map.into_iter().flat_map(JsonMembers::iter))
}

/// Adds the required properties to the rules, also those that are not declared.
fn add_required(rules: &mut ObjectRules, names: &[&str]) {
    let undeclared: BTreeSet<&str> =
        names.iter().copied().filter(|name| rules.find(name.as_bytes()).is_none()).collect();
    let undeclared = undeclared.into_iter().map(|name| PropertyRule { name: name.into(), schema: None });
    rules.properties.extend(undeclared);
    rules.properties.sort_by(|a, b| a.name.cmp(&b.name));
    let mut seen = HashSet::new();
    let places = names.iter().filter_map(|name| rules.find(name.as_bytes()));
    rules.required = places.filter(|place| seen.insert(*place)).collect();
}

/// The declared properties that the root does not require.
fn optional_properties(root: &JsonTree) -> Vec<Box<str>> {
    let Some(members) = root.as_object() else { return Vec::new() };
    let required = members.get("required").and_then(JsonTree::as_array).unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|known| known.as_str() == Some(name));
    let declared = members.get("properties").and_then(JsonTree::as_object);
    let names = declared.into_iter().flat_map(JsonMembers::iter).map(|(name, _)| name);
    names.filter(|name| !is_required(name)).map(Box::from).collect()
}

/// Whether a part of the document has an identifier. The root may have one.
fn has_nested_id(value: &JsonTree, keyword: &str, is_root: bool) -> bool {
    match value {
        JsonTree::Array(elements) => elements.iter().any(|element| has_nested_id(element, keyword, false)),
        JsonTree::Object(members) => {
            let has_id = !is_root && members.get(keyword).is_some_and(|id| id.as_str().is_some());
            has_id || members.iter().any(|(_, member)| has_nested_id(member, keyword, false))
        }
        _ => false,
    }
}
