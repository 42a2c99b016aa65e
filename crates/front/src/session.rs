//! The state of one client's session, and the context of each of its requests.
//!
//! # Theory of operation
//!
//! [`InstanceState`](instance_state::InstanceState) is what all sessions of an instance share: the groups, the names of
//! their tools, the MCP tasks that still run (`open_tasks`), and which subscriptions were sent (`subscription_order`), so
//! that no later request overtakes them. [`SessionState`](context::SessionState) is made when a client connects and adds
//! the client and the approvals that it may still use (`unspent_nonces`).
//!
//! A session that is a single request has a [`Caller`](caller::Caller): its principal, and the keys (`sealed`) of what its
//! client carries to the next request.
//!
//! A [`RequestContext`](context::RequestContext) accompanies every request that involves a group. It knows the era of the
//! request and its progress token, and sends requests to upstreams and questions to the user. An
//! [`Invocation`](invocation::Invocation) is a context with the params of the request. `wait_progress` reports progress
//! while a request waits for something else than the server's answer. `input_required` puts the questions of a stateless
//! server to the client while a request runs. `request_span` gives log lines the request that they belong to.

pub mod caller;
pub mod context;
pub mod input_required;
pub mod instance_state;
pub mod invocation;
pub mod open_tasks;
pub mod request_span;
pub mod sealed;
pub mod subscription_order;
pub mod unspent_nonces;
pub mod wait_progress;
