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
        let mut usual = entry.clone();
        if usual.contains_key("serverUrl") {
            usual.shift_remove("command");
            usual.shift_remove("args");
        }
        Ok(usual)
    },
    shows_questions: |_| false,
    ..KnownClient::new("antigravity", "Antigravity", &["antigravity", "Antigravity", "agy"])
};
