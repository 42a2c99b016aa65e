//! Packages: the extensions and plugins of a client that bring servers. The client starts these servers beside those of its
//! own file, and has a setting, or a button, to turn them off.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json::map_strings;
use crate::source::{FileTexts, read_in};
use config::ConfigError;
use config::env::Env;

/// A package of a client.
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
    /// Where the client has only buttons to turn it off.
    pub buttons: Option<PackageButtons>,
}

/// A server of a package.
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

/// What a person does to turn a package off and on again: "turn off Notes in Settings > Extensions".
#[derive(Clone, Debug)]
pub(crate) struct PackageButtons {
    /// To turn it off.
    pub off: String,
    /// To turn it on.
    pub on: String,
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
    /// The directory of the project that is imported too.
    pub project: Option<&'a Path>,
    texts: &'a FileTexts,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> PackageContext<'a> {
    /// Reads files that have these texts, and all others from disk.
    pub(crate) fn new(env: &'a Env, project: Option<&'a Path>, texts: &'a FileTexts) -> Self {
        Self { env, project, texts, errors: RefCell::default() }
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

/// Returns a value with these variables replaced in its strings, one after the other: `${NAME}` by the name's text.
pub(super) fn with_variables(value: &Value, variables: &[(&str, &str)]) -> Value {
    let replaced = |text: &str| {
        let all = variables.iter();
        all.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    };
    map_strings(value, &mut |text| replaced(text))
}
