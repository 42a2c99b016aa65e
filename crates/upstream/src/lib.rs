//! The servers behind the proxy: when each of them connects, what is known of it, and how requests reach it.
//!
//! # Theory of operation
//!
//! A *group* is a server of the config. Each group has one task (`task`) that owns its state. The task turns everything
//! that can happen into an event, asks the pure state machine (`lifecycle`) what to do, does it, and publishes an
//! immutable [`Snapshot`]. The rest of the program holds an [`Upstream`], a handle that is cheap to clone (`handle`):
//! it reads the snapshot and sends commands through a bounded mailbox. The [`GroupManager`] (`groups`) has all handles.
//!
//! Requests do not pass through the mailbox. A caller takes a [`Lease`] on the live connection, which adds one to an
//! atomic count. So requests run concurrently, and an idle timer never closes a connection that is in use.
//!
//! The modules build on each other, from the top down:
//! - `groups` creates the groups of the config, applies its changes, and ends all groups;
//! - `task` owns one group; `handle`, `snapshot`, `stats` and `start_progress` are what it shows of the group, and `login`
//!   is a login that the group's users were offered;
//! - `connection` makes a connection, reads what the server sends, and counts the users of the connection;
//! - `lifecycle` decides when a group connects, retries and closes; `backoff` has the intervals;
//! - `cache` keeps catalogs on disk, so that a group is known before its server is started;
//! - `catalog` is what is known of a server, and `pins` notices when a server changes a tool that the user trusts;
//! - `transport` carries messages to a process or a remote server;
//! - `error` says why a server cannot be used;
//! - `clients` is the interface to the clients in front, and `select` has futures for arms of `select!`.
//!
//! # Example
//!
//! ```ignore
//! let groups = GroupManager::new(config, transport, clients, cache, pins, startup);
//! groups.start().await; // A client has connected.
//! let group = groups.get_by_name("github").ok_or(Unknown)?;
//! let lease = group.acquire(Need::Tools, group.snapshot().wait()).await?; // Connects, if there is no connection.
//! let reply = lease.call("tools/call", Some(&params), Era::Handshake, &options).await?;
//! ```

pub mod backoff;
pub mod cache;
pub mod catalog;
pub mod clients;
pub mod connection;
pub mod error;
pub mod groups;
mod handle;
pub mod lifecycle;
pub mod login;
pub mod pins;
pub mod select;
pub mod snapshot;
pub mod start_progress;
pub mod stats;
pub mod task;
pub mod transport;

pub use catalog::{Catalog, Tool};
pub use connection::Grace;
pub use connection::lease::Lease;
pub use connection::milestones::Need;
pub use error::UpstreamError;
pub use groups::GroupManager;
pub use handle::{AcquireError, Upstream};
pub use lifecycle::State;
pub use snapshot::Snapshot;
