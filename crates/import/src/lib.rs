//! `dynamic-mcp import`: makes servers.json of the servers that the clients on this machine have.
//!
//! # Theory of operation
//!
//! `clients` has a file for each client: where its files are, what its entries mean and what its rules say. `files` edits and
//! writes the files. On these stand the parts of an import, in the order in which they act:
//!
//! 1. `merge` finds the servers of all clients, also those of their extensions and plugins, and puts them together with those
//!    of a config file. A server that cannot be carried over exactly stays in its client's file, with the reason.
//! 2. `profiles` decides which servers each client sees, so that each client still sees what it saw before.
//! 3. `plan` puts together what is written, shows it, asks once, and writes the config files. With `--write-client` it also
//!    writes the clients' files, with our entry in place of their servers, and turns off those of extensions and plugins by
//!    the client's own settings. The servers of a project get a config file of their own, which only the entries in the
//!    project read. `--secrets` moves secrets to the system's keyring.
//! 4. `measure` starts the servers before anything is written, for `--measure`.
//!
//! `undo` goes through the records of `files` and takes the changes of clients' files back. `mode` is what the command line
//! asks for, and `import_source` a client or a file that it names. `shown_plan` gives plans to programs. `source` reads files,
//! `tool_rules` has rules for tools as globs of ours, and `json` reads values that may be of any type.
//!
//! A folder imports only folders before it in this list: `clients`, `files`, `merge`, `profiles`, `measure`, `plan`, `undo`.
//! `src/main.rs` calls [`import`](fn@import) for the command. Other commands use what is public beside
//! it: `add` and `remove` edit servers.json as an import does, and `check` finds our entry in a client's file.
//!
//! # Invariants
//!
//! - A file that is not valid is reported and never written. A file is replaced only if it is as it was read.
//! - Nothing of an entry is lost silently: what has no counterpart is listed.
//! - What cannot be carried over exactly stays in its client's file, named. Fields that mean nothing here are named once.
//! - What a project brings appears in this project only, and gets nothing of the user's entries.
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

use base::text;
use clients::variables::secrets_in;
use config::dirs::own_config_file;
use config::env::Env;
use config::load::is_toml;
use files::write::absolute;
use instance::InstanceOptions;
use instance::signals::interrupted;
use instance::stores::secret_store;
use merge::discover::{Discovery, FoundServer, Place, discover_in, places_mut};
use mode::ImportMode;
use plan::Plan;
use serde_json::json;
use source::FileTexts;
use terminal::ask::Answers;
use terminal::outcome::{
    CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, is_end_of_reader,
};
use undo::{forget_record, list_records, undo_changes};

pub(crate) mod clients;
pub(crate) mod files;
mod import_source;
mod json;
mod measure;
pub(crate) mod merge;
mod mode;
mod plan;
pub mod profiles;
mod shown_plan;
pub mod source;
pub(crate) mod tool_rules;
mod undo;

pub use clients::{apps, client, host_search};
pub use files::{config_schema, edit, write};
pub use merge::{own_entry, running_twice};
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
    let apps = &args.clients();
    if (args.write_client || args.undo) && args.files().next().is_some() {
        let message =
            "--write-client and --undo are about the files of clients; name the client in place of the file";
        bail!(CommandError::new(EXIT_USAGE, message));
    }
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

/// Imports the servers into this file, and then those of the projects that are wanted.
///
/// # Errors
///
/// Those of [`import_place`], and if the keyring cannot be used.
async fn import_into(target: PathBuf, mut mode: ImportMode<'_>) -> anyhow::Result<ExitCode> {
    let ImportMode { args, env, .. } = mode;
    if args.secrets {
        mode.stored_secrets = Some(known_secrets(&target, args.dry_run, env).await?);
    }
    let project = args.project.as_ref().map(|dir| absolute(&env.cwd().join(dir)));
    let (mut code, others) = import_place(&target, project.as_deref(), &mode).await?;
    for project in others.into_iter().filter(|dir| args.all_projects && dir.is_dir()) {
        terminal::paragraph(format_args!("The servers of {}:", apps::short_path(&project, env)))?;
        let (of_project, _) = import_place(&target, Some(&project), &mode).await?;
        code = if of_project == ExitCode::SUCCESS { code } else { of_project };
    }
    Ok(code)
}

