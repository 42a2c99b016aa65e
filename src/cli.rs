//! The command line, as clap types. Their doc comments are the help texts.
//!
//! # Theory of operation
//!
//! [`usage`] parses the command line, and `main` reads the environment, once, and calls the command's function with
//! both. Each function returns the exit code, or an error that `main` prints. A file beside this one has each command:
//! [`login`] (and logout), [`approve`], [`servers`] (add, remove, enable, disable), [`bundles`] (add a bundle),
//! [`check`], [`shell`] (tools, search, call, resources, prompts), [`status`], [`logs`], [`reconnect`], [`serve`],
//! [`secrets`], [`completions`], [`cache`] and [`demo`]. The crate `import` has `import`. Without a command,
//! `instance::serve` serves the client.
//!
//! [`config_files`] names the config files that a command reads, and `running_instances` asks the running instances
//! over their sockets. Every command prints by the crate `terminal`, which alone writes to stdout and stderr.

use clap::builder::{BoolishValueParser, NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use config::dirs;
use config::env::Env;
use config::file::SCHEMA;
use config::{Mode, Overrides, SurfaceKind, duration};
use config_files::config_file;
use front::server::served_instance::SessionOptions;
use instance::InstanceOptions;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wire::protocol::{LATEST_HANDSHAKE, REVISIONS};

pub mod approve;
pub mod bundles;
pub mod cache;
pub mod check;
pub mod completions;
pub mod config_files;
pub mod demo;
pub mod list_cost;
pub mod login;
pub mod logs;
pub mod reconnect;
mod running_instances;
pub mod secrets;
pub mod serve;
pub mod servers;
mod servers_file;
pub mod shell;
mod started;
pub mod status;
pub mod usage;

/// The longest time that the first `tools/list` may wait. Most clients wait longer for it, some only 5 s.
const MAX_FIRST_LIST_WAIT: Duration = Duration::from_secs(10);

/// One MCP server in front of all your MCP servers: they start when they are
/// used, and their tools cost almost no context.
///
/// Without a command, dynamic-mcp serves MCP on stdin and stdout. Your client
/// starts it with this entry in the client's config (a client with a window
/// needs the absolute path, which `which dynamic-mcp` prints):
///
///   { "mcpServers": { "dyn": { "command": "dynamic-mcp" } } }
///
/// The servers themselves are in ~/.config/dynamic-mcp/servers.json:
///
///   { "mcpServers": { "time": { "command": "uvx", "args": ["mcp-server-time"] } } }
#[derive(Parser, Debug)]
#[command(name = "dynamic-mcp", version = env!("DYNAMIC_MCP_VERSION"), verbatim_doc_comment)]
pub struct Cli {
    /// The options.
    #[command(flatten)]
    pub options: CliOptions,
    /// What to do. `None`: serve a client.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// The options of the program. Some are for serving alone.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("mode").args(["eager_startup", "pure_lazy", "hybrid_lazy"]))]
pub struct CliOptions {
    /// Read the servers from this config file; may be given several times
    ///
    /// A later file overrides servers of the same name, and settings key by key. A file whose name is followed by a
    /// question mark may be absent. The default is dynamic-mcp/servers.json in $XDG_CONFIG_HOME (~/.config), on Windows
    /// in %APPDATA%.
    #[arg(long, value_name = "PATH", env = "DYNAMIC_MCP_CONFIG", global = true)]
    pub config: Vec<PathBuf>,
    /// Connect to every server at startup and stay connected
    #[arg(long, env = "DYNAMIC_MCP_EAGER_STARTUP", value_parser = BoolishValueParser::new())]
    pub eager_startup: bool,
    /// Connect to a server on its first use
    #[arg(long, env = "DYNAMIC_MCP_PURE_LAZY", value_parser = BoolishValueParser::new())]
    pub pure_lazy: bool,
    /// Connect to a server at startup only to learn its tools, then on use (the default)
    #[arg(long, env = "DYNAMIC_MCP_HYBRID_LAZY", value_parser = BoolishValueParser::new())]
    pub hybrid_lazy: bool,
    /// Close a server after this time without use: seconds, or a duration such as 5m; 0 keeps it open
    #[arg(long, value_name = "DURATION", env = "DYNAMIC_MCP_IDLE_TIMEOUT", value_parser = parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// List the tools of dynamic-mcp (meta, the default) or all tools of all servers (flat)
    #[arg(
        long,
        value_name = "SURFACE",
        env = "DYNAMIC_MCP_SURFACE",
        value_enum,
        hide_possible_values = true
    )]
    pub surface: Option<SurfaceKind>,
    /// Let the first tools/list wait this long for servers that start; at most 10s, by default not at all
    ///
    /// For clients that list the tools once and do not hear of changes.
    #[arg(long, value_name = "DURATION", env = "DYNAMIC_MCP_FIRST_LIST_WAIT", value_parser = parse_first_list_wait)]
    pub first_list_wait: Option<Duration>,
    /// Offer the client no later revision of MCP than this, such as 2025-11-25
    #[arg(long, value_name = "DATE", env = "DYNAMIC_MCP_MAX_REVISION", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(REVISIONS).map(known_revision))]
    pub max_revision: Option<&'static str>,
    /// Answer a client that sends initialize again, or never sends notifications/initialized
    #[arg(long, env = "DYNAMIC_MCP_LENIENT_HANDSHAKE", value_parser = BoolishValueParser::new())]
    pub lenient_handshake: bool,
    /// Use only the servers that this profile of the config chooses
    ///
    /// A profile is a list of globs of server names in the config file: "profiles": {"work": ["*", "!docs"]}, where `!`
    /// excludes. It may also be an object that restricts the tools of servers.
    #[arg(long, value_name = "NAME", env = "DYNAMIC_MCP_PROFILE", global = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub profile: Option<String>,
    /// Do not read or write the cache of the servers' tools
    #[arg(long, env = "DYNAMIC_MCP_NO_CACHE", value_parser = BoolishValueParser::new())]
    pub no_cache: bool,
    /// Set the log level: off, error, warn, info (the default), debug or trace
    #[arg(long, value_name = "LEVEL", env = "DYNAMIC_MCP_LOG_LEVEL", global = true)]
    pub log_level: Option<String>,
    /// Append the log to this file, and write it neither to stderr nor to the file in the state directory
    #[arg(long, value_name = "PATH", env = "DYNAMIC_MCP_LOG_FILE", global = true)]
    pub log_file: Option<PathBuf>,
    /// Write the log as text (the default) or as JSON, one object on each line
    #[arg(long, value_name = "FORMAT", env = "DYNAMIC_MCP_LOG_FORMAT", global = true)]
    #[arg(value_enum, hide_possible_values = true, default_value = "text", hide_default_value = true)]
    pub log_format: LogFormat,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| format!("expected {}", duration::EXPECTED))
}

