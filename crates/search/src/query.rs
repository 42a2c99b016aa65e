//! Queries: their steps, the clauses of each step, and the terms of each clause.

use super::synonyms::synonyms_of;
use super::tokenizer::tokenize;
use super::tuning::DATA_WEIGHT;
use std::collections::HashSet;
use std::sync::LazyLock;

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
}

/// The terms of a part of a query that names one thing to do.
pub(crate) type Clause = Vec<QueryTerm>;

/// Splits a query into its steps, and each step into clauses. A step that has only stop words is left out. If the query
/// has nothing else, it is one step with one clause of all its terms, which is empty for an empty query.
pub fn steps(query: &str) -> Vec<Vec<Clause>> {
    let mut steps: Vec<Vec<Clause>> = super::steps::steps(query).into_iter().map(clauses).collect();
    steps.retain(|clauses| !clauses.is_empty());
    if steps.is_empty() {
        steps.push(vec![query_terms(query, 1.0)]);
    }
    steps
}

/// Splits a step into the things to do that it seems to name.
fn clauses(step: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    // The terms before the first clause that is long enough.
    let mut leading = Vec::new();
    for sentence in sentences(step) {
        let mut clause = Vec::new();
        for text in sentence.split_whitespace() {
            let word = text.trim_matches(|c: char| !c.is_alphanumeric());
            if CONJUNCTIONS.contains(&word.to_lowercase().as_str()) {
                end_clause(&mut clause, &mut clauses, &mut leading);
            } else if !is_stop_word(word) {
                add_terms(text, word, &mut clause);
            }
        }
        end_clause(&mut clause, &mut clauses, &mut leading);
    }
    match clauses.first_mut() {
        Some(first) => drop(first.splice(0..0, leading)),
        None if leading.is_empty() => {}
        None => clauses.push(leading),
    }
    clauses
}

/// Ends a clause. One that is too short joins the clause before it.
fn end_clause(clause: &mut Clause, clauses: &mut Vec<Clause>, leading: &mut Clause) {
    let clause = std::mem::take(clause);
    match clauses.last_mut() {
        _ if clause.len() >= MIN_CLAUSE_TERMS => clauses.push(clause),
        Some(last) => last.extend(clause),
        None => leading.extend(clause),
    }
}

/// Adds the terms of a word. `text` is the word with the punctuation around it.
fn add_terms(text: &str, word: &str, clause: &mut Clause) {
    if is_location(text) {
        return add_location(word, clause);
    }
    let mut add = |text: &str, weight: f32| clause.extend(query_terms(text, weight));
    // The extension of a file name says most about the tool that is wanted.
    if let Some((name, extension)) = split_extension(word) {
        add(name.rsplit('/').next().unwrap_or_default(), DATA_WEIGHT);
        return add(extension, 1.0);
    }
    let is_number = word.bytes().all(|b| !b.is_ascii_alphabetic()) && word.is_ascii();
    let weight = if is_number || is_ordinal(word) { DATA_WEIGHT } else { 1.0 };
    let joined = word.replace('-', "");
    if joined.len() == word.len() {
        return add(word, weight);
    }
    // The parts of `to-do` are stop words, `todo` is not.
    word.split('-').filter(|part| !is_stop_word(part)).for_each(|part| add(part, weight));
    if tokenize(&joined).iter().any(|term| !synonyms_of(term).is_empty()) {
        add(&joined, weight);
    }
}

/// Returns whether a word is a number with a suffix, such as `13th` or `7pm`.
fn is_ordinal(word: &str) -> bool {
    let suffix = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
    suffix.len() < word.len()
        && ["st", "nd", "rd", "th", "am", "pm"].contains(&suffix.to_lowercase().as_str())
}

/// Adds the terms of a path or a URL. It is data: its parts together say little about the tool that is wanted, and only
/// the extension of its file counts as a word.
fn add_location(word: &str, clause: &mut Clause) {
    let path = word.split_once("://").map_or(word, |(_, path)| path);
    let (folder, file) = path.rsplit_once('/').unwrap_or((path, ""));
    let (name, extension) = split_extension(file).unwrap_or((file, ""));
    let mut terms = query_terms(&format!("{folder} {name}"), DATA_WEIGHT);
    let share = (terms.len() as f32).sqrt().max(1.0);
    terms.iter_mut().for_each(|term| term.weight /= share);
    clause.append(&mut terms);
    clause.append(&mut query_terms(extension, 1.0));
}

/// Returns a file name without its extension, and the extension.
fn split_extension(word: &str) -> Option<(&str, &str)> {
    word.rsplit_once('.').filter(|(_, extension)| {
        EXTENSION_LENGTHS.contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// Returns the terms of a text, all with the same weight.
fn query_terms(text: &str, weight: f32) -> Vec<QueryTerm> {
    tokenize(text).into_iter().map(|text| QueryTerm { text, weight }).collect()
}

/// Returns whether a word is a path or a URL.
fn is_location(text: &str) -> bool {
    let text = text.trim_start_matches(['"', '\'', '`', '(', '<']);
    text.contains("://") || text.starts_with(['/', '~']) || text.starts_with("./") || text.starts_with("../")
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

static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// Returns whether a word, as it is written in a query, is a stop word.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word.to_lowercase().as_str())
}
