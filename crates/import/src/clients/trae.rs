//! Trae. From its documentation, and from descriptions by others.

use super::client::{ClientDir, KnownClient};
use super::string_rules::VariableForm;

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::AppData, "Trae CN/User/mcp.json"), (ClientDir::AppData, "Trae/User/mcp.json")],
    project_files: &[".trae/mcp.json"],
    forms: &[VariableForm::ClientOnly(&["workspaceFolder"])],
    ..KnownClient::new("trae", "Trae", &["trae", "Trae", "Trae CN"])
};
