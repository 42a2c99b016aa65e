//! What `manifest.json` of a bundle says, and the entry for servers.json that follows from it.
//!
//! The rules are those of `getMcpConfigForManifest` in @anthropic-ai/mcpb 2.1.2, the reference of Claude Desktop:
//!
//! - What `platform_overrides` has for the system stands in place of the command, the arguments or the variables as a whole.
//! - A required setting needs a value of the user's; a default is not enough.
//! - `${__dirname}`, `${/}`, `${pathSeparator}`, `${HOME}`, `${DESKTOP}`, `${DOCUMENTS}`, `${DOWNLOADS}` and
//!   `${user_config.KEY}` are replaced. Everything else is text, and so is a setting without a value.
//! - An argument that is nothing but a setting becomes an argument for each element of its list. In a longer text, a list is
//!   not replaced. An argument that is nothing but a setting whose value is the empty text stays as it is.
//!
//! Two rules are from the format's documentation: the variables of the system are replaced in the values of settings, too,
//! and a relative path with a separator starts at the bundle's directory, if it names a file there.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::values::{SECRET_MARK, SettingValue, UserSetting};
use base::text::{joined, one_line, quoted, quoted_list, shorten};
use config::notation::{StringPart, write};

/// The versions of the format.
const VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];
/// The longest description of a server, in characters.
const MAX_DESCRIPTION: usize = 200;
/// The system, as bundles name it.
pub const PLATFORM: &str = if cfg!(target_os = "macos") {
    "darwin"
} else if cfg!(windows) {
    "win32"
} else {
    "linux"
};

/// `manifest.json`. Members that do not concern the start are left out.
#[derive(Debug, Deserialize)]
pub struct BundleManifest {
    manifest_version: Option<String>,
    /// What version 0.1 called it.
    dxt_version: Option<String>,
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub display_name: Option<String>,
    #[serde(default)]
    author: Value,
    #[serde(default)]
    description: String,
    server: BundleServer,
    #[serde(default)]
    compatibility: BundleCompatibility,
    /// The settings, in the order of the file.
    #[serde(default, deserialize_with = "in_order")]
    pub user_config: Vec<(String, UserSetting)>,
}

#[derive(Debug, Deserialize)]
struct BundleServer {
    /// `node`, `python`, `binary` or `uv`.
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    entry_point: String,
    mcp_config: Option<McpConfig>,
}

/// How the server is started.
#[derive(Debug, Deserialize)]
struct McpConfig {
    #[serde(flatten)]
    launch: BundleLaunch,
    #[serde(default)]
    platform_overrides: BTreeMap<String, BundleLaunch>,
}

/// How the server is started on a system.
#[derive(Clone, Debug, Default, Deserialize)]
struct BundleLaunch {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct BundleCompatibility {
    #[serde(default)]
    platforms: Vec<String>,
}

/// Where a bundle runs.
#[derive(Debug)]
pub struct BundleHost<'a> {
    /// The directory in which it is unpacked.
    pub dir: &'a Path,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The system: see [`PLATFORM`].
    pub platform: &'static str,
}

fn in_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, UserSetting)>, D::Error> {
    let members = Map::deserialize(deserializer)?;
    let setting = |(name, value): (String, Value)| Ok((name, serde_json::from_value(value)?));
    let settings: Result<_, serde_json::Error> = members.into_iter().map(setting).collect();
    settings.map_err(serde::de::Error::custom)
}

