//! Clients with a table alone: where their files are, and what becomes of an entry as its client writes it.

use serde_json::{Value, json};

use super::Home;

/// A client: its name, the user's file, the keys of its servers, an entry as it writes it, and what that is in our form. In
/// the entry, everything that the client has of its own.
type Case = (&'static str, &'static str, &'static [&'static str], Value, Value);

fn cases() -> Vec<Case> {
    let servers: &[&str] = &["mcpServers"];
    let local = json!({"command": "run", "args": ["a"]});
    let with = |more: Value| {
        let mut entry = local.clone();
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    vec![
        (
            "antigravity",
            ".gemini/config/mcp_config.json",
            servers,
            json!({"serverUrl": "https://x.example/mcp", "command": "unused", "disabledTools": ["rm"]}),
            json!({"url": "https://x.example/mcp", "tools": {"deny": ["rm"]}}),
        ),
        (
            "kiro",
            ".kiro/settings/mcp.json",
            servers,
            with(
                json!({"env": {"A": "${SET}"}, "disabledTools": ["rm"], "autoApprove": ["ls"], "timeout": 5000}),
            ),
            with(json!({"env": {"A": "${SET:-}"}, "tools": {"deny": ["rm"]}, "timeout": {"tools": 5}})),
        ),
        (
            "junie",
            ".junie/mcp/mcp.json",
            servers,
            with(json!({"env": {"A": "${SET}"}})),
            with(json!({"env": {"A": "$${SET}"}})),
        ),
        (
            "roo",
            ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            servers,
            json!({"url": "https://x.example/mcp", "type": "streamable-http", "headers": {"X": "${env:SET}"}, "timeout": 90, "alwaysAllow": ["a"], "disabledTools": ["rm"], "watchPaths": ["x"]}),
            json!({"url": "https://x.example/mcp", "type": "http", "headers": {"X": "${SET:-}"}, "tools": {"deny": ["rm"]}, "timeout": {"tools": 90}}),
        ),
        (
            "kilo",
            ".config/kilo/kilo.jsonc",
            &["mcp"],
            json!({"type": "local", "command": ["run", "a"], "environment": {"A": "{env:SET}"}, "timeout": 4000, "enabled": true}),
            with(
                json!({"env": {"A": "${SET:-}"}, "inherit_env": true, "timeout": {"initialize": 4, "list": 4, "tools": 4}}),
            ),
        ),
        (
            "kilocode",
            ".kilocode/mcp.json",
            servers,
            with(json!({"alwaysAllow": ["a"]})),
            with(json!({"inherit_env": true})),
        ),
        (
            "qwen",
            ".qwen/settings.json",
            servers,
            with(
                json!({"env": {"A": "$SET", "B": "${SET:-d}"}, "includeTools": ["ls"], "trust": true, "timeout": 7000}),
            ),
            with(
                json!({"env": {"A": "${SET:-}", "B": "$${SET:-d}"}, "inherit_env": true, "tools": {"allow": ["ls"]}, "timeout": {"tools": 7}}),
            ),
        ),
        (
            "windsurf",
            ".codeium/windsurf/mcp_config.json",
            servers,
            json!({"serverUrl": "https://x.example/${env:SET}", "disabledTools": ["rm"]}),
            json!({"url": "https://x.example/${SET}", "tools": {"deny": ["rm"]}}),
        ),
        (
            "cline",
            ".cline/data/settings/cline_mcp_settings.json",
            servers,
            json!({"transport": {"type": "stdio", "command": "run", "args": ["a"]}, "disabled": false, "timeout": 30, "autoApprove": []}),
            with(json!({"timeout": {"tools": 30}})),
        ),
        (
            "lm-studio",
            ".lmstudio/mcp.json",
            servers,
            json!({"url": "https://x.example/mcp"}),
            json!({"url": "https://x.example/mcp"}),
        ),
        (
            "factory",
            ".factory/mcp.json",
            servers,
            with(json!({"type": "stdio", "env": {"A": "${SET}"}, "enabledTools": ["ls"], "disabled": true})),
            with(
                json!({"env": {"A": "${SET}"}, "enabled": false, "inherit_env": true, "tools": {"allow": ["ls"]}}),
            ),
        ),
        ("trae", ".config/Trae/User/mcp.json", servers, with(json!({"fromGalleryId": "x"})), local.clone()),
        (
            "amazon-q",
            ".aws/amazonq/mcp.json",
            servers,
            with(json!({"env": {"A": "${env:SET}"}, "timeout": 1500})),
            with(json!({"env": {"A": "${SET:-}"}, "inherit_env": true, "timeout": {"tools": 1.5}})),
        ),
        (
            "crush",
            ".config/crush/crush.json",
            &["mcp"],
            with(json!({"type": "stdio", "env": {"A": "$SET"}, "disabled_tools": ["rm"], "timeout": 20})),
            with(
                json!({"env": {"A": "${SET:-}"}, "inherit_env": true, "tools": {"deny": ["rm"]}, "timeout": {"initialize": 20}}),
            ),
        ),
        (
            "zed",
            ".config/zed/settings.json",
            &["context_servers"],
            json!({"source": "custom", "command": {"path": "run", "args": ["a"], "env": {}}, "timeout": 60}),
            with(json!({"inherit_env": true, "timeout": {"tools": 60}})),
        ),
        (
            "amp",
            ".config/amp/settings.json",
            &["amp.mcpServers"],
            with(json!({"env": {"A": "${SET}"}, "includeTools": ["ls"]})),
            with(json!({"env": {"A": "${SET:-}"}, "tools": {"allow": ["ls"]}})),
        ),
    ]
}

/// A file with these servers and a setting of the client.
fn file(keys: &[&str], servers: &Value) -> Value {
    let mut value = servers.clone();
    for key in keys.iter().rev() {
        value = json!({*key: value});
    }
    value["theme"] = json!("dark");
    value
}

#[test]
fn an_entry_of_every_client_is_carried_over_and_comes_back() {
    for (id, path, keys, entry, expected) in cases() {
        let home = Home::of(&[(path, file(keys, &json!({"one": entry})))]);
        let before = home.client_files();
        let printed = home.imported(&[id, "--yes", "--write-client"]);
        assert_eq!(home.servers()["one"], expected, "{id}: {printed}");
        let written = home.json(path);
        assert_eq!(written["theme"], "dark", "{id}");
        let servers = keys.iter().fold(&written, |value, key| &value[*key]);
        let names: Vec<_> = servers.as_object().unwrap().keys().collect();
        assert_eq!(names, ["dyn"], "{id}: {written}");
        let words = servers["dyn"].to_string();
        assert!(words.contains("dynamic-mcp") && words.contains("--config"), "{id}: {words}");
        // Its own entry is found again, and what it had comes back.
        let again = home.imported(&[id, "--yes", "--write-client"]);
        assert!(again.contains("There are no new servers") && !again.contains("Wrote"), "{id}: {again}");
        let checked = home.program(&["check", "--as", id]).output().unwrap();
        assert!(
            String::from_utf8_lossy(&checked.stdout).contains("the entry is `dyn` in "),
            "{id}: {checked:?}"
        );
        home.imported(&["--undo", "--yes"]);
        assert_eq!(home.client_files(), before, "{id}");
    }
}

#[test]
fn what_only_its_client_has_keeps_a_server_there() {
    for (id, path, key, entry, reason) in [
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "mcpServers",
            json!({"command": "a", "extensionId": "x"}),
            "nothing like its `extensionId`",
        ),
        (
            "claude-code",
            ".claude.json",
            "mcpServers",
            json!({"url": "https://x/", "headersHelper": "sign"}),
            "nothing like its `headersHelper`",
        ),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "servers",
            json!({"command": "a", "sandboxEnabled": true}),
            "nothing like its `sandboxEnabled`",
        ),
        (
            "gemini",
            ".gemini/settings.json",
            "mcpServers",
            json!({"httpUrl": "https://x/", "authProviderType": "google_credentials"}),
            "nothing like its `authProviderType`",
        ),
        (
            "cline",
            ".cline/data/settings/cline_mcp_settings.json",
            "mcpServers",
            json!({"url": "https://x/", "remoteConfigured": true}),
            "nothing like its `remoteConfigured`",
        ),
        (
            "zed",
            ".config/zed/settings.json",
            "context_servers",
            json!({"settings": {"token": "x"}}),
            "an extension of Zed starts it",
        ),
        (
            "crush",
            ".config/crush/crush.json",
            "mcp",
            json!({"type": "stdio", "command": "a", "args": ["$(pass show x)"]}),
            "it has words of a shell",
        ),
    ] {
        let home = Home::of(&[(path, json!({key: {"one": entry, "two": {"command": "b"}}}))]);
        let printed = home.imported(&[id, "--yes", "--write-client"]);
        assert!(printed.contains(reason), "{id}: {printed}");
        assert_eq!(home.json(path)[key]["one"], entry, "{id}");
        assert_eq!(home.servers().as_object().unwrap().len(), 1, "{id}: {printed}");
    }
}

