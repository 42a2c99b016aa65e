//! Writes exact versions of packages to the config, for `check --pin`, `update` and the end of an import.
//!
//! # Theory of operation
//!
//! `npx` and `uvx` start the newest version of a package, or one that they once installed. A [`VersionChange`] is an
//! exact version for one server, and what the arguments of its entry are then. [`write`](fn@write) first starts the
//! servers in these versions. So nothing is written that does not work, and the launcher has installed the version and
//! has shown how it is started without it (`process::launch::direct`). Then it edits the entries in the config files.

use super::config_files::load_config;
use super::servers_file::read_files;
use super::started::start_servers;
use base::redact;
use base::text::{name, path, visible};
use config::env::Env;
use config::{Config, Endpoint, GroupName, Launcher, Mode, Overrides, ServerConfig, Share, StdioConfig};
use import::ask::Answers;
use import::edit::ObjectEdit;
use instance::InstanceOptions;
use instance::embedded::EmbeddedInstance;
use process::launch::direct::{NotPinned, pinned_package, running_version, with_version};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use terminal::outcome::{CommandError, EXIT_FAILURE};
use terminal::{VisibleText, counted};
use upstream::{State, Upstream};

/// An exact version for the package of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct VersionChange {
    /// The name of the server.
    pub(super) server: String,
    /// The package, as it is named with this version.
    pub(super) package: String,
    /// The arguments of the server's entry with the version.
    pub(super) args: Vec<String>,
    /// The index of the argument that has it.
    #[serde(skip)]
    argument: usize,
    /// The argument as it is now.
    #[serde(skip)]
    before: String,
    /// Whether the entry leaves out the launcher from then on, because it names a version for the first time.
    #[serde(skip)]
    is_first: bool,
}

impl VersionChange {
    /// Creates the change of a server's package to a version. `None` if the server is not started by a launcher.
    pub(super) fn new(server: &str, stdio: &StdioConfig, version: &str) -> Option<Self> {
        let args = with_version(stdio, version)?;
        let argument = args.iter().zip(&stdio.args).position(|(new, old)| new != old)?;
        let named = args.get(argument)?;
        let package = named
            .split_once('=')
            .filter(|_| named.starts_with("--"))
            .map_or(&**named, |(_, package)| package);
        let package = package.to_owned();
        let before = stdio.args.get(argument)?.clone();
        let is_first = matches!(pinned_package(stdio), Err(NotPinned::NoVersion(..)));
        Some(Self { server: server.to_owned(), package, args, argument, before, is_first })
    }

    /// Finds the version that a server runs in, if its entry names none. `None` if there is nothing to pin.
    ///
    /// # Errors
    ///
    /// The reason why the version is not known. Completes "because".
    pub(super) async fn of_running(group: &Upstream) -> Option<Result<Self, String>> {
        let snapshot = group.snapshot();
        let stdio = stdio_of(snapshot.server.as_deref()?)?;
        let Err(NotPinned::NoVersion(launcher, package)) = pinned_package(stdio) else { return None };
        let pid = snapshot.process()?.pid;
        Some(match running_version(pid, launcher, package).await {
            Ok(version) => Self::new(group.name.as_str(), stdio, &version)
                .ok_or_else(|| format!("{version} cannot be written in its place")),
            Err(reason) => Err(reason),
        })
    }

    /// Returns the edit of the server's entry. `entry` is the one in the file.
    ///
    /// # Errors
    ///
    /// The entry writes the package in another way, such as with a variable.
    fn edit(&self, mut keys: Vec<String>, entry: &Map<String, Value>) -> Result<ObjectEdit, String> {
        let mut args = entry.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        let Some(argument) = args.get_mut(self.argument).filter(|written| **written == *self.before) else {
            return Err(format!(
                "its entry does not have {} in `args`; write {} there",
                self.before, self.package
            ));
        };
        *argument = json!(self.args[self.argument]);
        keys.push(self.server.clone());
        let launcher = self.is_first.then(|| ("launcher".to_owned(), json!("direct")));
        let args = ("args".to_owned(), Value::Array(args));
        Ok(ObjectEdit::set(keys, [args].into_iter().chain(launcher).collect()))
    }
}

