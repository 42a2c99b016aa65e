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

use values::{
    CommandLine, DurationValue, GlobPattern, InheritEnvValue, StartupMode, TimeoutValue, TransportType,
    WordList,
};

pub(super) mod values;

/// The JSON Schema of config files, made from the types below.
pub const SCHEMA: &str = include_str!("../../config-schema.json");

/// The MCP servers that dynamic-mcp serves, and its settings.
#[derive(JsonSchema)]
#[schemars(title = "dynamic-mcp configuration", rename_all = "camelCase")]
#[schemars(extend("anyOf" = [
    {"required": ["mcpServers"]}, {"required": ["servers"]}, {"required": ["mcp"]}, {"required": ["settings"]}
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
}

/// One MCP server: a local program (`command`) or a remote server (`url`).
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [
    {"required": ["command"]}, {"required": ["url"]}, {"required": ["httpUrl"]}, {"required": ["serverUrl"]}
]))]
pub struct ServerEntry {
    /// The program to start. A list is the program and its first arguments.
    pub command: Option<CommandLine>,
    /// The program's arguments, after those in `command`.
    pub args: Option<Vec<String>>,
    /// Environment variables for the program, in addition to those it inherits.
    pub env: Option<BTreeMap<String, String>>,
    /// A file of NAME=VALUE lines with more environment variables; `env` overrides it. A relative path starts at the
    /// config file's directory.
    pub env_file: Option<String>,
    /// The program's working directory. A relative path starts at the config file's directory.
    pub cwd: Option<String>,
    /// Which environment variables of dynamic-mcp the program inherits: only safe ones, which hold no secrets (false,
    /// the default), all (true), or the safe ones and those listed.
    pub inherit_env: Option<InheritEnvValue>,

    /// The address of a remote server.
    pub url: Option<String>,
    /// The address of a remote server that speaks Streamable HTTP, as Gemini CLI writes it.
    #[serde(rename = "httpUrl")]
    pub http_url: Option<String>,
    /// The transport. A remote server needs it only to choose between "http" (Streamable HTTP) and "sse" (HTTP+SSE);
    /// without it both are tried.
    #[serde(rename = "type")]
    pub transport_type: Option<TransportType>,
    /// HTTP headers sent with every request.
    pub headers: Option<BTreeMap<String, String>>,
    /// A PEM file of certificates to trust for this server, in addition to those the system trusts. A relative path
    /// starts at the config file's directory.
    pub ca_file: Option<String>,
    /// How to log in, as far as the server does not say so itself. True or false, as OpenCode writes it, is ignored.
    #[serde(default)]
    #[schemars(schema_with = "object_or_boolean::<OAuthEntry>")]
    pub oauth: Option<OAuthEntry>,
    /// The same as `oauth.client_id`.
    pub oauth_client_id: Option<String>,
    /// The same as `oauth.scopes`.
    pub oauth_scopes: Option<WordList>,

    /// What the server is for, in one line. The model reads it.
    pub description: Option<String>,
    /// False disables the server.
    pub enabled: Option<bool>,
    /// True disables the server, as other clients write it.
    pub disabled: Option<bool>,
    /// When to connect: at start and permanently ("eager", or false), at start to list the tools and then on use
    /// ("hybrid", the default), or on first use ("pure").
    pub lazy_startup: Option<StartupMode>,
    /// How long an unused connection is kept, in seconds or as "5m"; 0 keeps it open. Default 300.
    pub idle_timeout: Option<DurationValue>,
    /// True if the server keeps state between calls, as a browser or a terminal does: it is never closed for being
    /// idle.
    pub stateful: Option<bool>,
    /// Which of your windows use one process of a local server: none ("client"), those that start it in the same
    /// directory ("directory"), all ("user"), or those in the same directory if the server is known to be shareable
    /// ("auto", the default). Has no effect if `stateful` is true.
    pub share: Option<ShareValue>,
    /// How long each kind of wait may take. A plain number is ignored: clients do not agree on whether it counts
    /// seconds or milliseconds, nor on what it limits.
    #[serde(default)]
    #[schemars(schema_with = "object_or_number::<TimeoutEntry>")]
    pub timeout: Option<TimeoutEntry>,
    /// What to request from the server.
    pub features: Option<FeaturesEntry>,
    /// Which of its tools may be used, and how. A list has the names of the only tools that may be used, or "*", as
    /// Copilot CLI writes it.
    #[serde(default)]
    #[schemars(schema_with = "object_or_list::<ToolsEntry>")]
    pub tools: Option<ToolsEntry>,
    /// The only tools that may be used, by name, as Gemini CLI writes it. Added to `tools.allow`.
    #[serde(rename = "includeTools")]
    pub include_tools: Option<Vec<String>>,
    /// Tools that may not be used, by name, as Gemini CLI writes it. Added to `tools.deny`.
    #[serde(rename = "excludeTools")]
    pub exclude_tools: Option<Vec<String>>,
    /// Globs of tools to list directly, beside the tools of dynamic-mcp.
    pub expose: Option<Vec<GlobPattern>>,
    /// Whether the server's own word counts when it marks a tool as read-only or repeatable. With false only
    /// `tools.read_only` counts. Default true.
    pub trust_annotations: Option<bool>,
    /// True refuses a tool whose definition changed since it was first seen, and a new tool, until you accept it with
    /// `dynamic-mcp approve`. Default false.
    pub pin_tools: Option<bool>,
}

