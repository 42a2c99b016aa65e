//! What runs for every message and every search, and is compiled for speed: `wire` is JSON-RPC with bodies as bytes,
//! `protocol` has the methods and names of MCP, `schema` reads the definitions of tools and checks arguments, `search`
//! finds tools, and `text` makes text of others safe to show. Nothing of it does any I/O but on streams that it is given.

pub mod protocol;
pub mod schema;
pub mod search;
pub mod text;
pub mod wire;
