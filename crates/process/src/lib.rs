//! Child processes: how they are started, watched and ended.
//!
//! # Theory of operation
//!
//! [`launch`] determines what to execute: the program, its arguments and its environment. The [`warden`] starts, signals
//! and reaps every child process, and ends it however our own process ends; on Windows, `windows_jobs` does that, under
//! the same names. [`child`] is a running server: its pipes and its end. [`stderr`] keeps the last lines that a process
//! wrote to stderr, [`server_log`] those of all processes of a group. [`secrets`] fetches the values that a server's
//! config names, such as the output of a command. [`processes`] reads what the system tells of processes.
//!
//! `held_process` holds a process, whatever becomes of its pid. `stop_timeouts` says how long its end may take.
//! `own_program` runs this program in one of its other modes.
//!
//! ```no_run
//! # async fn example(stdio: &config::StdioConfig, env: &process::launch::ProcessEnv) -> anyhow::Result<()> {
//! let launch = process::launch::prepare(stdio, env).await?;
//! println!("{}", launch.program.display());
//! # Ok(())
//! # }
//! ```

pub mod child;
#[cfg(unix)]
pub mod held_process;
pub mod launch;
pub mod own_program;
pub mod processes;
pub mod secrets;
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
    pub use super::stop_timeouts::StopTimeouts;
    pub use super::windows_jobs::{
        JobError as SpawnError, JobExit as Exit, JobHandle as ProcessHandle, JobProcess as SpawnedProcess,
        Jobs as Warden,
    };
}
