//! Keeps track of what the client is to be notified of: changed lists, and the topics that it subscribed to.
//!
//! # Theory of operation
//!
//! `list_changes` compares each list with the one that the client knows, and decides when the client is told that it
//! changed.
//!
//! `subscriptions` holds the topics (resources and tasks) that the client subscribed to, whichever request it used. Each
//! group with topics has one `subscription_task`, which sends the requests that the group's server understands, and sends
//! them again on every new connection. What the server then reports reaches the client through [`Client`](crate::client::Client).

pub mod list_changes;
pub mod subscription_task;
pub mod subscriptions;
