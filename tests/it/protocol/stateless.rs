//! Revision 2026-07-28 at both ends: a stateless client with a stateless upstream.

use serde_json::{Value, json};

use crate::support::{
    InputRecord, Message, Proxy, ProxyCommand, pure_config, scripted_upstream, stateless, wait_until,
};

const LISTEN: &str = "subscriptions/listen";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// An entry for a stateless upstream with all features of MCP.
fn stateless_upstream(flags: &[&str]) -> Value {
    scripted_upstream(&[&["--protocol", "--asks", "--stateless"], flags].concat())
}

/// A config with this upstream as its only server, `g`.
fn stateless_config() -> Value {
    pure_config([("g", stateless_upstream(&[]))])
}

/// A program that has received no message.
fn start(config: &Value) -> Proxy {
    ProxyCommand::new().config(config).start()
}

/// Calls a tool of `g` and returns the response. `more`: members of the params after `arguments`.
fn call_g(proxy: &mut Proxy, capabilities: &str, tool: &str, args: &str, more: &str) -> Message {
    let meta = stateless::meta_members(capabilities);
    let arguments = format!(r#"{{"group":"g","name":"{tool}","args":{args}}}"#);
    let params =
        format!(r#"{{"_meta":{{{meta}}},"name":"call_dynamic_tool","arguments":{arguments}{more}}}"#);
    let id = proxy.send_raw_request("tools/call", &params);
    proxy.response(id)
}

#[test]
fn server_discover_and_the_lists_are_answered_without_a_handshake() {
    let mut proxy = start(&stateless_config());
    let result = proxy.stateless_request("server/discover", json!({}))["result"].take();
    assert_eq!(result["resultType"], "complete", "{result}");
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{result}");
    assert!(result["capabilities"]["tools"].is_object() && result["instructions"].is_string(), "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "dynamic-mcp");
    for (method, list) in [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        let result = proxy.stateless_request(method, json!({}))["result"].take();
        assert_eq!(result["resultType"], "complete", "{method}: {result}");
        assert!(result[list].is_array() && result["ttlMs"].is_u64(), "{method}: {result}");
        assert!(
            ["public", "private"].contains(&result["cacheScope"].as_str().unwrap()),
            "{method}: {result}"
        );
    }
}

#[test]
fn requests_that_the_revision_does_not_allow_get_its_error_codes() {
    let mut proxy = start(&stateless_config());
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no/such"] {
        assert_eq!(
            proxy.stateless_request(method, json!({"uri": "x://y"}))["error"]["code"],
            -32601,
            "{method}"
        );
    }
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    let without_capabilities = json!({"_meta": {key("protocolVersion"): "2026-07-28"}});
    assert_eq!(proxy.error_code("tools/list", without_capabilities), -32602, "no capabilities");
    let unsupported = json!({"_meta": {key("protocolVersion"): "1900-01-01", key("clientCapabilities"): {}}});
    let error = proxy.request("tools/list", unsupported)["error"].take();
    assert_eq!(
        (&error["code"], &error["data"]["requested"]),
        (&json!(-32022), &json!("1900-01-01")),
        "{error}"
    );
    assert!(error["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{error}");
    let missing = proxy.stateless_request("resources/read", json!({"uri": "x://nothing"}));
    assert_eq!(missing["error"]["code"], -32602, "never -32002: {missing}");
}

#[test]
fn request_state_and_input_responses_reach_the_upstream_byte_for_byte() {
    let record = InputRecord::new();
    let mut proxy = start(&pure_config([("g", record.attached_to(stateless_upstream(&[])))]));
    let refused = call_g(&mut proxy, "{}", "asks", r#"{"kinds":"sampling"}"#, "");
    let error = refused.json()["error"].take();
    assert_eq!(error["code"], -32021, "{}", refused.line);
    assert_eq!(error["data"]["requiredCapabilities"], json!({"sampling": {}}));
    let args = r#"{"kinds":"elicitation,sampling,roots","rounds":3}"#;
    let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
    let mut more = String::new();
    for round in 1..=3 {
        let response = call_g(&mut proxy, capabilities, "asks", args, &more);
        let result = response.json()["result"].take();
        assert_eq!(result["resultType"], "input_required", "round {round}: {}", response.line);
        let requests = result["inputRequests"].as_object().unwrap();
        assert_eq!(requests.len(), 3);
        let answers: Vec<_> =
            requests.keys().map(|key| format!(r#"{}:{{"n":1e400,"e":"\u00e9"}}"#, json!(key))).collect();
        let state = response.line.split(r#""requestState":"#).nth(1).unwrap();
        let state: Box<serde_json::value::RawValue> =
            serde_json::Deserializer::from_str(state).into_iter().next().unwrap().unwrap();
        more = format!(r#","inputResponses":{{{}}},"requestState":{state}"#, answers.join(","));
    }
    let last = call_g(&mut proxy, capabilities, "asks", args, &more);
    assert!(last.line.contains(r#"{\"n\":1e400,\"e\":\"\\u00e9\"}"#), "{}", last.line);
    let calls = record.lines_of("tools/call");
    assert!(calls.last().unwrap().contains(&more), "{more} in {calls:?}");
    // The handshake was refused, so it was not completed.
    assert!(record.lines_of("notifications/initialized").is_empty());
}

#[test]
fn a_subscription_gets_only_the_notifications_of_its_filter_with_its_id() {
    let mut proxy = start(&stateless_config());
    call_g(&mut proxy, "{}", "pid", "{}", "");
    let filter = json!({"resourceSubscriptions": ["mem://one"], "promptsListChanged": true});
    let id = proxy.send_stateless_request(&json!({}), LISTEN, json!({"notifications": filter}));
    // A notification about the first read of the prompts may arrive at any time.
    let next = |proxy: &mut Proxy, method: &str| loop {
        let notification = proxy.next_message().unwrap().json();
        assert_ne!(notification["params"]["uri"], "mem://two", "not in the filter");
        if notification["method"] == method {
            return notification;
        }
    };
    let acknowledged = next(&mut proxy, "notifications/subscriptions/acknowledged");
    assert_eq!(
        (&acknowledged["params"]["_meta"][SUBSCRIPTION], &acknowledged["params"]["notifications"]),
        (&json!(id), &filter)
    );
    for (tool, args, method) in [
        ("tell", r#"{"method":"notifications/resources/updated","params":{"uri":"mem://two"}}"#, None),
        (
            "tell",
            r#"{"method":"notifications/resources/updated","params":{"uri":"mem://one","x":1.0}}"#,
            Some("notifications/resources/updated"),
        ),
        ("grow", r#"{"list":"prompts"}"#, Some("notifications/prompts/list_changed")),
    ] {
        call_g(&mut proxy, "{}", tool, args, "");
        if let Some(method) = method {
            assert_eq!(next(&mut proxy, method)["params"]["_meta"][SUBSCRIPTION], id);
        }
    }
}

#[test]
fn a_server_of_both_eras_serves_clients_of_both() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&["--protocol", "--dual"]))]));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    // A client of the other era.
    let mut other = start(&pure_config([("g", scripted_upstream(&["--protocol", "--dual"]))]));
    let response = call_g(&mut other, "{}", "echo", r#"{"text":"y"}"#, "").json();
    assert_eq!(
        (&response["result"]["content"][0]["text"], &response["result"]["resultType"]),
        (&json!("y"), &json!("complete"))
    );
}

#[test]
fn tasks_of_the_extension_pass_with_unique_ids() {
    let entry = stateless_upstream(&["--tasks", "--same-task-ids"]);
    let mut proxy = start(&pure_config([("g", entry.clone()), ("h", entry)]));
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
    let mut request = |method: &str, params: Value| {
        let id = proxy.send_stateless_request(&capabilities, method, params);
        proxy.response(id).json()["result"].take()
    };
    let tasks = ["g", "h"].map(|group| {
        let arguments = json!({"group": group, "name": "task_optional", "args": {"ask": "elicitation"}});
        request("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}))
    });
    assert_eq!(tasks[0]["resultType"], "task", "{tasks:?}");
    assert_ne!(tasks[0]["taskId"], tasks[1]["taskId"]);
    for (task, name) in tasks.iter().zip(["Ada", "Bob"]) {
        let id = json!({"taskId": task["taskId"]});
        let mut requests = Value::Null;
        wait_until("the task requests input", || {
            requests = request("tasks/get", id.clone())["inputRequests"].take();
            requests.is_object()
        });
        let key = requests.as_object().unwrap().keys().next().unwrap();
        let responses = json!({key: {"action": "accept", "content": {"name": name}}});
        let updated = request("tasks/update", json!({"taskId": task["taskId"], "inputResponses": responses}));
        assert_eq!(updated["resultType"], "complete", "{updated}");
        let mut done = Value::Null;
        wait_until("the task is completed", || {
            done = request("tasks/get", id.clone());
            done["status"] == "completed"
        });
        assert_eq!((&done["taskId"], &done["resultType"]), (&task["taskId"], &json!("complete")));
        assert!(done["result"].to_string().contains(name), "{done}");
    }
}
