//! Rules of a client for the tools of its servers hold for it after an import.

use serde_json::{Value, json};

use super::Home;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";
const PROJECT: &str = ".config/dynamic-mcp/projects/app.json";

fn program(name: &str) -> Value {
    json!({"command": "npx", "args": ["-y", name]})
}

/// OpenCode's file with two servers and these members.
fn opencode(members: Value) -> (&'static str, Value) {
    let mut file = json!({
        "$schema": "https://opencode.ai/config.json",
        "mcp": {
            "gh": {"type": "local", "command": ["npx", "-y", "github"], "enabled": true},
            "my.files": {"type": "local", "command": ["npx", "-y", "files"]}
        }
    });
    file.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    (".config/opencode/opencode.json", file)
}

#[test]
fn what_opencode_denies_is_denied() {
    let home = Home::of(&[opencode(json!({
        "tools": {"gh_delete_repository": false, "write": false, "my_files_drop*": false},
        "permission": {"bash": {"rm *": "deny"}, "gh_force*": "deny", "gh_merge": "deny"}
    }))]);
    let printed = home.imported(&["--yes", "--details"]);
    let servers = home.servers();
    assert_eq!(servers["gh"]["tools"], json!({"deny": ["delete_repository", "force*", "merge"]}));
    assert_eq!(servers["my.files"]["tools"], json!({"deny": ["drop*"]}));
    assert!(printed.contains("tools: denies delete_repository, force*, merge"), "{printed}");
}

#[test]
fn a_client_that_allows_no_tool_allows_none() {
    let home = Home::of(&[(
        ".gemini/settings.json",
        json!({"mcpServers": {"gh": {"command": "github", "includeTools": []}}}),
    )]);
    home.write(".codex/config.toml", "[mcp_servers.fs]\ncommand = 'fs'\nenabled_tools = []\n");
    home.imported(&["--yes"]);
    for name in ["gh", "fs"] {
        assert_eq!(home.servers()[name]["tools"], json!({"deny": ["*"]}), "{name}");
    }
}

#[test]
fn the_second_version_of_opencode_asks_and_the_last_rule_counts() {
    let servers = json!({"gh": {"type": "local", "command": ["npx", "github"]}, "jira": {"type": "remote", "url": "https://jira.example/mcp"}});
    let home = Home::of(&[(
        ".config/opencode/opencode.json",
        json!({"mcp": {"servers": servers}, "permissions": [
            {"action": "*", "resource": "*", "effect": "ask"},
            {"action": "jira_*", "resource": "*", "effect": "deny"},
            {"action": "jira_get*", "resource": "*", "effect": "allow"},
            {"action": "gh_merge", "resource": "*", "effect": "ask"},
        ]}),
    )]);
    let printed = home.imported(&["--yes"]);
    assert_eq!(home.servers()["gh"]["tools"], json!({"ask": ["merge"]}));
    assert_eq!(home.servers()["jira"]["tools"], json!({"allow": ["get*"]}));
    assert_eq!(printed.matches("decides for all tools").count(), 1, "{printed}");
    assert!(printed.contains("`permissions`: * ask"), "{printed}");
}

