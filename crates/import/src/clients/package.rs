//! Packages: the extensions and plugins of a client that bring servers. The client starts these servers beside those of its
//! own file, and has a setting, or a button, to turn them off.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json::{map_strings, members};
use crate::source::{FileTexts, read_in};
use base::text::visible;
use config::ConfigError;
use config::env::Env;

/// A package of a client.
#[derive(Debug)]
pub(crate) struct ClientPackage {
    /// The client's word for it: "extension" or "plugin".
    pub kind: &'static str,
    /// Its name, as the client shows it.
    pub name: String,
    /// The file that has the servers.
    pub file: PathBuf,
    /// Its servers that are on.
    pub servers: Vec<PackageServer>,
    /// Servers that stay in the package, each with the reason.
    pub staying: Vec<(String, String)>,
    /// Whether an update puts its files into another directory.
    pub is_versioned: bool,
    /// Whether the strings of its servers are in our notation already.
    pub is_ours: bool,
    /// Where a person turns it off, if no setting of a file does it: "Settings > Extensions".
    pub buttons: Option<&'static str>,
}

impl ClientPackage {
    /// Creates a package without servers.
    pub(super) fn new(kind: &'static str, name: &str, file: PathBuf, is_versioned: bool) -> Self {
        let (servers, staying) = (Vec::new(), Vec::new());
        let name = name.to_owned();
        Self { kind, name, file, servers, staying, is_versioned, is_ours: false, buttons: None }
    }

    /// Adds a server with the setting that turns it off, or with the reason why it stays.
    pub(super) fn add(
        &mut self,
        [name, client_name]: [&str; 2],
        found: Result<(Value, ClientSetting), String>,
    ) {
        let (name, client_name) = (name.to_owned(), client_name.to_owned());
        match found {
            Ok((entry, switch)) => {
                self.servers.push(PackageServer { name, client_name, entry, switch: Some(switch) });
            }
            Err(reason) => self.staying.push((name, reason)),
        }
    }

    /// Returns the client's word and the name, for texts: "plugin notes@market".
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind, visible(&self.name))
    }
}

/// A server of a package.
#[derive(Debug)]
pub(crate) struct PackageServer {
    /// Its name in the package.
    pub name: String,
    /// The name under which the client lists it, and knows it in rules.
    pub client_name: String,
    /// Its entry, in the client's form. The variables of the package are replaced in it; those of the environment are not.
    pub entry: Value,
    /// The setting that turns off this server alone. `None`: the package has buttons.
    pub switch: Option<ClientSetting>,
}

/// A setting of a client that turns off a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientSetting {
    /// The file that has it.
    pub file: PathBuf,
    /// The keys that lead to the object that has it.
    pub keys: Vec<String>,
    /// Its name in that object.
    pub name: String,
    /// What turns the server off.
    pub change: SettingChange,
}

/// What is done to a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingChange {
    /// It gets this value.
    Set(Value),
    /// This value is added to its list.
    Add(Value),
}

impl ClientSetting {
    /// Creates a setting below these keys, the last of which is its name.
    pub(crate) fn new(file: &Path, keys: &[&str], change: SettingChange) -> Self {
        let mut keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        let name = keys.pop().unwrap_or_default();
        Self { file: file.to_owned(), keys, name, change }
    }
}

/// Reads the files of packages.
pub(crate) struct PackageContext<'a> {
    /// The environment.
    pub env: &'a Env,
    texts: &'a FileTexts,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> PackageContext<'a> {
    /// Reads files that have these texts, and all others from disk.
    pub(crate) fn new(env: &'a Env, texts: &'a FileTexts) -> Self {
        Self { env, texts, errors: RefCell::default() }
    }

    /// Returns the content of a file. `None`: there is no file, or an error was noted.
    pub(super) fn read(&self, path: &Path) -> Option<Value> {
        let read = read_in(self.texts, path).map_err(|error| self.errors.borrow_mut().push(error));
        read.ok().flatten().map(|(_, root)| root)
    }

    /// Returns the files that could not be read.
    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        self.errors.into_inner()
    }
}

/// Returns the directories in a directory, in the order of their names.
pub(super) fn dirs_in(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let mut dirs: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs
}

/// Returns the servers of a file of a plugin, which has them below `mcpServers` or alone.
pub(super) fn plugin_servers(content: &Value) -> impl Iterator<Item = (&String, &Value)> {
    members(Some(content.get("mcpServers").unwrap_or(content)))
}

/// Returns a value with these variables replaced in its strings, one after the other: `${NAME}` by the name's text.
pub(super) fn with_variables(value: &Value, variables: &[(String, String)]) -> Value {
    map_strings(value, &mut |text| {
        let replace =
            |text: String, (name, value): &(String, String)| text.replace(&format!("${{{name}}}"), value);
        variables.iter().fold(text.to_owned(), replace)
    })
}
