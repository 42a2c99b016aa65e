//! dynamic-mcp: one MCP server in front of many.
pub mod cache;
pub mod cli;
pub mod config;
pub mod front;
pub mod groups;
pub mod protocol;
pub mod rules;
pub mod status;
pub mod telemetry;
pub mod transport;
pub mod upstream;
pub mod wire;
