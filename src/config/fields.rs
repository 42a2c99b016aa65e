//! The table of config fields. Everything that depends on a field's name is derived from it: the names that the
//! deserializer accepts and suggests, the errors for fields of the wrong kind of server, and the part of an entry that
//! identifies its server in the catalog cache.
//!
//! A field is read under its name and its aliases, and each of these both in snake_case and in camelCase.

use jsonc_parser::ast::Value;

use self::AppliesTo::{Any, Remote, Stdio};
use self::CacheKeyPart::{AsResolved, AsWritten, NotPart};

/// One field of an object in a config file.
pub(crate) struct ConfigField {
    /// The name in `config-schema.json` and in messages.
    pub(crate) name: &'static str,
    /// Other names, such as other clients use.
    aliases: &'static [&'static str],
    /// The kind of server that the field belongs to.
    pub(crate) applies_to: AppliesTo,
    /// Whether the field identifies a server in the catalog cache.
    pub(crate) cache_key: CacheKeyPart,
    /// Recognizes the values that other clients give the field and that are ignored here.
    is_ignored: fn(&Value<'_>) -> bool,
}

/// The kind of server that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppliesTo {
    /// Servers with a `command`.
    Stdio,
    /// Servers with a `url`.
    Remote,
    /// Servers of either kind, and objects that are not servers.
    Any,
}

/// How a field enters the key of a server's catalog in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheKeyPart {
    /// As the file writes it, with variables unexpanded.
    AsWritten,
    /// As it is after the defaults of `settings` were applied.
    AsResolved,
    /// Not at all.
    NotPart,
}

/// The top level of a file.
pub(crate) const FILE: &[ConfigField] = &[
    plain("mcpServers", &[]),
    plain("settings", &[]),
    plain("servers", &[]),
    plain("mcp", &[]),
    plain("profiles", &[]),
];

/// A server's entry.
#[rustfmt::skip]
pub(crate) const SERVER: &[ConfigField] = &[
    server("command",         &[],                              Stdio,  AsWritten),
    server("args",            &[],                              Stdio,  AsWritten),
    server("env",             &["environment"],                 Stdio,  AsWritten),
    server("env_file",        &[],                              Stdio,  AsWritten),
    server("cwd",             &[],                              Stdio,  AsWritten),
    server("inherit_env",     &[],                              Stdio,  AsResolved),
    server("url",             &["server_url"],                  Remote, AsWritten),
    server("httpUrl",         &[],                              Remote, AsWritten),
    server("type",            &["transport", "transport_type"], Any,    AsWritten),
    server("headers",         &[],                              Remote, AsWritten),
    server("ca_file",         &[],                              Remote, AsWritten),
    server("oauth",           &[],                              Remote, AsWritten).ignoring(is_boolean),
    server("oauth_client_id", &[],                              Remote, AsWritten),
    server("oauth_scopes",    &[],                              Remote, AsWritten),
    server("description",     &[],                              Any,    NotPart),
    server("enabled",         &[],                              Any,    NotPart),
    server("disabled",        &[],                              Any,    NotPart),
    server("lazy_startup",    &[],                              Any,    NotPart),
    server("idle_timeout",    &[],                              Any,    NotPart),
    server("stateful",        &[],                              Any,    NotPart),
    server("share",           &[],                              Any,    NotPart),
    server("launcher",        &[],                              Any,    NotPart),
    server("timeout",         &[],                              Any,    NotPart).ignoring(is_number),
    server("features",        &[],                              Any,    AsResolved),
    server("tools",           &[],                              Any,    NotPart),
    server("includeTools",    &["enabled_tools"],               Any,    NotPart),
    server("excludeTools",    &["disabled_tools"],              Any,    NotPart),
    server("expose",          &[],                              Any,    NotPart),
    server("trust_annotations", &[],                            Any,    NotPart),
    server("pin_tools",       &[],                              Any,    NotPart),
    server("store_above",     &[],                              Any,    NotPart),
];

const SETTINGS: &[ConfigField] = &[
    plain("lazy_startup", &[]),
    plain("idle_timeout", &[]),
    plain("stateful", &[]),
    plain("share", &[]),
    plain("launcher", &[]),
    plain("timeout", &[]),
    plain("features", &[]),
    plain("tools", &[]),
    plain("expose", &[]),
    plain("trust_annotations", &[]),
    plain("pin_tools", &[]),
    plain("store_above", &[]),
    plain("inherit_env", &[]),
    plain("surface", &[]),
    plain("tools_budget", &[]),
    plain("names_budget", &[]),
    plain("max_message_bytes", &[]),
    plain("discovery", &[]),
    plain("keyring", &[]),
];

