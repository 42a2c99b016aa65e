//! The environment of our own process, and variables in general.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// Environment variables by name.
pub(super) type EnvVars = BTreeMap<OsString, OsString>;

/// The environment and working directory of our own process, read once in `main`.
#[derive(Clone)]
pub struct ProcessEnv {
    /// The variables, including those with names that are not Unicode.
    pub vars: BTreeMap<OsString, OsString>,
    /// The working directory, an absolute path.
    pub cwd: PathBuf,
}

impl ProcessEnv {
    /// Reads it. A variable whose value is only a reference to itself is not set: a client that does not have it passes
    /// on the text of its entry (`"TOKEN": "${TOKEN}"`).
    pub fn of_process() -> Self {
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let is_set = |(name, value): &(OsString, OsString)| !is_reference_to_itself(name, value);
        Self { vars: std::env::vars_os().filter(is_set).collect(), cwd }
    }

    /// Returns the value of a variable.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        get_var(&self.vars, name)
    }

    /// Returns the user's home directory, if the environment names one: `HOME`, else `USERPROFILE`.
    pub fn home(&self) -> Option<PathBuf> {
        let names = if cfg!(windows) { &["HOME", "USERPROFILE"][..] } else { &["HOME"] };
        let mut homes = names.iter().filter_map(|name| self.var(name));
        homes.find(|home| !home.is_empty()).map(PathBuf::from)
    }
}

impl fmt::Debug for ProcessEnv {
    /// Shows only the names of the variables, because their values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.vars.keys().collect::<Vec<_>>();
        f.debug_struct("ProcessEnv").field("vars", &names).field("cwd", &self.cwd).finish()
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

/// Returns whether two names mean the same variable. Names are case-insensitive on Windows.
pub(super) fn is_same_var(a: &str, b: &str) -> bool {
    if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b }
}

/// Returns the value of `name`.
pub(super) fn get_var<'a>(vars: &'a EnvVars, name: &str) -> Option<&'a OsStr> {
    let is_wanted = |key: &OsString| key.to_str().is_some_and(|key| is_same_var(key, name));
    vars.iter().find(|(key, _)| is_wanted(key)).map(|(_, value)| &**value)
}

/// Sets `name` and removes its other spellings.
pub(super) fn set_var(vars: &mut EnvVars, name: &str, value: OsString) {
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
}
