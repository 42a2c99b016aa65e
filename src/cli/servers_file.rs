//! The config files of the command line, as files that are edited.

use base::text;
use config::ConfigError;
use config::env::Env;
use config::load::may_have_profiles;
use import::config_schema::{edit_config, replace_config};
use import::edit::ObjectEdit;
use import::profiles::{ServerRemoval, without_server};
use import::source::{literal, read_text, servers_keys, value_at};
use import::write::absolute;
use instance::InstanceOptions;
use serde_json::{Map, Value};
use std::path::PathBuf;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_FAILURE};

/// A config file, and where its servers are.
pub(super) struct ServersFile {
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// Its text; `None` if there is no file.
    text: Option<String>,
    /// Its content.
    root: Value,
    /// The keys that lead to its servers.
    pub(super) keys: Vec<String>,
}

impl ServersFile {
    fn read(path: PathBuf) -> Result<Self, CommandError> {
        let failed = |error: ConfigError| CommandError::new(EXIT_CONFIG, error.to_string());
        let text = read_text(&path).map_err(failed)?;
        let root = literal(&path, text.as_deref().unwrap_or_default()).map_err(failed)?;
        let keys = servers_keys(&path, &root);
        Ok(Self { path, text, root, keys })
    }

    /// Returns its servers by name.
    pub(super) fn servers(&self) -> Option<&Map<String, Value>> {
        value_at(&self.root, &self.keys)?.as_object()
    }

    /// Returns the entry of a server.
    pub(super) fn entry(&self, name: &str) -> Option<&Map<String, Value>> {
        self.servers()?.get(name)?.as_object()
    }

    /// Returns what takes a server out of its profiles.
    pub(super) fn profiles_without(&self, server: &str) -> ServerRemoval {
        let profiles = self.root.get("profiles").filter(|_| may_have_profiles(&self.path));
        profiles
            .and_then(Value::as_object)
            .map(|profiles| without_server(profiles, server))
            .unwrap_or_default()
    }

    /// Returns whether the file has this text, which needs no escapes.
    pub(super) fn contains(&self, part: &str) -> bool {
        self.text.as_ref().is_some_and(|text| text.contains(part))
    }

    /// Edits the file.
    ///
    /// # Errors
    ///
    /// The file cannot be edited or written, or was changed since it was read.
    pub(super) fn write(&self, changes: Vec<ObjectEdit>) -> Result<(), CommandError> {
        let failed = |why: String| {
            CommandError::new(EXIT_FAILURE, format!("{} cannot be edited: {why}", text::path(&self.path)))
        };
        let text = self.text.as_deref();
        let edited = edit_config(&self.path, text, changes).map_err(failed)?;
        replace_config(&self.path, text, &edited).map_err(|error| failed(error.to_string()))
    }
}

/// Reads the config files of the command line.
///
/// # Errors
///
/// One of them cannot be read, or is not valid.
pub(super) fn read_files(options: &InstanceOptions, env: &Env) -> Result<Vec<ServersFile>, CommandError> {
    let files = options.files.iter().cloned();
    files.map(|file| ServersFile::read(absolute(&env.cwd().join(file)))).collect()
}
