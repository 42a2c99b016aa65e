//! JSON Schema as types in the manner of TypeScript. What types cannot say stands in comments; what neither can say is
//! owned up to (`lossless`).

use super::notes::{self, LONGEST_VALUES, comment};
use super::reference;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Schemas within schemas; deeper ones are `any`.
const DEEPEST: usize = 24;
/// Schemas written at all.
const MOST: usize = 3000;
/// A type, and what stands beside it.
#[derive(Debug, Clone, Default)]
pub struct Type {
    pub text: String,
    pub default: Option<String>,
    /// For a comment: bounds first, then the description.
    pub notes: Vec<String>,
    /// Binds weaker than `[]`.
    loose: bool,
}

impl Type {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// With its comment.
    pub fn commented(&self) -> String {
        match self.notes.is_empty() {
            true => self.text.clone(),
            false => format!("{} /* {} */", self.text, comment(&self.notes.join("; "))),
        }
    }

    /// As a part of another type.
    fn part(mut self) -> Self {
        if let Some(default) = self.default.take() {
            self.notes.insert(0, format!("default {default}"));
        }
        Self { text: self.commented(), loose: self.loose || !self.notes.is_empty(), ..Self::default() }
    }

    fn bound(self) -> String {
        let Self { text, loose, .. } = self.part();
        if loose { format!("({text})") } else { text }
    }
}

/// Writes the types of one schema document.
pub struct Types<'s> {
    root: &'s Value,
    uses: HashMap<&'s str, usize>,
    /// References that have a name, in the order they got it.
    names: Vec<(&'s str, String)>,
    /// References that are being written where they stand.
    open: Vec<&'s str>,
    written: usize,
    pub lossless: bool,
}

impl<'s> Types<'s> {
    pub fn new(root: &'s Value) -> Self {
        let uses = reference::count_references(root);
        Self { root, uses, names: Vec::new(), open: vec!["#"], written: 0, lossless: true }
    }

    pub fn of(&mut self, schema: &'s Value) -> Type {
        self.at(schema, 0)
    }

    /// The members of an object, and what there is to say of it besides, if it is made of nothing but them.
    pub fn members(&mut self, schema: &'s Value) -> Option<(Vec<String>, Vec<String>)> {
        let map = schema.as_object()?;
        if ["$ref", "allOf", "anyOf", "oneOf", "enum", "const"].iter().any(|key| map.contains_key(*key)) {
            return None;
        }
        let is_object = matches!(map.get("type").and_then(Value::as_str), Some("object"))
            || !map.contains_key("type") && map.contains_key("properties");
        let members = is_object.then(|| self.object_members(map, 0))?;
        let notes = self.notes(map, &["default", "nullable"]);
        // Open to anything, where nothing is named, is not the same as without parameters.
        let open = members.is_empty() && map.get("additionalProperties").is_some_and(|more| more != false);
        (!open).then_some((members, notes))
    }

    /// The types that got a name, a line each.
    pub fn named(&mut self) -> String {
        let mut lines = String::new();
        let mut done = 0;
        while let Some((reference, name)) = self.names.get(done).cloned() {
            done += 1;
            if let Some(target) = reference::resolve(self.root, reference) {
                let body = self.at(target, 0).part();
                lines.push_str(&format!("\ntype {name} = {}", body.text));
            }
        }
        lines
    }

    fn at(&mut self, schema: &'s Value, depth: usize) -> Type {
        self.written += 1;
        match schema {
            Value::Bool(true) => Type::plain("any"),
            Value::Bool(false) => Type::plain("never"),
            Value::Object(map) if depth < DEEPEST && self.written < MOST => self.of_map(map, depth + 1),
            _ => self.lost("any"),
        }
    }

    fn of_map(&mut self, map: &'s Map<String, Value>, depth: usize) -> Type {
        let mut parts: Vec<Type> = Vec::new();
        if let Some(reference) = map.get("$ref") {
            parts.push(self.reference(reference, depth));
        }
        parts.extend(self.own(map, depth));
        for key in ["oneOf", "anyOf"] {
            if let Some(schemas) = self.list(map, key) {
                parts.push(self.union(schemas, depth));
            }
        }
        for schema in self.list(map, "allOf").into_iter().flatten() {
            parts.push(self.at(schema, depth));
        }
        let mut whole = intersection(parts);
        if map.get("nullable") == Some(&Value::Bool(true)) && !whole.text.ends_with("null") {
            whole.text.push_str(" | null");
            whole.loose = true;
        }
        if let Some(default) = map.get("default") {
            whole.default = Some(self.value(default));
        }
        whole.notes.extend(self.notes(map, &[]));
        whole
    }

