//! Rules of a client for the tools of its servers hold for it after an import.

use serde_json::{Value, json};

use super::Home;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";

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
    let printed = home.imported(&["--yes"]);
    let servers = home.servers();
    assert_eq!(servers["gh"]["tools"], json!({"deny": ["delete_repository", "force*", "merge"]}));
    assert_eq!(servers["my.files"]["tools"], json!({"deny": ["drop*"]}));
    assert!(printed.contains("tools: denies delete_repository, force*, merge"), "{printed}");
    assert!(!printed.contains("Not carried over"), "{printed}");
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
            }}),
        ),
        ("app/.mcp.json", json!({"mcpServers": {"shop": program("shop"), "old": program("old")}})),
        (
            "app/.claude/settings.json",
            json!({"permissions": {"deny": ["mcp__db"]}, "disabledMcpjsonServers": ["old"]}),
        ),
        ("app/.claude/settings.local.json", json!({"permissions": {"ask": ["mcp__shop__pay*"]}})),
    ]);
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    let root = home.json(SERVERS);
    let servers = &root["mcpServers"];
    let expected = json!({"deny": ["delete_repository"], "ask": ["merge_pull_request"]});
    assert_eq!(servers["github"]["tools"], expected, "a permission without a question bans no other tool");
    assert_eq!(servers["shop"]["tools"], json!({"ask": ["pay*"]}));
    assert_eq!(
        (&servers["old"]["enabled"], servers["old"].get("tools")),
        (&json!(false), None),
        "it is not started"
    );
    // In the project alone.
    assert_eq!(servers["db"].get("tools"), None);
    assert_eq!(
        root["profiles"]["claude-code-app"],
        json!({"servers": ["*"], "tools": {"db": {"deny": ["*"]}}})
    );
    assert_eq!(root["profiles"]["claude-code"], json!(["*", "!shop", "!old"]));
    let args = |file: &str| home.json(file)["mcpServers"]["dyn"]["args"].clone();
    assert_eq!(args("app/.mcp.json")[3], "claude-code-app", "{}", args("app/.mcp.json"));
    assert_eq!(args(".claude.json")[3], "claude-code", "{}", args(".claude.json"));
    assert!(
        printed.contains("Not carried over: Claude Code (~/.claude/settings.json): `permissions.deny`: mcp__gone__x: it names no server that Claude Code has"),
        "{printed}"
    );
    assert!(printed.contains("and will ask: `permissions.allow`: mcp__github__get_issue"), "{printed}");
}

#[test]
fn a_ban_of_one_client_holds_for_it_alone() {
    let mut banned = program("github");
    banned["excludeTools"] = json!(["delete_repository"]);
    let home = Home::of(&[
        (".config/Claude/claude_desktop_config.json", json!({"mcpServers": {"github": program("github")}})),
        (".gemini/settings.json", json!({"mcpServers": {"github": banned}})),
    ]);
    let printed = home.imported(&["--yes", "--write-client"]);
    let root = home.json(SERVERS);
    assert_eq!(root["mcpServers"]["github"].get("tools"), None);
    let expected =
        json!({"gemini": {"servers": ["*"], "tools": {"github": {"deny": ["delete_repository"]}}}});
    assert_eq!(root["profiles"], expected);
    let dyn_args = |file: &str| home.json(file)["mcpServers"]["dyn"]["args"].as_array().unwrap().len();
    assert_eq!(dyn_args(".config/Claude/claude_desktop_config.json"), 2);
    assert_eq!(home.json(".gemini/settings.json")["mcpServers"]["dyn"]["args"][3], "gemini");
    assert!(printed.contains("github: denies delete_repository"), "{printed}");
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
fn a_ban_is_kept_without_write_client_and_for_a_server_that_servers_json_has() {
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
        let expected =
            json!({"gemini": {"servers": ["*"], "tools": {"github": {"deny": ["delete_repository"]}}}});
        assert_eq!(root["profiles"], expected);
    }
    assert_eq!(home.json(".gemini/settings.json")["mcpServers"]["dyn"]["args"][3], "gemini");
}

