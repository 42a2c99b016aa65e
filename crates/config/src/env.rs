//! The environment of our process: its variables and its working directory.
//!
//! `main` reads it once and passes it to everything that needs it: variables in the config, directories, and what
//! servers inherit. Names and values need not be Unicode. On Windows the case of names does not count.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Environment variables by name.
pub type EnvVars = BTreeMap<OsString, OsString>;

/// The environment variables and the working directory that a program is started with.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env {
    /// The variables, including those that are not Unicode. Clones share them.
    pub vars: Arc<EnvVars>,
    /// The working directory, where relative paths of the command line start.
    cwd: PathBuf,
}

impl fmt::Debug for Env {
    /// Shows only the names of the variables, because their values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.vars.keys().collect::<Vec<_>>();
        f.debug_struct("Env").field("vars", &names).field("cwd", &self.cwd).finish()
    }
}

impl Env {
    /// Reads the environment of this process. A variable whose value is only a reference to itself is not set: a client
    /// that does not have it passes on the text of its entry (`"TOKEN": "${TOKEN}"`).
    pub fn of_process() -> Self {
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        Self::new(std::env::vars_os().filter(|(name, value)| !is_reference_to_itself(name, value)), cwd)
    }

    /// Makes an environment of these variables. `cwd` is the directory where relative paths on the command line start.
    pub fn new<K, V>(variables: impl IntoIterator<Item = (K, V)>, cwd: impl Into<PathBuf>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let vars = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { vars: Arc::new(vars.collect()), cwd: cwd.into() }
    }

    /// Returns this environment with more variables, which replace those of the same name.
    pub fn with<'v>(&self, more: impl IntoIterator<Item = (&'v str, &'v str)>) -> Self {
        let mut env = self.clone();
        let vars = Arc::make_mut(&mut env.vars);
        more.into_iter().for_each(|(name, value)| set_var(vars, name, value.into()));
        env
    }

    /// Returns this environment in another working directory.
    pub fn in_directory(self, cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: cwd.into(), ..self }
    }

    /// Returns the value of a variable; `None` if it is not set.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        get_var(&self.vars, name)
    }

    /// Returns the value of a variable; `None` if it is not set or not Unicode.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.var(name)?.to_str()
    }

    /// Returns the value of a variable; `None` if it is not set, not Unicode or empty.
    pub fn get_non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the home directory: `HOME`, or `USERPROFILE` if that is unset. A relative path does not count: the
    /// config of the user would be a file of the project in which a client is started.
    pub fn home(&self) -> Option<PathBuf> {
        let homes = ["HOME", "USERPROFILE"].iter().filter_map(|name| self.var(name));
        homes.map(PathBuf::from).find(|home| home.has_root())
    }

    /// Returns the directory of config files: `$XDG_CONFIG_HOME/dynamic-mcp`, else `~/.config/dynamic-mcp`; on Windows
    /// `%APPDATA%\dynamic-mcp`.
    pub fn config_dir(&self) -> Option<PathBuf> {
        match cfg!(windows) {
            true => self.app_dir("APPDATA", r"AppData\Roaming"),
            false => self.app_dir("XDG_CONFIG_HOME", ".config"),
        }
    }

    /// Returns the directory of files to keep, such as logins: `$XDG_DATA_HOME/dynamic-mcp`, else
    /// `~/.local/share/dynamic-mcp`; on Windows `%LOCALAPPDATA%\dynamic-mcp`.
    pub fn data_dir(&self) -> Option<PathBuf> {
        match cfg!(windows) {
            true => self.app_dir("LOCALAPPDATA", r"AppData\Local"),
            false => self.app_dir("XDG_DATA_HOME", ".local/share"),
        }
    }

    /// Returns our directory in the base directory that `variable` names, else in `below_home` of the home directory. A
    /// variable counts only if it is an absolute path (XDG Base Directory Specification).
    pub(crate) fn app_dir(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let base = self.var(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let base = base.or_else(|| Some(self.home()?.join(below_home)))?;
        Some(base.join("dynamic-mcp"))
    }
}

/// Returns whether a value is the variable of this name in the notation of a client, and nothing else.
fn is_reference_to_itself(name: &OsStr, value: &OsStr) -> bool {
    let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { return false };
    let braces =
        ["${env:", "{env:", "${"].iter().find_map(|open| value.strip_prefix(open)?.strip_suffix('}'));
    let body = braces.or_else(|| value.strip_prefix('$'));
    body.is_some_and(|body| is_same_var(body, name))
}

/// Returns whether two names mean the same variable.
pub fn is_same_var(a: &str, b: &str) -> bool {
    a == b || cfg!(windows) && a.to_uppercase() == b.to_uppercase()
}

/// Returns the value of `name`; `None` if it is not set.
pub fn get_var<'a>(vars: &'a EnvVars, name: &str) -> Option<&'a OsStr> {
    if !cfg!(windows) {
        return vars.get(OsStr::new(name)).map(OsString::as_os_str);
    }
    let is_wanted = |key: &OsString| key.to_str().is_some_and(|key| is_same_var(key, name));
    vars.iter().find(|(key, _)| is_wanted(key)).map(|(_, value)| &**value)
}

/// Sets `name` and removes its other spellings.
pub fn set_var(vars: &mut EnvVars, name: &str, value: OsString) {
    vars.retain(|key, _| !key.to_str().is_some_and(|key| is_same_var(key, name)));
    vars.insert(name.into(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reference_to_the_same_variable_is_one_to_itself() {
        let is_one = |value: &str| is_reference_to_itself("TOKEN".as_ref(), value.as_ref());
        for value in ["${TOKEN}", "$TOKEN", "${env:TOKEN}", "{env:TOKEN}"] {
            assert!(is_one(value), "{value}");
        }
        for value in
            ["TOKEN", "", "$", "${OTHER}", "${TOKEN", "{TOKEN}", "x${TOKEN}", "${TOKEN:-x}", "$${TOKEN}"]
        {
            assert!(!is_one(value), "{value}");
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let shown = format!("{:?}", Env::new([("TOKEN", "hunter2")], "/"));
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }
}
