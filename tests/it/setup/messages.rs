//! What is wrong reaches the client as `notifications/message` and through our own prompt.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, config_of, merged, pure_config, scripted_upstream};

/// The params of the next log message of dynamic-mcp itself.
fn next_message(proxy: &mut Proxy) -> Value {
    loop {
        let params = proxy.wait_for_message("notifications/message").json()["params"].take();
        if params["logger"] == "dynamic-mcp" {
            return params;
        }
    }
}

#[test]
fn problems_of_the_configuration_are_sent_when_the_handshake_is_over() {
    let config = config_of([
        ("bad", json!({"command": "${NO_SUCH_VARIABLE}"})),
        ("odd", json!({"command": "x", "comand": 1})),
    ]);
    let command =
        ProxyCommand::new().args(&["--nope"]).config(&merged(config, json!({"settings": {"surface": 3}})));
    let mut proxy = command.start();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "e", "version": "1"}});
    let initialized = proxy.request("initialize", params);
    let instructions = initialized["result"]["instructions"].as_str().unwrap();
    assert!(instructions.ends_with("The configuration has errors; get_status says which. Tell the user."));
    // Nothing but the answer comes before the client says that it is ready.
    proxy.notify("notifications/initialized", json!({}));
    for (level, part) in [
        ("error", "command line error: there is no option --nope"),
        ("error", "config error: "),
        ("error", "Group bad is not available: its config entry is invalid: "),
        ("warning", "config warning: "),
    ] {
        let message = next_message(&mut proxy);
        assert_eq!(message["level"], level, "{message}");
        assert!(message["data"].as_str().unwrap().starts_with(part), "{part}: {message}");
    }
}

#[test]
fn a_failed_start_is_sent_once_and_only_above_the_level_of_the_client() {
    let entry = scripted_upstream(&["--crash-at-start", "no"]);
    let config =
        pure_config([("a", entry.clone()), ("b", entry), ("c", json!({"command": "no-such-command"}))]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    proxy.call_failure("a", "echo", json!({}));
    let message = next_message(&mut proxy);
    let data = message["data"].as_str().unwrap();
    assert!(
        data.starts_with("Group a is not available: its process exited") && data.contains("\nLog: "),
        "{data}"
    );
    assert_eq!(message["level"], "warning");
    proxy.request("logging/setLevel", json!({"level": "error"}));
    // This is a warning, as a retry may help.
    proxy.call_failure("b", "echo", json!({}));
    proxy.call_failure("c", "echo", json!({}));
    let message = next_message(&mut proxy);
    assert!(message["data"].as_str().unwrap().starts_with("Group c is not available: command"), "{message}");
    assert_eq!(message["level"], "error");
}

#[test]
fn the_prompt_status_says_what_get_status_says() {
    let config =
        pure_config([("c", json!({"command": "no-such-command"})), ("good", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    let list = proxy.request("prompts/list", json!({}));
    let prompts = list["result"]["prompts"].as_array().unwrap();
    assert_eq!(prompts[0]["name"], "status", "{list}");
    let prompt = proxy.request("prompts/get", json!({"name": "status"}));
    let message = &prompt["result"]["messages"][0];
    assert_eq!((&message["role"], &message["content"]["type"]), (&json!("user"), &json!("text")));
    assert!(
        message["content"]["text"].as_str().unwrap().contains("\n1 of 2 groups failed: c\n"),
        "{message}"
    );
    let completion =
        json!({"ref": {"type": "ref/prompt", "name": "status"}, "argument": {"name": "x", "value": ""}});
    let completed = proxy.request("completion/complete", completion);
    assert_eq!(completed["result"]["completion"]["values"], json!([]), "{completed}");
}
