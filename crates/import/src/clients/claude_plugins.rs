//! The plugins of Claude Code 2.1.332, as `claude plugin install` leaves them.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use super::package::{
    ClientPackage, ClientSetting, PackageContext, PackageServer, SettingChange, dirs_in, with_variables,
};
use crate::json::members;

/// The settings of a project, relative to its directory.
pub(super) const PROJECT_SETTINGS: &[&str] = &[".claude/settings.json", ".claude/settings.local.json"];
/// What a plugin says about itself.
const MANIFEST: &str = ".claude-plugin/plugin.json";

/// Finds the plugins that are on. `dir`: the directory of the client. `settings`: the user's file, and those that count
/// more.
pub(super) fn packages(context: &PackageContext<'_>, dir: &Path, settings: &[PathBuf]) -> Vec<ClientPackage> {
    let moved = context.env.get_non_empty("CLAUDE_CODE_PLUGIN_CACHE_DIR").map(PathBuf::from);
    let dir = &moved.unwrap_or_else(|| dir.join("plugins"));
    let Some(installed) = context.read(&dir.join("installed_plugins.json")) else { return Vec::new() };
    let markets = context.read(&dir.join("known_marketplaces.json")).unwrap_or_default();
    let of_user: Vec<Value> = settings.iter().filter_map(|file| context.read(file)).collect();
    let project = context.project.into_iter();
    let of_project = project.flat_map(|dir| PROJECT_SETTINGS.iter().map(move |file| dir.join(file)));
    let of_project: Vec<Value> = of_project.filter_map(|file| context.read(&file)).collect();
    let mut packages = Vec::new();
    for (id, installs) in members(installed.get("plugins")) {
        let last = |files: &[Value]| {
            let values = files.iter().rev().filter_map(|file| file.get("enabledPlugins")?.get(id));
            values.map(|value| *value == true).next()
        };
        let staying = match (last(&of_user), last(&of_project)) {
            (Some(true), Some(false)) => Some("it is off in the project"),
            (Some(true), _) => None,
            (_, Some(true)) => Some("it is on in the project alone"),
            _ => continue,
        };
        // Version 1 of the file has one object, and version 2 a list with one for each scope.
        let installs = installs.as_array().map_or_else(|| std::slice::from_ref(installs), Vec::as_slice);
        let is_of_user =
            |install: &&Value| matches!(install["scope"].as_str(), None | Some("user" | "managed"));
        let Some(install) = installs.iter().find(is_of_user).or_else(|| installs.first()) else { continue };
        let (name, market) = id.rsplit_once('@').unwrap_or((id, ""));
        let known = markets.get(market).unwrap_or(&Value::Null);
        let listed = marketplace_entry(context, known, name);
        let in_cache = install["installPath"].as_str().map(PathBuf::from);
        let in_cache =
            in_cache.or_else(|| dirs_in(&dir.join("cache").join(in_path(market)).join(in_path(name))).pop());
        let Some(root) = source_in_place(known, &listed).or(in_cache) else { continue };
        // The entry of the marketplace counts for a plugin that says nothing about itself.
        let manifest = context.read(&root.join(MANIFEST)).unwrap_or(listed);
        let data = dir.join("data").join(in_path(id));
        let plugin =
            Plugin { context, id, name, root: &root, data: &data, manifest: &manifest, settings: &of_user };
        let mut package = plugin.package(settings.first());
        if let Some(reason) = staying {
            let left = package.servers.drain(..);
            package.staying.extend(left.map(|server| (server.name, reason.to_owned())));
        }
        packages.push(package);
    }
    packages
}

/// Returns what a marketplace says about a plugin.
fn marketplace_entry(context: &PackageContext<'_>, market: &Value, name: &str) -> Value {
    let file = |dir: &str| Path::new(dir).join(".claude-plugin/marketplace.json");
    let list = market["installLocation"].as_str().and_then(|dir| context.read(&file(dir)));
    let plugins = list.as_ref().and_then(|list| list["plugins"].as_array()).into_iter().flatten();
    plugins.into_iter().find(|plugin| plugin["name"] == name).cloned().unwrap_or_default()
}

/// Returns the directory of a plugin that runs where its marketplace is: a directory of the user's.
fn source_in_place(market: &Value, listed: &Value) -> Option<PathBuf> {
    let dir = market["installLocation"].as_str().filter(|_| market["source"]["source"] == "directory")?;
    let source = Path::new(dir).join(listed["source"].as_str()?);
    Some(source.components().filter(|part| *part != Component::CurDir).collect())
}

