//! The groups of this instance: the manager creates them, applies changes of the config, and ends them.
//!
//! # Theory of operation
//!
//! The [`GroupManager`] (`manager`) creates a task for each server of the config when the first client connects
//! (`GroupManager::start`), and replaces a task that panicked. The `registry` has the handles, and what outlives a task;
//! the state of a group belongs to its task (`upstream::task`). `GroupManager::run` does the work that no request causes
//! (`background`): it puts catalogs that groups read into `tools/list` and the cache, starts groups that wait for a login
//! when somebody logs in elsewhere (`logins`), and notices approvals of changed tools (`pin_watch`).
//!
//! `startup_info` is what is known of this instance before the config is read. `surface` decides what `tools/list`
//! shows of each group, and the registry when that may change. `reload` applies a changed config, `bulk` runs work on the catalogs
//! of all groups, and `shutdown` ends the groups. `logins` also runs the logins that this process has started.

mod background;
mod bulk;
mod logins;
mod manager;
mod pin_watch;
mod registry;
mod reload;
mod shutdown;
pub mod startup_info;
pub mod surface;

pub use manager::GroupManager;

#[cfg(test)]
mod tests;