#[test]
fn claude_codes_permissions_arrive_from_all_its_settings() {
    let home = Home::of(&[
        (".claude.json", json!({"mcpServers": {"github": program("github"), "db": program("db")}})),
        (
            ".claude/settings.json",
            json!({"permissions": {
                "allow": ["Bash(npm test)", "mcp__github__get_issue"],
                "ask": ["mcp__github__merge_pull_request"],
                "deny": ["Read(.env)", "mcp__github__delete_repository", "mcp__gone__x"],
                "defaultMode": "acceptEdits"
            }, "env": {"ENABLE_TOOL_SEARCH": "false"}}),
        ),
        ("app/.mcp.json", json!({"mcpServers": {"shop": program("shop"), "old": program("old")}})),
        ("app/.claude/settings.json", json!({"disabledMcpjsonServers": ["old"]})),
        ("app/.claude/settings.local.json", json!({"permissions": {"ask": ["mcp__shop__pay*"]}})),
    ]);
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    let line = "Claude Code: 1 permission for tools of these servers will count no more, so it will ask; to let it search and read without a question, allow the tools get_dynamic_tools, search_dynamic_tools";
    assert!(printed.contains(line), "{printed}");
    let servers = home.servers();
    let expected = json!({"deny": ["delete_repository"], "ask": ["merge_pull_request"]});
    assert_eq!(servers["github"]["tools"], expected, "a permission without a question bans no other tool");
    assert_eq!(servers["db"].get("tools"), None);
    let project = home.json(PROJECT)["mcpServers"].take();
    assert_eq!(project["shop"]["tools"], json!({"ask": ["pay*"]}));
    assert_eq!(
        (&project["old"]["enabled"], project["old"].get("tools")),
        (&json!(false), None),
        "it is not started"
    );
    let args = |file: &str| home.json(file)["mcpServers"]["dyn"]["args"].as_array().unwrap().len();
    assert_eq!((args("app/.mcp.json"), args(".claude.json")), (4, 2));
}

