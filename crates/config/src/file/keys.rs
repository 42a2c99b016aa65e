//! The keys that have a default. Each is defined once, with what the program uses of it: `key: written => used = default`.

use std::fmt;
use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use super::choices::{DiscoveryMode, Launcher, OAuthFlow, Share, SurfaceKind};
use super::values::{DurationValue, GlobPattern, Mode, StoreAboveValue, TimeoutValue, WordList};
use crate::fields::CacheKeyPart::AsResolved;
use crate::object::config_keys;

config_keys! {
    /// The keys that a server's entry and `settings` have in common. `settings` has the defaults for all servers.
    #[derive(Clone)]
    pub struct CommonEntry;
    /// The keys that a server's entry and `settings` have in common: the server's own value, else that of the settings,
    /// else the default.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CommonConfig;

    /// When the server is connected: at start and permanently (`"eager"`, or `false`), at start if its tools are not
    /// known and then on use (`"hybrid"`), or on first use (`"pure"`).
    #[schemars(rename = "lazy_startup", extend("default" = "hybrid", "examples" = ["eager"]))]
    mode: Mode => Mode = Mode::Hybrid; [named("lazy_startup")],
    /// How long an unused connection is kept; 0 keeps it open. Has no effect with `"eager"` or `stateful`.
    #[schemars(extend("default" = 300, "examples" = ["10m", 0]))]
    // Long enough for a pause in a conversation, short enough that forty servers do not run all day.
    idle_timeout: DurationValue => Option<Duration> = Some(Duration::from_secs(300)),
    /// Whether a hybrid server of this machine is started when a model reads about its tools, so that a call soon after
    /// need not wait. Without a request it is closed after 30 s. Containers, stateful servers, and servers with `tools.ask`
    /// or a `{command:…}` are never started like this.
    #[schemars(extend("default" = true))]
    prefetch: bool => bool = true,
    /// True if the server keeps state between calls, as a browser or a terminal does. Such a server is never closed for
    /// being idle. If its connection was lost, the next call reports this.
    #[schemars(extend("default" = false))]
    stateful: bool => bool = false,
    /// Which of your instances use one process of a local server: none (`"client"`), those that start the server in the
    /// same directory (`"directory"`), or all (`"user"`). Has no effect if `stateful` is true. Linux only.
    #[schemars(extend("default" = "client", "examples" = ["user"]))]
    share: Share => Share = Share::Client,
    /// Whether `npx` and `uvx` keep running beside the server that they start (`"keep"`). With `"direct"` a package of
    /// an exact version is started without them, after a first start with them. Linux only.
    #[schemars(extend("default" = "keep", "examples" = ["direct"]))]
    launcher: Launcher => Launcher = Launcher::Keep,
    /// What to request from the server.
    #[schemars(extend("examples" = [{"prompts": false}]))]
    features: FeaturesEntry => Features = Features::default(); [cached(AsResolved)],
    /// Globs of tools that `tools/list` lists directly, as `SERVER__TOOL`, beside the tools of dynamic-mcp. For the few
    /// tools that are used all the time.
    #[schemars(extend("default" = [], "examples" = [["get_issue", "search_*"]]))]
    expose: Vec<GlobPattern> => Vec<GlobPattern> = Vec::new(),
    /// Whether the server's own marks of a tool as read-only or repeatable count. With false only `tools.read_only`
    /// counts.
    #[schemars(extend("default" = true))]
    trust_annotations: bool => bool = true,
    /// True refuses new tools, and tools whose definition changed since it was first seen, until you accept them with
    /// `dynamic-mcp approve`.
    #[schemars(extend("default" = false))]
    pin_tools: bool => bool = false,
    /// A result with more bytes of text is stored. The client gets a preview, and reads parts of the result with
    /// `call_dynamic_tool`. False stores none.
    #[schemars(extend("default" = false, "examples" = ["50kB", 10_000]))]
    store_above: StoreAboveValue => Option<NonZeroUsize> = None,
    /// Whether `dynamic-mcp serve --http` may use a local server for all its users. They share one process, and whatever it
    /// keeps. Without it, a local server is not served over HTTP.
    #[schemars(extend("default" = false))]
    all_users: bool => bool = false,
}

config_keys! {
    /// The settings of dynamic-mcp itself, as opposed to the defaults for servers.
    pub struct InstanceEntry;
    /// The settings of the instance, as opposed to defaults for servers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings;

    /// What `tools/list` shows: the tools of dynamic-mcp (`"meta"`), or all tools of all servers (`"flat"`).
    #[schemars(extend("default" = "meta"))]
    surface: SurfaceKind => SurfaceKind = SurfaceKind::Meta,
    /// How many tokens (estimated at four bytes each) `get_dynamic_tools` may use for a server, unless the model asks
    /// for more. It returns full definitions if they fit, else signatures if they fit and lose nothing, else names with
    /// one line each.
    #[schemars(extend("default" = 2000))]
    tools_budget: usize => usize = 2000,
    /// How many tokens tool names may take in the description of `get_dynamic_tools`.
    #[schemars(extend("default" = 600))]
    names_budget: usize => usize = 600,
    /// The size limit of one message in bytes (32 MiB); above 0. A call with a longer answer fails. All messages
    /// together have 256 MiB.
    #[schemars(extend("default" = 33_554_432))]
    max_message_bytes: NonZeroUsize => usize = 32 << 20,
    /// Which hybrid servers are started at the start of dynamic-mcp to list their tools: only those whose tools were
    /// not read within the last day (`"cached"`), or all (`"always"`).
    #[schemars(extend("default" = "cached"))]
    discovery: DiscoveryMode => DiscoveryMode = DiscoveryMode::Cached,
    /// Whether logins are kept in the system's keyring where one works, or always in files (false). Read only at start.
    #[schemars(extend("default" = true))]
    keyring: bool => bool = true,
}

