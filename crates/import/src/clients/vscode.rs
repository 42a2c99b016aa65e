//! VS Code, in both editions.

use super::client::{KnownClient, ClientDir};
use super::string_rules::{Fields, VariableForm};

/// What it knows about its window and its settings.
const WINDOW_NAMES: &[&str] = &[
    "columnNumber",
    "command:",
    "config:",
    "cwd",
    "cwd:",
    "defaultBuildTask",
    "execInstallFolder",
    "execPath",
    "extensionInstallFolder:",
    "file",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileDirname",
    "fileDirnameBasename",
    "fileExtname",
    "fileWorkspaceFolder",
    "fileWorkspaceFolderBasename",
    "input:",
    "lineNumber",
    "relativeFile",
    "relativeFileDirname",
    "selectedText",
    "workspaceFolder",
    "workspaceFolder:",
    "workspaceFolderBasename",
    "workspaceFolderBasename:",
];

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::AppData, "Code/User/mcp.json")],
    // Both editions read it (`ClientApp::in_project`).
    project_files: &[".vscode/mcp.json"],
    ..edition("vscode", "VS Code", &["code", "Code"])
};

pub(super) static INSIDERS: KnownClient = KnownClient {
    edition_of: "vscode",
    user_files: &[(ClientDir::AppData, "Code - Insiders/User/mcp.json")],
    ..edition("vscode-insiders", "VS Code Insiders", &["code-insiders", "Code - Insiders"])
};

const fn edition(id: &'static str, label: &'static str, programs: &'static [&'static str]) -> KnownClient {
    KnownClient {
        has_window: true,
        servers: |_| &["servers"],
        passes_environment: true,
        shows_questions: |_| true,
        forms: &[VariableForm::Editor, VariableForm::ClientOnly(WINDOW_NAMES)],
        balances_braces: true,
        fields: Fields::Only(&["command", "args", "env", "env_file", "cwd", "url", "headers", "oauth"]),
        home_fields: &["command", "args", "cwd"],
        optional: Fields::All,
        is_empty_in_env: true,
        variable: Some("${env:NAME}"),
        local_type: Some("stdio"),
        own_meaning: &["sandboxEnabled", "sandbox"],
        ..KnownClient::new(id, label, programs)
    }
}
