//! What each client writes in its files, and what it means.
//!
//! # Theory of operation
//!
//! `apps` lists the clients, and `known` is the table of what is known of each: where its files are, and how it writes
//! servers. `translate` makes an entry of
//! servers.json from a client's entry: `shape` checks the types of its values, `variables` rewrites its strings by the
//! client's `string_rules`, `timeouts` converts its timeout, and `entry_order` sorts its fields. `client_form` goes the
//! other way, for servers that return to a client.
//!
//! Nothing here reads or writes a file, and nothing compares two clients. A new client is a variant of
//! `ClientApp` and a row of `known`; `rules` and `tool_search` have what a row cannot say.

pub mod apps;
pub(crate) mod client_form;
pub(crate) mod entry_order;
pub(crate) mod known;
pub(crate) mod shape;
mod string_rules;
mod timeouts;
pub(crate) mod translate;
pub(crate) mod variables;