/// Claude Code, whose model searches for tools, gets the tools themselves, and its rules the names of these.
#[test]
fn the_permissions_of_claude_code_go_on_to_hold_for_the_same_tools() {
    let settings = r#"{
  "permissions": {
    "allow": ["Bash(npm test)", "mcp__my_db__read_rows",
      "mcp__github"],
    "deny": ["mcp__github__delete_repository", "mcp__gone__x"],
    "ask": ["mcp__github__merge_*"]
  },
  "disabledMcpjsonServers": ["old"]
}
"#;
    let home = Home::of(&[
        (".claude.json", json!({"mcpServers": {"github": program("github"), "my.db": program("db")}})),
        ("app/.mcp.json", json!({"mcpServers": {"shop": program("shop"), "old": program("old")}})),
        (
            "app/.claude/settings.local.json",
            json!({"permissions": {"deny": ["mcp__github__push", "mcp__shop__pay"]}}),
        ),
    ]);
    home.write(".claude/settings.json", settings);
    let before = home.client_files();
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    assert!(printed.contains("~/.claude/settings.json: 4 rules renamed for the tools of `dyn`"), "{printed}");
    let expected = settings
        .replace("mcp__my_db__read_rows", "mcp__dyn__my_db__read_rows")
        .replace("\"mcp__github\"", "\"mcp__dyn__github__*\"")
        .replace("mcp__github__", "mcp__dyn__github__");
    assert_eq!(home.text(".claude/settings.json"), expected);
    let project = home.json("app/.claude/settings.local.json");
    assert_eq!(project["permissions"]["deny"], json!(["mcp__dyn__github__push", "mcp__dyn__shop__pay"]));
    assert_eq!(home.servers()["github"].get("tools"), None);
    for file in [".claude.json", "app/.mcp.json"] {
        let args = home.json(file)["mcpServers"]["dyn"]["args"].clone();
        assert!(args.as_array().unwrap().ends_with(&[json!("--surface"), json!("flat")]), "{file}: {args}");
        // So that the client defers them.
        assert_eq!(home.json(file)["mcpServers"]["dyn"].get("alwaysLoad"), None);
    }
    // Also those of a server that comes later.
    let mut file = home.json(".claude.json");
    file["mcpServers"]["wiki"] = program("wiki");
    home.write(".claude.json", &file.to_string());
    home.write(".claude/settings.json", &expected.replace("mcp__gone__x", "mcp__wiki__x"));
    home.imported(&["--yes", "--write-client"]);
    assert!(
        home.text(".claude/settings.json").contains("\"mcp__dyn__wiki__x\""),
        "{}",
        home.text(".claude/settings.json")
    );
    // A rule that the user has added since stays when the others get their old names.
    let more =
        home.text(".claude/settings.json").replace("\"Bash(npm test)\"", "\"Bash(npm test)\", \"Read(x)\"");
    home.write(".claude/settings.json", &more);
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    let back = settings.replace("\"Bash(npm test)\"", "\"Bash(npm test)\", \"Read(x)\"");
    assert_eq!(home.text(".claude/settings.json"), back.replace("mcp__gone__x", "mcp__wiki__x"));
    let after = home.client_files();
    let project = |files: &[(String, Vec<u8>)]| {
        files.iter().filter(|(name, _)| name.starts_with("app")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(project(&after), project(&before), "{shown}");
}

#[test]
fn a_project_with_rules_for_the_users_servers_keeps_its_own() {
    let home = Home::of(&[
        (".cursor/mcp.json", json!({"mcpServers": {"db": program("db")}})),
        ("app/.cursor/mcp.json", json!({"mcpServers": {"shop": program("shop")}})),
        ("app/.cursor/cli.json", json!({"permissions": {"deny": ["Mcp(db:drop)"]}})),
    ]);
    let before = home.text("app/.cursor/mcp.json");
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    let line = "shop stays there: `permissions.deny`: Mcp(db:drop): the project has a rule for db, which is your own server";
    assert!(printed.contains(line), "{printed}");
    assert_eq!(home.text("app/.cursor/mcp.json"), before);
    assert!(!home.file(PROJECT).exists());
}

#[test]
fn a_ban_of_one_client_holds_for_it_alone() {
    let mut banned = program("github");
    banned["excludeTools"] = json!(["delete_repository"]);
    let desktop = ".config/Claude/claude_desktop_config.json";
    let home = Home::of(&[
        (desktop, json!({"mcpServers": {"github": program("github")}})),
        (".gemini/settings.json", json!({"mcpServers": {"github": banned}})),
    ]);
    let printed = home.imported(&["--yes", "--write-client", "--details"]);
    let root = home.json(SERVERS);
    assert_eq!(root["mcpServers"]["github"].get("tools"), None);
    assert_eq!(root["mcpServers"]["github-gemini"]["tools"], json!({"deny": ["delete_repository"]}));
    let expected = json!({"claude-desktop": ["*", "!github-gemini"], "gemini": ["*", "!github"]});
    assert_eq!(root["profiles"], expected);
    assert!(printed.contains("kept apart from github: tools is denies delete_repository here"), "{printed}");
    // Where every client sees every server, none sees another one's in place of its own.
    home.imported(&["--undo", "--yes"]);
    std::fs::remove_file(home.file(SERVERS)).unwrap();
    home.imported(&["--yes", "--write-client", "--same-servers"]);
    assert_eq!(home.json(SERVERS)["profiles"], expected);
    // What both have is the server's own.
    let home = Home::of(&[
        (".copilot/mcp-config.json", json!({"mcpServers": {"github": {"command": "gh", "tools": ["get"]}}})),
        (
            ".gemini/settings.json",
            json!({"mcpServers": {"github": {"command": "gh", "includeTools": ["get"]}}}),
        ),
    ]);
    home.imported(&["--yes", "--write-client"]);
    let root = home.json(SERVERS);
    assert_eq!(
        (&root["mcpServers"]["github"]["tools"], root.get("profiles")),
        (&json!({"allow": ["get"]}), None)
    );
}

#[test]
fn a_ban_is_kept_for_a_server_that_servers_json_has() {
    let mut banned = program("github");
    banned["excludeTools"] = json!(["delete_repository"]);
    let home = Home::of(&[
        (SERVERS, json!({"mcpServers": {"github": program("github"), "own": program("own")}})),
        (".gemini/settings.json", json!({"mcpServers": {"github": banned}})),
    ]);
    for args in [&["--yes"][..], &["--yes"], &["--yes", "--write-client"]] {
        home.imported(args);
        let root = home.json(SERVERS);
        assert_eq!(root["mcpServers"]["github"], program("github"), "it is left as it is");
        assert_eq!(root["mcpServers"]["github-gemini"]["tools"], json!({"deny": ["delete_repository"]}));
        assert_eq!(root["mcpServers"].as_object().unwrap().len(), 3);
    }
    assert_eq!(home.json(SERVERS)["profiles"], json!({"gemini": ["*", "!github"]}));
    assert_eq!(home.json(".gemini/settings.json")["mcpServers"]["dyn"]["args"][3], "gemini");
    // What the user bans in servers.json holds, too, and makes no second server.
    let mut file = home.json(SERVERS);
    file["mcpServers"]["github"]["tools"] = json!({"deny": ["push"]});
    home.write(SERVERS, &file.to_string());
    home.write(".cursor/mcp.json", &json!({"mcpServers": {"github": program("github")}}).to_string());
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.servers().as_object().unwrap().len(), 3);
}

