//! Values that a config names instead of having them: `{keyring:NAME}` and `{command:PROGRAM ARG…}`.
//!
//! They are fetched when the server starts, by `process::secrets`. Until then the fields of the config have the text as
//! it is written, and [`ServerSecrets`] says what takes its place.

use super::env::Env;
use super::referenced::FileStamp;
use futures_util::future::BoxFuture;
use std::fmt;
use std::path::PathBuf;

/// The keyring of the user.
pub trait SecretKeyring: Send + Sync {
    /// Reads a secret. `None` if there is none of this name. With `may_prompt` the user may be asked to unlock the
    /// keyring.
    ///
    /// # Errors
    ///
    /// Says why the keyring cannot be read, as the end of "the system's keyring …".
    fn get<'a>(&'a self, name: &'a str, may_prompt: bool) -> BoxFuture<'a, Result<Option<String>, String>>;
}

/// The longest name of a secret, in characters.
const MAX_NAME: usize = 64;
/// The longest name that is made, without the number that makes it unique.
const MAX_MADE_NAME: usize = 60;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The system's keyring.
    Keyring {
        /// The name of the secret.
        name: String,
        /// The file of the secret in [`marker_dir`], which changes with the secret.
        stamp: FileStamp,
    },
    /// The first words are a program and its arguments. It prints the value.
    Command(Vec<String>),
}

/// Names the source without the arguments of a command, which may be secrets.
impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring { name, .. } => write!(f, "{{keyring:{name}}}"),
            Self::Command(words) => {
                let program = words.first().map_or("", String::as_str);
                write!(f, "{{command:{program}{}}}", if words.len() > 1 { " …" } else { "" })
            }
        }
    }
}

/// A part of a value.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretPart {
    /// Text of the config, with its variables expanded. It may be a secret, too.
    Text(String),
    /// A value that is fetched.
    Fetched(SecretSource),
}

/// The field that has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// A variable in `env`.
    Env(String),
    /// A header in `headers`.
    Header(String),
    /// `oauth.client_secret`.
    ClientSecret,
    /// `oauth.private_key`.
    PrivateKey,
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env.{name}"),
            Self::Header(name) => write!(f, "headers.{name}"),
            Self::ClientSecret => f.write_str("oauth.client_secret"),
            Self::PrivateKey => f.write_str("oauth.private_key"),
        }
    }
}

/// The values of a server that are fetched when it starts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerSecrets(pub Vec<(SecretPlace, Vec<SecretPart>)>);

impl ServerSecrets {
    /// Returns the sources, with the fields that they are for.
    pub fn sources(&self) -> impl Iterator<Item = (&SecretPlace, &SecretSource)> {
        self.0.iter().flat_map(|(place, parts)| {
            parts.iter().filter_map(move |part| match part {
                SecretPart::Fetched(source) => Some((place, source)),
                SecretPart::Text(_) => None,
            })
        })
    }
}

impl fmt::Debug for ServerSecrets {
    /// Shows no text, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources().map(|(place, source)| format!("{place}: {source}"))).finish()
    }
}

/// Returns whether a secret of the keyring may have this name: 1 to 64 letters, digits, `_` and `-` of ASCII. It names a
/// file, too.
pub fn is_secret_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Returns a name for the secret of a server: with the name of its variable or setting, and a number if that is taken.
pub fn free_secret_name(server: &str, member: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = format!("{server}-{member}");
    let name: String =
        name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(MAX_MADE_NAME).collect();
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}

/// Returns the directory with an empty file for each secret of the keyring, which is replaced when the secret changes.
/// It lists the names, and running instances notice the change of a file. `None` if the home directory is not known.
pub fn marker_dir(env: &Env) -> Option<PathBuf> {
    Some(env.data_dir()?.join("secrets"))
}

/// Returns why a text cannot be the value of a header; `None` if it can.
pub fn header_value_error(value: &str) -> Option<&'static str> {
    let is_refused = |c: char| c.is_control() && c != '\t';
    value.contains(is_refused).then_some("the value contains a line break or another control character")
}
