//! Requests that belong to an upstream, and lists of all upstreams as one.
//!
//! # Theory of operation
//!
//! `resources`, `skills`, `topic_subscriptions`, `prompts`, `completion` and `tasks` find the group that a request belongs to:
//! by its `group` member, by the URI (`uri_owner`, `claims`, `uri_lookup`), by an exposed name, or by the id of a task. `forward` is the
//! only loop that sends a request to an upstream: it gets a lease, sends the request, repeats it once if that is safe,
//! and offers a missing login. Calls of tools use it, too. The params and the result pass unchanged except for what a
//! proxy has to rewrite (names, URIs, ids). `era_bridge` adapts replies to the client's era.
//!
//! `aggregate` merges a list of all groups: connected groups are asked, and the others contribute the list of their last
//! connection. Nothing is started for a list.

pub mod aggregate;
pub mod claims;
pub mod completion;
mod era_bridge;
pub mod forward;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod prompts;
pub mod resources;
pub mod skills;
mod task_call;
pub mod tasks;
pub mod topic_subscriptions;
mod uri_lookup;
pub mod uri_owner;
