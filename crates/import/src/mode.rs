//! What the command line asks of an import.

use std::path::PathBuf;

use clap::Args;

use super::clients::apps::ClientApp;
use super::import_source::ImportSource;
use config::env::Env;
use instance::InstanceOptions;
use terminal::ask::Answers;

/// Import the servers of the MCP clients on this machine
///
/// Reads the clients' files and adds their servers to servers.json, comments kept. Nothing is written
/// before you agree.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dynamic-mcp import --dry-run\n  dynamic-mcp import --write-client\n  dynamic-mcp import cursor --project --write-client\n  dynamic-mcp import --undo\n  dynamic-mcp import --undo --list"
)]
pub struct ImportArgs {
    /// The clients to import from, all by default, or a file in the form of any client
    #[arg(value_name = "CLIENT|FILE")]
    pub sources: Vec<ImportSource>,
    /// Import the servers of a project too: those in its directory, by default the current one
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub project: Option<PathBuf>,
    /// Import the servers of every directory that has some in the user's files of the clients, one after the other
    #[arg(long, requires = "write_client", conflicts_with_all = ["project", "json", "plan"])]
    pub(crate) all_projects: bool,
    /// Put dynamic-mcp in place of the servers in the clients' files
    #[arg(long)]
    pub(crate) write_client: bool,
    /// Take back what --write-client changed
    #[arg(long, conflicts_with_all = ["write_client", "project"])]
    pub undo: bool,
    /// Show what --undo has to take back, each change with its number and date
    #[arg(long, requires = "undo")]
    pub list: bool,
    /// Delete the record of a change, with what --undo has not put back
    #[arg(long, value_name = "ID", conflicts_with_all = ["undo", "write_client", "project", "secrets", "measure", "sources"])]
    pub forget: Option<u32>,
    /// Move plain secrets of the servers to the system's keyring
    #[arg(long, conflicts_with_all = ["undo", "measure"])]
    pub secrets: bool,
    /// Start the servers, and show what they take today and would take with dynamic-mcp
    #[arg(long, conflicts_with = "undo")]
    pub measure: bool,
    /// Let every client see every server, instead of those that it had
    #[arg(long, requires = "write_client")]
    pub(crate) same_servers: bool,
    /// Show each server and each changed line
    #[arg(long)]
    pub(crate) details: bool,
    /// Write nothing, and show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// In a dry run, print the plan as JSON, with its id
    #[arg(long, requires = "dry_run", conflicts_with_all = ["list", "forget", "measure"])]
    pub(crate) json: bool,
    /// Write only if the plan is still the one with this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["list", "forget", "dry_run"])]
    pub(crate) plan: Option<String>,
    /// Answer every question with yes
    #[arg(long, short)]
    pub yes: bool,
}

impl ImportArgs {
    /// Returns the clients to import from: those that are named, or all if nothing is named.
    pub(crate) fn clients(&self) -> Vec<ClientApp> {
        if self.sources.is_empty() {
            return ClientApp::all().collect();
        }
        let client = |source: &ImportSource| match source {
            ImportSource::Client(app) => Some(*app),
            ImportSource::File(_) => None,
        };
        self.sources.iter().filter_map(client).collect()
    }

    /// Returns the files that are named.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.sources.iter().filter_map(|source| match source {
            ImportSource::Client(_) => None,
            ImportSource::File(path) => Some(path),
        })
    }

    /// Returns whether the command may add servers to servers.json.
    pub fn adds_servers(&self) -> bool {
        !self.undo && !self.dry_run && self.forget.is_none()
    }
}

/// How an import goes about it.
pub(crate) struct ImportMode<'a> {
    /// The command line.
    pub(crate) args: &'a ImportArgs,
    /// The clients that it is about.
    pub(crate) apps: &'a [ClientApp],
    /// The names of the secrets that the keyring has, if plain secrets move there.
    pub(crate) stored_secrets: Option<Vec<String>>,
    /// Who answers questions.
    pub(crate) answers: Answers,
    /// Where logins are.
    pub(crate) options: &'a InstanceOptions,
    /// The environment.
    pub(crate) env: &'a Env,
}

impl ImportMode<'_> {
    /// Returns whether the command line names the clients.
    pub(crate) fn is_named(&self) -> bool {
        !self.args.sources.is_empty()
    }
}
