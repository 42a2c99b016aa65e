//! The tools of every other crate. Nothing here knows MCP, servers or the config.
//!
//! # Theory of operation
//!
//! - `text` makes text of others safe to show, `redact` masks the secrets in it, and `telemetry` writes the log.
//! - `files` reads files that may block or never end, and `private_files` reads and writes our own files, after it has
//!   checked who else may. `blocking` runs work that may block, with a deadline.
//! - `fair` divides amounts and turns among users.
//! - `use_count` counts the users of what is closed when nobody uses it.
//! - `procfs` reads what Linux tells about processes.
//! - `clock` is the time, `random` and `digest` wrap the cryptography, and `memory` configures the allocator.
//! - `atomic` has the atomics and the lock of the state for which there are models of threads.
//!
//! # Invariants
//!
//! - Nothing that may block runs on a task: a network mount that is gone, or a FIFO, would stop every other task.
//! - A file of ours is trusted only if nobody else can change it.
//! - Text of others reaches a person, a model or the log only with every character visible.
//!
//! ```no_run
//! # async fn example(path: std::path::PathBuf) -> Result<(), base::blocking::BlockingError> {
//! let limit = std::time::Duration::from_secs(2);
//! let content = base::blocking::run(limit, move || base::files::read(&path, 1 << 20)).await?;
//! println!("{} bytes", content.map_or(0, |bytes| bytes.len()));
//! # Ok(())
//! # }
//! ```

pub mod atomic;
pub mod blocking;
pub mod clock;
pub mod digest;
pub mod fair;
pub mod files;
pub mod memory;
pub mod private_files;
pub mod procfs;
pub mod random;
pub mod redact;
pub mod telemetry;
pub mod text;
pub mod tokens;
pub mod use_count;
