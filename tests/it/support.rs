//! The fixture of all tests: the built program as a process, with a config and directories of its own, and the JSON-RPC
//! client that talks to it.
//!
//! `ProxyCommand` starts the program and `Proxy` is the running process (`proxy_process`). `proxy_client` sends requests
//! to it and reads its messages (`message`), with a handshake or without one (`stateless`). `config` makes configs,
//! `input_record` has the lines that an upstream received, `processes` inspects the processes of the program, and `pipes`
//! reads and writes those of any other process.
//!
//! No test sleeps until something has happened. Pipes are read and written with a deadline, and `wait_until` polls a
//! condition.

use std::fs;
#[cfg(not(any(target_os = "macos", windows)))]
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use crate::scripted::program as scripted_upstream_program;
pub(crate) use config::{
    cache_dir_in, config_of, full_upstream, merged, pure_config, scripted_config, scripted_upstream,
};
pub(crate) use input_record::InputRecord;
pub(crate) use message::{Message, text_of};
pub(crate) use pipes::{PipeReader, output_of, wait_for_child, wait_until_closed, write_all};
pub(crate) use processes::{Processes, is_alive, kill};
#[cfg(target_os = "linux")]
pub(crate) use proxy_process::unix::copy_program;
#[cfg(unix)]
pub(crate) use proxy_process::unix::{NOBODY, ProgramsForAll};
#[cfg(unix)]
pub(crate) use proxy_process::{DISABLED_DBUS, ORPHANS_LOCK};
pub(crate) use proxy_process::{Proxy, ProxyCommand, base_env};
pub(crate) use turn::Turn;

mod config;
mod input_record;
mod message;
#[cfg(target_os = "linux")]
pub(crate) mod namespaces;
mod pipes;
mod processes;
mod proxy_client;
mod proxy_process;
// The other systems have a keyring of their own.
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) mod session_bus;
pub(crate) mod stateless;
#[path = "../helpers/turn.rs"]
mod turn;

/// The deadline for everything that takes milliseconds, on a loaded machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until `condition` holds. `what` describes it.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TEST_TIMEOUT, "not within {TEST_TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The folders of the source, below the project's root.
pub(crate) const SOURCES: [&str; 18] = [
    "src",
    "crates/auth/src",
    "crates/base/src",
    "crates/bundle/src",
    "crates/config/src",
    "crates/front/src",
    "crates/http_client/src",
    "crates/http_front/src",
    "crates/import/src",
    "crates/instance/src",
    "crates/jq/src",
    "crates/process/src",
    "crates/schema/src",
    "crates/search/src",
    "crates/sharing/src",
    "crates/terminal/src",
    "crates/upstream/src",
    "crates/wire/src",
];

/// The files below a directory of the repository, without links and without what is built.
pub(crate) fn source_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let kept =
        entries.filter(|path| !path.is_symlink() && !path.ends_with(".git") && !path.ends_with("target"));
    kept.flat_map(|path| if path.is_dir() { source_files(&path) } else { vec![path] }).collect()
}

/// Returns whether these programs are installed in /usr/bin. If not, prints `SKIPPED`, or fails where tests must not be
/// skipped.
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) fn are_installed(programs: &[&str]) -> bool {
    if programs.iter().all(|program| Path::new("/usr/bin").join(program).exists()) {
        return true;
    }
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|actual| actual == value);
    let programs = programs.join(", ");
    assert!(!is_set("CI", "true") && !is_set("DYNAMIC_MCP_REQUIRE_REAL", "1"), "not installed: {programs}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Not `eprintln`, because the output of tests that pass is not shown.
    #[expect(clippy::disallowed_methods, reason = "it is shown also if the test passes")]
    drop(writeln!(std::io::stderr(), "SKIPPED: {test}: needs {programs}"));
    false
}
