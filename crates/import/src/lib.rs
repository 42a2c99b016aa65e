//! `dynamic-mcp import`: makes servers.json of the servers that the clients on this machine have.
//!
//! # Theory of operation
//!
//! `clients` knows the files of each client and what their entries mean, `rules` knows the rules for tools in them, and
//! `files` reads, edits and writes them. On these stand the parts of an import, in the order in which they act:
//!
//! 1. `merge` finds the servers of all clients, and puts them together with those of servers.json.
//! 2. `profiles` decides which servers and tools each client may use, so that each client still sees what it saw
//!    before.
//! 3. `measure` starts the servers before anything is written, for `--measure`.
//! 4. `plan` puts together what is written, shows it, asks, and writes servers.json. With `--write-client` it also
//!    writes the clients' files, with our entry in place of their servers. `--secrets` moves secrets to the system's
//!    keyring.
//!
//! `undo` goes through the records of `files` and takes the changes of clients' files back. `ask` puts the questions of
//! all parts to the person at the terminal, `mode` is what the command line asks for, and `json` reads values that may be
//! of any type.
//!
//! A folder imports only folders before it in this list: `clients`, `rules`, `files`, `merge`, `profiles`, `measure`,
//! `plan`, `undo`. `src/main.rs` calls [`import`](fn@import) for the command. Other commands use what is public beside
//! it: `add` and `remove` edit servers.json as an import does, and `check` finds our entry in a client's file.
//!
//! # Invariants
//!
//! - A file that is not valid is reported and never written. A file is replaced only if it is as it was read.
//! - Nothing of an entry is lost silently: what has no counterpart is listed.
//! - A server whose rules cannot be carried over exactly stays in its client's file.
//! - What a project brings appears in this project only, and gets nothing of the user's entries without a person's yes.
//! - A record stays until everything in it is back, or until the user forgets it.
//! - No client may use more tools of its servers than before, and no profile loses a server that it chooses, unless its
//!   client turns it off.
//! - Nothing is written without a yes: at the terminal, or as `--yes`.
//! - A signal ends the command where it waits, never within the write of a file.
//!
//! ```ignore
//! let Some(Command::Import(args)) = &cli.command else { return };
//! import::import(args, &cli.instance_options(&env), &env).await?;
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use ask::Answers;
use base::text;
use clients::apps::ClientApp;
use config::env::Env;
use config::load::is_toml;
use files::write::absolute;
use instance::InstanceOptions;
use instance::signals::interrupted;
use instance::stores::secret_store;
use merge::discover::{Discovery, discover};
use mode::ImportMode;
use plan::Plan;
use terminal::outcome::{
    CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, is_end_of_reader,
};
use undo::{forget_record, list_records, undo_changes};

pub mod ask;
pub(crate) mod clients;
pub(crate) mod files;
mod json;
mod measure;
pub(crate) mod merge;
mod mode;
mod plan;
mod profiles;
mod rules;
pub mod tool_search;
mod undo;

pub use clients::apps;
pub use files::{edit, source, write};
pub use merge::own_entry;
pub use mode::ImportArgs;

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
    let apps = if args.clients.is_empty() { ClientApp::all() } else { &args.clients };
    let answers = Answers::new(args.yes);
    let mode = ImportMode { args, apps, stored_secrets: None, answers, options, env };
    if args.list {
        return list_records(&mode);
    }
    if answers == Answers::Nobody && !args.dry_run {
        let message =
            "there is no terminal to ask; run this again with --yes, or with --dry-run to see what it does";
        bail!(CommandError::new(EXIT_USAGE, message));
    }
    if let Some(id) = args.forget {
        return forget_record(id, &mode).await;
    }
    if args.undo {
        return undo_changes(&mode, target_file(options, env).ok()).await;
    }
    let target = target_file(options, env)?;
    if is_toml(&target) {
        let message = format!(
            "{} is a file of Codex, which has no variables for what the clients' entries use; name a JSON file with --config",
            text::path(&target)
        );
        bail!(CommandError::new(EXIT_USAGE, message));
    }
    import_into(target, mode).await
}

