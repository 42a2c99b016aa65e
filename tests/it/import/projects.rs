//! What a client's files of a project say about the user's servers, and entries that read other config files.

use serde_json::{Value, json};

use super::Home;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";

fn fs(names: &[&str]) -> Value {
    let entry = |name: &&str| ((*name).to_owned(), json!({"command": format!("{name}-mcp")}));
    json!({"mcpServers": names.iter().map(entry).collect::<serde_json::Map<_, _>>()})
}

/// The servers that a profile chooses, with the rules that their entries and the profile have.
fn chosen(home: &Home, profile: &str) -> Vec<String> {
    let config = home.json(SERVERS);
    let profile = &config["profiles"][profile];
    let globs = profile.as_array().or_else(|| profile["servers"].as_array()).cloned().unwrap_or_default();
    let is_out = |name: &str| globs.contains(&json!(format!("!{name}")));
    let servers = config["mcpServers"].as_object().unwrap().iter();
    let on = servers.filter(|(name, entry)| entry["enabled"] != false && !is_out(name));
    on.map(|(name, _)| name.clone()).collect()
}

#[test]
fn what_gemini_turns_off_in_a_project_is_left_out_there() {
    let with = |mut file: Value, mcp: Value| {
        file["mcp"] = mcp;
        file
    };
    for mcp in [json!({"excluded": ["ux"]}), json!({"allowed": ["pp", "uy"]})] {
        let home = Home::of(&[
            (".gemini/settings.json", fs(&["ux", "uy"])),
            ("p/.gemini/settings.json", with(fs(&["pp"]), mcp)),
        ]);
        home.imported(&["--yes", "--write-client", "--project=p"]);
        assert_eq!(chosen(&home, "gemini-p"), ["uy", "pp"], "{}", home.text(SERVERS));
        assert_eq!(chosen(&home, "gemini"), ["ux", "uy"]);
    }
    // Without servers, the project has no place for an entry.
    let home = Home::of(&[
        (".gemini/settings.json", fs(&["ux"])),
        ("p/.gemini/settings.json", json!({"mcp": {"excluded": ["ux"]}})),
    ]);
    let printed = home.imported(&["--yes", "--write-client", "--project=p"]);
    assert!(
        printed.contains("`mcp.excluded`: ux: it is for the project, whose files have no servers"),
        "{printed}"
    );
}

#[test]
fn an_entry_of_a_project_is_put_over_the_users_one() {
    let home = Home::of(&[
        (
            ".config/opencode/opencode.json",
            json!({"mcp": {
                "ux": {"type": "local", "command": ["ux"], "environment": {"T": "user", "U": "1"}},
                "uy": {"type": "local", "command": ["uy"]}
            }}),
        ),
        ("p/opencode.json", json!({"mcp": {"ux": {"timeout": 9000}, "uy": {"enabled": false}}})),
    ]);
    home.write(".codex/config.toml", "[mcp_servers.cx]\ncommand = 'cx'\n");
    home.write("p/.codex/config.toml", "[mcp_servers.cx]\ndisabled_tools = ['drop']\n");
    home.imported(&["--yes", "--write-client", "--project=p"]);
    let servers = home.servers();
    assert_eq!(chosen(&home, "opencode-p"), ["ux-opencode"], "{}", home.text(SERVERS));
    assert_eq!(servers["ux-opencode"]["env"], servers["ux"]["env"]);
    assert_eq!(chosen(&home, "opencode"), ["ux", "uy"]);
    assert_eq!(
        (chosen(&home, "codex"), chosen(&home, "codex-p")),
        (vec!["cx".to_owned()], vec!["cx-codex".to_owned()])
    );
    assert_eq!(servers["cx-codex"]["tools"], json!({"deny": ["drop"]}));
}

