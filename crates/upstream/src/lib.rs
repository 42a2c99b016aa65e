//! One upstream server: when it connects, what is known of it, and how requests reach it.
//!
//! # Theory of operation
//!
//! Each group has one task (`task`) that owns its state. The task turns everything that can happen into an event, asks
//! the pure state machine (`lifecycle`) what to do, does it, and publishes an immutable [`Snapshot`]. The rest of the
//! program holds an [`Upstream`], a handle that is cheap to clone: it reads the snapshot and sends commands through a
//! bounded mailbox.
//!
//! Requests do not pass through the mailbox. A caller takes a [`Lease`] on the live connection, which is
//! an atomic count. So requests run concurrently, and an idle timer never closes a connection that is in use.
//!
//! `connection` makes connections and is all that happens on them; `transport` carries their messages. `catalog` is what
//! is known of a server, `cache` keeps it on disk, and `pins` notice when a tool changes. `groups` are all groups together.
//! `clients` is what an upstream knows of the client in front.

pub mod backoff;
pub mod cache;
pub mod catalog;
pub mod clients;
pub mod connection;
pub mod error;
pub mod groups;
mod handle;
pub mod lifecycle;
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
pub use error::UpstreamError;
pub use groups::GroupManager;
pub use handle::{AcquireError, Upstream};
pub use lifecycle::State;
pub use snapshot::Snapshot;
