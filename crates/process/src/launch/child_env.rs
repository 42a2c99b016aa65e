//! The environment variables that a child process gets.
//!
//! A child inherits a safe subset of our variables, and the variables that `inherit_env` in its config entry names. The
//! entry's own `env` overrides both.

use std::ffi::OsStr;

use super::launcher_vars;
use config::env::{Env, EnvVars, get_var, is_same_var, set_var};
use config::{InheritEnv, StdioConfig};

/// Variables that programs commonly need and that are unlikely to hold secrets of other programs.
const SAFE_VARS: &[&str] = &[
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
    // Programs read these in upper or in lower case.
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
];

/// Prefixes of further variables that are as safe as [`SAFE_VARS`].
const SAFE_PREFIXES: &[&str] = &["LC_", "SSL_CERT_", "XDG_"];

/// Variables that belong to one window or one login. A child must not get them: it may outlive the window, and serve
/// others. A server that needs one gets it from its own `env`.
const WINDOW_VARS: &[&str] = &["XDG_ACTIVATION_TOKEN", "XDG_SESSION_ID", "XDG_VTNR"];

/// Variables without which programs on Windows do not even start.
const SAFE_WINDOWS_VARS: &[&str] = &[
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)",
    "COMMONPROGRAMW6432",
    "COMPUTERNAME",
    "COMSPEC",
    "DRIVERDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROCESSOR_ARCHITEW6432",
    "PROCESSOR_IDENTIFIER",
    "PROCESSOR_LEVEL",
    "PROCESSOR_REVISION",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "PSMODULEPATH",
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

/// The prefix of our own variables. A dynamic-mcp that runs as a child must not read the settings of its parent.
pub const OWN_VAR_PREFIX: &str = "DYNAMIC_MCP_";

/// Names the dynamic-mcp instances that a process descends from: hashes of their configs, the outermost first, separated
/// by colons. A dynamic-mcp that runs as a child must not start itself again.
pub const ANCESTORS_VAR: &str = "DYNAMIC_MCP_ANCESTORS";

/// Names the instance that started a process, and which of its upstreams that is. Set by the warden.
pub const OWNER_VAR: &str = "DYNAMIC_MCP_OWNER";

/// How many withheld variables an error names.
const MAX_WITHHELD: usize = 8;

/// Variables that every shell sets for itself. A message that mentions one of these does not ask for it.
const SHELL_VARS: &[&str] = &["OLDPWD", "PWD", "SHLVL", "_"];

/// How the variables begin that a client's entry sets for the config: `import` names them so (`DYN_GITHUB_TOKEN`).
const CLIENT_VAR_PREFIX: &str = "DYN_";

/// Returns the environment of the child that `stdio` configures, before its PATH is extended.
pub(super) fn child_env(stdio: &StdioConfig, process_env: &Env) -> EnvVars {
    let inherited =
        process_env.vars.iter().filter(|(name, value)| is_inherited(name, value, &stdio.inherit_env));
    let mut env = inherited.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in &stdio.env {
        set_var(&mut env, name, value.into());
    }
    env
}

fn is_inherited(name: &OsStr, value: &OsStr, rule: &InheritEnv) -> bool {
    // The config file cannot name a variable whose name is not Unicode, so only `All` includes it.
    let Some(name) = name.to_str() else { return *rule == InheritEnv::All };
    if has_prefix(name, OWN_VAR_PREFIX) {
        return is_same_var(name, ANCESTORS_VAR);
    }
    if WINDOW_VARS.iter().any(|other| is_same_var(name, other)) {
        return false;
    }
    match rule {
        // What only the client knows is for the entries that name it, not for every server.
        InheritEnv::All => !has_prefix(name, CLIENT_VAR_PREFIX),
        InheritEnv::Safe => is_safe(name, value),
        InheritEnv::Named(more) => is_safe(name, value) || more.iter().any(|other| is_same_var(name, other)),
    }
}

/// Returns whether the variable's name begins so.
fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| is_same_var(start, prefix))
}

fn is_safe(name: &str, value: &OsStr) -> bool {
    SAFE_VARS.iter().any(|safe| is_same_var(name, safe))
        || SAFE_PREFIXES.iter().any(|prefix| has_prefix(name, prefix))
        || cfg!(windows) && SAFE_WINDOWS_VARS.iter().any(|safe| is_same_var(name, safe))
        || launcher_vars::is_inherited(name, value)
}

/// Returns the names of our variables that the child of `group` did not inherit and that it may have wanted: variables
/// that its stderr mentions, and credentials whose name begins like the server's, such as `GITHUB_TOKEN` for a server
/// that is named github. They are 8 at most, sorted by name.
///
/// Such a variable is the likely cause of a failed start. The user can pass it on with `inherit_env` or `env`.
pub fn withheld_vars(process_env: &Env, group: &str, stdio: &StdioConfig, stderr_tail: &str) -> Vec<String> {
    let child_env = child_env(stdio, process_env);
    let words = server_words(group, stdio);
    let is_wanted =
        |name: &str| contains_word(stderr_tail, name) || is_credential(name) && is_named_like(name, &words);
    let names = process_env.vars.keys().filter_map(|name| name.to_str());
    names
        .filter(|name| !has_prefix(name, OWN_VAR_PREFIX) && !SHELL_VARS.contains(name))
        .filter(|name| get_var(&child_env, name).is_none() && is_wanted(name))
        .take(MAX_WITHHELD)
        .map(str::to_owned)
        .collect()
}

/// Words that say nothing about what a server is for, in the names of servers and packages.
const COMMON_WORDS: &[&str] = &[
    "API",
    "BIN",
    "DOCKER",
    "LATEST",
    "LOCAL",
    "MCP",
    "MODELCONTEXTPROTOCOL",
    "NODE",
    "NPM",
    "NPX",
    "PYTHON",
    "SERVER",
    "USR",
    "UVX",
];

/// Returns the words of the server's name and of the names of its program and package, in capitals, without those that
/// are shorter than three letters or say nothing.
fn server_words(group: &str, stdio: &StdioConfig) -> Vec<String> {
    let package = stdio.args.iter().find(|arg| !arg.starts_with('-'));
    let names = [Some(group), Some(&stdio.command), package.map(String::as_str)];
    let words = names.into_iter().flatten().flat_map(|name| name.split(|c: char| !c.is_alphanumeric()));
    let words = words.map(str::to_uppercase);
    words.filter(|word| word.len() >= 3 && !COMMON_WORDS.contains(&word.as_str())).collect()
}

/// Returns whether the first word of a variable's name is one of `words`.
fn is_named_like(name: &str, words: &[String]) -> bool {
    let first = name.split('_').next().unwrap_or(name).to_uppercase();
    words.contains(&first)
}

/// Returns whether the name is that of a credential.
pub(super) fn is_credential(name: &str) -> bool {
    let name = name.to_uppercase();
    launcher_vars::SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns whether `text` contains `word` as a whole word.
fn contains_word(text: &str, word: &str) -> bool {
    let is_word_char = |c: char| c.is_alphanumeric() || c == '_';
    !word.is_empty()
        && text.match_indices(word).any(|(start, _)| {
            !text[..start].ends_with(is_word_char) && !text[start + word.len()..].starts_with(is_word_char)
        })
}
