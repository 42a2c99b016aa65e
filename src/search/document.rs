//! What of a tool's definition is searched: its fields, as words.

use super::words;
use rust_stemmers::Stemmer;
use serde_json::Value;
use std::collections::HashMap;

/// How deep a schema is read; what is deeper says little of what a tool is for.
const DEPTH: usize = 4;

/// Where a word may stand. The numbers are places in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The tool's name and title.
    Name,
    Text,
    Parameters,
    /// The group's name.
    Group,
    /// What the group is about.
    About,
}

pub const FIELDS: usize = 5;

/// The words of every field, by their numbers.
pub type Document = [Vec<usize>; FIELDS];

/// Numbers for words.
pub struct Lexicon {
    stemmer: Stemmer,
    /// By how a word is compared.
    numbers: HashMap<String, usize>,
    /// By how it is written, because most words come again and stemming takes time.
    written: HashMap<String, Option<usize>>,
}

impl Default for Lexicon {
    fn default() -> Self {
        Self { stemmer: words::stemmer(), numbers: HashMap::new(), written: HashMap::new() }
    }
}

impl Lexicon {
    /// The words of a text.
    pub fn read(&mut self, text: &str) -> Vec<usize> {
        let mut read = Vec::new();
        self.read_into(text, &mut read);
        read
    }

    fn read_into(&mut self, text: &str, read: &mut Vec<usize>) {
        words::each(text, &mut |part| {
            let number = match self.written.get(part) {
                Some(number) => *number,
                None => {
                    let numbers = &mut self.numbers;
                    let number = words::normal(part, &self.stemmer).map(|word| {
                        let next = numbers.len();
                        *numbers.entry(word).or_insert(next)
                    });
                    self.written.insert(part.to_owned(), number);
                    number
                }
            };
            read.extend(number);
        });
    }

    /// Reads a tool's definition leniently: what is not as it should be is not searched.
    pub fn document(&mut self, name: &str, definition: &[u8]) -> Document {
        let mut document = Document::default();
        self.read_into(name, &mut document[Field::Name as usize]);
        let Ok(definition) = serde_json::from_slice::<Value>(definition) else { return document };
        let title = definition.get("title").or_else(|| definition.pointer("/annotations/title"));
        if let Some(title) = title.and_then(Value::as_str) {
            self.read_into(title, &mut document[Field::Name as usize]);
        }
        if let Some(text) = definition.get("description").and_then(Value::as_str) {
            self.read_into(text, &mut document[Field::Text as usize]);
        }
        // Some servers say `parameters`.
        if let Some(schema) = definition.get("inputSchema").or_else(|| definition.get("parameters")) {
            self.parameters(schema, DEPTH, &mut document[Field::Parameters as usize]);
        }
        document
    }

    /// Names, descriptions and choices of parameters, and of those inside them.
    fn parameters(&mut self, schema: &Value, depth: usize, read: &mut Vec<usize>) {
        if depth == 0 {
            return;
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.read_into(name, read);
            if let Some(text) = property.get("description").and_then(Value::as_str) {
                self.read_into(text, read);
            }
            let choices = property.get("enum").and_then(Value::as_array).into_iter().flatten();
            choices.filter_map(Value::as_str).for_each(|choice| self.read_into(choice, read));
            self.parameters(property, depth - 1, read);
        }
        let items = schema.get("items").into_iter();
        let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array());
        for inner in items.chain(alternatives.flatten()) {
            self.parameters(inner, depth - 1, read);
        }
    }

    /// Every word with its number.
    pub fn into_words(self) -> HashMap<String, usize> {
        self.numbers
    }
}
