//! The shape of a config file, as users write it.
//!
//! # Theory of operation
//!
//! These types have one field for each field of the file, all optional. How they are read (`value_reader`) and
//! `config-schema.json` are both derived from them, so the doc comments here are what users read in their editors. `keys` has the keys with a
//! default, which also say what the program uses; `choices` has the values that are one of several words, and `values`
//! has values that can be written in more than one way. A server entry is one flat struct rather than an enum of local
//! and remote servers, because an error says more if it is known which field is wrong. Which fields go together, and what
//! the program makes of those without a default, is settled in `load`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use keys::{CommonEntry, InstanceEntry, OAuthEntry, TimeoutEntry};
use profiles::ProfileEntry;
use tools::ToolsEntry;
use values::{CommandLine, InheritEnv, TransportType, WordList};

use super::fields::CacheKeyPart::{AsResolved, AsWritten};
use super::fields::{is_boolean, is_number};
use super::object::config_object;

pub(super) mod choices;
pub mod keys;
pub(super) mod profiles;
pub(super) mod tools;
pub mod values;

/// The JSON Schema of config files, made from the types below.
pub const SCHEMA: &str = include_str!("../../../config-schema.json");

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

config_object! {
    /// One MCP server: a local program (`command`) or a remote server (`url`).
    #[schemars(extend("oneOf" = [
        {"required": ["command"]}, {"required": ["url"]}, {"required": ["httpUrl"]}, {"required": ["serverUrl"]}
    ]))]
    pub struct ServerEntry {
        /// The program to start. A list is the program and its first arguments.
        #[schemars(extend("examples" = ["npx", ["uvx", "mcp-server-time"]]))]
        command: Option<CommandLine> [stdio()],
        /// The program's arguments, after those in `command`. No shell reads them.
        #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-memory"]]))]
        args: Option<Vec<String>> [stdio()],
        /// Environment variables for the program, in addition to those it inherits. Also `environment`.
        #[schemars(extend("examples" = [{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}]))]
        env: Option<BTreeMap<String, String>> [stdio().also(&["environment"])],
        /// A file with more environment variables; `env` overrides it. A relative path starts at the config file's
        /// directory, and `~` is the home directory. The file may be a FIFO of a password manager, which is read for
        /// 2 s, up to 1 MiB. The config file and the files of `{file:…}` may be FIFOs, too.
        #[schemars(extend("examples" = ["github.env"]))]
        env_file: Option<String> [stdio()],
        /// The program's working directory. A relative path starts at the config file's directory, and `~` is the home
        /// directory.
        #[schemars(extend("examples" = ["~/projects/shop"]))]
        cwd: Option<String> [stdio()],
        /// Which environment variables of dynamic-mcp the program inherits: only safe ones, which hold no secrets (false),
        /// all (true), or the safe ones and those listed.
        #[schemars(extend("default" = false, "examples" = [["GITHUB_TOKEN"]]))]
        inherit_env: Option<InheritEnv> [stdio().cached(AsResolved)],

        /// The address of a remote server, which starts with `http://` or `https://`. Also `serverUrl`.
        #[schemars(extend("examples" = ["https://mcp.example.com/mcp"]))]
        url: Option<String> [remote().also(&["server_url"])],
        /// The same as `url`, as Gemini CLI writes it. It implies `"type": "http"`.
        #[schemars(rename = "httpUrl")]
        #[schemars(extend("examples" = ["https://mcp.example.com/mcp"]))]
        http_url: Option<String> [remote().named("httpUrl")],
        /// The transport. A remote server needs it only to choose between `"http"` (Streamable HTTP; also
        /// `"streamable-http"`) and `"sse"` (HTTP+SSE). If the chosen one does not work, the other one is used with a
        /// warning. Without a choice, or with `"remote"`, Streamable HTTP is tried first, and HTTP+SSE if the server
        /// answers with 400, 404, 405, 406 or 415. A local program needs none; `"stdio"` and `"local"` are accepted.
        /// Also `transport` and `transportType`.
        #[schemars(rename = "type")]
        #[schemars(extend("examples" = ["http"]))]
        transport_type: Option<TransportType> [named("type").also(&["transport", "transport_type"]).cached(AsWritten)],
        /// HTTP headers sent with every request.
        #[schemars(extend("examples" = [{"Authorization": "Bearer ${WIKI_TOKEN}"}]))]
        headers: Option<BTreeMap<String, String>> [remote()],
        /// A PEM file of certificates to trust for this server, in addition to those the system trusts. A relative path
        /// starts at the config file's directory.
        #[schemars(extend("examples" = ["company-ca.pem"]))]
        ca_file: Option<String> [remote()],
        /// How to log in, if the server itself does not say so. `true` or `false`, as OpenCode writes it, is ignored.
        #[schemars(default)]
        #[schemars(schema_with = "object_or_boolean::<OAuthEntry>")]
        #[schemars(extend("examples" = [{"client_id": "my-client", "redirect_port": 8080}]))]
        oauth: Option<OAuthEntry> [remote().ignoring(is_boolean)],
        /// The same as `oauth.client_id`, which takes precedence.
        oauth_client_id: Option<String> [remote()],
        /// The same as `oauth.scopes`, which takes precedence.
        oauth_scopes: Option<WordList> [remote()],

        /// What the server is for, in one line. The model reads it.
        #[schemars(extend("examples" = ["Issues and pull requests"]))]
        description: Option<String>,
        /// False disables the server. The rest of the entry is then not read.
        #[schemars(extend("default" = true))]
        enabled: Option<bool>,
        /// True disables the server, as other clients write it.
        #[schemars(extend("default" = false))]
        disabled: Option<bool>,
        /// The keys that `settings` may give for all servers.
        #[schemars(flatten)]
        common: CommonEntry [embeds(CommonEntry::FIELDS)],
        /// How long each kind of wait may take. A plain number is ignored, because clients disagree on its unit
        /// (seconds or milliseconds) and on what it limits.
        #[schemars(default)]
        #[schemars(schema_with = "object_or_number::<TimeoutEntry>")]
        #[schemars(extend("examples" = [{"initialize": "2m", "tools": 600}]))]
        timeout: Option<TimeoutEntry> [ignoring(is_number)],
        /// Which tools of the server may be used, and how. A list, as Copilot CLI writes it, has the names of the only
        /// tools that may be used, or `"*"`.
        #[schemars(default)]
        #[schemars(schema_with = "object_or_list::<ToolsEntry>")]
        #[schemars(extend("examples" = [{"allow": ["get_*"], "ask": ["delete_*"]}]))]
        tools: Option<ToolsEntry>,
        /// The only tools that may be used, by name, as Gemini CLI writes it; an empty list allows none. Added to `tools.allow`. Also `enabledTools`.
        #[schemars(rename = "includeTools")]
        #[schemars(extend("examples" = [["get_issue"]]))]
        include_tools: Option<Vec<String>> [named("includeTools").also(&["enabled_tools"])],
        /// Tools that may not be used, by name, as Gemini CLI writes it. Added to `tools.deny`. Also `disabledTools`.
        #[schemars(rename = "excludeTools")]
        #[schemars(extend("examples" = [["delete_repo"]]))]
        exclude_tools: Option<Vec<String>> [named("excludeTools").also(&["disabled_tools"])],
    }
}

