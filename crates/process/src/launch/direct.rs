//! Starts what `npx` and `uvx` start, without them.
//!
//! # Theory of operation
//!
//! A launcher finds a package in its cache, runs a program of it as its child, and waits for it: a process of 40 to
//! 110 MB that does nothing, after a start of its own that takes a second or more. With `"launcher": "direct"` a server
//! of a package in one exact version ([`pinned_package`]) is started in two ways:
//!
//! 1. *Through its launcher*, as written, while nothing is known. Once the server has answered, `observe` reads from
//!    /proc which program the launcher runs, and with which arguments, directory and environment. What differs from
//!    what the launcher itself got is kept in a file (`learned`), with the state of all files that decide what the
//!    launcher starts (`package`).
//! 2. *Directly*, while exactly the same launcher would be started with the same arguments, variables and directory, and
//!    none of these files has changed. The process is the one that the launcher would have started, because it is made
//!    from what the launcher once gave to it.
//!
//! A server is started as written if anything is doubtful: nothing that the user sees depends on a guess. A direct
//! start that does not get as far as a connection is forgotten, and the server is started through its launcher.

use config::StdioConfig;
pub use pinned::{LauncherProgram, NotPinned, PinnedPackage, pinned_package, without_version};
pub use start_record::{DirectLaunches, LauncherUse, StartRecord, server_without_launcher};

mod learned;
mod observe;
mod package;
mod pinned;
mod session_vars;
mod start_record;

/// Returns why the launcher of a server cannot be left out; `None` if it can.
pub fn obstacle(stdio: &StdioConfig) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("only Linux shows what a launcher starts".to_owned());
    }
    pinned_package(stdio).err().map(|error| error.to_string())
}
