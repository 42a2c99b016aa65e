//! Text that must not be shown: tokens, client secrets, authorization codes.

use crate::text::{one_line, shorten};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A token, client secret or authorization code. Its `Debug` output hides the text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent or stored and never to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Makes text from a server fit to be shown: one short line of visible characters, without `secrets`.
pub(super) fn sanitize(text: &str, secrets: &[&str]) -> String {
    /// Enough for a sentence: servers also answer with whole pages.
    const MAX_CHARS: usize = 300;
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "…");
    }
    shorten(&one_line(&text), MAX_CHARS)
}