/// Returns a name as the client writes it in paths.
fn in_path(name: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.chars().map(|c| if is_kept(c) { c } else { '-' }).collect()
}

/// A plugin that is on.
struct Plugin<'a> {
    context: &'a PackageContext<'a>,
    /// Its name with that of its marketplace.
    id: &'a str,
    name: &'a str,
    root: &'a Path,
    /// Where its servers keep files of their own.
    data: &'a Path,
    manifest: &'a Value,
    /// The settings, the later one over the earlier one.
    settings: &'a [Value],
}

impl Plugin<'_> {
    /// Reads its servers. `settings`: the file that turns them off.
    fn package(&self, settings: Option<&PathBuf>) -> ClientPackage {
        let file = self.root.join(".mcp.json");
        let (mut servers, mut staying) = (Map::new(), Vec::new());
        let mut add = |list: Value| {
            let list = list.get("mcpServers").cloned().unwrap_or(list);
            servers.extend(members(Some(&list)).map(|(name, entry)| (name.clone(), entry.clone())));
        };
        self.context.read(&file).into_iter().for_each(&mut add);
        let named = &self.manifest["mcpServers"];
        for named in named.as_array().map_or_else(|| std::slice::from_ref(named), Vec::as_slice) {
            match named.as_str().map(|name| (name, Path::new(name))) {
                None => add(named.clone()),
                Some((_, path)) if path.extension().is_some_and(|end| end == "json") => {
                    self.context.read(&self.root.join(path)).into_iter().for_each(&mut add);
                }
                Some((name, _)) => {
                    staying.push((name.to_owned(), "it is a bundle of Claude Desktop".to_owned()));
                }
            }
        }
        let options = self.options();
        let mut package = ClientPackage {
            kind: "plugin",
            name: self.id.to_owned(),
            file,
            servers: Vec::new(),
            staying,
            is_versioned: true,
            buttons: None,
        };
        for (name, entry) in servers {
            let entry = self.entry(&entry, &options);
            let unknown = entry.to_string().split_once("${user_config.").map(|(_, rest)| rest.to_owned());
            match unknown.as_ref().and_then(|rest| rest.split_once('}')) {
                Some((option, _)) => {
                    package.staying.push((name, format!("only Claude Code can read its option `{option}`")));
                }
                None => {
                    let client_name = format!("plugin:{}:{name}", self.name);
                    let denied = SettingChange::Add(json!({"serverName": client_name}));
                    let switch = settings.map(|file| ClientSetting::new(file, &["deniedMcpServers"], denied));
                    package.servers.push(PackageServer { name, client_name, entry, switch });
                }
            }
        }
        package
    }

    /// Returns an entry as the client reads it before it replaces the variables of the environment.
    fn entry(&self, entry: &Value, options: &[(String, String)]) -> Value {
        let dirs = [("CLAUDE_PLUGIN_ROOT", self.root), ("CLAUDE_PLUGIN_DATA", self.data)]
            .map(|(name, dir)| (name, dir.to_string_lossy().into_owned()));
        let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables: Vec<(&str, &str)> =
            dirs.iter().map(|(name, dir)| (*name, dir.as_str())).chain(options).collect();
        let mut entry = with_variables(entry, &variables);
        if entry.get("command").is_some()
            && let Some(entry) = entry.as_object_mut()
        {
            let mut env: Map<String, Value> =
                dirs.iter().map(|(name, dir)| ((*name).to_owned(), json!(dir))).collect();
            env.extend(members(entry.get("env")).map(|(name, value)| (name.clone(), value.clone())));
            entry.insert("env".to_owned(), Value::Object(env));
        }
        entry
    }

    /// Returns the options that the user has set, and the defaults of others. Secret ones are not in the settings.
    fn options(&self) -> Vec<(String, String)> {
        let declared = members(self.manifest.get("userConfig"));
        let plain = declared.filter(|(_, option)| option["sensitive"] != true);
        let value = |(name, option): (&String, &Value)| {
            let set = self.settings.iter().rev();
            let mut set =
                set.filter_map(|file| file.get("pluginConfigs")?.get(self.id)?.get("options")?.get(name));
            let text = match set.next().or_else(|| option.get("default")) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            };
            (format!("user_config.{name}"), text)
        };
        plain.map(value).collect()
    }
}
