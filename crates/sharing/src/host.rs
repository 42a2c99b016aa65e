//! The host: the process in which the shared servers of a user run.
//!
//! # Theory of operation
//!
//! The first instance that connects a shared server starts the host (`sharing/host_process.rs`). Each instance
//! has one connection to the host per shared server, a *session*. The host runs one process per [`ServerIdentity`] and
//! passes the messages of all its sessions through the one connection to that process.
//!
//! ```text
//! instance ──session──╮
//! instance ──session──┼──▶ host ──stdio──▶ server
//! instance ──session──╯      ╰──socket──▶ warden, which starts and ends the servers
//! ```
//!
//! - `process` makes our program the host: its own session, no descriptors, no environment.
//! - `listener` owns the socket, accepts sessions, and decides when the host ends.
//! - `session` serves one session: it forwards requests and answers some of them itself.
//! - `server` is one server: its process, its handshake, and its end 2 s after its last session.
//! - `registry` finds the server of a session, or starts it.
//! - `session_table` has what the sessions of one server have in common: who has open requests, who subscribed to what,
//!   whose a task is, and which log level is the lowest. It does no I/O.
//! - `server_messages` routes what a server sends on its own.
//! - `systemd_scope` moves the host out of the control group of the instance that started it.
//! - `unshareable` remembers the servers that must not be shared.
//!
//! The servers are offered no client capabilities, because a question could not be attributed to a session. Nothing of
//! one session reaches another, except that a server's lists changed, which concerns all. The host trusts only peers
//! with its own rights (`sharing/confinement.rs`).
//!
//! [`ServerIdentity`]: crate::attach::ServerIdentity

mod listener;
mod process;
mod registry;
mod server;
mod server_messages;
mod session;
mod session_table;
mod systemd_scope;
mod unshareable;

pub use process::run;
