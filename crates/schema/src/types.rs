//! JSON Schema as types in the manner of TypeScript, with comments for the rules that types do not have.

use super::comments::{self, MAX_VALUE_BYTES, escape_comment};
use super::reference;
use base::text::visible;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Schemas that are nested deeper are written as `any`.
const MAX_DEPTH: usize = 24;
/// Of a document with more schemas, the rest is written as `any`.
const MAX_SCHEMAS: usize = 3000;

/// A type as text, with what stands beside it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypeExpression {
    /// The type itself.
    pub text: String,
    /// The default value, as JSON.
    pub default: Option<String>,
    /// Limits and the like, then the description.
    pub comments: Vec<String>,
    /// Whether the type needs parentheses before `[]` and beside `&`.
    needs_parentheses: bool,
}

impl TypeExpression {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns the type with its comments behind it.
    pub(crate) fn with_comments(&self) -> String {
        match self.comments.is_empty() {
            true => self.text.clone(),
            false => format!("{} /* {} */", self.text, escape_comment(&self.comments.join("; "))),
        }
    }

    /// Returns the type as a part of another type: its default and its comments are in its text.
    fn into_part(mut self) -> Self {
        if let Some(default) = self.default.take() {
            self.comments.insert(0, format!("default {default}"));
        }
        Self {
            text: self.with_comments(),
            needs_parentheses: self.needs_parentheses || !self.comments.is_empty(),
            ..Self::default()
        }
    }

    /// Returns the type as an operand: in parentheses where it needs them.
    fn into_operand(self) -> String {
        let Self { text, needs_parentheses, .. } = self.into_part();
        if needs_parentheses { format!("({text})") } else { text }
    }
}

/// Writes the schemas of one document as types.
pub(crate) struct TypeWriter<'s> {
    root: &'s Value,
    /// How often each reference occurs in the document.
    uses: HashMap<&'s str, usize>,
    /// The references whose targets have a name.
    names: TypeNames<'s>,
    /// The references whose targets are being written in place.
    open: Vec<&'s str>,
    /// The number of schemas written so far.
    written: usize,
    /// Whether the types written so far have every rule of their schemas.
    pub lossless: bool,
}

impl<'s> TypeWriter<'s> {
    /// Creates a writer for the schema `root`, in which references are resolved.
    pub(crate) fn new(root: &'s Value) -> Self {
        let uses = reference::count_references(root);
        Self { root, uses, names: TypeNames::default(), open: vec!["#"], written: 0, lossless: true }
    }

    /// Writes a schema of the document.
    pub(crate) fn write(&mut self, schema: &'s Value) -> TypeExpression {
        self.type_at_depth(schema, 0)
    }

    /// Writes the members of an object, and the comments on it. `None` if the schema is more than an object with
    /// members.
    pub(crate) fn members(&mut self, schema: &'s Value) -> Option<(Vec<String>, Vec<String>)> {
        let schema = schema.as_object()?;
        if ["$ref", "allOf", "anyOf", "oneOf", "enum", "const"].iter().any(|key| schema.contains_key(*key)) {
            return None;
        }
        let is_object = matches!(schema.get("type").and_then(Value::as_str), Some("object"))
            || !schema.contains_key("type") && schema.contains_key("properties");
        let members = is_object.then(|| self.object_members(schema, 0))?;
        let comments = self.comments(schema, &["default", "nullable"]);
        // An object that may have any members differs from one without parameters.
        let is_open =
            members.is_empty() && schema.get("additionalProperties").is_some_and(|more| more != false);
        (!is_open).then_some((members, comments))
    }

    /// Returns the declarations of the types that got a name so far, and of those that these name, each after a line
    /// end.
    pub(crate) fn declarations(&mut self) -> String {
        let mut lines = String::new();
        let mut done = 0;
        while let Some((reference, name)) = self.names.nth(done) {
            done += 1;
            if let Some(target) = reference::resolve(self.root, reference) {
                let body = self.type_at_depth(target, 0).into_part();
                let text = visible(&body.text);
                self.lossless &= text == body.text;
                lines.push_str(&format!("\ntype {} = {text}", visible(&name)));
            }
        }
        lines
    }