/// Defaults for every server, and settings of dynamic-mcp itself.
#[derive(Default, Deserialize, JsonSchema)]
pub struct SettingsEntry {
    /// When servers connect, unless they say so themselves. Default "hybrid".
    pub lazy_startup: Option<StartupMode>,
    /// How long an unused connection is kept, in seconds or as "5m"; 0 keeps it open. Default 300.
    pub idle_timeout: Option<DurationValue>,
    /// Whether servers keep state between calls. Default false.
    pub stateful: Option<bool>,
    /// Which of your windows use one process of a local server, unless the server says so itself. Default "auto".
    pub share: Option<ShareValue>,
    /// How long each kind of wait may take.
    pub timeout: Option<TimeoutEntry>,
    /// What to request from the servers.
    pub features: Option<FeaturesEntry>,
    /// Which tools may be used, and how. A list in a server's own `tools` replaces the one given here.
    pub tools: Option<ToolsEntry>,
    /// Globs of tools to list directly, beside the tools of dynamic-mcp.
    pub expose: Option<Vec<GlobPattern>>,
    /// Whether the servers' own word counts when they mark a tool as read-only or repeatable. With false only
    /// `tools.read_only` counts. Default true.
    pub trust_annotations: Option<bool>,
    /// True refuses tools whose definition changed since it was first seen, and new tools, until you accept them with
    /// `dynamic-mcp approve`. Default false.
    pub pin_tools: Option<bool>,
    /// Which environment variables of dynamic-mcp local programs inherit: only safe ones, which hold no secrets (false,
    /// the default), all (true), or the safe ones and those listed.
    pub inherit_env: Option<InheritEnvValue>,

    /// What clients see listed: the tools of dynamic-mcp ("meta", the default) or all tools of all servers ("flat").
    pub surface: Option<SurfaceValue>,
    /// How many tokens the full definitions of a server's tools may take before shorter forms are given. Default 2000.
    pub tools_budget: Option<usize>,
    /// How many tokens tool names may take in the description of `get_dynamic_tools`. Default 600.
    pub names_budget: Option<usize>,
    /// The size limit of one message in bytes; a call with a longer answer fails. Default 33554432 (32 MiB).
    pub max_message_bytes: Option<NonZeroUsize>,
    /// Whether hybrid servers are asked for their tools at start even if these were read within the last day
    /// ("always"), or only otherwise ("cached", the default).
    pub discovery: Option<DiscoveryValue>,
    /// Whether logins are kept in the system's keyring where one works, or always in files (false). Read only at
    /// start. Default true.
    pub keyring: Option<bool>,
}

/// How to log in to a remote server.
#[derive(Default, Deserialize, JsonSchema)]
pub struct OAuthEntry {
    /// Who logs in: a person with a browser ("browser", the default), or dynamic-mcp itself with `client_secret` or
    /// `private_key` ("client_credentials").
    pub flow: Option<FlowValue>,
    /// The id of a client that you registered. Without it, a client is registered at login.
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    pub client_secret: Option<String>,
    /// For "client_credentials": a private key (PEM, PKCS #8: EC P-256, Ed25519 or RSA) in place of a secret. Best
    /// written as "{file:key.pem}".
    pub private_key: Option<String>,
    /// The https URL of your Client ID Metadata Document, for servers that accept one in place of a registration.
    pub client_metadata_url: Option<String>,
    /// The scopes to request: a list, or words in one string.
    pub scopes: Option<WordList>,
    /// The port of this machine that the browser returns to. Default: any free port.
    pub redirect_port: Option<NonZeroU16>,
    /// False allows servers that do not declare support for PKCE (Microsoft Entra and Amazon Cognito do not). PKCE is
    /// used in any case. Default true.
    pub require_pkce: Option<bool>,
    /// True allows the server to send the login to private addresses, such as a company's own. Default false.
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
    /// A caller's wait for a connection. Default 20.
    pub wait: Option<TimeoutValue>,
    /// Starting the program or opening the connection. Default 5.
    pub connect: Option<TimeoutValue>,
    /// The answer to `initialize`. Default 60 for a local program, 5 for a remote server.
    pub initialize: Option<TimeoutValue>,
    /// One page of a list. Default 5.
    pub list: Option<TimeoutValue>,
    /// A tool call without progress. Default 300.
    pub tools: Option<TimeoutValue>,
    /// A request about resources. Default 60.
    pub resources: Option<TimeoutValue>,
    /// A request about prompts. Default 60.
    pub prompts: Option<TimeoutValue>,
}

/// What to request from a server. Everything is requested by default.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub struct FeaturesEntry {
    /// Whether to request tools.
    pub tools: Option<bool>,
    /// Whether to request resources.
    pub resources: Option<bool>,
    /// Whether to request prompts.
    pub prompts: Option<bool>,
}

/// Rules for tools: globs over the names that the server gives them.
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub struct ToolsEntry {
    /// The only tools that may be used. Default: all.
    pub allow: Option<Vec<GlobPattern>>,
    /// Tools that are never listed, found or called.
    pub deny: Option<Vec<GlobPattern>>,
    /// Tools whose calls the user confirms one by one.
    pub ask: Option<Vec<GlobPattern>>,
    /// Tools that count as read-only whatever the server says.
    pub read_only: Option<Vec<GlobPattern>>,
    /// The same as `trust_annotations` beside `tools`, which takes precedence.
    pub trust_annotations: Option<bool>,
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
