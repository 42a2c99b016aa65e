//! Claude Desktop. It has no variables, passes no environment, and takes remote servers in its settings only.
//!
//! Its extensions are MCP bundles that it has unpacked. The entry in servers.json runs a bundle where Claude Desktop keeps it,
//! and not a copy: so Claude Desktop updates it, and its path, which has no version, stays the same. Therefore an extension
//! is turned off after an import, and not uninstalled. Claude Desktop writes its settings when it quits, so we write none of
//! them: a person turns the extension off.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bundle::manifest::{BundleHost, BundleManifest, PLATFORM};
use bundle::values::SettingValue;
use config::secrets::free_secret_name;
use serde_json::Value;

use super::client::{ClientDir, HostOs, KnownClient};
use super::package::{ClientPackage, PackageContext, PackageServer};
use crate::json::members;

const FILE: &str = "Claude/claude_desktop_config.json";
/// What a secret in the settings of an extension begins with. Only Claude Desktop can read the rest.
const ENCRYPTED: &str = "__encrypted__:";

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    // It belongs to an extension.
    own_meaning: &["extensionId"],
    // From the store of Windows, its `appData` is that of the package.
    user_files: &[(ClientDir::AppData, FILE), (ClientDir::Package("Claude_", "LocalCache/Roaming"), FILE)],
    packages: |context| extensions(context, HostOs::CURRENT),
    ..KnownClient::new("claude-desktop", "Claude Desktop", &["claude-desktop", "Claude"])
};

/// Finds the extensions that are on, in the last directory that has any: on Windows, the app of the store reads no other.
fn extensions(context: &PackageContext<'_>, os: HostOs) -> Vec<ClientPackage> {
    let registry = |file: PathBuf| {
        let registry = context.read(&file.with_file_name("extensions-installations.json"))?;
        Some((file, registry.get("extensions")?.clone()))
    };
    let found = CLIENT.user_files(context.env, os).into_iter().rev().find_map(registry);
    let Some((file, registry)) = found else { return Vec::new() };
    let config = context.read(&file).unwrap_or_default();
    // A switch for all of them.
    if config.pointer("/features/isDxtEnabled") == Some(&Value::Bool(false)) {
        return Vec::new();
    }
    let mut secrets = BTreeSet::new();
    let ids = members(Some(&registry)).map(|(id, _)| id);
    ids.filter_map(|id| extension(context, &file, id, &mut secrets)).collect()
}

/// Returns an extension, if it is on and has a manifest. `config`: the client's file. `secrets` has the names of the secrets
/// of others.
fn extension(
    context: &PackageContext<'_>,
    config: &Path,
    id: &str,
    secrets: &mut BTreeSet<String>,
) -> Option<ClientPackage> {
    let settings = context.read(&config.with_file_name("Claude Extensions Settings").join(format!("{id}.json")))?;
    let dir = &config.with_file_name("Claude Extensions").join(id);
    let file = dir.join("manifest.json");
    let content = context.read(&file).filter(|_| settings["isEnabled"] == true)?;
    let text = |key: &str| content[key].as_str().map(str::to_owned);
    let name = text("name").unwrap_or_else(|| id.to_owned());
    let label = text("display_name").unwrap_or_else(|| name.clone());
    let mut value = |key: &str, value: &Value| {
        if !value.as_str().is_some_and(|text| text.starts_with(ENCRYPTED)) {
            return SettingValue::of(value);
        }
        let secret = free_secret_name(&name, key, |name| secrets.contains(name));
        secrets.insert(secret.clone());
        Some(SettingValue::Keyring(secret))
    };
    let values = members(settings.get("userConfig"));
    let values = values.filter_map(|(key, setting)| Some((key.clone(), value(key, setting)?))).collect();
    let host = BundleHost { dir, home: context.env.home(), platform: PLATFORM };
    let manifest = BundleManifest::parse(&content.to_string()).map_err(|reason| format!("its manifest {reason}"));
    let (is_ours, buttons) = (true, Some("Settings > Extensions"));
    let package = ClientPackage::new("extension", &label, file, false);
    let mut package = ClientPackage { is_ours, buttons, ..package };
    match manifest.and_then(|manifest| manifest.entry(&values, &host)) {
        Ok(entry) => {
            let entry = Value::Object(entry);
            package.servers.push(PackageServer { name, client_name: label, entry, switch: None });
        }
        Err(reason) => package.staying.push((name, reason)),
    }
    Some(package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileTexts;
    use config::env::Env;
    use serde_json::json;
    use std::fs;

    /// Writes an extension below Claude Desktop's directory.
    fn write(dir: &Path, label: &str) {
        let manifest = json!({"manifest_version": "0.3", "name": "x", "display_name": label, "server": {"type": "binary",
            "mcp_config": {"command": "${__dirname}/x"}}});
        for (file, content) in [
            ("extensions-installations.json", json!({"extensions": {"x.id": {}}})),
            ("Claude Extensions Settings/x.id.json", json!({"isEnabled": true})),
            ("Claude Extensions/x.id/manifest.json", manifest),
        ] {
            fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
            fs::write(dir.join(file), content.to_string()).unwrap();
        }
    }

    #[test]
    fn extensions_are_found_where_each_system_has_them() {
        let home = tempfile::tempdir().unwrap();
        let local = home.path().join("Local");
        let names = ["HOME", "USERPROFILE"].map(|name| (name, home.path().to_owned()));
        let env = Env::new(names.into_iter().chain([("LOCALAPPDATA", local.clone())]), "/");
        let texts = FileTexts::new();
        let found = |os| {
            let found = extensions(&PackageContext::new(&env, &texts), os);
            let found = found.into_iter().map(|found| (found.name, found.servers[0].entry.clone()));
            found.collect::<Vec<_>>()
        };
        let runs = |dir: &Path| json!({"command": config::notation::escape(dir.join("Claude Extensions/x.id/x").to_str().unwrap())});
        let mac = home.path().join("Library/Application Support/Claude");
        write(&mac, "Mac");
        assert_eq!(found(HostOs::MacOs), [("Mac".to_owned(), runs(&mac))]);
        let roaming = home.path().join("AppData/Roaming/Claude");
        write(&roaming, "Roaming");
        assert_eq!(found(HostOs::Windows), [("Roaming".to_owned(), runs(&roaming))]);
        // The app of the store has its own directory, and reads no other one.
        let packaged = local.join("Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude");
        write(&packaged, "Store");
        assert_eq!(found(HostOs::Windows), [("Store".to_owned(), runs(&packaged))]);
        assert_eq!(found(HostOs::Linux), []);
    }
}
