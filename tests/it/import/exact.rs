//! What cannot be carried over exactly stays in the client's file, named; what can be means the same afterwards.

use serde_json::{Value, json};

use super::{Home, loaded};
use config::Endpoint;

const SERVERS: &str = ".config/dynamic-mcp/servers.json";
const OPENCODE: &str = ".config/opencode/opencode.json";

fn opencode(rules: Value) -> Home {
    let mut file = json!({"mcp": {"gh": {"type": "local", "command": ["gh"]}, "fs": {"type": "local", "command": ["fs"]}}});
    file.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
    Home::of(&[(OPENCODE, file)])
}

#[test]
fn a_server_whose_rules_cannot_be_carried_over_stays_in_the_clients_file() {
    for (rules, reason) in [
        (
            json!({"tools": {"gh_*": false}, "agent": {"build": {"tools": {"gh_*": true}}}}),
            "`agent.build.tools`: gh_* true: it is for one agent",
        ),
        // The agent may be in a file of its own.
        (
            json!({"tools": {"gh*": false}}),
            "`tools`: gh* false: its tools are off, except for agents that turn them on",
        ),
        (
            json!({"agent": {"plan": {"permission": {"gh_push": "deny"}}}}),
            "`agent.plan.permission`: gh_push deny: it is for one agent",
        ),
        (
            json!({"permission": {"gh_del*": "deny", "gh_del_x": "allow"}}),
            "`permission`: gh_del_x allow: it is an exception",
        ),
        (
            json!({"permission": {"gh_merge": "ask"}}),
            "OpenCode asks before merge, and shows no questions of servers",
        ),
    ] {
        let home = opencode(rules.clone());
        let before = home.json(OPENCODE);
        let printed = home.imported(&["--yes", "--write-client"]);
        assert!(printed.contains(&format!("gh stays there: {reason}")), "{rules}: {printed}");
        assert_eq!(home.servers(), json!({"fs": {"command": "fs", "inherit_env": true}}), "{printed}");
        let after = home.json(OPENCODE);
        assert_eq!(after["mcp"]["gh"], before["mcp"]["gh"], "{printed}");
        assert!(after["mcp"].get("fs").is_none() && after["mcp"].get("dyn").is_some(), "{after}");
        home.imported(&["--undo", "--yes"]);
        assert_eq!(home.json(OPENCODE), before);
    }
    // What denies all tools denies those of dynamic-mcp.
    let home = opencode(json!({"tools": {"*": false}, "agent": {"build": {"tools": {"*": true}}}}));
    let printed = home.imported(&["--yes"]);
    let reason = "stays there: `tools`: * false: it denies every tool, and so those of dynamic-mcp";
    assert_eq!(printed.matches(reason).count(), 2, "{printed}");
    assert!(!home.file(SERVERS).exists(), "{printed}");
}

#[test]
fn a_server_that_starts_without_a_variable_starts_without_it_after_the_import() {
    let stdio = |reference: &str| {
        let env = json!({"K": reference, "D": "${OPTIONAL_KEY:-d}"});
        json!({"command": "s", "args": [format!("--key={reference}")], "env": env})
    };
    let remote = |reference: &str| json!({"url": "https://s.example/mcp", "headers": {"X": reference}});
    for (file, key, reference) in [
        (".claude.json", "mcpServers", "${OPTIONAL_KEY}"),
        (".gemini/settings.json", "mcpServers", "${OPTIONAL_KEY}"),
        (".copilot/mcp-config.json", "mcpServers", "${OPTIONAL_KEY}"),
        (".cursor/mcp.json", "mcpServers", "${env:OPTIONAL_KEY}"),
        (".config/Code/User/mcp.json", "servers", "${env:OPTIONAL_KEY}"),
    ] {
        let home = Home::of(&[(file, json!({key: {"l": stdio(reference), "r": remote(reference)}}))]);
        let printed = home.imported(&["--yes"]);
        let note = "Not set here, and so empty for their servers: OPTIONAL_KEY (l), OPTIONAL_KEY (r).";
        assert!(printed.contains(note), "{printed}");
        let config = loaded(&home.file(SERVERS));
        for (name, server) in &config.servers {
            let server = server.as_ref().unwrap_or_else(|error| panic!("{file} {name}: {error}"));
            match &server.endpoint {
                Endpoint::Stdio(stdio) => assert_eq!((&*stdio.args[0], &*stdio.env["K"]), ("--key=", "")),
                Endpoint::Http(http) => assert_eq!(http.headers, [("X".to_owned(), String::new())]),
            }
        }
        if reference == "${OPTIONAL_KEY}" {
            assert_eq!(home.servers()["l"]["env"]["D"], "${OPTIONAL_KEY:-d}", "a default stays");
        }
        assert!(home.imported(&["--yes"]).contains("There are no new servers"));
        // One that was imported before with a variable that must be set is the same server.
        let servers = home.text(SERVERS).replace("${OPTIONAL_KEY:-}", "${OPTIONAL_KEY}");
        home.write(SERVERS, &servers);
        assert!(home.imported(&["--yes"]).contains("There are no new servers"), "{servers}");
    }
    // Without its program or its address, no client gets a server to work.
    let entry =
        json!({"mcpServers": {"p": {"command": "${NOT_SET}/p"}, "a": {"url": "https://${NOT_SET}/mcp"}}});
    let home = Home::of(&[(".claude.json", entry)]);
    let printed = home.imported(&["--yes"]);
    assert!(printed.contains("These do not work yet:"), "{printed}");
    assert_eq!(home.servers()["p"]["command"], "${NOT_SET}/p");
}

