//! `{command:…}` in the user's own config.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Proxy, ProxyCommand, merged, pure_config, scripted_upstream};

/// A value that may appear nowhere but where it belongs.
const VALUE: &str = "s3cret-v4lue";

/// A proxy that reads nothing but the user's own `servers.json`, with this content.
pub(crate) fn with_own_config(env: &[(&'static str, String)], config: &Value) -> ProxyCommand {
    let command = env.iter().fold(ProxyCommand::new(), |command, (name, value)| command.env(name, value));
    let file = own_config_file(&command);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, config.to_string()).unwrap();
    command.args(&["--log-level", "trace"])
}

/// The user's own `servers.json`.
pub(crate) fn own_config_file(command: &ProxyCommand) -> PathBuf {
    command.home().join("config").join("dynamic-mcp").join("servers.json")
}

/// Writes a program that appends a line to `runs` and prints its first argument. Returns its path.
#[cfg(unix)]
pub(crate) fn printing_program(dir: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join("print value");
    let script = format!("#!/bin/sh\necho run >> '{}/runs'\necho \"$1\"\n", dir.display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The environment of the upstream in a group.
pub(crate) fn env_of(proxy: &mut Proxy, group: &str) -> Value {
    serde_json::from_str(&proxy.call_text(group, "env", json!({}))).unwrap()
}

/// Commands that append a line to `runs` and print the value, that fail with code 2, and that print nothing.
#[cfg(unix)]
fn commands(dir: &Path) -> [String; 3] {
    let program = printing_program(dir);
    [format!("'{program}' \"{VALUE} $HOME | x\""), "ls /nowhere/at/all".to_owned(), "true".to_owned()]
}

/// Commands that append a line to `runs` and print the value, that fail with code 2, and that print nothing.
#[cfg(windows)]
fn commands(dir: &Path) -> [String; 3] {
    let runs = dir.join("runs");
    let prints = format!("cmd /c \"echo run>>{}& echo {VALUE} $HOME ^| x\"", runs.display());
    [prints, "cmd /c \"echo nothing there>&2& exit 2\"".to_owned(), "cmd /c rem".to_owned()]
}

#[test]
fn a_command_runs_once_for_all_servers_and_without_a_shell() {
    let dir = TempDir::new().unwrap();
    let with = |command: &str| {
        merged(scripted_upstream(&[]), json!({"env": {"TOKEN": format!("{{command:{command}}}")}}))
    };
    let [prints, fails, silent] = commands(dir.path());
    let config = pure_config([
        ("a", with(&prints)),
        ("b", with(&prints)),
        ("fails", with(&fails)),
        ("silent", with(&silent)),
        ("none", with("no-such-program-here")),
    ]);
    let mut proxy = with_own_config(&[], &config).start_initialized();
    for group in ["a", "b"] {
        assert_eq!(env_of(&mut proxy, group)["TOKEN"], format!("{VALUE} $HOME | x"));
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap().lines().count(), 1);
    let program = |command: &str| command.split(' ').next().unwrap().to_owned();
    for (group, reason) in [
        ("fails", format!("env.TOKEN is not known: the command {:?} exited with code 2: ", program(&fails))),
        ("silent", format!("the command {:?} printed nothing", program(&silent))),
        ("none", "command \"no-such-program-here\" not found in PATH".to_owned()),
    ] {
        let failure = proxy.call_failure(group, "env", json!({}));
        assert!(failure.contains(&reason) && failure.contains("A retry does not help"), "{failure}");
    }
    assert!(!proxy.status().to_string().contains(VALUE) && !proxy.log().contains(VALUE), "{}", proxy.log());
}
