//! Stdio servers of revision 2026-07-28: how their era is detected and remembered, subscriptions to their changes, and
//! input requests.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    InputRecord, Proxy, ProxyCommand, config_of, merged, pure_config, scripted_config, scripted_upstream,
    text_of,
};

const STATELESS: [&str; 2] = ["--stateless", "--protocol"];

/// Params of a stateless client with these capabilities.
fn with_meta(mut params: Value, capabilities: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

#[test]
fn a_server_that_refuses_initialize_is_asked_with_server_discover() {
    for flags in [
        &[][..],
        &["--refuses-initialize", "-32601"],
        &["--refuses-initialize", "-32602"],
        &["--refuses-initialize", "-32000"],
        &["--dual"],
    ] {
        let flags = [if flags == ["--dual"] { &[][..] } else { &["--stateless"] }, flags].concat();
        let mut proxy = Proxy::new(&scripted_config(&flags));
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x", "{flags:?}");
        let revision = if flags == ["--dual"] { "2025-11-25" } else { "2026-07-28" };
        assert_eq!(proxy.group_status("g")["protocolVersion"], revision, "{flags:?}");
        proxy.wait_for_log("Discovered g");
        assert_eq!(proxy.log().matches("Connecting to g").count(), 1, "{flags:?}: one attempt");
    }
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn the_era_of_a_server_is_remembered_and_may_change() {
    let (cache, record) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let record = record.path().join("lines");
    let run = |flags: &[&str]| {
        let _gone = fs::remove_file(&record);
        // The command line in the config stays the same, and the script starts another server each time.
        let flags = [flags, &["--record", record.to_str().unwrap()]].concat();
        let script = record.with_file_name("run.sh");
        let program = scripted_upstream(&[])["command"].as_str().unwrap().to_owned();
        let flags = flags.iter().map(|flag| format!("'{flag}'")).collect::<Vec<_>>().join(" ");
        fs::write(&script, format!("exec '{program}' {flags}\n")).unwrap();
        let config = config_of([(
            "g",
            json!({"command": "sh", "args": [script], "lazy_startup": "pure", "cwd": "/"}),
        )]);
        let command =
            ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).config(&config);
        let mut proxy = command.start_initialized();
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        proxy.close_stdin();
        proxy.wait_for_exit();
        let lines = fs::read_to_string(&record).unwrap();
        let methods =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].clone());
        let mut first = methods.filter(|method| method == "initialize" || method == "server/discover");
        (first.next().unwrap(), first.next())
    };
    assert_eq!(run(&["--stateless"]), (json!("initialize"), Some(json!("server/discover"))));
    assert_eq!(run(&["--stateless"]), (json!("server/discover"), None), "the era is remembered");
    assert_eq!(run(&[]), (json!("server/discover"), Some(json!("initialize"))), "the server has changed");
    assert_eq!(run(&[]), (json!("initialize"), None));
    // This server names a revision without a handshake, but its handshake works, so it is used.
    for _ in 0..2 {
        assert_eq!(run(&["--version", "2026-07-28"]), (json!("initialize"), None));
    }
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_server_that_answers_initialize_but_then_fails_is_asked_with_server_discover() {
    let program = scripted_upstream(&[])["command"].as_str().unwrap().to_owned();
    let response =
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2026-07-28","capabilities":{"tools":{}}}}"#;
    let script = format!(
        r#"read -r line
        case $line in
            *'"initialize"'*) echo '{response}' ;;
            *) {{ printf '%s\n' "$line"; cat; }} | exec '{program}' --stateless ;;
        esac
        while read -r line; do
            id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            [ -z "$id" ] || echo '{{"jsonrpc":"2.0","id":'$id',"error":{{"code":-32602,"message":"no meta"}}}}'
        done"#
    );
    let mut proxy = Proxy::new(&pure_config([("g", json!({"command": "sh", "args": ["-c", script]}))]));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
}

#[test]
fn the_log_level_of_a_session_is_in_each_request() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&pure_config([("g", record.attached_to(scripted_upstream(&STATELESS)))]));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    assert!(!record.wait_for("tools/call", 0).line.contains("logLevel"));
    proxy.request("logging/setLevel", json!({"level": "warning"}));
    let message =
        |level: &str| json!({"method": "notifications/message", "params": {"level": level, "data": level}});
    proxy.call_tool("g", "tell", message("info"));
    proxy.call_tool("g", "tell", message("error"));
    assert_eq!(proxy.wait_for_message("notifications/message").json()["params"]["data"], "error");
    let call = record.wait_for("tools/call", 1).json();
    assert_eq!(call["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
}

#[test]
fn a_subscription_that_the_server_cancels_is_renewed() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&pure_config([("g", record.attached_to(scripted_upstream(&STATELESS)))]));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    record.wait_for("subscriptions/listen", 0);
    proxy.call_text("g", "end_listening", json!({"method": "notifications/cancelled"}));
    record.wait_for("subscriptions/listen", 1);
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_refused_initialize_is_reported_soon_if_server_discover_gets_no_response() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such luck"}}"#;
    let script = format!("read line; case $line in *initialize*) echo '{refusal}';; esac; cat >/dev/null");
    let mut proxy = Proxy::new(&pure_config([("g", json!({"command": "sh", "args": ["-c", script]}))]));
    let start = tokio::time::Instant::now();
    let text = proxy.call_failure("g", "echo", json!({}));
    assert!(text.contains("initialize was refused") && text.contains("no such luck"), "{text}");
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn a_client_with_a_handshake_can_use_a_stateless_server() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&STATELESS))]));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    let read = proxy.request("resources/read", json!({"uri": "mem://one"}));
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().starts_with("one"), "{read}");
    assert_eq!(
        proxy.request("prompts/get", json!({"name": "g__greet"}))["result"]["messages"][0]["role"],
        "user"
    );
    let arguments = json!({"group": "g", "name": "progress", "args": {"n": 2}});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": 7}});
    let id = proxy.send_request("tools/call", params);
    assert_eq!(proxy.wait_for_message("notifications/progress").json()["params"]["progressToken"], 7);
    proxy.response(id);
}