config_keys! {
    /// How long each kind of wait may take, in seconds or as "5m".
    #[derive(Clone, Copy)]
    pub struct TimeoutEntry;
    /// How long each kind of wait may take at most.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Timeouts;

    /// A caller's wait for a connection. It is at least 1.5 times as long as the last start took, up to 55 s.
    #[schemars(extend("default" = 20, "examples" = ["45s"]))]
    wait: TimeoutValue => Duration = Duration::from_secs(20),
    /// Starting the program or opening the connection.
    #[schemars(extend("default" = 5))]
    connect: TimeoutValue => Duration = Duration::from_secs(5),
    /// The answer to `initialize`. 60 s for a local program, 5 s for a remote server.
    #[schemars(extend("examples" = ["2m"]))]
    initialize: TimeoutValue => Option<Duration> = None,
    /// One page of a list.
    #[schemars(extend("default" = 5))]
    list: TimeoutValue => Duration = Duration::from_secs(5),
    /// A tool call without progress. On stdio, a call whose client asks for no progress has 1 h, unless this is set.
    #[schemars(extend("default" = 300, "examples" = ["1h"]))]
    tools: TimeoutValue => Duration = Duration::from_secs(300),
    /// A request about resources.
    #[schemars(extend("default" = 60))]
    resources: TimeoutValue => Duration = Duration::from_secs(60),
    /// A request about prompts.
    #[schemars(extend("default" = 60))]
    prompts: TimeoutValue => Duration = Duration::from_secs(60),
}

config_keys! {
    /// What to request from a server. Everything is requested by default.
    #[derive(Clone, Copy)]
    pub struct FeaturesEntry;
    /// What is requested from a server; a feature that is `false` is not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features;

    /// Whether to request tools.
    #[schemars(extend("default" = true))]
    tools: bool => bool = true,
    /// Whether to request resources.
    #[schemars(extend("default" = true))]
    resources: bool => bool = true,
    /// Whether to request prompts.
    #[schemars(extend("default" = true))]
    prompts: bool => bool = true,
}

config_keys! {
    /// How to log in to a remote server.
    pub struct OAuthEntry;
    /// How to log in to a remote server.
    #[derive(Clone, PartialEq, Eq)]
    pub struct OAuthConfig;

    /// Who logs in: a person with a browser (`"browser"`), or dynamic-mcp itself with `client_secret` or `private_key`
    /// (`"client_credentials"`).
    #[schemars(extend("default" = "browser"))]
    flow: OAuthFlow => OAuthFlow = OAuthFlow::Browser,
    /// The id of a client that you registered. Without it, a client is registered at login.
    #[schemars(extend("examples" = ["my-client"]))]
    client_id: String => Option<String> = None,
    /// The secret of that client, if it has one.
    #[schemars(extend("examples" = ["${CLIENT_SECRET}"]))]
    client_secret: String => Option<String> = None,
    /// For `"client_credentials"`: a private key (PEM, PKCS #8: EC P-256, Ed25519 or RSA) in place of a secret.
    #[schemars(extend("examples" = ["{file:key.pem}"]))]
    private_key: String => Option<String> = None,
    /// The https URL of your Client ID Metadata Document, for servers that accept one in place of a registration.
    #[schemars(extend("examples" = ["https://example.com/client.json"]))]
    client_metadata_url: String => Option<String> = None,
    /// The authorization server that may get the client's id, secret and tokens. Without it, the one of the first login.
    #[schemars(extend("examples" = ["https://login.example.com"]))]
    issuer: String => Option<String> = None,
    /// The scopes to request: a list, or words in one string. Also `scope`.
    #[schemars(extend("examples" = [["read", "write"], "read write"]))]
    scopes: WordList => Vec<String> = Vec::new(); [also(&["scope"])],
    /// The port of this machine that the browser returns to. Without it, any free port. Also `callback_port`.
    #[schemars(with = "Option<NonZeroU16>", extend("examples" = [8080]))]
    redirect_port: u16 => Option<u16> = None; [also(&["callback_port"])],
    /// False allows servers that do not declare support for PKCE (Microsoft Entra and Amazon Cognito do not). PKCE is
    /// used in any case.
    #[schemars(extend("default" = true))]
    require_pkce: bool => bool = true,
    /// True allows the server to send the login to private addresses, such as a company's own.
    #[schemars(extend("default" = false))]
    allow_private_addresses: bool => bool = false,
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