impl BundleManifest {
    /// Reads the text of `manifest.json`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it, as the end of "manifest.json …".
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('\u{feff}');
        let manifest: Self =
            serde_json::from_str(text).map_err(|error| format!("is no manifest of a bundle: {error}"))?;
        if text.contains("\\u0000") {
            return Err("has a text with a NUL character".to_owned());
        }
        let version = manifest.manifest_version.as_ref().or(manifest.dxt_version.as_ref());
        match version.is_some_and(|version| VERSIONS.contains(&version.as_str())) {
            true => Ok(manifest),
            false => Err(format!("has another `manifest_version` than {}", VERSIONS.join(", "))),
        }
    }

    /// Returns what tells bundles of one name apart: the author and the name.
    pub fn id(&self) -> String {
        format!("{}/{}", self.author["name"].as_str().unwrap_or_default(), self.name)
    }

    /// Returns the settings that are required and have no value.
    pub fn missing(&self, values: &BTreeMap<String, SettingValue>) -> Vec<&str> {
        let is_missing = |(name, setting): &&(String, UserSetting)| {
            setting.required && !values.get(name).is_some_and(SettingValue::is_given)
        };
        self.user_config.iter().filter(is_missing).map(|(name, _)| name.as_str()).collect()
    }

    /// Checks whether the server can be started on this system.
    ///
    /// # Errors
    ///
    /// Says why it cannot.
    pub fn check(&self, platform: &str) -> Result<(), String> {
        let platforms = &self.compatibility.platforms;
        if !platforms.is_empty() && !platforms.iter().any(|known| known == platform) {
            let known = quoted_list(platforms.iter().map(String::as_str));
            return Err(format!("it runs only on {known}, and this system is {}", quoted(platform)));
        }
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let entry_point = &self.server.entry_point;
        if entry_point.contains('\\') || !Path::new(entry_point).components().all(is_inside) {
            return Err(format!("its entry_point {} leads out of its directory", quoted(entry_point)));
        }
        match self.launch(platform).command.is_none_or(|command| command.is_empty()) {
            true => Err("its manifest has no `command` in `server.mcp_config`".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the server's entry for servers.json, with the values of the user. Blocks.
    ///
    /// # Errors
    ///
    /// Says why the server cannot be started.
    pub fn entry(
        &self,
        values: &BTreeMap<String, SettingValue>,
        host: &BundleHost<'_>,
    ) -> Result<Map<String, Value>, String> {
        self.check(host.platform)?;
        let missing = self.missing(values);
        if !missing.is_empty() {
            return Err(format!("its required settings have no value: {}", joined(missing)));
        }
        let (launch, variables) = (self.launch(host.platform), BundleVariables::new(self, values, host));
        let command = variables.replace(&launch.command.unwrap_or_default());
        let args = launch.args.iter().flatten().flat_map(|arg| variables.argument(arg));
        let words: Vec<_> = [command].into_iter().chain(args).map(|word| in_bundle(word, host.dir)).collect();
        if words.iter().any(|word| word.contains(SECRET_MARK)) {
            return Err(
                "it passes a secret as an argument, and {keyring:NAME} counts only in variables".to_owned()
            );
        }
        let words: Vec<_> = words.iter().map(|word| written(word)).collect();
        let env = launch.env.unwrap_or_default().into_iter();
        let env: Map<_, _> =
            env.map(|(name, text)| (name, written(&variables.replace(&text)).into())).collect();
        let description = shorten(&one_line(&self.description), MAX_DESCRIPTION);
        let entry = json!({"command": words[0], "args": words[1..], "env": env, "description": description});
        let is_given = |value: &Value| ![json!([]), json!({}), json!("")].contains(value);
        let members = entry.as_object().into_iter().flatten().filter(|(_, value)| is_given(value));
        Ok(members.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Returns how the server is started on this system, with its variables.
    fn launch(&self, platform: &str) -> BundleLaunch {
        let Some(config) = &self.server.mcp_config else {
            // As an example of the format's documentation has it.
            let args = ["run", "--directory", "${__dirname}", &self.server.entry_point].map(str::to_owned);
            let command = (self.server.kind == "uv").then(|| "uv".to_owned());
            return BundleLaunch { command, args: Some(args.to_vec()), env: None };
        };
        let (base, own) = (config.launch.clone(), config.platform_overrides.get(platform).cloned());
        let own = own.unwrap_or_default();
        BundleLaunch {
            command: own.command.filter(|command| !command.is_empty()).or(base.command),
            args: own.args.or(base.args),
            env: own.env.or(base.env),
        }
    }
}

/// Returns a text as servers.json has it.
fn written(text: &str) -> String {
    let parts = text.split(SECRET_MARK).enumerate().map(|(at, part)| match at % 2 {
        0 => StringPart::Text(part.into()),
        _ => StringPart::Secret(format!("keyring:{part}").into()),
    });
    write(&parts.collect::<Vec<_>>())
}

/// Makes a relative path absolute if it names a file in the bundle.
fn in_bundle(word: String, dir: &Path) -> String {
    let path = dir.join(&word);
    match word.contains('/') && Path::new(&word).is_relative() && path.is_file() {
        true => path.to_string_lossy().into_owned(),
        false => word,
    }
}

/// The variables of a manifest, as it writes them.
struct BundleVariables {
    /// In the order in which they are replaced. A secret is its name between marks.
    texts: Vec<(String, String)>,
    lists: BTreeMap<String, Vec<String>>,
}

impl BundleVariables {
    fn new(
        manifest: &BundleManifest,
        values: &BTreeMap<String, SettingValue>,
        host: &BundleHost<'_>,
    ) -> Self {
        let mut variables = Self { texts: Vec::new(), lists: BTreeMap::new() };
        let default = |(name, setting): &(String, UserSetting)| Some((name.clone(), setting.default()?));
        let mut all: BTreeMap<_, _> = manifest.user_config.iter().filter_map(default).collect();
        all.extend(values.clone());
        for (name, value) in all {
            let variable = format!("${{user_config.{name}}}");
            match value {
                SettingValue::Text(text) => variables.texts.push((variable, text)),
                SettingValue::List(texts) => drop(variables.lists.insert(variable, texts)),
                SettingValue::Keyring(name) => {
                    variables.texts.push((variable, format!("{SECRET_MARK}{name}{SECRET_MARK}")));
                }
            }
        }
        let separator = if host.platform == "win32" { "\\" } else { "/" };
        let mut add = |name: &str, path: &Path| {
            variables.texts.push((format!("${{{name}}}"), path.to_string_lossy().into_owned()));
        };
        add("__dirname", host.dir);
        ["/", "pathSeparator"].iter().for_each(|name| add(name, Path::new(separator)));
        if let Some(home) = &host.home {
            add("HOME", home);
            ["Desktop", "Documents", "Downloads"]
                .iter()
                .for_each(|dir| add(&dir.to_uppercase(), &home.join(dir)));
        }
        variables
    }

    fn replace(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, (variable, value)| text.replace(variable, value))
    }

    /// Returns the arguments that one of the manifest becomes.
    fn argument(&self, arg: &str) -> Vec<String> {
        if let Some(list) = self.lists.get(arg) {
            return list.iter().map(|text| self.replace(text)).collect();
        }
        let is_empty = self.texts.iter().any(|(variable, text)| variable == arg && text.is_empty());
        vec![if is_empty { arg.to_owned() } else { self.replace(arg) }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [(&str, SettingValue); 0] = [];

    fn text(text: &str) -> SettingValue {
        SettingValue::Text(text.to_owned())
    }

    fn manifest(server: &Value, settings: &Value) -> Value {
        json!({"manifest_version": "0.3", "name": "x", "server": server, "user_config": settings})
    }

    /// The entry of a manifest on a system where bundles are unpacked in `/b`.
    fn entry<'v>(
        manifest: &Value,
        values: impl IntoIterator<Item = (&'v str, SettingValue)>,
        platform: &'static str,
    ) -> Result<Value, String> {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let host = BundleHost { dir: Path::new("/b"), home: Some("/h".into()), platform };
        BundleManifest::parse(&manifest.to_string())?.entry(&values, &host).map(Value::Object)
    }

    #[test]
    fn variables_are_replaced_as_claude_desktop_does() {
        let server = json!({"type": "node", "entry_point": "s.js", "mcp_config": {
            "command": "node",
            "args": ["${__dirname}${/}s.js", "${user_config.dirs}", "--dirs=${user_config.dirs}", "${user_config.empty}",
                "-${user_config.empty}-", "${user_config.unset}", "${user_config.limit}", "--on=${user_config.on}", "${PATH}"],
            "env": {"A": "${HOME}:${DOCUMENTS}", "D": "${user_config.default}", "E": "${user_config.empty}", "O": "${user_config.unset}"},
        }});
        let settings = json!({
            "dirs": {"type": "directory", "title": "", "description": "", "multiple": true, "required": true},
            "default": {"type": "string", "default": "${HOME}/x"},
            "limit": {"type": "number", "default": 20.0}, "on": {"type": "boolean", "default": true},
        });
        let dirs = SettingValue::List(vec!["/a b".to_owned(), "${HOME}".to_owned()]);
        let values = [("dirs", dirs), ("empty", text(""))];
        // Text that looks like a variable of servers.json is escaped.
        assert_eq!(
            entry(&manifest(&server, &settings), values, "linux").unwrap(),
            json!({
                "command": "node",
                "args": ["/b/s.js", "/a b", "/h", "--dirs=$${user_config.dirs}", "$${user_config.empty}", "--",
                    "$${user_config.unset}", "20", "--on=true", "$${PATH}"],
                "env": {"A": "/h:/h/Documents", "D": "/h/x", "E": "", "O": "$${user_config.unset}"},
            })
        );
    }

    #[test]
    fn a_system_has_its_own_command() {
        let config = json!({"command": "${__dirname}/bin/x", "args": ["a"], "env": {"A": "1"}, "alwaysAllow": [],
            "platform_overrides": {"win32": {"args": []}, "darwin": {"command": "y", "env": {"B": "2"}}}});
        let manifest = manifest(&json!({"type": "binary", "mcp_config": config}), &json!({}));
        let on = |platform| entry(&manifest, NONE, platform).unwrap();
        assert_eq!(on("linux"), json!({"command": "/b/bin/x", "args": ["a"], "env": {"A": "1"}}));
        assert_eq!(on("win32"), json!({"command": "/b/bin/x", "env": {"A": "1"}}));
        assert_eq!(on("darwin"), json!({"command": "y", "args": ["a"], "env": {"B": "2"}}));
    }

    #[test]
    fn uv_needs_no_command() {
        let mut bundle = manifest(&json!({"type": "uv", "entry_point": "src/s.py"}), &json!({}));
        bundle["manifest_version"] = "0.4".into();
        let run = json!({"command": "uv", "args": ["run", "--directory", "/b", "src/s.py"]});
        assert_eq!(entry(&bundle, NONE, "linux").unwrap(), run);
    }

    #[test]
    fn secrets_are_named_in_variables_and_refused_in_arguments() {
        let settings = json!({"token": {"type": "string", "sensitive": true, "required": true}});
        let with = |config| manifest(&json!({"type": "node", "mcp_config": config}), &settings);
        let token = || [("token", SettingValue::Keyring("x-token".to_owned()))];
        let header = with(json!({"command": "node", "env": {"H": "Bearer ${user_config.token}$"}}));
        let written = json!({"command": "node", "env": {"H": "Bearer {keyring:x-token}$"}});
        assert_eq!(entry(&header, token(), "linux").unwrap(), written);
        let argument = with(json!({"command": "node", "args": ["--token=${user_config.token}"]}));
        let refused = entry(&argument, token(), "linux").unwrap_err();
        assert!(refused.contains("a secret as an argument"), "{refused}");
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let config = json!({"command": "x"});
        let good = manifest(&json!({"type": "node", "mcp_config": config}), &json!({}));
        let with = |pointer: &str, value: Value| {
            let (mut changed, (parent, key)) = (good.clone(), pointer.rsplit_once('/').unwrap());
            changed.pointer_mut(parent).unwrap()[key] = value;
            changed
        };
        assert!(entry(&good, NONE, "linux").is_ok());
        for (changed, why) in [
            (with("/manifest_version", json!("9")), "has another `manifest_version` than 0.1, 0.2, 0.3, 0.4"),
            (with("/manifest_version", Value::Null), "has another `manifest_version`"),
            (with("/server/mcp_config", Value::Null), "no `command` in `server.mcp_config`"),
            (with("/server/entry_point", json!("../x.js")), "its entry_point \"../x.js\" leads out"),
            (with("/server/entry_point", json!("/x.js")), "leads out"),
            (with("/server/entry_point", json!("..\\x.js")), "leads out"),
            (
                with("/compatibility", json!({"platforms": ["darwin", "win32"]})),
                "it runs only on \"darwin\", \"win32\", and this system is \"linux\"",
            ),
            (
                with("/user_config", json!({"a": {"type": "string", "required": true, "default": "x"}})),
                "no value: a",
            ),
        ] {
            let error = entry(&changed, NONE, "linux").unwrap_err();
            assert!(error.contains(why), "{changed}: {error}");
        }
        let mut old = good.clone();
        old.as_object_mut().unwrap().remove("manifest_version");
        old["dxt_version"] = "0.1".into();
        assert!(entry(&old, NONE, "linux").is_ok());
    }

    #[test]
    fn a_relative_path_names_a_file_of_the_bundle_if_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("server")).unwrap();
        std::fs::write(dir.path().join("server/s.js"), "").unwrap();
        let config = json!({"command": "node", "args": ["server/s.js", "server/none.js", "s.js"]});
        let bundle = manifest(&json!({"type": "node", "mcp_config": config}), &json!({}));
        let host = BundleHost { dir: dir.path(), home: None, platform: PLATFORM };
        let entry =
            BundleManifest::parse(&bundle.to_string()).unwrap().entry(&BTreeMap::new(), &host).unwrap();
        let file = dir.path().join("server/s.js");
        let file = config::notation::escape(file.to_str().unwrap());
        assert_eq!(entry["args"], json!([file, "server/none.js", "s.js"]));
    }
}
