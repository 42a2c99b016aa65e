//! Each client goes on to see the servers that it had.

use serde_json::{Value, json};

use super::{Home, on_this_system};

const SERVERS: &str = ".config/dynamic-mcp/servers.json";
const CURSOR: &str = ".cursor/mcp.json";
const COPILOT: &str = ".copilot/mcp-config.json";
const GEMINI: &str = ".gemini/settings.json";

fn servers(names: &[&str]) -> Value {
    let entry = |name: &&str| ((*name).to_owned(), json!({"command": format!("{name}-mcp")}));
    json!({"mcpServers": names.iter().map(entry).collect::<serde_json::Map<_, _>>()})
}

/// The arguments of the entry for dynamic-mcp, without the config file.
fn args(home: &Home, file: &str) -> Vec<String> {
    let entry = &home.json(file)["mcpServers"]["dyn"];
    let args = entry["args"].as_array().unwrap_or_else(|| panic!("{file}: {entry}"));
    args.iter().skip(2).map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

#[test]
fn with_yes_each_client_keeps_its_own_set_also_in_a_further_import() {
    let home = Home::of(&[
        (SERVERS, servers(&["mine"])),
        (CURSOR, servers(&["fs", "git"])),
        (COPILOT, servers(&["fs", "wiki[1]"])),
        (GEMINI, servers(&["fs", "git", "wiki[1]"])),
    ]);
    let printed = home.imported(&["--yes", "--write-client"]);
    let expected = json!({"cursor": ["*", "!wiki[[]1[]]"], "copilot": ["*", "!git"]});
    assert_eq!(home.json(SERVERS)["profiles"], expected);
    assert_eq!(args(&home, CURSOR), ["--profile", "cursor"]);
    assert_eq!(args(&home, COPILOT), ["--profile", "copilot"]);
    assert_eq!(args(&home, GEMINI), [""; 0]);
    assert!(printed.contains("Cursor gets the profile cursor: all servers but \"wiki[1]\""), "{printed}");
    assert!(printed.contains("3 servers for ~/.config/dynamic-mcp/servers.json:"), "{printed}");
    // So is a server that a client gets later, and the other client that had all.
    let mut file = home.json(CURSOR);
    file["mcpServers"]["new"] = json!({"command": "new-mcp", "env": {"NEW_KEY": "${env:NEW_KEY}"}});
    home.write(CURSOR, &file.to_string());
    let printed = home.imported(&["--yes", "--write-client"]);
    let expected = json!({
        "cursor": ["*", "!wiki[[]1[]]"], "copilot": ["*", "!git", "!new"], "gemini": ["*", "!new"]
    });
    assert_eq!(home.json(SERVERS)["profiles"], expected, "{printed}");
    assert_eq!(home.servers()["new"]["command"], "new-mcp");
    for (file, profile) in [(CURSOR, "cursor"), (COPILOT, "copilot"), (GEMINI, "gemini")] {
        assert_eq!(args(&home, file), ["--profile", profile], "{printed}");
    }
    assert!(home.json(CURSOR)["mcpServers"].get("new").is_none());
    assert_eq!(home.json(CURSOR)["mcpServers"]["dyn"]["env"]["NEW_KEY"], "${env:NEW_KEY}");
    assert!(!home.text(COPILOT).contains("NEW_KEY") && !home.text(GEMINI).contains("NEW_KEY"));
    assert!(!printed.contains("uses dynamic-mcp already"), "{printed}");
    let before = home.text(SERVERS);
    assert!(home.imported(&["--yes", "--write-client"]).contains("There are no new servers"));
    assert_eq!(home.text(SERVERS), before);
    // One answer gives everything back as it was.
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.json(GEMINI), servers(&["fs", "git", "wiki[1]"]));
}

#[test]
fn a_client_that_is_imported_later_does_not_see_what_the_others_had() {
    let home = Home::of(&[(SERVERS, servers(&["mine"])), (CURSOR, servers(&["fs", "git"]))]);
    home.imported(&["--yes", "--write-client"]);
    home.write(COPILOT, &servers(&["fs", "wiki"]).to_string());
    let printed = home.imported(&["--yes", "--write-client"]);
    let expected = json!({"cursor": ["*", "!wiki"], "copilot": ["*", "!git"]});
    assert_eq!(home.json(SERVERS)["profiles"], expected, "{printed}");
    assert_eq!(args(&home, COPILOT), ["--profile", "copilot"]);
}

