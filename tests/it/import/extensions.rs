//! The extensions of Claude Desktop: MCP bundles that it has unpacked.

use serde_json::{Value, json};

use super::{Home, stderr, stdout};

const DIR: &str =
    if cfg!(target_os = "macos") { "Library/Application Support/Claude" } else { ".config/Claude" };

impl Home {
    /// Adds an extension of Claude Desktop with this manifest and these settings.
    fn add_extension(&self, id: &str, manifest: Value, settings: Option<Value>) {
        let mut manifest = manifest;
        for (name, value) in [
            ("manifest_version", json!("0.3")),
            ("version", json!("1.0.0")),
            ("author", json!({"name": "Brindle"})),
        ] {
            manifest.as_object_mut().unwrap().entry(name).or_insert(value);
        }
        self.write(&format!("{DIR}/Claude Extensions/{id}/manifest.json"), &manifest.to_string());
        if let Some(settings) = settings {
            self.write(&format!("{DIR}/Claude Extensions Settings/{id}.json"), &settings.to_string());
        }
        let registry = format!("{DIR}/extensions-installations.json");
        let mut content =
            if self.file(&registry).exists() { self.json(&registry) } else { json!({"extensions": {}}) };
        content["extensions"][id] =
            json!({"id": id, "version": "1.0.0", "manifest": manifest, "source": "local"});
        self.write(&registry, &content.to_string());
    }
}

fn manifest(name: &str, label: &str, kind: &str, config: &Value, settings: &Value) -> Value {
    json!({"name": name, "display_name": label, "description": format!("{label}."), "user_config": settings,
        "server": {"type": kind, "entry_point": "server/main", "mcp_config": config}})
}

/// The settings of an extension that is on.
fn on(values: Value) -> Option<Value> {
    Some(json!({"isEnabled": true, "userConfig": values}))
}

/// Adds an extension with a secret that only Claude Desktop can read.
fn add_slack(home: &Home) {
    let token =
        json!({"type": "string", "title": "T", "description": "D", "required": true, "sensitive": true});
    let team = json!({"type": "string", "title": "T", "description": "D", "required": true});
    let env = json!({"SLACK_BOT_TOKEN": "${user_config.bot_token}", "SLACK_TEAM_ID": "${user_config.team}"});
    let config = json!({"command": "node", "args": ["${__dirname}/server/main"], "env": env});
    home.add_extension(
        "local.mcpb.brindle.slack",
        manifest("slack", "Slack", "node", &config, &json!({"bot_token": token, "team": team})),
        on(json!({"bot_token": "__encrypted__:djEwYWJjZGVm", "team": "T012"})),
    );
}

/// A machine without a server in `claude_desktop_config.json`, and with eight extensions that are on.
fn home_with_extensions() -> Home {
    let home = Home::empty();
    let main = || json!({"command": "node", "args": ["${__dirname}/server/main"]});
    let with = |key: &str, value: Value| {
        let mut config = main();
        config[key] = value;
        config
    };
    let folders = with("args", json!(["${__dirname}/server/main", "${user_config.folders}"]));
    let several =
        json!({"type": "directory", "title": "T", "description": "D", "required": true, "multiple": true});
    home.add_extension(
        "ant.dir.ant.anthropic.filesystem",
        manifest("filesystem", "Filesystem", "node", &folders, &json!({"folders": several})),
        on(json!({"folders": ["/a b", "/${HOME}"]})),
    );
    add_slack(&home);
    home.add_extension(
        "ant.dir.ant.chrome",
        manifest("chrome-control", "Control Chrome", "node", &main(), &json!({})),
        on(json!({})),
    );
    let python = json!({"command": "python", "args": ["${__dirname}/server/main.py"], "env": {"PYTHONPATH": "${__dirname}/server/lib"}});
    home.add_extension(
        "ant.dir.pdf",
        manifest("pdf", "PDF Tools", "python", &python, &json!({})),
        on(json!({})),
    );
    let mut uv = manifest("sqlite", "SQLite", "uv", &Value::Null, &json!({}));
    uv["manifest_version"] = "0.4".into();
    home.add_extension("local.mcpb.brindle.sqlite", uv, on(json!({})));
    let beam = json!({"command": "${__dirname}/server/beam", "args": ["--docs", "${DOCUMENTS}${/}beam"],
        "platform_overrides": {"win32": {"command": "${__dirname}/server/beam.exe"}}});
    let mut beam = manifest("beam", "Beam", "binary", &beam, &json!({}));
    beam.as_object_mut().unwrap().insert("dxt_version".to_owned(), json!("0.1"));
    home.add_extension("local.dxt.brindle.beam", beam, on(json!({})));
    add_extensions_with_defaults(&home);
    home
}

