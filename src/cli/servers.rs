//! `dynamic-mcp add`, `remove`, `enable` and `disable`: edits of the servers in the config file.
//!
//! The file keeps its comments and its formatting. A server is edited in the last of the config files that has it, which
//! is the one that counts. Running instances notice the change by themselves.

use super::bundles::installed::remove_bundle;
use super::config_files::{load_all_servers, no_such_server};
use super::servers_file::{ServersFile, read_files};
use base::text;
use clap::Args;
use config::env::Env;
use config::stateful::keeps_state;
use config::{Endpoint, Overrides};
use import::edit::ObjectEdit;
use instance::InstanceOptions;
use process::launch::prepare;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_USAGE, report};

/// How long the login shell may take to print its PATH.
const SHELL_TIME: Duration = Duration::from_secs(5);

/// Add a server to the config
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dynamic-mcp add time -- uvx mcp-server-time\n  dynamic-mcp add notes.mcpb --set folder=~/Notes\n  dynamic-mcp add docs --url https://docs.example/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'"
)]
pub struct AddArgs {
    /// The name of the server, or the file of a bundle (.mcpb), which has its name and its program
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// The program to start, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "server_name", "set"])]
    pub command: Vec<String>,
    /// The address of a remote server
    #[arg(long)]
    pub url: Option<String>,
    /// An environment variable for the program; may be given several times
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    pub env: Vec<String>,
    /// An HTTP header for a remote server; may be given several times
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    pub header: Vec<String>,
    /// What the server is for, in one line
    #[arg(long)]
    pub description: Option<String>,
    /// The name of the server of a bundle, in place of the bundle's own
    #[arg(long = "name", value_name = "NAME", conflicts_with = "url")]
    pub server_name: Option<String>,
    /// A value for a setting of a bundle; may be given several times, several paths of one setting are separated as in PATH
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "url")]
    pub set: Vec<String>,
}

/// The servers to edit
#[derive(Args, Debug)]
pub struct ServerNames {
    /// The names of servers in the config
    #[arg(required = true, value_name = "SERVER")]
    pub names: Vec<String>,
}

/// What is done to servers that the config has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEdit {
    /// Their entries are removed.
    Remove,
    /// They can be used again.
    Enable,
    /// They are kept, and not used.
    Disable,
}

/// Adds a server.
///
/// # Errors
///
/// Fails if stdout cannot be written. A server that cannot be added is printed on stderr, and gives an exit code.
pub async fn add(args: &AddArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let outcome = match add_server(args, options, env) {
        Ok(file) => Ok(added(args.name.trim(), &file, options, env).await),
        Err(error) => Err(error),
    };
    report(&args.name, outcome)
}

/// Removes, enables or disables servers, one after the other. Goes on after a failure.
///
/// # Errors
///
/// Fails if stdout cannot be written. A server that cannot be changed is printed on stderr, and the last such one gives
/// the exit code.
pub fn change(
    change: ServerEdit,
    args: &ServerNames,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    let mut exit_code = ExitCode::SUCCESS;
    for name in &args.names {
        let outcome = change_server(change, name, options, env);
        let has_failed = outcome.is_err();
        let code = report(name, outcome)?;
        if has_failed {
            exit_code = code;
        }
    }
    Ok(exit_code)
}

impl AddArgs {
    /// Returns whether neither a program nor an address is named.
    pub(super) fn is_incomplete(&self) -> bool {
        self.command.is_empty() && self.url.is_none()
    }
}

fn add_server(args: &AddArgs, options: &InstanceOptions, env: &Env) -> Result<ServersFile, CommandError> {
    if args.is_incomplete() {
        let message = "write `-- <COMMAND>` or --url, or the file of a bundle (.mcpb) in place of the name";
        return Err(CommandError::new(EXIT_USAGE, message));
    }
    let name = args.name.trim();
    if name.is_empty() {
        return Err(CommandError::new(EXIT_USAGE, "the name is empty"));
    }
    let mut files = read_files(options, env)?;
    let (shown, config_args) = (text::shell_word(name).unwrap_or_default(), options.config_args(env));
    if let Some(file) = files.iter().find(|file| file.entry(name).is_some()) {
        let message = format!(
            "{} has a server of this name already; `dynamic-mcp remove {shown}{config_args}` removes it",
            text::path(&file.path)
        );
        return Err(CommandError::new(EXIT_USAGE, message));
    }
    let entry = new_entry(args)?;
    let Some(file) = files.pop() else {
        return Err(CommandError::new(EXIT_CONFIG, "there is no config file because HOME is not set"));
    };
    let set = vec![(name.to_owned(), Value::Object(entry))];
    file.write(vec![ObjectEdit::set(file.keys.clone(), set)])?;
    Ok(file)
}

/// Says what keeps a new server from being started, such as a program that is not installed. Returns where the server was
/// added, and how to start it.
pub(super) async fn added(name: &str, file: &ServersFile, options: &InstanceOptions, env: &Env) -> String {
    let config = load_all_servers(Overrides::default(), options, env);
    let server = config.servers.iter().find(|(known, _)| known.as_str() == name);
    let lack = match server.map(|(_, server)| server.as_ref().map(|server| &server.endpoint)) {
        Some(Err(error)) => Some(error.to_string()),
        Some(Ok(Endpoint::Stdio(stdio))) => {
            prepare(stdio, env, SHELL_TIME).await.err().map(|error| error.to_string())
        }
        Some(Ok(Endpoint::Http(_))) | None => None,
    };
    if let Some(lack) = lack {
        terminal::message(format_args!("it does not work yet: {lack}"));
    }
    let (shown, config) = (text::shell_word(name).unwrap_or_default(), options.config_args(env));
    format!("added to {}; `dynamic-mcp check {shown}{config}` starts it", text::path(&file.path))
}

