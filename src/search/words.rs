//! Text as the words it is compared by: folded, stemmed, identifiers taken apart, CJK as pairs of characters.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer runs are data (base64, keys), not words.
const LONGEST: usize = 40;

/// The words of a text, in order.
pub fn words(text: &str) -> Vec<String> {
    let stemmer = stemmer();
    let mut words = Vec::new();
    each(text, &mut |part| words.extend(normal(part, &stemmer)));
    words
}

pub fn stemmer() -> Stemmer {
    Stemmer::create(Algorithm::English)
}

/// Gives the pieces of a text that are words, as they are written.
pub fn each<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    for run in runs(text) {
        let parts = parts(run);
        for part in &parts {
            match begins_cjk(part) {
                true => pairs(part, take),
                false => take(part),
            }
        }
        // `web3` is found by `web3` and by `web`.
        if parts.len() > 1 && !run.chars().any(cjk) {
            take(run);
        }
    }
}

/// The form in which a word is compared.
pub fn normal(written: &str, stemmer: &Stemmer) -> Option<String> {
    let folded = fold(written);
    let plain = folded.bytes().all(|b| b.is_ascii_lowercase());
    let word = if plain { stemmer.stem(&folded).into_owned() } else { folded };
    (!word.is_empty() && word.len() <= LONGEST).then_some(word)
}

/// What a name is called by, however its words are joined: `readFile` is `read_file`.
pub fn key(name: &str) -> String {
    fold(name).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The longest pieces of a text without space or punctuation.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || is_combining_mark(c))).filter(|run| !run.is_empty())
}

/// Lower case, without accents.
fn fold(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect(),
    }
}

/// CJK has no spaces between words; pairs of characters are compared instead.
fn pairs<'a>(text: &'a str, take: &mut impl FnMut(&'a str)) {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    match starts.len() {
        0..=2 => take(text),
        _ => starts.windows(3).for_each(|three| take(&text[three[0]..three[2]])),
    }
}

/// A run taken apart where the case rises, between letters and digits, and between scripts.
fn parts(run: &str) -> Vec<&str> {
    let characters: Vec<(usize, char)> = run.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..characters.len() {
        let (before, (byte, here)) = (characters[at - 1].1, characters[at]);
        let next = characters.get(at + 1).map(|next| next.1);
        let rises = here.is_uppercase()
            && (before.is_lowercase() || before.is_uppercase() && next.is_some_and(char::is_lowercase));
        if rises || before.is_numeric() != here.is_numeric() || cjk(before) != cjk(here) {
            parts.push(&run[start..byte]);
            start = byte;
        }
    }
    parts.push(&run[start..]);
    parts
}

fn begins_cjk(part: &str) -> bool {
    part.chars().next().is_some_and(cjk)
}

/// Han, kana, Hangul.
fn cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_taken_apart() {
        assert_eq!(words("getHTMLPage"), ["get", "html", "page", "gethtmlpag"]);
        assert_eq!(words("read_file-v2"), ["read", "file", "v", "2", "v2"]);
    }

    #[test]
    fn words_are_stemmed_and_folded() {
        assert_eq!(words("Searching FILES"), words("search file"));
        assert_eq!(words("météo"), ["meteo"]);
        assert_eq!(words("me\u{301}te\u{301}o"), ["meteo"]);
    }

    #[test]
    fn cjk_is_compared_in_pairs() {
        assert_eq!(words("查天气API"), ["查天", "天气", "api"]);
        assert_eq!(words("图 a"), ["图", "a"]);
    }

    #[test]
    fn keys_ignore_how_words_are_joined() {
        assert_eq!(key("readFile"), key("read_file"));
    }
}
