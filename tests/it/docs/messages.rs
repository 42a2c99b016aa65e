//! docs/errors.md has what is said when something fails: the texts of all errors, and those of commands.

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

/// Files whose messages reach nobody, or are not about what fails.
const OTHERS: [&str; 5] = ["cli/demo", "cli/usage.rs", "main.rs", "program_client.rs", "warden/protocol.rs"];

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

/// The longest part of a message that has no values in it.
fn fixed_part(message: &str) -> String {
    let message = message.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let parts = message.split(['{', '}', '\n']).enumerate().filter(|(n, _)| n % 2 == 0);
    let part = parts.map(|(_, part)| part.trim_start_matches("dynamic-mcp: ")).max_by_key(|part| part.len());
    part.unwrap_or_default()
        .trim_matches([' ', ':', ';', ',', '.'])
        .replace('`', "")
        .replace('\u{1}', "{")
        .replace('\u{2}', "}")
}

#[test]
fn the_text_of_every_error_is_in_the_page_of_errors() {
    let page = fs::read_to_string(root().join("docs/errors.md")).unwrap().replace('`', "");
    let (mut count, mut missing) = (0, Vec::new());
    for (dir, file) in SOURCES
        .iter()
        .flat_map(|dir| source_files(&root().join(dir)).into_iter().map(move |file| (dir, file)))
    {
        let name = file.strip_prefix(root().join(dir)).unwrap().display().to_string();
        if name.contains("/tests") || OTHERS.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let calls =
            MARKS.iter().flat_map(|mark| code.match_indices(mark).map(|(at, _)| &code[at + mark.len()..]));
        for part in calls.filter_map(first_literal).map(|message| fixed_part(&message)) {
            // A shorter one says nothing by itself.
            if part.len() < 12 {
                continue;
            }
            count += 1;
            if !page.contains(&part) {
                missing.push(format!("{name}: {part}"));
            }
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "docs/errors.md lacks:\n{}", missing.join("\n"));
    assert!(count > 90, "{count}");
}