fn parse_first_list_wait(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text)?;
    if wait > MAX_FIRST_LIST_WAIT {
        return Err(format!("expected at most {} s", MAX_FIRST_LIST_WAIT.as_secs()));
    }
    Ok(wait)
}

/// Returns the revision of this name, which is one of `REVISIONS`.
#[expect(clippy::needless_pass_by_value, reason = "clap passes the value")]
fn known_revision(name: String) -> &'static str {
    REVISIONS.into_iter().find(|known| *known == name).unwrap_or(LATEST_HANDSHAKE)
}

impl Cli {
    /// Returns how an instance is started with this command line. It has no config file if none is named and the home
    /// directory is not known.
    pub fn instance_options(&self, env: &Env) -> InstanceOptions {
        let named = self.options.config.iter().map(|path| config_file(path, env));
        let default = dirs::default_config_file(env).filter(|_| self.options.config.is_empty());
        let optional_files = named.clone().filter(|(_, is_optional)| *is_optional).map(|(path, _)| path);
        // A client may start us before there are servers. Commands are about those that there are.
        let is_new_user = env.get_non_empty("DYNAMIC_MCP_CONFIG").is_none() && self.command.is_none();
        let optional_files = optional_files.chain(default.clone().filter(|_| is_new_user));
        let files = named.clone().map(|(path, _)| path).chain(default).collect();
        let session = SessionOptions::default();
        InstanceOptions {
            files,
            names_files: !self.options.config.is_empty(),
            overrides: self.overrides(optional_files.collect()),
            session: SessionOptions {
                first_list_wait: self.options.first_list_wait.unwrap_or(session.first_list_wait),
                latest_revision: self.options.max_revision.unwrap_or(session.latest_revision),
                lenient_handshake: self.options.lenient_handshake,
            },
            cache_dir: if self.options.no_cache { None } else { dirs::cache_dir(env) },
            pins_dir: dirs::pins_dir(env),
        }
    }

