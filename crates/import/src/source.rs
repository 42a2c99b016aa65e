//! Reads the files that hold servers: those of the clients, and config files.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item};
use yaml_rust2::{Yaml, YamlLoader};

use base::files::{MAX_CONFIG_BYTES, read_regular};
use config::ConfigError;
use config::load::{is_toml, parse_client_file};

/// Reads the text of a file, with a byte order mark if it has one. `None` if there is no file.
///
/// # Errors
///
/// Fails if the file cannot be read, is no regular file, is larger than `MAX_CONFIG_BYTES`, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    match read_regular(path, MAX_CONFIG_BYTES) {
        Ok(bytes) => {
            String::from_utf8(bytes).map(Some).map_err(|_| error(path, "is not UTF-8 text".to_owned()))
        }
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(cause) => Err(error(path, format!("cannot be read: {cause}"))),
    }
}

/// The texts of files that count in place of those on disk; `None`: there is no such file.
pub(crate) type FileTexts = BTreeMap<PathBuf, Option<String>>;

/// Returns the text and the content of a file, whose text may be among these. `None` if there is no file.
///
/// # Errors
///
/// As [`read_text`] and [`understood`].
pub(crate) fn read_in(texts: &FileTexts, path: &Path) -> Result<Option<(String, Value)>, ConfigError> {
    let text = texts.get(path).map_or_else(|| read_text(path), |text| Ok(text.clone()))?;
    text.map(|text| understood(path, &text).map(|root| (text, root))).transpose()
}

/// Checks that a file of a project is in the project: a link in a repository could lead to any file of the user's. A file
/// that is elsewhere by its path, such as the user's own with a part for the project, is in order, and so is one that
/// does not exist.
///
/// # Errors
///
/// Fails if a link leads out of the project.
pub fn check_in_project(path: &Path, project: &Path) -> Result<(), ConfigError> {
    let (Ok(file), Ok(dir)) = (path.canonicalize(), project.canonicalize()) else { return Ok(()) };
    if !path.starts_with(project) || file.starts_with(dir) {
        return Ok(());
    }
    let reason = "is a link that leads out of the project, and so not the project's own file";
    Err(error(path, reason.to_owned()))
}

/// Returns the content of a file as we read it: in TOML, each server has our fields and the rest of Codex's. An empty
/// file, as clients make them too, has no members.
///
/// # Errors
///
/// Fails if the text is not what the file's name says.
pub fn understood(path: &Path, text: &str) -> Result<Value, ConfigError> {
    match text.trim_start_matches('\u{feff}').trim().is_empty() {
        true => Ok(Value::Object(Map::new())),
        false if is_yaml(path) => {
            let documents = YamlLoader::load_from_str(text);
            let documents = documents.map_err(|cause| error(path, format!("not valid YAML: {cause}")))?;
            Ok(documents.first().map(yaml_value).unwrap_or_default())
        }
        false => parse_client_file(path, text),
    }
}

/// Returns the content of a file with the names and values that stand in it.
///
/// # Errors
///
/// Fails if the text is not what the file's name says.
pub fn literal(path: &Path, text: &str) -> Result<Value, ConfigError> {
    let text = text.trim_start_matches('\u{feff}');
    match is_toml(path) {
        true => Ok(item_value(parse_toml(text).map_err(|message| error(path, message))?.as_item())),
        false => understood(path, text),
    }
}

/// Returns whether a file is YAML by its name. Such a file is only read.
pub(crate) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Splits a text into its byte order mark, or nothing, and the rest.
pub(crate) fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}

/// Parses TOML for edits.
///
/// # Errors
///
/// Says what is wrong with it.
pub(crate) fn parse_toml(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| format!("not valid TOML: {}", error.message()))
}

