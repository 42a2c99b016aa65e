//! What each client writes in its files, and what it means.
//!
//! # Theory of operation
//!
//! A client is one file with a table, [`client::KnownClient`], and is named in the list below. `apps` has all of them.
//! `translate` makes an entry of servers.json from a client's entry: `shape` checks the types of its values, `variables`
//! rewrites its strings by the client's `string_rules`, `timeouts` converts its timeout, and `entry_order` sorts its fields.
//! The rules for tools that a client's files have beside the servers are read into a `rule_file`, and `client_rules` finds
//! those of one server. A `package` is an extension or a plugin of a client that brings servers.

/// Declares the file of each client, and lists the clients in the order in which their servers are merged.
macro_rules! clients {
    ($($file:ident: $($client:ident),+;)+) => {
        $(mod $file;)+
        /// All clients.
        static CLIENTS: &[&client::KnownClient] = &[$($(&$file::$client),+),+];
    };
}

clients! {
    claude_desktop: CLIENT;
    claude_code: CLIENT;
    opencode: CLIENT;
    cursor: CLIENT;
    vscode: CLIENT, INSIDERS;
    codex: CLIENT;
    gemini: CLIENT;
    copilot: CLIENT;
    antigravity: CLIENT;
    kiro: CLIENT;
    junie: CLIENT;
    roo: CLIENT;
    kilo: CLIENT, EARLIER;
    qwen: CLIENT;
    windsurf: CLIENT;
    cline: CLIENT;
    lm_studio: CLIENT;
    droid: CLIENT;
    trae: CLIENT;
    amazon_q: CLIENT;
    crush: CLIENT;
    zed: CLIENT;
    amp: CLIENT;
    goose: CLIENT;
    continue_dev: CLIENT;
}

pub mod apps;
mod claude_plugins;
pub mod client;
pub(crate) mod client_rules;
mod codex_plugins;
pub(crate) mod entry_order;
mod gemini_extensions;
pub mod host_search;
pub(crate) mod package;
pub(crate) mod rule_file;
pub(crate) mod shape;
mod string_rules;
mod timeouts;
pub(crate) mod translate;
pub(crate) mod variables;