#[test]
fn clients_that_are_not_imported_from_keep_their_sets_or_are_named() {
    let home = Home::of(&[
        (CURSOR, servers(&["fs"])),
        (COPILOT, servers(&["git"])),
        (GEMINI, servers(&["fs", "git"])),
    ]);
    home.imported(&["--yes", "--write-client"]);
    let gemini = home.text(GEMINI);
    let mut file = home.json(CURSOR);
    file["mcpServers"]["new"] = json!({"command": "new-mcp"});
    home.write(CURSOR, &file.to_string());
    let printed = home.imported(&["cursor", "--yes", "--write-client"]);
    let expected = json!({"cursor": ["*", "!git"], "copilot": ["*", "!fs", "!new"]});
    assert_eq!(home.json(SERVERS)["profiles"], expected, "{printed}");
    assert_eq!(home.text(GEMINI), gemini);
    let line = "Gemini CLI uses dynamic-mcp already, and sees the new servers too: new";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn clients_with_the_same_servers_need_no_profile() {
    let home = Home::of(&[(CURSOR, servers(&["fs"])), (COPILOT, servers(&["fs"]))]);
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.json(SERVERS).get("profiles"), None);
    assert_eq!(args(&home, CURSOR), [""; 0]);
}

#[test]
fn a_server_that_is_off_in_one_client_is_on_in_the_other_alone() {
    let mut off = servers(&["fs", "git"]);
    off["mcpServers"]["git"]["disabled"] = json!(true);
    let home = Home::of(&[(CURSOR, off.clone()), (COPILOT, servers(&["fs", "git"]))]);
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.servers()["git"].get("enabled"), None);
    assert_eq!(home.json(SERVERS)["profiles"], json!({"cursor": ["*", "!git"]}));
    // A server that is off in all of its clients is none of another client's, also if it is switched on later.
    let home = Home::of(&[(CURSOR, off), (COPILOT, servers(&["fs"]))]);
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.servers()["git"]["enabled"], false);
    assert_eq!(home.json(SERVERS)["profiles"], json!({"copilot": ["*", "!git"]}));
}

#[test]
fn a_users_own_profiles_and_entries_stay_as_they_are() {
    let mut own = servers(&["mine"]);
    own["profiles"] = json!({"cursor": ["mine"], "work": ["m*"]});
    let home = Home::of(&[(SERVERS, own), (CURSOR, servers(&["fs"])), (COPILOT, servers(&["git"]))]);
    home.imported(&["--yes", "--write-client"]);
    let profiles = home.json(SERVERS)["profiles"].clone();
    let expected =
        json!({"cursor": ["mine"], "work": ["m*"], "copilot": ["*", "!fs"], "cursor-2": ["*", "!git"]});
    assert_eq!(profiles, expected);
    assert_eq!(args(&home, CURSOR), ["--profile", "cursor-2"]);
    // The user chooses another profile in the entry, and adds a server to the client's file.
    let mut file = home.json(CURSOR);
    let entry = &mut file["mcpServers"]["dyn"];
    entry["args"][3] = json!("work");
    entry["args"].as_array_mut().unwrap().push(json!("--idle-timeout=5m"));
    entry["env"] = json!({"HTTPS_PROXY": "http://proxy"});
    file["mcpServers"]["new"] = json!({"command": "new-mcp"});
    home.write(CURSOR, &file.to_string());
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(args(&home, CURSOR), ["--profile", "work", "--idle-timeout=5m"]);
    assert_eq!(home.json(CURSOR)["mcpServers"]["dyn"]["env"], json!({"HTTPS_PROXY": "http://proxy"}));
    let mut expected = expected;
    expected["work"] = json!(["m*", "new"]);
    expected["copilot"] = json!(["*", "!fs", "!new"]);
    assert_eq!(home.json(SERVERS)["profiles"], expected, "its client goes on to see what it had");
}

/// The config files and the profile of the entry in a project's file.
fn project_args(home: &Home, file: &str) -> Vec<String> {
    let args = home.json(file)["mcpServers"]["dyn"]["args"].clone();
    args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_projects_servers_are_seen_in_the_project_alone() {
    let home = Home::of(&[
        (CURSOR, servers(&["fs"])),
        ("app/.cursor/mcp.json", servers(&["shop"])),
        (COPILOT, servers(&["fs", "git"])),
    ]);
    home.imported(&["--yes", "--write-client", "--project=app"]);
    assert_eq!(home.json(SERVERS)["profiles"], json!({"cursor": ["*", "!git"]}));
    assert_eq!(args(&home, CURSOR), ["--profile", "cursor"]);
    let user = "~/.config/dynamic-mcp/servers.json";
    let app = "~/.config/dynamic-mcp/projects/app.json";
    let expected = ["--config", user, "--config", app, "--profile", "cursor"];
    // Without a path of this user's home: a commit may bring the file to others.
    assert_eq!(project_args(&home, "app/.cursor/mcp.json"), expected.map(on_this_system));
    let project = ".config/dynamic-mcp/projects/app.json";
    assert_eq!(home.json(project)["mcpServers"].as_object().unwrap().len(), 1);
    // Also those that are added to the project later, and those of a project that is imported later.
    let mut file = home.json("app/.cursor/mcp.json");
    file["mcpServers"]["pay"] = json!({"command": "pay-mcp"});
    home.write("app/.cursor/mcp.json", &file.to_string());
    home.imported(&["--yes", "--write-client", "--project=app"]);
    assert_eq!(home.json(project)["mcpServers"].as_object().unwrap().len(), 2);
    home.write("two/app/.cursor/mcp.json", &servers(&["two"]).to_string());
    home.imported(&["--yes", "--write-client", "--project=two/app"]);
    assert_eq!(home.json(project)["mcpServers"].as_object().unwrap().len(), 2);
    let second = on_this_system("~/.config/dynamic-mcp/projects/app-2.json");
    assert_eq!(project_args(&home, "two/app/.cursor/mcp.json")[3], second);
    assert_eq!(home.servers().as_object().unwrap().len(), 2);
    // Everything comes back.
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.json("two/app/.cursor/mcp.json"), servers(&["two"]));
    assert_eq!(home.json("app/.cursor/mcp.json"), servers(&["shop", "pay"]));
}

