//! Servers of one name that are of different accounts stay apart.

use serde_json::{Value, json};

use super::Home;

const WORK: &str = "ghp_workworkworkworkworkworkwork12WORK";
const PRIVATE: &str = "ghp_privateprivateprivateprivate12PRIV";

/// GitHub's server as its documentation has it, with a token.
fn github(token: &str) -> Value {
    json!({
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-github"],
        "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": token, "LOG_LEVEL": "info"}
    })
}

fn two_accounts() -> Home {
    let mut slow = github(WORK);
    slow["env"]["LOG_LEVEL"] = json!("debug");
    Home::of(&[
        (".config/Claude/claude_desktop_config.json", json!({"mcpServers": {"github": github(WORK)}})),
        (".cursor/mcp.json", json!({"mcpServers": {"github": github(PRIVATE)}})),
        (".gemini/settings.json", json!({"mcpServers": {"github": slow}})),
    ])
}

fn tokens(home: &Home) -> Vec<(String, Value)> {
    let servers = home.servers();
    let token = |(name, entry): (&String, &Value)| {
        (name.clone(), entry["env"]["GITHUB_PERSONAL_ACCESS_TOKEN"].clone())
    };
    servers.as_object().unwrap().iter().map(token).collect()
}

#[test]
fn two_tokens_are_two_servers_also_with_yes_and_the_next_import_finds_both() {
    let home = two_accounts();
    let printed = home.imported(&["--yes", "--details"]);
    let expected = [("github".to_owned(), json!(WORK)), ("github-cursor".to_owned(), json!(PRIVATE))];
    assert_eq!(tokens(&home), expected);
    // What else differs is merged as it was: the first client counts.
    assert_eq!(home.servers()["github"]["env"]["LOG_LEVEL"], "info");
    assert!(
        printed.contains(
            "kept apart from github: env.GITHUB_PERSONAL_ACCESS_TOKEN is …PRIV here, and …WORK there"
        ),
        "{printed}"
    );
    assert!(!printed.contains("workwork") && !printed.contains("privateprivate"), "{printed}");
    let before = home.text(".config/dynamic-mcp/servers.json");
    assert!(home.imported(&["--yes"]).contains("There are no new servers"));
    assert_eq!(home.text(".config/dynamic-mcp/servers.json"), before);
}

#[test]
fn a_client_whose_account_is_not_the_one_of_servers_json_keeps_its_own() {
    let home = Home::of(&[
        (".config/dynamic-mcp/servers.json", json!({"mcpServers": {"github": github(WORK)}})),
        (".cursor/mcp.json", json!({"mcpServers": {"github": github(PRIVATE)}})),
    ]);
    for _ in 0..2 {
        home.imported(&["--yes"]);
        let expected = [("github".to_owned(), json!(WORK)), ("github-cursor".to_owned(), json!(PRIVATE))];
        assert_eq!(tokens(&home), expected);
    }
}

#[test]
fn a_header_the_name_of_an_account_and_the_url_are_of_an_account_too_and_short_secrets_are_not_shown() {
    let remote = |headers: Value, url: &str| json!({"type": "http", "url": url, "headers": headers});
    let url = "https://mcp.example.com/mcp";
    let cases = [
        (
            json!({"Authorization": "Bearer s3cret-one"}),
            json!({"Authorization": "Bearer s3cret-two"}),
            url,
            true,
        ),
        (json!({"Authorization": "Bearer ${WORK}"}), json!({}), url, true),
        (json!({"X-Organization": "acme"}), json!({"X-Organization": "me"}), url, true),
        (json!({}), json!({}), "https://mcp.example.com/mcp?team=me", true),
        (json!({"X-Region": "eu"}), json!({"X-Region": "us"}), url, true),
        (json!({"User-Agent": "a"}), json!({"User-Agent": "b"}), url, false),
    ];
    for (ours, theirs, their_url, is_apart) in cases {
        let home = Home::of(&[
            (".claude.json", json!({"mcpServers": {"wiki": remote(ours.clone(), url)}})),
            (".copilot/mcp-config.json", json!({"mcpServers": {"wiki": remote(theirs, their_url)}})),
        ]);
        let printed = home.imported(&["--yes", "--details"]);
        let servers = home.servers();
        let names: Vec<_> = servers.as_object().unwrap().keys().collect();
        let expected: &[&str] = if is_apart { &["wiki", "wiki-copilot"] } else { &["wiki"] };
        assert_eq!(names, expected, "{ours} {printed}");
        assert!(!printed.contains("s3cret") && !printed.contains("-two"), "{printed}");
    }
}

