//! Antigravity: the editor and the command line share one file, which must be JSON without comments.

use super::client::{ClientDir, KnownClient};

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Named("", ".gemini"), "config/mcp_config.json")],
    project_files: &[".agents/mcp_config.json"],
    names: &[("disabledTools", "excludeTools")],
    own_meaning: &["authProviderType"],
    // An address counts more than a command.
    usual_form: |entry| {
        if entry.contains_key("serverUrl") {
            entry.shift_remove("command");
            entry.shift_remove("args");
        }
        Ok(())
    },
    ..KnownClient::new("antigravity", "Antigravity", &["antigravity", "Antigravity", "agy"])
};