#[test]
fn two_clients_of_a_project_keep_their_sets_in_it() {
    let home = Home::of(&[
        (CURSOR, servers(&["mine"])),
        (GEMINI, servers(&["own"])),
        ("app/.cursor/mcp.json", servers(&["shop", "pay"])),
        ("app/.gemini/settings.json", servers(&["shop"])),
    ]);
    home.imported(&["--yes", "--write-client", "--project=app"]);
    let project = home.json(".config/dynamic-mcp/projects/app.json");
    assert_eq!(project["profiles"], json!({"gemini-app": ["*", "!mine", "!pay"]}));
    assert_eq!(project_args(&home, "app/.gemini/settings.json")[5], "gemini-app");
    assert_eq!(project_args(&home, "app/.cursor/mcp.json")[5], "cursor");
}

#[test]
fn accounts_of_projects_stay_apart() {
    let db = |token: &str| json!({"mcpServers": {"db": {"command": "db-mcp", "env": {"DB_TOKEN": token}}}});
    let home = Home::of(&[
        (CURSOR, db("of-the-user")),
        ("a/app/.cursor/mcp.json", db("of-a")),
        ("b/app/.cursor/mcp.json", db("of-b")),
    ]);
    for project in ["a/app", "b/app"] {
        home.imported(&["cursor", "--yes", "--write-client", &format!("--project={project}")]);
    }
    let token = |file: &str| home.json(file)["mcpServers"]["db"]["env"]["DB_TOKEN"].clone();
    assert_eq!(token(SERVERS), "of-the-user");
    assert_eq!(token(".config/dynamic-mcp/projects/app.json"), "of-a");
    assert_eq!(token(".config/dynamic-mcp/projects/app-2.json"), "of-b");
}

#[test]
fn an_option_gives_every_client_all_servers() {
    for (more, profiles) in [
        (&[][..], Some(json!({"cursor": ["*", "!git"], "copilot": ["*", "!fs"]}))),
        (&["--same-servers"][..], None),
    ] {
        let home = Home::of(&[(CURSOR, servers(&["fs"])), (COPILOT, servers(&["git"]))]);
        home.imported(&[&["--yes", "--write-client"], more].concat());
        assert_eq!(home.json(SERVERS).get("profiles").cloned(), profiles);
    }
    // Also the new servers of a further import, with their variables.
    let home = Home::of(&[(CURSOR, servers(&["fs"])), (COPILOT, servers(&["fs"]))]);
    home.imported(&["--yes", "--write-client"]);
    let mut file = home.json(CURSOR);
    file["mcpServers"]["new"] = json!({"command": "new-mcp", "env": {"NEW_KEY": "${env:NEW_KEY}"}});
    home.write(CURSOR, &file.to_string());
    home.imported(&["--yes", "--write-client", "--same-servers"]);
    assert_eq!(home.json(SERVERS).get("profiles"), None);
    assert!(home.json(COPILOT)["mcpServers"]["dyn"]["env"].get("NEW_KEY").is_some());
}

#[test]
fn what_codex_calls_without_a_question_goes_on_so() {
    let home = Home::empty();
    home.write(
        ".codex/config.toml",
        "[mcp_servers.gh]\ncommand = \"gh\"\n\n[mcp_servers.gh.tools.list]\napproval_mode = \"approve\"\n\n[mcp_servers.gh.tools.drop]\napproval_mode = \"prompt\"\n",
    );
    let before = home.client_files();
    let printed = home.imported(&["codex", "--yes", "--write-client"]);
    let written = home.text(".codex/config.toml");
    assert!(written.contains("\"flat\"") && written.contains("gh__list"), "{written}");
    assert!(!written.contains("gh__drop") && !printed.contains("permission"), "{written}\n{printed}");
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.client_files(), before);
}

#[test]
fn servers_that_gemini_trusts_are_counted_as_permissions() {
    let home = Home::empty();
    home.write(
        ".gemini/settings.json",
        r#"{"mcpServers": {"gh": {"command": "gh", "trust": true}, "b": {"command": "b"}}}"#,
    );
    let printed = home.imported(&["gemini", "--yes", "--write-client"]);
    assert!(
        printed.contains("Gemini CLI: 1 permission for tools of these servers will count no more"),
        "{printed}"
    );
}
