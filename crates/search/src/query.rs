//! Queries: the steps that they ask for, one after another, and the terms of each step.

use super::tokenizer::tokenize;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Words, and pairs of words, that begin another step.
const SEQUENCE_WORDS: &[&str] = &[
    "then",
    "afterwards",
    "finally",
    "after that",
    "followed by", // English
    "dann",
    "danach",
    "anschließend",
    "schließlich", // German
    "puis",
    "ensuite",
    "enfin", // French
    "luego",
    "después",
    "finalmente", // Spanish
    "poi",
    "infine", // Italian
    "затем",
    "потом", // Russian
];
/// What separates steps in the middle of other text, also in languages without spaces.
const SEPARATORS: &[&str] = &[";", "；", "\n", "→", "->", "然后", "接着", "最后", "その後", "그런 다음"];
/// More steps than this are not told apart: a list of results has few places.
const MAX_STEPS: usize = 8;

/// Returns the terms of each step of a query, without stop words and each once. A step that has only stop words is left
/// out. A query that has nothing else is one step of all its terms, which has none for an empty query.
pub fn steps(query: &str) -> Vec<Vec<String>> {
    let mut steps: Vec<Vec<String>> =
        parts(query).into_iter().map(|part| terms(part, is_content_word)).collect();
    steps.retain(|terms| !terms.is_empty());
    if steps.is_empty() {
        steps.push(terms(query, |_| true));
    }
    steps
}

/// Returns the terms of the words of a text that are kept, each once.
fn terms(text: &str, is_kept: impl Fn(&str) -> bool) -> Vec<String> {
    let mut terms: Vec<String> =
        text.split_whitespace().filter(|word| is_kept(word)).flat_map(tokenize).collect();
    let mut seen = HashSet::new();
    terms.retain(|term| seen.insert(term.clone()));
    terms
}

/// Splits a query into the texts of its steps, in order. What follows the last step that is told apart belongs to it.
fn parts(query: &str) -> Vec<&str> {
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    let mut before = (0, "");
    for word in query.split_whitespace() {
        let start = word.as_ptr().addr() - query.as_ptr().addr();
        let pair = format!("{} {}", plain(before.1), plain(word));
        if SEQUENCE_WORDS.contains(&plain(word).as_str()) {
            cuts.push((start, start + word.len()));
        } else if SEQUENCE_WORDS.contains(&pair.as_str()) {
            cuts.push((before.0, start + word.len()));
        }
        before = (start, word);
    }
    for separator in SEPARATORS {
        cuts.extend(query.match_indices(separator).map(|(at, text)| (at, at + text.len())));
    }
    cuts.sort_unstable();
    cuts.truncate(MAX_STEPS - 1);
    let mut parts = Vec::new();
    let mut start = 0;
    for (from, to) in cuts {
        parts.extend(query.get(start..from));
        start = start.max(to);
    }
    parts.push(&query[start..]);
    parts
}

/// Returns a word in lower case, without the punctuation around it.
fn plain(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// Returns whether a word of a query says something: stop words do not.
fn is_content_word(word: &str) -> bool {
    !STOP_WORDS.contains(plain(word).as_str())
}

#[cfg(test)]
mod tests {
    use super::parts;

    fn trimmed(query: &str) -> Vec<&str> {
        let parts = parts(query).into_iter().map(|step| step.trim_matches([' ', ',', '.']));
        parts.filter(|part| !part.is_empty()).collect()
    }

    #[test]
    fn sequences_are_split() {
        assert_eq!(trimmed("read the file, then mail it"), ["read the file", "mail it"]);
        assert_eq!(trimmed("read it. After that, mail it; print it"), ["read it", "mail it", "print it"]);
        assert_eq!(trimmed("1. read it\n2. mail it"), ["1. read it", "2. mail it"]);
        assert_eq!(trimmed("erst lesen, dann senden"), ["erst lesen", "senden"]);
        assert_eq!(trimmed("查询天气然后发送邮件"), ["查询天气", "发送邮件"]);
    }

    #[test]
    fn one_step_stays_whole() {
        for query in ["what has changed since then", "salt and pepper, and oil", "the weather after the rain"]
        {
            assert_eq!(trimmed(query).len(), 1, "{query}");
        }
        assert!(trimmed("; then;").is_empty());
    }
}