/// Adds two whose settings have defaults.
fn add_extensions_with_defaults(home: &Home) {
    let port = json!({"command": "npx", "args": ["-y", "designer-mcp@latest", "--port=${user_config.port}"]});
    let port_field = json!({"type": "number", "title": "Port", "description": "D", "default": 9981});
    home.add_extension(
        "local.mcpb.b8.designer",
        manifest("designer", "Designer", "node", &port, &json!({"port": port_field})),
        on(json!({})),
    );
    let notes = json!({"command": "node", "args": ["${__dirname}/server/main"], "env": {"READ_ONLY": "${user_config.read_only}"}});
    let flag = json!({"type": "boolean", "title": "Read only", "description": "D", "default": false});
    home.add_extension(
        "ant.dir.notes",
        manifest("notes", "Notes", "node", &notes, &json!({"read_only": flag})),
        on(json!({"read_only": true})),
    );
}

/// Adds extensions that do not run in Claude Desktop either.
fn add_extensions_that_are_off(home: &Home) {
    let config = json!({"command": "node"});
    let off = |name: &str| manifest(name, name, "node", &config, &json!({}));
    home.add_extension("off", off("off"), Some(json!({"isEnabled": false})));
    home.add_extension("never-on", off("never-on"), None);
}

#[test]
fn eight_extensions_move_and_come_back() {
    let home = home_with_extensions();
    add_extensions_that_are_off(&home);
    let shown = home.imported(&["--write-client", "--yes"]);
    for line in [
        "Claude Desktop  extension Filesystem: 1 server\n",
        "claude_desktop_config.json: `dyn` is added\n",
        "Only their client can read these secrets: slack-bot_token. ",
        "turn these off in Settings > Extensions, so that their servers do not run twice: Filesystem, Slack",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("djEw") && shown.lines().count() < 40, "{shown}");
    let servers: Value = serde_json::from_str(&home.shown(&home.servers().to_string())).unwrap();
    let names: Vec<_> = servers.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["filesystem", "slack", "chrome-control", "pdf", "sqlite", "beam", "designer", "notes"]
    );
    let own = |path: &str| format!("/HOME/{DIR}/Claude Extensions/{path}");
    let main = own("ant.dir.ant.anthropic.filesystem/server/main");
    assert_eq!(servers["filesystem"]["args"], json!([main, "/a b", "//HOME"]));
    let slack = json!({"SLACK_BOT_TOKEN": "{keyring:slack-bot_token}", "SLACK_TEAM_ID": "T012"});
    assert_eq!(servers["slack"]["env"], slack);
    assert_eq!(servers["pdf"]["env"]["PYTHONPATH"], own("ant.dir.pdf/server/lib"));
    assert_eq!((&servers["sqlite"]["command"], &servers["sqlite"]["args"][0]), (&json!("uv"), &json!("run")));
    assert_eq!(servers["designer"]["args"][2], "--port=9981");
    assert_eq!(servers["notes"]["env"]["READ_ONLY"], "true");
    let registry = format!("{DIR}/extensions-installations.json");
    let before = home_with_extensions();
    add_extensions_that_are_off(&before);
    assert_eq!(home.json(&registry), before.json(&registry), "Claude Desktop writes it when it quits");

    // They are found again as the same servers, and `check` says that they run twice.
    let again = home.imported(&["--write-client", "--yes"]);
    assert!(again.contains("There are no new servers"), "{again}");
    let check = home.program(&["check", "beam"]).output().unwrap();
    let twice = "Claude Desktop runs filesystem a second time: turn off Filesystem in Settings > Extensions";
    assert!(stdout(&check).contains(twice), "{}{}", stdout(&check), stderr(&check));

    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Then turn on Slack in Settings > Extensions."), "{shown}");
    assert!(!home.file(&format!("{DIR}/claude_desktop_config.json")).exists() && home.records().is_empty());
}