const OAUTH: &[ConfigField] = &[
    plain("flow", &[]),
    plain("client_id", &[]),
    plain("client_secret", &[]),
    plain("private_key", &[]),
    plain("client_metadata_url", &[]),
    plain("scopes", &["scope"]),
    plain("redirect_port", &["callback_port"]),
    plain("require_pkce", &[]),
    plain("allow_private_addresses", &[]),
];

const TIMEOUT: &[ConfigField] = &[
    plain("wait", &[]),
    plain("connect", &[]),
    plain("initialize", &[]),
    plain("list", &[]),
    plain("tools", &[]),
    plain("resources", &[]),
    plain("prompts", &[]),
];

const FEATURES: &[ConfigField] = &[plain("tools", &[]), plain("resources", &[]), plain("prompts", &[])];

const TOOLS: &[ConfigField] = &[
    plain("allow", &[]),
    plain("deny", &[]),
    plain("ask", &[]),
    plain("read_only", &[]),
    plain("trust_annotations", &[]),
    plain("override", &[]),
];

const TOOL_OVERRIDE: &[ConfigField] =
    &[plain("name", &[]), plain("description", &[]), plain("hidden_args", &[])];

const PROFILE: &[ConfigField] = &[plain("servers", &[]), plain("tools", &[])];

const PROFILE_TOOLS: &[ConfigField] = &[plain("allow", &[]), plain("deny", &[]), plain("ask", &[])];

/// Fields that other clients write and that have no meaning here, in any object.
const IGNORED: &[&str] = &[
    "$schema",
    "alwaysAllow",
    "alwaysLoad",
    "alwaysLoadTools",
    "audiences",
    "authProviderType",
    "authServerMetadataUrl",
    "authorizationUrl",
    "autoApprove",
    "codemode",
    "deferTools",
    "dev",
    "disableToolCache",
    "experimental_environment",
    "extensionName",
    "gallery",
    "icon",
    "id",
    "inputs",
    "name",
    "oauth_resource",
    "protocol",
    "redirectUri",
    "redirect_uri",
    "request",
    "required",
    "sandbox",
    "sandboxEnabled",
    "source",
    "startup",
    "supports_parallel_tool_calls",
    "targetAudience",
    "targetServiceAccount",
    "tokenParamName",
    "tokenUrl",
    "trust",
    "version",
];

/// The fields of the object that is read as the type of `file` with this name; none if there is no such type.
pub(crate) fn of_type(name: &str) -> &'static [ConfigField] {
    match name {
        "ServerEntry" => SERVER,
        "SettingsEntry" => SETTINGS,
        "OAuthEntry" => OAUTH,
        "TimeoutEntry" => TIMEOUT,
        "FeaturesEntry" => FEATURES,
        "ToolsEntry" => TOOLS,
        "ToolOverrideEntry" => TOOL_OVERRIDE,
        "ProfileEntry" => PROFILE,
        "ProfileToolsEntry" => PROFILE_TOOLS,
        _ => &[],
    }
}

/// Finds the field that is meant by `name`, in any of its spellings.
pub(crate) fn find(fields: &'static [ConfigField], name: &str) -> Option<&'static ConfigField> {
    let find = |is_meant: fn(&str, &str) -> bool| {
        fields.iter().find(|field| field.names().any(|known| is_meant(known, name)))
    };
    // Nearly all names are written as they are here, and comparing them so is much faster.
    find(|known, name| known == name).or_else(|| find(is_spelling_of))
}

/// All names of all these fields; their own come before the aliases.
pub(crate) fn all_names(fields: &'static [ConfigField]) -> impl Iterator<Item = &'static str> {
    fields.iter().map(|field| field.name).chain(fields.iter().flat_map(|field| field.aliases).copied())
}

/// Returns whether other clients write a field of this name and we ignore it.
pub(crate) fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name)
}

impl ConfigField {
    /// The field's name and its aliases.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns whether the value has a form that only other clients give the field, which is ignored.
    pub(crate) fn ignores(&self, value: &Value<'_>) -> bool {
        (self.is_ignored)(value)
    }

