//! Notes about groups that cannot be used: in the tool list, in `instructions` and in search.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, config_of, merged, pure_config, scripted_upstream, text_of};

/// The enum of groups and the description of `get_dynamic_tools`.
fn groups_tool(proxy: &mut Proxy) -> (Vec<String>, String) {
    let list = proxy.request("tools/list", json!({}));
    let tool =
        list["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "get_dynamic_tools");
    let tool = tool.unwrap();
    let names = tool["inputSchema"]["properties"]["group"]["enum"].as_array().unwrap();
    let names = names.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    (names, tool["description"].as_str().unwrap().to_owned())
}

fn search(proxy: &mut Proxy, query: &str) -> String {
    text_of(&proxy.call_meta_tool("search_dynamic_tools", json!({"query": query}))).to_owned()
}

/// A server whose process ends at once.
fn crashing(description: &str) -> Value {
    merged(scripted_upstream(&["--crash-at-start", "no"]), json!({"description": description}))
}

#[test]
fn static_failures_are_noted_from_the_start_and_the_bytes_stay_equal() {
    let config = pure_config([
        ("entry", json!({"command": "${NO_SUCH_VARIABLE}"})),
        ("github", json!({"command": "no-such-command", "description": "Issues and pull requests"})),
        ("file", json!({"command": "/no/such/file"})),
        ("dir", json!({"command": "sh", "cwd": "/no/such/dir"})),
        ("good", scripted_upstream(&[])),
    ]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    let initialized = proxy.handshake();
    let instructions = initialized["result"]["instructions"].as_str().unwrap();
    let (names, description) = groups_tool(&mut proxy);
    assert_eq!(names, ["entry", "github", "file", "dir", "good"]);
    for note in [
        "entry (not available: its config entry is invalid)",
        "github (not available: its command was not found)",
        "file (not available: its command was not found)",
        "dir (not available: its working directory cannot be used)",
    ] {
        assert!(instructions.contains(note), "{note}: {instructions}");
        assert!(description.contains(&format!("\n- {note}")), "{note}: {description}");
    }
    assert!(instructions.contains(", good."), "{instructions}");
    assert!(description.contains("not found): Issues and pull requests"), "{description}");
    let found = search(&mut proxy, "list pull requests of github");
    assert!(
        found.starts_with("github is configured and not available: its command was not found\n"),
        "{found}"
    );
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert!(text_of(&status).starts_with("4 of 5 groups failed: entry, github, file, dir\n"), "{status}");
    for group in ["entry", "github", "good"] {
        proxy.call_tool(group, "echo", json!({"text": "x"}));
    }
    assert_eq!(groups_tool(&mut proxy).1, description);
    // Once an attempt was made, the search has its error.
    let found = search(&mut proxy, "list pull requests of github");
    assert!(
        found.contains("not available: command \"no-such-command\" not found in PATH; install it"),
        "{found}"
    );
    assert!(found.contains("\nNot searched, because they are not available: entry (its config entry is invalid), github (its command was not found), "), "{found}");
}

#[test]
fn a_failure_of_discovery_is_noted_when_discovery_enters_the_list() {
    let config = config_of([("docs", crashing("Reads documents")), ("good", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    let initialized = proxy.handshake();
    assert!(!initialized.to_string().contains("not available"), "{initialized}");
    proxy.wait_for_message("notifications/tools/list_changed");
    let (names, description) = groups_tool(&mut proxy);
    assert_eq!(names, ["docs", "good"]);
    assert!(
        description.contains("\n- docs (not available: its process ends): Reads documents"),
        "{description}"
    );
    let found = search(&mut proxy, "reads documents");
    assert!(
        found.starts_with("docs is configured and not available: its process exited with code"),
        "{found}"
    );
    let listed = proxy.call_meta_tool("get_dynamic_tools", json!({}));
    let listed = text_of(&listed);
    assert!(listed.contains("\ndocs (not available: its process ends): Reads documents\n"), "{listed}");
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_failure_of_the_last_run_is_noted_until_discovery_has_looked_again() {
    let cache = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let broken = home.path().join("broken");
    std::fs::write(&broken, "").unwrap();
    let start = |mode: &str, group: &str| {
        // It works once the file is gone.
        let server = scripted_upstream(&[]);
        let program = server["command"].as_str().unwrap();
        let script = format!("test -e {} && exit 3; exec {program}", broken.display());
        let entry = json!({"command": "sh", "args": ["-c", script], "cwd": "/", "lazy_startup": mode});
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        let mut proxy = command.config(&config_of([(group, entry)])).start();
        let initialized = proxy.handshake();
        (proxy, initialized["result"]["instructions"].as_str().unwrap().to_owned())
    };
    let close = |mut proxy: Proxy| {
        proxy.close_stdin();
        assert!(proxy.wait_for_exit().0.success());
    };
    let (mut proxy, instructions) = start("pure", "g");
    assert!(!instructions.contains("not available"), "{instructions}");
    proxy.call_failure("g", "echo", json!({}));
    close(proxy);

    const NOTE: &str = "(not available as of the last run: its process ends)";
    let (mut proxy, instructions) = start("pure", "g");
    assert!(instructions.contains(&format!("g {NOTE}")), "{instructions}");
    let found = search(&mut proxy, "g");
    assert!(found.contains("g is configured and not available: its process ends"), "{found}");
    std::fs::remove_file(&broken).unwrap();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "works"})), "works");
    assert!(groups_tool(&mut proxy).1.contains(NOTE), "a call changes no byte of the list");
    assert!(!search(&mut proxy, "echo").contains("not available"));
    close(proxy);

    // It worked in the last run.
    let (proxy, instructions) = start("pure", "g");
    assert!(!instructions.contains("not available"), "{instructions}");
    close(proxy);
}
