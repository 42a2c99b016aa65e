//! Clients with a table alone: where their files are, and what becomes of an entry as its client writes it.
//! `tests/clients/entries.json` has an entry of each, with what that is in our form.

use serde_json::{Value, json};

use super::{Home, fixtures};

/// A file with these servers and a setting of the client.
fn file(keys: &[String], servers: &Value) -> Value {
    let mut value = servers.clone();
    for key in keys.iter().rev() {
        value = json!({key: value});
    }
    value["theme"] = json!("dark");
    value
}

#[test]
fn an_entry_of_every_client_is_carried_over_and_comes_back() {
    let cases = std::fs::read_to_string(fixtures("entries.json")).unwrap();
    for case in serde_json::from_str::<Vec<Value>>(&cases).unwrap() {
        let [id, path] = ["client", "file"].map(|name| case[name].as_str().unwrap());
        let keys: Vec<String> = serde_json::from_value(case["keys"].clone()).unwrap();
        let home = Home::of(&[(path, file(&keys, &json!({"one": case["entry"]})))]);
        let before = home.client_files();
        let printed = home.imported(&[id, "--yes", "--write-client"]);
        assert_eq!(home.servers()["one"], case["ours"], "{id}: {printed}");
        let written = home.json(path);
        assert_eq!(written["theme"], "dark", "{id}");
        let servers = keys.iter().fold(&written, |value, key| &value[key]);
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

#[test]
fn a_file_of_yaml_is_read_and_never_written() {
    let goose = "extensions:\n  docs: # mine\n    type: stdio\n    cmd: docs-server\n    args: [-y]\n    envs: {LEVEL: 1}\n    timeout: 60\n    available_tools: [search]\n    enabled: true\n";
    let home = Home::empty();
    home.write(".config/goose/config.yaml", goose);
    let output = home.import(&["goose", "--yes", "--write-client"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        home.servers()["docs"],
        json!({
            "command": "docs-server", "args": ["-y"], "env": {"LEVEL": "1"}, "inherit_env": true,
            "timeout": {"tools": 60}, "tools": {"allow": ["search"]},
        })
    );
    assert_eq!(home.text(".config/goose/config.yaml"), goose);
    assert!(said.contains("in place of docs, remove these, and write this as `dyn`"), "{said}");
    let paste = said.split("`dyn` of `extensions`: ").nth(1).unwrap();
    let paste: Value = serde_json::from_str(paste.trim()).unwrap();
    assert!(paste["cmd"].as_str().unwrap().contains("dynamic-mcp") && paste["type"] == "stdio", "{said}");

    let list = "mcpServers:\n  - name: docs\n    command: docs-server\n";
    let home = Home::empty();
    home.write(".continue/config.yaml", list);
    let said = String::from_utf8(home.import(&["continue", "--yes", "--write-client"]).stderr).unwrap();
    assert!(
        said.contains("in place of docs, remove these, and add this to the list `mcpServers`: {"),
        "{said}"
    );
}

#[test]
fn a_file_in_any_form_is_imported_by_its_path() {
    let home = Home::empty();
    let files = [
        (
            "Downloads/claude_desktop_config.json",
            json!({"mcpServers": {"a": {"command": "a", "args": ["${X}"]}}}),
        ),
        ("colleague/.cursor/mcp.json", json!({"mcpServers": {"b": {"command": "b", "args": ["${env:X}"]}}})),
        ("tool/list.json", json!({"mcpServers": {"c": {"command": "c", "args": ["${X:-1}"]}}})),
        ("tool/code.json", json!({"mcp": {"d": {"type": "local", "command": ["d", "{env:X}"]}}})),
        ("tool/ext.yaml", json!({"extensions": {"e": {"type": "stdio", "cmd": "e", "enabled": true}}})),
    ];
    for (path, content) in &files {
        home.write(path, &content.to_string());
        let printed = home.imported(&[path, "--yes"]);
        assert!(!printed.contains("still start these servers"), "{printed}");
    }
    home.write("x.toml", "[mcp_servers.f]\ncommand = \"f\"\n");
    home.imported(&["x.toml", "--yes"]);
    let servers = home.servers();
    let args = |name: &str| servers[name]["args"].clone();
    assert_eq!(args("a"), json!(["$${X}"]), "Claude Desktop has no variables");
    assert_eq!((args("b"), args("c"), args("d")), (json!(["${X:-}"]), json!(["${X:-1}"]), json!(["${X:-}"])));
    assert_eq!((&servers["e"]["command"], &servers["f"]["command"]), (&json!("e"), &json!("f")));

    for (args, text) in [
        (&["nothing.json", "--yes"][..], "there is no file nothing.json"),
        (&["nobody", "--yes"], "claude-desktop"),
        (&["x.toml", "--yes", "--write-client"], "name the client in place of the file"),
    ] {
        let output = home.import(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(text), "{args:?}: {said}");
    }
}
