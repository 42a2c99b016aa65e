//! What must not be seen: tokens, secrets, codes.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// To be sent or written, never to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a server said, fit to be shown: one short line without anything that is secret.
pub(super) fn cleaned(text: &str, secrets: &[&str]) -> String {
    /// Enough for a sentence; servers answer with whole pages too.
    const LONGEST: usize = 300;
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "…");
    }
    let shown = |c: char| if c.is_control() || is_invisible(c) { ' ' } else { c };
    let line: String = text.chars().map(shown).take(LONGEST).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Marks of direction, zero-width characters and tags: they make text look like another.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
