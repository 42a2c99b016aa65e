//! Asks the user, on the proxy's own behalf, for what a request needs: approval of a call, or a login.
//!
//! # Theory of operation
//!
//! `approval` asks before a call that the config or the tool's server wants confirmed. A client of the handshake era is
//! asked while the call waits. A stateless client gets the question as the result of its call, and sends the call again
//! with the user's answer; `approval_token` is the signed state that connects the two requests, and lets the answer count
//! once.
//!
//! `acquire` gets the lease on a group that every request to it needs. If the group cannot be connected because a login is
//! missing, `login_offer` shows the user the address of the login, and the request waits for it.

pub mod acquire;
pub mod approval;
pub mod approval_token;
pub mod login_offer;
