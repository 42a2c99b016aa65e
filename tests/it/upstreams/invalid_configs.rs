//! Invalid configs: each error is in the log, in `get_status` and in calls, the process stays up, and no secret of the
//! config is ever written.

use serde_json::{Value, json};

use crate::support::{
    Proxy, ProxyCommand, merged, pure_config, scripted_upstream, scripted_upstream_program, text_of,
};

/// The text and the structured result of `get_status`.
fn status_texts(proxy: &mut Proxy) -> (String, Value) {
    let mut status = proxy.call_meta_tool("get_status", json!({}));
    (text_of(&status).to_owned(), status["structuredContent"].take())
}

#[test]
fn an_unreadable_config_is_reported_and_the_process_stays_up() {
    for (text, part) in [
        (None, "servers.json"),
        (Some(""), "empty"),
        (Some("hello {"), "servers.json:1:1"),
        (Some("[]"), "object"),
        (Some("{}"), "mcpServers"),
        (Some("{\"mcpServers\": {\"g\": {\"command\": \"x\",,}}}"), "servers.json:1:"),
    ] {
        let command = ProxyCommand::new();
        let command = match text {
            Some(text) => command.config_text(text),
            None => command.args(&["--config", "servers.json"]),
        };
        let mut proxy = command.start_initialized();
        let (shown, json) = status_texts(&mut proxy);
        assert!(shown.contains(part), "{text:?}: {shown}");
        assert_eq!((&json["status"], &json["total"]), (&json!("error"), &json!(0)), "{text:?}: {json}");
        proxy.wait_for_log("is ready");
        assert_eq!(proxy.log().matches("ERROR").count(), 1, "{text:?}: {}", proxy.log());
        assert!(proxy.log().contains(part), "{text:?}: {}", proxy.log());
        let tools = proxy.request("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 5);
        let call = proxy.call_failure("g", "echo", json!({}));
        assert!(call.contains("get_status"), "{call}");
    }
}

#[test]
fn an_invalid_entry_is_reported_for_its_group_and_others_work() {
    let good = scripted_upstream(&[]);
    for (entry, part) in [
        (json!({"command": "${NO_SUCH_VARIABLE}/x"}), "NO_SUCH_VARIABLE"),
        (json!({"command": scripted_upstream_program(), "args": "one"}), "args"),
        (json!({}), "command"),
        (json!({"command": "x", "url": "https://example.com"}), "url"),
        (json!(3), "object"),
    ] {
        let mut proxy = Proxy::new(&pure_config([("bad", entry.clone()), ("good", good.clone())]));
        let (shown, json) = status_texts(&mut proxy);
        assert!(shown.contains("bad: failed") && shown.contains(part), "{entry}: {shown}");
        assert_eq!(json["groups"][0]["state"], "failed", "{json}");
        proxy.wait_for_log("is ready");
        assert_eq!(proxy.log().matches("ERROR").count(), 1, "{entry}: {}", proxy.log());
        assert!(proxy.log().contains(part), "{entry}: {}", proxy.log());
        let call = proxy.call_failure("bad", "echo", json!({}));
        assert!(call.contains(part) && call.contains("does not help"), "{entry}: {call}");
        assert_eq!(proxy.call_text("good", "echo", json!({"text": "works"})), "works");
    }
}

#[test]
fn unknown_fields_and_duplicates_are_reported_with_their_position() {
    let program = json!(scripted_upstream_program());
    for (text, part) in [
        (format!(r#"{{"mcpServers": {{"g": {{"command": {program}, "comand": "x"}}}}}}"#), "comand"),
        (
            format!(r#"{{"mcpServers": {{"g": {{"command": {program}}}, "g": {{"command": {program}}}}}}}"#),
            "`g` is defined twice",
        ),
        (format!(r#"{{"mcpServers": {{"g": {{"command": {program}}}}}, "setings": {{}}}}"#), "setings"),
    ] {
        let mut proxy = ProxyCommand::new().config_text(&text).start_initialized();
        let (shown, _) = status_texts(&mut proxy);
        assert!(shown.contains(part) && shown.contains("servers.json:1:"), "{text}: {shown}");
        proxy.wait_for_log("servers.json:1:");
    }
}

#[test]
#[cfg_attr(windows, ignore = "PATH is another one")]
fn the_error_of_a_missing_command_names_the_searched_path() {
    let config = pure_config([
        ("name", json!({"command": "no-such-command-anywhere"})),
        ("own", json!({"command": "no-such-command-anywhere", "env": {"PATH": "/opt/own/bin"}})),
        ("path", json!({"command": "/no/such/file"})),
        ("directory", json!({"command": "/usr"})),
    ]);
    let mut proxy = Proxy::new(&config);
    for (group, part) in
        [("name", "/usr/bin"), ("own", "/opt/own/bin"), ("path", "/no/such/file"), ("directory", "/usr")]
    {
        let text = proxy.call_failure(group, "echo", json!({}));
        assert!(text.contains(part) && text.contains("does not help"), "{group}: {text}");
        assert_eq!(proxy.group_status(group)["state"], "failed");
    }
}

#[test]
fn no_secret_of_the_config_is_ever_written() {
    const CANARY: &str = "c4n4ry-s3cr3t";
    let url = format!("https://user:{CANARY}@127.0.0.1:9/mcp?key={CANARY}");
    let config = pure_config([
        (
            "env",
            merged(scripted_upstream(&[]), json!({"env": {"TOKEN": CANARY}, "description": "Says it back."})),
        ),
        ("ours", merged(scripted_upstream(&[]), json!({"env": {"TOKEN": "${OURS}"}}))),
        (
            "crashes",
            merged(scripted_upstream(&["--crash-at-start", "no"]), json!({"env": {"TOKEN": CANARY}})),
        ),
        ("remote", json!({"url": url, "headers": {"Authorization": format!("Bearer {CANARY}")}})),
        ("wrong", json!({"url": url, "headers": {"Authorization": format!("a\n{CANARY}")}})),
        ("missing", json!({"command": "no-such-command", "args": [CANARY], "env": {"TOKEN": CANARY}})),
        ("number", merged(scripted_upstream(&[]), json!({"env": {"TOKEN": [CANARY]}}))),
    ]);
    let groups = ["env", "ours", "crashes", "remote", "wrong", "missing", "number"];
    let mut proxies = ["DYNAMIC_MCP_LOG_LEVEL", "DYNAMIC_MCP_LOG"].map(|name| {
        let command = ProxyCommand::new().env(name, "trace").env("OURS", CANARY).config(&config);
        let mut proxy = command.start_initialized();
        // At the same time, because failing groups are retried for some seconds.
        let calls = groups.map(|group| proxy.send_call(group, "echo", json!({"text": "x"})));
        (proxy, calls)
    });
    for (proxy, calls) in &mut proxies {
        let mut output = proxy.request("tools/list", json!({})).to_string();
        for (group, id) in groups.iter().zip(calls) {
            output += &proxy.response(*id).line;
            output += &proxy.call_tool(group, "crash", json!({})).to_string();
            output += &proxy.call_meta_tool("get_dynamic_tools", json!({"group": group})).to_string();
        }
        output += &proxy.call_meta_tool("get_status", json!({})).to_string();
        proxy.close_stdin();
        assert!(proxy.wait_for_exit().0.success());
        assert!(proxy.log().contains("TRACE") || proxy.log().contains("DEBUG"), "{}", proxy.log());
        assert!(!output.contains(CANARY), "{output}");
        assert!(!proxy.log().contains(CANARY), "{}", proxy.log());
    }
}
