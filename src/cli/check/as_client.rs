//! The environment that a client gives to the servers that it starts.
//!
//! A client that runs in a terminal passes on the terminal's environment. A client with a window is started by the
//! desktop: it has the variables of the session and the system's PATH, and nothing that a shell's files set. Windows
//! gives the user's environment to both.

use crate::cli::import::apps::ClientApp;
use crate::config::vars::Env;
use crate::transport::launch::ProcessEnv;

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

/// Makes the environment of a client from ours, for variables in the config and for processes.
pub(super) fn environment(client: ClientApp, env: &Env, mut ambient: ProcessEnv) -> (Env, ProcessEnv) {
    let has_window = matches!(client, ClientApp::ClaudeDesktop | ClientApp::Cursor | ClientApp::Vscode);
    if !has_window || cfg!(windows) {
        return (env.clone(), ambient);
    }
    let is_of_session = |name: &str| SESSION_VARS.contains(&name) || name.starts_with(SESSION_PREFIX);
    ambient.vars.retain(|name, _| name.to_str().is_some_and(is_of_session));
    ambient.vars.insert("PATH".into(), DESKTOP_PATH.into());
    let vars = ambient.vars.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let env = Env::new(vars, env.cwd());
    // Where the desktop starts programs. Paths of the command line still start in our directory.
    ambient.cwd = "/".into();
    (env, ambient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[cfg(unix)]
    #[test]
    fn a_client_with_a_window_has_nothing_of_the_shell() {
        let vars = [("HOME", "/h"), ("PATH", "/h/bin"), ("XDG_RUNTIME_DIR", "/r"), ("TOKEN", "x")];
        let ours = ProcessEnv {
            vars: vars.map(|(name, value)| (name.into(), value.into())).into(),
            cwd: "/w".into(),
        };
        let (env, process) = environment(ClientApp::ClaudeDesktop, &Env::new(vars, "/w"), ours.clone());
        assert_eq!(process.var("PATH"), Some(OsStr::new(DESKTOP_PATH)));
        assert_eq!((process.var("TOKEN"), env.get("TOKEN")), (None, None));
        assert_eq!((env.get("XDG_RUNTIME_DIR"), env.home().unwrap().to_str()), (Some("/r"), Some("/h")));
        let (env, process) = environment(ClientApp::Codex, &Env::new(vars, "/w"), ours);
        assert_eq!((env.get("TOKEN"), process.var("PATH")), (Some("x"), Some(OsStr::new("/h/bin"))));
    }
}
