//! The words of all tools, where each stands, and which of them a query's word may mean.

use super::concepts;
use super::document::{Document, FIELDS, Field, Lexicon};
use super::query::Word;
use super::tuning::Tuning;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A shorter word begins or resembles too many others.
const SHORTEST: usize = 4;
/// From this length on two mistakes are forgiven.
const LONG: usize = 8;

pub struct Vocabulary {
    /// Sorted, so that what begins alike stands together.
    words: BTreeMap<String, usize>,
    terms: Vec<Term>,
}

/// A word of the tools.
#[derive(Default)]
struct Term {
    /// How much it tells apart.
    rarity: f32,
    /// A tool or a group is called so.
    named: bool,
    /// Tools that have it, and how strongly, between 0 and 1.
    places: Vec<(usize, f32)>,
}

impl Vocabulary {
    /// BM25F: occurrences are weighed by field and its length before they saturate.
    pub fn new(documents: &[Document], lexicon: Lexicon, tuning: &Tuning) -> Self {
        let words: BTreeMap<String, usize> = lexicon.into_words().into_iter().collect();
        let mut terms: Vec<Term> = words.iter().map(|_| Term::default()).collect();
        let mut mean = [0.0_f32; FIELDS];
        for document in documents {
            for (mean, words) in mean.iter_mut().zip(document) {
                *mean += words.len() as f32 / documents.len() as f32;
            }
        }
        let mut counts = vec![0.0_f32; terms.len()];
        for (at, document) in documents.iter().enumerate() {
            for (field, text) in document.iter().enumerate() {
                let length = text.len() as f32 / mean[field].max(1.0);
                let each = tuning.weights[field] / (1.0 + tuning.lengths[field] * (length - 1.0));
                for &word in text {
                    counts[word] += each;
                    terms[word].named |= field == Field::Name as usize || field == Field::Group as usize;
                }
            }
            for &word in document.iter().flatten() {
                let count = std::mem::take(&mut counts[word]);
                if count > 0.0 {
                    terms[word].places.push((at, count / (count + tuning.saturation)));
                }
            }
        }
        let all = documents.len() as f32;
        for term in &mut terms {
            let having = term.places.len() as f32;
            term.rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        }
        Self { words, terms }
    }

    /// What each of `scores` tools gets for a word of a query: the best of what the word may mean, and a part of the
    /// rest.
    pub fn score(&self, word: &Word, tuning: &Tuning, scores: &mut [f32]) {
        scores.fill(0.0);
        for (term, surely) in self.meanings(&word.text, tuning) {
            let term = &self.terms[term];
            let stranger = word.proper && surely == 1.0 && !term.named;
            let weight = word.weight * surely * term.rarity * if stranger { tuning.stranger } else { 1.0 };
            for &(at, strength) in &term.places {
                let (score, known) = (weight * strength, scores[at]);
                scores[at] = known.max(score) + tuning.more * known.min(score);
            }
        }
    }

    /// The known words that a query's word may mean, and how surely.
    fn meanings(&self, word: &str, tuning: &Tuning) -> Vec<(usize, f32)> {
        let mut meanings = Vec::new();
        self.means(word, 1.0, tuning, &mut meanings);
        if !meanings.is_empty() || word.chars().count() < SHORTEST {
            return meanings;
        }
        let begun = beginning(&self.words, word);
        meanings.extend(begun.map(|(_, &term)| (term, tuning.prefix)));
        if meanings.is_empty() {
            for part in self.halves(word) {
                self.means(part, tuning.half, tuning, &mut meanings);
            }
        }
        if meanings.is_empty() {
            for near in self.near(word) {
                self.means(near, tuning.typo, tuning, &mut meanings);
            }
        }
        meanings
    }

    /// The word itself, and those that stand for it.
    fn means(&self, word: &str, weight: f32, tuning: &Tuning, meanings: &mut Vec<(usize, f32)>) {
        meanings.extend(self.words.get(word).map(|&term| (term, weight)));
        let related = concepts::related(word);
        // The more words one may stand for, the less it says of each.
        let weight = weight * (tuning.meanings / related.len() as f32).min(1.0).sqrt();
        for (other, less) in related {
            meanings.extend(self.words.get(other).map(|&term| (term, weight * less)));
        }
    }

    fn is_known(&self, word: &str) -> bool {
        self.words.contains_key(word) || !concepts::related(word).is_empty()
    }

    /// A compound's beginning and end, as far as they are known: `mindmap`, `wetterbericht`.
    fn halves<'a>(&self, word: &'a str) -> Vec<&'a str> {
        let cuts = word.char_indices().map(|(at, _)| at);
        let cuts: Vec<usize> =
            cuts.filter(|&at| at >= SHORTEST - 1 && word.len() - at >= SHORTEST - 1).collect();
        let both =
            cuts.iter().map(|&at| word.split_at(at)).find(|(a, b)| self.is_known(a) && self.is_known(b));
        if let Some((a, b)) = both {
            return vec![a, b];
        }
        let long = |part: &&str| part.len() > SHORTEST && self.is_known(part);
        let begin = cuts.iter().rev().map(|&at| &word[..at]).find(long);
        let end = cuts.iter().map(|&at| &word[at..]).find(long);
        begin.into_iter().chain(end).collect()
    }

    /// Known words with a mistake or two in them.
    fn near<'a>(&'a self, word: &str) -> Vec<&'a str> {
        let length = word.chars().count();
        let allowed = if length < LONG { 1 } else { 2 };
        // Hardly anybody mistypes the first letter, and comparing is what costs.
        let letters = word.char_indices().take(2).map(|(at, letter)| &word[at..at + letter.len_utf8()]);
        let known = letters.flat_map(|letter| {
            let words = beginning(&self.words, letter).map(|(known, _)| known.as_str());
            words.chain(concepts::beginning(letter).map(|known| -> &'a str { known }))
        });
        let alike = known.filter(|known| known.len().abs_diff(word.len()) <= allowed);
        let mut near: Vec<(usize, &str)> = alike
            .map(|known| (strsim::osa_distance(word, known), known))
            .filter(|(d, _)| *d <= allowed)
            .collect();
        near.sort_unstable();
        near.dedup();
        let best = near.first().map(|(distance, _)| *distance);
        near.into_iter().take_while(|(distance, _)| Some(*distance) == best).map(|(_, known)| known).collect()
    }
}

/// What begins so.
pub fn beginning<'m, T>(
    words: &'m BTreeMap<String, T>,
    prefix: &str,
) -> impl Iterator<Item = (&'m String, &'m T)> {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    words.range::<str, _>(from).take_while(move |(word, _)| word.starts_with(prefix))
}