#[test]
fn a_rule_for_a_server_that_was_imported_before_is_named_unless_it_holds() {
    let settings = |tools: &[&str]| {
        let denied: Vec<_> = tools.iter().map(|tool| format!("mcp__github__{tool}")).collect();
        json!({"permissions": {"deny": denied}}).to_string()
    };
    let home = Home::of(&[(".claude.json", json!({"mcpServers": {"github": program("github")}}))]);
    home.write(".claude/settings.json", &settings(&["delete"]));
    home.imported(&["--yes", "--write-client"]);
    let printed = home.imported(&["--yes", "--write-client"]);
    assert!(!printed.contains("Not carried over"), "{printed}");
    home.write(".claude/settings.json", &settings(&["delete", "push"]));
    let printed = home.imported(&["--yes", "--write-client"]);
    assert_eq!(printed.matches("Not carried over").count(), 1, "{printed}");
    assert!(
        printed.contains("mcp__github__push: it names github, which servers.json has already"),
        "{printed}"
    );
    // Taken back, the client's file brings its rules again, into the client's profile.
    home.imported(&["--undo", "--yes"]);
    let printed = home.imported(&["--yes", "--write-client"]);
    assert!(printed.contains("Added 1 profile to"), "{printed}");
    let tools = json!({"github": {"deny": ["delete", "push"]}});
    assert_eq!(home.json(SERVERS)["profiles"]["claude-code"], json!({"servers": ["*"], "tools": tools}));
}

#[test]
fn a_further_import_names_no_rule_that_holds_or_is_about_another_account() {
    let github = |token: &str| {
        let mut entry = program("github");
        entry["env"] = json!({"GITHUB_TOKEN": token});
        entry
    };
    let (path, mut file) = opencode(json!({
        "permission": {"gh_*": "deny", "gh_get": "allow", "wiki_drop": "deny"}
    }));
    file["mcp"]["wiki"] = json!({"type": "local", "command": ["wiki"], "environment": {"WIKI_TOKEN": "one"}});
    let home = Home::of(&[
        (path, file),
        (
            ".cursor/mcp.json",
            json!({"mcpServers": {"wiki": {"command": "wiki", "env": {"WIKI_TOKEN": "two"}}}}),
        ),
        (".claude.json", json!({"mcpServers": {"github": github("work")}})),
        (".copilot/mcp-config.json", json!({"mcpServers": {"github": github("home")}})),
        (
            ".claude/settings.json",
            json!({"permissions": {"deny": ["mcp__github__delete", "mcp__wiki__drop"]}}),
        ),
    ]);
    let printed = home.imported(&["--yes", "--write-client"]);
    assert_eq!(printed.matches("Not carried over").count(), 1, "{printed}");
    let named = "mcp__wiki__drop: it names no server that Claude Code has";
    assert!(printed.contains(named), "{printed}");
    // Claude Code sees neither the other account nor the servers of the others.
    let printed = home.imported(&["--yes", "--write-client"]);
    assert_eq!(printed.matches("Not carried over").count(), 1, "{printed}");
    assert!(printed.contains(named), "{printed}");
}

#[test]
fn a_projects_rules_hold_for_servers_that_the_client_has_elsewhere() {
    let home = Home::of(&[
        (".claude.json", json!({"mcpServers": {"db": program("db"), "github": program("github")}})),
        (".cursor/mcp.json", json!({"mcpServers": {"github": program("github"), "own": program("own")}})),
        (".claude/settings.json", json!({"permissions": {"deny": ["mcp__github__delete"]}})),
    ]);
    home.imported(&["--yes", "--write-client"]);
    home.write("app/.mcp.json", &json!({"mcpServers": {"shop": program("shop")}}).to_string());
    home.write("app/.claude/settings.json", &json!({"disabledMcpjsonServers": ["db"]}).to_string());
    let printed = home.imported(&["--yes", "--write-client", "--project=app"]);
    assert!(!printed.contains("Not carried over"), "{printed}");
    let expected = json!({
        "servers": ["*", "!db", "!own"],
        "tools": {"github": {"deny": ["delete"]}}
    });
    assert_eq!(home.json(SERVERS)["profiles"]["claude-code-app"], expected, "{printed}");
    assert_eq!(home.json("app/.mcp.json")["mcpServers"]["dyn"]["args"][3], "claude-code-app");
}

