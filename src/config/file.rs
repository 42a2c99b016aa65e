//! The shape of a config file, as users write it.
//!
//! # Theory of operation
//!
//! These types have one field for each field of the file, all optional, and `values` has the types of values that can
//! be written in more than one way. Both the deserializer and `config-schema.json` are derived from them, so the doc
//! comments here are what users read in their editors. A field has one name here; `fields` lists its aliases. A server
//! entry is one flat struct rather than an enum of local and remote servers, because serde's errors for untagged enums
//! say nothing useful. Which fields go together, which defaults apply and what the program makes of them is settled in
//! `load`.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroUsize};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use profiles::ProfileEntry;
use tools::ToolsEntry;
use values::{
    CommandLine, DurationValue, GlobPattern, InheritEnvValue, StartupMode, StoreAboveValue, TimeoutValue,
    TransportType, WordList,
};

pub(super) mod profiles;
pub(super) mod tools;
pub(crate) mod values;

/// The JSON Schema of config files, made from the types below.
pub const SCHEMA: &str = include_str!("../../config-schema.json");

/// The MCP servers that dynamic-mcp serves, and its settings.
#[derive(JsonSchema)]
#[schemars(title = "dynamic-mcp configuration", rename_all = "camelCase")]
#[schemars(extend("$id" = "urn:dynamic-mcp:config-schema"))]
#[schemars(extend("anyOf" = [
    {"required": ["mcpServers"]}, {"required": ["servers"]}, {"required": ["mcp"]}, {"required": ["settings"]},
    {"required": ["profiles"]}
]))]
#[expect(
    dead_code,
    reason = "read piece by piece, so that one bad server does not hide the others; this is its schema"
)]
pub struct ConfigFile {
    /// The servers, by name. The key `mcp` of OpenCode is also read.
    mcp_servers: Option<BTreeMap<String, ServerEntry>>,
    /// The servers, by name, as VS Code writes them.
    servers: Option<BTreeMap<String, ServerEntry>>,
    /// Defaults for every server, and settings of dynamic-mcp itself.
    settings: Option<SettingsEntry>,
    /// Profiles by name. With `--profile NAME` only the servers that the profile chooses are used. A profile is a list of
    /// globs, in which `!` before a glob excludes, or an object.
    #[schemars(default, schema_with = "profiles::schema")]
    #[schemars(extend("examples" = [{"work": ["*", "!github"], "reading": {"servers": ["docs*"]}}]))]
    profiles: Option<BTreeMap<String, ProfileEntry>>,
}

/// One MCP server: a local program (`command`) or a remote server (`url`).
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [
    {"required": ["command"]}, {"required": ["url"]}, {"required": ["httpUrl"]}, {"required": ["serverUrl"]}
]))]
pub struct ServerEntry {
    /// The program to start. A list is the program and its first arguments.
    #[schemars(extend("examples" = ["npx", ["uvx", "mcp-server-time"]]))]
    pub command: Option<CommandLine>,
    /// The program's arguments, after those in `command`. No shell reads them.
    #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-memory"]]))]
    pub args: Option<Vec<String>>,
    /// Environment variables for the program, in addition to those it inherits. Also `environment`.
    #[schemars(extend("examples" = [{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}]))]
    pub env: Option<BTreeMap<String, String>>,
    /// A file with more environment variables; `env` overrides it. A relative path starts at the config file's
    /// directory, and `~` is the home directory. It may be a FIFO of a password manager, as may the config file and the
    /// files of `{file:…}`: it is read for 2 s, up to 1 MB.
    #[schemars(extend("examples" = ["github.env"]))]
    pub env_file: Option<String>,
    /// The program's working directory. A relative path starts at the config file's directory, and `~` is the home
    /// directory.
    #[schemars(extend("examples" = ["~/projects/shop"]))]
    pub cwd: Option<String>,
    /// Which environment variables of dynamic-mcp the program inherits: only safe ones, which hold no secrets (false),
    /// all (true), or the safe ones and those listed.
    #[schemars(extend("default" = false, "examples" = [["GITHUB_TOKEN"]]))]
    pub inherit_env: Option<InheritEnvValue>,

