//! Textbook BM25 as a baseline: one field, lower-case words, k1 = 1.2, b = 0.75.

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// An index of documents.
pub(crate) struct Bm25 {
    /// The term frequencies of each document.
    frequencies: Vec<HashMap<String, f64>>,
    /// The document frequency of each term.
    document_frequencies: HashMap<String, f64>,
}

impl Bm25 {
    /// Indexes the definitions of tools.
    pub(crate) fn new<'a>(definitions: impl Iterator<Item = &'a RawValue>) -> Self {
        let frequencies: Vec<HashMap<String, f64>> = definitions
            .map(|definition| {
                let mut frequencies = HashMap::new();
                for word in words(&text(definition)) {
                    *frequencies.entry(word).or_default() += 1.0;
                }
                frequencies
            })
            .collect();
        let mut document_frequencies = HashMap::new();
        for word in frequencies.iter().flat_map(HashMap::keys) {
            *document_frequencies.entry(word.clone()).or_default() += 1.0;
        }
        Self { frequencies, document_frequencies }
    }

    /// Returns the positions of the best documents, the best first.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let count = self.frequencies.len() as f64;
        let length = |document: &HashMap<String, f64>| document.values().sum::<f64>();
        let mean_length = self.frequencies.iter().map(length).sum::<f64>() / count;
        let score = |document: &HashMap<String, f64>| -> f64 {
            let norm = 1.2 * (0.25 + 0.75 * length(document) / mean_length);
            let scores = words(query).into_iter().filter_map(|word| {
                let (frequency, containing) = (document.get(&word)?, self.document_frequencies.get(&word)?);
                let idf = (1.0 + (count - containing + 0.5) / (containing + 0.5)).ln();
                Some(idf * frequency * 2.2 / (frequency + norm))
            });
            scores.sum()
        };
        let mut ranked: Vec<(f64, usize)> = self
            .frequencies
            .iter()
            .enumerate()
            .map(|(position, document)| (score(document), position))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked.into_iter().take(limit).map(|(_, position)| position).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The name and description of a tool, and those of its parameters.
fn text(definition: &RawValue) -> String {
    let definition: Value = serde_json::from_str(definition.get()).unwrap();
    let mut text = String::new();
    let mut add = |value: &Value| {
        text.push_str(value.as_str().unwrap_or_default());
        text.push(' ');
    };
    add(&definition["name"]);
    add(&definition["description"]);
    for (name, property) in definition["inputSchema"]["properties"].as_object().into_iter().flatten() {
        add(&Value::from(name.as_str()));
        add(&property["description"]);
    }
    text
}
