//! Requests that belong to an upstream, and lists of all upstreams as one.
//!
//! # Theory of operation
//!
//! `resources`, `skills`, `topic_subscriptions`, `prompts` and `tasks` find the group that a request belongs to:
//! by its `group` member, by the URI (`uri_lookup`), by an exposed name, or by the id of a task. `call::forward`
//! sends it. The params and the result pass unchanged except for what a
//! proxy has to rewrite (names, URIs, ids).
//!
//! `aggregate` merges a list of all groups: connected groups are asked, and the others contribute the list of their last
//! connection. Nothing is started for a list.

pub mod aggregate;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../fuzz/glue/routing.rs"]
pub mod fuzz;
pub mod prompts;
pub mod resources;
pub mod skills;
pub mod tasks;
pub mod topic_subscriptions;
mod uri_lookup;
