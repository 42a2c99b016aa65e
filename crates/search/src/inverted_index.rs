//! The inverted index: the terms of all tools with their postings, and what the terms of a query match.

use super::document::{Analyzer, Document, FIELD_COUNT, TermId};
use super::synonyms::synonyms_of;
use super::tuning::{
    FIELD_WEIGHTS, LENGTH_NORMALIZATION, LONG_QUERY, MIN_SIMILARITY, SATURATION, SIMILAR_WEIGHT,
    SYNONYM_WEIGHT,
};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The number of indexed terms that one may stand for that no tool has.
const MAX_SIMILAR: usize = 3;

/// Maps terms to the tools that have them.
#[derive(Default)]
pub(crate) struct InvertedIndex {
    /// The number of each term, sorted for the search for terms that begin alike.
    ids: BTreeMap<String, TermId>,
    /// The tools that have each term, by its number.
    postings: Vec<Vec<Posting>>,
    /// How many tools are indexed.
    tool_count: usize,
}

/// A tool that has a term.
struct Posting {
    tool: usize,
    /// The term's BM25F weight there, between 0 and 1.
    weight: f32,
}

impl InvertedIndex {
    /// Indexes documents by BM25F: the occurrences of a term are weighted by field and field length, then saturated.
    /// `analyzer` has numbered all terms.
    pub(crate) fn new(documents: &[Document], analyzer: Analyzer) -> Self {
        let ids: BTreeMap<String, TermId> = analyzer.into_terms().into_iter().collect();
        let mut postings: Vec<Vec<Posting>> = ids.iter().map(|_| Vec::new()).collect();
        let mean_lengths = mean_lengths(documents);
        let mut frequencies = vec![0.0_f32; postings.len()];
        for (tool, document) in documents.iter().enumerate() {
            for (field, terms) in document.iter().enumerate() {
                let length = terms.len() as f32 / mean_lengths[field].max(1.0);
                let weight = FIELD_WEIGHTS[field] / (1.0 + LENGTH_NORMALIZATION[field] * (length - 1.0));
                for &term in terms {
                    frequencies[term] += weight;
                }
            }
            for &term in document.iter().flatten() {
                let frequency = std::mem::take(&mut frequencies[term]);
                if frequency > 0.0 {
                    postings[term].push(Posting { tool, weight: frequency / (frequency + SATURATION) });
                }
            }
        }
        Self { ids, postings, tool_count: documents.len() }
    }

    /// Returns the score of each tool for the terms of a step, 0 for a tool without a match. `guesses`: how many terms may
    /// still be compared with the indexed ones one by one; it is counted down.
    pub(crate) fn scores(&self, terms: &[String], guesses: &mut usize) -> Vec<f32> {
        let synonyms_share = (LONG_QUERY / terms.len() as f32).min(1.0);
        let mut sums = vec![0.0; self.tool_count];
        let mut scores = vec![0.0_f32; self.tool_count];
        for term in terms {
            scores.fill(0.0);
            let literal = self.ids.get(term).copied();
            for (id, weight) in self.expand(term, guesses).into_iter().chain(literal.map(|id| (id, 1.0))) {
                for posting in &self.postings[id] {
                    scores[posting.tool] = scores[posting.tool].max(weight * posting.weight);
                }
            }
            // All words that the term may stand for are as rare as they are together: a rare synonym of a common word
            // says no more than the word.
            let together = self.idf(scores.iter().filter(|score| **score > 0.0).count());
            let share = if literal.is_some() { synonyms_share } else { 1.0 };
            scores.iter_mut().for_each(|score| *score *= together * share);
            if let Some(postings) = literal.map(|id| &self.postings[id]) {
                let idf = self.idf(postings.len());
                for posting in postings {
                    scores[posting.tool] = scores[posting.tool].max(idf * posting.weight);
                }
            }
            sums.iter_mut().zip(&scores).for_each(|(sum, score)| *sum += score);
        }
        sums
    }

    /// Returns the indexed terms other than a term of a query that it may stand for, with the weights of the matches:
    /// its synonyms, or if no tool has any of these words, the terms that look most like it.
    fn expand(&self, term: &str, guesses: &mut usize) -> Vec<(TermId, f32)> {
        let known = |synonym: &String| Some((*self.ids.get(synonym)?, SYNONYM_WEIGHT));
        let synonyms: Vec<_> = synonyms_of(term).iter().filter_map(known).collect();
        if !synonyms.is_empty() || self.ids.contains_key(term) || *guesses == 0 {
            return synonyms;
        }
        *guesses -= 1;
        self.similar_terms(term)
    }

    /// Returns the indexed terms that look most like a term, by the share of their pairs of characters that they have in
    /// common (the Dice coefficient). The first letter is rarely wrong, so it is the same.
    fn similar_terms(&self, term: &str) -> Vec<(TermId, f32)> {
        let wanted: Vec<(char, char)> = pairs(term).collect();
        let first = term.chars().next().map_or(0, char::len_utf8);
        let from = (Bound::Included(&term[..first]), Bound::Unbounded);
        let alike = self.ids.range::<str, _>(from).take_while(|(known, _)| known.starts_with(&term[..first]));
        let mut similar: Vec<(f32, TermId)> = alike
            .map(|(known, &id)| {
                let (mut length, mut common) = (0, 0);
                for pair in pairs(known) {
                    length += 1;
                    common += usize::from(wanted.contains(&pair));
                }
                (2.0 * common as f32 / (wanted.len() + length) as f32, id)
            })
            .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
            .collect();
        similar.sort_by(|a, b| b.0.total_cmp(&a.0));
        similar.truncate(MAX_SIMILAR);
        similar.into_iter().map(|(similarity, id)| (id, SIMILAR_WEIGHT * similarity)).collect()
    }

    /// Returns the inverse document frequency of words that `containing` tools have.
    fn idf(&self, containing: usize) -> f32 {
        let (count, containing) = (self.tool_count as f32, containing as f32);
        (1.0 + (count - containing + 0.5) / (containing + 0.5)).ln()
    }
}

/// Returns the mean length of each field.
fn mean_lengths(documents: &[Document]) -> [f32; FIELD_COUNT] {
    let mut means = [0.0_f32; FIELD_COUNT];
    for document in documents {
        for (mean, terms) in means.iter_mut().zip(document) {
            *mean += terms.len() as f32 / documents.len() as f32;
        }
    }
    means
}

/// Returns the pairs of neighbouring characters of a word, with its beginning and its end marked by spaces.
fn pairs(word: &str) -> impl Iterator<Item = (char, char)> {
    [' '].into_iter().chain(word.chars()).zip(word.chars().chain([' ']))
}
