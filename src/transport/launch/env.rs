//! Which variables a child gets: the safe ones of ours, what the entry asks for, and the entry's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::ProcessEnv;
use crate::config::{InheritEnv, StdioConfig};

type Vars = BTreeMap<OsString, OsString>;

/// What a program needs to feel at home, and nothing that is likely to be a secret of something else.
const SAFE: &[&str] = &[
    "CLAUDE_PROJECT_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "HOME",
    "KUBECONFIG",
    "LANG",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    // Read by programs in either case.
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
];

const SAFE_PREFIXES: &[&str] = &["LC_", "SSL_CERT_", "XDG_"];

/// Without these, programs on Windows do not even start.
const SAFE_ON_WINDOWS: &[&str] = &[
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)",
    "COMPUTERNAME",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Our own settings. A dynamic-mcp below us must not take them for its own.
const OURS: &str = "DYNAMIC_MCP_";

/// What every shell sets for itself: text that mentions these does not ask for them.
const OF_SHELLS: &[&str] = &["OLDPWD", "PWD", "SHLVL", "_"];

/// The environment of the child that `stdio` describes; its own `env` wins.
pub(super) fn of_child(stdio: &StdioConfig, ambient: &ProcessEnv) -> Vars {
    let inherited = ambient.vars.iter().filter(|(name, _)| is_inherited(name, &stdio.inherit_env));
    let mut env = inherited.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in &stdio.env {
        set(&mut env, name, value.into());
    }
    env
}

fn is_inherited(name: &OsStr, rule: &InheritEnv) -> bool {
    // A name that is not Unicode is nobody's setting, so only a rule for all can mean it.
    let Some(name) = name.to_str() else { return *rule == InheritEnv::All };
    if name.starts_with(OURS) {
        return false;
    }
    match rule {
        InheritEnv::All => true,
        InheritEnv::Safe => is_safe(name),
        InheritEnv::Named(more) => is_safe(name) || more.iter().any(|other| is_same(name, other)),
    }
}

fn is_safe(name: &str) -> bool {
    SAFE.iter().any(|safe| is_same(name, safe))
        || SAFE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || cfg!(windows) && SAFE_ON_WINDOWS.iter().any(|safe| is_same(name, safe))
}

/// Whether two names are one variable. Windows does not look at their case.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

/// The value of `name`.
pub(super) fn get<'a>(vars: &'a Vars, name: &str) -> Option<&'a OsStr> {
    vars.iter().find(|(key, _)| key.to_str().is_some_and(|key| is_same(key, name))).map(|(_, value)| &**value)
}

/// Sets `name`, in place of whatever spelling of it is there.
pub(super) fn set(vars: &mut Vars, name: &str, value: OsString) {
    vars.retain(|key, _| !key.to_str().is_some_and(|key| is_same(key, name)));
    vars.insert(name.into(), value);
}

/// Names of our variables that the child of `stdio` did not get although its stderr mentions them:
/// the likely reason of a start that failed, which `inherit_env` or `env` mends.
pub fn withheld(ambient: &ProcessEnv, stdio: &StdioConfig, stderr_tail: &str) -> Vec<String> {
    let given = of_child(stdio, ambient);
    let names = ambient.vars.keys().filter_map(|name| name.to_str());
    names
        .filter(|name| !name.starts_with(OURS) && !OF_SHELLS.contains(name))
        .filter(|name| get(&given, name).is_none() && mentions(stderr_tail, name))
        .map(str::to_owned)
        .collect()
}

/// Whether `word` stands in `text` as a whole word.
fn mentions(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    !word.is_empty()
        && text
            .match_indices(word)
            .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}
