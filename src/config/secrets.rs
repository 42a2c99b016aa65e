//! Values that a config names instead of having them: `{keyring:NAME}` and `{command:PROGRAM ARG…}`.
//!
//! They are fetched when the server starts, by `transport`. This file says what they are called.

use super::vars::Env;
use std::path::PathBuf;

/// The longest name of a secret, in characters.
const MAX_NAME: usize = 64;

/// Returns whether a secret of the keyring may have this name: 1 to 64 letters, digits, `_` and `-` of ASCII. It names a
/// file, too.
pub fn is_secret_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The directory with an empty file for each secret of the keyring, which is replaced when the secret changes. It lists
/// the names, and running instances notice the change of a file. `None` if the home directory is not known.
pub fn marker_dir(env: &Env) -> Option<PathBuf> {
    Some(env.data_dir()?.join("secrets"))
}
