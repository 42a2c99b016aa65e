//! The command line as types.

use crate::config::file::SCHEMA;
use clap::{ArgGroup, Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

pub mod cache;
pub mod demo;
pub mod login;
pub mod serve;

/// One MCP server in front of all your MCP servers: they start when they are used, and their tools cost almost no
/// context.
///
/// Without a command it serves MCP on stdin and stdout, which is what a client's configuration names:
///
///   {"mcpServers": {"all": {"command": "dynamic-mcp", "args": ["--config", "servers.json"]}}}
#[derive(Parser, Debug)]
#[command(name = "dynamic-mcp", version, verbatim_doc_comment)]
#[command(group = ArgGroup::new("mode").args(["eager_startup", "pure_lazy", "hybrid_lazy"]))]
pub struct Cli {
    /// The config file; may be given several times, later ones override servers of the same name
    ///
    /// Without it: $XDG_CONFIG_HOME/dynamic-mcp/servers.json
    #[arg(long, value_name = "PATH", env = "DYNAMIC_MCP_CONFIG", global = true)]
    pub config: Vec<PathBuf>,
    /// Connect every server at start and keep it
    #[arg(long, env = "DYNAMIC_MCP_EAGER_STARTUP")]
    pub eager_startup: bool,
    /// Connect a server on its first use
    #[arg(long, env = "DYNAMIC_MCP_PURE_LAZY")]
    pub pure_lazy: bool,
    /// Connect every server at start to learn its tools, close it, reconnect on use
    #[arg(long, env = "DYNAMIC_MCP_HYBRID_LAZY")]
    pub hybrid_lazy: bool,
    /// Close a server that was not used for so long; 0: never
    #[arg(long, value_name = "SECONDS", env = "DYNAMIC_MCP_IDLE_TIMEOUT")]
    pub idle_timeout: Option<u64>,
    /// Neither read nor write what is remembered of servers between starts
    #[arg(long, env = "DYNAMIC_MCP_NO_CACHE")]
    pub no_cache: bool,
    /// What the log tells: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", env = "DYNAMIC_MCP_LOG_LEVEL", global = true)]
    pub log_level: Option<String>,
    /// Append the log to this file instead of writing it to stderr
    #[arg(long, value_name = "PATH", env = "DYNAMIC_MCP_LOG_FILE", global = true)]
    pub log_file: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Shows what this program does, on small MCP servers that are built in
    Demo,
    /// Logs in to a remote server, in the browser
    Login(login::LoginArgs),
    /// Ends the login at a remote server
    Logout {
        /// The server, as the config names it
        name: String,
    },
    /// Prints the JSON Schema of the config file
    Schema,
    /// What is remembered of servers between starts
    Cache {
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

#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// Forgets all of it
    Clear,
}

/// `dynamic-mcp schema`.
pub fn schema() -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(SCHEMA.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
