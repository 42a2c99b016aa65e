//! The configuration of one server.

use super::error::ConfigError;
use super::secrets::{SecretPlace, ServerSecrets};
use super::tool_rules::{OwnGlob, ToolRules};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The configuration of one upstream server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// What the server is for, as the config says it.
    pub description: Option<String>,
    /// When the group connects.
    pub mode: Mode,
    /// How long an unused connection is kept; `None` keeps it open.
    pub idle_timeout: Option<Duration>,
    /// The server keeps state between calls: it is never closed for being idle, and the loss of its connection is
    /// reported instead of hidden by a new one.
    pub stateful: bool,
    /// Which windows of the user use one process of the server.
    pub share: Share,
    /// Whether `npx` or `uvx` stays between us and the server.
    pub launcher: Launcher,
    /// Limits for waits of every kind.
    pub timeout: Timeouts,
    /// What is requested from the server.
    pub features: Features,
    /// Which tools may be used, and how.
    pub tools: ToolRules,
    /// Globs of tools that the meta surface lists directly.
    pub expose: Vec<String>,
    /// Whether the annotations of the server's tools count.
    pub trust_annotations: bool,
    /// Whether tools whose definition changed are refused until they are approved.
    pub pin_tools: bool,
    /// The bytes of text above which a result is stored; `None`: none is.
    pub store_above: Option<NonZeroUsize>,
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
    /// Puts a fetched value into its field.
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
    pub fn new<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_unstable();
        let lines: Vec<_> = fields.iter().map(|(name, json)| [*name, "=", *json, "\n"]).collect();
        Self(lines.as_flattened().concat().into())
    }

    /// One `name=json` line per field.
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

/// When a group connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At start, and the connection stays open.
    Eager,
    /// At start to read the catalog, then on use.
    Hybrid,
    /// On first use.
    Pure,
}

impl Mode {
    /// The word for the mode in config files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Hybrid => "hybrid",
            Self::Pure => "pure",
        }
    }
}

impl ServerConfig {
    /// Which instances use the same process: a stateful server has one for each.
    pub fn effective_share(&self) -> Share {
        if self.stateful { Share::Client } else { self.share }
    }
}

/// Which instances of dynamic-mcp of one user use the same process of a server. `stateful` overrides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Those in the same directory if the server is known to be shareable, else none.
    #[default]
    Auto,
    /// None: each instance starts its own.
    Client,
    /// Those that start the server in the same directory.
    Directory,
    /// All of the user.
    User,
}

impl Share {
    /// The word for it in config files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Client => "client",
            Self::Directory => "directory",
            Self::User => "user",
        }
    }
}

/// Whether a server that `npx` or `uvx` starts is started through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launcher {
    /// Always.
    #[default]
    Keep,
    /// Only until it is known what the launcher starts; then without it.
    Direct,
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
#[derive(Clone, PartialEq)]
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

/// Which of our own environment variables a child process inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum InheritEnv {
    /// The safe ones, which hold no secrets.
    #[default]
    Safe,
    /// The safe ones and these.
    Named(Vec<String>),
    /// All of them.
    All,
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
    /// What to say where a server speaks this transport and its config demands the other one.
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

/// How to log in to a remote server.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthConfig {
    /// The grant by which tokens are obtained.
    pub flow: OAuthFlow,
    /// The id of a client that was registered by hand.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// A private key in PEM that authenticates the client in place of a secret (RFC 7523).
    pub private_key: Option<String>,
    /// The URL of a Client ID Metadata Document, which serves as the client's id.
    pub client_metadata_url: Option<String>,
    /// The scopes to request; empty requests what the server asks for.
    pub scopes: Vec<String>,
    /// The loopback port of the redirect URI; `None` is any free port.
    pub redirect_port: Option<u16>,
    /// Refuses authorization servers that do not declare support for PKCE.
    pub require_pkce: bool,
    /// Lets the server send the login to private addresses, such as a company's own authorization server.
    pub allow_private_addresses: bool,
}

impl Default for OAuthConfig {
    fn default() -> Self {
        Self {
            flow: OAuthFlow::Browser,
            client_id: None,
            client_secret: None,
            private_key: None,
            client_metadata_url: None,
            scopes: Vec::new(),
            redirect_port: None,
            require_pkce: true,
            allow_private_addresses: false,
        }
    }
}

impl fmt::Debug for OAuthConfig {
    /// Hides the secret and the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig")
            .field("flow", &self.flow)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("redirect_port", &self.redirect_port)
            .finish_non_exhaustive()
    }
}

/// The grant by which tokens are obtained (RFC 6749).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OAuthFlow {
    /// The authorization code grant: a person logs in with a browser.
    Browser,
    /// The client credentials grant: the program logs in with a secret or a key.
    ClientCredentials,
}

/// How long each kind of wait may take at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A caller's wait for a connection.
    pub wait: Duration,
    /// Opening the transport: starting a process or opening a socket.
    pub connect: Duration,
    /// The answer to `initialize`; `None` is 60 s for a child process and 5 s for a remote server.
    pub initialize: Option<Duration>,
    /// One page of a list.
    pub list: Duration,
    /// A tool call without progress.
    pub tools: Duration,
    /// A request about resources.
    pub resources: Duration,
    /// A request about prompts.
    pub prompts: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(20),
            connect: Duration::from_secs(5),
            initialize: None,
            list: Duration::from_secs(5),
            tools: Duration::from_secs(300),
            resources: Duration::from_secs(60),
            prompts: Duration::from_secs(60),
        }
    }
}

/// What is requested from a server; a feature that is `false` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Tools.
    pub tools: bool,
    /// Resources and resource templates.
    pub resources: bool,
    /// Prompts.
    pub prompts: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { tools: true, resources: true, prompts: true }
    }
}