#[test]
fn a_rule_that_came_after_an_import_makes_a_server_of_its_own() {
    let settings = |tools: &[&str]| {
        let denied: Vec<_> = tools.iter().map(|tool| format!("mcp__github__{tool}")).collect();
        json!({"permissions": {"deny": denied}, "env": {"ENABLE_TOOL_SEARCH": "false"}}).to_string()
    };
    let home = Home::of(&[(".claude.json", json!({"mcpServers": {"github": program("github")}}))]);
    home.write(".claude/settings.json", &settings(&["delete"]));
    home.imported(&["--yes", "--write-client"]);
    // Taken back, the client's file brings its rules again.
    home.write(".claude/settings.json", &settings(&["delete", "push"]));
    home.imported(&["--undo", "--yes"]);
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.servers()["github"]["tools"], json!({"deny": ["delete"]}));
    assert_eq!(home.servers()["github-claude-code"]["tools"], json!({"deny": ["delete", "push"]}));
    assert_eq!(home.json(SERVERS)["profiles"], json!({"claude-code": ["*", "!github"]}));
}

#[test]
fn a_rule_for_all_tools_stays_with_the_client() {
    let home = Home::empty();
    home.write(".codex/config.toml", "approval_policy = 'never'\n[mcp_servers.fs]\ncommand = 'fs'\n");
    let printed = home.imported(&["--yes"]);
    let line = "Codex decides for all tools, and so for those of dynamic-mcp: `approval_policy`";
    assert_eq!(printed.matches(line).count(), 1, "{printed}");
}

