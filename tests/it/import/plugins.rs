//! The servers that extensions and plugins of clients bring.

use serde_json::{Value, json};

use super::Home;

const CLAUDE: &str = ".claude.json";
const SETTINGS: &str = ".claude/settings.json";
const CACHE: &str = ".claude/plugins/cache/market";

impl Home {
    /// Adds a plugin of Claude Code that is installed and on, with these servers.
    fn add_plugin(&self, name: &str, manifest: &Value, servers: &Value) {
        self.write(&format!("{CACHE}/{name}/1.0/.claude-plugin/plugin.json"), &manifest.to_string());
        self.write(&format!("{CACHE}/{name}/1.0/.mcp.json"), &servers.to_string());
        let add = |file: &str, key: &str, entry: Value| {
            let mut content = if self.file(file).exists() { self.json(file) } else { json!({}) };
            content[key][format!("{name}@market")] = entry;
            self.write(file, &content.to_string());
        };
        let path = self.file(&format!("{CACHE}/{name}/1.0"));
        let installed = json!([{"scope": "user", "installPath": path, "version": "1.0"}]);
        add(".claude/plugins/installed_plugins.json", "plugins", installed);
        add(SETTINGS, "enabledPlugins", json!(true));
    }
}

/// A home directory with three plugins of Claude Code.
fn home_with_plugins() -> Home {
    let home = Home::empty();
    home.add_plugin(
        "notes",
        &json!({
            "name": "notes",
            "userConfig": {"folder": {"type": "directory"}, "key": {"type": "string", "sensitive": true}},
            "mcpServers": {
                "notes": {"command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/notes.js", "${user_config.folder}"]},
                "secret": {"command": "node", "env": {"KEY": "${user_config.key}"}}
            }
        }),
        &json!({"mcpServers": {"hub": {"type": "http", "url": "https://hub.example/mcp", "headers": {"X": "${HUB}"}}}}),
    );
    home.add_plugin(
        "docs",
        &json!({"name": "docs"}),
        &json!({"docs": {"command": "npx", "args": ["-y", "docs"]}}),
    );
    home.add_plugin(
        "more",
        &json!({"name": "more"}),
        &json!({"docs": {"command": "npx", "args": ["-y", "docs"]}}),
    );
    let mut settings = home.json(SETTINGS);
    settings["pluginConfigs"]["notes@market"]["options"]["folder"] = json!("/notes");
    settings["permissions"]["deny"] = json!(["mcp__plugin_notes_hub__delete"]);
    home.write(SETTINGS, &serde_json::to_string_pretty(&settings).unwrap());
    home
}

#[test]
fn the_servers_of_plugins_move_and_are_turned_off_one_by_one() {
    let home = home_with_plugins();
    let before = home.text(SETTINGS);
    let shown = home.imported(&["--yes", "--write-client"]);
    for line in [
        "Claude Code     plugin notes@market: 2 servers; secret stays there: only Claude Code can read its option `key`\n",
        "Claude Code     plugin docs@market: 1 server\n",
        "Claude Code     ~/.claude.json: `dyn` is added\n",
        "Claude Code     ~/.claude/settings.json: 1 rule renamed for the tools of `dyn`, 4 servers of its plugins turned off\n",
        "(Claude Code (as \"plugin:notes:hub\"))",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let servers = home.servers();
    let root = format!("/HOME/{CACHE}/notes/1.0");
    let notes = home.shown(&servers["notes"].to_string());
    let expected = json!({
        "command": "node",
        "args": [format!("{root}/notes.js"), "/notes"],
        "env": {"CLAUDE_PLUGIN_ROOT": root, "CLAUDE_PLUGIN_DATA": "/HOME/.claude/plugins/data/notes-market"},
        "inherit_env": true
    });
    assert_eq!(serde_json::from_str::<Value>(&notes).unwrap(), expected);
    assert_eq!(servers["hub"]["headers"]["X"], "${HUB:-}");
    // The server of two plugins is one server.
    assert_eq!(servers.as_object().unwrap().len(), 3, "{servers}");
    let settings = home.json(SETTINGS);
    let denied = ["notes:hub", "notes:notes", "docs:docs", "more:docs"]
        .map(|name| json!({"serverName": format!("plugin:{name}")}));
    assert_eq!(settings["deniedMcpServers"], json!(denied));
    assert_eq!(settings["permissions"]["deny"], json!(["mcp__dyn__hub__delete"]));
    assert!(home.json(CLAUDE)["mcpServers"]["dyn"].is_object());

    // What is turned off is not found again.
    let again = home.imported(&["--yes", "--write-client"]);
    assert!(again.contains("There are no new servers") && !again.contains("Wrote "), "{again}");

    let (code, shown) = home.undone();
    assert_eq!((code, home.text(SETTINGS)), (Some(0), before), "{shown}");
    assert!(!home.file(CLAUDE).exists() && home.records().is_empty(), "{shown}");
}

#[test]
fn undo_puts_settings_back_in_a_file_that_was_changed_since() {
    let home = home_with_plugins();
    home.imported(&["--yes", "--write-client"]);
    let mut settings = home.json(SETTINGS);
    settings["theme"] = json!("dark");
    settings["deniedMcpServers"].as_array_mut().unwrap().push(json!({"serverName": "mine"}));
    home.write(SETTINGS, &settings.to_string());
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("~/.claude/settings.json was changed since: its rules and settings are as before."),
        "{shown}"
    );
    let settings = home.json(SETTINGS);
    assert_eq!(settings["deniedMcpServers"], json!([{"serverName": "mine"}]));
    assert_eq!(
        (&settings["theme"], &settings["permissions"]["deny"]),
        (&json!("dark"), &json!(["mcp__plugin_notes_hub__delete"]))
    );
    assert_eq!(home.records(), []);
}

#[test]
fn without_write_client_nothing_is_turned_off() {
    let home = home_with_plugins();
    let before = home.text(SETTINGS);
    let shown = home.imported(&["--yes"]);
    assert!(shown.contains("plugin docs@market: 1 server\n"), "{shown}");
    assert_eq!((home.text(SETTINGS), home.servers().as_object().unwrap().len()), (before, 3));
}

#[test]
fn plugins_that_are_off_or_of_projects_stay() {
    let home = home_with_plugins();
    let mut settings = home.json(SETTINGS);
    settings["enabledPlugins"]["docs@market"] = json!(false);
    settings["enabledPlugins"].as_object_mut().unwrap().remove("more@market");
    home.write(SETTINGS, &settings.to_string());
    home.write(
        "p/.claude/settings.json",
        r#"{"enabledPlugins": {"more@market": true, "notes@market": false}}"#,
    );
    let shown = home.imported(&["--project=p", "--dry-run"]);
    assert!(!shown.contains("plugin docs@market"), "{shown}");
    for line in [
        "plugin more@market: docs stays there: it is on in the project alone\n",
        "hub, notes stays there: it is off in the project",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

/// A setting that cannot be written leaves the server where it is.
#[cfg(unix)]
#[test]
fn a_server_that_cannot_be_turned_off_stays() {
    use std::os::unix::fs::PermissionsExt;
    let home = home_with_plugins();
    std::fs::set_permissions(home.file(SETTINGS), PermissionsExt::from_mode(0o444)).unwrap();
    let shown = home.imported(&["--yes", "--write-client"]);
    assert!(shown.contains("settings.json is read-only, so it cannot be turned off there\n"), "{shown}");
    assert!(!home.file(".config/dynamic-mcp/servers.json").exists(), "{shown}");
}
