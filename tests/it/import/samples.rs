//! Small files made after published ones, of every client: what becomes of each server in them.
//!
//! `expected.tsv` was written from the clients' documentation and source, not from this program: each file with its servers,
//! and what may become of each (`|` for "or"). A fourth column says where this program does something else, and why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Home, copy, fixtures, stderr, stdout};

/// The user's file of each client.
const USER_FILES: [(&str, &str); 24] = [
    ("amazon-q", ".aws/amazonq/mcp.json"),
    ("amp", ".config/amp/settings.json"),
    ("antigravity", ".gemini/config/mcp_config.json"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    ("cline", ".cline/data/settings/cline_mcp_settings.json"),
    ("codex", ".codex/config.toml"),
    ("continue", ".continue/mcpServers/sample.yaml"),
    ("copilot", ".copilot/mcp-config.json"),
    ("crush", ".config/crush/crush.json"),
    ("cursor", ".cursor/mcp.json"),
    ("droid", ".factory/mcp.json"),
    ("gemini", ".gemini/settings.json"),
    ("goose", ".config/goose/config.yaml"),
    ("junie", ".junie/mcp/mcp.json"),
    ("kilocode", ".config/Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json"),
    ("kiro", ".kiro/settings/mcp.json"),
    ("lm-studio", ".lmstudio/mcp.json"),
    ("opencode", ".config/opencode/opencode.jsonc"),
    ("qwen", ".qwen/settings.json"),
    ("roo", ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
    ("trae", ".config/Trae/User/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
    ("zed", ".config/zed/settings.json"),
];

/// A home directory with a sample where its client looks for it. Those of Claude Code are directories of a project, or of the
/// user.
fn home_with(sample: &str) -> (Home, Vec<String>) {
    let (id, name) = sample.split_once('/').unwrap();
    let mut args = vec![id.to_owned(), "--yes".to_owned()];
    let home = Home::empty();
    match USER_FILES.iter().find(|(known, _)| *known == id) {
        Some((_, path)) => {
            fs::create_dir_all(home.file(path).parent().unwrap()).unwrap();
            fs::copy(fixtures("samples").join(sample), home.file(path)).unwrap();
        }
        None => {
            let dir = fixtures("samples").join(id).join(name.split('/').next().unwrap());
            let is_users = dir.join(".claude.json").exists();
            copy(&dir, &if is_users { home.path().to_owned() } else { home.path().join("app") });
            args.extend(["--project=app", "--write-client"].map(str::to_owned));
        }
    }
    (home, args)
}

/// The servers of our config files.
fn servers(home: &Home) -> Map<String, Value> {
    let files = ["servers.json", "projects/app.json"].map(|name| format!(".config/dynamic-mcp/{name}"));
    let texts = files.iter().filter_map(|file| fs::read_to_string(home.file(file)).ok());
    let read = |text: String| serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].take();
    texts.flat_map(|text| read(text).as_object().cloned().unwrap_or_default()).collect()
}

fn outcome(name: &str, servers: &Map<String, Value>, printed: &str) -> &'static str {
    let shown = [name.to_owned(), serde_json::to_string(name).unwrap()];
    let says = |text: &dyn Fn(&str) -> String| shown.iter().any(|name| printed.contains(&text(name)));
    match servers.get(name) {
        Some(server) if server["enabled"] == false => "off",
        Some(_) => "imported",
        None if says(&|name| format!("{name} stays there: ")) => "stays",
        None if says(&|name| format!("(as {name})")) => "imported",
        None if printed.contains("the file is left as it is") => "stays",
        None => "none",
    }
}

#[test]
fn every_server_of_published_files_becomes_what_its_client_means() {
    let index = fs::read_to_string(fixtures("samples").join("expected.tsv")).unwrap();
    let mut samples: BTreeMap<&str, Vec<[&str; 3]>> = BTreeMap::new();
    for line in index.lines().filter(|line| !line.starts_with('#')) {
        let [file, server, expected, ours] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        samples.entry(file).or_default().push([server, expected, ours]);
    }
    assert!(samples.len() >= 120, "{}", samples.len());
    let mut wrong = Vec::new();
    for (file, rows) in samples {
        let (home, args) = home_with(file);
        let output = home.import(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let printed = stdout(&output) + &stderr(&output);
        assert!(matches!(output.status.code(), Some(0 | 78)), "{file}: {printed}");
        let servers = servers(&home);
        for [server, expected, ours] in rows {
            let found = outcome(server, &servers, &printed);
            // What we do otherwise begins with what that is.
            let expected = ours.split(':').next().filter(|ours| !ours.is_empty()).unwrap_or(expected);
            if !expected.split('|').any(|expected| expected == found) {
                wrong.push(format!("{file}: {server}: {found}, and not {expected}\n{printed}"));
            }
        }
        // Nothing of it is lost: it comes back byte for byte.
        if args.iter().any(|arg| arg == "--write-client") {
            home.imported(&["--undo", "--yes"]);
            let dir = fixtures("samples").join(Path::new(file).parent().unwrap());
            let back = home.client_files().into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
            super::walk(&dir, &mut |path| {
                assert!(back.contains(&fs::read(path).unwrap()), "{file}: {path:?}");
            });
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
