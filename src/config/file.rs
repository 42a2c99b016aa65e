//! The shape of a config file, as users write it. The doc comments of its fields are the descriptions in
//! `config-schema.json`. What they mean for the program is settled in `load`.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroUsize};

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

pub use values::{Command, Glob, InheritEnv, Kind, Period, Startup, Wait, Words};

mod values;

/// The JSON Schema of the file, made from the types below.
pub const SCHEMA: &str = include_str!("../../config-schema.json");

/// The MCP servers behind dynamic-mcp, and its settings.
#[derive(JsonSchema)]
#[schemars(title = "dynamic-mcp configuration", rename_all = "camelCase")]
#[schemars(extend("anyOf" = [
    {"required": ["mcpServers"]}, {"required": ["servers"]}, {"required": ["mcp"]}, {"required": ["settings"]}
]))]
#[expect(
    dead_code,
    reason = "read piece by piece, so that one bad server does not hide the others; this is its schema"
)]
pub struct File {
    /// The servers by name. OpenCode's `mcp` is read as well.
    mcp_servers: Option<BTreeMap<String, Server>>,
    /// The servers by name, as VS Code writes it.
    servers: Option<BTreeMap<String, Server>>,
    /// Defaults for every server, and what concerns dynamic-mcp itself.
    settings: Option<Settings>,
}

/// One MCP server: a program (`command`) or a remote one (`url`).
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [
    {"required": ["command"]}, {"required": ["url"]}, {"required": ["httpUrl"]}, {"required": ["serverUrl"]}
]))]
pub struct Server {
    /// The program to start. A list is the program and its first arguments.
    pub command: Option<Command>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Its environment variables, beside those it inherits.
    #[serde(alias = "environment")]
    pub env: Option<BTreeMap<String, String>>,
    /// A file of NAME=VALUE lines with more of its environment; `env` wins. Relative to the config file's directory.
    #[serde(alias = "envFile")]
    pub env_file: Option<String>,
    /// The directory it is started in. Relative to the config file's directory.
    pub cwd: Option<String>,
    /// Which of our own environment variables it gets: only the harmless ones (false), all (true), or these too.
    #[serde(alias = "inheritEnv")]
    pub inherit_env: Option<InheritEnv>,

    /// The address of a remote server.
    #[serde(alias = "serverUrl", alias = "server_url")]
    pub url: Option<String>,
    /// The address of a remote server that speaks Streamable HTTP.
    #[serde(rename = "httpUrl", alias = "http_url")]
    pub http_url: Option<String>,
    /// How the server is reached. Needed only to rule out the other HTTP transport.
    #[serde(rename = "type", alias = "transport", alias = "transportType")]
    pub kind: Option<Kind>,
    /// HTTP headers sent with every request.
    pub headers: Option<BTreeMap<String, String>>,
    /// A file of certificates (PEM) that the server may be certified by, beside those the system trusts. Relative to
    /// the config file's directory.
    #[serde(alias = "caFile")]
    pub ca_file: Option<String>,
    /// How to log in, where the server does not say it all itself. True or false, as OpenCode writes it, is ignored.
    #[serde(default)]
    #[schemars(schema_with = "object_or_boolean::<OAuth>")]
    pub oauth: Option<OAuth>,
    /// The same as `oauth.client_id`.
    #[serde(alias = "oauthClientId")]
    pub oauth_client_id: Option<String>,
    /// The same as `oauth.scopes`.
    #[serde(alias = "oauthScopes")]
    pub oauth_scopes: Option<Words>,

