//! The command line, as clap types. Their doc comments are the help texts.
//!
//! A file beside this one runs each command: [`serve`] without a command, [`login`] and logout, [`approve`], [`status`],
//! [`logs`], [`reconnect`], [`cache`], and [`demo`]. `main` calls them with the parsed command line and the environment,
//! which is read once. Each returns the exit code, or an error that `main` prints.

use crate::config::file::SCHEMA;
use clap::{ArgGroup, Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

pub mod approve;
pub mod cache;
pub mod demo;
pub mod instances;
pub mod login;
pub mod logs;
mod nesting;
mod paths;
pub mod reconnect;
pub mod serve;
pub mod status;

/// One MCP server in front of all your MCP servers: they start when they are
/// used, and their tools cost almost no context.
///
/// Without a command, dynamic-mcp serves MCP on stdin and stdout. Your client
/// starts it with this entry in the client's config:
///
///   {
///     "mcpServers": {
///       "dynamic-mcp": {
///         "command": "dynamic-mcp",
///         "args": ["--config", "/path/to/servers.json"]
///       }
///     }
///   }
#[derive(Parser, Debug)]
#[command(name = "dynamic-mcp", version, verbatim_doc_comment)]
#[command(group = ArgGroup::new("mode").args(["eager_startup", "pure_lazy", "hybrid_lazy"]))]
pub struct Cli {
    /// Read the servers from this config file; may be given several times
    ///
    /// A later file overrides servers of the same name, and settings key by key. The default is
    /// dynamic-mcp/servers.json in $XDG_CONFIG_HOME (~/.config), on Windows in %APPDATA%.
    #[arg(long, value_name = "PATH", env = "DYNAMIC_MCP_CONFIG", global = true)]
    pub config: Vec<PathBuf>,
    /// Connect to every server at startup and stay connected
    #[arg(long, env = "DYNAMIC_MCP_EAGER_STARTUP")]
    pub eager_startup: bool,
    /// Connect to a server on its first use
    #[arg(long, env = "DYNAMIC_MCP_PURE_LAZY")]
    pub pure_lazy: bool,
    /// Connect to a server at startup only to learn its tools, then on use (the default)
    #[arg(long, env = "DYNAMIC_MCP_HYBRID_LAZY")]
    pub hybrid_lazy: bool,
    /// Close a server that was not used for this long; 0 keeps it open
    #[arg(long, value_name = "SECONDS", env = "DYNAMIC_MCP_IDLE_TIMEOUT")]
    pub idle_timeout: Option<u64>,
    /// Do not read or write the cache of the servers' tools
    #[arg(long, env = "DYNAMIC_MCP_NO_CACHE")]
    pub no_cache: bool,
    /// Set the log level: off, error, warn, info (the default), debug or trace
    #[arg(long, value_name = "LEVEL", env = "DYNAMIC_MCP_LOG_LEVEL", global = true)]
    pub log_level: Option<String>,
    /// Append the log to this file instead of writing it to stderr
    #[arg(long, value_name = "PATH", env = "DYNAMIC_MCP_LOG_FILE", global = true)]
    pub log_file: Option<PathBuf>,
    /// What to do. `None`: serve a client.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
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
        /// The name of the server in the config file
        name: String,
    },
    /// Accept tools whose definition changed since it was first seen
    Approve(approve::ApproveArgs),
    /// Show the running instances of dynamic-mcp and their servers
    Status(status::StatusArgs),
    /// Show what a server of a running instance has written to stderr
    Logs(logs::LogsArgs),
    /// Connect a server of a running instance again
    Reconnect(reconnect::ReconnectArgs),
    /// Print the JSON Schema of the config file
    Schema,
    /// Manage the cache of the servers' tools
    Cache {
        /// What to do with the cache.
        #[command(subcommand)]
        command: CacheCommand,
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

/// The commands of `dynamic-mcp cache`.
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// Delete everything in the cache
    Clear,
}

/// Prints the JSON Schema of the config file on stdout.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn schema() -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(SCHEMA.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
