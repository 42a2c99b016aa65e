//! The configuration the program uses: validated, variables substituted, durations resolved.
//! `file` is the shape of what users write; `load` goes from one to the other.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod de;
mod duration;
pub mod file;
pub mod load;
pub(crate) mod nearest;
pub mod vars;
pub mod watch;

/// A group's name: the key of its entry in the config. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(Arc<str>);

impl GroupName {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for GroupName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Everything the config files said, in the order they said it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Enabled servers in config order. A server whose entry is wrong is here too, with the reason:
    /// the others work, and `get_status` can say what is wrong with this one.
    pub servers: Vec<(GroupName, Result<ServerConfig, ConfigError>)>,
    pub settings: Settings,
    /// What is wrong with a file as a whole (missing, not JSON): no server of it is known.
    pub errors: Vec<ConfigError>,
    /// What is odd but harmless, such as a field nobody knows.
    pub warnings: Vec<ConfigError>,
}

impl Config {
    pub fn server(&self, name: &GroupName) -> Option<&Result<ServerConfig, ConfigError>> {
        self.servers.iter().find(|(known, _)| known == name).map(|(_, server)| server)
    }
}

/// One thing wrong in a config file: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// Line and column, both from 1; `None` when the file could not be read.
    pub at: Option<(usize, usize)>,
    /// What is wrong, in words that never repeat a value (it may be a secret).
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// One upstream server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub description: Option<String>,
    pub mode: Mode,
    /// `None`: never closed for being idle.
    pub idle_timeout: Option<Duration>,
    /// Never idle-closed; a lost process is reported rather than silently replaced.
    pub stateful: bool,
    pub timeout: Timeouts,
    pub features: Features,
    pub tools: ToolRules,
    /// Globs of tools shown first-class in the meta surface.
    pub expose: Vec<String>,
    pub endpoint: Endpoint,
    pub written: Written,
}

/// How a config writes the way to reach a server, before variables are replaced: the same text leads to the same
/// catalog, and a token that changes does not change it. May hold secrets that are written out.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Written(String);

impl Written {
    pub fn new(text: String) -> Self {
        Self(text)
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Written {
    /// Without the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written(…)")
    }
}

/// When a group connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At start, and stays.
    Eager,
    /// At start for its catalog, then on use.
    Hybrid,
    /// On first use.
    Pure,
}

impl Mode {
    /// The word that the config uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Hybrid => "hybrid",
            Self::Pure => "pure",
        }
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    Stdio(StdioConfig),
    Http(HttpConfig),
}

/// A child process that speaks MCP on its stdin and stdout.
#[derive(Clone, PartialEq)]
pub struct StdioConfig {
    pub command: String,
    pub args: Vec<String>,
    /// From `env_file` first, then `env`; may hold secrets.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<PathBuf>,
    pub inherit_env: InheritEnv,
}

/// Which of our own variables a child gets beside the safe ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InheritEnv {
    #[default]
    Safe,
    /// The safe ones and these.
    Named(Vec<String>),
    All,
}

/// A remote server.
#[derive(Clone, PartialEq)]
pub struct HttpConfig {
    pub url: String,
    /// `None`: Streamable HTTP, falling back to the legacy transport when the server says so.
    pub kind: Option<HttpTransportKind>,
    /// May hold secrets.
    pub headers: Vec<(String, String)>,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    pub oauth: Option<OAuthConfig>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpTransportKind {
    Streamable,
    Sse,
}

/// How to log in to a remote server.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthConfig {
    pub flow: OAuthFlow,
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// PEM; proves who we are in place of a secret, without a browser.
    pub private_key: Option<String>,
    /// Where a document about this client is published; then the URL is its id.
    pub client_metadata_url: Option<String>,
    /// Empty: what the server asks for.
    pub scopes: Vec<String>,
    /// The port the browser comes back to; `None`: any.
    pub redirect_port: Option<u16>,
    /// Whether a server that does not say that it knows PKCE is refused.
    pub require_pkce: bool,
    /// Whether a server may name others at private addresses, such as a company's own login.
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

/// Who logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OAuthFlow {
    /// A person in a browser.
    Browser,
    /// This program, with a secret or a key.
    ClientCredentials,
}

/// How long we wait for what. All are upper bounds of one wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A caller for a connection.
    pub wait: Duration,
    /// The transport: a process to start, a socket to open.
    pub connect: Duration,
    /// `initialize`; `None`: 60 s for a child that is alive, 5 s for a remote.
    pub initialize: Option<Duration>,
    /// One page of a list.
    pub list: Duration,
    /// A tool call without progress.
    pub tools: Duration,
    pub resources: Duration,
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

/// What is asked of an upstream; a `false` one is not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { tools: true, resources: true, prompts: true }
    }
}

/// Globs over an upstream's own tool names, held on every route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Empty: all.
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// Asked of the user before each call.
    pub ask: Vec<String>,
    /// Taken as read-only whatever their annotations say.
    pub read_only: Vec<String>,
}

/// The instance's own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub surface: SurfaceKind,
    /// Tokens that a group's full definitions may take before stubs are given instead.
    pub tools_budget: usize,
    /// Tokens for tool names in the description of `get_dynamic_tools`.
    pub names_budget: usize,
    /// Bytes of one message; a longer one fails its call.
    pub max_message_bytes: usize,
    pub discovery: DiscoveryMode,
    /// Whether logins are kept in the system's keyring, where there is one.
    pub keyring: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            surface: SurfaceKind::Meta,
            tools_budget: 2000,
            names_budget: 600,
            max_message_bytes: 32 << 20,
            discovery: DiscoveryMode::Cached,
            keyring: true,
        }
    }
}

/// What `tools/list` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurfaceKind {
    Meta,
    Flat,
}

/// Which hybrid groups are asked for their catalog at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryMode {
    /// Those whose cached catalog is a day old or missing.
    Cached,
    /// All.
    Always,
}

impl fmt::Debug for StdioConfig {
    /// Names of variables only: their values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio")
            .field("command", &self.command)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("inherit_env", &self.inherit_env)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpConfig {
    /// Neither the URL (its query may hold a key) nor the headers' values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("kind", &self.kind)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("ca_file", &self.ca_file)
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OAuthConfig {
    /// Without the secret and the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("flow", &self.flow)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("redirect_port", &self.redirect_port)
            .finish_non_exhaustive()
    }
}
