//! Kilo Code: since version 7 made of OpenCode. It still reads the files of earlier versions, which have another form.

use super::client::{ClientDir, KnownClient};
use super::opencode;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[
        (ClientDir::Named("XDG_CONFIG_HOME", ".config"), "kilo/kilo.jsonc"),
        (ClientDir::Named("XDG_CONFIG_HOME", ".config"), "kilo/kilo.json"),
    ],
    project_files: &["kilo.jsonc", "kilo.json", ".kilo/kilo.jsonc", ".kilo/kilo.json"],
    ..opencode::made_of_it("kilo", "Kilo Code", &["kilo"])
};

/// Its earlier files. It drops their limits of time and of tools.
pub(super) static EARLIER: KnownClient = KnownClient {
    user_files: &[(ClientDir::Extension("kilocode.kilo-code"), "settings/mcp_settings.json")],
    project_files: &[".kilocode/mcp.json", ".kilo/mcp.json"],
    passes_environment: true,
    ..KnownClient::new("kilocode", "Kilo Code (earlier files)", &["kilo"])
};