/// Two databases, two clusters, two projects: what a server is about stands in its variables.
#[test]
fn variables_that_say_what_a_server_is_about_keep_entries_apart() {
    let server = |env: Value| json!({"mcpServers": {"db": {"command": "db-mcp", "env": env}}});
    for (name, is_apart) in [
        ("DB_HOST", true),
        ("PROJECT_ID", true),
        ("KUBECONFIG", true),
        ("JIRA_API_URL", true),
        ("AWS_PROFILE", true),
        ("LOG_LEVEL", false),
        ("DEBUG", false),
        ("NODE_OPTIONS", false),
        ("PATH", false),
        ("MCP_TIMEOUT", false),
    ] {
        let home = Home::of(&[
            (".cursor/mcp.json", server(json!({name: "one"}))),
            (".gemini/settings.json", server(json!({name: "other"}))),
        ]);
        let printed = home.imported(&["--yes", "--details"]);
        let servers = home.servers();
        let names: Vec<_> = servers.as_object().unwrap().keys().collect();
        let expected: &[&str] = if is_apart { &["db", "db-gemini"] } else { &["db"] };
        assert_eq!(names, expected, "{name} {printed}");
        let line = format!("kept apart from db: env.{name} has another value\n");
        assert_eq!(printed.contains(&line), is_apart, "{printed}");
        assert!(home.imported(&["--yes"]).contains("There are no new servers"));
    }
}

#[test]
fn entries_that_differ_in_how_they_run_are_named() {
    let entry = |fields: Value| {
        let mut entry = json!({"command": "fs-mcp"});
        entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"mcpServers": {"fs": entry}})
    };
    let clients = || {
        Home::of(&[
            (".cursor/mcp.json", entry(json!({"env": {"LOG_LEVEL": "debug"}}))),
            (".gemini/settings.json", entry(json!({"timeout": 90000}))),
        ])
    };
    let home = clients();
    let printed = home.imported(&["--yes", "--write-client", "--details"]);
    for line in [
        "env.LOG_LEVEL is debug in Cursor, not set in Gemini CLI; that of Cursor counts",
        "timeout.tools is not set in Cursor, 90 in Gemini CLI; that of Cursor counts",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    // What a client gets later is not lost without a word either.
    home.write(".gemini/settings.json", &entry(json!({"env": {"DEBUG": "1"}})).to_string());
    let printed = home.imported(&["--yes", "--write-client", "--details"]);
    let line =
        "env.DEBUG is 1 in Gemini CLI; it is not set in ~/.config/dynamic-mcp/servers.json, which counts";
    assert!(printed.contains(line), "{printed}");
    // A directory says what a server is about.
    let home = Home::of(&[
        (".cursor/mcp.json", entry(json!({"cwd": "/a"}))),
        (".gemini/settings.json", entry(json!({}))),
    ]);
    home.imported(&["--yes"]);
    let servers = home.servers();
    assert_eq!((&servers["fs"]["cwd"], servers["fs-gemini"].get("cwd")), (&json!("/a"), None));
}

// It has a keyring on a D-Bus.
#[cfg(all(unix, not(target_os = "macos")))]
#[test]
fn secrets_that_moved_to_the_keyring_are_still_those_of_their_servers() {
    let Some(desktop) = crate::oauth::keyring::Desktop::start() else { return };
    let home = two_accounts();
    for args in [&["--secrets", "--yes"][..], &["--yes"]] {
        let mut command = home.command(args);
        let output = command.envs(desktop.shell_env()).stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let names: Vec<_> = tokens(&home).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["github", "github-cursor"], "{output:?}");
    }
    assert!(!home.text(".config/dynamic-mcp/servers.json").contains("ghp_"));
}
