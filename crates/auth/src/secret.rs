//! Text that must not be shown: tokens, client secrets, authorization codes.

use base::text::{folded, one_line, quoted, shorten};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Enough for a sentence: servers also answer with whole pages.
const MAX_CHARS: usize = 300;

/// A token, client secret or authorization code. Its `Debug` output hides the text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to be sent or stored and never to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Makes text from a server fit to be shown: one line of visible characters, without `secrets` and shortened to
/// `MAX_CHARS`.
pub(super) fn sanitize(text: &str, secrets: &[&str]) -> String {
    shorten(&one_line(&without_secrets(text, secrets)), MAX_CHARS)
}

/// Sanitizes text and puts it in quotation marks, for a sentence of ours.
pub(super) fn quote_sanitized(text: &str, secrets: &[&str]) -> String {
    quoted(&shorten(&folded(&without_secrets(text, secrets)), MAX_CHARS))
}

/// Replaces `secrets` in a text, as they are and as they stand in a form or a URL.
pub(super) fn without_secrets(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(text.to_owned(), |text, secret| {
        let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        text.replace(secret, "…").replace(&encoded, "…")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_in_every_form_that_a_server_repeats() {
        let text = "code=a%2Fb%2Bc%3D%3D&secret=a/b+c==\nno";
        assert_eq!(sanitize(text, &["a/b+c==", ""]), "code=…&secret=… no");
    }
}
