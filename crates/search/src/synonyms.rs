//! Synonyms of terms. The table is about language, not about the tools of any server.

use super::tokenizer::tokenize;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::LazyLock;

/// The weight of a synonym that is as common as the term. The term itself has 1.
const EQUIVALENT_WEIGHT: f32 = 0.55;
/// The weight of a synonym that is broader, more formal or in English, where the term is not.
const BROADER_WEIGHT: f32 = 0.6;

/// A term that may stand for another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Synonym {
    /// The term, as the tokenizer writes it.
    pub term: String,
    /// How much a match of it counts, relative to a match of the term that it stands for.
    pub weight: f32,
}

/// The synonyms of each term. The format of the table is at its top.
static SYNONYMS: LazyLock<BTreeMap<String, Vec<Synonym>>> = LazyLock::new(|| {
    let mut synonyms: BTreeMap<String, Vec<Synonym>> = BTreeMap::new();
    for line in include_str!("synonyms.txt").lines().filter(|line| !line.starts_with('#')) {
        let (common, narrower) = line.split_once('|').unwrap_or((line, ""));
        let (common, narrower) = (tokenize(common), tokenize(narrower));
        let equivalents = common.iter().map(|term| (term, EQUIVALENT_WEIGHT));
        for (term, weight) in equivalents.chain(narrower.iter().map(|term| (term, BROADER_WEIGHT))) {
            let known = synonyms.entry(term.clone()).or_default();
            for other in common.iter().filter(|other| *other != term) {
                if known.iter().all(|known| known.term != *other) {
                    known.push(Synonym { term: other.clone(), weight });
                }
            }
        }
    }
    synonyms
});

/// Returns the synonyms of a term.
pub(crate) fn synonyms_of(term: &str) -> &'static [Synonym] {
    SYNONYMS.get(term).map_or(&[], Vec::as_slice)
}

/// Returns the terms with synonyms that begin with `prefix`.
pub(crate) fn terms_with_prefix(prefix: &str) -> impl Iterator<Item = &'static str> {
    entries_with_prefix(&SYNONYMS, prefix).map(|(term, _)| term.as_str())
}

/// Returns the entries whose keys begin with `prefix`, in the order of the keys.
pub(crate) fn entries_with_prefix<'m, T>(
    map: &'m BTreeMap<String, T>,
    prefix: &str,
) -> impl Iterator<Item = (&'m String, &'m T)> {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    map.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
}