    /// Returns the type of a schema: `any`, marked incomplete, beyond `MAX_DEPTH` or `MAX_SCHEMAS`.
    fn type_at_depth(&mut self, schema: &'s Value, depth: usize) -> TypeExpression {
        self.written += 1;
        match schema {
            Value::Bool(true) => TypeExpression::new("any"),
            Value::Bool(false) => TypeExpression::new("never"),
            Value::Object(schema) if depth < MAX_DEPTH && self.written < MAX_SCHEMAS => {
                self.composed_type(schema, depth + 1)
            }
            _ => self.incomplete("any"),
        }
    }

    /// Returns the intersection of everything that the schema says.
    fn composed_type(&mut self, schema: &'s Map<String, Value>, depth: usize) -> TypeExpression {
        let mut parts: Vec<TypeExpression> = Vec::new();
        if let Some(reference) = schema.get("$ref") {
            parts.push(self.reference(reference, depth));
        }
        parts.extend(self.own_type(schema, depth));
        for key in ["oneOf", "anyOf"] {
            if let Some(schemas) = self.list(schema, key) {
                parts.push(self.union(schemas, depth));
            }
        }
        for schema in self.list(schema, "allOf").into_iter().flatten() {
            parts.push(self.type_at_depth(schema, depth));
        }
        let mut whole = intersection(parts);
        if schema.get("nullable") == Some(&Value::Bool(true)) && !whole.text.ends_with("null") {
            whole.text.push_str(" | null");
            whole.needs_parentheses = true;
        }
        if let Some(default) = schema.get("default") {
            whole.default = Some(self.value(default));
        }
        whole.comments.extend(self.comments(schema, &[]));
        whole
    }

    /// Returns the type by the schema's own keywords. `None` if they add nothing to the schemas that it is composed of.
    fn own_type(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Option<TypeExpression> {
        if let Some(value) = schema.get("const") {
            return Some(TypeExpression::new(self.value(value)));
        }
        if let Some(values) = self.list(schema, "enum") {
            return Some(self.values(values));
        }
        let is_composed = ["$ref", "oneOf", "anyOf", "allOf"].iter().any(|key| schema.contains_key(*key));
        let types: Vec<&str> = match schema.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ if OBJECT_KEYWORDS.iter().any(|key| schema.contains_key(*key)) => vec!["object"],
            _ if ARRAY_KEYWORDS.iter().any(|key| schema.contains_key(*key)) => vec!["array"],
            _ => Vec::new(),
        };
        let mut seen = HashSet::new();
        let types = types.into_iter().filter(|name| seen.insert(*name)).collect::<Vec<_>>();
        let types: Vec<TypeExpression> =
            types.iter().map(|name| self.type_named(name, schema, depth)).collect();
        match &types[..] {
            [] if is_composed => None,
            [] => Some(TypeExpression::new("any")),
            [only] if is_composed && only.text == "object" => None,
            [only] => Some(only.clone()),
            _ => Some(joined(types, " | ")),
        }
    }

