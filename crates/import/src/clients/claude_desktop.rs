//! Claude Desktop. It has no variables, passes no environment, and takes remote servers in its settings only.

use super::client::{KnownClient, ClientDir};

const FILE: &str = "Claude/claude_desktop_config.json";

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    // It belongs to an extension.
    own_meaning: &["extensionId"],
    shows_questions: |_| false,
    // From the store of Windows, its `appData` is that of the package.
    user_files: &[(ClientDir::Package("Claude_", "LocalCache/Roaming"), FILE), (ClientDir::AppData, FILE)],
    ..KnownClient::new("claude-desktop", "Claude Desktop", &["claude-desktop", "Claude"])
};