    /// What the server is for, in one line for the model.
    pub description: Option<String>,
    /// False leaves the server out.
    pub enabled: Option<bool>,
    /// True leaves the server out, as other clients write it.
    pub disabled: Option<bool>,
    /// When to connect: at start and for good ("eager", or false), at start for the list of tools and then on use
    /// ("hybrid", the default), or on first use ("pure").
    #[serde(alias = "lazyStartup")]
    pub lazy_startup: Option<Startup>,
    /// How long an unused connection is kept, in seconds or as "5m"; 0 keeps it for ever. Default 300.
    #[serde(alias = "idleTimeout")]
    pub idle_timeout: Option<Period>,
    /// The server keeps state between calls (a browser, a terminal): never close it for being idle.
    pub stateful: Option<bool>,
    /// How long to wait for what. A plain number is ignored: clients do not agree whether it counts seconds or
    /// milliseconds, nor of what.
    #[serde(default)]
    #[schemars(schema_with = "object_or_number::<Timeout>")]
    pub timeout: Option<Timeout>,
    /// What to ask the server for.
    pub features: Option<Features>,
    /// Which of its tools may be used, and how.
    pub tools: Option<Tools>,
    /// The only tools that may be used, by name, as Gemini CLI writes it. Added to `tools.allow`.
    #[serde(
        rename = "includeTools",
        alias = "include_tools",
        alias = "enabledTools",
        alias = "enabled_tools"
    )]
    pub include_tools: Option<Vec<String>>,
    /// Tools that may not be used, by name, as Gemini CLI writes it. Added to `tools.deny`.
    #[serde(
        rename = "excludeTools",
        alias = "exclude_tools",
        alias = "disabledTools",
        alias = "disabled_tools"
    )]
    pub exclude_tools: Option<Vec<String>>,
    /// Tools (globs) that are listed themselves, beside the tools of dynamic-mcp.
    pub expose: Option<Vec<Glob>>,
}

/// Defaults for every server, and what concerns dynamic-mcp itself.
#[derive(Default, Deserialize, JsonSchema)]
pub struct Settings {
    /// When servers connect, where they do not say it themselves. Default "hybrid".
    #[serde(alias = "lazyStartup")]
    pub lazy_startup: Option<Startup>,
    /// How long an unused connection is kept, in seconds or as "5m"; 0 keeps it for ever. Default 300.
    #[serde(alias = "idleTimeout")]
    pub idle_timeout: Option<Period>,
    /// Whether servers keep state between calls. Default false.
    pub stateful: Option<bool>,
    /// How long to wait for what.
    pub timeout: Option<Timeout>,
    /// What to ask the servers for.
    pub features: Option<Features>,
    /// Which tools may be used, and how. A list that a server has itself replaces the one given here.
    pub tools: Option<Tools>,
    /// Tools (globs) that are listed themselves, beside the tools of dynamic-mcp.
    pub expose: Option<Vec<Glob>>,
    /// Which of our own environment variables programs get: only the harmless ones (false), all (true), or these too.
    #[serde(alias = "inheritEnv")]
    pub inherit_env: Option<InheritEnv>,

    /// What a client sees listed: the tools of dynamic-mcp ("meta", the default) or all tools of all servers ("flat").
    pub surface: Option<Surface>,
    /// Tokens that the full definitions of a server's tools may take before they are shortened. Default 2000.
    #[serde(alias = "toolsBudget")]
    pub tools_budget: Option<usize>,
    /// Tokens for the names of tools in the description of `get_dynamic_tools`. Default 600.
    #[serde(alias = "namesBudget")]
    pub names_budget: Option<usize>,
    /// Bytes that one message may have; a call with a longer answer fails. Default 33554432 (32 MiB).
    #[serde(alias = "maxMessageBytes")]
    pub max_message_bytes: Option<NonZeroUsize>,
    /// Whether a hybrid server whose tools are known from the last day is asked again at start ("always") or not
    /// ("cached", the default).
    pub discovery: Option<Discovery>,
    /// Whether logins are kept in the system's keyring, where there is one that works; false: in files. Read at start.
    /// Default true.
    pub keyring: Option<bool>,
}

