//! Stop words: words that queries are full of, and that say nothing about a tool.

use std::collections::HashSet;
use std::sync::LazyLock;

static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// Returns whether a word, as it is written in a query, is a stop word.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word.to_lowercase().as_str())
}
