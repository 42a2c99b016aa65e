//! `dynamic-mcp update [SERVER]…`: tries the newest version of a package beside the one that the config names.

use super::approve::describe;
use super::config_files::{load_config, refuse_unknown};
use super::started::start_servers;
use super::versions::{VersionChange, failure, make_trial, stdio_of, write};
use base::text::{joined, name, quoted, shorten};
use clap::Args;
use config::env::Env;
use config::{GroupName, Launcher, Overrides, ServerConfig};
use import::ask::Answers;
use instance::InstanceOptions;
use instance::embedded::EmbeddedInstance;
use process::launch::direct::{PinnedPackage, pinned_package, running_version, with_version};
use std::process::ExitCode;
use std::sync::Arc;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE};
use terminal::{VisibleText, counted};
use upstream::Upstream;
use upstream::catalog::Catalog;
use upstream::pins::compare::{VersionDifferences, compare};
use wire::Raw;

/// How many tools that are gone are named, and how many that differ.
const MAX_NAMED: usize = 20;
/// The longest name of a tool that is shown, in characters.
const MAX_NAME: usize = 100;

/// Try the newest version of packages, show which tools change, and write it to the config
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  dynamic-mcp update\n  dynamic-mcp update files")]
pub struct UpdateArgs {
    /// The names of servers in the config; by default those whose package has an exact version
    #[arg(value_name = "SERVER")]
    pub names: Vec<String>,
    /// Answer every question with yes
    #[arg(long, short)]
    pub yes: bool,
}

/// A server whose package has an exact version.
struct Pinned {
    server: GroupName,
    config: Arc<ServerConfig>,
    package: PinnedPackage,
}

impl Pinned {
    /// The name under which the newest version runs beside the one that the config names.
    fn trial_name(&self) -> GroupName {
        GroupName::new(&format!("{} (newest)", self.server))
    }
}