config_object! {
    /// Defaults for every server, and settings of dynamic-mcp itself.
    pub struct SettingsEntry {
        /// The defaults of the keys that every server may have.
        #[schemars(flatten)]
        common: CommonEntry [embeds(CommonEntry::FIELDS)],
        /// How long each kind of wait may take.
        #[schemars(extend("examples" = [{"wait": "45s"}]))]
        timeout: Option<TimeoutEntry>,
        /// Which tools may be used, and how. A list in a server's own `tools` replaces the one given here.
        #[schemars(extend("examples" = [{"ask": ["delete_*"]}]))]
        tools: Option<ToolsEntry>,
        /// Which environment variables of dynamic-mcp local programs inherit: only safe ones, which hold no secrets
        /// (false), all (true), or the safe ones and those listed.
        #[schemars(extend("default" = false, "examples" = [["HTTP_TIMEOUT"]]))]
        inherit_env: Option<InheritEnv>,
        /// The settings of dynamic-mcp itself.
        #[schemars(flatten)]
        instance: InstanceEntry [embeds(InstanceEntry::FIELDS)],
    }
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
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config-schema.json");
            std::fs::write(path, &schema).unwrap();
        } else {
            assert!(
                schema == SCHEMA.replace("\r\n", "\n"),
                "config-schema.json is out of date: run `UPDATE_SCHEMA=1 cargo test -p dynamic-mcp-config` and commit it"
            );
        }
    }
}
