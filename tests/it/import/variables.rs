//! The variables that servers need arrive where they are started.

use serde_json::{Value, json};

use super::{Home, loaded};
use config::Endpoint;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";

#[test]
fn every_clients_entry_passes_on_what_the_servers_that_it_sees_need() {
    let own = json!({
        "command": "own", "args": ["--key=${OWN_KEY}"], "env": {"A": "x${OWN_TOKEN:-y}", "HOME": "${HOME}"},
        "inherit_env": ["OWN_INHERITED"]
    });
    let fs = |entry: Value| json!({"mcpServers": {"fs": entry}});
    let home = Home::of(&[
        (SERVERS, json!({"mcpServers": {"own": own}})),
        (".config/Claude/claude_desktop_config.json", fs(json!({"command": "fs"}))),
        (".cursor/mcp.json", fs(json!({"command": "fs"}))),
        (".gemini/settings.json", fs(json!({"command": "fs"}))),
        (".copilot/mcp-config.json", fs(json!({"command": "fs"}))),
    ]);
    home.write(".codex/config.toml", "[mcp_servers.fs]\ncommand = 'fs'\n");
    let printed = home.imported(&["--yes", "--write-client"]);
    let env = |file: &str| home.json(file)["mcpServers"]["dyn"]["env"].clone();
    let names = ["OWN_INHERITED", "OWN_KEY", "OWN_TOKEN"];
    for (file, before) in
        [(".cursor/mcp.json", "${env:"), (".gemini/settings.json", "${"), (".copilot/mcp-config.json", "${")]
    {
        let variable = |name: &&str| ((*name).to_owned(), json!(format!("{before}{name}}}")));
        assert_eq!(env(file), Value::Object(names.iter().map(variable).collect()), "{file}");
    }
    let codex = home.text(".codex/config.toml");
    assert!(codex.contains(r#"env_vars = ["OWN_INHERITED", "OWN_KEY", "OWN_TOKEN"]"#), "{codex}");
    assert!(
        printed.contains(
            "Claude Desktop passes on no variables, and its servers need OWN_INHERITED, OWN_KEY, OWN_TOKEN: "
        ),
        "{printed}"
    );
}

#[test]
fn a_variable_that_is_not_set_is_what_the_client_makes_of_it() {
    let home = Home::of(&[
        (
            ".config/opencode/opencode.json",
            json!({"mcp": {"a": {"type": "local", "command": ["a"], "environment": {"K": "x{env:NOT_SET}"}}}}),
        ),
        (
            ".config/Code/User/mcp.json",
            json!({"servers": {"b": {"command": "b", "env": {"K": "${env:NOT_SET}"}}}}),
        ),
    ]);
    home.imported(&["--yes"]);
    let config = loaded(&home.file(SERVERS));
    let values = config.servers.iter().map(|(name, server)| {
        let server = server.as_ref().unwrap_or_else(|error| panic!("{name}: {error}"));
        let Endpoint::Stdio(stdio) = &server.endpoint else { panic!("{name} is remote") };
        stdio.env["K"].clone()
    });
    assert_eq!(values.collect::<Vec<_>>(), ["x", ""]);
    assert!(home.imported(&["--yes"]).contains("There are no new servers"));
}

#[test]
fn the_directory_of_the_project_is_filled_in() {
    let server = json!({
        "command": "${workspaceFolder}/bin/mcp", "args": ["${workspaceFolderBasename}"], "env": {"F": "${file}"}
    });
    let home = Home::of(&[
        ("app/.vscode/mcp.json", json!({"servers": {"vs": server}})),
        (
            "app/.cursor/mcp.json",
            json!({"mcpServers": {"cu": {"command": "x", "args": ["${workspaceFolder}"]}}}),
        ),
    ]);
    home.imported(&["--yes", "--write-client", "--project=app"]);
    let servers = home.json(".config/dynamic-mcp/projects/app.json")["mcpServers"].take();
    let app = home.path().canonicalize().unwrap().join("app");
    // Windows resolves it to a form that import does not write.
    let app = app.to_str().unwrap().trim_start_matches(r"\\?\").to_owned();
    assert_eq!(servers["vs"]["command"], format!("{app}/bin/mcp"));
    assert_eq!(servers["vs"]["args"], json!(["app"]));
    assert!(servers["vs"]["env"]["F"].as_str().unwrap().starts_with("${DYN_FILE_"), "{servers}");
    assert_eq!(servers["cu"]["args"], json!([app]));
}

#[test]
fn what_is_malformed_is_named_and_stays() {
    let servers = json!({
        "good": {"command": "x"},
        "k5": "str",
        "a": {"command": "a", "args": "oops"},
        "b": {"command": "b", "excludeTools": "delete"},
        "off": {"command": "x", "disabled": "true"},
        "": {"command": "x"},
        "dynamic-mcp": {"command": "x"},
        "program": {"command": ""},
        "empty": {"url": ""},
        "files": {"url": "ftp://example.com/mcp"},
    });
    let home = Home::of(&[
        (".cursor/mcp.json", json!({ "mcpServers": servers })),
        (".copilot/mcp-config.json", json!({"mcpServers": ["x"]})),
    ]);
    let printed = home.imported(&["--write-client", "--yes"]);
    for line in [
        "k5 stays there: expected an object, found a string",
        "a stays there: `args`: expected a list, found a string",
        "b stays there: `excludeTools`: expected a list, found a string",
        "off stays there: `disabled`: expected true or false, found a string",
        "mcpServers stays there: expected an object, found a list",
        "\"\" stays there: the server's name is empty",
        "dynamic-mcp stays there: the name `dynamic-mcp` is reserved for dynamic-mcp itself",
        "program stays there: `command` is empty",
        "empty stays there: it has neither `command` nor `url`",
        "files stays there: `url`: expected an address",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert_eq!(home.servers(), json!({"good": {"command": "x"}}));
    let after = &home.json(".cursor/mcp.json")["mcpServers"];
    for name in ["k5", "a", "b", "off", "", "dynamic-mcp", "program", "empty", "files"] {
        assert_eq!(after[name], servers[name], "{name}");
    }
}
