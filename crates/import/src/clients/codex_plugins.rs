//! The plugins of Codex 0.169, as `codex plugin add` leaves them.

use std::path::Path;

use serde_json::Value;

use super::package::{ClientPackage, ClientSetting, PackageContext, PackageServer, SettingChange, dirs_in};
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
    let mut packages = Vec::new();
    for (id, policy) in members(config.get("plugins")).filter(|(_, policy)| policy["enabled"] != false) {
        let (name, market) = id.rsplit_once('@').unwrap_or((id, ""));
        let versions = dirs_in(&dir.join("plugins/cache").join(market).join(name));
        let local = versions.iter().find(|version| version.ends_with("local"));
        let Some(root) = local.or_else(|| versions.last()) else { continue };
        let manifest = MANIFESTS.iter().find_map(|file| context.read(&root.join(file))).unwrap_or_default();
        let (file, servers) = match &manifest["mcpServers"] {
            servers @ Value::Object(_) => (root.join(MANIFESTS[0]), Some(servers.clone())),
            named => {
                let file = root.join(named.as_str().unwrap_or(".mcp.json"));
                (file.clone(), context.read(&file))
            }
        };
        let servers = servers.map(|servers| servers.get("mcpServers").cloned().unwrap_or(servers));
        let mut package = ClientPackage {
            kind: "plugin",
            name: id.clone(),
            file,
            servers: Vec::new(),
            staying: Vec::new(),
            is_versioned: true,
            buttons: None,
        };
        for (server, entry) in members(servers.as_ref()) {
            let policy = policy["mcp_servers"].get(server).unwrap_or(&Value::Null);
            match entry_in_our_form(entry, root, policy) {
                Ok(entry) => {
                    let keys = ["plugins", id, "mcp_servers", server, "enabled"];
                    let switch = ClientSetting::new(settings, &keys, SettingChange::Set(false.into()));
                    let (name, client_name) = (server.clone(), server.clone());
                    package.servers.push(PackageServer { name, client_name, entry, switch: Some(switch) });
                }
                Err(reason) => package.staying.push((server.clone(), reason)),
            }
        }
        packages.push(package);
    }
    packages
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
