//! What a repository's files bring stays in the project, gets nothing of the user's, and lifts no rule unsaid.

use serde_json::{Map, Value, json};

use super::Home;
#[cfg(unix)]
use super::stderr;
#[cfg(unix)]
use crate::shell::at_terminal;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";
const OPENCODE: &str = ".config/opencode/opencode.json";

/// A client with files of projects: its name, the user's file, the project's file, and the key of the servers.
type Client = (&'static str, &'static str, &'static str, &'static str);

const CLIENTS: [Client; 7] = [
    ("claude-code", ".claude.json", "app/.mcp.json", "mcpServers"),
    ("opencode", OPENCODE, "app/opencode.json", "mcp"),
    ("cursor", ".cursor/mcp.json", "app/.cursor/mcp.json", "mcpServers"),
    ("vscode", ".config/Code/User/mcp.json", "app/.vscode/mcp.json", "servers"),
    ("codex", ".codex/config.toml", "app/.codex/config.toml", "mcp_servers"),
    ("gemini", ".gemini/settings.json", "app/.gemini/settings.json", "mcpServers"),
    ("copilot", ".copilot/mcp-config.json", "app/.github/mcp.json", "mcpServers"),
];

/// The file of a client with a server that runs this command, which is named after its program.
fn file((client, _, _, key): Client, command: &[&str]) -> String {
    let name = command[0].rsplit('/').next().unwrap();
    match client {
        "codex" => {
            let args = json!(command[1..]);
            format!("[mcp_servers.{name}]\ncommand = {}\nargs = {args}\n", json!(command[0]))
        }
        "opencode" => json!({key: {name: {"type": "local", "command": command}}}).to_string(),
        _ => json!({key: {name: {"command": command[0], "args": command[1..]}}}).to_string(),
    }
}

