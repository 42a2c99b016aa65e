//! The plugins of Codex 0.169, as `codex plugin add` leaves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::package::{ClientPackage, ClientSetting, PackageContext, SettingChange, dirs_in, plugin_servers};
use crate::json::members;
use crate::source::understood;
use base::text::visible;

/// What a plugin says about itself: the first of these that it has.
const MANIFESTS: [&str; 3] =
    [".codex-plugin/plugin.json", ".claude-plugin/plugin.json", ".cursor-plugin/plugin.json"];

/// Finds the plugins that are on. `dir`: the directory of the client. `settings`: its file.
pub(super) fn packages(context: &PackageContext<'_>, dir: &Path, settings: &Path) -> Vec<ClientPackage> {
    let config = context.read(settings).unwrap_or_default();
    if config["features"]["plugins"] == false {
        return Vec::new();
    }
    let (mut packages, mut names) = (Vec::new(), BTreeSet::new());
    let plugins: BTreeMap<_, _> = members(config.get("plugins")).collect();
    for (id, policy) in plugins.into_iter().filter(|(_, policy)| policy["enabled"] != false) {
        let (name, market) = id.rsplit_once('@').unwrap_or((id, ""));
        let versions = dirs_in(&dir.join("plugins/cache").join(market).join(name));
        let local = versions.iter().find(|version| version.ends_with("local"));
        let Some(root) = local.or_else(|| versions.iter().max_by_key(|dir| version_key(dir))) else {
            continue;
        };
        let manifest = MANIFESTS.iter().find_map(|file| context.read(&root.join(file))).unwrap_or_default();
        let named = &manifest["mcpServers"];
        let file = root.join(named.as_str().unwrap_or(".mcp.json"));
        let content =
            Some(named.clone()).filter(Value::is_object).or_else(|| context.read(&file)).unwrap_or_default();
        let mut package = ClientPackage::new("plugin", id, file, true);
        // Of several plugins with a server of one name, the first one has it.
        for (server, entry) in plugin_servers(&content).filter(|(server, _)| names.insert((*server).clone()))
        {
            let entry = entry_in_our_form(entry, root, &policy["mcp_servers"][server]);
            let keys = ["plugins", id, "mcp_servers", server, "enabled"];
            let switch = ClientSetting::new(settings, &keys, SettingChange::Set(false.into()));
            package.add([server, server], entry.map(|entry| (entry, switch)));
        }
        packages.push(package);
    }
    packages
}

/// Returns the parts of a version in the order in which the client compares them: words count more than numbers.
fn version_key(dir: &Path) -> Vec<Result<u64, ()>> {
    let version = dir.file_name().unwrap_or_default().to_string_lossy();
    version.split('.').map(|part| part.parse().map_err(|_| ())).collect()
}

/// Returns an entry of a plugin as the entries of the client's own file are read. `policy`: what that file says about it.
///
/// # Errors
///
/// Says why it cannot be read so.
fn entry_in_our_form(entry: &Value, root: &Path, policy: &Value) -> Result<Value, String> {
    let mut entry = entry.as_object().cloned().unwrap_or_default();
    // It ignores these in plugins.
    for field in ["type", "headers"] {
        entry.shift_remove(field);
    }
    if let Some(cwd) = entry.get_mut("cwd")
        && let Some(dir) = cwd.as_str().map(|dir| root.join(dir))
    {
        *cwd = dir.to_string_lossy().into();
    }
    for (field, value) in members(Some(policy)) {
        if !matches!(field.as_str(), "enabled" | "enabled_tools" | "disabled_tools") {
            return Err(format!("`{}` of its plugin says which calls go without a question", visible(field)));
        }
        entry.insert(field.clone(), value.clone());
    }
    let text = format!("mcp_servers = {{ s = {} }}", inline(&Value::Object(entry)));
    let root = understood(Path::new("plugin.toml"), &text).map_err(|error| error.message)?;
    root["mcp_servers"].get("s").cloned().ok_or_else(|| "it has no command and no address".to_owned())
}

/// Returns a value of JSON as TOML writes it on one line. TOML has no null.
fn inline(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members =
                members.map(|(name, value)| format!("{} = {}", Value::from(name.as_str()), inline(value)));
            format!("{{ {} }}", joined(members.collect()))
        }
        Value::Array(list) => format!("[{}]", joined(list.iter().map(inline).collect())),
        other => other.to_string(),
    }
}