/// Returns the keys that lead to the servers of a config file, in the format of any client.
pub fn servers_keys(path: &Path, root: &Value) -> Vec<String> {
    // Gemini CLI has lists of names in its `mcp`.
    let is_opencode =
        || root.get("mcp").and_then(Value::as_object).is_some_and(|mcp| mcp.values().all(Value::is_object));
    let keys: &[&str] = match root {
        _ if is_toml(path) => &["mcp_servers"],
        root if root.get("mcpServers").is_some() => &["mcpServers"],
        root if root.get("servers").is_some() => &["servers"],
        root if has_nested_servers(root) => &["mcp", "servers"],
        _ if is_opencode() => &["mcp"],
        _ => &["mcpServers"],
    };
    keys.iter().map(|&key| key.to_owned()).collect()
}

/// Returns whether a file of OpenCode has the servers in `mcp.servers`, as its version 2 does.
pub(crate) fn has_nested_servers(root: &Value) -> bool {
    let Some(servers) = root.pointer("/mcp/servers").and_then(Value::as_object) else { return false };
    // A server of version 1 may be named "servers".
    !servers.contains_key("command") && !servers.contains_key("url") && servers.values().all(Value::is_object)
}

/// Returns the value under these keys. The key of an element of a list is its number.
pub fn value_at<'v>(root: &'v Value, keys: &[String]) -> Option<&'v Value> {
    keys.iter().try_fold(root, |value, key| match value {
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

fn error(path: &Path, message: String) -> ConfigError {
    ConfigError { file: path.to_owned(), at: None, message, hint: None }
}

/// Returns the content of YAML as JSON. A key that is no string is left out.
fn yaml_value(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::String(text) => text.as_str().into(),
        Yaml::Integer(number) => (*number).into(),
        Yaml::Real(_) => yaml.as_f64().into(),
        Yaml::Boolean(bool) => (*bool).into(),
        Yaml::Array(list) => list.iter().map(yaml_value).collect(),
        Yaml::Hash(members) => {
            members.iter().filter_map(|(key, value)| Some((key.as_str()?, yaml_value(value)))).collect()
        }
        Yaml::Alias(_) | Yaml::Null | Yaml::BadValue => Value::Null,
    }
}

/// Returns the content of TOML as JSON. Dates are strings.
pub(crate) fn item_value(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return Value::Object(table.iter().map(|(name, item)| (name.to_owned(), item_value(item))).collect());
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| item_value(&Item::Table(table.clone()))).collect();
    }
    match item.as_value() {
        Some(toml_edit::Value::String(text)) => text.value().as_str().into(),
        Some(toml_edit::Value::Integer(number)) => (*number.value()).into(),
        Some(toml_edit::Value::Float(number)) => (*number.value()).into(),
        Some(toml_edit::Value::Boolean(bool)) => (*bool.value()).into(),
        Some(toml_edit::Value::Datetime(date)) => date.value().to_string().into(),
        Some(toml_edit::Value::Array(list)) => {
            list.iter().map(|value| item_value(&Item::Value(value.clone()))).collect()
        }
        // Tables were converted above.
        Some(toml_edit::Value::InlineTable(_)) | None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_servers_of_a_file_are_found_in_the_format_of_any_client() {
        let keys = |name: &str, root: Value| servers_keys(Path::new(name), &root).join("/");
        for (root, expected) in [
            (json!({}), "mcpServers"),
            (json!({"servers": {}}), "servers"),
            (json!({"mcp": {}}), "mcp"),
            (json!({"mcp": {"a": {"command": ["x"]}}}), "mcp"),
            (json!({"mcp": {"servers": {"a": {"command": ["x"]}}, "timeout": 1}}), "mcp/servers"),
            // A server of version 1 that is named so.
            (json!({"mcp": {"servers": {"type": "local", "command": ["x"]}}}), "mcp"),
            (json!({"mcp": {"allowed": ["a"]}}), "mcpServers"),
        ] {
            assert_eq!(keys("x.json", root.clone()), expected, "{root}");
        }
        assert_eq!(keys("x.toml", json!({})), "mcp_servers");
    }
}