/// Starts each server in its version and in the newest one, prints how their tools differ, asks, and writes the new
/// version.
///
/// # Errors
///
/// Fails if the config has no such server, the servers cannot be started, or stdout or the terminal cannot be used. A
/// server whose newest version fails is named on stderr, and gives `EXIT_FAILURE`.
pub async fn update(args: &UpdateArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let mut config = load_config(Overrides::default(), options, env)?;
    refuse_unknown(&args.names, &config)?;
    let pinned = pinned(&args.names, &config.servers)?;
    config.servers.clear();
    for one in &pinned {
        let newest = stdio_of(&one.config).and_then(|stdio| with_version(stdio, "latest"));
        for (name, args) in [(one.server.clone(), None), (one.trial_name(), newest)] {
            let mut server = (*one.config).clone();
            make_trial(&mut server, args, Launcher::Keep);
            config.servers.push((name, Ok(Arc::new(server))));
        }
    }
    // Nothing is agreed to yet, so nothing of it is kept.
    let trial = InstanceOptions { pins_dir: None, cache_dir: None, ..options.clone() };
    let Some(instance) = start_servers(config, &trial, env, env.clone()).await? else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    let found = compare_all(&pinned, &instance).await;
    instance.close().await;
    let (mut changes, mut all_work) = (Vec::new(), true);
    let answers = Answers::new(args.yes);
    for (one, found) in pinned.iter().zip(found?) {
        match found {
            Ok(None) => {}
            Ok(Some((change, text))) => {
                terminal::print(&text)?;
                let question = format!("Write {} to the config?", change.package);
                match answers {
                    Answers::Nobody => terminal::line("Nothing was written; --yes writes it.")?,
                    _ if answers.confirm(&question).await? => changes.push(change),
                    _ => {}
                }
            }
            Err(error) => {
                all_work = false;
                terminal::message(format_args!("{}: left as it is: {error}", name(one.server.as_str())));
            }
        }
    }
    if !changes.is_empty() {
        all_work &= write(changes, options, env).await?;
    }
    Ok(if all_work { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
}

/// Returns the servers of these names whose package has an exact version; all such servers without names.
///
/// # Errors
///
/// A named server has none, or no server has one.
fn pinned(
    names: &[String],
    servers: &[(GroupName, Result<Arc<ServerConfig>, config::ConfigError>)],
) -> Result<Vec<Pinned>, CommandError> {
    let mut found = Vec::new();
    for (server, config) in servers {
        let is_named = names.iter().any(|name| name == server.as_str());
        if !names.is_empty() && !is_named {
            continue;
        }
        let config = match config {
            Ok(config) => config.clone(),
            Err(error) if is_named => return Err(CommandError::new(EXIT_CONFIG, error.to_string())),
            Err(_) => continue,
        };
        let reason = match stdio_of(&config).map(pinned_package) {
            Some(Ok(package)) => {
                found.push(Pinned { server: server.clone(), config, package });
                continue;
            }
            Some(Err(reason)) => reason.to_string(),
            None => "it is a remote server".to_owned(),
        };
        if is_named {
            let message = format!("{} cannot be updated, because {reason}", name(server.as_str()));
            return Err(CommandError::new(EXIT_USAGE, message));
        }
    }
    match found.is_empty() {
        true => Err(CommandError::new(
            EXIT_USAGE,
            "no server names an exact version of a package; `dynamic-mcp check --pin` writes the installed ones",
        )),
        false => Ok(found),
    }
}

/// What is found for one server: a newer version and how its tools differ, nothing, or why that is not known.
type Found = Result<Option<(VersionChange, VisibleText)>, String>;

/// Compares the versions of each server. Prints which are the newest already.
///
/// # Errors
///
/// Fails if stdout cannot be written.
async fn compare_all(pinned: &[Pinned], instance: &EmbeddedInstance) -> std::io::Result<Vec<Found>> {
    let mut all = Vec::new();
    for one in pinned {
        let groups = (instance.groups.get(&one.server), instance.groups.get(&one.trial_name()));
        let found = match groups {
            (Some(earlier), Some(newest)) => compare_one(one, &earlier, &newest).await,
            _ => Err("it was not started".to_owned()),
        };
        if let Ok(None) = found {
            let server = name(one.server.as_str());
            terminal::line(format_args!("{server}: {} is the newest version", one.package.version))?;
        }
        all.push(found);
    }
    Ok(all)
}

async fn compare_one(pinned: &Pinned, earlier: &Upstream, newest: &Upstream) -> Found {
    if let Some(error) = failure(newest) {
        return Err(format!("the newest version fails: {error}"));
    }
    let PinnedPackage { launcher, name: package, .. } = pinned.package.clone();
    let pid = newest.snapshot().process().map(|process| process.pid);
    let version = running_version(pid.ok_or("it has no process")?, launcher, package).await?;
    if version == pinned.package.version {
        return Ok(None);
    }
    let change = stdio_of(&pinned.config)
        .and_then(|stdio| VersionChange::new(pinned.server.as_str(), stdio, &version))
        .ok_or_else(|| format!("{version} cannot be written in its place"))?;
    let mut text = VisibleText::default();
    let server = name(pinned.server.as_str());
    text.line(format_args!("{server}: {} → {version}", pinned.package.version));
    match failure(earlier) {
        Some(error) => {
            text.line(format_args!("  the version of the config fails, so nothing is compared: {error}"));
        }
        None => show_differences(&mut text, &differences(earlier, newest)),
    }
    Ok(Some((change, text)))
}

fn differences(earlier: &Upstream, newest: &Upstream) -> VersionDifferences {
    let (earlier, newest) = (earlier.snapshot(), newest.snapshot());
    let (Some(earlier), Some(newest)) = (&earlier.catalog, &newest.catalog) else {
        return VersionDifferences::default();
    };
    compare(tools(earlier), tools(newest))
}

/// Returns the names and definitions of the tools.
fn tools(catalog: &Catalog) -> impl Iterator<Item = (&str, &Raw)> {
    catalog.definitions().into_iter().flatten().map(|(tool, definition)| (tool.name.as_str(), definition))
}

/// Says which tools differ, with hidden characters made visible.
fn show_differences(text: &mut VisibleText, differences: &VersionDifferences) {
    let VersionDifferences { changed, gone } = differences;
    if changed.is_empty() && gone.is_empty() {
        return text.line("  no tool differs");
    }
    for tool in changed.iter().take(MAX_NAMED) {
        describe(text, tool);
    }
    if changed.len() > MAX_NAMED {
        text.line(format_args!("{} more differ", counted(changed.len() - MAX_NAMED, "tool")));
    }
    if !gone.is_empty() {
        let named = joined(gone.iter().take(MAX_NAMED).map(|tool| quoted(&shorten(tool, MAX_NAME))));
        text.line(format_args!("gone ({}): {named}", gone.len()));
    }
}
