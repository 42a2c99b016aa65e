//! Directories that the environment does not name, or names wrongly: the program serves, says what does not work, and
//! writes nothing in a wrong place.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    NOBODY, ProgramsForAll, Proxy, ProxyCommand, config_of, merged, pure_config, scripted_upstream,
    source_files,
};

/// The variables that name the user's directories.
const DIRS: [&str; 5] = ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

/// A command in an empty working directory, with a runtime directory of its own.
fn command_with_runtime_dir(command: ProxyCommand, runtime: &TempDir) -> ProxyCommand {
    fs::set_permissions(runtime.path(), Permissions::from_mode(0o700)).unwrap();
    command.env("XDG_RUNTIME_DIR", runtime.path().to_str().unwrap())
}

fn files(dir: &Path) -> BTreeSet<PathBuf> {
    source_files(dir).into_iter().collect()
}

/// Calls a tool, connects to a remote server, and ends the session. Returns the log and the error of the remote server.
fn serve(mut proxy: Proxy) -> (String, String) {
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "works"})), "works");
    let failure = proxy.call_failure("remote", "echo", json!({}));
    proxy.close_stdin();
    assert!(proxy.wait_for_exit().0.success());
    (proxy.log(), failure)
}

fn config(upstream: Value) -> Value {
    pure_config([("g", upstream), ("remote", json!({"url": "http://127.0.0.1:1/mcp"}))])
}

#[test]
fn without_a_home_directory_nothing_is_kept_and_no_login_is_possible() {
    let runtime = TempDir::new().unwrap();
    let command =
        command_with_runtime_dir(ProxyCommand::new().config(&config(scripted_upstream(&[]))), &runtime);
    let command = DIRS.into_iter().fold(command, ProxyCommand::without_env);
    let home = command.home().to_owned();
    let before = files(&home);
    let mut proxy = command.start_initialized();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "works"})), "works");
    let failure = proxy.call_failure("remote", "echo", json!({}));
    assert!(failure.contains("there is no directory for logins because HOME is not set"), "{failure}");
    proxy.close_stdin();
    assert!(proxy.wait_for_exit().0.success());
    assert_eq!(files(&home), before);
}

/// The working directory of a client is often a project of somebody else.
#[test]
fn relative_directories_do_not_count() {
    for relative in [".", "home", "../home", ""] {
        let runtime = TempDir::new().unwrap();
        let command = command_with_runtime_dir(ProxyCommand::new(), &runtime);
        let project = command.home().to_owned();
        // What the program would find if it looked there.
        let evil = config_of([("evil", scripted_upstream(&["--record", "evil-was-here"]))]);
        let evil = merged(evil, json!({"settings": {"lazy_startup": "eager"}}));
        for dir in [".config/dynamic-mcp", "dynamic-mcp", "home/.config/dynamic-mcp", "home/dynamic-mcp"] {
            fs::create_dir_all(project.join(dir)).unwrap();
            fs::write(project.join(dir).join("servers.json"), evil.to_string()).unwrap();
        }
        let before = files(&project);
        let command = DIRS.into_iter().fold(command, |command, name| command.env(name, relative));
        let mut proxy = command.start_initialized();
        let status = proxy.status();
        assert!(!status.to_string().contains("evil"), "{relative:?}: {status}");
        proxy.close_stdin();
        proxy.wait_for_exit();
        assert_eq!(files(&project), before, "{relative:?}");
    }
}

/// Root with the directories of a user, as after `sudo`, and a user with those of another one.
#[test]
fn nothing_is_written_to_directories_of_another_user() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a directory of another user");
        return;
    }
    let programs = ProgramsForAll::new();
    let upstream = json!({"command": programs.upstream()});
    let entries = |dir: &Path| fs::read_dir(dir).unwrap().count();
    for (is_root, owner, mode) in [
        (true, NOBODY, 0o700),
        (true, NOBODY, 0o777),
        (false, 0, 0o755),
        (false, 0, 0o700),
        (false, 1, 0o777),
    ] {
        let (runtime, foreign) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        chown(foreign.path(), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(foreign.path(), Permissions::from_mode(mode)).unwrap();
        let command = if is_root {
            programs.proxy_command()
        } else {
            chown(runtime.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            let Some(command) = ProxyCommand::unprivileged_copy(&programs.proxy()) else { return };
            command
        };
        let command = command_with_runtime_dir(command.config(&config(upstream.clone())), &runtime);
        let dir = foreign.path().to_str().unwrap();
        let command = DIRS.into_iter().fold(command, |command, name| command.env(name, dir));
        let (log, failure) = serve(command.start_initialized());
        let what = format!("root: {is_root}, owner {owner}, mode {mode:o}");
        assert!(failure.contains("cannot be reached"), "{what}: {failure}");
        let reason = if owner == 0 { "Permission denied" } else { "belongs to another user (uid " };
        let said = log.lines().any(|line| line.contains("no log file is kept") && line.contains(reason));
        assert!(said, "{what}: {log}");
        assert_eq!(entries(foreign.path()), 0, "{what}");
    }
}
