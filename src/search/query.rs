//! A query taken apart: the steps it seems to name, and the words of each that say something.

use super::concepts::{is_filler, related};
use super::tuning::Tuning;
use super::words::words;

/// A clause with fewer words is part of its neighbour.
const CLAUSE: usize = 2;

/// Words that begin another step of a task.
const CONNECTORS: &[&str] = &[
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

/// A word of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    pub text: String,
    /// How much it says of what is wanted.
    pub weight: f32,
    /// Written like a name, which is of somebody or something unless a tool is called so.
    pub proper: bool,
}

/// The steps that a query seems to name. There is at least one.
pub fn clauses(query: &str, tuning: &Tuning) -> Vec<Vec<Word>> {
    let mut clauses: Vec<Vec<Word>> = Vec::new();
    // Too short for a clause, and before the first one.
    let mut early = Vec::new();
    for piece in pieces(query) {
        let mut clause = Vec::new();
        let mut begins = true;
        for text in piece.split_whitespace() {
            let bare = text.trim_matches(|c: char| !c.is_alphanumeric());
            if CONNECTORS.contains(&bare.to_lowercase().as_str()) {
                flush(&mut clause, &mut clauses, &mut early);
            } else if !is_filler(bare) {
                read(bare, begins, tuning, &mut clause);
            }
            begins = false;
        }
        flush(&mut clause, &mut clauses, &mut early);
    }
    if clauses.is_empty() {
        clauses.push(Vec::new());
    }
    clauses[0].splice(0..0, early);
    if clauses[0].is_empty() {
        clauses[0] = words(query).into_iter().map(|text| Word { text, weight: 1.0, proper: false }).collect();
    }
    clauses
}

/// Ends a clause. What is too short for one joins the one before.
fn flush(clause: &mut Vec<Word>, clauses: &mut Vec<Vec<Word>>, early: &mut Vec<Word>) {
    let clause = std::mem::take(clause);
    match clauses.last_mut() {
        _ if clause.len() >= CLAUSE => clauses.push(clause),
        Some(last) => last.extend(clause),
        None => early.extend(clause),
    }
}

/// The words of what stands between spaces.
fn read(text: &str, begins: bool, tuning: &Tuning, clause: &mut Vec<Word>) {
    let mut add = |text: &str, weight: f32, proper: bool| {
        clause.extend(words(text).into_iter().map(|text| Word { text, weight, proper }));
    };
    // Of a file's name its kind says what is to be done with it.
    if let Some((name, kind)) = text.rsplit_once('.')
        && matches!(kind.len(), 2..=5)
        && kind.bytes().all(|b| b.is_ascii_alphanumeric())
    {
        add(name.rsplit('/').next().unwrap_or_default(), tuning.data, true);
        return add(kind, 1.0, false);
    }
    let number = text.bytes().all(|b| !b.is_ascii_alphabetic()) && text.is_ascii();
    let proper = !begins && text.chars().next().is_some_and(char::is_uppercase);
    let weight = if number || text.starts_with('/') { tuning.data } else { 1.0 };
    let joined = text.replace('-', "");
    if joined.len() == text.len() {
        return add(text, weight, proper);
    }
    // `to-do` is not about `to` and `do`.
    text.split('-').filter(|part| !is_filler(part)).for_each(|part| add(part, weight, proper));
    if words(&joined).iter().any(|word| !related(word).is_empty()) {
        add(&joined, weight, proper);
    }
}

/// A text cut at its punctuation.
fn pieces(text: &str) -> Vec<&str> {
    let ends = |(at, c): (usize, char)| match c {
        '.' | ',' | ':' => text[at + 1..].chars().next().is_none_or(char::is_whitespace),
        _ => matches!(c, ';' | '!' | '?' | '\n' | '，' | '。' | '；' | '：' | '！' | '？' | '、'),
    };
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|&here| ends(here)) {
        pieces.push(&text[start..at]);
        start = at + c.len_utf8();
    }
    pieces.push(&text[start..]);
    pieces
}
