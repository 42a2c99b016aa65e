//! What may stand at the cursor.

use super::typed_line::{CursorPlace, TypedLine, is_list};
use crate::cli::config_files::load_all_servers;
use crate::cli::{servers, usage};
use base::blocking;
use base::text::{one_line, shorten, visible};
use clap::Arg;
use clap::builder::StyledStr;
use config::dirs;
use config::env::Env;
use config::{Config, Endpoint, GroupName, Overrides, ServerConfig};
use instance::InstanceOptions;
use instance::stores::secret_store;
use process::launch::working_dir;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use upstream::cache::{Cache, CacheKey};
use upstream::pins::group::remembered_tools;

/// How long the files may take to be read. Some are on a slow disk, or are FIFOs without a writer.
const FILE_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest description, in characters.
const MAX_ABOUT: usize = 70;
/// The values of `--log-level`.
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A word that may stand at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompletedWord {
    /// The word.
    pub(super) word: String,
    /// What it is about, on one line; may be empty.
    pub(super) about: String,
}

impl CompletedWord {
    fn new(word: &str, about: &str) -> Self {
        Self { word: word.to_owned(), about: shorten(&one_line(about), MAX_ABOUT) }
    }

    /// Creates a word that clap's definition of the command line describes.
    fn with_help(word: &str, help: Option<&StyledStr>) -> Self {
        Self::new(word, &help.map(ToString::to_string).unwrap_or_default())
    }
}

/// Returns the candidates that begin like the word at the cursor.
pub(super) async fn of(line: &TypedLine<'_>, env: &Env) -> Vec<CompletedWord> {
    let mut candidates = match line.place {
        CursorPlace::Command => commands(line),
        CursorPlace::Option => options(line),
        CursorPlace::Value(argument) => {
            let values = values(argument, line, env).await;
            let is_new = |value: &CompletedWord| !is_list(argument) || !line.arguments.contains(&value.word);
            values.into_iter().filter(is_new).collect()
        }
        CursorPlace::Unknown => Vec::new(),
    };
    // A line break would make two candidates of one.
    candidates.retain(|one| one.word.starts_with(&line.typed) && visible(&one.word) == one.word);
    for candidate in &mut candidates {
        candidate.word.insert_str(0, &line.prefix);
    }
    candidates
}

fn commands(line: &TypedLine<'_>) -> Vec<CompletedWord> {
    let commands = line.command.get_subcommands().filter(|command| !command.is_hide_set());
    commands.map(|command| CompletedWord::with_help(command.get_name(), command.get_about())).collect()
}

fn options(line: &TypedLine<'_>) -> Vec<CompletedWord> {
    let options = line.command.get_arguments().filter(|option| !option.is_hide_set());
    let candidate = |option: &Arg| {
        Some(CompletedWord::with_help(&format!("--{}", option.get_long()?), option.get_help()))
    };
    options.filter_map(candidate).collect()
}

/// Returns the values that an argument or option may have. The shell completes the names of files.
async fn values(argument: &Arg, line: &TypedLine<'_>, env: &Env) -> Vec<CompletedWord> {
    let plain = |words: Vec<String>| words.iter().map(|word| CompletedWord::new(word, "")).collect();
    let files = ConfigFiles { line, env };
    match (line.command.get_name(), argument.get_id().as_str()) {
        (_, "log_level") => LOG_LEVELS.map(|level| CompletedWord::new(level, "")).into(),
        (_, "profile") => plain(files.load().await.profiles),
        (_, "tool") => tools(&files, env).await,
        ("login" | "logout", "name") => files.servers(|endpoint| matches!(endpoint, Endpoint::Http(_))).await,
        ("check", "names") | (_, "group") => files.servers(|_| true).await,
        ("remove", "names") => files.servers_in_files(|_| true).await,
        ("enable", "names") => files.servers_in_files(|is_disabled| is_disabled).await,
        ("disable", "names") => files.servers_in_files(|is_disabled| !is_disabled).await,
        ("set" | "remove", "name") => match secret_store(env) {
            Some(store) => plain(store.names().await.unwrap_or_default()),
            None => Vec::new(),
        },
        _ => {
            let values = argument.get_possible_values();
            let values = values.iter().filter(|value| !value.is_hide_set());
            values.map(|value| CompletedWord::with_help(value.get_name(), value.get_help())).collect()
        }
    }
}

