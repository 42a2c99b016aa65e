//! What the launcher of a server costs, and how to do without it.

use config::{Endpoint, Launcher, StdioConfig};
use process::launch::direct::{LauncherUse, obstacle, pinned_package, server_without_launcher};
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
        Launcher::Keep => Some(advice(stdio, LauncherCost::measure(process.pid, stdio, processes)?)),
    }
}

/// Says what `"launcher": "direct"` did for this start.
fn effect(stdio: &StdioConfig, used: &LauncherUse) -> String {
    let launcher = launcher_name(stdio);
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
    /// Measures that of the launcher `pid`; `None` if it is none, or has to stay. Blocks for milliseconds.
    fn measure(pid: u32, stdio: &StdioConfig, processes: &LazyCell<ProcessTree>) -> Option<Self> {
        let server = server_without_launcher(pid, stdio)?;
        let memory = processes.memory(pid)?.saturating_sub(processes.memory(server)?);
        Some(Self { memory, delay: start_delay(pid, server)? })
    }
}

/// Returns what to change in the config, and what that saves.
fn advice(stdio: &StdioConfig, cost: LauncherCost) -> String {
    let (name, memory, delay) = (launcher_name(stdio), cost.memory / 1_000_000, cost.delay.as_secs_f64());
    format!(
        "`{name}` takes {memory} MB beside the server, and {delay:.1} s of this start; `\"launcher\": \"direct\"` in its \
         entry saves both"
    )
}

fn launcher_name(stdio: &StdioConfig) -> &'static str {
    pinned_package(stdio).map_or("its launcher", |package| package.launcher.name())
}
