//! jq programs that models write, run over the results of tools.
//!
//! # Theory of operation
//!
//! A program comes from a model and its input from a server, and either may be hostile. So a program runs in a process
//! of its own, which is our own program started again: [`JqRunner`] starts it, passes it the program and the input on
//! stdin, and reads its outputs. The process (`child`) has an empty environment, no descriptors but stdin, stdout and
//! stderr, and limits of the system (`limits`) on its memory, its time, its files and its processes. Whatever becomes of
//! it, we go on: a process that the system ends is an error for the model like any other. On Windows, a Job Object has
//! the limits (`spawn_windows`) and the process looks at them itself (`watchdog`); nothing limits its files there.
//!
//! `program` compiles and runs a program with the crates of jaq. They have neither input and output nor modules nor the
//! environment. `natives` adds what models expect of jq beyond jaq's smallest set of filters.

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

pub use process::{JqError, JqRunner};
