//! `dynamic-mcp serve --http`: one address for many users.

use anyhow::ensure;
use clap::Args;
use config::ConfigError;
use config::dirs::expand_home;
use config::env::Env;
use http_front::limits::PrincipalLimits;
use instance::InstanceOptions;
use instance::serve_http::{self, HttpServeOptions};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use terminal::outcome::{CommandError, EXIT_CONFIG};

/// The arguments of `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Listen at this address and port, such as 127.0.0.1:8080
    ///
    /// At any other address than a loopback one, --tokens or --oauth is needed. TLS ends in front of it.
    #[arg(long, value_name = "ADDR")]
    pub http: SocketAddr,
    /// The path of the MCP endpoint
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    pub path: String,
    /// A name by which clients reach it, without a port; may be given several times
    #[arg(long, value_name = "NAME")]
    pub allowed_host: Vec<String>,
    /// An origin whose web pages may use it, such as `https://app.example`; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    pub allowed_origin: Vec<String>,
    /// Serve only those who have one of the bearer tokens in this file, which has their names, hashes and profiles
    #[arg(long, value_name = "FILE", env = "DYNAMIC_MCP_TOKENS")]
    pub tokens: Option<PathBuf>,
    /// Serve those who have an access token of the authorization server that this file names
    #[arg(long, value_name = "FILE", env = "DYNAMIC_MCP_OAUTH")]
    pub oauth: Option<PathBuf>,
    /// The keys for what clients carry from one request to the next: the same file for all replicas
    ///
    /// Each line has 32 random bytes in base64. The first one seals, and all open.
    #[arg(long, value_name = "FILE", env = "DYNAMIC_MCP_KEYS")]
    pub keys: Option<PathBuf>,
    /// Begin with the tools in this file, which `dynamic-mcp cache export` has written: the same file for all replicas
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// How many requests of one user may be open
    #[arg(long, value_name = "NUMBER", default_value = "512")]
    pub max_in_flight: NonZeroUsize,
    /// How many requests of one user may begin in a second
    #[arg(long, value_name = "NUMBER", default_value = "2000")]
    pub max_rate: NonZeroU32,
}

/// Serves until a signal comes.
///
/// # Errors
///
/// Fails if the path does not begin with a slash or is that of a probe, and as [`serve_http::serve_http`] does.
pub async fn serve(args: &ServeArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let is_own = ["/healthz", "/readyz"].contains(&&*args.path);
    ensure!(args.path.starts_with('/') && !is_own, "--path: expected a path such as /mcp");
    let file = |path: &PathBuf| env.cwd().join(expand_home(path, env));
    let http = HttpServeOptions {
        address: args.http,
        path: args.path.clone(),
        allowed_hosts: args.allowed_host.clone(),
        allowed_origins: args.allowed_origin.clone(),
        tokens: args.tokens.as_ref().map(file),
        oauth: args.oauth.as_ref().map(file),
        keys: args.keys.as_ref().map(file),
        catalog: args.catalog.as_ref().map(file),
        limits: PrincipalLimits { in_flight: args.max_in_flight.get(), per_second: args.max_rate.get() },
    };
    match serve_http::serve_http(http, options.clone(), env.clone()).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<ConfigError>() => {
            Err(CommandError::new(EXIT_CONFIG, error.to_string()).into())
        }
        Err(error) => Err(error),
    }
}