#[test]
fn settings_that_cannot_be_read_are_an_error() {
    let home = Home::of(&[(".claude.json", json!({"mcpServers": {"github": program("github")}}))]);
    home.write(".claude/settings.json", "{\"permissions\": {\"deny\": [\"mcp__github__x\",,]}}");
    let output = home.import(&["--yes"]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(super::stderr(&output).contains("settings.json:1:"), "{output:?}");
}

/// A server of Codex that asks for all tools but one.
#[test]
fn an_exception_of_codex_holds_where_tools_are_named_and_keeps_its_server_elsewhere() {
    let home = Home::empty();
    let server = |name: &str, enabled: &str| {
        format!(
            "[mcp_servers.{name}]\ncommand = '{name}'\n{enabled}default_tools_approval_mode = 'prompt'\n\
             [mcp_servers.{name}.tools.get]\napproval_mode = 'approve'\n"
        )
    };
    home.write(".codex/config.toml", &(server("gh", "") + &server("fs", "enabled_tools = ['get', 'put']\n")));
    let printed = home.imported(&["--yes"]);
    assert_eq!(home.servers().get("gh"), None);
    assert_eq!(home.servers()["fs"]["tools"], json!({"allow": ["get", "put"], "ask": ["put"]}));
    let line =
        "gh stays there: `mcp_servers.gh.tools.get.approval_mode`: approve: it is an exception that a list";
    assert!(printed.contains(line), "{printed}");
    assert_eq!(printed.matches("approval_mode`").count(), 1, "{printed}");
}

#[test]
fn a_further_import_keeps_the_comments_above_dyn_in_toml() {
    let home = Home::empty();
    home.write(".codex/config.toml", "[mcp_servers.a]\ncommand = 'a'\n");
    home.imported(&["--yes", "--write-client"]);
    let text = home.text(".codex/config.toml");
    let text = text.replace("[mcp_servers.dyn]", "# my proxy\n[mcp_servers.dyn]")
        + "\n# new\n[mcp_servers.b]\ncommand = 'b'\nenv_vars = ['TOKEN']\n";
    home.write(".codex/config.toml", &text);
    home.imported(&["--yes", "--write-client"]);
    let after = home.text(".codex/config.toml");
    assert!(
        after.contains("# my proxy\n[mcp_servers.dyn]") && after.contains("env_vars = [\"TOKEN\"]"),
        "{after}"
    );
    assert_eq!(home.undone().0, Some(0));
    let back = "# my proxy\n[mcp_servers.a]\ncommand = 'a'\n\n\
                # new\n[mcp_servers.b]\ncommand = 'b'\nenv_vars = ['TOKEN']\n";
    assert_eq!(home.text(".codex/config.toml"), back);
}

#[test]
fn what_gemini_excludes_of_any_server_is_denied_and_a_limit_of_arguments_stays() {
    let home = Home::of(&[(
        ".gemini/settings.json",
        json!({
            "tools": {"exclude": ["delete_repository", "run_shell_command", "ShellTool(rm)"]},
            "mcpServers": {
                "gh": {"command": "github", "includeTools": ["get"]},
                "code": {"command": "code", "includeTools": ["search_code(x)", "get"]}
            }
        }),
    )]);
    let printed = home.imported(&["--yes"]);
    assert_eq!(home.servers()["gh"]["tools"], json!({"allow": ["get"], "deny": ["delete_repository"]}));
    let line = "code stays there: `includeTools` limits the arguments of tools, which dynamic-mcp cannot";
    assert!(printed.contains(line), "{printed}");
    assert!(printed.contains("Gemini CLI: its servers get the variables that hold no secrets"), "{printed}");
}

#[test]
fn a_server_that_claude_code_turns_off_in_a_project_stays() {
    let file = json!({"mcpServers": {"gh": {"command": "github"}}, "projects": {"/p": {"disabledMcpServers": ["gh", "other"]}}});
    let printed = Home::of(&[(".claude.json", file)]).imported(&["--yes"]);
    let line = "gh stays there: it is off in /p, and a server of dynamic-mcp is on everywhere";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn no_import_lets_all_users_use_a_server() {
    for name in ["all_users", "allUsers"] {
        let home = Home::of(&[(
            ".cursor/mcp.json",
            json!({"mcpServers": {"gh": {"command": "github", name: true}}}),
        )]);
        let printed = home.imported(&["--yes"]);
        assert_eq!(home.servers()["gh"].get("all_users"), None);
        assert!(printed.contains(&format!("Without meaning here, and left out: {name}.")), "{printed}");
    }
}

#[test]
fn a_server_whose_tools_a_hook_watches_stays() {
    let hook =
        |matcher: &str| json!({"matcher": matcher, "hooks": [{"type": "command", "command": "check"}]});
    let home = Home::of(&[
        (
            ".claude.json",
            json!({"mcpServers": {"gh": program("gh"), "db": program("db"), "fs": program("fs")}}),
        ),
        (
            ".claude/settings.json",
            json!({"hooks": {"PreToolUse": [hook("Bash"), hook("mcp__.*"), hook("mcp__gh__push.*|mcp__db")]}}),
        ),
    ]);
    let printed = home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.servers().as_object().unwrap().keys().collect::<Vec<_>>(), ["fs"], "{printed}");
    let line = "gh stays there: `hooks.PreToolUse`: mcp__gh__push.*: a hook watches its tools";
    assert!(printed.contains(line), "{printed}");
}
