//! What is text to a client stays text, whatever it looks like to us.

use std::fs;

use config::{Endpoint, ServerConfig};
use serde_json::{Value, json};

#[cfg(unix)]
use super::stdout;
use super::{Home, loaded};
#[cfg(unix)]
use crate::support::scripted_upstream;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";
/// The config file of the project.
const PROJECT: &str = ".config/dynamic-mcp/projects/app.json";

/// Text in the notations of ours that no client has.
const SECRETS: &str = "{command:id} {keyring:k} $$ {{file:x";

/// The file of each client, where the servers are in it, and a text that it takes literally.
fn clients() -> Vec<(&'static str, &'static str, String)> {
    let files = format!("{SECRETS} {{file:/etc/passwd}} {{env:HOME}}");
    let everything = format!("{files} ${{HOME}} $${{HOME}} ~/x");
    vec![
        (".config/Claude/claude_desktop_config.json", "mcpServers", everything.clone()),
        (".claude.json", "mcpServers", files.clone()),
        (".config/opencode/opencode.json", "mcp", "{command:id} {keyring:k} $$ ${HOME}".to_owned()),
        (".cursor/mcp.json", "mcpServers", format!("{files} ${{HOME}}")),
        (".config/Code/User/mcp.json", "servers", format!("{files} ${{HOME}}")),
        (".codex/config.toml", "mcp_servers", everything),
        (".gemini/settings.json", "mcpServers", files.clone()),
        (".copilot/mcp-config.json", "mcpServers", files),
    ]
}

fn server(home: &Home, name: &str) -> ServerConfig {
    server_in(home, SERVERS, name)
}

fn server_in(home: &Home, file: &str, name: &str) -> ServerConfig {
    let config = loaded(&home.file(file));
    let (_, server) = config.servers.iter().find(|(known, _)| known.as_str() == name).unwrap();
    let server = server.as_ref().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(server.secrets, Default::default(), "nothing is fetched for {name}");
    (**server).clone()
}

#[test]
fn what_no_client_expands_is_text_after_an_import_and_each_gets_its_bytes_back() {
    let home = Home::empty();
    for (number, (file, key, text)) in clients().into_iter().enumerate() {
        let name = format!("s{number}");
        let content = match file.ends_with("toml") {
            true => format!(
                "[{key}.{name}]\ncommand = 'x{number}'\nargs = ['{text}']\nenv = {{ V = '{text}' }}\n"
            ),
            false if key == "mcp" => {
                let entry = json!({"command": [format!("x{number}"), text], "environment": {"V": text}});
                json!({ key: { name: entry } }).to_string()
            }
            false => {
                let entry = json!({"command": format!("x{number}"), "args": [text], "env": {"V": text}});
                json!({ key: { name: entry } }).to_string()
            }
        };
        fs::create_dir_all(home.file(file).parent().unwrap()).unwrap();
        fs::write(home.file(file), content).unwrap();
    }
    let before = home.client_files();
    home.imported(&["--yes", "--write-client"]);
    for (number, (file, _, text)) in clients().into_iter().enumerate() {
        let Endpoint::Stdio(stdio) = server(&home, &format!("s{number}")).endpoint else { panic!("{file}") };
        assert_eq!((&stdio.args, &stdio.env["V"]), (&vec![text.clone()], &text), "{file}");
    }
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.client_files(), before);
    // What was imported is the same for the next import.
    let written = home.text(SERVERS);
    assert!(home.imported(&["--yes"]).contains("There are no new servers"), "{written}");
    assert_eq!(home.text(SERVERS), written);
}

#[cfg(unix)]
#[test]
fn a_repositorys_file_runs_no_command_and_reads_no_file_through_an_import() {
    let home = Home::empty();
    let mark = home.file("mark");
    fs::create_dir_all(home.file(".ssh")).unwrap();
    fs::write(home.file(".ssh/id"), "pr1v4te").unwrap();
    let command = format!("{{command:touch {}}}", mark.display());
    let mut local = scripted_upstream(&[]);
    local["env"] = json!({"A": command, "B": "{file:~/.ssh/id}", "C": "{keyring:github}"});
    let remote = json!({
        "url": "http://127.0.0.1:9/mcp",
        "headers": {"X-Key": "{file:~/.ssh/id}", "X-Run": command},
        "auth": {"CLIENT_ID": "x", "CLIENT_SECRET": command},
    });
    fs::create_dir_all(home.file("app/.cursor")).unwrap();
    let file = json!({"mcpServers": {"local": local, "remote": remote}});
    fs::write(home.file("app/.cursor/mcp.json"), file.to_string()).unwrap();
    home.imported(&["cursor", "--yes", "--write-client", "--project=app"]);
    let Endpoint::Stdio(stdio) = server_in(&home, PROJECT, "local").endpoint else {
        panic!("local is remote")
    };
    assert_eq!([&stdio.env["A"], &stdio.env["B"]], [&command, "{file:~/.ssh/id}"]);
    let Endpoint::Http(http) = server_in(&home, PROJECT, "remote").endpoint else {
        panic!("remote is local")
    };
    let headers: Vec<_> = http.headers.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(headers, ["{file:~/.ssh/id}", &command]);
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
    let check = check
        .args(["check", "--config"])
        .arg(home.file(PROJECT))
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path());
    let checked = check.output().unwrap();
    assert!(stdout(&checked).contains("local"), "{checked:?}");
    assert!(!mark.exists() && !stdout(&checked).contains("runs a command"), "{checked:?}");
}

#[test]
fn a_projects_opencode_file_brings_no_file_from_elsewhere() {
    let home = Home::empty();
    fs::create_dir_all(home.file("app/.opencode")).unwrap();
    for (name, text) in [("key", "k3y"), ("app/key", "own")] {
        fs::write(home.file(name), text).unwrap();
    }
    let entry = |path: &str| json!({"type": "remote", "url": "https://example.com", "headers": {"X": format!("{{file:{path}}}")}});
    let outside = home.file("key");
    let servers: Value = json!({
        "own": entry("key"), "home": entry("~/key"), "above": entry("../key"), "absolute": entry(outside.to_str().unwrap()),
    });
    fs::write(home.file("app/opencode.json"), json!({"mcp": servers}).to_string()).unwrap();
    let printed = home.imported(&["opencode", "--yes", "--write-client", "--project=app"]);
    assert_eq!(printed.matches("is not in the directory of the project").count(), 3, "{printed}");
    let names: Vec<_> = home.json(PROJECT)["mcpServers"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["own"]);
    let Endpoint::Http(http) = server_in(&home, PROJECT, "own").endpoint else { panic!("own is local") };
    assert_eq!(http.headers[0].1, "own");
}