#[test]
fn a_short_time_limit_of_one_client_cuts_no_call_of_another() {
    let entry = |timeout: Option<u64>| {
        let mut entry = json!({"command": "s"});
        timeout.into_iter().for_each(|timeout| entry["timeout"] = json!(timeout));
        json!({"mcpServers": {"s": entry}})
    };
    // Gemini CLI and Copilot CLI have milliseconds; without a limit, the default of 300 s counts.
    for (gemini, copilot, expected) in [
        (Some(5_000), Some(20_000), json!({"tools": 20})),
        (Some(20_000), Some(5_000), json!({"tools": 20})),
        (Some(5_000), None, Value::Null),
        (None, Some(5_000), Value::Null),
        (Some(600_000), None, json!({"tools": 600})),
        (Some(5_000), Some(5_000), json!({"tools": 5})),
    ] {
        let home = Home::of(&[
            (".gemini/settings.json", entry(gemini)),
            (".copilot/mcp-config.json", entry(copilot)),
        ]);
        let printed = home.imported(&["--yes", "--details"]);
        let servers = home.servers();
        assert_eq!(servers.as_object().unwrap().len(), 1, "{printed}");
        assert_eq!(servers["s"]["timeout"], expected, "{gemini:?} {copilot:?}: {printed}");
        assert_eq!(printed.contains("timeout.tools is "), gemini != copilot, "{printed}");
    }
    // A limit of servers.json stays, and is named.
    let home = Home::of(&[
        (SERVERS, json!({"mcpServers": {"s": {"command": "s", "timeout": {"tools": 5}}}})),
        (".copilot/mcp-config.json", entry(None)),
    ]);
    let printed = home.imported(&["--yes", "--details"]);
    let line = "timeout.tools is not set in Copilot CLI; it is 5 in ~/.config/dynamic-mcp/servers.json, which counts";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn a_version_does_not_tell_servers_apart() {
    let entry = |command: &str, args: &[&str]| json!({"command": command, "args": args});
    let all = |npm: &str, python: &str| {
        json!({"mcpServers": {
            "n": entry("npx", &["-y", npm, "--dir", "/x"]),
            "p": entry("uvx", &[python]),
            "f": entry("uvx", &["--from", python, "run"]),
            "t": entry("uv", &["tool", "run", python]),
        }})
    };
    let pinned = all("@a/b@1.2.3", "c==1.2");
    for (npm, python) in [("@a/b", "c"), ("@a/b@latest", "c@latest"), ("@a/b@2.0.0", "c==2")] {
        let home = Home::of(&[(SERVERS, pinned.clone()), (".cursor/mcp.json", all(npm, python))]);
        let printed = home.imported(&["--yes", "--write-client", "--details"]);
        assert_eq!(home.servers(), pinned["mcpServers"], "{printed}");
        let line = format!(
            "args.1 is {npm} in Cursor; it is @a/b@1.2.3 in ~/.config/dynamic-mcp/servers.json, which counts"
        );
        assert!(printed.contains(&line), "{printed}");
    }
    // Of two clients, the first one's version counts. Another package, or another argument, is another server.
    for (other, count) in [("@a/b@2.0.0", 1), ("@a/c@1.2.3", 2)] {
        let home = Home::of(&[
            (".cursor/mcp.json", json!({"mcpServers": {"n": entry("npx", &["-y", "@a/b@1.2.3"])}})),
            (".gemini/settings.json", json!({"mcpServers": {"n": entry("npx", &["-y", other])}})),
        ]);
        let printed = home.imported(&["--yes"]);
        assert_eq!(home.servers().as_object().unwrap().len(), count, "{printed}");
        assert_eq!(home.servers()["n"]["args"][1], "@a/b@1.2.3");
    }
}

#[test]
fn a_variable_that_an_entry_unsets_keeps_the_server_there() {
    let home = Home::of(&[(
        ".config/Code/User/mcp.json",
        json!({"servers": {"a": {"command": "a", "env": {"UNSET": null}}}}),
    )]);
    let printed = home.imported(&["--yes"]);
    assert!(printed.contains("a stays there: `env.UNSET` is null, which unsets the variable"), "{printed}");
}
