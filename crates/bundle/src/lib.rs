//! MCP bundles (`.mcpb`, earlier `.dxt`): a zip file with an MCP server and a `manifest.json`, which says how the server is
//! started. Claude Desktop calls them extensions when they are installed.
//!
//! # Theory of operation
//!
//! `manifest` reads `manifest.json` and makes a server's entry for servers.json of it, for the directory in which the bundle
//! is unpacked and for the values that the user gave to its settings (`user_config`). `values` has these values.
//! `archive` opens a bundle and unpacks it: a bundle may be anybody's, so nothing of it is trusted.
//!
//! `dynamic-mcp add FILE.mcpb` uses both. `import` uses the manifest alone, of what Claude Desktop has unpacked.
//!
//! # Invariants
//!
//! - What is unpacked is a regular file or a directory below the directory that the caller names, on every system.
//! - The limits count the bytes that are unpacked. What the zip file says about its sizes is not trusted.
//! - Text of a bundle or of the user is text in the entry, whatever it looks like. Secrets are in it by their names alone.

pub mod archive;
pub mod manifest;
pub mod values;
