//! `dynamic-mcp import`: makes servers.json of the servers that the clients on this machine have.
//!
//! # Theory of operation
//!
//! `discover` reads the files of the clients, whose places and forms are in `apps`, with `source`. `translate` makes an
//! entry of ours (in `entry_order`) from each server in them, if its values have the types that they must have (`shape`); `variables` does
//! that for its strings, by the `string_rules` of the client. `merge` puts the servers of all clients together, and
//! with those that servers.json has; `accounts` tells which are of different accounts, and `differences` in what else they
//! differ. `client_rules` has the rules
//! for tools that clients have beside their servers (`rule_files`), as `tool_rules`, and `not_carried` names those that are lost.
//! `access` says which servers and tools each client (`client_scope`) may use; `own_profiles` knows those that use this
//! program already, and `client_profiles` makes its `profiles`. `questions` asks, with `ask`
//! and `differing_clients`, and `report` says what
//! was found. Then `plan` adds the new servers and profiles to servers.json, with `edit`, and `after_import` says what to do next.
//!
//! With `--write-client`, `replace` makes the clients' files with our entry in place of the servers (and in the list of
//! `allowed` ones), `write` writes them, and `records` keeps what is needed to take that back. `own_entry` finds our
//! entry there, also for `check`. `undo` goes through the records: `undo_step` finds out what each of them does to its
//! file, `put_back` and `comments` put entries back as they were written, and `leaving` names the servers that no
//! client has then, in its `client_form`, and `undone_settings` what servers.json has of the others beyond the clients. `other_content` knows what a file had beside its servers. `measure` starts
//! the servers for `--measure`, and `measure_progress` says how far it is. `secrets` knows which values must not be
//! shown, and `keyring` moves them to the system's keyring for `--secrets`.
//!
//! # Invariants
//!
//! - A file that is not valid is reported and never written. A file is replaced only if it is as it was read.
//! - Nothing of an entry is lost silently: what has no counterpart is listed.
//! - A record stays until everything in it is back, or until the user forgets it.
//! - No client may use more tools of its servers than before, and no profile loses a server that it chooses, unless its
//!   client turns it off.
//! - Nothing is written without a yes: at the terminal, or as `--yes`.
//! - A signal ends the command where it waits, never within the write of a file.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::outcome::{
    CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, is_end_of_reader,
};
use super::terminal;
use crate::config::load::is_toml;
use crate::config::vars::Env;
use crate::instance::InstanceOptions;
use crate::instance::signals::interrupted;
use crate::instance::stores::secret_store;
use apps::ClientApp;
use ask::Answers;
use base::text;
use discover::{Discovery, discover};
use measure::MeasureContext;
use mode::ImportMode;
use plan::Plan;
use undo::{forget_record, list_records, undo_changes};
use write::absolute;

mod access;
mod accounts;
mod after_import;
mod allowed;
pub(super) mod apps;
mod ask;
mod change_record;
mod client_form;
mod client_profiles;
mod client_rules;
mod client_scope;
mod comments;
mod differences;
mod differing_clients;
mod discover;
pub(super) mod edit;
mod entry_order;
mod keyring;
mod leaving;
mod measure;
mod measure_progress;
mod merge;
mod mode;
mod not_carried;
mod other_content;
pub(super) mod own_entry;
mod own_profiles;
mod plan;
mod profiles;
mod put_back;
mod questions;
mod records;
mod replace;
pub(super) mod report;
mod rule_files;
mod secrets;
mod shape;
pub(super) mod source;
mod string_rules;
mod timeouts;
mod tool_rules;
mod translate;
mod undo;
mod undo_step;
mod undone_settings;
mod variables;
pub(super) mod write;

/// Import the servers of the MCP clients on this machine
///
/// Reads the clients' files and adds their servers to servers.json, comments kept. Nothing is written
/// before you agree.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dynamic-mcp import --dry-run\n  dynamic-mcp import --write-client\n  dynamic-mcp import cursor --project --yes\n  dynamic-mcp import --undo\n  dynamic-mcp import --undo --list"
)]
pub struct ImportArgs {
    /// The clients to import from; all by default
    #[arg(value_name = "CLIENT")]
    pub clients: Vec<ClientApp>,
    /// Import the servers of a project too: those in its directory, by default the current one
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub project: Option<PathBuf>,
    /// Put dynamic-mcp in place of the servers in the clients' files
    #[arg(long)]
    pub write_client: bool,
    /// Take back what --write-client changed
    #[arg(long, conflicts_with_all = ["write_client", "project"])]
    pub undo: bool,
    /// Show what --undo has to take back, each change with its number and date
    #[arg(long, requires = "undo")]
    pub list: bool,
    /// Delete the record of a change, with what --undo has not put back
    #[arg(long, value_name = "ID", conflicts_with_all = ["undo", "write_client", "project", "secrets", "measure", "clients"])]
    pub forget: Option<u32>,
    /// Move plain secrets of the servers to the system's keyring
    #[arg(long, conflicts_with_all = ["undo", "measure"])]
    pub secrets: bool,
    /// Start the servers, and show what they take today and would take with dynamic-mcp
    #[arg(long, conflicts_with = "undo")]
    pub measure: bool,
    /// Write nothing, and show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Answer every question with yes
    #[arg(long, short)]
    pub yes: bool,
}

