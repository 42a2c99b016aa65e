//! What the launcher of a server costs, and how to do without it.

use config::{Endpoint, Launcher, StdioConfig};
use process::launch::direct::{LauncherUse, NotPinned, obstacle, pinned_package, server_of_launcher};
use process::processes::{ProcessTree, start_delay};
use std::cell::LazyCell;
use std::time::Duration;
use upstream::Upstream;

/// Returns a line about the launcher of a server that runs. `processes` are read only if a server has one.
pub(super) fn of(group: &Upstream, processes: &LazyCell<ProcessTree>) -> Option<String> {
    let snapshot = group.snapshot();
    let server = snapshot.server.as_deref()?;
    let Endpoint::Stdio(stdio) = &server.endpoint else { return None };
    let process = snapshot.process()?;
    // A server that is shared runs in another process, as written.
    if process.is_shared {
        return None;
    }
    match server.common.launcher {
        Launcher::Direct => {
            let Some(reason) = obstacle(stdio) else {
                return snapshot.launcher().map(|used| effect(stdio, used));
            };
            // Without a launcher there is nothing to leave out, and the settings concern every server.
            let has_launcher = pinned_package(stdio).err().is_none_or(|error| error.launcher().is_some());
            has_launcher.then(|| format!("`launcher` has no effect, because {reason}"))
        }
        Launcher::Keep => advice(stdio, LauncherCost::measure(process.pid, processes)?),
    }
}

/// Says what `"launcher": "direct"` did for this start.
fn effect(stdio: &StdioConfig, used: &LauncherUse) -> String {
    let launcher = pinned_package(stdio).map_or("its launcher", |package| package.launcher.name());
    match used {
        LauncherUse::LeftOut => format!("started without `{launcher}`"),
        LauncherUse::Learned => {
            format!("started through `{launcher}` this time; the next start needs it no more")
        }
        LauncherUse::Needed(reason) => format!("`launcher` has no effect, because {reason}"),
    }
}

/// What a launcher takes beside its server.
#[derive(Clone, Copy)]
struct LauncherCost {
    /// Memory in bytes.
    memory: u64,
    /// How long it took until it started the server.
    delay: Duration,
}

impl LauncherCost {
    /// Measures that of the launcher `pid`; `None` if it is none. Blocks for milliseconds.
    fn measure(pid: u32, processes: &LazyCell<ProcessTree>) -> Option<Self> {
        let server = server_of_launcher(pid)?;
        let memory = processes.memory(pid)?.saturating_sub(processes.memory(server)?);
        Some(Self { memory, delay: start_delay(pid, server)? })
    }
}

/// Returns what to change in the config, and what that saves.
fn advice(stdio: &StdioConfig, cost: LauncherCost) -> Option<String> {
    let (launcher, first) = match pinned_package(stdio) {
        Ok(package) => (package.launcher, String::new()),
        Err(error @ NotPinned::NoVersion(launcher, _)) => (launcher, format!(" ({error})")),
        Err(NotPinned::NoLauncher | NotPinned::Unclear(..)) => return None,
    };
    let (needs, save) = if first.is_empty() { ("", "saves") } else { ("an exact version and ", "save") };
    let (name, memory, delay) = (launcher.name(), cost.memory / 1_000_000, cost.delay.as_secs_f64());
    Some(format!(
        "`{name}` takes {memory} MB beside the server, and {delay:.1} s of this start; {needs}`\"launcher\": \"direct\"` in \
         its entry {save} both{first}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::InheritEnv;

    fn text(command: &str, args: &[&str]) -> Option<String> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (command, inherit_env) = (command.to_owned(), InheritEnv::Safe);
        let stdio = StdioConfig { command, args, env: [].into(), cwd: None, inherit_env };
        advice(&stdio, LauncherCost { memory: 93_400_000, delay: Duration::from_millis(1230) })
    }

    #[test]
    fn the_advice_says_what_is_saved_and_what_to_write() {
        let cost = "takes 93 MB beside the server, and 1.2 s of this start;";
        assert_eq!(
            text("npx", &["-y", "a@1.2.3"]).unwrap(),
            format!(r#"`npx` {cost} `"launcher": "direct"` in its entry saves both"#)
        );
        assert_eq!(
            text("uvx", &["b"]).unwrap(),
            format!(
                r#"`uvx` {cost} an exact version and `"launcher": "direct"` in its entry save both (no exact version is named, as in `b==1.2.3`)"#
            )
        );
        assert_eq!(text("npx", &["-c", "x"]), None);
        assert_eq!(text("node", &["x"]), None);
    }
}
