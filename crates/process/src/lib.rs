//! Child processes: how they are started, watched and ended.
//!
//! # Theory of operation
//!
//! [`launch`] determines what to execute: the program, its arguments and its environment. The [`warden`] starts,
//! signals and reaps every child process, and ends it however our own process ends; on Windows, `windows_jobs` does
//! that, under the same names. [`child`] is a running server: its pipes and its end (`process_state`). [`stderr`]
//! keeps the last lines that a process wrote to stderr, and [`server_log`] those of all processes of a group.
//! [`secrets`] fetches the values that a server's config names, such as the output of a command.
//!
//! [`own_program`] runs this program in one of its other modes. [`processes`] reads the trees of the user's processes,
//! to show their memory. `descriptors` closes and passes descriptors. `held_process` refers to a process by a pidfd, so
//! that a reused pid is never taken for it.
//! [`stop_timeouts`] says how long the end of a process may take. `ending_servers` tells all instances which servers are
//! being ended, and [`server_id`] which launches start the same server. `runtime_dir` is the directory of our sockets.
//!
//! # Invariants
//!
//! - No child process outlives us, however we end. Only the warden signals and reaps.
//! - A process is named by a handle or an id of ours, never by a remembered pid.
//! - No message and no log shows the value of a variable other than PATH, or an argument: they may be secrets.
//!
//! ```no_run
//! # async fn example(stdio: &config::StdioConfig, env: &config::env::Env) -> anyhow::Result<()> {
//! let launch = process::launch::prepare(stdio, env, std::time::Duration::ZERO).await?;
//! let server = process::warden::Warden::default().spawn(launch).await?;
//! println!("{}", server.pid);
//! # Ok(())
//! # }
//! ```

pub mod child;
#[cfg(unix)]
pub mod descriptors;
#[cfg(unix)]
pub mod ending_servers;
#[cfg(unix)]
pub mod held_process;
pub mod launch;
pub mod own_program;
mod process_state;
pub mod processes;
#[cfg(unix)]
pub mod runtime_dir;
pub mod secrets;
pub mod server_id;
pub mod server_log;
pub mod stderr;
pub mod stop_timeouts;
#[cfg(unix)]
pub mod warden;
#[cfg(windows)]
pub mod windows_jobs;

/// Starts and ends processes on Windows.
#[cfg(windows)]
pub mod warden {
    pub use super::process_state::Exit;
    pub use super::stop_timeouts::{StopTimeouts, exit_wait};
    pub use super::windows_jobs::{
        JobError as SpawnError, JobHandle as ProcessHandle, JobProcess as SpawnedProcess, Jobs as Warden,
    };
}
