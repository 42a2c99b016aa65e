//! An import of the servers that a plugin of Codex and an extension of Gemini CLI bring: then the client starts dynamic-mcp
//! in their place, and after `--undo` the servers again.

use std::process::Command;

use crate::agents::gemini;
use crate::workspace::{Workspace, path_string};
use serde_json::json;

#[test]
fn a_server_of_a_codex_plugin_is_off_after_an_import_and_on_after_undo() {
    let Some(workspace) = Workspace::new() else { return };
    workspace.write(".codex/config.toml", "[plugins.\"notes@market\"]\nenabled = true\n");
    let plugin = ".codex/plugins/cache/market/notes/1.0.0";
    workspace
        .write(&format!("{plugin}/.codex-plugin/plugin.json"), r#"{"name": "notes", "version": "1.0.0"}"#);
    workspace.write(
        &format!("{plugin}/.mcp.json"),
        &json!({"mcpServers": {"notes": {"command": "notes"}}}).to_string(),
    );
    let state = |server: &str| {
        let mut command = workspace.command(workspace.install_dir.join("bin/codex"));
        command.args(["mcp", "list", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&workspace.run(command)).unwrap();
        let mut servers = listed.as_array().unwrap().iter();
        servers.find(|entry| entry["name"] == server).map(|entry| entry["enabled"] == true)
    };
    assert_eq!((state("notes"), state("dyn")), (Some(true), None));
    workspace.run(import(&workspace, &["codex", "--write-client"]));
    assert_eq!((state("notes"), state("dyn")), (Some(false), Some(true)));
    workspace.run(import(&workspace, &["--undo"]));
    assert_eq!((state("notes"), state("dyn")), (Some(true), None));
}

#[test]
fn a_server_of_a_gemini_extension_is_off_after_an_import_and_on_after_undo() {
    let Some(workspace) = Workspace::new() else { return };
    let manifest =
        json!({"name": "notes", "version": "1.0.0", "mcpServers": {"Notes": {"command": "notes"}}});
    let file = workspace.write(".gemini/extensions/notes/gemini-extension.json", &manifest.to_string());
    let home = path_string(file.ancestors().nth(4).unwrap());
    workspace.write(".gemini/trustedFolders.json", &json!({ home: "TRUST_FOLDER" }).to_string());
    let is_off = || {
        let mut command = gemini(&workspace);
        command.args(["mcp", "list"]);
        let (printed, messages) = workspace.run_to_exit_code(command, 0);
        let listed = printed + &messages;
        let line = |name: &str| listed.lines().find(|line| line.contains(name)).map(str::to_owned);
        let notes = line("Notes (from notes)").unwrap_or_else(|| panic!("{listed}"));
        (notes.ends_with("Disabled"), line("dyn:").is_some())
    };
    assert_eq!(is_off(), (false, false));
    workspace.run(import(&workspace, &["gemini", "--write-client"]));
    assert_eq!(is_off(), (true, true));
    workspace.run(import(&workspace, &["--undo"]));
    assert_eq!(is_off(), (false, false));
}

/// `dynamic-mcp import` with these arguments, and every question answered with yes.
fn import(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = workspace.command(env!("CARGO_BIN_EXE_dynamic-mcp"));
    command.arg("import").args(args).arg("--yes");
    command
}