#[test]
fn what_cannot_be_carried_over_is_a_line_of_its_own() {
    let home = Home::of(&[
        opencode(json!({
            "permission": {"gh_del*": "deny"}, "agent": {"build": {"tools": {"bash": false}}}
        })),
        (".cursor/mcp.json", json!({"mcpServers": {"gh": program("github")}})),
        ("app/.claude/settings.json", json!({"permissions": {"deny": ["mcp__db__drop"]}})),
        (".claude.json", json!({"mcpServers": {"db": program("db")}})),
        (".cursor/cli-config.json", json!({"permissions": {"deny": ["Mcp(gh:push)", "Shell(rm)"]}})),
    ]);
    home.write(".codex/config.toml", "approval_policy = 'never'\n[mcp_servers.fs]\ncommand = 'fs'\n");
    let printed = home.imported(&["--yes", "--project=app"]);
    for line in [
        "Not carried over: Claude Code (~/app/.claude/settings.json): `permissions.deny`: mcp__db__drop: it is for the project",
        "Note: Codex (~/.codex/config.toml) decides for all tools, and so for those of dynamic-mcp: `approval_policy`",
    ] {
        assert_eq!(printed.matches(line).count(), 1, "{line}: {printed}");
    }
    assert_eq!(printed.matches("Not carried over").count(), 1, "{printed}");
    let tools = &home.json(SERVERS)["profiles"];
    assert_eq!(tools["cursor"]["tools"]["gh"], json!({"deny": ["push"]}), "{tools}");
    assert_eq!(tools["opencode"]["tools"]["gh"], json!({"deny": ["del*"]}), "{tools}");
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
fn what_gemini_excludes_of_any_server_and_limits_by_arguments_is_named() {
    let home = Home::of(&[(
        ".gemini/settings.json",
        json!({
            "tools": {"exclude": ["delete_repository", "run_shell_command", "ShellTool(rm)"]},
            "mcpServers": {"gh": {"command": "github", "includeTools": ["search_code(x)", "get"]}}
        }),
    )]);
    let printed = home.imported(&["--yes"]);
    let server = &home.servers()["gh"];
    assert_eq!(server["tools"], json!({"allow": ["get", "search_code"]}));
    let note = "Note: Gemini CLI passes your environment to its servers, but for what looks like a secret";
    assert!(printed.contains(note), "{printed}");
    let lost: Vec<_> = printed.lines().filter(|line| line.starts_with("Not carried over: ")).collect();
    let line = "Not carried over: Gemini CLI (~/.gemini/settings.json): `tools.exclude`: delete_repository: a tool of any server may have this name; write delete_repository into `tools.deny` of the server that has it";
    assert_eq!(lost, [line], "{printed}");
    assert!(printed.contains("`includeTools` limits the arguments of tools, which has no counterpart here"));
}

#[test]
fn a_server_that_claude_code_turns_off_in_a_project_is_named() {
    let file = json!({"mcpServers": {"gh": {"command": "github"}}, "projects": {"/p": {"disabledMcpServers": ["gh", "other"]}}});
    let printed = Home::of(&[(".claude.json", file)]).imported(&["--yes"]);
    let line =
        "Not carried over: Claude Code: in /p, gh is off; import that project too, with --project=/p\n";
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
        assert!(printed.contains("`all_users` is not taken over"), "{printed}");
    }
}
