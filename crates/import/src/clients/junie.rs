//! Junie of JetBrains, in the editors and on the command line. From descriptions by others.

use super::client::{ClientDir, KnownClient};

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("", ".junie"), "mcp/mcp.json")],
    project_files: &[".junie/mcp/mcp.json"],
    ..KnownClient::new("junie", "Junie", &["junie"])
};
