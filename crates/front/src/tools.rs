//! The tools of the proxy itself, and the lists of tools.
//!
//! # Theory of operation
//!
//! The model sees a few small tools (`definitions`) and asks for the tools of a group when it needs them. `describe` is
//! `get_dynamic_tools`, `search` is `search_dynamic_tools`, and `status` is `get_status`. `status_app` shows it as a page
//! (`status_page`), whose buttons are `page_actions`. `own_prompts` has `status` and `setup`. `call_dynamic_tool` is in `front::call`. `render` writes definitions, signatures
//! and stubs within the limits of clients.
//!
//! `tool_list` is `tools/list`: our tools, and the upstreams' tools that the config exposes. `protocol_extensions` has additions to the protocol for programs: lazy lists and single definitions.

pub mod definitions;
pub mod describe;
mod group_status;
pub mod own_prompts;
pub mod page_actions;
pub mod protocol_extensions;
pub mod render;
pub mod search;
pub mod status;
pub mod status_app;
pub mod status_page;
pub mod tool_list;