/// Login to a remote server.
#[derive(Default, Deserialize, JsonSchema)]
pub struct OAuth {
    /// Who logs in: a person in a browser ("browser", the default), or this program by itself with `client_secret` or
    /// `private_key` ("client_credentials").
    pub flow: Option<Flow>,
    /// The id of a client registered by hand; without it one is registered at login.
    #[serde(alias = "clientId")]
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    #[serde(alias = "clientSecret")]
    pub client_secret: Option<String>,
    /// For "client_credentials": a private key (PEM, PKCS #8: EC P-256, Ed25519 or RSA) in place of a secret. Best
    /// written as "{file:key.pem}".
    #[serde(alias = "privateKey")]
    pub private_key: Option<String>,
    /// The https URL of a Client ID Metadata Document of yours, for servers that take one in place of a registration.
    #[serde(alias = "clientMetadataUrl")]
    pub client_metadata_url: Option<String>,
    /// What to ask for: a list, or words in one string.
    #[serde(alias = "scope")]
    pub scopes: Option<Words>,
    /// The port on this machine that the browser comes back to; without it any free one.
    #[serde(alias = "redirectPort", alias = "callback_port", alias = "callbackPort")]
    pub redirect_port: Option<NonZeroU16>,
    /// False logs in at servers that do not say that they know PKCE (Microsoft Entra and Amazon Cognito do not). It is
    /// used in any case. Default true.
    #[serde(alias = "requirePkce")]
    pub require_pkce: Option<bool>,
    /// True lets the server send us to private addresses for the login, such as a company's own. Default false.
    #[serde(alias = "allowPrivateAddresses")]
    pub allow_private_addresses: Option<bool>,
}

/// Who logs in.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// A person in a browser.
    Browser,
    /// This program by itself.
    ClientCredentials,
}

/// How long to wait, each in seconds or as "5m".
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub struct Timeout {
    /// A caller for a connection. Default 20.
    pub wait: Option<Wait>,
    /// For the program to start or the connection to open. Default 5.
    pub connect: Option<Wait>,
    /// For the answer to `initialize`. Default 60 for a program, 5 for a remote server.
    pub initialize: Option<Wait>,
    /// For one page of a list. Default 5.
    pub list: Option<Wait>,
    /// For a tool call without progress. Default 300.
    pub tools: Option<Wait>,
    /// For the answer to a request about resources. Default 60.
    pub resources: Option<Wait>,
    /// For the answer to a request about prompts. Default 60.
    pub prompts: Option<Wait>,
}

/// What to ask a server for; all by default.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub struct Features {
    /// Tools.
    pub tools: Option<bool>,
    /// Resources.
    pub resources: Option<bool>,
    /// Prompts.
    pub prompts: Option<bool>,
}

/// Rules for tools: globs over the names that the server gives them.
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub struct Tools {
    /// The only ones that may be used; none given: all.
    pub allow: Option<Vec<Glob>>,
    /// Never listed, found or called.
    pub deny: Option<Vec<Glob>>,
    /// The user is asked before each call.
    pub ask: Option<Vec<Glob>>,
    /// Taken as read-only whatever the server says.
    #[serde(alias = "readOnly")]
    pub read_only: Option<Vec<Glob>>,
}

/// What a client sees listed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Surface {
    /// The tools of dynamic-mcp.
    Meta,
    /// All tools of all servers.
    Flat,
}

/// Whether known tools are asked for again at start.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// Only those of servers not asked for a day.
    Cached,
    /// All.
    Always,
}

/// Fields that other clients write and that mean nothing here: what a user confirmed once, where a server came
/// from, how it is shown.
const FOREIGN: &[&str] = &[
    "$schema",
    "alwaysAllow",
    "autoApprove",
    "dev",
    "gallery",
    "icon",
    "id",
    "inputs",
    "name",
    "redirectUri",
    "redirect_uri",
    "request",
    "sandbox",
    "sandboxEnabled",
    "source",
    "startup",
    "trust",
    "version",
];

/// Whether a field is one that other clients write and we ignore.
pub(super) fn is_foreign(name: &str) -> bool {
    FOREIGN.contains(&name)
}

/// Whether a server's field of ours has the form that other clients give it, which we ignore.
pub(super) fn has_foreign_form(name: &str, value: &Value<'_>) -> bool {
    matches!((name, value), ("timeout", Value::NumberLit(_)) | ("oauth", Value::BooleanLit(_)))
}

fn object_or_number<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<T>();
    json_schema!({"anyOf": [object, {"type": "number"}, {"type": "null"}]})
}

fn object_or_boolean<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<T>();
    json_schema!({"anyOf": [object, {"type": "boolean"}, {"type": "null"}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_in_the_repository_is_the_one_of_the_types() {
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(File)).unwrap() + "\n";
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
