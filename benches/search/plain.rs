//! BM25 as in textbooks, to compare with: one field, lower-case words, k1 1.2, b 0.75.

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

pub(crate) struct Plain {
    /// How often each word stands in each document.
    counts: Vec<HashMap<String, f64>>,
    /// In how many documents a word stands.
    having: HashMap<String, f64>,
}

impl Plain {
    pub(crate) fn new<'a>(definitions: impl Iterator<Item = &'a RawValue>) -> Self {
        let counts: Vec<HashMap<String, f64>> = definitions
            .map(|definition| {
                let mut counts = HashMap::new();
                for word in words(&text(definition)) {
                    *counts.entry(word).or_default() += 1.0;
                }
                counts
            })
            .collect();
        let mut having = HashMap::new();
        for word in counts.iter().flat_map(HashMap::keys) {
            *having.entry(word.clone()).or_default() += 1.0;
        }
        Self { counts, having }
    }

    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let all = self.counts.len() as f64;
        let length = |counts: &HashMap<String, f64>| counts.values().sum::<f64>();
        let mean = self.counts.iter().map(length).sum::<f64>() / all;
        let score = |counts: &HashMap<String, f64>| -> f64 {
            let norm = 1.2 * (0.25 + 0.75 * length(counts) / mean);
            let words = words(query).into_iter().filter_map(|word| {
                let (count, having) = (counts.get(&word)?, self.having.get(&word)?);
                let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
                Some(rarity * count * 2.2 / (count + norm))
            });
            words.sum()
        };
        let mut ranked: Vec<(f64, usize)> =
            self.counts.iter().enumerate().map(|(at, counts)| (score(counts), at)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked.into_iter().take(limit).map(|(_, at)| at).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Name, description, and the names and descriptions of the parameters.
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
