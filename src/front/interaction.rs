//! Asks the client for input, and sends it progress and notifications, while its requests are served.
//!
//! # Theory of operation
//!
//! A [`RequestContext`](context::RequestContext) accompanies every request that involves a group. It knows the client,
//! its era and its progress token, and it sends requests to upstreams on the client's behalf.
//! `acquire` gets a lease on a group, reports progress while the client waits, and offers a missing login
//! (`login_offer`).
//!
//! The other direction begins at an upstream: [`FrontClient`](front_client::FrontClient) is what upstreams know of the
//! client. A client of the handshake era gets their requests as requests (`client_requests`). A stateless client
//! cannot be asked that way: its call is suspended (`suspended_calls`), the answer asks for input, and the client's
//! next request continues the call; `input_channels` finds the call that a request belongs to. `input_required` is the
//! reverse, a stateless server behind a client of the handshake era; `era_bridge` adapts results. `question_limit`
//! bounds how many questions are open to the user, and `attribution` says which group asks or reports something.
//!
//! `approval` asks the user before a call that the config wants confirmed, and `approval_token` lets a stateless client
//! carry the user's consent, once (`unspent_nonces`). `subscriptions` keeps what clients subscribed to alive across reconnects, with one
//! `subscription_task` for each group; `subscription_order` lets no later request overtake them. `list_changes` decides when a client is told that a list changed.

pub mod acquire;
pub mod approval;
pub mod approval_token;
pub mod attribution;
pub mod client;
pub mod client_requests;
pub mod context;
pub mod era_bridge;
pub mod front_client;
pub mod input_channels;
pub mod input_required;
pub mod invocation;
pub mod list_changes;
pub mod listener;
pub mod log_level;
pub mod login_offer;
pub mod open_tasks;
pub mod question_limit;
pub mod subscription_order;
pub mod subscription_task;
pub mod subscriptions;
pub mod suspended_calls;
pub mod unspent_nonces;
pub mod wait_progress;
