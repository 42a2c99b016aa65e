//! docs/errors.md has what is said when something fails: the texts of all errors, and those of commands. It quotes no
//! other texts.

use std::collections::BTreeSet;
use std::fs;

use super::root;
use crate::support::{SOURCES, source_files};

/// What stands before the text of a message in the source.
const MARKS: [&str; 9] = [
    "#[error(",
    "RpcError::new(",
    "stderr::message(",
    "bail!(",
    "anyhow!(",
    ".context(",
    "with_context(|| format!(",
    "CommandError::new(",
    "usage(",
];

/// The file whose functions make the texts for models.
const MODEL_TEXTS: &str = "tool_errors.rs";

/// Files whose messages reach nobody, or are not about what fails.
const OTHERS: [&str; 5] = ["cli/demo", "cli/usage.rs", "main.rs", "program_client.rs", "warden/protocol.rs"];

/// A shorter part of a text says nothing by itself.
const MIN_LEN: usize = 12;

fn page() -> String {
    fs::read_to_string(root().join("docs/errors.md")).unwrap()
}

/// The name and the code of each source file, without tests.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for dir in SOURCES.map(|dir| root().join(dir)) {
        for file in source_files(&dir) {
            let name = file.strip_prefix(&dir).unwrap().display().to_string();
            let source = fs::read_to_string(&file).unwrap();
            let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            sources.push((name, code.to_owned()));
        }
    }
    sources.retain(|(name, _)| !name.contains("/tests"));
    sources
}

/// The first string literal of a call, if it comes before the call's end.
fn first_literal(call: &str) -> Option<String> {
    let call = call.split(");").next()?;
    let start = call.find('"')? + 1;
    let mut text = String::new();
    let mut rest = call[start..].chars();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => match rest.next()? {
                '\n' => {
                    let after = rest.as_str().trim_start();
                    rest = after.chars();
                }
                'n' => text.push('\n'),
                c => text.push(c),
            },
            c => text.push(c),
        }
    }
}

/// The first clause of a message that has no values in it. What follows is often advice, which the page may leave out.
fn first_fixed_clause(message: &str) -> Option<String> {
    let message = message.replace('`', "").replace("{{", "\u{1}").replace("}}", "\u{2}");
    let parts = message.lines().flat_map(|line| line.split(['{', '}']).step_by(2));
    let clauses = parts.flat_map(|part| part.split([';', ':', '.', '(']));
    let clause =
        clauses.map(|clause| clause.trim_matches([' ', ','])).find(|clause| clause.len() >= MIN_LEN)?;
    Some(clause.replace('\u{1}', "{").replace('\u{2}', "}"))
}

#[test]
fn the_text_of_every_error_is_in_the_page_of_errors() {
    let page = page().replace('`', "");
    let (mut count, mut missing) = (0, Vec::new());
    for (name, code) in sources() {
        if OTHERS.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        let marks = MARKS.into_iter().chain((name == MODEL_TEXTS).then_some("format!("));
        let calls = marks.flat_map(|mark| code.match_indices(mark).map(move |(at, _)| at + mark.len()));
        let literals = calls.filter_map(|at| first_literal(&code[at..]));
        for clause in literals.filter_map(|message| first_fixed_clause(&message)) {
            count += 1;
            if !page.contains(&clause) {
                missing.push(format!("{name}: {clause}"));
            }
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "docs/errors.md lacks:\n{}", missing.join("\n"));
    assert!(count > 150, "{count}");
}

/// The lines of code that have string literals. A literal that goes on in the next line is on one line here.
fn lines_with_literals(code: &str) -> String {
    let mut text = String::new();
    for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        match line.strip_suffix('\\') {
            Some(start) => text.push_str(start),
            None => text.extend([line, "\n"]),
        }
    }
    text.split_inclusive('\n').filter(|line| line.contains('"')).collect()
}

/// The code spans of a line of Markdown: what stands between two runs of as many backticks.
fn spans(line: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let text = rest[start..].trim_start_matches('`');
        let run = &rest[start..rest.len() - text.len()];
        let is_end = |at: &usize| !text[..*at].ends_with('`') && !text[at + run.len()..].starts_with('`');
        rest = match text.match_indices(run).map(|(at, _)| at).find(is_end) {
            Some(end) => {
                spans.push(&text[..end]);
                &text[end + run.len()..]
            }
            None => text,
        };
    }
    spans
}

/// The parts of a span that the program has in one piece. `<value>` stands for a value.
fn phrases(span: &str) -> Vec<&str> {
    let parts = span.split('<').enumerate().map(|(n, part)| match part.split_once('>') {
        Some((_, after)) if n > 0 => after,
        _ => part,
    });
    parts
        .flat_map(|part| part.split(|c: char| !c.is_alphabetic() && !" -'_".contains(c)))
        .map(str::trim)
        // The test of commands compares these with the help.
        .filter(|phrase| phrase.len() >= MIN_LEN && !phrase.starts_with("dynamic-mcp "))
        .collect()
}

#[test]
fn the_program_has_every_text_that_the_page_of_errors_quotes() {
    let literals: String = sources().iter().map(|(_, code)| lines_with_literals(code)).collect();
    let program = literals + &fs::read_to_string(root().join("config-schema.json")).unwrap();
    let page = page();
    let quoted: BTreeSet<&str> = page.lines().flat_map(spans).flat_map(phrases).collect();
    let unknown: Vec<&str> = quoted.iter().copied().filter(|phrase| !program.contains(phrase)).collect();
    assert!(unknown.is_empty(), "docs/errors.md quotes texts that the program does not have: {unknown:#?}");
    assert!(quoted.len() > 700, "{}", quoted.len());
}
