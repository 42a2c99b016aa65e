//! The configuration of one server.

use super::error::ConfigError;
use super::file::choices::Share;
use super::file::keys::{CommonConfig, OAuthConfig, Timeouts};
use super::file::values::{InheritEnv, Mode};
use super::secrets::{SecretPlace, SecretSource, ServerSecrets};
use super::tool_rules::{OwnGlob, Rules};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration of one upstream server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// What the server is for, as the config says it.
    pub description: Option<String>,
    /// The keys that have a default in `settings`.
    pub common: CommonConfig,
    /// Limits for waits of every kind.
    pub timeout: Timeouts,
    /// Which tools may be used, and how.
    pub tools: Rules,
    /// How the server is reached.
    pub endpoint: Endpoint,
    /// The values in `endpoint` that are fetched when the server starts.
    pub secrets: ServerSecrets,
    /// The part of the entry that identifies the server for the catalog cache.
    pub launch_text: LaunchText,
    /// The entry's file and program, which identify the server for its pins.
    pub origin: ServerOrigin,
    /// The globs for tools that the entry itself has.
    pub own_globs: Vec<OwnGlob>,
    /// What is doubtful in the entry, such as an unknown field.
    pub warnings: Vec<ConfigError>,
}

impl ServerConfig {
    /// Puts a fetched value into its field. Does nothing if the server is of the other kind, or does not have the
    /// header of this place.
    pub fn set_secret(&mut self, place: &SecretPlace, value: String) {
        match (place, &mut self.endpoint) {
            (SecretPlace::Env(name), Endpoint::Stdio(stdio)) => {
                stdio.env.insert(name.clone(), value);
            }
            (SecretPlace::Header(name), Endpoint::Http(http)) => {
                for (_, old) in http.headers.iter_mut().filter(|(header, _)| header == name) {
                    old.clone_from(&value);
                }
            }
            (SecretPlace::ClientSecret, Endpoint::Http(http)) => {
                http.oauth.get_or_insert_default().client_secret = Some(value);
            }
            (SecretPlace::PrivateKey, Endpoint::Http(http)) => {
                http.oauth.get_or_insert_default().private_key = Some(value);
            }
            _ => {}
        }
    }

    /// Returns the rules for the server's tools.
    pub fn rules(&self) -> Rules {
        self.tools.clone()
    }

    /// Returns whether the server may be started because a model reads about its tools, before it calls one. Not one whose
    /// start may ask the user something or leave something behind, or whose calls wait for the user anyway.
    pub fn may_prefetch(&self) -> bool {
        let Endpoint::Stdio(stdio) = &self.endpoint else { return false };
        let runs_command = |source: &SecretSource| matches!(source, SecretSource::Command(_));
        self.common.prefetch
            && self.common.mode == Mode::Hybrid
            && !self.common.stateful
            && !self.tools.has_ask()
            && !self.secrets.sources().any(|(_, source)| runs_command(source))
            && !stdio.runs_container()
    }

    /// Returns whether the server runs in a container, which outlives the program that started it if that is killed.
    pub fn runs_container(&self) -> bool {
        matches!(&self.endpoint, Endpoint::Stdio(stdio) if stdio.runs_container())
    }

    /// Returns which instances use the same process: a stateful server has one for each.
    pub fn effective_share(&self) -> Share {
        if self.common.stateful { Share::Client } else { self.common.share }
    }
}

/// Where an entry comes from and what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOrigin {
    /// The config file that has the entry: an absolute path, without symbolic links if it could be resolved.
    pub file: Arc<Path>,
    /// The command, arguments and working directory, or the address, as the file writes them, with variables
    /// unexpanded. Unlike the launch text it has neither credentials nor the layout of the file, so that a new token
    /// or another indentation leaves it unchanged.
    pub program: LaunchText,
}

impl Default for ServerOrigin {
    fn default() -> Self {
        Self { file: Path::new("").into(), program: LaunchText::default() }
    }
}

/// The fields of an entry that decide what is launched or contacted, as the file writes them, with variables
/// unexpanded. ListEntries with equal text lead to equal catalogs, and a token that is renewed leaves the text unchanged.
/// May hold secrets that the file spells out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LaunchText(Arc<str>);

impl LaunchText {
    /// Makes the text from the fields' names and their JSON. The order of the fields does not matter.
    pub fn new<T: AsRef<str> + Ord>(fields: impl IntoIterator<Item = (&'static str, T)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_unstable();
        let lines: Vec<_> = fields.iter().map(|(name, json)| [*name, "=", json.as_ref(), "\n"]).collect();
        Self(lines.as_flattened().concat().into())
    }

    /// Returns one `name=json` line per field.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LaunchText {
    /// Hides the text, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaunchText(…)")
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    /// A program that dynamic-mcp starts.
    Stdio(StdioConfig),
    /// A remote server.
    Http(HttpConfig),
}

/// A child process that speaks MCP on its stdin and stdout.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StdioConfig {
    /// The program, as a name to find in `PATH` or as a path.
    pub command: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The variables of `env_file`, overridden by those of `env`. May hold secrets.
    pub env: BTreeMap<String, String>,
    /// The working directory; `None` leaves the choice to the launcher.
    pub cwd: Option<PathBuf>,
    /// Which of our own environment variables the process inherits.
    pub inherit_env: InheritEnv,
}

/// Programs that run containers.
const CONTAINER_PROGRAMS: [&str; 3] = ["docker", "podman", "nerdctl"];

impl StdioConfig {
    /// Returns whether one of the words of the command is a program that runs containers, which may be behind `sudo`, `wsl`
    /// or a shell.
    fn runs_container(&self) -> bool {
        let words = [&self.command].into_iter().chain(&self.args).flat_map(|text| text.split_whitespace());
        let mut programs = words.filter_map(|word| Path::new(word).file_stem()?.to_str());
        programs.any(|program| CONTAINER_PROGRAMS.contains(&program))
    }
}

impl fmt::Debug for StdioConfig {
    /// Shows the names of variables only: arguments and values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("inherit_env", &self.inherit_env)
            .finish_non_exhaustive()
    }
}

/// A remote server, reached by HTTP.
#[derive(Clone, PartialEq)]
pub struct HttpConfig {
    /// The address. May hold secrets in its query.
    pub url: String,
    /// The transport; `None` is Streamable HTTP with a fallback to HTTP+SSE if the server does not support it.
    pub kind: Option<HttpTransportKind>,
    /// Headers for every request. May hold secrets.
    pub headers: Vec<(String, String)>,
    /// A PEM file of certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// How to log in; `None` if the config does not say.
    pub oauth: Option<OAuthConfig>,
}

impl fmt::Debug for HttpConfig {
    /// Hides the URL, whose query may hold a key, and the values of headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig")
            .field("kind", &self.kind)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("ca_file", &self.ca_file)
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

/// An HTTP transport of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpTransportKind {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, the transport of revision 2024-11-05.
    Sse,
}

impl HttpTransportKind {
    /// Returns what to say where a server speaks this transport and its config demands the other one.
    pub fn is_not_as_configured(self) -> &'static str {
        match self {
            Self::Streamable => {
                "it does not speak HTTP+SSE as its config entry says, but Streamable HTTP, which is used: write \"type\": \
                 \"http\" in place of \"sse\""
            }
            Self::Sse => {
                "it does not speak Streamable HTTP as its config entry says, but HTTP+SSE, which is used: write \"type\": \
                 \"sse\" in place of \"http\", and its address as \"url\""
            }
        }
    }
}
