//! What the user can do about a command that is not found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::nearest::nearest;

/// Returns what the user can do about a command that is not found on the child's PATH. `found` is a file of this name
/// in another directory. `lack`: the login shell that has printed no PATH, and how long ago it was asked.
pub(super) fn advice(command: &str, found: Option<&Path>, lack: Option<&(PathBuf, Duration)>) -> String {
    match found {
        Some(found) => format!("it is at {found:?}: write this absolute path as \"command\""),
        None if let Some((shell, time)) = lack => format!(
            "it may be on the PATH of your login shell, but {shell:?} has printed none in {} s: call again, make its start-up \
             files faster, or write the absolute path of the program as \"command\"",
            time.as_secs()
        ),
        None if command.contains(char::is_whitespace) => {
            "if it contains arguments, move them to \"args\"".to_owned()
        }
        None => {
            let name = command.strip_suffix(".exe").unwrap_or(command);
            let known = LAUNCHERS.iter().find(|(known, _)| *known == name);
            let meant = nearest(name, LAUNCHERS.iter().map(|(known, _)| *known)).filter(|_| known.is_none());
            let part_of = known.map(|(_, package)| format!(" ({package} has it)"));
            let question = meant.map(|meant| format!("did you mean {meant:?}? "));
            format!(
                "{}install it{}, or write its absolute path as \"command\"",
                question.unwrap_or_default(),
                part_of.unwrap_or_default()
            )
        }
    }
}

/// Programs that start many servers, and what has each of them.
const LAUNCHERS: &[(&str, &str)] = &[
    ("bunx", "Bun, https://bun.sh"),
    ("deno", "Deno, https://deno.com"),
    ("docker", "Docker"),
    ("node", "Node.js, https://nodejs.org"),
    ("npx", "Node.js, https://nodejs.org"),
    ("python", "Python, https://python.org"),
    ("python3", "Python, https://python.org"),
    ("uv", "uv, https://docs.astral.sh/uv"),
    ("uvx", "uv, https://docs.astral.sh/uv"),
];

/// Returns what the user can do about a path that names no file.
pub(super) fn path_advice(command: &str) -> &'static str {
    match Path::new(command).is_absolute() {
        true => "correct the path",
        false => "write its absolute path, or set \"cwd\" to the directory at which this path starts",
    }
}
