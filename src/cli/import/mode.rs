//! What the command line asks of an import.

use super::ask::Answers;
use super::clients::apps::ClientApp;

/// How an import goes about it.
pub(super) struct ImportMode {
    /// The clients that it is about.
    pub(super) apps: Vec<ClientApp>,
    /// Whether the command line names them.
    pub(super) is_named: bool,
    /// Whether the clients' files are written.
    pub(super) write_client: bool,
    /// Whether the servers are started and measured.
    pub(super) measure: bool,
    /// The names of the secrets that the keyring has, if plain secrets move there.
    pub(super) stored_secrets: Option<Vec<String>>,
    /// Whether nothing is written.
    pub(super) dry_run: bool,
    /// Who answers questions.
    pub(super) answers: Answers,
}