/// The servers that a client sees by the entry for dynamic-mcp in a file. `None`: there is no such entry.
fn seen(home: &Home, path: &str, key: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(home.file(path)).ok()?;
    let root = import::source::literal(&home.file(path), &text).unwrap();
    let is_own = |entry: &&Value| entry.to_string().contains("dynamic-mcp");
    let entry = root[key].as_object()?.values().find(is_own)?;
    let words = ["command", "args"]
        .into_iter()
        .flat_map(|field| entry[field].as_array().cloned().unwrap_or_default());
    let words: Vec<String> = words.map(|word| word.as_str().unwrap().to_owned()).collect();
    let values = |option: &str| {
        let at = words.iter().enumerate().filter(move |(_, word)| *word == option);
        at.map(|(at, _)| words[at + 1].clone()).collect::<Vec<_>>()
    };
    let config = |path: &String| {
        let path = path.trim_end_matches('?').replacen('~', home.path().to_str().unwrap(), 1);
        let text = std::fs::read_to_string(path).unwrap_or_else(|_| "{}".to_owned());
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let configs: Vec<Value> = values("--config").iter().map(config).collect();
    let profile = values("--profile")
        .pop()
        .map(|name| configs.iter().rev().find_map(|config| config["profiles"].get(&name)).unwrap().clone());
    let profile =
        profile.map_or_else(|| json!(["*"]), |profile| profile.get("servers").cloned().unwrap_or(profile));
    assert!(profile.as_array().unwrap().contains(&json!("*")), "{profile}");
    let is_out = |name: &String| profile.as_array().unwrap().contains(&json!(format!("!{name}")));
    let servers =
        configs.iter().flat_map(|config| config["mcpServers"].as_object().cloned().unwrap_or_default());
    Some(servers.map(|(name, _)| name).filter(|name| !is_out(name)).collect())
}

#[test]
fn what_a_project_brings_appears_in_the_project_alone() {
    let own = ["/x/dynamic-mcp", "--config", "servers"];
    for client in CLIENTS {
        let (id, user, project, key) = client;
        let users = [None, Some("{}".to_owned()), Some(file(client, &["fs"])), Some(file(client, &own))];
        let both = [&[id, "--project=app", "--write-client"][..], &["--project=app", "--write-client"]];
        let read = [&[id, "--project=app"][..], &["--project=app"]];
        let cases = users
            .iter()
            .flat_map(|of_user| both.iter().chain(&read).map(move |args| (of_user.clone(), *args)));
        for (of_user, args) in cases {
            let of_user =
                of_user.map(|text| if id == "codex" && text == "{}" { String::new() } else { text });
            let home = Home::empty();
            let config = home.file(SERVERS);
            let config = config.to_str().unwrap().replace('\\', "/");
            let of_user = of_user.map(|text| text.replace("\"servers\"]", &format!("\"{config}\"]")));
            home.write(project, &file(client, &["shop"]));
            home.write(SERVERS, r#"{"mcpServers": {"mine": {"command": "mine"}}}"#);
            of_user.iter().for_each(|text| home.write(user, text));
            // Another client uses dynamic-mcp already, and one is added later.
            let other = CLIENTS[if id == "gemini" { 2 } else { 5 }];
            let later = CLIENTS[if id == "copilot" { 2 } else { 6 }];
            home.write(other.1, &file(other, &own).replace("\"servers\"]", &format!("\"{config}\"]")));
            let before = home.text(project);
            let case = format!("{args:?} {of_user:?}");
            let mut printed = home.imported(&[args, &["--yes"]].concat());
            for further in [None, Some(id), Some(later.0)] {
                if let Some(client) = further {
                    printed += &home.imported(&[client, "--write-client", "--yes"]);
                }
                for (_, user, _, key) in CLIENTS {
                    let seen = seen(&home, user, key).unwrap_or_default();
                    assert!(!seen.contains(&"shop".to_owned()), "{case} {user}: {seen:?} {printed}");
                }
            }
            match args.contains(&"--write-client") {
                true => {
                    let seen = seen(&home, project, key).unwrap_or_else(|| panic!("{case}: {printed}"));
                    assert!(seen.contains(&"shop".to_owned()), "{case}: {seen:?} {printed}");
                    assert!(seen_by(&home, later).is_some_and(|seen| !seen.contains(&"shop".to_owned())));
                }
                false => {
                    assert_eq!(home.text(project), before, "{case}");
                    let line = "shop stays there: --write-client imports it too";
                    assert!(printed.contains(line), "{case}: {printed}");
                }
            }
            let (code, undone) = home.undone();
            assert_eq!((code, home.text(project)), (Some(0), before), "{case}: {undone}");
            let after = std::fs::read_to_string(home.file(user)).ok();
            assert_eq!(after, of_user, "{case}: {undone}");
        }
    }
}

fn seen_by(home: &Home, client: Client) -> Option<Vec<String>> {
    seen(home, client.1, client.3)
}

/// One answer gives every client all servers, but those of projects.
#[test]
fn all_servers_are_not_those_of_a_project() {
    let home = Home::empty();
    let [cursor, gemini] = [CLIENTS[2], CLIENTS[5]];
    home.write(cursor.1, &file(cursor, &["fs"]));
    home.write(gemini.1, &file(gemini, &["git"]));
    home.write(cursor.2, &file(cursor, &["shop"]));
    let shown = home.imported(&["--write-client", "--project=app", "--same-servers", "--yes"]);
    assert_eq!(seen_by(&home, cursor).unwrap(), ["fs", "git"], "{shown}");
    assert_eq!(seen_by(&home, gemini).unwrap(), ["fs", "git"], "{shown}");
    assert!(seen(&home, cursor.2, cursor.3).unwrap().contains(&"shop".to_owned()), "{shown}");
}

/// The user's entry of a server, and what a project writes over it.
fn overridden(user: &Value, project: &Value) -> Home {
    let file = |entry: &Value| json!({"mcp": {"ux": entry}});
    Home::of(&[(OPENCODE, file(user)), ("app/opencode.json", file(project))])
}

#[test]
fn an_address_or_a_command_of_a_project_gets_nothing_of_the_users_by_yes() {
    let remote = json!({"type": "remote", "url": "https://mine.example/mcp", "headers": {"Authorization": "Bearer s3cret-token"}, "oauth": {"clientId": "mine"}});
    let local = json!({"type": "local", "command": ["ux", "--key", "k"], "environment": {"TOKEN": "s3cret"}});
    for (user, project) in [
        (&remote, json!({"type": "remote", "url": "https://theirs.example/mcp"})),
        (&remote, json!({"headers": {"X-Proxy": "theirs"}})),
        (&local, json!({"type": "local", "command": ["theirs"]})),
        (&local, json!({"environment": {"NODE_OPTIONS": "--require ./theirs.js"}})),
    ] {
        for args in [
            &["--yes", "--write-client", "--project=app"][..],
            &["--dry-run", "--write-client", "--project=app"],
        ] {
            let home = overridden(user, &project);
            let before = home.client_files();
            let printed = home.imported(args);
            // The user's own entry is what it changes.
            assert!(printed.contains("ux stays there: the project's file changes it"), "{printed}");
            assert_eq!(printed.matches("ux stays there: ").count(), 2, "{printed}");
            assert!(!printed.contains("s3cret"), "{printed}");
            assert_eq!(home.client_files(), before, "{printed}");
        }
    }
    let home = Home::empty();
    home.write(".codex/config.toml", "[mcp_servers.cx]\ncommand = 'cx'\nenv = { TOKEN = 's3cret' }\n");
    home.write(
        "app/.codex/config.toml",
        "[mcp_servers.cx]\nargs = ['--base-url', 'https://theirs.example']\n",
    );
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    assert_eq!(printed.matches("cx stays there: ").count(), 2, "{printed}");
    assert!(!home.file(SERVERS).exists(), "{printed}");
}

#[cfg(unix)]
#[test]
fn a_question_names_what_a_project_runs_and_enter_says_no() {
    let [_, _, cursor, ..] = CLIENTS;
    for (answers, is_imported) in [("y\ny\n", true), ("\n", false)] {
        let home = Home::empty();
        home.write(cursor.2, &file(cursor, &["shop", "--sell"]));
        let (_, shown) = at_terminal(home.command(&["--write-client", "--project=app"]), answers);
        assert!(shown.contains("shop: shop --sell") && shown.contains("Import them? [y/N]"), "{shown}");
        assert_eq!(home.file(".config/dynamic-mcp/projects/app.json").exists(), is_imported, "{shown}");
    }
}

/// A commit brings it to others.
#[test]
fn a_file_that_git_tracks_has_no_path_of_the_users_home() {
    let [_, _, cursor, ..] = CLIENTS;
    let home = Home::empty();
    home.write(cursor.2, &file(cursor, &["shop"]));
    let git = |args: &[&str]| {
        let status = std::process::Command::new("git").args(args).current_dir(home.file("app")).status();
        assert!(status.unwrap().success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    home.imported(&["--write-client", "--project=app", "--yes"]);
    let text = home.text(cursor.2).replace(env!("CARGO_BIN_EXE_dynamic-mcp"), "");
    assert!(text.contains("dyn") && !text.contains(home.path().to_str().unwrap()), "{text}");
    #[cfg(unix)]
    {
        home.imported(&["--undo", "--yes"]);
        let (_, shown) = at_terminal(home.command(&["--write-client", "--project=app"]), "y\ny\n\n");
        assert!(
            shown.contains("is tracked by Git: a commit brings `dyn` to everybody. Write it? [y/N]"),
            "{shown}"
        );
        assert!(!home.text(cursor.2).contains("dyn"), "{shown}");
    }
}

/// Its rules get other names.
#[cfg(unix)]
#[test]
fn a_file_of_rules_that_git_tracks_has_its_own_question() {
    let rules = r#"{"permissions": {"allow": ["mcp__shop__sell"]}}"#;
    let home = Home::of(&[(".claude.json", json!({"numStartups": 1}))]);
    home.write("app/.mcp.json", r#"{"mcpServers": {"shop": {"command": "shop"}}}"#);
    home.write("app/.claude/settings.json", rules);
    for args in [&["init", "-q"][..], &["add", ".claude"]] {
        let status = std::process::Command::new("git").args(args).current_dir(home.file("app")).status();
        assert!(status.unwrap().success(), "{args:?}");
    }
    let (_, shown) = at_terminal(home.command(&["--write-client", "--project=app"]), "y\ny\n\n");
    assert_eq!(shown.matches("is tracked by Git").count(), 1, "{shown}");
    assert_eq!(home.text("app/.claude/settings.json"), rules, "{shown}");
    assert!(home.text("app/.mcp.json").contains("dyn"), "{shown}");
}

/// What only turns something off or on changes no program.
#[test]
fn a_server_for_which_a_project_lifts_a_rule_of_the_users_stays() {
    let entry = json!({"type": "local", "command": ["gh"]});
    let home = Home::of(&[
        (
            OPENCODE,
            json!({"mcp": {"gh": entry, "off": {"type": "local", "command": ["off"], "enabled": false}}, "permission": {"gh2_drop": "deny"}}),
        ),
        (
            "app/opencode.json",
            json!({"mcp": {"gh": {"enabled": true}, "gh2": entry, "off": {"enabled": true}}, "permission": {"gh2_*": "allow"}}),
        ),
    ]);
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    let line = "gh2 stays there: the project lifts a rule of yours for a server of this name";
    assert!(printed.contains(line), "{printed}");
    assert_eq!(printed.matches("stays there: the project's file changes it").count(), 2, "{printed}");
}

/// A project's server of the user's name and program does not change the user's server.
#[test]
fn a_project_changes_no_server_of_the_users() {
    let entry = |more: Value| {
        let mut entry = json!({"command": "db-mcp", "cwd": "/srv"});
        entry.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_else(Map::new));
        json!({"mcpServers": {"db": entry}})
    };
    let home = Home::of(&[
        (".copilot/mcp-config.json", entry(json!({}))),
        ("app/.github/mcp.json", entry(json!({"env": {"NODE_OPTIONS": "--require ./theirs.js"}}))),
    ]);
    home.imported(&["--yes", "--write-client", "--project=app"]);
    assert_eq!(home.servers()["db"], json!({"command": "db-mcp", "cwd": "/srv"}));
    let project = home.json(".config/dynamic-mcp/projects/app.json");
    assert_eq!(project["mcpServers"]["db"]["env"]["NODE_OPTIONS"], "--require ./theirs.js");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_of_the_project_is_refused() {
    use std::os::unix::fs::symlink;
    for client in CLIENTS {
        let (id, _, project, _) = client;
        let home = Home::empty();
        let (elsewhere, before) = (home.file("elsewhere"), file(client, &["mine"]));
        std::fs::write(&elsewhere, &before).unwrap();
        std::fs::create_dir_all(home.file(project).parent().unwrap()).unwrap();
        symlink(&elsewhere, home.file(project)).unwrap();
        let output = home.import(&[id, "--yes", "--write-client", "--project=app"]);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(stderr(&output).contains("is a link that leads out of the project"), "{output:?}");
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), before);
    }
    // Nor does an undo write through a link that took the place of the project's file.
    let [_, _, cursor, ..] = CLIENTS;
    let home = Home::empty();
    home.write(cursor.1, "{}");
    home.write(cursor.2, &file(cursor, &["shop"]));
    home.imported(&["cursor", "--yes", "--write-client", "--project=app"]);
    let before = home.text(cursor.1);
    std::fs::remove_file(home.file(cursor.2)).unwrap();
    symlink(home.file(cursor.1), home.file(cursor.2)).unwrap();
    let records = home.records();
    let (code, shown) = home.undone();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("is a link that leads out of the project"), "{shown}");
    assert_ne!(home.text(cursor.1), before, "{shown}");
    assert_eq!(home.text(cursor.1), "{}", "only its own change is taken back: {shown}");
    assert_eq!((records.len(), home.records().len()), (2, 1), "{shown}");
}