/// Returns how a server's process is started; `None` if it has none.
pub(super) fn stdio_of(server: &ServerConfig) -> Option<&StdioConfig> {
    match &server.endpoint {
        Endpoint::Stdio(stdio) => Some(stdio),
        Endpoint::Http(_) => None,
    }
}

/// Sets what a server is started with that is only tried: a process of its own, at once. `args`: its arguments, if they
/// are others than those of its entry.
pub(super) fn make_trial(server: &mut ServerConfig, args: Option<Vec<String>>, launcher: Launcher) {
    (server.common.mode, server.common.share, server.common.launcher) =
        (Mode::Eager, Share::Client, launcher);
    if let (Some(args), Endpoint::Stdio(stdio)) = (args, &mut server.endpoint) {
        stdio.args = args;
    }
}

/// Returns the text of an error after which a server is left as it is.
pub(super) fn failure(group: &Upstream) -> Option<String> {
    let snapshot = group.snapshot();
    match snapshot.state {
        State::Connected => None,
        _ => Some(
            snapshot
                .last_failure()
                .map_or_else(|| "it was not ready in time".to_owned(), ToString::to_string),
        ),
    }
}

/// Shows the changes, asks, and writes them. Returns whether each could be written; true if the answer is no.
///
/// # Errors
///
/// Fails if stdout or the terminal cannot be used, the config cannot be read, or the servers cannot be started.
pub(super) async fn offer(
    changes: Vec<VersionChange>,
    answers: Answers,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<bool> {
    if changes.is_empty() {
        return Ok(true);
    }
    let mut text = VisibleText::default();
    for change in &changes {
        text.line(format_args!(
            "{}: {} → {}",
            name(&change.server),
            visible(&redact::text(&change.before)),
            visible(&redact::text(&change.args[change.argument]))
        ));
    }
    terminal::print(&text)?;
    let question = format!(
        "Write {} and `\"launcher\": \"direct\"` to the config? The servers are started once more.",
        if changes.len() == 1 { "this version" } else { "these versions" }
    );
    if answers == Answers::Nobody {
        terminal::line("Nothing was written, because there is no terminal to ask; --yes writes them.")?;
        return Ok(true);
    }
    match answers.confirm(&question).await? {
        true => write(changes, options, env).await,
        false => Ok(true),
    }
}

/// Starts the servers in these versions, and writes those that work. Returns whether each could be written.
///
/// # Errors
///
/// Fails if stdout cannot be written, the config cannot be read, or the servers cannot be started.
pub(super) async fn write(
    changes: Vec<VersionChange>,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<bool> {
    let mut config = load_config(Overrides::default(), options, env)?;
    config.servers.retain_mut(|(name, server)| {
        let change = changes.iter().find(|change| change.server == name.as_str());
        if let (Some(change), Ok(server)) = (change, server) {
            let launcher = if change.is_first { Launcher::Direct } else { server.common.launcher };
            make_trial(Arc::make_mut(server), Some(change.args.clone()), launcher);
        }
        change.is_some()
    });
    let Some(instance) = start_trial(config, options, env).await? else { return Ok(false) };
    let group_of = |change: &VersionChange| instance.groups.get(&GroupName::new(&change.server));
    let failures: Vec<_> = changes.iter().map(|change| failure(&group_of(change)?)).collect();
    instance.close().await;
    let mut written = 0;
    for (change, failure) in changes.iter().zip(failures) {
        match failure.map_or_else(|| write_entry(change, options, env), |error| Err(not_written(&error))) {
            Ok(()) => written += 1,
            Err(error) => drop(error.print(&change.server)),
        }
    }
    if written > 0 {
        let files = options.files.iter().map(|file| path(file)).collect::<Vec<_>>().join(", ");
        terminal::line(format_args!("{} written to {files}", counted(written, "version")))?;
    }
    Ok(written == changes.len())
}

/// Returns the error of a version that was tried and fails.
fn not_written(error: &str) -> CommandError {
    CommandError::new(EXIT_FAILURE, format!("left as it is, because it fails: {error}"))
}

/// Starts servers as `start_servers` does. What is learned of their starts is kept, and what is seen of their tools is
/// not: nothing was agreed to yet.
async fn start_trial(
    config: Config,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<Option<EmbeddedInstance>> {
    let options = InstanceOptions { pins_dir: None, ..options.clone() };
    start_servers(config, &options, env, env.clone()).await
}

/// Edits the entry of a server in the last config file that has it.
///
/// # Errors
///
/// The file cannot be read or written, or the entry writes the package in another way.
fn write_entry(change: &VersionChange, options: &InstanceOptions, env: &Env) -> Result<(), CommandError> {
    let files = read_files(options, env)?;
    let found = files.iter().rev().find_map(|file| Some((file, file.entry(&change.server)?)));
    let failed = |why: String| CommandError::new(EXIT_FAILURE, why);
    let (file, entry) = found.ok_or_else(|| failed("its entry is gone".to_owned()))?;
    file.write(&change.edit(file.keys.clone(), entry).map_err(failed)?)
}

/// After an import: offers to pin the servers that `npx` and `uvx` start in no exact version.
///
/// # Errors
///
/// As [`offer`].
pub async fn offer_after_import(is_asked: bool, options: &InstanceOptions, env: &Env) -> anyhow::Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let mut config = load_config(Overrides::default(), options, env)?;
    config.servers.retain(|(_, server)| {
        let stdio = server.as_ref().ok().and_then(|server| stdio_of(server));
        stdio.is_some_and(|stdio| matches!(pinned_package(stdio), Err(NotPinned::NoVersion(..))))
    });
    if config.servers.is_empty() {
        return Ok(());
    }
    let is_one = config.servers.len() == 1;
    let servers =
        format!("{} {}", counted(config.servers.len(), "server"), if is_one { "runs" } else { "run" });
    let answers = Answers::new(false);
    if !is_asked || answers == Answers::Nobody {
        terminal::line(format_args!(
            "{servers} beside a launcher, `npx` or `uvx`. `dynamic-mcp check --pin{}` saves its memory and time.",
            options.config_args(env)
        ))?;
        return Ok(());
    }
    let question = format!(
        "{servers} beside a launcher, `npx` or `uvx`, which takes memory and time. Start them now to leave it out?"
    );
    // Whoever closes the terminal has imported all the same.
    if !answers.confirm(&question).await.unwrap_or_default() {
        return Ok(());
    }
    let changes = installed(config, options, env).await?;
    offer(changes, Answers::Yes, options, env).await?;
    Ok(())
}

/// Starts servers, and returns the versions in which they run. Those that fail are named on stderr.
async fn installed(
    mut config: Config,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<Vec<VersionChange>> {
    for server in config.servers.iter_mut().filter_map(|(_, server)| server.as_mut().ok()) {
        make_trial(Arc::make_mut(server), None, Launcher::Keep);
    }
    let Some(instance) = start_trial(config, options, env).await? else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    for group in instance.groups.all() {
        let left = |why: &str| {
            terminal::message(format_args!("{}: left as it is, because {why}", name(group.name.as_str())));
        };
        match (failure(&group), VersionChange::of_running(&group).await) {
            (Some(error), _) => left(&format!("it fails: {error}")),
            (None, Some(Err(reason))) => left(&reason),
            (None, Some(Ok(change))) => changes.push(change),
            (None, None) => {}
        }
    }
    instance.close().await;
    Ok(changes)
}
