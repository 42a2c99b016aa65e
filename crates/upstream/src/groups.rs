//! The groups of this instance: the manager creates them, applies changes of the config, and ends them.
//!
//! # Theory of operation
//!
//! The [`GroupManager`] (`manager`) creates a task for each server of the config when the first client connects
//! (`GroupManager::start`). It holds only handles; the state of a group belongs to its task (`upstream::task`).
//! `GroupManager::run` does the work that no request causes (`background`): it puts catalogs that groups read into
//! `tools/list` and the cache, starts groups that wait for a login when somebody logs in elsewhere (`login_watch`),
//! notices approvals of changed tools (`pin_watch`), and replaces a task that panicked (`tasks`).
//!
//! `startup_info` is what is known of this instance before the config is read. `surface` decides what `tools/list`
//! shows of each group, and when that may change. `reload` applies a changed config, `bulk` runs work on the catalogs
//! of all groups, and `shutdown` ends the groups. `login_flows` are the logins that this process has started.

mod background;
mod bulk;
pub mod login_flows;
mod login_watch;
mod manager;
mod pin_watch;
mod reload;
mod shutdown;
pub mod startup_info;
pub mod surface;
mod tasks;

pub use manager::GroupManager;
