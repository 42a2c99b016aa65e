//! Who makes requests, and the context of each of them.
//!
//! # Theory of operation
//!
//! [`InstanceState`](requester::InstanceState) is what all clients of an instance share: the groups, the names of their
//! tools, and the MCP tasks that still run (`open_tasks`). A [`Requester`](requester::Requester) adds the client, and where
//! the client is remembered until its next request. One with a connection is remembered here, in its
//! [`SessionState`](requester::SessionState): the approvals that it may still use (`unspent_nonces`), and which of its
//! subscriptions were sent (`subscription_order`), so that no later request overtakes them, and the tokens of its status page
//! (`page_tokens`). One without a connection has
//! only a [`Caller`](caller::Caller): its principal, and the keys of what it carries to its next request.
//!
//! A [`RequestContext`](context::RequestContext) accompanies every request that involves a group. It knows the era of the
//! request and its progress token, and sends requests to upstreams and questions to the user. An
//! [`Invocation`](context::Invocation) is a context with the params of the request. `WaitProgress` reports progress
//! while a request waits for something else than the server's answer. `input_required` puts the questions of a stateless
//! server to the client while a request runs. `request_span` gives log lines the request that they belong to.

pub mod caller;
pub mod context;
pub mod input_required;
mod open_tasks;
pub mod page_tokens;
pub mod request_span;
pub mod requester;
pub mod subscription_order;
pub mod unspent_nonces;