/// The config files that the words name, or the default one.
struct ConfigFiles<'l> {
    line: &'l TypedLine<'l>,
    env: &'l Env,
}

impl ConfigFiles<'_> {
    /// Returns the options that say which servers are meant.
    fn options(&self) -> Option<InstanceOptions> {
        let options = ["config", "profile"]
            .into_iter()
            .flat_map(|id| self.line.values(id).map(move |value| OsString::from(format!("--{id}={value}"))));
        let (cli, _) = usage::parse(std::iter::once("dynamic-mcp".into()).chain(options)).ok()?;
        Some(cli.instance_options(self.env))
    }

    /// Returns the config; empty if it takes too long to read.
    async fn load(&self) -> Config {
        let (Some(options), env) = (self.options(), self.env.clone()) else { return Config::default() };
        let read = move || {
            let overrides = Overrides { profile: options.overrides.profile.clone(), ..Overrides::default() };
            load_all_servers(overrides, &options, &env)
        };
        blocking::run(FILE_TIMEOUT, read).await.unwrap_or_default()
    }

    /// Returns the servers that are in use and whose endpoint `is_meant`, and those whose entry is invalid.
    async fn servers(&self, is_meant: impl Fn(&Endpoint) -> bool) -> Vec<CompletedWord> {
        let config = self.load().await;
        let servers = config.servers.iter().map(|(name, server)| (name, server.as_ref().ok()));
        let meant = servers.filter(|(_, server)| server.is_none_or(|server| is_meant(&server.endpoint)));
        let words = meant.map(|(name, server)| {
            let about = server.and_then(|server| server.description.as_deref());
            CompletedWord::new(name.as_str(), about.unwrap_or_default())
        });
        words.collect()
    }

    /// Returns the servers in the files for which `is_meant` returns true. Its argument says whether the server is
    /// disabled.
    async fn servers_in_files(&self, is_meant: impl Fn(bool) -> bool) -> Vec<CompletedWord> {
        let (Some(options), env) = (self.options(), self.env.clone()) else { return Vec::new() };
        let read = move || servers::servers_in_files(&options, &env);
        let servers = blocking::run(FILE_TIMEOUT, read).await.unwrap_or_default();
        let servers = servers.iter().filter(|(_, is_disabled)| is_meant(**is_disabled));
        servers.map(|(name, _)| CompletedWord::new(name, "")).collect()
    }
}

/// Returns the tools of the group before the cursor: those in the cache, else those that are remembered for their
/// approval.
async fn tools(files: &ConfigFiles<'_>, env: &Env) -> Vec<CompletedWord> {
    let Some(group) = files.line.arguments.first().map(|group| GroupName::new(group)) else {
        return Vec::new();
    };
    let mut config = files.load().await;
    let found = config.servers.iter().position(|(name, _)| *name == group);
    let Some((_, Ok(server))) = found.map(|found| config.servers.swap_remove(found)) else {
        return Vec::new();
    };
    let cwd = match &server.endpoint {
        Endpoint::Stdio(stdio) => working_dir(stdio, env),
        Endpoint::Http(_) => PathBuf::new(),
    };
    let (cache, pins) = (dirs::cache_dir(files.env), dirs::pins_dir(files.env));
    let read = move || known_tools(&group, &server, cache, &CacheKey::new(&server, &cwd, b""), pins);
    blocking::run(FILE_TIMEOUT, read).await.unwrap_or_default()
}

/// Reads what earlier sessions left about the tools of a server. Tools that may not be used are left out.
fn known_tools(
    group: &GroupName,
    server: &ServerConfig,
    cache: Option<PathBuf>,
    key: &CacheKey,
    pins: Option<PathBuf>,
) -> Vec<CompletedWord> {
    let rules = server.rules();
    let tools: Vec<_> = match Cache::open(cache).take_known().get(key) {
        Some(catalog) => {
            catalog.tools.iter().map(|tool| CompletedWord::new(&tool.name, &tool.summary)).collect()
        }
        // The cache knows a server by the directory in which it was started, too.
        None => {
            let names = pins.map(|dir| remembered_tools(&dir, group, server)).unwrap_or_default();
            names.iter().map(|name| CompletedWord::new(name, "")).collect()
        }
    };
    tools.into_iter().filter(|tool| rules.allows(&tool.word)).collect()
}
