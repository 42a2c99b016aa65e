//! Runs jq programs that models write over the results of tools.
//!
//! # Theory of operation
//!
//! A program comes from a model and its input from a server, and either may be hostile. So a program runs in a process
//! of its own, which is our own program started again: [`JqRunner`] starts it in its turn (`process`), passes it the
//! program and the input on stdin, and reads its outputs. The process (`child`) has an empty environment, no descriptors but stdin,
//! stdout and stderr, and limits of the system (`limits`) on its memory, its time, its files and its processes.
//! `spawn_unix` and `spawn_windows` start it. On Windows, a Job Object has the limits, and the process also checks them
//! itself (`watchdog`); nothing limits its files there.
//!
//! `program` compiles and runs a program with the crates of jaq, without input and output, modules and the environment.
//! `natives` adds what models expect of jq beyond jaq's smallest set of filters. `outcome` is the first byte that the
//! process writes, and `exit` says how it ended.
//!
//! # Invariants
//!
//! - No program can end or block our own process: a process that the system ends is an error for the model, like a
//!   mistake in the program.
//! - A program takes at most 2 s of CPU time, and its process ends by itself after at most 10 s.
//!
//! ```no_run
//! # async fn example() -> Result<(), jq::JqError> {
//! let turn = jq::JqRunner::default().turn().await?;
//! let outputs = turn.run(".items[].name", r#"{"items":[{"name":"a"}]}"#.into()).await?;
//! assert_eq!(outputs.trim(), r#""a""#);
//! # Ok(())
//! # }
//! ```

pub mod child;
mod exit;
mod limits;
mod natives;
mod outcome;
pub mod process;
mod program;
#[cfg(unix)]
mod spawn_unix;
#[cfg(windows)]
mod spawn_windows;
#[cfg(windows)]
mod watchdog;

pub use process::{JqError, JqRunner, JqTurn};
