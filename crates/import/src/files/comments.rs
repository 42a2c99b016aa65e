//! The comments in the clients' files.
//!
//! A comment belongs to an entry of JSON if it stands in it, on its line, or directly above it without an empty line
//! between. In TOML the tree of the file knows which comments belong to a table.

use std::collections::HashMap;
use std::path::Path;

use jsonc_parser::cst::{CstComment, CstNode, CstObjectProp, CstRootNode};

use config::load::{PARSE_OPTIONS, is_toml};

/// Returns the comments directly above a member, and those before it on its line, in their order.
pub(crate) fn comments_above(property: &CstObjectProp) -> Vec<CstComment> {
    let (mut found, mut line) = (Vec::new(), Vec::new());
    let mut is_its_line = true;
    for node in property.previous_siblings() {
        if let Some(comment) = node.as_comment() {
            line.push(comment);
        } else if node.is_newline() {
            if line.is_empty() && !is_its_line {
                break;
            }
            found.append(&mut line);
            is_its_line = false;
        } else if !node.is_whitespace() {
            // What stands behind another member on its line is of that one.
            if is_its_line {
                found.append(&mut line);
            }
            break;
        }
    }
    found.reverse();
    found
}

/// Returns all comments of a file. In TOML, those that stand behind a string of several lines may be missing. JSON that
/// cannot be parsed has none. `path` only says which format the text has.
pub(crate) fn comments(path: &Path, text: &str) -> Vec<String> {
    if is_toml(path) {
        return text.lines().filter_map(toml_comment).map(str::to_owned).collect();
    }
    let root = CstRootNode::parse(text.trim_start_matches('\u{feff}'), &PARSE_OPTIONS);
    root.map(|root| comments_in(&root)).unwrap_or_default()
}

/// Returns all comments of a tree of JSON.
pub(super) fn comments_in(root: &CstRootNode) -> Vec<String> {
    fn collect(node: &CstNode, found: &mut Vec<String>) {
        match node.as_comment() {
            Some(comment) => found.push(comment.raw_value()),
            None => node.children().iter().for_each(|node| collect(node, found)),
        }
    }
    let mut found = Vec::new();
    root.children().iter().for_each(|node| collect(node, &mut found));
    found
}

/// Returns the comment at the end of a line of TOML.
fn toml_comment(line: &str) -> Option<&str> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some('"'), '\\') => is_escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => return line.get(at..).map(str::trim_end),
            _ => {}
        }
    }
    None
}

/// Those of the first comments that the second ones do not have; each counts once.
pub(crate) fn missing_comments(from: Vec<String>, others: Vec<String>) -> Vec<String> {
    let mut counts = counts(others);
    let is_missing = |comment: &String| match counts.get_mut(comment) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    from.into_iter().filter(is_missing).collect()
}

/// Returns how often each comment is there.
pub(super) fn counts(comments: Vec<String>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    comments.into_iter().for_each(|comment| *counts.entry(comment).or_default() += 1);
    counts
}