#[test]
fn a_ban_of_the_users_holds_in_a_project_that_was_imported_before() {
    let home = Home::of(&[
        (".cursor/mcp.json", fs(&["u"])),
        (".gemini/settings.json", fs(&["u"])),
        ("p/.cursor/mcp.json", fs(&["pp"])),
    ]);
    home.imported(&["--yes", "--write-client", "--project=p"]);
    for file in [".cursor/mcp.json", ".gemini/settings.json"] {
        let mut content = home.json(file);
        content["mcpServers"]["n"] = json!({"command": "n-mcp"});
        home.write(file, &content.to_string());
    }
    home.write(".cursor/cli-config.json", r#"{"permissions": {"deny": ["Mcp(n:drop)"]}}"#);
    home.imported(&["--yes", "--write-client"]);
    let profiles = home.json(SERVERS)["profiles"].clone();
    for name in ["cursor", "cursor-p"] {
        assert_eq!(profiles[name]["tools"]["n"], json!({"deny": ["drop"]}), "{profiles}");
    }
}

#[test]
fn servers_that_claude_code_turns_off_for_all_projects_are_off() {
    let home = Home::of(&[
        ("p/.mcp.json", fs(&["pp", "pq"])),
        (".claude/settings.json", json!({"disabledMcpjsonServers": ["pq"]})),
    ]);
    home.imported(&["--yes", "--write-client", "--project=p"]);
    assert_eq!(chosen(&home, "claude-code-p"), ["pp"]);
}

#[test]
fn an_entry_that_reads_another_config_file_stays_as_it_is() {
    for env in [json!({}), json!({"DYNAMIC_MCP_CONFIG": "/HOME/cfg.json", "DYNAMIC_MCP_PROFILE": "work"})] {
        let home = Home::of(&[
            ("cfg.json", json!({"mcpServers": {"own": {"command": "own"}}, "profiles": {"work": ["own"]}})),
            (".gemini/settings.json", fs(&["g"])),
        ]);
        let path = home.path().to_str().unwrap().to_owned();
        let mut own = json!({"command": "/x/dynamic-mcp"});
        match env.as_object().unwrap().is_empty() {
            true => own["args"] = json!(["--config", home.file("cfg.json"), "--profile", "work"]),
            false => own["env"] = serde_json::from_str(&env.to_string().replace("/HOME", &path)).unwrap(),
        }
        let mut file = fs(&["b"]);
        file["mcpServers"]["mine"] = own;
        home.write(".cursor/mcp.json", &file.to_string());
        let before = home.text(".cursor/mcp.json");
        let printed = home.imported(&["--yes", "--write-client"]);
        let line = "Cursor: `mine` in ~/.cursor/mcp.json reads ~/cfg.json and not ~/.config/dynamic-mcp/servers.json, so the file is left as it is";
        assert!(printed.contains(line), "{printed}");
        assert_eq!(home.text(".cursor/mcp.json"), before);
        assert!(!printed.contains("Cursor uses dynamic-mcp already"), "{printed}");
    }
}

#[test]
fn each_edition_of_vs_code_keeps_its_servers_and_each_input_its_variable() {
    let server = |inputs: &[(&str, &str)]| {
        let entry = |(name, input): &(&str, &str)| {
            (
                (*name).to_owned(),
                json!({"command": format!("{name}-mcp"), "env": {"KEY": format!("${{input:{input}}}")}}),
            )
        };
        json!({"servers": inputs.iter().map(entry).collect::<serde_json::Map<_, _>>()})
    };
    let home = Home::of(&[
        (".config/Code/User/mcp.json", server(&[("a", "api-key"), ("b", "api_key"), ("c", "API.KEY")])),
        (".config/Code - Insiders/User/mcp.json", server(&[("prod", "api-key")])),
        ("p/.vscode/mcp.json", server(&[("q", "api-key")])),
    ]);
    home.imported(&["--yes", "--write-client", "--project=p"]);
    let servers = home.servers();
    let key = |name: &str| servers[name]["env"]["KEY"].as_str().unwrap().to_owned();
    assert_eq!(key("a"), "${DYN_API_KEY}");
    let distinct: std::collections::BTreeSet<_> = ["a", "b", "c", "q"].map(key).into();
    assert_eq!(distinct.len(), 4, "{servers}");
    let set = home.json(".config/Code/User/mcp.json")["servers"]["dyn"]["env"].clone();
    assert_eq!((set.as_object().unwrap().len(), &set["DYN_API_KEY"]), (3, &json!("${input:api-key}")));
    assert_eq!(chosen(&home, "vscode"), ["a", "b", "c"]);
    assert_eq!(chosen(&home, "vscode-insiders"), ["prod"]);
}

#[test]
fn a_server_that_a_client_turns_off_later_is_left_out_of_its_profile() {
    let prod = json!({"command": "prod-mcp"});
    let home =
        Home::of(&[(".cursor/mcp.json", json!({"mcpServers": {"prod": prod, "x": {"command": "x"}}}))]);
    home.imported(&["--yes", "--write-client"]);
    let off = json!({"mcp": {"prod": {"type": "local", "command": ["prod-mcp"], "enabled": false}}});
    home.write(".config/opencode/opencode.json", &off.to_string());
    home.imported(&["--yes", "--write-client", "opencode"]);
    assert_eq!(chosen(&home, "opencode"), Vec::<String>::new(), "{}", home.text(SERVERS));
    // Also if the client uses this program already.
    let mut file = home.json(".cursor/mcp.json");
    file["mcpServers"]["prod"] = json!({"command": "prod-mcp", "disabled": true});
    home.write(".cursor/mcp.json", &file.to_string());
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(chosen(&home, "cursor"), ["x"], "{}", home.text(SERVERS));
    // What Gemini CLI turns off by name is named.
    home.write(".gemini/settings.json", &fs(&["g"]).to_string());
    home.imported(&["--yes", "--write-client", "gemini"]);
    let mut file = home.json(".gemini/settings.json");
    file["mcp"] = json!({"excluded": ["g"]});
    home.write(".gemini/settings.json", &file.to_string());
    home.write(".copilot/mcp-config.json", &fs(&["g"]).to_string());
    let printed = home.imported(&["--yes", "--write-client", "gemini", "copilot"]);
    let line = "`mcp.excluded`: g: it turns off g, which servers.json has already; write `!g` into the profile of the client";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn what_a_later_import_finds_and_cannot_have_is_named() {
    let entry = json!({"command": "aws-mcp"});
    let home = Home::of(&[
        (
            ".cursor/mcp.json",
            json!({"mcpServers": {"aws": entry, "off": {"command": "off", "disabled": true}}}),
        ),
        (".config/opencode/opencode.json", json!({"mcp": {"ux": {"type": "local", "command": ["ux"]}}})),
    ]);
    home.imported(&["--yes", "--write-client"]);
    home.write(".claude.json", &json!({"mcpServers": {"aws": entry, "off": {"command": "off"}}}).to_string());
    home.write("p/opencode.json", &json!({"mcp": {"ux": {"enabled": false}}}).to_string());
    let printed = home.imported(&["--yes", "--write-client", "--project=p"]);
    for line in [
        "inherit_env is true in Claude Code; it is not set in ~/.config/dynamic-mcp/servers.json, which counts",
        "it is disabled in ~/.config/dynamic-mcp/servers.json, and so for every client; `dynamic-mcp enable off` turns it on",
        "ux stays there: what it changes of a server that was imported before is not carried over",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
}

#[test]
fn what_claude_code_and_gemini_turn_off_elsewhere_is_off() {
    let home = Home::of(&[
        (".claude.json", fs(&["gh", "evil", "other"])),
        (
            ".claude/settings.json",
            json!({"deniedMcpServers": [{"serverName": "evil"}], "allowedMcpServers": [{"serverName": "gh"}, {"serverName": "evil"}]}),
        ),
        (".gemini/settings.json", fs(&["g", "prod"])),
        (".gemini/mcp-server-enablement.json", json!({"prod": {"enabled": false}})),
    ]);
    home.write(".gemini/policies/my.toml", "[[rule]]\ndecision = 'deny'\n");
    let printed = home.imported(&["--yes", "--write-client"]);
    assert_eq!(chosen(&home, "claude-code"), ["gh"], "{}", home.text(SERVERS));
    assert_eq!(chosen(&home, "gemini"), ["g"]);
    assert!(
        printed.contains("Note: Gemini CLI has policies in ~/.gemini/policies, which are not read"),
        "{printed}"
    );
}

#[test]
fn an_input_of_the_users_file_is_not_taken_for_one_of_the_project() {
    let server = |name: &str| json!({"servers": {name: {"command": name, "env": {"KEY": "${input:key}"}}}});
    let home = Home::of(&[(".config/Code/User/mcp.json", server("u")), ("p/.vscode/mcp.json", server("q"))]);
    let printed = home.imported(&["--yes", "--write-client", "--project=p"]);
    let set = home.json("p/.vscode/mcp.json")["servers"]["dyn"]["env"].clone();
    assert!(set.get("DYN_KEY").is_none() && set.as_object().unwrap().len() == 1, "{set}");
    let line =
        "VS Code (project): u needs ${input:key} of the user's file, which the project's file does not have";
    assert!(printed.contains(line), "{printed}");
}