/// Returns the entry of a server that is added.
///
/// # Errors
///
/// A variable or a header is not written as `--env` or `--header` expects.
pub(super) fn new_entry(args: &AddArgs) -> Result<Map<String, Value>, CommandError> {
    let mut entry = Map::new();
    if let [program, arguments @ ..] = &args.command[..] {
        entry.insert("command".to_owned(), json!(program));
        if !arguments.is_empty() {
            entry.insert("args".to_owned(), json!(arguments));
        }
        if keeps_state(args.command.iter().map(String::as_str)) {
            entry.insert("stateful".to_owned(), json!(true));
        }
    }
    if let Some(url) = &args.url {
        entry.insert("url".to_owned(), json!(url));
    }
    for (key, pairs, separator, expected) in [
        ("env", &args.env, '=', "--env NAME=VALUE"),
        ("headers", &args.header, ':', "--header 'NAME: VALUE'"),
    ] {
        let pairs: Option<Map<String, Value>> = pairs
            .iter()
            .map(|pair| pair.split_once(separator).filter(|(name, _)| !name.trim().is_empty()))
            .map(|pair| pair.map(|(name, value)| (name.trim().to_owned(), json!(value.trim_start()))))
            .collect();
        match pairs {
            None => return Err(CommandError::new(EXIT_USAGE, format!("write {expected}"))),
            Some(pairs) if pairs.is_empty() => {}
            Some(pairs) => drop(entry.insert(key.to_owned(), Value::Object(pairs))),
        }
    }
    if let Some(description) = &args.description {
        entry.insert("description".to_owned(), json!(description));
    }
    Ok(entry)
}

/// Removes, enables or disables a server.
fn change_server(
    change: ServerEdit,
    name: &str,
    options: &InstanceOptions,
    env: &Env,
) -> Result<String, CommandError> {
    let files = read_files(options, env)?;
    let found = files.iter().rev().find_map(|file| Some((file, file.entry(name)?)));
    let enables = match change {
        ServerEdit::Remove => {
            let removed = remove_server(name, &files)?;
            found.map(|(file, _)| remove_bundle(name, &file.path, options, env)).transpose()?;
            return Ok(removed);
        }
        ServerEdit::Enable => true,
        ServerEdit::Disable => false,
    };
    let Some((file, entry)) = found else { return Err(not_in(&files)) };
    let (path, done) = (text::path(&file.path), if enables { "enabled" } else { "disabled" });
    if is_disabled(entry) != enables {
        return Ok(format!("is {done} already in {path}"));
    }
    let (remove, set) = match enables {
        true => (vec!["enabled".to_owned(), "disabled".to_owned()], Vec::new()),
        false => (vec!["disabled".to_owned()], vec![("enabled".to_owned(), json!(false))]),
    };
    let keys = file.keys.iter().cloned().chain([name.to_owned()]).collect();
    file.write(vec![ObjectEdit { keys, remove, set }])?;
    Ok(format!("{done} in {path}"))
}

/// Removes the last entry of a server, and with its only entry what the profiles say of it.
fn remove_server(name: &str, files: &[ServersFile]) -> Result<String, CommandError> {
    let with_entry: Vec<_> = files.iter().filter(|file| file.entry(name).is_some()).collect();
    let (mut from, mut changed, mut removed) = (None, Vec::new(), Vec::new());
    for file in files {
        let mut edits = Vec::new();
        if with_entry.last().is_some_and(|last| last.path == file.path) {
            from = Some(text::path(&file.path));
            edits.push(ObjectEdit {
                keys: file.keys.clone(),
                remove: vec![name.to_owned()],
                set: Vec::new(),
            });
        }
        if with_entry.len() < 2 {
            let removal = file.profiles_without(name);
            edits.extend(removal.edits);
            changed.extend(removal.changed);
            removed.extend(removal.removed);
        }
        if !edits.is_empty() {
            file.write(edits)?;
        }
    }
    let names = |profiles: &[String]| text::joined(profiles.iter().map(|profile| text::name(profile)));
    let mut done = Vec::from_iter(from.map(|from| format!("removed from {from}")));
    if !changed.is_empty() {
        done.push(format!("taken out of profiles: {}", names(&changed)));
    }
    if !removed.is_empty() {
        done.push(format!(
            "removed with it, because they chose no other server: the profiles {}; a client whose entry has --profile with \
             one of them now uses no server",
            names(&removed)
        ));
    }
    if done.is_empty() { Err(not_in(files)) } else { Ok(done.join("; ")) }
}

fn not_in(files: &[ServersFile]) -> CommandError {
    let known = files.iter().filter_map(ServersFile::servers).flat_map(Map::keys);
    no_such_server(known.map(String::as_str))
}

fn is_disabled(entry: &Map<String, Value>) -> bool {
    entry.get("enabled") == Some(&json!(false)) || entry.get("disabled") == Some(&json!(true))
}

/// Returns the servers that the config files have, and whether each is disabled. Empty if a file cannot be read.
pub(super) fn servers_in_files(options: &InstanceOptions, env: &Env) -> BTreeMap<String, bool> {
    let files = read_files(options, env).unwrap_or_default();
    let entries = files.iter().filter_map(ServersFile::servers).flatten();
    entries.filter_map(|(name, entry)| Some((name.clone(), is_disabled(entry.as_object()?)))).collect()
}