#[test]
fn what_cannot_run_outside_stays_with_the_reason() {
    let home = Home::empty();
    let config = json!({"command": "node", "args": ["--token=${user_config.token}"], "env": {"T": "${user_config.token}"}});
    let token = json!({"token": {"type": "string", "title": "T", "description": "D", "sensitive": true}});
    let secret = Some(json!({"isEnabled": true, "userConfig": {"token": "__encrypted__:djEw"}}));
    home.add_extension("a", manifest("argument", "Argument", "node", &config, &token), secret.clone());
    let mut elsewhere = manifest("elsewhere", "Elsewhere", "binary", &json!({"command": "x"}), &json!({}));
    elsewhere["compatibility"] = json!({"platforms": ["plan9"]});
    home.add_extension("b", elsewhere, Some(json!({"isEnabled": true})));
    home.add_extension(
        "c",
        json!({"name": "old", "manifest_version": "9"}),
        Some(json!({"isEnabled": true})),
    );
    let config = json!({"command": "node", "env": {"T": "${user_config.token}"}});
    home.add_extension("d", manifest("variable", "Variable", "node", &config, &token), secret);
    let shown = home.imported(&["--yes", "--config", "other.json"]);
    for reason in [
        "extension Argument: argument stays there: it passes a secret as an argument, and {keyring:NAME} counts only in variables",
        "extension Elsewhere: elsewhere stays there: it runs only on \"plan9\"",
        "extension old: old stays there: its manifest is no manifest of a bundle: missing field `server`",
        "extension Variable: variable stays there: it has a secret, which only your own servers.json can name",
    ] {
        assert!(shown.contains(reason), "{reason}: {shown}");
    }
    // A switch for all extensions.
    home.write(&format!("{DIR}/claude_desktop_config.json"), r#"{"features": {"isDxtEnabled": false}}"#);
    let shown = home.imported(&["--yes"]);
    assert!(!shown.contains("extension "), "{shown}");
}

#[test]
fn dynamic_mcp_as_an_extension_is_no_second_entry() {
    let home = home_with_extensions();
    let config = format!("{DIR}/claude_desktop_config.json");
    home.write(&config, &json!({"mcpServers": {"gh": {"command": "gh"}}, "more": 1}).to_string());
    let program = json!({"command": "${__dirname}/dynamic-mcp"});
    home.add_extension(
        "local.mcpb.dynamic-mcp",
        manifest("dynamic-mcp", "dynamic-mcp", "binary", &program, &json!({})),
        on(json!({})),
    );
    let before = home.client_files();
    let shown = home.imported(&["--write-client", "--yes"]);
    let change = "config.json: 1 server; 1 server left to your extension dynamic-mcp\n";
    assert!(shown.contains(change), "{shown}");
    assert!(shown.contains("dynamic-mcp stays there: it starts dynamic-mcp\n"), "{shown}");
    assert!(shown.contains("do not run twice: Filesystem") && !shown.contains("`dyn`"), "{shown}");
    assert_eq!(home.json(&config), json!({"mcpServers": {}, "more": 1}));
    assert!(home.servers().get("gh").is_some() && home.servers().get("dynamic-mcp").is_none());
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.client_files(), before);
}

// It has a keyring on a D-Bus.
#[cfg(all(unix, not(target_os = "macos")))]
#[test]
fn a_secret_that_claude_desktop_keeps_encrypted_is_asked_for() {
    use std::fs::File;
    use std::io::{Read, Write};
    let Some(desktop) = crate::oauth::keyring::Desktop::start() else { return };
    let home = home_with_extensions();
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = home.command(&[]);
    command.envs(desktop.shell_env()).stdin(terminal.slave);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut master = File::from(terminal.master);
    master.write_all(b"y\n").unwrap();
    let question = b"Value of slack-bot_token, or Enter to leave it for later (not shown): ";
    let mut asked = vec![0; question.len()];
    child.stderr.take().unwrap().read_exact(&mut asked).unwrap();
    assert_eq!(String::from_utf8_lossy(&asked), String::from_utf8_lossy(question));
    master.write_all(b"s3cret-bot\n").unwrap();
    assert!(crate::support::wait_for_child(&mut child).success());
    assert!(desktop.entries().contains("secret = s3cret-bot\n"), "{}", desktop.entries());
    // It is known from now on.
    let mut again = home.command(&["--yes"]);
    let shown = stdout(&again.envs(desktop.shell_env()).output().unwrap());
    assert!(!shown.contains("Only their client can read"), "{shown}");
}