#[test]
fn rules_for_tools_of_more_clients_hold() {
    for (id, path, content, expected) in [
        (
            "zed",
            ".config/zed/settings.json",
            json!({"context_servers": {"gh": {"command": "gh"}}, "agent": {"tool_permissions": {"tools": {"mcp:gh:rm": {"default": "deny"}, "mcp:gh:ls": {"default": "allow"}, "terminal": {"default": "deny"}}}}}),
            json!({"deny": ["rm"]}),
        ),
        (
            "amp",
            ".config/amp/settings.json",
            json!({"amp.mcpServers": {"gh": {"command": "gh"}}, "amp.tools.disable": ["mcp__gh__rm", "builtin:Bash"]}),
            json!({"deny": ["rm"]}),
        ),
        (
            "qwen",
            ".qwen/settings.json",
            json!({"mcpServers": {"gh": {"command": "gh"}}, "permissions": {"deny": ["mcp__gh__rm", "Bash(rm *)"], "allow": ["mcp__gh__ls"]}}),
            json!({"deny": ["rm"]}),
        ),
        (
            "kilo",
            ".config/kilo/kilo.json",
            json!({"mcp": {"gh": {"type": "local", "command": ["gh"]}}, "permission": {"gh_rm": "deny"}}),
            json!({"deny": ["rm"]}),
        ),
    ] {
        let home = Home::of(&[(path, content)]);
        let printed = home.imported(&[id, "--yes"]);
        assert_eq!(home.servers()["gh"]["tools"], expected, "{id}: {printed}");
    }
}
