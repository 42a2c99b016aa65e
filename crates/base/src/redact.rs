//! Which parts of a text are secrets, for every output that shows a config, a command line or an address.
//!
//! # Theory of operation
//!
//! [`text`] takes any text: a config file, a command, an address. A scanner goes through it once and finds pairs of a name
//! and a value (`TOKEN=x`, `"apiKey": "x"`, `--token x`, `Authorization: Bearer x`), addresses, and single words. It needs
//! no parser: pairs look alike in JSON, TOML, YAML, headers, connection strings and shell commands, and in JSON within
//! an argument. `names` judges the name, `shapes` the value: its length, its alphabet, how often letters and digits
//! alternate, and how tokens of well-known services begin. `urls` looks into the parts of an address.
//!
//! A reference such as `${TOKEN}`, a path and a placeholder are no secrets: a user needs to see them.
//!
//! # Invariants
//!
//! - The time is linear in the length of the text. A value is judged by its first [`shapes::HEAD`] bytes.
//! - The number of lines stays, so that line N of the result is line N of the text.

mod names;
mod scanner;
mod shapes;
mod urls;

use std::ops::Range;

pub use names::{name_words, names_secret};
pub use shapes::{is_windows_path, split_scheme};

/// What a secret is replaced by.
const MASK: &str = "•••";

/// Returns a text without the secrets in it.
pub fn text(text: &str) -> String {
    masked(text, scanner::secrets(text, names::NameKind::Plain))
}

/// Returns the arguments of a command without the secrets in them.
pub fn args<'a>(args: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // No argument has a NUL, so the scanner knows where each one ends.
    let joined = args.into_iter().map(|arg| arg.replace('\0', " ")).collect::<Vec<_>>();
    if joined.is_empty() {
        Vec::new()
    } else {
        text(&joined.join("\0")).split('\0').map(str::to_owned).collect()
    }
}

/// Returns whether a value that stands under this name has a secret in it.
pub fn is_secret(name: &str, value: &str) -> bool {
    !scanner::secrets(value, names::kind(name)).is_empty()
}

/// Returns whether a text has a secret in it.
pub fn has_secret(text: &str) -> bool {
    !scanner::secrets(text, names::NameKind::Plain).is_empty()
}

/// Returns the text with a mask in place of these parts, which are in order. Their line breaks stay.
fn masked(text: &str, secrets: Vec<Range<usize>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for secret in secrets {
        out.push_str(&text[end..secret.start]);
        for (at, line) in text[secret.clone()].split('\n').enumerate() {
            out.push_str(if at > 0 { "\n" } else { "" });
            out.push_str(if line.is_empty() { "" } else { MASK });
        }
        end = secret.end;
    }
    out.push_str(&text[end..]);
    out
}

#[cfg(test)]
mod tests;
