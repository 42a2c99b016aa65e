//! Configs that are wrong: one clear message each, in the log and in `get_status`, and the process stays up.

use serde_json::{Value, json};

use crate::support::{Proxy, Setup, program, servers, text_of, upstream, with};

/// What `get_status` says, as text, and the object.
fn status(proxy: &mut Proxy) -> (String, Value) {
    let mut status = proxy.front("get_status", json!({}));
    (text_of(&status).to_owned(), status["structuredContent"].take())
}

#[test]
fn a_config_that_cannot_be_read_is_told_and_the_process_stays() {
    for (text, said) in [
        (None, "servers.json"),
        (Some(""), "empty"),
        (Some("hello {"), "servers.json:1:1"),
        (Some("[]"), "object"),
        (Some("{}"), "mcpServers"),
        (Some("{\"mcpServers\": {\"g\": {\"command\": \"x\",,}}}"), "servers.json:1:"),
    ] {
        let setup = Setup::new();
        let setup = match text {
            Some(text) => setup.config_text(text),
            None => setup.args(&["--config", "servers.json"]),
        };
        let mut proxy = setup.ready();
        let (shown, json) = status(&mut proxy);
        assert!(shown.contains(said), "{text:?}: {shown}");
        assert_eq!((&json["status"], &json["total"]), (&json!("error"), &json!(0)), "{text:?}: {json}");
        proxy.until_logged("is ready");
        assert_eq!(proxy.log().matches("ERROR").count(), 1, "{text:?}: {}", proxy.log());
        assert!(proxy.log().contains(said), "{text:?}: {}", proxy.log());
        let tools = proxy.ask("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 5);
        let call = proxy.failure("g", "echo", json!({}));
        assert!(call.contains("get_status"), "{call}");
    }
}

#[test]
fn what_is_wrong_with_one_entry_is_told_of_that_entry() {
    let good = upstream(&[]);
    for (entry, said) in [
        (json!({"command": "${NO_SUCH_VARIABLE}/x"}), "NO_SUCH_VARIABLE"),
        (json!({"command": program(), "args": "one"}), "args"),
        (json!({}), "command"),
        (json!({"command": "x", "url": "https://example.com"}), "url"),
        (json!(3), "object"),
    ] {
        let mut proxy = Proxy::new(&servers([("bad", entry.clone()), ("good", good.clone())]));
        let (shown, json) = status(&mut proxy);
        assert!(shown.contains("bad: failed") && shown.contains(said), "{entry}: {shown}");
        assert_eq!(json["groups"][0]["state"], "failed", "{json}");
        proxy.until_logged("is ready");
        assert_eq!(proxy.log().matches("ERROR").count(), 1, "{entry}: {}", proxy.log());
        assert!(proxy.log().contains(said), "{entry}: {}", proxy.log());
        let call = proxy.failure("bad", "echo", json!({}));
        assert!(call.contains(said) && call.contains("does not help"), "{entry}: {call}");
        assert_eq!(proxy.text("good", "echo", json!({"text": "works"})), "works");
    }
}

#[test]
fn unknown_fields_and_duplicates_are_warnings_or_errors_with_a_place() {
    let program = json!(program());
    for (text, said) in [
        (format!(r#"{{"mcpServers": {{"g": {{"command": {program}, "comand": "x"}}}}}}"#), "comand"),
        (
            format!(r#"{{"mcpServers": {{"g": {{"command": {program}}}, "g": {{"command": {program}}}}}}}"#),
            "`g` is defined twice",
        ),
        (format!(r#"{{"mcpServers": {{"g": {{"command": {program}}}}}, "setings": {{}}}}"#), "setings"),
    ] {
        let mut proxy = Setup::new().config_text(&text).ready();
        let (shown, _) = status(&mut proxy);
        assert!(shown.contains(said) && shown.contains("servers.json:1:"), "{text}: {shown}");
        proxy.until_logged("servers.json:1:");
    }
}

#[test]
fn a_command_that_is_not_found_names_the_path_that_was_searched() {
    let config = servers([
        ("name", json!({"command": "no-such-command-anywhere"})),
        ("own", json!({"command": "no-such-command-anywhere", "env": {"PATH": "/opt/own/bin"}})),
        ("path", json!({"command": "/no/such/file"})),
        ("directory", json!({"command": "/usr"})),
    ]);
    let mut proxy = Proxy::new(&config);
    for (group, part) in
        [("name", "/usr/bin"), ("own", "/opt/own/bin"), ("path", "/no/such/file"), ("directory", "/usr")]
    {
        let text = proxy.failure(group, "echo", json!({}));
        assert!(text.contains(part) && text.contains("does not help"), "{group}: {text}");
        assert_eq!(proxy.group(group)["state"], "failed");
    }
}

#[test]
fn no_secret_of_the_config_is_ever_written() {
    const CANARY: &str = "c4n4ry-s3cr3t";
    let url = format!("https://user:{CANARY}@127.0.0.1:9/mcp?key={CANARY}");
    let config = servers([
        ("env", with(upstream(&[]), json!({"env": {"TOKEN": CANARY}, "description": "Says it back."}))),
        ("ours", with(upstream(&[]), json!({"env": {"TOKEN": "${OURS}"}}))),
        ("crashes", with(upstream(&["--crash-at-start", "no"]), json!({"env": {"TOKEN": CANARY}}))),
        ("remote", json!({"url": url, "headers": {"Authorization": format!("Bearer {CANARY}")}})),
        ("wrong", json!({"url": url, "headers": {"Authorization": format!("a\n{CANARY}")}})),
        ("missing", json!({"command": "no-such-command", "args": [CANARY], "env": {"TOKEN": CANARY}})),
        ("number", with(upstream(&[]), json!({"env": {"TOKEN": [CANARY]}}))),
    ]);
    for (name, level) in [("DYNAMIC_MCP_LOG_LEVEL", "trace"), ("DYNAMIC_MCP_LOG", "trace")] {
        let setup = Setup::new().env(name, level).env("OURS", CANARY).config(&config);
        let mut proxy = setup.ready();
        let mut said = proxy.ask("tools/list", json!({})).to_string();
        for group in ["env", "ours", "crashes", "remote", "wrong", "missing", "number"] {
            said += &proxy.call(group, "echo", json!({"text": "x"})).to_string();
            said += &proxy.call(group, "crash", json!({})).to_string();
            said += &proxy.front("get_dynamic_tools", json!({"group": group})).to_string();
        }
        said += &proxy.front("get_status", json!({})).to_string();
        proxy.close_stdin();
        assert!(proxy.ends().0.success());
        assert!(proxy.log().contains("TRACE") || proxy.log().contains("DEBUG"), "{}", proxy.log());
        assert!(!said.contains(CANARY), "{said}");
        assert!(!proxy.log().contains(CANARY), "{}", proxy.log());
    }
}
