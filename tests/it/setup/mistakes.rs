//! Usual mistakes: each place that shows one says what is wrong, where, and what to write.

use std::path::Path;

use config::Overrides;
use config::env::Env;
use config::load::load;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shell::Shell;
use crate::support::{ProxyCommand, config_of, merged, pure_config, scripted_upstream, text_of};

/// What the file `name` of this directory says is wrong or doubtful.
fn said_of(dir: &Path, name: &str) -> String {
    let config = load(&[dir.join(name)], &Env::new([("HOME", "/home/u")], dir), &Overrides::default());
    let servers = config.servers.iter().filter_map(|(_, server)| server.as_ref().err());
    let all = config.errors.iter().chain(servers).cloned().chain(config.all_warnings());
    all.map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_wrong_file_is_described_with_what_to_write() {
    let dir = TempDir::new().unwrap();
    let server = |fields: &str| format!(r#"{{"mcpServers": {{"a": {{"command": "x", {fields}}}}}}}"#);
    for (text, expected) in [
        (
            "{\"mcpServers\": {\"a\": {\n\"args\": [\"}\" /* ] */\n}}}".to_owned(),
            "c.json:3:1: not valid JSON: a `]` is missing; the list that begins at 2:9 is not closed (write `]` before \
             this `}`)",
        ),
        (
            "{\"mcpServers\": [{\"a\": 1]}".to_owned(),
            "a `}` is missing; the object that begins at 1:17 is not closed (write `}` before this `]`)",
        ),
        (
            "{\"mcpServers\": {}}\n}".to_owned(),
            "c.json:2:1: not valid JSON: this `}` closes nothing (delete it)",
        ),
        ("mcpServers:\n  a:\n".to_owned(), "it looks like YAML (write {\"mcpServers\": {NAME: {\"command\""),
        ("{'mcpServers': {}}".to_owned(), "(write \"…\" in place of '…')"),
        (
            r#"{"mcpServers": [{"name": "files", "command": "x"}]}"#.to_owned(),
            "expected an object, found a list (write each server by its name: \"mcpServers\": {\"files\": {…}})",
        ),
        (
            server(r#""args": "-y x""#),
            "(write each argument as a string of its own: \"args\": [\"-y\", \"package\"])",
        ),
        (
            server(r#""env": ["A=b"]"#),
            "`env`: expected an object, found a list (write \"env\": {\"NAME\": \"value\"})",
        ),
        (
            server(r#""env": {"PORT": 8080}"#),
            "`env.PORT`: expected a string, found a number (put the value into quotation marks)",
        ),
        (
            server(r#""headers": "A: b""#),
            "`headers`: expected an object, found a string (write \"headers\": {\"Authorization\": \"Bearer …\"})",
        ),
        (
            server(r#""tools": {"deny": "x"}"#),
            "`tools.deny`: expected a list, found a string (write \"deny\": [\"…\"])",
        ),
        (server(r#""env_file": "no.env""#), "(create it, or write another path; a relative path starts at "),
        (
            server(r#""env": {"T": "{file:~/t}"}"#),
            "`{file:…}` cannot be read: no such file (create it, or write another path; a relative path starts at /",
        ),
        (r#"{"mcpServers": {"a": {"cmd": "x"}}}"#.to_owned(), "`url` for a remote server)\n"),
    ] {
        std::fs::write(dir.path().join("c.json"), &text).unwrap();
        let said = said_of(dir.path(), "c.json");
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn a_path_that_is_no_file_is_described_with_the_nearest_one() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("c.json"), "{}").unwrap();
    let said = said_of(dir.path(), "cc.json");
    assert!(
        said.contains(&format!("(did you mean {}? `dynamic-mcp import", dir.path().join("c.json").display())),
        "{said}"
    );
    std::fs::create_dir(dir.path().join("d.json")).unwrap();
    let said = said_of(dir.path(), "d.json");
    assert!(said.contains("write the path of a file in it, or remove it with `rmdir "), "{said}");
}

#[test]
fn a_warning_of_a_server_stands_beside_it_everywhere() {
    let odd = merged(scripted_upstream(&["--crash-at-start", "no"]), json!({"arguments": ["x"]}));
    let config = config_of([("odd", odd), ("fine", scripted_upstream(&[]))]);
    let warning = "unknown field `arguments` (did you mean `args`?)";
    let shell = Shell::new(&config);
    let (_, table, _) = shell.run(&["check", "odd"]);
    assert!(table.contains("    config warning: servers.json:1:") && table.contains(warning), "{table}");
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    let failure = proxy.call_failure("odd", "echo", json!({}));
    assert!(failure.contains("\nconfig warning: ") && failure.contains(warning), "{failure}");
    let status = proxy.call_meta_tool("get_status", json!({}));
    let text = status["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\n    config warning: ") && text.contains(warning), "{text}");
    let groups = &status["structuredContent"]["groups"];
    assert!(groups[0]["warnings"][0].as_str().unwrap().contains(warning), "{groups}");
    assert_eq!(groups[1]["warnings"], Value::Null);
    assert!(proxy.log().contains(&format!("server \"odd\": {warning}")), "{}", proxy.log());
}

#[test]
fn a_start_that_no_retry_can_mend_says_what_to_do_instead() {
    let crash = |stderr: &str| scripted_upstream(&["--crash-at-start", stderr]);
    let config = pure_config([
        ("module", crash("python3: No module named mcp_x")),
        ("variable", crash("Error: API_KEY is required")),
        ("npx", json!({"command": "npx", "args": ["-y"]})),
        ("joined", json!({"command": "npx", "args": ["-y @a/b s3cret"]})),
        ("ends", json!({"command": "true"})),
        ("other", crash("no such database")),
    ]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    for (group, expected) in [
        ("module", "; its Python has no module \"mcp_x\": correct the name in \"args\""),
        (
            "variable",
            "; it needs the variable API_KEY: write \"env\": {\"API_KEY\": \"…\"} into its config entry",
        ),
        ("npx", "npx gets no package to start: write \"args\": [\"-y\", \"PACKAGE\"]"),
        ("joined", "write \"args\": [\"-y\", \"@a/b\", …], each word as a string of its own"),
        ("ends", "this program is no MCP server, or it needs an argument to be one"),
    ] {
        let failure = proxy.call_failure(group, "echo", json!({}));
        assert!(failure.contains(expected) && !failure.contains("s3cret"), "{failure}");
        assert!(failure.contains("\nA retry does not help until this is fixed; tell the user."), "{failure}");
        let attempts = &proxy.group_status(group)["attempts"];
        assert_eq!(attempts, 1, "{group}");
    }
    let failure = proxy.call_failure("other", "echo", json!({}));
    assert!(failure.contains("\nCall again in 5 seconds to retry"), "{failure}");
}

#[test]
fn a_rule_that_matches_no_tool_is_named_and_a_hidden_tool_only_to_the_owner() {
    let config = config_of([
        ("deny", merged(scripted_upstream(&[]), json!({"tools": {"deny": ["ecko", "sleep"]}}))),
        ("allow", merged(scripted_upstream(&[]), json!({"tools": {"allow": ["ecko"]}}))),
    ]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    for group in ["deny", "allow"] {
        proxy.call_tool(group, "echo", json!({}));
    }
    let status = proxy.call_meta_tool("get_status", json!({}));
    let text = text_of(&status);
    assert!(
        text.contains("\n    `tools.deny`: \"ecko\" matches no tool; did you mean \"echo\"?\n"),
        "{text}"
    );
    assert!(text.contains("\n    `tools.allow`: \"ecko\" matches no tool"), "{text}");
    assert_eq!(text.matches("\"echo\"").count(), 1, "the other group hides its tool: {text}");
    assert!(!text.contains("sleep"), "{text}");
    proxy.wait_for_log("`tools.allow`: \"ecko\" matches no tool; did you mean \"echo\"?");
    proxy.wait_for_log("not used, by the rules in the config: \"sleep\" (tools.deny)");
    let (code, table, _) = Shell::new(&config).run(&["check"]);
    assert!(
        table.contains("note: `tools.allow`: \"ecko\" matches no tool; did you mean \"echo\"?"),
        "{table}"
    );
    assert!(code == 0 && table.contains("in the config: \"sleep\" (tools.deny)\n"), "{table}");
}

#[test]
fn a_call_without_what_it_needs_says_how_to_go_on() {
    let mut proxy =
        ProxyCommand::new().config(&pure_config([("g", scripted_upstream(&[]))])).start_initialized();
    let result = proxy.call_meta_tool("call_dynamic_tool", json!({"name": "echo", "args": {}}));
    let expected = "The tools of \"g\" are not known yet: name the group, which starts it.";
    assert!(text_of(&result).ends_with(expected), "{result}");
    let arguments = json!({"group": "g", "name": "echo", "args": [1]});
    let result = proxy.call_meta_tool("call_dynamic_tool", arguments);
    let expected = "get_dynamic_tools {\"group\":\"g\",\"tools\":[\"echo\"]} shows them.";
    assert!(text_of(&result).ends_with(expected), "{result}");
}
