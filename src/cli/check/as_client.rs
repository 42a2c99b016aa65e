//! The environment that a client gives us, and the options by which it starts us.
//!
//! A client that runs in a terminal has the terminal's environment. A client with a window is started by the desktop: it
//! has the variables of the session and the system's PATH, and nothing that a shell's files set; if an instance that it
//! started runs, the client's own environment is read instead. Some clients pass on only a part of what they have. Our
//! entry in the client's file adds its variables to that.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use crate::cli::running_instances::running_instances;
use base::procfs;
use config::SurfaceKind;
use config::env::Env;
use import::apps::{ClientApp, short_path};
use import::host_search::HostSearch;
use import::own_entry::{self, OwnEntry};
use process::processes;

/// The PATH of programs that the desktop starts.
const DESKTOP_PATH: &str = if cfg!(target_os = "macos") {
    "/usr/bin:/bin:/usr/sbin:/sbin"
} else {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
};
/// The variables of the session.
const SESSION_VARS: [&str; 10] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "TMPDIR",
    "SSH_AUTH_SOCK",
];
/// The prefix of others of them.
const SESSION_PREFIX: &str = "XDG_";
/// What every client passes on beside these.
const TERMINAL_VARS: [&str; 4] = ["PATH", "TERM", "TZ", "LC_ALL"];
/// A list of tools that costs less than this is small enough for every request to the model.
const FEW_TOKENS: usize = 2_000;

/// How a client starts us.
pub(super) struct ClientStart {
    /// The environment, for variables in the config.
    pub(super) env: Env,
    /// The environment, for processes.
    pub(super) ambient: Env,
    /// The arguments of our entry in its file.
    pub(super) args: Vec<OsString>,
    /// Where all of that is from, and what is missing.
    pub(super) notes: Vec<String>,
}

/// Finds out how a client starts us. `env` is our own environment, `options` are those with which another
/// command reads the same config.
pub(super) async fn client_start(client: ClientApp, env: &Env, options: &str) -> ClientStart {
    let (vars, source) = client_vars(client, env).await;
    let (entry, mut notes) = own_entry(client, env, options);
    let client_env = Env::new(vars, env.cwd());
    let (own, unset) = entry.variables(client, &client_env, env);
    let mut ambient = client_env;
    let ambient_vars = Arc::make_mut(&mut ambient.vars);
    ambient_vars.retain(|name, _| passes(client, &entry, name));
    ambient_vars.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
    if has_window(client) {
        // Where the desktop starts programs. Paths of the command line still start in our directory.
        ambient = ambient.in_directory("/");
    }
    notes.insert(0, format!("the environment is {source}"));
    notes.extend(unset);
    let args = entry.args.iter().map(OsString::from).collect();
    ClientStart { env: ambient.clone().in_directory(env.cwd()), ambient, args, notes }
}

fn has_window(client: ClientApp) -> bool {
    // Windows gives the user's environment to all programs.
    !cfg!(windows) && client.has_window
}

/// Returns the environment of the client itself, and where it is from.
async fn client_vars(client: ClientApp, env: &Env) -> (BTreeMap<OsString, OsString>, String) {
    if !has_window(client) {
        return ((*env.vars).clone(), "that of this terminal".to_owned());
    }
    if let Some((pid, vars)) = running_client(client, env).await {
        return (vars, format!("that of {}, which runs (process {pid})", client.label));
    }
    let mut vars = (*env.vars).clone();
    vars.retain(|name, _| is_of_session(name));
    vars.insert("PATH".into(), DESKTOP_PATH.into());
    (vars, format!("that of the desktop, because {} runs no instance now", client.label))
}

/// Returns a warning if the surface of our entry does not fit the client. `tokens` is what the list of all tools costs;
/// `waits`: the first list waits for the servers. `env` is the client's environment.
pub(super) fn surface_warning(
    client: ClientApp,
    surface: SurfaceKind,
    tokens: usize,
    waits: bool,
    env: &Env,
) -> Option<String> {
    let name = client.label;
    match (surface, (client.tool_search)(&client, env)) {
        (SurfaceKind::Flat, HostSearch::Off(reason)) if tokens > FEW_TOKENS => Some(format!(
            "the surface `flat` shows the model all tools, about {tokens} tokens, because {name} does not search for \
             tools: {reason}; leave out `--surface flat` in its entry"
        )),
        (SurfaceKind::Flat, _) if client.lists_tools_once && !waits => {
            Some(format!("{name} lists the tools once; add `--first-list-wait 10s` to its entry"))
        }
        (SurfaceKind::Meta, HostSearch::On(reason)) if client.lists_tools_once => Some(format!(
            "the model of {name} searches for tools ({reason}), and again with those of dynamic-mcp; add `--surface flat \
             --first-list-wait 10s` to its entry"
        )),
        _ => None,
    }
}

/// Returns the process of a client that started a running instance, and its environment. Of several, the one that
/// started the latest instance.
async fn running_client(client: ClientApp, env: &Env) -> Option<(u32, BTreeMap<OsString, OsString>)> {
    let instances = running_instances(env).await.ok()?;
    let parents = instances.iter().rev().filter_map(|instance| processes::parent(instance.status.pid));
    parents
        .filter(|pid| is_process_of(client, *pid))
        .find_map(|pid| Some((pid, procfs::environ(pid).ok()?.vars().collect())))
}

/// Returns whether a process is a client: by its name, or as a script that an interpreter runs.
fn is_process_of(client: ClientApp, pid: u32) -> bool {
    let is_program = |name: &OsStr| client.programs.iter().any(|program| name == *program);
    let arguments = procfs::cmdline(pid).unwrap_or_default();
    procfs::name(pid).is_some_and(|name| is_program(name.as_ref()))
        || arguments.iter().take(2).any(|word| Path::new(word).file_stem().is_some_and(is_program))
}

/// Returns our entry in the client's file, and what is to be known of it.
fn own_entry(client: ClientApp, env: &Env, options: &str) -> (OwnEntry, Vec<String>) {
    match own_entry::find(client, env) {
        Ok(Some(entry)) => {
            let place = format!("`{}` in {}", entry.name, short_path(&entry.file, env));
            (entry, vec![format!("the entry is {place}")])
        }
        Ok(None) => {
            let note = format!(
                "{} has no entry for dynamic-mcp; `dynamic-mcp import {} --write-client{options}` makes one",
                client.label, client.id
            );
            (OwnEntry::default(), vec![note])
        }
        Err(error) => (OwnEntry::default(), vec![format!("the entry is not known: {error}")]),
    }
}

fn is_of_session(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| SESSION_VARS.contains(&name) || name.starts_with(SESSION_PREFIX))
}

/// Returns whether a client passes a variable of its environment to us.
fn passes(client: ClientApp, entry: &OwnEntry, name: &OsStr) -> bool {
    if client.passes_environment || is_of_session(name) {
        return true;
    }
    let Some(name) = name.to_str() else { return false };
    let is_withheld = || client.withholds.iter().any(|part| name.to_uppercase().contains(part));
    TERMINAL_VARS.contains(&name)
        || entry.passed.iter().any(|passed| passed == name)
        || !client.withholds.is_empty() && !is_withheld()
}
