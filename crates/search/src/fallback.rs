//! What a query may mean that finds nothing: the indexed terms that look most like its own, by their trigrams.

use super::inverted_index::InvertedIndex;
use super::query::{Clause, QueryTerm};

/// Terms that are less similar have nothing to do with each other. 1 is equal.
const MIN_SIMILARITY: f32 = 0.4;
/// The number of terms that one may stand for.
const MAX_SIMILAR: usize = 3;

/// Replaces the terms of a clause by the indexed terms that look like them, weighted by how much they do. A term that
/// no indexed one looks like is left out, and so are those after the first `guesses`, which are counted down.
pub(crate) fn similar_clause(clause: &Clause, index: &InvertedIndex, guesses: &mut usize) -> Clause {
    let guessed = &clause[..clause.len().min(*guesses)];
    *guesses -= guessed.len();
    guessed.iter().flat_map(|term| similar_terms(term, index)).collect()
}

/// Returns the indexed terms that look most like one of a query. The first letter is rarely wrong, so it is the same.
fn similar_terms(term: &QueryTerm, index: &InvertedIndex) -> Vec<QueryTerm> {
    let wanted = trigrams(&term.text);
    let first = term.text.chars().next().map_or(0, char::len_utf8);
    let mut similar: Vec<(f32, &str)> = index
        .terms_with_prefix(&term.text[..first])
        .map(|known| (similarity(&wanted, &trigrams(known)), known))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.truncate(MAX_SIMILAR);
    let weighted = |(similarity, known): (f32, &str)| QueryTerm {
        text: known.to_owned(),
        weight: term.weight * similarity,
    };
    similar.into_iter().map(weighted).collect()
}

/// Returns the parts of three characters of a word, with its beginning and its end marked by spaces.
fn trigrams(word: &str) -> Vec<[char; 3]> {
    let padded: Vec<char> = "  ".chars().chain(word.chars()).chain([' ']).collect();
    padded.windows(3).filter_map(|window| window.try_into().ok()).collect()
}

/// Returns the Dice coefficient of two words: the share of their trigrams that they have in common.
fn similarity(a: &[[char; 3]], b: &[[char; 3]]) -> f32 {
    let common = a.iter().filter(|trigram| b.contains(trigram)).count();
    2.0 * common as f32 / (a.len() + b.len()) as f32
}
