//! Exhausted resources: each costs an error, never the process.

mod files;
mod memory;
mod nesting;
mod system;
