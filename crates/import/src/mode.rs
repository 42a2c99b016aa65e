//! What the command line asks of an import.

use super::ask::Answers;
use super::clients::apps::ClientApp;

/// How an import goes about it.
pub(crate) struct ImportMode {
    /// The clients that it is about.
    pub(crate) apps: Vec<ClientApp>,
    /// Whether the command line names them.
    pub(crate) is_named: bool,
    /// Whether the clients' files are written.
    pub(crate) write_client: bool,
    /// Whether the servers are started and measured.
    pub(crate) measure: bool,
    /// The names of the secrets that the keyring has, if plain secrets move there.
    pub(crate) stored_secrets: Option<Vec<String>>,
    /// Whether nothing is written.
    pub(crate) dry_run: bool,
    /// Who answers questions.
    pub(crate) answers: Answers,
}
