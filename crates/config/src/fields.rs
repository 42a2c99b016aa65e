//! What is known of a config field beside its type: its names, the kind of server that it belongs to, and its part in the
//! key of the catalog cache. `object` makes a table of the fields of each object.
//!
//! A field is read under its name and its aliases, and each of these both in snake_case and in camelCase.

use jsonc_parser::ast::Value;

/// One field of an object in a config file.
pub struct ConfigField {
    /// The name in `config-schema.json` and in messages.
    pub name: &'static str,
    /// Other names, such as other clients use.
    aliases: &'static [&'static str],
    /// The kind of server that the field belongs to.
    pub applies_to: AppliesTo,
    /// Whether the field identifies a server in the catalog cache.
    pub cache_key: CacheKeyPart,
    /// Recognizes the values that other clients give the field and that are ignored here.
    is_ignored: fn(&Value<'_>) -> bool,
    /// The fields of the object that is embedded here: files write them where this field stands. Empty for others.
    embedded: &'static [Self],
}

/// The kind of server that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliesTo {
    /// Servers with a `command`.
    Stdio,
    /// Servers with a `url`.
    Remote,
    /// Servers of either kind, and objects that are not servers.
    Any,
}

/// How a field enters the key of a server's catalog in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKeyPart {
    /// As the file writes it, with variables unexpanded.
    AsWritten,
    /// As it is after the defaults of `settings` were applied.
    AsResolved,
    /// Not at all.
    NotPart,
}

/// The top level of a file.
pub const FILE: &[ConfigField] = &[
    ConfigField::new("mcpServers"),
    ConfigField::new("settings"),
    ConfigField::new("servers"),
    ConfigField::new("mcp"),
    ConfigField::new("profiles"),
];

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