    /// What the schema says by itself, if it says more than the schemas it is made of.
    fn own(&mut self, map: &'s Map<String, Value>, depth: usize) -> Option<Type> {
        if let Some(value) = map.get("const") {
            return Some(Type::plain(self.value(value)));
        }
        if let Some(values) = self.list(map, "enum") {
            return Some(self.values(values));
        }
        let composed = ["$ref", "oneOf", "anyOf", "allOf"].iter().any(|key| map.contains_key(*key));
        let kinds: Vec<&str> = match map.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ if OBJECTS.iter().any(|key| map.contains_key(*key)) => vec!["object"],
            _ if ARRAYS.iter().any(|key| map.contains_key(*key)) => vec!["array"],
            _ => Vec::new(),
        };
        let mut seen = HashSet::new();
        let kinds = kinds.into_iter().filter(|kind| seen.insert(*kind)).collect::<Vec<_>>();
        let texts: Vec<Type> = kinds.iter().map(|kind| self.kind(kind, map, depth)).collect();
        match &texts[..] {
            [] if composed => None,
            [] => Some(Type::plain("any")),
            [one] if composed && one.text == "object" => None,
            [one] => Some(one.clone()),
            _ => Some(joined(texts, " | ")),
        }
    }

    fn kind(&mut self, kind: &str, map: &'s Map<String, Value>, depth: usize) -> Type {
        match kind {
            "object" => {
                let members = self.object_members(map, depth);
                match members.is_empty() {
                    true if map.get("additionalProperties") == Some(&Value::Bool(false)) => Type::plain("{}"),
                    true => Type::plain("object"),
                    false => Type::plain(format!("{{{}}}", members.join(", "))),
                }
            }
            "array" => self.array(map, depth),
            "string" | "number" | "integer" | "boolean" | "null" => Type::plain(kind),
            _ => self.lost("any"),
        }
    }

    fn object_members(&mut self, map: &'s Map<String, Value>, depth: usize) -> Vec<String> {
        let required: Vec<&str> = match map.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
            Some(_) => {
                self.lossless = false;
                Vec::new()
            }
        };
        let needed: HashSet<&str> = required.iter().copied().collect();
        let properties = map.get("properties").and_then(Value::as_object);
        let mut members: Vec<String> = Vec::new();
        for (name, schema) in properties.into_iter().flatten() {
            let Type { text, default, notes, .. } = self.at(schema, depth);
            let optional = if needed.contains(name.as_str()) { "" } else { "?" };
            let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
            let typed = Type { text: format!("{text}{default}"), notes, ..Type::default() };
            members.push(format!("{}{optional}: {}", key(name), typed.commented()));
        }
        let undeclared =
            required.iter().filter(|name| properties.is_none_or(|all| !all.contains_key(**name)));
        members.extend(undeclared.map(|name| format!("{}: any", key(name))));
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        for (pattern, schema) in patterns.into_iter().flatten() {
            let member = self.at(schema, depth).part();
            members.push(format!("[/{pattern}/]: {}", member.text));
        }
        if let Some(more @ Value::Object(schema)) = map.get("additionalProperties")
            && !schema.is_empty()
        {
            let member = self.at(more, depth).part();
            members.push(format!("[key: string]: {}", member.text));
        }
        members
    }

    fn array(&mut self, map: &'s Map<String, Value>, depth: usize) -> Type {
        let first = map.get("prefixItems").or_else(|| map.get("items").filter(|items| items.is_array()));
        let Some(Value::Array(first)) = first else {
            return match map.get("items") {
                Some(items) => Type::plain(format!("{}[]", self.at(items, depth).bound())),
                None => Type::plain("any[]"),
            };
        };
        let mut items: Vec<String> = first.iter().map(|schema| self.at(schema, depth).part().text).collect();
        let rest = match map.contains_key("prefixItems") {
            true => map.get("items"),
            false => map.get("additionalItems"),
        };
        match rest {
            Some(Value::Bool(false)) => {}
            Some(rest) => items.push(format!("...{}[]", self.at(rest, depth).bound())),
            None => items.push("...any[]".to_owned()),
        }
        Type::plain(format!("[{}]", items.join(", ")))
    }

    fn reference(&mut self, reference: &'s Value, depth: usize) -> Type {
        let Some((reference, target)) =
            reference.as_str().and_then(|r| Some((r, reference::resolve(self.root, r)?)))
        else {
            return self.lost("any");
        };
        let once = self.uses.get(reference).is_none_or(|uses| *uses < 2);
        let named = self.names.iter().find(|(known, _)| *known == reference);
        if let Some((_, name)) = named {
            return Type::plain(name.clone());
        }
        if once && !self.open.contains(&reference) {
            self.open.push(reference);
            let inline = self.at(target, depth);
            self.open.pop();
            return inline;
        }
        let name = self.fresh_name(reference);
        self.names.push((reference, name.clone()));
        Type::plain(name)
    }

    fn fresh_name(&self, reference: &str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String = last.chars().filter(|c| c.is_alphanumeric() || *c == '_').take(40).collect();
        let plain = if plain.is_empty() { "Arguments".to_owned() } else { plain };
        let taken = |name: &str| self.names.iter().any(|(_, known)| known == name);
        let numbered = (2..).map(|n| format!("{plain}{n}"));
        std::iter::once(plain.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    fn union(&mut self, schemas: &'s [Value], depth: usize) -> Type {
        let mut parts: Vec<Type> = Vec::new();
        for schema in schemas {
            let part = self.at(schema, depth);
            if parts.iter().all(|known| known.text != part.text || known.notes != part.notes) {
                parts.push(part);
            }
        }
        match parts.len() {
            0 => Type::plain("never"),
            1 => parts.remove(0),
            _ => joined(parts, " | "),
        }
    }

    /// One of these values.
    fn values(&mut self, values: &[Value]) -> Type {
        let mut text = String::new();
        for value in values {
            if text.len() > LONGEST_VALUES {
                self.lossless = false;
                text.push_str(" | …");
                break;
            }
            let value = self.value(value);
            text.push_str(if text.is_empty() { "" } else { " | " });
            text.push_str(&value);
        }
        Type { loose: values.len() != 1, ..Type::plain(if text.is_empty() { "never" } else { &text }) }
    }

    fn list(&mut self, map: &'s Map<String, Value>, key: &str) -> Option<&'s [Value]> {
        match map.get(key)? {
            Value::Array(list) => Some(list),
            _ => {
                self.lossless = false;
                None
            }
        }
    }

    fn value(&mut self, value: &Value) -> String {
        notes::value(value).unwrap_or_else(|| {
            self.lossless = false;
            "…".to_owned()
        })
    }

    /// Bounds and the description, for a comment; owns up to what it does not say.
    fn notes(&mut self, map: &Map<String, Value>, unsaid: &[&str]) -> Vec<String> {
        let (notes, all) = notes::of(map);
        self.lossless &= all && notes::say_all(map, unsaid);
        notes
    }

    fn lost(&mut self, text: &str) -> Type {
        self.lossless = false;
        Type::plain(text)
    }
}

/// Keywords that speak of objects only.
const OBJECTS: &[&str] = &["properties", "required", "additionalProperties", "patternProperties"];
/// Keywords that speak of arrays only.
const ARRAYS: &[&str] = &["items", "prefixItems"];

/// All of these at once.
fn intersection(mut parts: Vec<Type>) -> Type {
    match parts.len() {
        0 => Type::plain("any"),
        1 => parts.remove(0),
        _ => {
            let parts: Vec<String> = parts.into_iter().map(Type::bound).collect();
            Type { loose: true, ..Type::plain(parts.join(" & ")) }
        }
    }
}

fn joined(parts: Vec<Type>, by: &str) -> Type {
    let parts: Vec<String> = parts.into_iter().map(|part| part.part().text).collect();
    Type { loose: true, ..Type::plain(parts.join(by)) }
}

fn key(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'));
    if plain { name.to_owned() } else { comment(&Value::from(name).to_string()) }
}
