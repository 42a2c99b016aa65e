//! The tokenizer: splits text into tokens, and normalizes tokens to terms by folding and stemming.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer terms are data, such as base64 or keys.
const MAX_TERM_BYTES: usize = 40;
/// No longer token gives a term, even if accents make most of it.
const MAX_TOKEN_BYTES: usize = 4 * MAX_TERM_BYTES;

/// Returns the terms of a text, in order.
pub fn tokenize(text: &str) -> Vec<String> {
    let stemmers = stemmers();
    let mut terms = Vec::new();
    for_each_token(text, &mut |token| terms.extend(normalize(token, &stemmers)));
    terms
}

/// The stemmers for [`normalize`].
pub(crate) struct Stemmers {
    english: Stemmer,
    russian: Stemmer,
}

/// Returns the stemmers for [`normalize`].
pub(crate) fn stemmers() -> Stemmers {
    Stemmers { english: Stemmer::create(Algorithm::English), russian: Stemmer::create(Algorithm::Russian) }
}

/// Calls `take` with each token of a text, as it is written, that may give a term. Identifiers are split into their words,
/// and CJK text into its characters and pairs of them.
pub(crate) fn for_each_token<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    let take = &mut |token: &'a str| {
        if token.len() <= MAX_TOKEN_BYTES {
            take(token);
        }
    };
    for word in words(text) {
        let parts = split_identifier(word);
        for part in &parts {
            match part.chars().next().is_some_and(is_cjk) {
                true => characters_and_pairs(part, take),
                false => take(part),
            }
        }
        // `web3` is a token, and so is `web`.
        if parts.len() > 1 && !word.chars().any(is_cjk) {
            take(word);
        }
    }
}

/// Returns the term of a token: folded, and stemmed if it is an English word or in Cyrillic. `None` for tokens that are
/// not searched.
pub(crate) fn normalize(token: &str, stemmers: &Stemmers) -> Option<String> {
    let term = if token.chars().all(is_cyrillic) {
        let lower: String = token.chars().flat_map(char::to_lowercase).collect();
        fold(&stemmers.russian.stem(&lower))
    } else {
        let folded = fold(token);
        let is_plain = folded.bytes().all(|b| b.is_ascii_lowercase());
        if is_plain { stemmers.english.stem(&folded).into_owned() } else { folded }
    };
    (!term.is_empty() && term.len() <= MAX_TERM_BYTES).then_some(term)
}

/// Returns a name without case, accents and separators: `readFile` and `read_file` have the same key.
pub(crate) fn name_key(name: &str) -> String {
    fold(name).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Returns the longest parts of a text without space or punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || is_combining_mark(c))).filter(|word| !word.is_empty())
}

/// Lower case, without accents.
fn fold(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect(),
    }
}

/// Calls `take` with each character, and with each pair of neighbouring ones: CJK text has no spaces between words.
fn characters_and_pairs<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    for length in [1, 2] {
        starts.windows(length + 1).for_each(|window| take(&text[window[0]..window[length]]));
    }
}

/// Splits a word where upper case begins, between letters and digits, and between scripts.
fn split_identifier(word: &str) -> Vec<&str> {
    let characters: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..characters.len() {
        let (before, (byte, here)) = (characters[at - 1].1, characters[at]);
        let next = characters.get(at + 1).map(|next| next.1);
        let begins_word = here.is_uppercase()
            && (before.is_lowercase() || before.is_uppercase() && next.is_some_and(char::is_lowercase));
        if begins_word || before.is_numeric() != here.is_numeric() || is_cjk(before) != is_cjk(here) {
            parts.push(&word[start..byte]);
            start = byte;
        }
    }
    parts.push(&word[start..]);
    parts
}

/// Returns whether a character is a Cyrillic letter.
fn is_cyrillic(c: char) -> bool {
    matches!(c, '\u{400}'..='\u{52f}')
}

/// Returns whether a character is Han, kana or Hangul.
pub(crate) fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split() {
        assert_eq!(tokenize("getHTMLPage"), ["get", "html", "page", "gethtmlpag"]);
        assert_eq!(tokenize("read_file-v2"), ["read", "file", "v", "2", "v2"]);
    }

    #[test]
    fn words_are_stemmed_and_folded() {
        assert_eq!(tokenize("Searching FILES"), tokenize("search file"));
        assert_eq!(tokenize("météo"), ["meteo"]);
        assert_eq!(tokenize("me\u{301}te\u{301}o"), ["meteo"]);
    }

    #[test]
    fn cjk_text_is_split_into_characters_and_pairs() {
        assert_eq!(tokenize("查天气API"), ["查", "天", "气", "查天", "天气", "api"]);
        assert_eq!(tokenize("图 a"), ["图", "a"]);
    }

    #[test]
    fn name_keys_ignore_case_and_separators() {
        assert_eq!(name_key("readFile"), name_key("read_file"));
    }
}