    /// The address of a remote server, which starts with `http://` or `https://`. Also `serverUrl`.
    #[schemars(extend("examples" = ["https://mcp.example.com/mcp"]))]
    pub url: Option<String>,
    /// The same, as Gemini CLI writes it. It implies `"type": "http"`.
    #[serde(rename = "httpUrl")]
    #[schemars(extend("examples" = ["https://mcp.example.com/mcp"]))]
    pub http_url: Option<String>,
    /// The transport. A remote server needs it only to choose between `"http"` (Streamable HTTP; also
    /// `"streamable-http"`) and `"sse"` (HTTP+SSE). Without it, or with `"remote"`, Streamable HTTP is tried first, and
    /// HTTP+SSE if the server answers with 400, 404, 405, 406 or 415. The other one is used with a warning. A local
    /// program needs none; `"stdio"` and `"local"` are accepted. Also `transport` and `transportType`.
    #[serde(rename = "type")]
    #[schemars(extend("examples" = ["http"]))]
    pub transport_type: Option<TransportType>,
    /// HTTP headers sent with every request.
    #[schemars(extend("examples" = [{"Authorization": "Bearer ${WIKI_TOKEN}"}]))]
    pub headers: Option<BTreeMap<String, String>>,
    /// A PEM file of certificates to trust for this server, in addition to those the system trusts. A relative path
    /// starts at the config file's directory.
    #[schemars(extend("examples" = ["company-ca.pem"]))]
    pub ca_file: Option<String>,
    /// How to log in, where the server itself does not say so. `true` or `false`, as OpenCode writes it, is ignored.
    #[serde(default)]
    #[schemars(schema_with = "object_or_boolean::<OAuthEntry>")]
    #[schemars(extend("examples" = [{"client_id": "my-client", "redirect_port": 8080}]))]
    pub oauth: Option<OAuthEntry>,
    /// The same as `oauth.client_id`, which takes precedence.
    pub oauth_client_id: Option<String>,
    /// The same as `oauth.scopes`, which takes precedence.
    pub oauth_scopes: Option<WordList>,

