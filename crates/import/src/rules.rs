//! The rules for tools that a client's files have beside the servers.
//!
//! # Theory of operation
//!
//! `rule_files` says which files of a client have rules, and reads them into `client_rules`, one form for all clients: which
//! tools are denied, and before which the client asks its user. For one server, `tool_rules` has them as globs over
//! the names that the server itself gives its tools.
//!
//! Which client may use what follows from them in `profiles`.

pub(crate) mod client_rules;
pub(crate) mod rule_files;
pub(crate) mod tool_rules;