#[test]
fn changes_of_lists_and_resources_are_forwarded() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&STATELESS))]));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    assert_eq!(proxy.request("resources/subscribe", json!({"uri": "mem://one"}))["result"], json!({}));
    let updated =
        json!({"method": "notifications/resources/updated", "params": {"uri": "mem://one", "x": 1.5}});
    proxy.send_call("g", "tell", updated.clone());
    let update = proxy.wait_for_message("notifications/resources/updated").json();
    assert_eq!(update["params"], json!({"uri": "mem://one", "x": 1.5}), "without our subscription id");
    // Twice, because the first notification may be about the first read of the catalog.
    for _ in 0..2 {
        proxy.send_call("g", "grow", json!({"list": "resources"}));
        proxy.wait_for_message("notifications/resources/list_changed");
    }
    let listed = proxy.request("resources/list", json!({}))["result"]["resources"].to_string();
    assert!(listed.contains("grown/1"), "{listed}");
    proxy.request("resources/unsubscribe", json!({"uri": "mem://one"}));
    proxy.send_call("g", "tell", updated);
    loop {
        let message = proxy.next_message().unwrap();
        assert_ne!(message.method(), Some("notifications/resources/updated"), "the subscription has ended");
        if message.id().is_some() && message.json()["result"]["content"][0]["text"] == "done" {
            break;
        }
    }
}

#[test]
fn subscriptions_are_renewed_after_a_crash() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&STATELESS))]));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    for uri in ["mem://one", "mem://two"] {
        proxy.request("resources/subscribe", json!({"uri": uri}));
    }
    proxy.call_failure("g", "crash", json!({}));
    for uri in ["mem://one", "mem://two"] {
        proxy.send_call(
            "g",
            "tell",
            json!({"method": "notifications/resources/updated", "params": {"uri": uri}}),
        );
        assert_eq!(proxy.wait_for_message("notifications/resources/updated").json()["params"]["uri"], uri);
    }
}

#[test]
fn input_requests_pass_to_a_stateless_client_and_its_answers_back() {
    let mut proxy = ProxyCommand::new()
        .config(&pure_config([("g", merged(scripted_upstream(&STATELESS), json!({})))]))
        .start();
    let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
    let args = json!({"group": "g", "name": "asks", "args": {"rounds": 2}});
    let call = json!({"name": "call_dynamic_tool", "arguments": args});
    let read = json!({"uri": "mem://asks/elicitation", "group": "g"});
    let get = json!({"name": "asks", "group": "g", "arguments": {"kinds": "sampling,roots"}});
    for (method, params, rounds) in
        [("tools/call", call, 2), ("resources/read", read, 1), ("prompts/get", get, 1)]
    {
        let mut params = with_meta(params, capabilities.clone());
        for round in 1..=rounds {
            let result = proxy.request(method, params.clone())["result"].clone();
            assert_eq!(result["resultType"], "input_required", "{method} {round}: {result}");
            let requests = result["inputRequests"].as_object().unwrap();
            let elicited = requests.values().find(|request| request["method"] == "elicitation/create");
            assert!(
                elicited
                    .is_none_or(|request| request["params"]["message"].as_str().unwrap().starts_with("[g] ")),
                "{result}"
            );
            params["requestState"] = result["requestState"].clone();
            let answers = requests.keys().map(|key| (key.clone(), json!({"marker": [key, round]})));
            params["inputResponses"] = Value::Object(answers.collect());
        }
        let done = proxy.request(method, params.clone());
        assert_eq!(done["result"]["resultType"], "complete", "{method}: {done}");
        assert!(done.to_string().contains("marker"), "{method}: {done}");
    }
    let without_capabilities = with_meta(json!({"uri": "mem://asks/roots", "group": "g"}), json!({}));
    let error = proxy.request("resources/read", without_capabilities)["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["requiredCapabilities"]),
        (&json!(-32021), &json!({"roots": {}}))
    );
    let echo = with_meta(json!({"name": "g__echo", "arguments": {"text": "x"}}), capabilities);
    let response = proxy.request("tools/call", echo);
    assert_eq!(text_of(&response["result"]), "x");
    let meta = &response["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(meta["name"], "scripted-upstream", "the name of the server itself");
}
