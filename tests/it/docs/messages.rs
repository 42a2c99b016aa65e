//! The program has every text that docs/errors.md quotes.

use std::collections::BTreeSet;
use std::fs;

use super::root;
use crate::support::{SOURCES, source_files};

/// A shorter part of a text says nothing by itself.
const MIN_LEN: usize = 12;

/// The code of all source files, without tests.
fn sources() -> Vec<String> {
    let files = SOURCES.iter().flat_map(|dir| source_files(&root().join(dir)));
    let files = files.filter(|file| !file.strip_prefix(root()).unwrap().to_str().unwrap().contains("/tests"));
    files
        .map(|file| {
            let source = fs::read_to_string(&file).unwrap();
            source.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()
        })
        .collect()
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
    let literals: String = sources().iter().map(|code| lines_with_literals(code)).collect();
    let program = literals + &fs::read_to_string(root().join("config-schema.json")).unwrap();
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let quoted: BTreeSet<&str> = page.lines().flat_map(spans).flat_map(phrases).collect();
    let unknown: Vec<&str> = quoted.iter().copied().filter(|phrase| !program.contains(phrase)).collect();
    assert!(unknown.is_empty(), "docs/errors.md quotes texts that the program does not have: {unknown:#?}");
    assert!(quoted.len() > 60, "{}", quoted.len());
}