/// Imports the servers of clients, or takes back what an import changed in their files.
///
/// # Errors
///
/// Fails if the command line is wrong, stdout cannot be written, a file cannot be read or written, or a signal interrupts
/// it.
pub async fn import(args: &ImportArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    tokio::select! {
        // The signal comes first, so that from now on it ends the process nowhere else.
        biased;
        () = interrupted() => bail!(CommandError::new(EXIT_INTERRUPTED, "interrupted; nothing more was written")),
        outcome = import_or_undo(args, options, env) => match outcome {
            // Nobody should take the end of `import --yes | head` for a success.
            Err(error) if is_end_of_reader(&error) && !args.dry_run => {
                bail!(CommandError::new(EXIT_FAILURE, "the output is not read any more; nothing more was written"))
            }
            outcome => outcome,
        },
    }
}

async fn import_or_undo(args: &ImportArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let is_named = !args.clients.is_empty();
    let mode = ImportMode {
        apps: if is_named { args.clients.clone() } else { ClientApp::all().to_vec() },
        is_named,
        write_client: args.write_client,
        measure: args.measure,
        stored_secrets: None,
        dry_run: args.dry_run,
        answers: Answers::new(args.yes),
    };
    if args.list {
        return list_records(&mode.apps, env);
    }
    if mode.answers == Answers::Nobody && !mode.dry_run {
        let message =
            "there is no terminal to ask; run this again with --yes, or with --dry-run to see what it does";
        bail!(CommandError::new(EXIT_USAGE, message));
    }
    if let Some(id) = args.forget {
        return forget_record(id, &mode, env).await;
    }
    if args.undo {
        return undo_changes(&mode, target_file(options, env).ok(), env).await;
    }
    let target = target_file(options, env)?;
    if is_toml(&target) {
        let message = format!(
            "{} is a file of Codex, which has no variables for what the clients' entries use; name a JSON file with --config",
            text::path(&target)
        );
        bail!(CommandError::new(EXIT_USAGE, message));
    }
    import_into(target, args, mode, MeasureContext { options, env }).await
}

/// Imports the servers into this file.
async fn import_into(
    target: PathBuf,
    args: &ImportArgs,
    mut mode: ImportMode,
    context: MeasureContext<'_>,
) -> anyhow::Result<ExitCode> {
    let env = context.env;
    if args.secrets {
        mode.stored_secrets = Some(known_secrets(&target, args.dry_run, env).await?);
    }
    let project = args.project.as_ref().map(|dir| absolute(&env.cwd().join(dir)));
    let mut discovery = discover(&mode.apps, project.as_deref(), env);
    discovery.read_others(&mode.apps, env);
    own_entry::set_other_configs_apart(&mut discovery, &target, env);
    for (app, error) in &discovery.errors {
        terminal::message(format_args!("{}: {error}; the file is left as it is", app.label()));
    }
    terminal::print(&report::files(&discovery, env).wrapped())?;
    if discovery.files.is_empty() && discovery.errors.is_empty() {
        let names: Vec<_> = mode.apps.iter().map(|app| app.label()).collect();
        terminal::line(format_args!(
            "No files of {} were found. `dynamic-mcp add` adds a server without them.",
            names.join(", ")
        ))?;
        if !args.write_client {
            return Ok(ExitCode::SUCCESS);
        }
    }
    confirm_projects(&mut discovery, &mode).await?;
    let plan = Plan::new(&discovery, target, &mode, env).await?;
    if mode.measure {
        plan.measure(context).await?;
    }
    let done = plan.carry_out(&discovery, &mode, env).await?;
    Ok(match (done, discovery.errors.is_empty()) {
        (false, _) => ExitCode::from(EXIT_FAILURE),
        (true, false) => ExitCode::from(EXIT_CONFIG),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// The names of the secrets that the keyring has.
///
/// # Errors
///
/// Fails if none can move there from this file, or the names cannot be read.
async fn known_secrets(target: &Path, dry_run: bool, env: &Env) -> anyhow::Result<Vec<String>> {
    let own = env.config_dir().map(|dir| absolute(&dir.join("servers.json"))).unwrap_or_default();
    if own != target {
        let reason = "--secrets works only with your own servers.json, because {keyring:NAME} is read in no other file";
        bail!(CommandError::new(EXIT_USAGE, format!("{reason}: {}", text::path(&own))));
    }
    let store = secret_store(env).context("there is no directory for the names of secrets")?;
    Ok(if dry_run { Vec::new() } else { store.names().await? })
}

/// The config file that is written: the last one of the command line, or else the default one.
fn target_file(options: &InstanceOptions, env: &Env) -> anyhow::Result<PathBuf> {
    let file =
        options.files.last().context("there is no config file because HOME is not set; use --config")?;
    Ok(absolute(&env.cwd().join(file)))
}

/// Asks for each server of a project, because a project's files may be anybody's. Those that are not wanted stay.
async fn confirm_projects(discovery: &mut Discovery, mode: &ImportMode) -> io::Result<()> {
    for file in &mut discovery.files {
        for place in file.places.iter_mut().filter(|place| place.project.is_some()) {
            for server in std::mem::take(&mut place.servers) {
                let question = format!(
                    "{} of the project runs or contacts: {}\nImport it?",
                    text::name(&server.name),
                    report::program(&server.translated.entry)
                );
                match (mode.dry_run && !mode.measure) || mode.answers.confirm(&question).await? {
                    true => place.servers.push(server),
                    false => place.staying.push((server.name, "it is not wanted".to_owned())),
                }
            }
        }
    }
    Ok(())
}
