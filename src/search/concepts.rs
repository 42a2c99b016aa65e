//! Words that stand for other words, and words that say nothing: about language, not about any server's tools.

use super::words::words;
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

const TABLE: &str = include_str!("concepts.txt");
/// What a query is full of and no tool is about.
const FILLERS: &str = include_str!("fillers.txt");

/// A word, and how much less than the word itself it counts.
pub type Related = (String, f32);

/// For a word that is as usual as the one that was said.
const SAME: f32 = 0.55;
/// For a word that a narrower one leads to.
const BROADER: f32 = 0.6;

static RELATED: LazyLock<BTreeMap<String, Vec<Related>>> = LazyLock::new(|| {
    let mut related: BTreeMap<String, Vec<Related>> = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (mutual, leading) = line.split_once('|').unwrap_or((line, ""));
        let (mutual, leading) = (words(mutual), words(leading));
        let from = mutual.iter().map(|word| (word, SAME)).chain(leading.iter().map(|word| (word, BROADER)));
        for (word, weight) in from {
            let known = related.entry(word.clone()).or_default();
            for other in mutual.iter().filter(|other| *other != word) {
                if known.iter().all(|(known, _)| known != other) {
                    known.push((other.clone(), weight));
                }
            }
        }
    }
    related
});

static FILLER: LazyLock<HashSet<&'static str>> = LazyLock::new(|| FILLERS.split_whitespace().collect());

/// The words that may stand for this (stemmed) one.
pub fn related(word: &str) -> &'static [Related] {
    RELATED.get(word).map_or(&[], Vec::as_slice)
}

/// Every word that leads somewhere and begins so.
pub fn beginning(prefix: &str) -> impl Iterator<Item = &'static str> {
    super::vocabulary::beginning(&RELATED, prefix).map(|(word, _)| word.as_str())
}

/// Whether a word, as written, says nothing of what is wanted.
pub fn is_filler(word: &str) -> bool {
    FILLER.contains(word.to_lowercase().as_str())
}
