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
fn a_project_that_turns_off_the_users_servers_keeps_its_own() {
    for mcp in [json!({"excluded": ["ux"]}), json!({"allowed": ["pp", "uy"]})] {
        let mut project = fs(&["pp"]);
        project["mcp"] = mcp;
        let home =
            Home::of(&[(".gemini/settings.json", fs(&["ux", "uy"])), ("p/.gemini/settings.json", project)]);
        let printed = home.imported(&["--yes", "--write-client", "--project=p"]);
        assert!(printed.contains("the project has a rule for ux, which is your own server"), "{printed}");
        assert_eq!(chosen(&home, "gemini"), ["ux", "uy"]);
    }
}

#[test]
fn an_entry_of_a_project_that_is_put_over_the_users_one_stays() {
    let home = Home::of(&[
        (
            ".config/opencode/opencode.json",
            json!({"mcp": {
                "ux": {"type": "local", "command": ["ux"], "environment": {"T": "user", "U": "1"}},
                "uy": {"type": "local", "command": ["uy"]}
            }}),
        ),
        (
            "p/opencode.json",
            json!({"mcp": {"ux": {"timeout": 9000}, "uy": {"enabled": false}, "pp": {"type": "local", "command": ["pp"]}}}),
        ),
    ]);
    let printed = home.imported(&["--yes", "--write-client", "--project=p"]);
    assert_eq!(
        printed.matches("x stays there").count() + printed.matches("y stays there").count(),
        4,
        "{printed}"
    );
    assert_eq!(home.json("p/opencode.json")["mcp"]["ux"], json!({"timeout": 9000}));
    let project = home.json(".config/dynamic-mcp/projects/p.json");
    assert_eq!(project["mcpServers"].as_object().unwrap().len(), 1, "{project}");
}

#[test]
fn servers_that_claude_code_turns_off_for_all_projects_are_off() {
    let home = Home::of(&[
        ("p/.mcp.json", fs(&["pp", "pq"])),
        (".claude/settings.json", json!({"disabledMcpjsonServers": ["pq"]})),
    ]);
    home.imported(&["--yes", "--write-client", "--project=p"]);
    let servers = home.json(".config/dynamic-mcp/projects/p.json")["mcpServers"].take();
    assert_eq!((servers["pp"].get("enabled"), &servers["pq"]["enabled"]), (None, &json!(false)));
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
        let line = "Cursor: `mine` in ~/.cursor/mcp.json reads ~/cfg.json, so the file is left as it is";
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
    ]);
    home.imported(&["--yes", "--write-client"]);
    let servers = home.servers();
    let key = |name: &str| servers[name]["env"]["KEY"].as_str().unwrap().to_owned();
    assert_eq!(key("a"), "${DYN_API_KEY}");
    let distinct: std::collections::BTreeSet<_> = ["a", "b", "c"].map(key).into();
    assert_eq!(distinct.len(), 3, "{servers}");
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
}

#[test]
fn what_a_later_import_finds_and_cannot_have_is_named() {
    let entry = json!({"command": "aws-mcp"});
    let home = Home::of(&[(
        ".cursor/mcp.json",
        json!({"mcpServers": {"aws": entry, "off": {"command": "off", "disabled": true}}}),
    )]);
    home.imported(&["--yes", "--write-client"]);
    home.write(".claude.json", &json!({"mcpServers": {"aws": entry, "off": {"command": "off"}}}).to_string());
    let printed = home.imported(&["--yes", "--write-client", "--details"]);
    for line in [
        "inherit_env is true in Claude Code; it is not set in ~/.config/dynamic-mcp/servers.json, which counts",
        "off is disabled in ~/.config/dynamic-mcp/servers.json, and so for every client; `dynamic-mcp enable off` turns it on",
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
    assert!(printed.contains("Gemini CLI: its policies in ~/.gemini/policies are not read"), "{printed}");
}

#[test]
fn a_project_whose_client_has_inputs_elsewhere_keeps_its_servers() {
    let server = |name: &str| json!({"servers": {name: {"command": name, "env": {"KEY": "${input:key}"}}}});
    let home = Home::of(&[(".config/Code/User/mcp.json", server("u")), ("p/.vscode/mcp.json", server("q"))]);
    let printed = home.imported(&["--yes", "--write-client", "--project=p"]);
    let line = "q stays there: u of your own file has an input, which the project's file does not know";
    assert!(printed.contains(line), "{printed}");
    assert_eq!(home.json("p/.vscode/mcp.json"), server("q"));
    // Its own input is a variable of its own.
    let home = Home::of(&[("p/.vscode/mcp.json", server("q"))]);
    home.imported(&["--yes", "--write-client", "--project=p"]);
    let set = home.json("p/.vscode/mcp.json")["servers"]["dyn"]["env"].clone();
    let (name, value) = set.as_object().unwrap().iter().next().unwrap();
    assert!(name.starts_with("DYN_KEY_") && value == "${input:key}", "{set}");
}

#[test]
fn the_local_servers_of_all_projects_come_in_one_command() {
    let home = Home::empty();
    for dir in ["one", "two"] {
        std::fs::create_dir(home.file(dir)).unwrap();
    }
    let place = |name: &str| home.file(name).to_str().unwrap().to_owned();
    let server = |name: &str| json!({"mcpServers": {name: {"command": name}}});
    let file = json!({
        "mcpServers": {"mine": {"command": "mine"}},
        "projects": {place("one"): server("a"), place("gone"): server("b"), place("two"): server("c")},
    });
    home.write(".claude.json", &file.to_string());
    let before = home.client_files();
    let printed = home.imported(&["claude-code", "--write-client", "--yes", "--all-projects"]);
    for (name, server) in [("servers", "mine"), ("projects/one", "a"), ("projects/two", "c")] {
        let config = home.json(&format!(".config/dynamic-mcp/{name}.json"));
        assert_eq!(config["mcpServers"][server]["command"], server, "{printed}");
    }
    let written = home.json(".claude.json");
    let names =
        |dir: &str| written["projects"][place(dir)]["mcpServers"].as_object().unwrap().keys().cloned();
    assert_eq!(names("one").chain(names("two")).collect::<Vec<_>>(), ["dyn", "dyn"], "{printed}");
    assert_eq!(names("gone").collect::<Vec<_>>(), ["b"], "a directory that is gone stays");
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.client_files(), before);
}
