//! The inverted index: the terms of all tools with their postings, and the expansion of a query's terms.

use super::document::{Analyzer, Document, FIELD_COUNT, TermId};
use super::query::QueryTerm;
use super::synonyms::{entries_with_prefix, synonyms_of, terms_with_prefix};
use super::tokenizer::{is_cjk, tokenize};
use super::tuning::{
    COMPOUND_PART_WEIGHT, FIELD_WEIGHTS, LENGTH_NORMALIZATION, MISSPELLING_WEIGHT, PREFIX_WEIGHT, SATURATION,
};
use std::collections::BTreeMap;

/// Shorter terms are not expanded: they are a prefix of too many others, or similar to them.
const MIN_EXPANDED_LENGTH: usize = 4;
/// From this length on, a term may have two spelling mistakes.
const MIN_LENGTH_FOR_TWO_EDITS: usize = 8;

/// Maps terms to the tools that have them.
#[derive(Default)]
pub(crate) struct InvertedIndex {
    /// The number of each term, sorted for prefix search.
    ids: BTreeMap<String, TermId>,
    /// The entries of the terms, by their numbers.
    entries: Vec<TermEntry>,
}

/// A term of the index.
#[derive(Default)]
struct TermEntry {
    /// The inverse document frequency.
    idf: f32,
    /// The tools that have the term.
    postings: Vec<Posting>,
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
        let mut entries: Vec<TermEntry> = ids.iter().map(|_| TermEntry::default()).collect();
        let mean_lengths = mean_lengths(documents);
        let mut frequencies = vec![0.0_f32; entries.len()];
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
                    let weight = frequency / (frequency + SATURATION);
                    entries[term].postings.push(Posting { tool, weight });
                }
            }
        }
        let count = documents.len() as f32;
        for entry in &mut entries {
            let document_frequency = entry.postings.len() as f32;
            entry.idf = (1.0 + (count - document_frequency + 0.5) / (document_frequency + 0.5)).ln();
        }
        Self { ids, entries }
    }

    /// Returns the terms that begin with `prefix`, in alphabetical order.
    pub(crate) fn terms_with_prefix(&self, prefix: &str) -> impl Iterator<Item = &str> {
        entries_with_prefix(&self.ids, prefix).map(|(term, _)| term.as_str())
    }

    /// Returns the score of each tool for the words of a query as they are written, by BM25F alone: 0 for a tool that
    /// has none of them. `tool_count`: how many tools are indexed.
    pub(crate) fn literal_scores(&self, query: &str, tool_count: usize) -> Vec<f32> {
        let mut scores = vec![0.0_f32; tool_count];
        let mut ids: Vec<TermId> =
            tokenize(query).iter().filter_map(|term| self.ids.get(term).copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        for entry in ids.into_iter().map(|id| &self.entries[id]) {
            entry.postings.iter().for_each(|posting| scores[posting.tool] += entry.idf * posting.weight);
        }
        scores
    }

    /// Computes the score of each tool for a term of a query, which is that of the term's best match. Overwrites `scores`,
    /// which has a place for each tool. `guesses`: how many terms may still be compared with the indexed ones one by one;
    /// it is counted down.
    pub(crate) fn score(&self, term: &QueryTerm, guesses: &mut usize, scores: &mut [f32]) {
        scores.fill(0.0);
        for (id, match_weight) in self.expand(&term.text, guesses) {
            let entry = &self.entries[id];
            let weight = term.weight * match_weight * entry.idf;
            for &Posting { tool, weight: frequency } in &entry.postings {
                scores[tool] = scores[tool].max(weight * frequency);
            }
        }
    }

    /// Returns the indexed terms that a term of a query matches, with the weights of the matches. `guesses`: see
    /// [`score`](Self::score).
    fn expand(&self, term: &str, guesses: &mut usize) -> Vec<(TermId, f32)> {
        let mut may_guess = || {
            let is_left = *guesses > 0;
            *guesses = guesses.saturating_sub(1);
            is_left
        };
        let mut matches = Vec::new();
        self.add_synonyms(term, 1.0, &mut matches);
        let mut characters = term.chars();
        if let (Some(character), None) = (characters.next(), characters.next())
            && is_cjk(character)
            && may_guess()
        {
            // Text of these scripts is indexed in pairs of characters.
            let pairs = self.ids.iter().filter(|(pair, _)| pair.len() > term.len() && pair.contains(term));
            matches.extend(pairs.map(|(_, &id)| (id, PREFIX_WEIGHT)));
        }
        if term.chars().count() < MIN_EXPANDED_LENGTH {
            return matches;
        }
        if matches.is_empty() {
            matches.extend(entries_with_prefix(&self.ids, term).map(|(_, &id)| (id, PREFIX_WEIGHT)));
        }
        if matches.is_empty() {
            for part in self.compound_parts(term) {
                self.add_synonyms(part, COMPOUND_PART_WEIGHT, &mut matches);
            }
        }
        if matches.is_empty() && may_guess() {
            for similar in self.similar_terms(term) {
                self.add_synonyms(similar, MISSPELLING_WEIGHT, &mut matches);
            }
        }
        matches
    }

    /// Adds the term and its synonyms that are indexed.
    fn add_synonyms(&self, term: &str, weight: f32, matches: &mut Vec<(TermId, f32)>) {
        matches.extend(self.ids.get(term).map(|&id| (id, weight)));
        for synonym in synonyms_of(term) {
            matches.extend(self.ids.get(&synonym.term).map(|&id| (id, weight * synonym.weight)));
        }
    }

    fn is_known(&self, term: &str) -> bool {
        self.ids.contains_key(term) || !synonyms_of(term).is_empty()
    }

    /// Returns the known parts of a compound such as `mindmap` or `wetterbericht`: both if there are two, else a
    /// beginning and an end.
    fn compound_parts<'t>(&self, term: &'t str) -> Vec<&'t str> {
        let is_long_enough =
            |at: usize| at >= MIN_EXPANDED_LENGTH - 1 && term.len() - at >= MIN_EXPANDED_LENGTH - 1;
        let splits: Vec<usize> =
            term.char_indices().map(|(at, _)| at).filter(|&at| is_long_enough(at)).collect();
        let mut halves = splits.iter().map(|&at| term.split_at(at));
        if let Some((a, b)) = halves.find(|(a, b)| self.is_known(a) && self.is_known(b)) {
            return vec![a, b];
        }
        let is_part = |part: &&str| part.len() > MIN_EXPANDED_LENGTH && self.is_known(part);
        let beginning = splits.iter().rev().map(|&at| &term[..at]).find(is_part);
        let end = splits.iter().map(|&at| &term[at..]).find(is_part);
        beginning.into_iter().chain(end).collect()
    }

    /// Returns the known terms that differ from a misspelled one by the fewest edits.
    fn similar_terms<'t>(&'t self, term: &str) -> Vec<&'t str> {
        let length = term.chars().count();
        let max_edits = if length < MIN_LENGTH_FOR_TWO_EDITS { 1 } else { 2 };
        // The first letter is rarely wrong, and the comparison takes most of the time. So only terms are compared that
        // begin with one of the first two letters.
        let letters = term.char_indices().take(2).map(|(at, letter)| &term[at..at + letter.len_utf8()]);
        let known = letters.flat_map(|letter| {
            let indexed = entries_with_prefix(&self.ids, letter).map(|(known, _)| known.as_str());
            indexed.chain(terms_with_prefix(letter).map(|known| -> &'t str { known }))
        });
        let candidates = known.filter(|known| known.chars().count().abs_diff(length) <= max_edits);
        let mut similar: Vec<(usize, &str)> = candidates
            .map(|known| (strsim::osa_distance(term, known), known))
            .filter(|(edits, _)| *edits <= max_edits)
            .collect();
        similar.sort_unstable();
        similar.dedup();
        let fewest = similar.first().map(|(edits, _)| *edits);
        similar.into_iter().take_while(|(edits, _)| Some(*edits) == fewest).map(|(_, known)| known).collect()
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
