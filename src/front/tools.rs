//! The tools of the proxy itself, and the lists of tools.
//!
//! # Theory of operation
//!
//! The model sees a few small tools (`definitions`) and asks for the tools of a group when it needs them. `arguments`
//! reads what a model writes, in every form that models use; `argument_repair` corrects what does not fit a tool.
//! `describe` is `get_dynamic_tools`, `call` is `call_dynamic_tool` (`found_tool` finds its tool; `direct_target`
//! finds that of a call by the tool's own name), `search` is `search_dynamic_tools`, and `status` is `get_status`, for which `duplicate_servers`
//! finds servers that other windows run as well. `render` writes definitions, signatures and stubs within the limits of clients.
//!
//! `large_results` is what becomes of a result before the client gets it: `select`, and storing what is too large.
//! `stored_result` reads stored results in parts.
//!
//! `tool_list` is `tools/list`: our tools, and the upstreams' tools that the config exposes. `apps` names their user
//! interfaces. `protocol_extensions` has additions to the protocol for programs: lazy lists and single definitions.

pub mod apps;
pub mod argument_repair;
pub mod arguments;
mod broken_groups;
pub mod call;
pub mod definitions;
pub mod describe;
pub mod direct_target;
pub mod duplicate_servers;
mod found_tool;
mod group_status;
pub mod large_results;
pub mod protocol_extensions;
pub mod render;
pub mod search;
pub mod status;
pub mod status_prompt;
pub mod stored_result;
pub mod tool_list;
