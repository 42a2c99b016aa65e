//! Revision 2026-07-28 on both sides: a client without a handshake, an upstream without one.

use serde_json::{Value, json};

use super::Record;
use crate::support::{Message, Proxy, Setup, servers, stateless, upstream};

const LISTEN: &str = "subscriptions/listen";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn all(more: &[&str]) -> Value {
    upstream(&[&["--protocol", "--asks", "--stateless"], more].concat())
}

/// A program that was told nothing yet.
fn start(config: &Value) -> Proxy {
    Setup::new().config(config).start()
}

/// A call of `tool` of `g`, with these members more in its params.
fn call(proxy: &mut Proxy, capabilities: &str, tool: &str, args: &str, more: &str) -> Message {
    let meta = stateless::meta(capabilities);
    let arguments = format!(r#"{{"group":"g","name":"{tool}","args":{args}}}"#);
    let params =
        format!(r#"{{"_meta":{{{meta}}},"name":"call_dynamic_tool","arguments":{arguments}{more}}}"#);
    let id = proxy.send_raw("tools/call", &params);
    proxy.answer(id)
}

#[test]
fn who_we_are_is_told_without_a_handshake() {
    let mut proxy = start(&servers([("g", all(&[]))]));
    let result = proxy.stateless("server/discover", json!({}))["result"].take();
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
        let result = proxy.stateless(method, json!({}))["result"].take();
        assert_eq!(result["resultType"], "complete", "{method}: {result}");
        assert!(result[list].is_array() && result["ttlMs"].is_u64(), "{method}: {result}");
        assert!(
            ["public", "private"].contains(&result["cacheScope"].as_str().unwrap()),
            "{method}: {result}"
        );
    }
}

#[test]
fn what_is_not_of_the_revision_is_refused_with_its_codes() {
    let mut proxy = start(&servers([("g", all(&[]))]));
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no/such"] {
        assert_eq!(proxy.stateless(method, json!({"uri": "x://y"}))["error"]["code"], -32601, "{method}");
    }
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    let version = json!({"_meta": {key("protocolVersion"): "2026-07-28"}});
    assert_eq!(proxy.refused("tools/list", version), -32602, "no capabilities");
    let other = json!({"_meta": {key("protocolVersion"): "1900-01-01", key("clientCapabilities"): {}}});
    let error = proxy.ask("tools/list", other)["error"].take();
    assert_eq!(
        (&error["code"], &error["data"]["requested"]),
        (&json!(-32022), &json!("1900-01-01")),
        "{error}"
    );
    assert!(error["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{error}");
    let missing = proxy.stateless("resources/read", json!({"uri": "x://nothing"}));
    assert_eq!(missing["error"]["code"], -32602, "never -32002: {missing}");
}

#[test]
fn what_an_upstream_must_keep_it_gets_back_byte_for_byte() {
    let record = Record::new();
    let mut proxy = start(&servers([("g", record.of(all(&[])))]));
    let refused = call(&mut proxy, "{}", "asks", r#"{"kinds":"sampling"}"#, "");
    let error = refused.json()["error"].take();
    assert_eq!(error["code"], -32021, "{}", refused.line);
    assert_eq!(error["data"]["requiredCapabilities"], json!({"sampling": {}}));
    let args = r#"{"kinds":"elicitation,sampling,roots","rounds":3}"#;
    let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
    let mut more = String::new();
    for round in 1..=3 {
        let answer = call(&mut proxy, capabilities, "asks", args, &more);
        let result = answer.json()["result"].take();
        assert_eq!(result["resultType"], "input_required", "round {round}: {}", answer.line);
        let requests = result["inputRequests"].as_object().unwrap();
        assert_eq!(requests.len(), 3);
        let answers: Vec<_> =
            requests.keys().map(|key| format!(r#"{}:{{"n":1e400,"e":"\u00e9"}}"#, json!(key))).collect();
        let state = answer.line.split(r#""requestState":"#).nth(1).unwrap();
        let state: Box<serde_json::value::RawValue> =
            serde_json::Deserializer::from_str(state).into_iter().next().unwrap().unwrap();
        more = format!(r#","inputResponses":{{{}}},"requestState":{state}"#, answers.join(","));
    }
    let last = call(&mut proxy, capabilities, "asks", args, &more);
    assert!(last.line.contains(r#"{\"n\":1e400,\"e\":\"\\u00e9\"}"#), "{}", last.line);
    let calls = record.lines("tools/call");
    assert!(calls.last().unwrap().contains(&more), "{more} in {calls:?}");
    // An upstream of this era is never asked for a handshake twice.
    assert!(record.lines("notifications/initialized").is_empty());
}

#[test]
fn a_subscription_hears_what_it_asked_for_under_its_own_id() {
    let mut proxy = start(&servers([("g", all(&[]))]));
    call(&mut proxy, "{}", "pid", "{}", "");
    let wanted = json!({"resourceSubscriptions": ["mem://one"], "promptsListChanged": true});
    let id = proxy.send_stateless(&json!({}), LISTEN, json!({"notifications": wanted}));
    // The first prompts may be told of as well, whenever they come to be known.
    let next = |proxy: &mut Proxy, method: &str| loop {
        let told = proxy.next().unwrap().json();
        assert_ne!(told["params"]["uri"], "mem://two", "nobody asked for it");
        if told["method"] == method {
            return told;
        }
    };
    let first = next(&mut proxy, "notifications/subscriptions/acknowledged");
    assert_eq!(
        (&first["params"]["_meta"][SUBSCRIPTION], &first["params"]["notifications"]),
        (&json!(id), &wanted)
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
        call(&mut proxy, "{}", tool, args, "");
        if let Some(method) = method {
            assert_eq!(next(&mut proxy, method)["params"]["_meta"][SUBSCRIPTION], id);
        }
    }
}

#[test]
fn a_server_of_both_eras_is_spoken_to_in_either() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&["--protocol", "--dual"]))]));
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    // The client of the other era comes to the same process.
    let mut other = start(&servers([("g", upstream(&["--protocol", "--dual"]))]));
    let answer = call(&mut other, "{}", "echo", r#"{"text":"y"}"#, "").json();
    assert_eq!(
        (&answer["result"]["content"][0]["text"], &answer["result"]["resultType"]),
        (&json!("y"), &json!("complete"))
    );
}

#[test]
fn tasks_of_the_extension_pass_under_ids_that_are_unique() {
    let entry = all(&["--tasks", "--same-task-ids"]);
    let mut proxy = start(&servers([("g", entry.clone()), ("h", entry)]));
    let able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
    let mut ask = |method: &str, params: Value| {
        let id = proxy.send_stateless(&able, method, params);
        proxy.answer(id).json()["result"].take()
    };
    let tasks = ["g", "h"].map(|group| {
        let arguments = json!({"group": group, "name": "task_optional", "args": {"ask": "elicitation"}});
        ask("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}))
    });
    assert_eq!(tasks[0]["resultType"], "task", "{tasks:?}");
    assert_ne!(tasks[0]["taskId"], tasks[1]["taskId"]);
    for (task, name) in tasks.iter().zip(["Ada", "Bob"]) {
        let id = json!({"taskId": task["taskId"]});
        let mut requests = Value::Null;
        crate::support::until("it asks", || {
            requests = ask("tasks/get", id.clone())["inputRequests"].take();
            requests.is_object()
        });
        let key = requests.as_object().unwrap().keys().next().unwrap();
        let responses = json!({key: {"action": "accept", "content": {"name": name}}});
        let updated = ask("tasks/update", json!({"taskId": task["taskId"], "inputResponses": responses}));
        assert_eq!(updated["resultType"], "complete", "{updated}");
        let mut done = Value::Null;
        crate::support::until("it is done", || {
            done = ask("tasks/get", id.clone());
            done["status"] == "completed"
        });
        assert_eq!((&done["taskId"], &done["resultType"]), (&task["taskId"], &json!("complete")));
        assert!(done["result"].to_string().contains(name), "{done}");
    }
}
