//! The status page in Chromium, in a host of MCP Apps and as a file: `status_page.mjs`; and set-up on it:
//! `status_page_setup.mjs`.
//!
//! The pictures of the page in `docs` are made here if `UPDATE_PICTURES` is set. With `KEEP_PICTURES=DIR`, pictures of
//! all widths and themes are in that directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::broken_servers;
use crate::workspace::{Workspace, parse_report, path_string, skip};

/// The largest picture, in bytes.
const MAX_PICTURE: u64 = 150_000;

/// Returns Chromium. `None`, with a message, if it is not installed.
fn find_chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    let chromium = found.into_iter().find(|file| file.exists());
    if chromium.is_none() {
        skip("install Chromium first");
    }
    chromium
}

/// The config of the instances: servers that work, of which one is shared, and servers that fail for several reasons.
fn servers(workspace: &Workspace, files: &Path) -> Value {
    let node = path_string(&workspace.install_dir.join("bin/node"));
    let package = |name: &str| {
        path_string(
            &workspace.install_dir.join(format!("node_modules/@modelcontextprotocol/{name}/dist/index.js")),
        )
    };
    let failing = "echo 'FATAL: password authentication failed for user \"app\"' >&2; exit 1";
    json!({
        "files": { "command": node, "args": [package("server-filesystem"), files], "share": "user" },
        "everything": { "command": node, "args": [package("server-everything")] },
        "postgres": { "command": "sh", "args": ["-c", failing], "env": { "PGPASSWORD": "hunter2" } },
        "github": { "command": "github-mcp-server", "args": ["stdio"] },
        "linear": { "url": format!("http://127.0.0.1:{}/mcp", broken_servers::start_login_server()) },
        "tickets": { "command": node, "args": [package("server-everything")], "lazy_startup": "pure" },
    })
}

/// Adds a server that is named like markup and that fails with markup.
fn with_hostile_server(mut servers: Value) -> Value {
    let failing = "echo '</script><script>pwned=1</script>' >&2; exit 1";
    servers["<img src=x onerror=alert(1)>"] = json!({ "command": "sh", "args": ["-c", failing] });
    servers
}

#[test]
fn the_status_page_in_a_browser() {
    let (Some(workspace), Some(browser)) = (Workspace::new(), find_chromium()) else { return };
    let files = workspace.write("files/notes.txt", "one\n");
    let files = files.parent().unwrap();
    let servers = servers(&workspace, files);
    let broken = workspace
        .write("broken.json", &json!({ "mcpServers": with_hostile_server(servers.clone()) }).to_string());
    let config = json!({ "mcpServers": servers }).to_string();
    let config = workspace.write(".config/dynamic-mcp/servers.json", &config);
    let mut directories = serde_json::Map::new();
    for (client, directory) in [("claude", "work/shop"), ("code", "work/shop"), ("goose", "work/notes")] {
        let script =
            workspace.write(&format!("scripts/{client}"), "#!/bin/sh\nPATH=/usr/bin:/bin\n\"$@\"\nexit\n");
        fs::set_permissions(script, fs::Permissions::from_mode(0o700)).unwrap();
        let directory = workspace.path(directory);
        fs::create_dir_all(&directory).unwrap();
        directories.insert(client.to_owned(), json!(directory));
    }
    let runtime = workspace.path("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let made = workspace.path("pictures");
    fs::create_dir(&made).unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let pictures = if std::env::var_os("UPDATE_PICTURES").is_some() { docs } else { made };
    let looks = std::env::var_os("KEEP_PICTURES").map(PathBuf::from);
    let plan = json!({
        "program": env!("CARGO_BIN_EXE_dynamic-mcp"), "config": config, "browser": browser, "scripts": workspace.path("scripts"),
        "directories": directories, "files": files, "broken": broken, "pictures": pictures, "looks": looks,
    });
    let plan = workspace.write("plan.json", &plan.to_string());
    let mut program = workspace.command(workspace.install_dir.join("bin/node"));
    program.args([workspace.path("status_page.mjs"), plan]).env("XDG_RUNTIME_DIR", &runtime);
    let report = parse_report(&workspace.run(program));
    for (theme, size) in report["sizes"].as_object().unwrap() {
        assert!(size.as_u64().unwrap() <= MAX_PICTURE, "{theme}: {size} bytes");
    }
    workspace.assert_no_process_left();
}

#[test]
fn a_new_user_sets_up_on_the_page() {
    let (Some(workspace), Some(browser)) = (Workspace::new(), find_chromium()) else { return };
    let node = path_string(&workspace.install_dir.join("bin/node"));
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let entry = json!({ "command": node, "args": [path_string(&workspace.install_dir.join(package))] });
    let text = format!("{{\n  // mine\n  \"mcpServers\": {{\"everything\": {entry}}}\n}}\n");
    let file = workspace.write(".cursor/mcp.json", &text);
    let plan = json!({ "program": env!("CARGO_BIN_EXE_dynamic-mcp"), "browser": browser, "file": file });
    let plan = workspace.write("plan.json", &plan.to_string());
    let mut program = workspace.command(workspace.install_dir.join("bin/node"));
    program.args([workspace.path("status_page_setup.mjs"), plan]);
    let report = parse_report(&workspace.run(program));
    assert_eq!(report["actions"].as_array().map(Vec::len), Some(6));
    workspace.assert_no_process_left();
}