    /// What the server is for, in one line. The model reads it.
    #[schemars(extend("examples" = ["Issues and pull requests"]))]
    pub description: Option<String>,
    /// False disables the server. The rest of the entry is then not read.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
    /// True disables the server, as other clients write it.
    #[schemars(extend("default" = false))]
    pub disabled: Option<bool>,
    /// When to connect: at start and permanently (`"eager"`, or `false`), at start to list the tools if they are not
    /// known and then on use (`"hybrid"`), or on first use (`"pure"`).
    #[schemars(extend("default" = "hybrid", "examples" = ["eager"]))]
    pub lazy_startup: Option<StartupMode>,
    /// How long an unused connection is kept; 0 keeps it open. Has no effect with `"eager"` or `stateful`.
    #[schemars(extend("default" = 300, "examples" = ["10m", 0]))]
    pub idle_timeout: Option<DurationValue>,
    /// True if the server keeps state between calls, as a browser or a terminal does. It is then never closed for
    /// being idle, and if its connection was lost, the next call reports this.
    #[schemars(extend("default" = false))]
    pub stateful: Option<bool>,
    /// Which of your windows use one process of a local server: none (`"client"`), those that start it in the same
    /// directory (`"directory"`), all (`"user"`), or those in the same directory if the server is known to be shareable
    /// (`"auto"`). Has no effect if `stateful` is true.
    #[schemars(extend("default" = "auto", "examples" = ["user"]))]
    pub share: Option<ShareValue>,
    /// Whether `npx` and `uvx` keep running beside the server that they start (`"keep"`). With `"direct"` a package of an
    /// exact version is started without them, once they have shown how. Linux only.
    #[schemars(extend("default" = "keep", "examples" = ["direct"]))]
    pub launcher: Option<LauncherValue>,
    /// How long each kind of wait may take. A plain number is ignored: clients do not agree on whether it counts
    /// seconds or milliseconds, nor on what it limits.
    #[serde(default)]
    #[schemars(schema_with = "object_or_number::<TimeoutEntry>")]
    #[schemars(extend("examples" = [{"initialize": "2m", "tools": 600}]))]
    pub timeout: Option<TimeoutEntry>,
    /// What to request from the server.
    #[schemars(extend("examples" = [{"prompts": false}]))]
    pub features: Option<FeaturesEntry>,
    /// Which of its tools may be used, and how. A list has the names of the only tools that may be used, or `"*"`, as
    /// Copilot CLI writes it.
    #[serde(default)]
    #[schemars(schema_with = "object_or_list::<ToolsEntry>")]
    #[schemars(extend("examples" = [{"allow": ["get_*"], "ask": ["delete_*"]}]))]
    pub tools: Option<ToolsEntry>,
    /// The only tools that may be used, by name, as Gemini CLI writes it; an empty list allows none. Added to `tools.allow`. Also `enabledTools`.
    #[serde(rename = "includeTools")]
    #[schemars(extend("examples" = [["get_issue"]]))]
    pub include_tools: Option<Vec<String>>,
    /// Tools that may not be used, by name, as Gemini CLI writes it. Added to `tools.deny`. Also `disabledTools`.
    #[serde(rename = "excludeTools")]
    #[schemars(extend("examples" = [["delete_repo"]]))]
    pub exclude_tools: Option<Vec<String>>,
    /// Globs of tools that `tools/list` lists directly, as `GROUP__TOOL`, beside those of dynamic-mcp. For the few that
    /// are used all the time.
    #[schemars(extend("default" = [], "examples" = [["get_issue", "search_*"]]))]
    pub expose: Option<Vec<GlobPattern>>,
    /// Whether the server's own word counts when it marks a tool as read-only or repeatable. With false only
    /// `tools.read_only` counts.
    #[schemars(extend("default" = true))]
    pub trust_annotations: Option<bool>,
    /// True refuses a tool whose definition changed since it was first seen, and a new tool, until you accept it with
    /// `dynamic-mcp approve`.
    #[schemars(extend("default" = false))]
    pub pin_tools: Option<bool>,
    /// A result with more bytes of text is stored, and the client gets a preview of it. Parts of it are read with
    /// `call_dynamic_tool`. False stores none.
    #[schemars(extend("default" = false, "examples" = ["50kB", 10_000]))]
    pub store_above: Option<StoreAboveValue>,
}

