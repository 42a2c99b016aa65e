//! Synonyms of terms. The table is about language, not about the tools of any server.

use super::tokenizer::tokenize;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The synonyms of each term, as the tokenizer writes them. The format of the table is at its top.
static SYNONYMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut synonyms: HashMap<String, Vec<String>> = HashMap::new();
    for line in include_str!("synonyms.txt").lines().filter(|line| !line.starts_with('#')) {
        let (common, narrower) = line.split_once('|').unwrap_or((line, ""));
        let common = tokenize(common);
        for term in common.iter().cloned().chain(tokenize(narrower)) {
            let others = common.iter().filter(|other| **other != term).cloned();
            synonyms.entry(term.clone()).or_default().extend(others);
        }
    }
    synonyms
});

/// Returns the synonyms of a term.
pub(crate) fn synonyms_of(term: &str) -> &'static [String] {
    SYNONYMS.get(term).map_or(&[], Vec::as_slice)
}
