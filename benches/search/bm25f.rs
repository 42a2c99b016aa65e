//! Bare BM25F as a baseline: the fields, weights, terms and stop words of `search`, and nothing else of it.

use ::search::SearchGroup;
use ::search::document::{Analyzer, Document, Field};
use ::search::query;
use ::search::tuning::{FIELD_WEIGHTS, LENGTH_NORMALIZATION, SATURATION};
use std::collections::HashMap;

/// An index of tools.
pub(crate) struct Bm25f {
    /// The postings of each term: documents, and the weights of the term there.
    postings: HashMap<String, Vec<(usize, f32)>>,
    /// The number of documents.
    count: usize,
}

impl Bm25f {
    /// Indexes the tools of all groups. Their positions count through the groups.
    pub(crate) fn new(groups: &[SearchGroup<'_>]) -> Self {
        let mut analyzer = Analyzer::default();
        let mut documents: Vec<Document> = Vec::new();
        for group in groups {
            let (name, description) = (analyzer.terms(group.name), analyzer.terms(&group.description));
            for (tool, definition) in &group.tools {
                let mut document = analyzer.document(tool, definition, usize::MAX);
                document[Field::GroupName as usize].clone_from(&name);
                document[Field::GroupDescription as usize].clone_from(&description);
                documents.push(document);
            }
        }
        let count = documents.len();
        let mut weights: HashMap<(usize, usize), f32> = HashMap::new();
        for field in 0..FIELD_WEIGHTS.len() {
            let length = |document: &Document| document[field].len() as f32;
            let mean = documents.iter().map(length).sum::<f32>() / count as f32;
            for (number, document) in documents.iter().enumerate() {
                let relative = length(document) / mean.max(1.0);
                let weight = FIELD_WEIGHTS[field] / (1.0 + LENGTH_NORMALIZATION[field] * (relative - 1.0));
                for &term in &document[field] {
                    *weights.entry((term, number)).or_default() += weight;
                }
            }
        }
        let terms: HashMap<usize, String> =
            analyzer.into_terms().into_iter().map(|(text, id)| (id, text)).collect();
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        for ((term, number), weight) in weights {
            postings.entry(terms[&term].clone()).or_default().push((number, weight / (weight + SATURATION)));
        }
        Self { postings, count }
    }

    /// Returns the positions of the best documents, the best first.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut scores = vec![0.0_f32; self.count];
        let mut terms = query::steps(query).concat();
        terms.sort_unstable();
        terms.dedup();
        for list in terms.iter().filter_map(|term| self.postings.get(term)) {
            let containing = list.len() as f32;
            let idf = (1.0 + (self.count as f32 - containing + 0.5) / (containing + 0.5)).ln();
            list.iter().for_each(|(number, weight)| scores[*number] += idf * weight);
        }
        let mut ranked: Vec<usize> = (0..self.count).filter(|&number| scores[number] > 0.0).collect();
        ranked.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        ranked.truncate(limit);
        ranked
    }
}
