//! What every other crate may use, and what knows nothing of MCP.
//!
//! - `text` makes text of others safe to show, and `telemetry` writes the log.
//! - `files` reads files that may block or never end, `private_files` checks who may read and write our own, and
//!   `blocking` runs what may block, with a deadline.
//! - `procfs` reads what the system tells about processes.
//! - `clock` is the time of day, `random` and `digest` wrap the cryptography, and `memory` configures the allocator.

pub mod blocking;
pub mod clock;
pub mod digest;
pub mod files;
pub mod memory;
pub mod private_files;
pub mod procfs;
pub mod random;
pub mod telemetry;
pub mod text;
