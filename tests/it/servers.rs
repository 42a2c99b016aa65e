//! `dynamic-mcp add`, `remove`, `enable` and `disable`.

use std::fs;

use serde_json::json;

use crate::shell::Shell;
use crate::support::{Proxy, config_of, merged, scripted_upstream, text_of};

const TEXT: &str = r#"{
  // My servers
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "files"] }, // the first
    "docs": {
      "url": "https://docs.example/mcp",
      "disabled": true // too slow
    }
  }
}
"#;

/// The commands of one user, on a config with this text.
fn shell_with(text: &str) -> (Shell, impl Fn() -> String) {
    let shell = Shell::new(&json!({}));
    let file = shell.home().join("servers.json");
    fs::write(&file, text).unwrap();
    (shell, move || fs::read_to_string(&file).unwrap())
}

#[test]
fn servers_are_edited_and_comments_stay() {
    let (shell, text) = shell_with(TEXT);
    let (code, stdout, stderr) =
        shell.run(&["add", "time", "--env", "TZ=Europe/Rome", "--", "uvx", "mcp-server-time", "--local"]);
    assert_eq!(code, 0);
    // Not every machine has it.
    assert!(
        stderr.is_empty() || stderr.contains("it does not work yet: command \"uvx\" not found"),
        "{stderr}"
    );
    assert!(
        stdout.starts_with("time: added to ") && stdout.contains("`dynamic-mcp check time --config "),
        "{stdout}"
    );
    let added = text();
    let entry = "\"time\": {\n      \"command\": \"uvx\",\n      \"args\": [\"mcp-server-time\", \"--local\"],\n      \"env\": {\n        \"TZ\": \"Europe/Rome\"\n      }\n    }";
    assert!(added.contains(entry), "{added}");
    for comment in ["// My servers", "}, // the first\n", "true // too slow"] {
        assert!(added.contains(comment), "{comment}: {added}");
    }
    assert_eq!(shell.run(&["add", "web", "--", "npx", "-y", "@playwright/mcp@latest"]).0, 0);
    assert!(text().contains("\"stateful\": true") && !added.contains("stateful"), "{}", text());
    assert_eq!(shell.run(&["remove", "web"]).0, 0);
    assert_eq!(shell.run(&["disable", "files"]).0, 0);
    let disabled = "\"args\": [\"-y\", \"files\"],\n      \"enabled\": false\n    }, // the first\n";
    assert!(text().contains(disabled), "{}", text());
    assert_eq!(shell.run(&["enable", "docs", "files"]).0, 0);
    assert!(!text().contains("abled\":"), "{}", text());
    assert!(shell.run(&["enable", "docs"]).1.contains("docs: is enabled already in "));
    let (code, stdout, _) = shell.run(&["remove", "time", "docs"]);
    assert_eq!((code, stdout.lines().count()), (0, 2));
    assert!(text().contains("\"command\": \"npx\",\n      \"args\": [\"-y\", \"files\"]\n"), "{}", text());
    assert!(!text().contains("docs") && text().contains("// My servers"), "{}", text());
}

#[test]
fn what_cannot_be_done_changes_nothing_and_says_what_to_do() {
    let (shell, text) = shell_with(TEXT);
    for (args, code, why) in [
        (&["add", "files", "--", "x"][..], 2, "`dynamic-mcp remove files --config "),
        (&["add", "x"], 2, "<COMMAND>"),
        (&["add", "x", "--url", "https://x", "--header", "nothing"], 2, "write --header 'NAME: VALUE'"),
        (&["remove", "nope"], 2, "there is no such server; the config has files, docs"),
    ] {
        let (actual, _, stderr) = shell.run(args);
        assert!(actual == code && stderr.contains(why), "{args:?}: {actual} {stderr}");
    }
    assert_eq!(text(), TEXT);
    let broken = "{\"mcpServers\": {";
    fs::write(shell.home().join("servers.json"), broken).unwrap();
    let (code, _, stderr) = shell.run(&["disable", "files"]);
    assert!(code == 78 && stderr.contains("servers.json:1:17: not valid JSON: a `}` is missing"), "{stderr}");
    assert_eq!(text(), broken);
}