    fn overrides(&self, optional_files: BTreeSet<PathBuf>) -> Overrides {
        let mode = match (self.options.eager_startup, self.options.pure_lazy, self.options.hybrid_lazy) {
            (true, ..) => Some(Mode::Eager),
            (_, true, _) => Some(Mode::Pure),
            (_, _, true) => Some(Mode::Hybrid),
            _ => None,
        };
        let idle_timeout =
            self.options.idle_timeout.map(|limit| Some(limit).filter(|limit| !limit.is_zero()));
        Overrides {
            mode,
            idle_timeout,
            surface: self.options.surface,
            profile: self.options.profile.clone(),
            optional_files,
            all_users_only: matches!(self.command, Some(CliCommand::Serve(_))),
            own_address: None,
        }
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs that collect logs.
    Json,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum CliCommand {
    /// Show what dynamic-mcp does, with small MCP servers that are built in
    Demo,
    /// Log in to a remote server in the browser
    Login(login::LoginArgs),
    /// Log out of a remote server
    Logout {
        /// The name of the server in the config
        #[arg(value_name = "SERVER")]
        name: String,
    },
    /// Accept tools whose definition changed since it was first seen
    Approve(approve::ApproveArgs),
    /// Import the servers of the MCP clients on this machine
    Import(import::ImportArgs),
    /// Keep secrets in the system's keyring, for {keyring:NAME} in the config file
    Secret {
        /// What to do with the secrets.
        #[command(subcommand)]
        command: secrets::SecretCommand,
    },
    /// Add a server to the config
    Add(servers::AddArgs),
    /// Remove servers from the config
    Remove(servers::ServerNames),
    /// Enable disabled servers again
    Enable(servers::ServerNames),
    /// Keep servers in the config without using them
    Disable(servers::ServerNames),
    /// Start the servers, and report for each whether it works, and the fix if it does not
    #[command(visible_alias = "doctor")]
    Check(check::CheckArgs),
    /// List the tools of all servers, or of one
    Tools(shell::ToolsArgs),
    /// Search the tools of all servers
    Search(shell::SearchArgs),
    /// Call a tool
    ///
    /// The text of the result goes to stdout. The exit code is 5 if the tool reports an error. A call that has to be
    /// confirmed (`tools.ask` in the config) asks at the terminal; without one it is refused.
    Call(shell::CallArgs),
    /// List the resources of all servers, or of one
    Resources(shell::ListArgs),
    /// List the prompts of all servers, or of one
    Prompts(shell::ListArgs),
    /// Serve many users over HTTP
    Serve(serve::ServeArgs),
    /// Show the running instances of dynamic-mcp and their servers
    Status(status::StatusArgs),
    /// Show what a server of a running instance has written to stderr
    Logs(logs::LogsArgs),
    /// Connect a server of a running instance again
    Reconnect(reconnect::ReconnectArgs),
    /// Print the JSON Schema of the config file
    Schema,
    /// Print the completions for a shell
    Completions(completions::CompletionsArgs),
    /// Manage the cache of the servers' tools
    Cache {
        /// What to do with the cache.
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Print what may stand in place of the last word
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The last word, for shells that cannot pass an empty argument
        #[arg(long, require_equals = true, allow_hyphen_values = true)]
        typed: Option<String>,
        /// The words that follow the name of the program
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Serve the notes of one group of the demo on stdin and stdout
    #[command(name = "__demo-server", hide = true)]
    DemoServer {
        /// The name of the group
        group: String,
        /// Write the process ID to this file, and remove the file at the end
        pid_file: Option<PathBuf>,
    },
}

impl CliCommand {
    /// Returns whether the command starts servers of the config, and reports by itself what is wrong with them.
    pub fn starts_servers(&self) -> bool {
        matches!(
            self,
            Self::Import(_)
                | Self::Check(_)
                | Self::Tools(_)
                | Self::Search(_)
                | Self::Call(_)
                | Self::Resources(_)
                | Self::Prompts(_)
        )
    }
}

/// The commands of `dynamic-mcp cache`.
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// Delete everything in the cache
    Clear,
    /// Print the cached tools and the pins of the servers of the config, for the replicas of `serve --http --catalog`
    Export,
}

/// Prints the JSON Schema of the config file on stdout.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn schema() -> anyhow::Result<ExitCode> {
    terminal::payload(SCHEMA.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
