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
        "Claude Code     plugin notes@market: 2 servers; secret stays there: only Claude Code can read one of its options\n",
        "Claude Code     plugin docs@market: 1 server\n",
        "Claude Code     ~/.claude.json: `dyn` is added\n",
        "Claude Code     ~/.claude/settings.json: 1 rule renamed for the tools of `dyn`, 3 servers turned off, which `dyn` has\n",
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
fn plugins_of_claude_code_that_are_off_are_not_read() {
    let home = home_with_plugins();
    home.add_plugin(
        "bundled",
        &json!({"mcpServers": ["./more.json", "./server.mcpb"]}),
        &json!({"own": {"command": "dynamic-mcp"}}),
    );
    home.write(&format!("{CACHE}/bundled/1.0/more.json"), r#"{"mcpServers": {"more": {"command": "more"}}}"#);
    home.write(&format!("{CACHE}/bundled/1.0/server.mcpb"), "PK\u{3}\u{4}");
    let mut settings = home.json(SETTINGS);
    settings["enabledPlugins"]["docs@market"] = json!(false);
    settings["enabledPlugins"].as_object_mut().unwrap().remove("more@market");
    home.write(SETTINGS, &settings.to_string());
    let shown = home.imported(&["--dry-run"]);
    assert!(!shown.contains("docs@market") && !shown.contains("more@market"), "{shown}");
    let line = "plugin bundled@market: 1 server; ./server.mcpb stays there: it is an MCP bundle; own stays there: it starts dynamic-mcp\n";
    assert!(shown.contains(line), "{shown}");
}

/// A plugin of a marketplace that is a directory runs there, and what the marketplace says of it counts if it has no
/// manifest.
#[test]
fn a_plugin_of_a_local_marketplace_runs_in_place() {
    let home = Home::empty();
    let plugins = |key: &str, value: Value| json!({"version": 1, key: {"local@m": value}});
    let installed = plugins("plugins", json!({"installPath": home.file("copy"), "version": "1"}));
    home.write(".claude/plugins/installed_plugins.json", &installed.to_string());
    home.write(SETTINGS, &plugins("enabledPlugins", json!(true)).to_string());
    let market = json!({"m": {"source": {"source": "directory"}, "installLocation": home.file("market")}});
    home.write(".claude/plugins/known_marketplaces.json", &market.to_string());
    let entry = json!({"name": "local", "source": "./local", "mcpServers": {"s": {"command": "${CLAUDE_PLUGIN_ROOT}/s"}}});
    home.write("market/.claude-plugin/marketplace.json", &json!({"plugins": [entry]}).to_string());
    home.imported(&["--yes"]);
    assert_eq!(home.shown(home.servers()["s"]["command"].as_str().unwrap()), "/HOME/market/local/s");
}

#[test]
fn servers_of_codex_plugins_are_turned_off_in_its_file() {
    let home = Home::empty();
    let before = "# mine\nmodel = \"m\"\n\n[mcp_servers.same]\ncommand = \"same\"\n\n[plugins.\"p@m\"]\nenabled = true\n\n[plugins.\"p@m\".mcp_servers.asks]\ndefault_tools_approval_mode = \"prompt\"\n\n[plugins.\"off@m\"]\nenabled = false\n";
    home.write(".codex/config.toml", before);
    let servers = json!({"mcpServers": {
        "echo": {"command": "node", "args": ["${HOME}", "\"\u{1}"], "env": {"A": "b"}, "cwd": "sub", "startup_timeout_sec": 9},
        "hub": {"type": "http", "url": "https://hub.example/mcp", "headers": {"X": "y"}, "bearer_token_env_var": null},
        "asks": {"command": "asks"},
        "same": {"command": "other"}
    }});
    home.write(".codex/plugins/cache/m/p/1.10/.codex-plugin/plugin.json", r#"{"name": "p"}"#);
    home.write(".codex/plugins/cache/m/p/1.10/.mcp.json", &servers.to_string());
    home.write(".codex/plugins/cache/m/p/1.2/.mcp.json", r#"{"old": {"command": "old"}}"#);
    home.write(".codex/plugins/cache/m/off/1/.mcp.json", r#"{"gone": {"command": "gone"}}"#);
    let shown = home.imported(&["--yes", "--write-client"]);
    for line in [
        "Codex           ~/.codex/config.toml: 0 servers; `dyn` is added, 2 servers turned off, which `dyn` has\n",
        "  same stays there: a server of this name in an extension or a plugin would start in its place\n",
        "Codex           plugin p@m: 2 servers; asks stays there: `default_tools_approval_mode` of its plugin",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let servers = home.servers();
    let echo = home.shown(&servers["echo"].to_string());
    let echo: Value = serde_json::from_str(&echo).unwrap();
    assert_eq!(echo["args"], json!(["$${HOME}", "\"\u{1}"]));
    assert_eq!(echo["cwd"], "/HOME/.codex/plugins/cache/m/p/1.10/sub");
    assert_eq!(servers["hub"], json!({"url": "https://hub.example/mcp"}));
    assert_eq!(servers.as_object().unwrap().len(), 2, "{servers}");
    let text = home.text(".codex/config.toml");
    assert!(text.contains("[plugins.\"p@m\".mcp_servers.echo]\nenabled = false\n"), "{text}");
    home.write(".codex/config.toml", &text.replace("model = \"m\"", "model = \"n\""));
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    let after = home.text(".codex/config.toml");
    assert!(
        !after.contains("enabled = false\n\n[plugins.\"p@m\".mcp_servers.hub]") && !after.contains("dyn"),
        "{after}"
    );
    assert!(after.contains("# mine\nmodel = \"n\"\n") && after.contains("command = \"same\""), "{after}");
}

#[test]
fn servers_of_gemini_extensions_are_turned_off_by_name() {
    for (dir, manifest, off) in [
        (
            ".gemini",
            "gemini-extension.json",
            ("mcp-server-enablement.json", json!({"maps": {"enabled": false}})),
        ),
        (".qwen", "qwen-extension.json", ("settings.json", json!({"mcp": {"excluded": ["Maps"]}}))),
    ] {
        let home = Home::empty();
        home.write(&format!("{dir}/settings.json"), "{}");
        let add = |name: &str, servers: Value, more: Value| {
            let mut content = json!({"name": name, "version": "1.0.0", "mcpServers": servers});
            content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            home.write(&format!("{dir}/extensions/{name}/{manifest}"), &content.to_string());
        };
        let maps = json!({"command": "node", "args": ["${extensionPath}/maps.js", "$KEY"], "cwd": "${extensionPath}", "trust": true});
        add("maps", json!({"Maps": maps, "here": {"command": "x", "args": ["${workspacePath}"]}}), json!({}));
        add("other", json!({"Maps": {"command": "second"}}), json!({}));
        add(
            "keys",
            json!({"keys": {"command": "keys"}}),
            json!({"settings": [{"name": "K", "envVar": "K"}]}),
        );
        add("off", json!({"off": {"command": "off"}}), json!({}));
        add("partly", json!({"partly": {"command": "partly"}}), json!({}));
        let here = home.path().to_str().unwrap().replace('\\', "/");
        let here = format!("/{}/", here.trim_matches('/'));
        let rules = json!({"off": {"overrides": [format!("!{here}*")]}, "partly": {"overrides": [format!("!{here}work/*")]}});
        home.write(&format!("{dir}/extensions/extension-enablement.json"), &rules.to_string());
        let shown = home.imported(&["--yes", "--write-client"]);
        for line in [
            "extension maps: 1 server; here stays there: it is another one in each workspace\n",
            "extension keys: keys stays there: its extension has settings of its own\n",
            "extension partly: partly stays there: it is off in /",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        assert!(!shown.contains("extension off") && !shown.contains("extension other"), "{shown}");
        let servers = home.servers();
        let root = format!("/HOME/{dir}/extensions/maps");
        let maps = home.shown(&servers["Maps"].to_string());
        assert!(
            maps.contains(&format!("\"{root}/maps.js\",\"${{KEY:-}}\""))
                && maps.contains(&format!("\"cwd\":\"{root}\"")),
            "{maps}"
        );
        let content = home.json(&format!("{dir}/{}", off.0));
        assert!(
            off.1.as_object().unwrap().iter().all(|(key, value)| content.get(key) == Some(value)),
            "{content}"
        );
        let (code, shown) = home.undone();
        assert_eq!((code, home.text(&format!("{dir}/settings.json"))), (Some(0), "{}".to_owned()), "{shown}");
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
