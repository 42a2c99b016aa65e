//! The plugins of Claude Code 2.1.332, as `claude plugin install` leaves them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::package::{
    ClientPackage, ClientSetting, PackageContext, SettingChange, plugin_servers, with_variables,
};
use crate::json::{into_members, members};

/// Finds the plugins that are on for the user. `dir`: the directory of the client. `files`: the user's settings, and those
/// that count more.
pub(super) fn packages(context: &PackageContext<'_>, dir: &Path, files: &[PathBuf]) -> Vec<ClientPackage> {
    let moved = context.env.get_non_empty("CLAUDE_CODE_PLUGIN_CACHE_DIR").map(PathBuf::from);
    let dir = moved.unwrap_or_else(|| dir.join("plugins"));
    let read = |file: &str| context.read(&dir.join(file)).unwrap_or_default();
    let (installed, markets) = (read("installed_plugins.json"), read("known_marketplaces.json"));
    let settings: Vec<Value> = files.iter().filter_map(|file| context.read(file)).collect();
    let package = |(id, installs): (&String, &Value)| {
        let setting = |keys: &[&str]| {
            let value = |file| keys.iter().try_fold(file, |value: &Value, key| value.get(key));
            settings.iter().rev().find_map(value)
        };
        let is_on = setting(&["enabledPlugins", id]).is_some_and(|value| *value == true);
        // Version 1 of the file has one object, version 2 a list with one for each scope.
        let mut installs = installs.as_array().into_iter().flatten().chain([installs]);
        let is_of_user =
            |install: &&Value| matches!(install["scope"].as_str(), None | Some("user" | "managed"));
        let path = installs.find(is_of_user).filter(|_| is_on)?["installPath"].as_str()?;
        let (name, market) = id.rsplit_once('@')?;
        let (listed, in_place) = marketplace_entry(context, &markets[market], name).unwrap_or_default();
        let is_versioned = in_place.is_none();
        let root = in_place.unwrap_or_else(|| path.into());
        // What the marketplace says counts for a plugin that says nothing about itself.
        let manifest = context.read(&root.join(".claude-plugin/plugin.json")).unwrap_or(listed);
        let data =
            dir.join("data").join(id.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c), "-"));
        let dirs = [("CLAUDE_PLUGIN_ROOT", &root), ("CLAUDE_PLUGIN_DATA", &data)]
            .map(|(name, dir)| (name.to_owned(), dir.to_string_lossy().into_owned()));
        let option = |(key, option): (&String, &Value)| {
            let set = setting(&["pluginConfigs", id, "options", key]).or_else(|| option.get("default"));
            let text = set.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            // Secrets are not in the settings.
            (option["sensitive"] != true).then(|| (format!("user_config.{key}"), text.unwrap_or_default()))
        };
        let options = members(manifest.get("userConfig")).filter_map(option);
        let variables: Vec<_> = dirs.iter().cloned().chain(options).collect();
        let file = root.join(".mcp.json");
        let mut package = ClientPackage::new("plugin", id, file.clone(), is_versioned);
        let mut contents: Vec<Value> = context.read(&file).into_iter().collect();
        let named = &manifest["mcpServers"];
        for named in named.as_array().map_or_else(|| std::slice::from_ref(named), Vec::as_slice) {
            match named.as_str() {
                None => contents.push(named.clone()),
                Some(path) if path.ends_with(".json") => contents.extend(context.read(&root.join(path))),
                Some(path) => package.staying.push((path.to_owned(), "it is an MCP bundle".to_owned())),
            }
        }
        // Of servers with one name, the last one counts.
        let servers: Map<_, _> = contents
            .iter()
            .flat_map(plugin_servers)
            .map(|(name, entry)| (name.clone(), entry.clone()))
            .collect();
        for (server, entry) in servers {
            let client_name = format!("plugin:{name}:{server}");
            let entry = with_variables(&with_own_env(&entry, &dirs), &variables);
            let denied = SettingChange::Add(json!({"serverName": client_name}));
            let found = match entry.to_string().contains("${user_config.") {
                true => Err("only Claude Code can read one of its options".to_owned()),
                false => Ok((entry, ClientSetting::new(files.first()?, &["deniedMcpServers"], denied))),
            };
            package.add([&server, &client_name], found);
        }
        Some(package)
    };
    members(installed.get("plugins")).filter_map(package).collect()
}

/// Returns what a marketplace says about a plugin, and its directory there if the marketplace is a directory of the user's:
/// the client then runs it there.
fn marketplace_entry(
    context: &PackageContext<'_>,
    market: &Value,
    name: &str,
) -> Option<(Value, Option<PathBuf>)> {
    let dir = Path::new(market["installLocation"].as_str()?);
    let list = context.read(&dir.join(".claude-plugin/marketplace.json"))?;
    let plugin = list["plugins"].as_array()?.iter().find(|plugin| plugin["name"] == name)?;
    let source = plugin["source"].as_str().filter(|_| market["source"]["source"] == "directory");
    Some((plugin.clone(), source.map(|source| dir.join(source).components().collect())))
}

/// Returns an entry with the variables that the client sets for a local server.
fn with_own_env(entry: &Value, dirs: &[(String, String)]) -> Value {
    let mut entry = entry.clone();
    if entry.get("command").is_some() {
        let own = dirs.iter().map(|(name, dir)| (name.clone(), json!(dir)));
        let given = into_members(entry.get("env").cloned());
        entry["env"] = own.chain(given).collect::<Map<_, _>>().into();
    }
    entry
}