/// Returns these fields, with those of embedded objects in their place.
pub fn all(fields: &'static [ConfigField]) -> impl Iterator<Item = &'static ConfigField> {
    fields.iter().flat_map(|field| match field.embedded {
        [] => std::slice::from_ref(field),
        embedded => embedded,
    })
}

/// Finds the field that is meant by `name`, in any of its spellings.
pub fn find(fields: &'static [ConfigField], name: &str) -> Option<&'static ConfigField> {
    // Nearly all names are written as they are here, and comparing them so is much faster.
    find_exact(fields, name)
        .or_else(|| all(fields).find(|field| field.names().any(|known| is_spelling_of(known, name))))
}

/// Returns the field that has exactly this name or alias.
fn find_exact(fields: &'static [ConfigField], name: &str) -> Option<&'static ConfigField> {
    fields.iter().find_map(|field| match field.embedded {
        [] => (field.name == name || field.aliases.contains(&name)).then_some(field),
        embedded => find_exact(embedded, name),
    })
}

/// Returns all names of all these fields; their own come before the aliases.
pub(crate) fn all_names(fields: &'static [ConfigField]) -> impl Iterator<Item = &'static str> {
    all(fields).map(|field| field.name).chain(all(fields).flat_map(|field| field.aliases).copied())
}

/// Returns whether other clients write a field of this name and we ignore it.
pub fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name)
}

impl ConfigField {
    /// Returns the field's name and its aliases.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns whether the value has a form that only other clients give the field, which is ignored.
    pub fn ignores(&self, value: &Value<'_>) -> bool {
        (self.is_ignored)(value)
    }

    /// Creates a field of this name, for any kind of server, that is not a part of the cache key.
    pub(super) const fn new(name: &'static str) -> Self {
        let (applies_to, cache_key) = (AppliesTo::Any, CacheKeyPart::NotPart);
        Self { name, aliases: &[], applies_to, cache_key, is_ignored: |_| false, embedded: &[] }
    }

    /// Has this name in a file, which is not the one in the code.
    pub(super) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Is also read under these names.
    pub(super) const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Belongs to servers with a `command`, and decides what they are.
    pub(super) const fn stdio(self) -> Self {
        Self { applies_to: AppliesTo::Stdio, cache_key: CacheKeyPart::AsWritten, ..self }
    }

    /// Belongs to servers with a `url`, and decides what they are.
    pub(super) const fn remote(self) -> Self {
        Self { applies_to: AppliesTo::Remote, cache_key: CacheKeyPart::AsWritten, ..self }
    }

    /// Enters the cache key so.
    pub(super) const fn cached(self, cache_key: CacheKeyPart) -> Self {
        Self { cache_key, ..self }
    }

    /// Is ignored with such a value.
    pub(super) const fn ignoring(self, is_ignored: fn(&Value<'_>) -> bool) -> Self {
        Self { is_ignored, ..self }
    }

    /// Is an object with these fields, which files write in its place.
    pub(super) const fn embeds(self, embedded: &'static [Self]) -> Self {
        Self { embedded, ..self }
    }
}

/// Clients do not agree on whether a plain `timeout` counts seconds or milliseconds, nor on what it limits.
pub(super) fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::NumberLit(_))
}

/// OpenCode writes `oauth: true` and `oauth: false`.
pub(super) fn is_boolean(value: &Value<'_>) -> bool {
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
    use crate::file::keys::{FeaturesEntry, OAuthEntry, TimeoutEntry};
    use crate::file::profiles::{ProfileEntry, ProfileToolsEntry};
    use crate::file::tools::{ToolOverrideEntry, ToolsEntry};
    use crate::file::{ConfigFile, ServerEntry, SettingsEntry};

    /// The fields of a type of `file`, by their names in the schema.
    fn schema_fields<T: JsonSchema>() -> BTreeSet<String> {
        schema_for!(T).get("properties").unwrap().as_object().unwrap().keys().cloned().collect()
    }

    fn assert_table_is_complete<T: JsonSchema>(fields: &'static [ConfigField]) {
        let table = all(fields);
        let table: BTreeSet<_> = table.map(|field| field.name.to_owned()).collect();
        assert_eq!(table, schema_fields::<T>(), "the table and the fields of {}", T::schema_name());
    }

    #[test]
    fn the_table_has_exactly_the_fields_of_the_file_types() {
        assert_table_is_complete::<ServerEntry>(ServerEntry::FIELDS);
        assert_table_is_complete::<SettingsEntry>(SettingsEntry::FIELDS);
        assert_table_is_complete::<OAuthEntry>(OAuthEntry::FIELDS);
        assert_table_is_complete::<TimeoutEntry>(TimeoutEntry::FIELDS);
        assert_table_is_complete::<FeaturesEntry>(FeaturesEntry::FIELDS);
        assert_table_is_complete::<ToolsEntry>(ToolsEntry::FIELDS);
        assert_table_is_complete::<ToolOverrideEntry>(ToolOverrideEntry::FIELDS);
        assert_table_is_complete::<ProfileEntry>(ProfileEntry::FIELDS);
        assert_table_is_complete::<ProfileToolsEntry>(ProfileToolsEntry::FIELDS);
        for name in schema_fields::<ConfigFile>() {
            assert!(FILE.iter().any(|field| field.name == name), "{name}");
        }
    }

    #[test]
    fn no_name_means_two_fields_and_none_is_ignored() {
        for fields in [
            FILE,
            ServerEntry::FIELDS,
            SettingsEntry::FIELDS,
            OAuthEntry::FIELDS,
            TimeoutEntry::FIELDS,
            FeaturesEntry::FIELDS,
            ToolsEntry::FIELDS,
            ProfileEntry::FIELDS,
            ProfileToolsEntry::FIELDS,
        ] {
            for name in all_names(fields) {
                let meant =
                    all(fields).filter(|field| field.names().any(|known| is_spelling_of(known, name)));
                assert_eq!(meant.count(), 1, "{name}");
                assert!(!is_ignored(name), "{name}");
            }
        }
    }

    #[test]
    fn every_field_of_one_kind_of_server_is_part_of_the_cache_key() {
        let missing = all(ServerEntry::FIELDS)
            .find(|field| field.applies_to != AppliesTo::Any && field.cache_key == CacheKeyPart::NotPart);
        assert_eq!(missing.map(|field| field.name), None);
    }

    #[test]
    fn every_name_is_read_in_snake_case_and_camel_case() {
        let meant = |name| find(ServerEntry::FIELDS, name).map(|field| field.name);
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
