//! The `GroupManager`: the groups of this instance, the config that they follow, and their shutdown.
//!
//! # Theory of operation
//!
//! The manager creates a task for each server of the config when the first client connects (`start`). It holds only
//! handles; the state of a group belongs to its task (`upstream::task`). `run` does the work that no request causes
//! (`background`): it puts catalogs that groups read into `tools/list` and the cache, starts groups that wait for a
//! login when somebody logs in elsewhere (`login_watch`), notices approvals of changed tools (`pin_watch`), and replaces
//! a task that panicked (`tasks`).
//!
//! `startup` is what is known before the config is read. `surface` is what `tools/list` shows of each group and when that may change. `reload` applies a changed config.
//! `bulk` is work on what all groups list, and `shutdown` ends the groups. `login_flows` are the logins that this process has started; they belong to a session.

mod background;
mod bulk;
pub mod login_flows;
mod login_watch;
mod manager;
mod pin_watch;
mod reload;
mod shutdown;
pub mod startup;
pub mod surface;
mod tasks;

pub use manager::GroupManager;
