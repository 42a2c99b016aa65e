//! dynamic-mcp: one MCP server in front of many.
pub mod config;
pub mod transport;