#[test]
fn a_new_file_is_made_and_other_formats_are_edited() {
    let (shell, text) = shell_with("");
    fs::remove_file(shell.home().join("servers.json")).unwrap();
    let header = "Authorization: Bearer ${DOCS_TOKEN}";
    assert_eq!(shell.run(&["add", "docs", "--url", "https://docs.example/mcp", "--header", header]).0, 0);
    assert!(text().contains("\"Authorization\": \"Bearer ${DOCS_TOKEN}\""), "{}", text());
    let toml = "# Mine\n[mcp_servers.files]\ncommand = \"files\" # fast\n";
    let codex = shell.home().join("config.toml");
    fs::write(&codex, toml).unwrap();
    let run = |command: &str| shell.run(&[command, "files", "--config", codex.to_str().unwrap()]);
    assert_eq!(run("disable").0, 0);
    let disabled = fs::read_to_string(&codex).unwrap();
    assert!(disabled.starts_with(toml) && disabled.contains("enabled = false"), "{disabled}");
    assert_eq!(run("enable").0, 0);
    assert_eq!(fs::read_to_string(&codex).unwrap(), toml);
}

#[test]
fn a_server_that_is_named_as_a_key_of_another_version_is_no_place_for_servers() {
    let (shell, text) = shell_with(r#"{"mcp": {"servers": {"type": "local", "command": ["x"]}}}"#);
    assert_eq!(shell.run(&["add", "time", "--", "uvx"]).0, 0);
    let root: serde_json::Value = serde_json::from_str(&text()).unwrap();
    assert_eq!(
        root,
        json!({"mcp": {"servers": {"type": "local", "command": ["x"]}, "time": {"command": "uvx"}}})
    );
}

#[test]
fn a_disabled_server_says_so_wherever_it_is_named() {
    let shell = Shell::new(&config_of([
        ("a", scripted_upstream(&[])),
        ("b", merged(scripted_upstream(&[]), json!({"enabled": false}))),
    ]));
    let mut proxy = Proxy::new(&config_of([
        ("a", scripted_upstream(&[])),
        ("b", merged(scripted_upstream(&[]), json!({"disabled": true}))),
    ]));
    let remedy = "b is disabled; run `dynamic-mcp enable b --config ";
    let failure = proxy.call_failure("b", "echo", json!({}));
    assert!(failure.starts_with("Group ") && failure.contains(remedy), "{failure}");
    for (tool, arguments) in [
        ("get_dynamic_tools", json!({"group": "b"})),
        ("get_status", json!({"group": "b"})),
        ("b__echo", json!({})),
    ] {
        let response = proxy.request("tools/call", json!({"name": tool, "arguments": arguments})).to_string();
        assert!(response.contains(remedy), "{tool}: {response}");
    }
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert!(text_of(&status).contains("\n- b: disabled; run `dynamic-mcp enable b"), "{status}");
    assert_eq!(status["structuredContent"]["disabled"], json!(["b"]));

    for args in [
        &["tools", "b"][..],
        &["call", "b", "echo", "{}"],
        &["check", "b"],
        &["search", "x", "--server", "b"],
    ] {
        let (code, stdout, stderr) = shell.run(args);
        assert!(
            code != 0 && (stdout + &stderr).contains("disabled; run `dynamic-mcp enable b --config "),
            "{args:?}"
        );
    }
    let (code, stdout, stderr) = shell.run(&["check"]);
    assert!(code == 0 && stdout.contains("\nb: disabled; run `dynamic-mcp enable b"), "{stdout}{stderr}");
}

#[test]
fn a_server_that_is_removed_leaves_nothing_in_the_profiles() {
    let text = r#"{
  "mcpServers": { "a": { "command": "x" }, "b": { "command": "x" } },
  "profiles": {
    "codex": ["*", "!a"], // of Codex
    "only": ["a"],
    "careful": { "servers": ["*"], "tools": { "a": { "deny": ["y"] } } }
  }
}
"#;
    let (shell, text) = shell_with(text);
    let (code, stdout, stderr) = shell.run(&["remove", "a"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("servers.json; taken out of profiles: "), "{stdout}");
    assert!(stdout.contains("the profiles only; a client whose entry has --profile"), "{stdout}");
    let left = text();
    assert!(left.contains("\"codex\": [\"*\"], // of Codex") && !left.contains("\"a\""), "{left}");
    assert!(!left.contains("only") && left.contains("\"careful\""), "{left}");
    // Only a profile names the other.
    fs::write(shell.home().join("servers.json"), left.replace("[\"*\"], //", "[\"*\", \"!gone\"], //"))
        .unwrap();
    assert_eq!(shell.run(&["remove", "gone"]).0, 0);
    assert_eq!(text(), left);
    assert_eq!(shell.run(&["remove", "gone"]).0, 2);
}