    const fn ignoring(self, is_ignored: fn(&Value<'_>) -> bool) -> Self {
        Self { is_ignored, ..self }
    }
}

const fn server(
    name: &'static str,
    aliases: &'static [&'static str],
    applies_to: AppliesTo,
    cache_key: CacheKeyPart,
) -> ConfigField {
    ConfigField { name, aliases, applies_to, cache_key, is_ignored: |_| false }
}

const fn plain(name: &'static str, aliases: &'static [&'static str]) -> ConfigField {
    server(name, aliases, Any, NotPart)
}

/// Clients do not agree on whether a plain `timeout` counts seconds or milliseconds, nor on what it limits.
fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::NumberLit(_))
}

/// OpenCode writes `oauth: true` and `oauth: false`.
fn is_boolean(value: &Value<'_>) -> bool {
    matches!(value, Value::BooleanLit(_))
}

/// Returns whether `name` is `known`, as it is or in snake_case or camelCase.
fn is_spelling_of(known: &str, name: &str) -> bool {
    name == known || name.chars().eq(camel_case(known)) || name.chars().eq(snake_case(known))
}

fn camel_case(name: &str) -> impl Iterator<Item = char> {
    let mut begins_word = false;
    name.chars().filter_map(move |c| match c {
        '_' => {
            begins_word = true;
            None
        }
        c if std::mem::take(&mut begins_word) => Some(c.to_ascii_uppercase()),
        c => Some(c),
    })
}

fn snake_case(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .flat_map(|c| c.is_ascii_uppercase().then_some('_').into_iter().chain([c.to_ascii_lowercase()]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use schemars::{JsonSchema, schema_for};

    use super::*;
    use crate::config::file;

    /// The fields of a type of `file`, by their names in the schema.
    fn schema_fields<T: JsonSchema>() -> BTreeSet<String> {
        schema_for!(T).get("properties").unwrap().as_object().unwrap().keys().cloned().collect()
    }

    fn assert_table_is_complete<T: JsonSchema>() {
        let table: BTreeSet<_> =
            of_type(&T::schema_name()).iter().map(|field| field.name.to_owned()).collect();
        assert_eq!(table, schema_fields::<T>(), "the table and the fields of {}", T::schema_name());
    }

    #[test]
    fn the_table_has_exactly_the_fields_of_the_file_types() {
        assert_table_is_complete::<file::ServerEntry>();
        assert_table_is_complete::<file::SettingsEntry>();
        assert_table_is_complete::<file::OAuthEntry>();
        assert_table_is_complete::<file::TimeoutEntry>();
        assert_table_is_complete::<file::FeaturesEntry>();
        assert_table_is_complete::<file::tools::ToolsEntry>();
        assert_table_is_complete::<file::tools::ToolOverrideEntry>();
        assert_table_is_complete::<file::profiles::ProfileEntry>();
        assert_table_is_complete::<file::profiles::ProfileToolsEntry>();
        for name in schema_fields::<file::ConfigFile>() {
            assert!(FILE.iter().any(|field| field.name == name), "{name}");
        }
    }

    #[test]
    fn no_name_means_two_fields_and_none_is_ignored() {
        for fields in [FILE, SERVER, SETTINGS, OAUTH, TIMEOUT, FEATURES, TOOLS, PROFILE, PROFILE_TOOLS] {
            for name in all_names(fields) {
                let meant =
                    fields.iter().filter(|field| field.names().any(|known| is_spelling_of(known, name)));
                assert_eq!(meant.count(), 1, "{name}");
                assert!(!is_ignored(name), "{name}");
            }
        }
    }

    #[test]
    fn every_field_of_one_kind_of_server_is_part_of_the_cache_key() {
        let missing = SERVER.iter().find(|field| field.applies_to != Any && field.cache_key == NotPart);
        assert_eq!(missing.map(|field| field.name), None);
    }

    #[test]
    fn every_name_is_read_in_snake_case_and_camel_case() {
        let meant = |name| find(SERVER, name).map(|field| field.name);
        for (name, expected) in [
            ("env_file", Some("env_file")),
            ("envFile", Some("env_file")),
            ("httpUrl", Some("httpUrl")),
            ("http_url", Some("httpUrl")),
            ("serverUrl", Some("url")),
            ("server_url", Some("url")),
            ("transportType", Some("type")),
            ("enabledTools", Some("includeTools")),
            ("enabled_tools", Some("includeTools")),
            ("oauthClientId", Some("oauth_client_id")),
            ("oauthClient_id", None),
            ("env_", None),
            ("ENV", None),
            ("", None),
        ] {
            assert_eq!(meant(name), expected, "{name}");
        }
    }
}
