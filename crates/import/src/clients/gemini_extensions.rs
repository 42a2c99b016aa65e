//! The extensions of Gemini CLI 0.61, and of Qwen Code, which is made of it.

use std::collections::BTreeSet;
use std::path::{MAIN_SEPARATOR_STR, Path, PathBuf};

use super::package::{ClientPackage, ClientSetting, PackageContext, dirs_in, with_variables};
use crate::json::{members, strings};
use base::text::visible;

/// Finds the extensions that are on in the home directory. `dir`: the directory that has them. `manifest`: the file of each.
/// `switch`: the setting that turns off a server.
pub(super) fn packages(
    context: &PackageContext<'_>,
    dir: &Path,
    manifest: &str,
    switch: impl Fn(&str) -> ClientSetting,
) -> Vec<ClientPackage> {
    let enablement = context.read(&dir.join("extension-enablement.json")).unwrap_or_default();
    let (mut packages, mut names) = (Vec::new(), BTreeSet::new());
    for place in dirs_in(dir) {
        let installed = context.read(&place.join(format!(".{}", manifest.replace(".json", "-install.json"))));
        // One that is linked is where its source is.
        let linked = installed.as_ref().filter(|installed| installed["type"] == "link");
        let root = linked.and_then(|installed| installed["source"].as_str()).map_or(place, PathBuf::from);
        let file = root.join(manifest);
        let Some(content) = context.read(&file) else { continue };
        let Some(name) = content["name"].as_str() else { continue };
        let rules: Vec<&str> = strings(enablement[name].get("overrides")).collect();
        if !is_on(&rules, context) {
            continue;
        }
        let has_settings = content["settings"].as_array().is_some_and(|settings| !settings.is_empty());
        let off = rules.iter().find_map(|rule| rule.strip_prefix('!'));
        let path = root.to_string_lossy();
        let variables =
            [("extensionPath", &*path), ("/", MAIN_SEPARATOR_STR), ("pathSeparator", MAIN_SEPARATOR_STR)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut package = ClientPackage::new("extension", name, file, false);
        // Of several extensions with a server of one name, the first one has it.
        for (server, entry) in
            members(content.get("mcpServers")).filter(|(server, _)| names.insert((*server).clone()))
        {
            let mut entry = with_variables(entry, &variables);
            entry.as_object_mut().map(|entry| entry.shift_remove("trust"));
            let found = match off {
                _ if has_settings => Err("its extension has settings of its own".to_owned()),
                _ if entry.to_string().contains("${workspacePath}") => {
                    Err("it is another one in each workspace".to_owned())
                }
                Some(dir) => Err(format!("it is off in {}", visible(dir))),
                None => Ok((entry, switch(server))),
            };
            package.add([server, server], found);
        }
        packages.push(package);
    }
    packages
}

/// Returns whether an extension with these rules is on in the home directory. Of those that are about it, the last counts.
fn is_on(rules: &[&str], context: &PackageContext<'_>) -> bool {
    let home = context.env.home().unwrap_or_default().to_string_lossy().replace('\\', "/");
    let here = format!("/{}/", home.trim_matches('/'));
    let is_about = |rule: &&&str| {
        let rule = rule.trim_start_matches('!');
        rule.strip_suffix('*').map_or(here == rule, |start| here.starts_with(start))
    };
    rules.iter().rfind(is_about).is_none_or(|rule| !rule.starts_with('!'))
}