/// Imports the servers of the user, or of one project. Returns the exit code, and the projects whose servers were left out.
///
/// # Errors
///
/// Fails if servers.json cannot be read, edited or written, a record cannot be written, `--measure` fails, stdout cannot be
/// written, or a question is not answered.
async fn import_place(
    target: &Path,
    project: Option<&Path>,
    mode: &ImportMode<'_>,
) -> anyhow::Result<(ExitCode, Vec<PathBuf>)> {
    let ImportMode { args, apps, env, .. } = *mode;
    let (apps_read, texts) = (apps.iter().copied(), FileTexts::new());
    let mut discovery = discover_in(&texts, apps_read, project, args.write_client, env);
    args.files().for_each(|path| discovery.read_named_file(&absolute(&env.cwd().join(path)), env));
    discovery.read_others(apps, env);
    own_entry::set_other_configs_apart(&mut discovery, target, env);
    if own_config(env) != target {
        let names_secret = |server: &FoundServer| !secrets_in(&json!(server.translated.entry)).is_empty();
        let reason = "it has a secret, which only your own servers.json can name";
        places_mut(&mut discovery.files).for_each(|place| place.leave(names_secret, reason));
    }
    for (app, error) in &discovery.errors {
        terminal::message(format_args!("{}: {error}; the file is left as it is", app.label));
    }
    if discovery.files.is_empty() && discovery.errors.is_empty() {
        let names = text::joined(apps.iter().map(|app| app.label));
        terminal::line(format_args!(
            "No files of {names} were found. `dynamic-mcp add` adds a server without them."
        ))?;
        if !args.write_client {
            return Ok((ExitCode::SUCCESS, Vec::new()));
        }
    }
    confirm_project(&mut discovery, mode).await?;
    let plan = Plan::new(&discovery, target, project, mode).await?;
    if args.measure {
        plan.measure().await?;
    }
    let done = plan.carry_out().await?;
    let code = match (done, discovery.errors.is_empty()) {
        (false, _) => ExitCode::from(EXIT_FAILURE),
        (true, false) => ExitCode::from(EXIT_CONFIG),
        (true, true) => ExitCode::SUCCESS,
    };
    Ok((code, discovery.other_projects))
}

/// Returns the names of the secrets that the keyring has; with `dry_run`, none.
///
/// # Errors
///
/// Fails if none can move there from this file, or the names cannot be read.
async fn known_secrets(target: &Path, dry_run: bool, env: &Env) -> anyhow::Result<Vec<String>> {
    let own = own_config(env);
    if own != target {
        let reason = "--secrets works only with your own servers.json, because {keyring:NAME} is read in no other file";
        bail!(CommandError::new(EXIT_USAGE, format!("{reason}: {}", text::path(&own))));
    }
    let store = secret_store(env).context("there is no directory for the names of secrets")?;
    Ok(if dry_run { Vec::new() } else { store.names().await? })
}

/// Returns the user's own servers.json, in which alone `{keyring:NAME}` counts. Empty if the home directory is not known.
fn own_config(env: &Env) -> PathBuf {
    own_config_file(env).map(|file| absolute(&file)).unwrap_or_default()
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

/// Asks whether a project's servers are wanted, because a project's files may be anybody's. They stay where they are if not,
/// and without `--write-client`: an entry in the project limits them to the project. Asks nothing if they are neither written
/// nor started.
///
/// # Errors
///
/// Fails if the question is not answered.
async fn confirm_project(discovery: &mut Discovery, mode: &ImportMode<'_>) -> io::Result<()> {
    let is_of_project = |place: &Place| place.project.is_some() && !place.servers.is_empty();
    let ImportMode { args, answers, .. } = mode;
    let places =
        discovery.places().filter(|(_, place)| is_of_project(place)).flat_map(|(_, place)| &place.servers);
    let program = |server: &FoundServer| {
        format!("  {}: {}", text::name(&server.name), plan::report::program(&server.translated.entry))
    };
    let programs: Vec<_> = places.map(program).collect();
    if programs.is_empty() {
        return Ok(());
    }
    let reason = if !(args.write_client || args.measure && args.dry_run) {
        "--write-client imports it too, because an entry in the project limits it to the project"
    } else if args.dry_run && !args.measure {
        return Ok(());
    } else {
        let programs = programs.join("\n");
        let question = format!("The servers of the project run or contact:\n{programs}\nImport them?");
        if answers.confirm(&question).await? {
            return Ok(());
        }
        "it is not wanted"
    };
    let places = places_mut(&mut discovery.files).filter(|place| is_of_project(place));
    places.for_each(|place| place.leave(|_| true, reason));
    Ok(())
}
