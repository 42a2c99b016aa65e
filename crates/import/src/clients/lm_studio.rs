//! LM Studio. From its documentation.

use super::client::{ClientDir, KnownClient, TimeoutMeaning};

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Named("", ".lmstudio"), "mcp.json")],
    timeout: TimeoutMeaning::MILLISECONDS,
    ..KnownClient::new("lm-studio", "LM Studio", &["LM Studio", "lm-studio"])
};