/// Imports the servers into this file.
///
/// # Errors
///
/// Fails if servers.json cannot be read, edited or written, a record cannot be written, the keyring cannot be used,
/// `--measure` fails, stdout cannot be written, or a question is not answered.
async fn import_into(target: PathBuf, mut mode: ImportMode<'_>) -> anyhow::Result<ExitCode> {
    let ImportMode { args, apps, env, .. } = mode;
    if args.secrets {
        mode.stored_secrets = Some(known_secrets(&target, args.dry_run, env).await?);
    }
    let project = args.project.as_ref().map(|dir| absolute(&env.cwd().join(dir)));
    let mut discovery = discover(apps, project.as_deref(), env);
    discovery.read_others(apps, env);
    discovery.leave_inexact();
    let is_limited = args.write_client || args.measure && args.dry_run;
    discovery.leave_unlimited(is_limited, mode.answers == Answers::Terminal);
    own_entry::set_other_configs_apart(&mut discovery, &target, env);
    for (app, error) in &discovery.errors {
        terminal::message(format_args!("{}: {error}; the file is left as it is", app.label));
    }
    terminal::print(&plan::report::files(&discovery, env).wrapped())?;
    if discovery.files.is_empty() && discovery.errors.is_empty() {
        let names = text::joined(apps.iter().map(|app| app.label));
        terminal::line(format_args!(
            "No files of {names} were found. `dynamic-mcp add` adds a server without them."
        ))?;
        if !args.write_client {
            return Ok(ExitCode::SUCCESS);
        }
    }
    confirm_projects(&mut discovery, &mode).await?;
    let plan = Plan::new(&discovery, target, &mode).await?;
    if args.measure {
        plan.measure(&mode).await?;
    }
    let done = plan.carry_out(&discovery, &mode).await?;
    Ok(match (done, discovery.errors.is_empty()) {
        (false, _) => ExitCode::from(EXIT_FAILURE),
        (true, false) => ExitCode::from(EXIT_CONFIG),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Returns the names of the secrets that the keyring has; with `dry_run`, none.
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

/// Returns the config file that is written: the last one of the command line, or else the default one.
///
/// # Errors
///
/// Fails if the command line names none and the home directory is not known.
fn target_file(options: &InstanceOptions, env: &Env) -> anyhow::Result<PathBuf> {
    let file =
        options.files.last().context("there is no config file because HOME is not set; use --config")?;
    Ok(absolute(&env.cwd().join(file)))
}

/// Asks for each server of a project, because a project's files may be anybody's. Those that are not wanted stay. Asks
/// nothing if the servers are neither written nor started.
///
/// # Errors
///
/// Fails if a question is not answered.
async fn confirm_projects(discovery: &mut Discovery, mode: &ImportMode<'_>) -> io::Result<()> {
    let of_projects =
        discovery.files.iter().flat_map(|file| &file.places).filter(|place| place.project.is_some());
    let mut is_wanted = Vec::new();
    for server in of_projects.flat_map(|place| &place.servers) {
        let gets = match server.taken.is_empty() {
            true => String::new(),
            false => format!("\nIt gets this of your own entry of that name: {}", server.taken_fields()),
        };
        let question = format!(
            "{} of the project runs or contacts: {}{gets}\nImport it?",
            text::name(&server.name),
            plan::report::program(&server.translated.entry)
        );
        let is_unused = mode.args.dry_run && !mode.args.measure;
        is_wanted.push(is_unused || mode.answers.confirm(&question).await?);
    }
    let mut is_wanted = is_wanted.into_iter();
    discovery.leave_of_project(|_| (is_wanted.next() != Some(true)).then(|| "it is not wanted".to_owned()));
    Ok(())
}