/// Defaults for every server, and settings of dynamic-mcp itself.
#[derive(Default, Deserialize, JsonSchema)]
pub struct SettingsEntry {
    /// When servers connect, unless they say so themselves.
    #[schemars(extend("default" = "hybrid", "examples" = ["pure"]))]
    pub lazy_startup: Option<StartupMode>,
    /// How long an unused connection is kept; 0 keeps it open.
    #[schemars(extend("default" = 300, "examples" = ["10m"]))]
    pub idle_timeout: Option<DurationValue>,
    /// Whether servers keep state between calls.
    #[schemars(extend("default" = false))]
    pub stateful: Option<bool>,
    /// Which of your windows use one process of a local server, unless the server says so itself.
    #[schemars(extend("default" = "auto", "examples" = ["client"]))]
    pub share: Option<ShareValue>,
    /// Whether `npx` and `uvx` keep running beside the servers that they start, unless the server says so itself.
    #[schemars(extend("default" = "keep", "examples" = ["direct"]))]
    pub launcher: Option<LauncherValue>,
    /// How long each kind of wait may take.
    #[schemars(extend("examples" = [{"wait": "45s"}]))]
    pub timeout: Option<TimeoutEntry>,
    /// What to request from the servers.
    #[schemars(extend("examples" = [{"prompts": false}]))]
    pub features: Option<FeaturesEntry>,
    /// Which tools may be used, and how. A list in a server's own `tools` replaces the one given here.
    #[schemars(extend("examples" = [{"ask": ["delete_*"]}]))]
    pub tools: Option<ToolsEntry>,
    /// Globs of tools that `tools/list` lists directly, beside those of dynamic-mcp.
    #[schemars(extend("default" = []))]
    pub expose: Option<Vec<GlobPattern>>,
    /// Whether the servers' own word counts when they mark a tool as read-only or repeatable. With false only
    /// `tools.read_only` counts.
    #[schemars(extend("default" = true))]
    pub trust_annotations: Option<bool>,
    /// True refuses tools whose definition changed since it was first seen, and new tools, until you accept them with
    /// `dynamic-mcp approve`.
    #[schemars(extend("default" = false))]
    pub pin_tools: Option<bool>,
    /// A result with more bytes of text is stored, and the client gets a preview of it. False stores none.
    #[schemars(extend("default" = false, "examples" = ["50kB"]))]
    pub store_above: Option<StoreAboveValue>,
    /// Which environment variables of dynamic-mcp local programs inherit: only safe ones, which hold no secrets
    /// (false), all (true), or the safe ones and those listed.
    #[schemars(extend("default" = false, "examples" = [["HTTP_TIMEOUT"]]))]
    pub inherit_env: Option<InheritEnvValue>,

    /// What `tools/list` shows: the tools of dynamic-mcp (`"meta"`), or all tools of all servers (`"flat"`).
    #[schemars(extend("default" = "meta"))]
    pub surface: Option<SurfaceValue>,
    /// How many tokens (estimated at four bytes each) `get_dynamic_tools` may use for a group unless it is asked for
    /// more. It returns full definitions if they fit, else signatures if they fit and lose nothing, else names with one
    /// line each.
    #[schemars(extend("default" = 2000))]
    pub tools_budget: Option<usize>,
    /// How many tokens tool names may take in the description of `get_dynamic_tools`.
    #[schemars(extend("default" = 600))]
    pub names_budget: Option<usize>,
    /// The size limit of one message in bytes (32 MiB); above 0. A call with a longer answer fails. All messages
    /// together have 256 MB.
    #[schemars(extend("default" = 33_554_432))]
    pub max_message_bytes: Option<NonZeroUsize>,
    /// Which hybrid servers are started at start to list their tools: only those whose tools were not read within the
    /// last day (`"cached"`), or all (`"always"`).
    #[schemars(extend("default" = "cached"))]
    pub discovery: Option<DiscoveryValue>,
    /// Whether logins are kept in the system's keyring where one works, or always in files (false). Read only at start.
    #[schemars(extend("default" = true))]
    pub keyring: Option<bool>,
}

/// How to log in to a remote server.
#[derive(Default, Deserialize, JsonSchema)]
pub struct OAuthEntry {
    /// Who logs in: a person with a browser (`"browser"`), or dynamic-mcp itself with `client_secret` or `private_key`
    /// (`"client_credentials"`).
    #[schemars(extend("default" = "browser"))]
    pub flow: Option<FlowValue>,
    /// The id of a client that you registered. Without it, a client is registered at login.
    #[schemars(extend("examples" = ["my-client"]))]
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    #[schemars(extend("examples" = ["${CLIENT_SECRET}"]))]
    pub client_secret: Option<String>,
    /// For `"client_credentials"`: a private key (PEM, PKCS #8: EC P-256, Ed25519 or RSA) in place of a secret.
    #[schemars(extend("examples" = ["{file:key.pem}"]))]
    pub private_key: Option<String>,
    /// The https URL of your Client ID Metadata Document, for servers that accept one in place of a registration.
    #[schemars(extend("examples" = ["https://example.com/client.json"]))]
    pub client_metadata_url: Option<String>,
    /// The scopes to request: a list, or words in one string. Also `scope`.
    #[schemars(extend("examples" = [["read", "write"], "read write"]))]
    pub scopes: Option<WordList>,
    /// The port of this machine that the browser returns to. Without it, any free port. Also `callback_port`.
    #[schemars(extend("examples" = [8080]))]
    pub redirect_port: Option<NonZeroU16>,
    /// False allows servers that do not declare support for PKCE (Microsoft Entra and Amazon Cognito do not). PKCE is
    /// used in any case.
    #[schemars(extend("default" = true))]
    pub require_pkce: Option<bool>,
    /// True allows the server to send the login to private addresses, such as a company's own.
    #[schemars(extend("default" = false))]
    pub allow_private_addresses: Option<bool>,
}