    /// Returns the type that `type` names, with the other keywords of the schema.
    fn type_named(&mut self, name: &str, schema: &'s Map<String, Value>, depth: usize) -> TypeExpression {
        match name {
            "object" => {
                let members = self.object_members(schema, depth);
                match members.is_empty() {
                    true if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                        TypeExpression::new("{}")
                    }
                    true => TypeExpression::new("object"),
                    false => TypeExpression::new(format!("{{{}}}", members.join(", "))),
                }
            }
            "array" => self.array(schema, depth),
            "string" | "number" | "integer" | "boolean" | "null" => TypeExpression::new(name),
            _ => self.incomplete("any"),
        }
    }

    fn object_members(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Vec<String> {
        let required = self.list(schema, "required").into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        let required_set: HashSet<&str> = required.iter().copied().collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut members: Vec<String> = Vec::new();
        for (name, schema) in properties.into_iter().flatten() {
            let TypeExpression { text, default, comments, .. } = self.type_at_depth(schema, depth);
            let mark = if required_set.contains(name.as_str()) { "" } else { "?" };
            let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
            let text = format!("{text}{default}");
            let member = TypeExpression { text, comments, ..TypeExpression::default() };
            members.push(format!("{}{mark}: {}", property_name(name), member.with_comments()));
        }
        let undeclared =
            required.iter().filter(|name| properties.is_none_or(|all| !all.contains_key(**name)));
        members.extend(undeclared.map(|name| format!("{}: any", property_name(name))));
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (pattern, schema) in patterns.into_iter().flatten() {
            let member = self.type_at_depth(schema, depth).into_part();
            members.push(format!("[/{}/]: {}", escape_comment(pattern), member.text));
        }
        if let Some(more @ Value::Object(schema)) = schema.get("additionalProperties")
            && !schema.is_empty()
        {
            let member = self.type_at_depth(more, depth).into_part();
            members.push(format!("[key: string]: {}", member.text));
        }
        members
    }

    fn array(&mut self, schema: &'s Map<String, Value>, depth: usize) -> TypeExpression {
        let first =
            schema.get("prefixItems").or_else(|| schema.get("items").filter(|items| items.is_array()));
        let Some(Value::Array(first)) = first else {
            return match schema.get("items") {
                Some(items) => {
                    TypeExpression::new(format!("{}[]", self.type_at_depth(items, depth).into_operand()))
                }
                None => TypeExpression::new("any[]"),
            };
        };
        let mut items: Vec<String> =
            first.iter().map(|schema| self.type_at_depth(schema, depth).into_part().text).collect();
        let rest = match schema.contains_key("prefixItems") {
            true => schema.get("items"),
            false => schema.get("additionalItems"),
        };
        match rest {
            Some(Value::Bool(false)) => {}
            Some(rest) => items.push(format!("...{}[]", self.type_at_depth(rest, depth).into_operand())),
            None => items.push("...any[]".to_owned()),
        }
        TypeExpression::new(format!("[{}]", items.join(", ")))
    }

    /// Returns the target of a reference, in place if that is its only use, else by name.
    fn reference(&mut self, reference: &'s Value, depth: usize) -> TypeExpression {
        let Some((reference, target)) =
            reference.as_str().and_then(|r| Some((r, reference::resolve(self.root, r)?)))
        else {
            return self.incomplete("any");
        };
        let is_used_once = self.uses.get(reference).is_none_or(|uses| *uses < 2);
        if let Some(name) = self.names.get(reference) {
            return TypeExpression::new(name);
        }
        if is_used_once && !self.open.contains(&reference) {
            self.open.push(reference);
            let inline = self.type_at_depth(target, depth);
            self.open.pop();
            return inline;
        }
        TypeExpression::new(self.names.add(reference))
    }

    fn union(&mut self, schemas: &'s [Value], depth: usize) -> TypeExpression {
        let mut parts: Vec<TypeExpression> = Vec::new();
        let mut seen = HashSet::new();
        for schema in schemas {
            let part = self.type_at_depth(schema, depth);
            if seen.insert((part.text.clone(), part.comments.clone())) {
                parts.push(part);
            }
        }
        match parts.len() {
            0 => TypeExpression::new("never"),
            1 => parts.remove(0),
            _ => joined(parts, " | "),
        }
    }

    /// Returns the type of one of the values.
    fn values(&mut self, values: &[Value]) -> TypeExpression {
        let mut text = String::new();
        for value in values {
            if text.len() > MAX_VALUE_BYTES {
                self.lossless = false;
                text.push_str(" | …");
                break;
            }
            let value = self.value(value);
            text.push_str(if text.is_empty() { "" } else { " | " });
            text.push_str(&value);
        }
        TypeExpression {
            needs_parentheses: values.len() != 1,
            ..TypeExpression::new(if text.is_empty() { "never" } else { &text })
        }
    }

    /// Returns the list that is the value of a keyword.
    fn list(&mut self, schema: &'s Map<String, Value>, key: &str) -> Option<&'s [Value]> {
        match schema.get(key)? {
            Value::Array(list) => Some(list),
            _ => {
                self.lossless = false;
                None
            }
        }
    }

    fn value(&mut self, value: &Value) -> String {
        comments::literal(value).unwrap_or_else(|| {
            self.lossless = false;
            "…".to_owned()
        })
    }

    /// Returns the comments on a schema. Keywords that are neither in the type nor in them make the types incomplete.
    fn comments(&mut self, schema: &Map<String, Value>, unwritten: &[&str]) -> Vec<String> {
        let (comments, is_complete) = comments::comments_on(schema);
        self.lossless &= is_complete && comments::are_keywords_written(schema, unwritten);
        comments
    }

    /// Returns a type that is not all that its schema says.
    fn incomplete(&mut self, text: &str) -> TypeExpression {
        self.lossless = false;
        TypeExpression::new(text)
    }
}

/// Keywords that are rules for objects only.
const OBJECT_KEYWORDS: &[&str] = &["properties", "required", "additionalProperties", "patternProperties"];
/// Keywords that are rules for arrays only.
const ARRAY_KEYWORDS: &[&str] = &["items", "prefixItems"];

/// Returns the type of values that have all of these types.
fn intersection(mut parts: Vec<TypeExpression>) -> TypeExpression {
    match parts.len() {
        0 => TypeExpression::new("any"),
        1 => parts.remove(0),
        _ => {
            let parts: Vec<String> = parts.into_iter().map(TypeExpression::into_operand).collect();
            TypeExpression { needs_parentheses: true, ..TypeExpression::new(parts.join(" & ")) }
        }
    }
}

fn joined(parts: Vec<TypeExpression>, by: &str) -> TypeExpression {
    let parts: Vec<String> = parts.into_iter().map(|part| part.into_part().text).collect();
    TypeExpression { needs_parentheses: true, ..TypeExpression::new(parts.join(by)) }
}

fn property_name(name: &str) -> String {
    let is_identifier =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'));
    if is_identifier { name.to_owned() } else { Value::from(name).to_string() }
}

/// A longer name of a type is cut.
const MAX_NAME_CHARACTERS: usize = 40;

/// The references whose targets have a name. No two types have the same one.
#[derive(Default)]
struct TypeNames<'s> {
    /// The references and their names, in the order in which they got them.
    names: Vec<(&'s str, String)>,
    /// The places of the references in `names`.
    places: HashMap<&'s str, usize>,
    /// The names that are taken, and the number with which the search for the next one like it begins.
    taken: HashMap<String, usize>,
}

impl<'s> TypeNames<'s> {
    /// Returns the name of a reference's target, if it has one.
    pub(crate) fn get(&self, reference: &str) -> Option<&str> {
        Some(&self.names[*self.places.get(reference)?].1)
    }

    /// Returns the reference at `index`, in the order in which they were added, and its name. `None` if there are
    /// fewer.
    pub(crate) fn nth(&self, index: usize) -> Option<(&'s str, String)> {
        self.names.get(index).cloned()
    }

    /// Gives the target of a reference a name, and returns it. The reference must have none yet. If the name is taken,
    /// a number follows it.
    pub(crate) fn add(&mut self, reference: &'s str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String =
            last.chars().filter(|c| c.is_alphanumeric() || *c == '_').take(MAX_NAME_CHARACTERS).collect();
        let plain = if plain.is_empty() { "Arguments".to_owned() } else { plain };
        let mut name = plain.clone();
        while self.taken.contains_key(&name) {
            let next = self.taken.entry(plain.clone()).or_insert(2);
            name = format!("{plain}{next}");
            *next += 1;
        }
        self.taken.insert(name.clone(), 2);
        self.places.insert(reference, self.names.len());
        self.names.push((reference, name.clone()));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_however_many_references_end_alike() {
        let references: Vec<_> = (0..20_000).map(|n| format!("#/$defs/{n}/T")).collect();
        let mut names = TypeNames::default();
        assert_eq!(names.add("#/$defs/T3"), "T3");
        for reference in &references {
            names.add(reference);
        }
        assert_eq!(
            ["#/$defs/0/T", "#/$defs/1/T", "#/$defs/2/T"].map(|of| names.get(of).unwrap()),
            ["T", "T2", "T4"]
        );
        assert_eq!(names.taken.len(), 20_001);
        assert_eq!(names.nth(1), Some(("#/$defs/0/T", "T".to_owned())));
    }
}
