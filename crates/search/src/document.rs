//! Tools as documents: the fields that are searched, as lists of terms.

use super::tokenizer;
use serde_json::Value;
use std::collections::HashMap;

/// The depth to which a schema is read. Deeper parameters say little about a tool's purpose.
const MAX_SCHEMA_DEPTH: usize = 4;

/// A field of a document. The discriminants are indexes in a [`Document`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The tool's name and title.
    Name,
    /// The tool's description.
    Description,
    /// The names, descriptions and allowed values of the tool's parameters.
    Parameters,
    /// The group's name.
    GroupName,
    /// The group's description.
    GroupDescription,
}

/// The number of fields.
pub(crate) const FIELD_COUNT: usize = 5;

/// The number of a term.
pub(crate) type TermId = usize;

/// The terms of each field, in the order of the text.
pub type Document = [Vec<TermId>; FIELD_COUNT];

/// Turns texts into numbered terms.
pub struct Analyzer {
    stemmers: tokenizer::Stemmers,
    /// The numbers of terms.
    ids: HashMap<String, TermId>,
    /// The numbers of tokens as they are written. Most tokens recur, and stemming takes time.
    token_ids: HashMap<String, Option<TermId>>,
    /// How many terms are taken from the texts that follow.
    room: usize,
}

impl Default for Analyzer {
    fn default() -> Self {
        let stemmers = tokenizer::stemmers();
        Self { stemmers, ids: HashMap::new(), token_ids: HashMap::new(), room: usize::MAX }
    }
}

impl Analyzer {
    /// Returns the terms of a text.
    pub fn terms(&mut self, text: &str) -> Vec<TermId> {
        let mut terms = Vec::new();
        self.add_terms(text, &mut terms);
        terms
    }

    fn add_terms(&mut self, text: &str, terms: &mut Vec<TermId>) {
        if self.room == 0 {
            return;
        }
        tokenizer::for_each_token(text, &mut |token| {
            if self.room == 0 {
                return;
            }
            self.room -= 1;
            let id = match self.token_ids.get(token) {
                Some(id) => *id,
                None => {
                    let ids = &mut self.ids;
                    let id = tokenizer::normalize(token, &self.stemmers).map(|term| {
                        let next = ids.len();
                        *ids.entry(term).or_insert(next)
                    });
                    self.token_ids.insert(token.to_owned(), id);
                    id
                }
            };
            terms.extend(id);
        });
    }

    /// Returns the document of a tool, without its group. Members of the definition that have another type than they
    /// should are left out, and so is what follows the first `max_terms` terms.
    pub fn document(&mut self, name: &str, definition: &[u8], max_terms: usize) -> Document {
        self.room = max_terms;
        let document = self.bounded_document(name, definition);
        self.room = usize::MAX;
        document
    }

    fn bounded_document(&mut self, name: &str, definition: &[u8]) -> Document {
        let mut document = Document::default();
        self.add_terms(name, &mut document[Field::Name as usize]);
        let Ok(definition) = serde_json::from_slice::<Value>(definition) else { return document };
        let title = definition.get("title").or_else(|| definition.pointer("/annotations/title"));
        if let Some(title) = title.and_then(Value::as_str) {
            self.add_terms(title, &mut document[Field::Name as usize]);
        }
        if let Some(text) = definition.get("description").and_then(Value::as_str) {
            self.add_terms(text, &mut document[Field::Description as usize]);
        }
        // Some servers call it `parameters`.
        if let Some(schema) = definition.get("inputSchema").or_else(|| definition.get("parameters")) {
            let parameters = &mut document[Field::Parameters as usize];
            self.add_parameters(schema, MAX_SCHEMA_DEPTH, parameters);
        }
        document
    }

    /// Adds the terms of a schema's parameters, and of the parameters inside them.
    fn add_parameters(&mut self, schema: &Value, depth: usize, terms: &mut Vec<TermId>) {
        if depth == 0 {
            return;
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.add_terms(name, terms);
            if let Some(text) = property.get("description").and_then(Value::as_str) {
                self.add_terms(text, terms);
            }
            let choices = property.get("enum").and_then(Value::as_array).into_iter().flatten();
            choices.filter_map(Value::as_str).for_each(|choice| self.add_terms(choice, terms));
            self.add_parameters(property, depth - 1, terms);
        }
        let items = schema.get("items").into_iter();
        let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array());
        for inner in items.chain(alternatives.flatten()) {
            self.add_parameters(inner, depth - 1, terms);
        }
    }

    /// Returns every term with its number.
    pub fn into_terms(self) -> HashMap<String, TermId> {
        self.ids
    }
}