/// Who logs in.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowValue {
    /// A person with a browser.
    Browser,
    /// dynamic-mcp itself, with a secret or a key.
    ClientCredentials,
}

/// How long each kind of wait may take, in seconds or as "5m".
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub struct TimeoutEntry {
    /// A caller's wait for a connection.
    #[schemars(extend("default" = 20, "examples" = ["45s"]))]
    pub wait: Option<TimeoutValue>,
    /// Starting the program or opening the connection.
    #[schemars(extend("default" = 5))]
    pub connect: Option<TimeoutValue>,
    /// The answer to `initialize`. 60 s for a local program, 5 s for a remote server.
    #[schemars(extend("examples" = ["2m"]))]
    pub initialize: Option<TimeoutValue>,
    /// One page of a list.
    #[schemars(extend("default" = 5))]
    pub list: Option<TimeoutValue>,
    /// A tool call without progress.
    #[schemars(extend("default" = 300, "examples" = ["1h"]))]
    pub tools: Option<TimeoutValue>,
    /// A request about resources.
    #[schemars(extend("default" = 60))]
    pub resources: Option<TimeoutValue>,
    /// A request about prompts.
    #[schemars(extend("default" = 60))]
    pub prompts: Option<TimeoutValue>,
}

/// What to request from a server. Everything is requested by default.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub struct FeaturesEntry {
    /// Whether to request tools.
    #[schemars(extend("default" = true))]
    pub tools: Option<bool>,
    /// Whether to request resources.
    #[schemars(extend("default" = true))]
    pub resources: Option<bool>,
    /// Whether to request prompts.
    #[schemars(extend("default" = true))]
    pub prompts: Option<bool>,
}

/// What clients see listed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SurfaceValue {
    /// The tools of dynamic-mcp.
    Meta,
    /// All tools of all servers.
    Flat,
}

/// Which windows use one process of a server.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShareValue {
    /// Those that start it in the same directory, if it is known to be shareable.
    Auto,
    /// None.
    Client,
    /// Those that start it in the same directory.
    Directory,
    /// All windows of the user.
    User,
}

/// Whether a launcher stays between dynamic-mcp and the server.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LauncherValue {
    /// It stays.
    Keep,
    /// It is left out where that is possible.
    Direct,
}

/// Which hybrid servers are asked for their tools at start.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiscoveryValue {
    /// Only those whose tools were not read within the last day.
    Cached,
    /// All of them.
    Always,
}

fn object_or_number<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<T>();
    json_schema!({"anyOf": [object, {"type": "number"}, {"type": "null"}]})
}

fn object_or_list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<T>();
    json_schema!({"anyOf": [object, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
}

fn object_or_boolean<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<T>();
    json_schema!({"anyOf": [object, {"type": "boolean"}, {"type": "null"}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_schema_json_is_generated_from_the_types() {
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(ConfigFile)).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config-schema.json");
            std::fs::write(path, &schema).unwrap();
        } else {
            assert!(
                schema == SCHEMA.replace("\r\n", "\n"),
                "config-schema.json is out of date: run `UPDATE_SCHEMA=1 cargo test config::file` and commit it"
            );
        }
    }
}
