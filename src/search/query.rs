//! Queries: their clauses, and the terms of each clause.

use super::stop_words::is_stop_word;
use super::synonyms::synonyms_of;
use super::tokenizer::tokenize;
use super::tuning::DATA_WEIGHT;

/// A clause with fewer terms is joined with its neighbour.
const MIN_CLAUSE_TERMS: usize = 2;
/// The lengths of file name extensions.
const EXTENSION_LENGTHS: std::ops::RangeInclusive<usize> = 2..=5;

/// Words that begin another step of a task.
const CONJUNCTIONS: &[&str] = &[
    "and",
    "then",
    "afterwards",
    "und",
    "dann",
    "danach",
    "et",
    "puis",
    "ensuite",
    "y",
    "luego",
    "e",
    "poi",
];

/// A term of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm {
    /// The term, as the tokenizer writes it.
    pub text: String,
    /// How much the term counts.
    pub weight: f32,
    /// Whether it is written like a proper noun.
    pub is_proper_noun: bool,
}

/// Splits a query into the steps that it seems to name. There is at least one clause.
pub fn clauses(query: &str) -> Vec<Vec<QueryTerm>> {
    let mut clauses: Vec<Vec<QueryTerm>> = Vec::new();
    // The terms before the first clause that is long enough.
    let mut leading = Vec::new();
    for sentence in sentences(query) {
        let mut clause = Vec::new();
        let mut is_first = true;
        for text in sentence.split_whitespace() {
            let word = text.trim_matches(|c: char| !c.is_alphanumeric());
            if CONJUNCTIONS.contains(&word.to_lowercase().as_str()) {
                end_clause(&mut clause, &mut clauses, &mut leading);
            } else if !is_stop_word(word) {
                add_terms(word, is_first, &mut clause);
            }
            is_first = false;
        }
        end_clause(&mut clause, &mut clauses, &mut leading);
    }
    if clauses.is_empty() {
        clauses.push(Vec::new());
    }
    clauses[0].splice(0..0, leading);
    if clauses[0].is_empty() {
        // The query has only stop words and conjunctions.
        let terms = tokenize(query).into_iter();
        clauses[0] = terms.map(|text| QueryTerm { text, weight: 1.0, is_proper_noun: false }).collect();
    }
    clauses
}

/// Ends a clause. One that is too short joins the clause before it.
fn end_clause(clause: &mut Vec<QueryTerm>, clauses: &mut Vec<Vec<QueryTerm>>, leading: &mut Vec<QueryTerm>) {
    let clause = std::mem::take(clause);
    match clauses.last_mut() {
        _ if clause.len() >= MIN_CLAUSE_TERMS => clauses.push(clause),
        Some(last) => last.extend(clause),
        None => leading.extend(clause),
    }
}

/// Adds the terms of a word.
fn add_terms(word: &str, is_first: bool, clause: &mut Vec<QueryTerm>) {
    let mut add = |text: &str, weight: f32, is_proper_noun: bool| {
        clause.extend(tokenize(text).into_iter().map(|text| QueryTerm { text, weight, is_proper_noun }));
    };
    // The extension of a file name says most about the tool that is wanted.
    if let Some((name, extension)) = word.rsplit_once('.')
        && EXTENSION_LENGTHS.contains(&extension.len())
        && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    {
        add(name.rsplit('/').next().unwrap_or_default(), DATA_WEIGHT, true);
        return add(extension, 1.0, false);
    }
    let is_number = word.bytes().all(|b| !b.is_ascii_alphabetic()) && word.is_ascii();
    let is_proper_noun = !is_first && word.chars().next().is_some_and(char::is_uppercase);
    let weight = if is_number || word.starts_with('/') { DATA_WEIGHT } else { 1.0 };
    let joined = word.replace('-', "");
    if joined.len() == word.len() {
        return add(word, weight, is_proper_noun);
    }
    // The parts of `to-do` are stop words, `todo` is not.
    word.split('-').filter(|part| !is_stop_word(part)).for_each(|part| add(part, weight, is_proper_noun));
    if tokenize(&joined).iter().any(|term| !synonyms_of(term).is_empty()) {
        add(&joined, weight, is_proper_noun);
    }
}

/// Splits a text at its punctuation.
fn sentences(text: &str) -> Vec<&str> {
    let is_end = |(at, c): (usize, char)| match c {
        '.' | ',' | ':' => text[at + 1..].chars().next().is_none_or(char::is_whitespace),
        _ => matches!(c, ';' | '!' | '?' | '\n' | '，' | '。' | '；' | '：' | '！' | '？' | '、'),
    };
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|&here| is_end(here)) {
        sentences.push(&text[start..at]);
        start = at + c.len_utf8();
    }
    sentences.push(&text[start..]);
    sentences
}
