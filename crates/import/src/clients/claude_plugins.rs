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
    let Some(file) = files.first() else { return Vec::new() };
    let settings = files.iter().filter_map(|file| context.read(file)).collect();
    let plugins = Plugins { context, dir, file, settings, markets };
    let found = members(installed.get("plugins"));
    found.filter_map(|(id, installs)| plugins.package(id, installs)).collect()
}

/// The plugins of a user.
struct Plugins<'a> {
    context: &'a PackageContext<'a>,
    /// The directory of plugins.
    dir: PathBuf,
    /// The file of the user's settings.
    file: &'a Path,
    /// The settings, those that count more last.
    settings: Vec<Value>,
    /// The known marketplaces.
    markets: Value,
}

impl Plugins<'_> {
    /// Returns the value of a setting.
    fn setting(&self, keys: &[&str]) -> Option<&Value> {
        let value = |file| keys.iter().try_fold(file, |value: &Value, key| value.get(key));
        self.settings.iter().rev().find_map(value)
    }

    /// Returns a plugin, if it is on and installed for the user.
    fn package(&self, id: &str, installs: &Value) -> Option<ClientPackage> {
        let is_on = self.setting(&["enabledPlugins", id]).is_some_and(|value| *value == true);
        // Version 1 of the file has one object, version 2 a list with one for each scope.
        let mut installs = installs.as_array().into_iter().flatten().chain([installs]);
        let is_of_user =
            |install: &&Value| matches!(install["scope"].as_str(), None | Some("user" | "managed"));
        let path = installs.find(is_of_user).filter(|_| is_on)?["installPath"].as_str()?;
        let (name, market) = id.rsplit_once('@')?;
        let listed = marketplace_entry(self.context, &self.markets[market], name);
        let (listed, in_place) = listed.unwrap_or_default();
        let is_versioned = in_place.is_none();
        let root = in_place.unwrap_or_else(|| path.into());
        // What the marketplace says counts for a plugin that says nothing about itself.
        let manifest = self.context.read(&root.join(".claude-plugin/plugin.json")).unwrap_or(listed);
        let data = id.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c), "-");
        let data = self.dir.join("data").join(data);
        let dirs = [("CLAUDE_PLUGIN_ROOT", &root), ("CLAUDE_PLUGIN_DATA", &data)]
            .map(|(name, dir)| (name.to_owned(), dir.to_string_lossy().into_owned()));
        let variables: Vec<_> = dirs.iter().cloned().chain(self.options(id, &manifest)).collect();
        let mut package = ClientPackage::new("plugin", id, root.join(".mcp.json"), is_versioned);
        for (server, entry) in self.servers(&mut package, &root, &manifest) {
            let client_name = format!("plugin:{name}:{server}");
            let entry = with_variables(&with_own_env(&entry, &dirs), &variables);
            let denied = SettingChange::Add(json!({"serverName": client_name}));
            let found = match entry.to_string().contains("${user_config.") {
                true => Err("only Claude Code can read one of its options".to_owned()),
                false => Ok((entry, ClientSetting::new(self.file, &["deniedMcpServers"], denied))),
            };
            package.add([&server, &client_name], found);
        }
        Some(package)
    }

    /// Returns the user's options of a plugin, as its variables. Secrets are not in the settings.
    fn options(&self, id: &str, manifest: &Value) -> impl Iterator<Item = (String, String)> {
        let plain = members(manifest.get("userConfig")).filter(|(_, option)| option["sensitive"] != true);
        plain.map(move |(key, option)| {
            let set = self.setting(&["pluginConfigs", id, "options", key]).or_else(|| option.get("default"));
            let text = set.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            (format!("user_config.{key}"), text.unwrap_or_default())
        })
    }

    /// Returns the servers of a plugin: those of its file, and those that its manifest has or names. Of servers with one
    /// name, the last one counts. Notes in `package` what stays.
    fn servers(&self, package: &mut ClientPackage, root: &Path, manifest: &Value) -> Map<String, Value> {
        let mut contents: Vec<Value> = self.context.read(&package.file).into_iter().collect();
        let named = &manifest["mcpServers"];
        for named in named.as_array().map_or_else(|| std::slice::from_ref(named), Vec::as_slice) {
            match named.as_str() {
                None => contents.push(named.clone()),
                Some(path) if path.ends_with(".json") => contents.extend(self.context.read(&root.join(path))),
                Some(path) => package.staying.push((path.to_owned(), "it is an MCP bundle".to_owned())),
            }
        }
        let servers = contents.iter().flat_map(plugin_servers);
        servers.map(|(name, entry)| (name.clone(), entry.clone())).collect()
    }
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
