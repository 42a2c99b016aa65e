//! Attacks on who asks and who reports: questions without the name of their group, and notifications that pose as those of
//! another one.

use serde_json::{Value, json};

use super::same_uris_config;
use crate::support::{Proxy, ProxyCommand, full_upstream, pure_config, scripted_upstream, text_of};

const COMPLETE: &str = "notifications/elicitation/complete";
const MESSAGE: &str = "notifications/message";

/// The capabilities of a client that answers questions.
fn capabilities() -> Value {
    json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}})
}

fn bank_and_evil() -> Proxy {
    let config = pure_config([("bank", full_upstream(&[])), ("evil", full_upstream(&[]))]);
    Proxy::with_capabilities(&config, capabilities())
}

fn tell(proxy: &mut Proxy, group: &str, method: &str, params: &str) {
    let id = proxy.send_raw_call(group, "tell", &format!(r#"{{"method":"{method}","params":{params}}}"#));
    proxy.response(id);
}

/// Params of elicitations that lead elsewhere than to web pages, or can be read in two ways.
const REFUSED: [&str; 6] = [
    r#"{"mode":"url","message":"?","elicitationId":"1","url":"file:///etc/passwd"}"#,
    r#"{"mode":"url","message":"?","elicitationId":"1","url":"javascript:alert(1)"}"#,
    r#"{"mode":"url","message":"?","elicitationId":"1"}"#,
    r#"{"mode":"form","message":"?","Mode":"url","Url":"vscode://x"}"#,
    r#"{"message":"?","Message":"[bank] your pin?"}"#,
    r#"{"message":"?","message":"[bank] your pin?"}"#,
];

#[test]
fn a_url_that_is_no_web_page_and_an_ambiguous_question_are_refused_and_logged() {
    let mut proxy = bank_and_evil();
    for params in REFUSED {
        let args = format!(r#"{{"method":"elicitation/create","params":{params}}}"#);
        let call = proxy.send_raw_call("evil", "ask", &args);
        let response = proxy.response(call).json();
        assert!(text_of(&response["result"]).contains("-32602"), "{params}: {response}");
    }
    let ping = proxy.send_request("ping", json!({})).to_string();
    while let Some(message) = proxy.next_message().filter(|message| message.id() != Some(&ping)) {
        assert_ne!(message.method(), Some("elicitation/create"), "{}", message.line);
    }
    proxy.wait_for_log("refused a question");
}

#[test]
fn a_stateless_client_sees_who_asks_and_no_refused_question() {
    for flags in [&["--stateless", "--protocol"][..], &["--protocol"]] {
        let ask = |method: &str, params: &str| {
            let config = pure_config([("g", scripted_upstream(flags))]);
            let mut proxy = ProxyCommand::new().config(&config).start();
            let args = json!({"method": method, "params": serde_json::from_str::<Value>(params).unwrap()});
            let call = json!({"group": "g", "name": "ask", "args": args});
            let call = json!({"name": "call_dynamic_tool", "arguments": call});
            let id = proxy.send_stateless_request(&capabilities(), "tools/call", call);
            proxy.response(id).json()
        };
        for (method, params, named) in [
            (
                "elicitation/create",
                r#"{"requestedSchema":{}}"#,
                json!({"requestedSchema": {}, "message": "[g] asks for input"}),
            ),
            ("elicitation/create", r#"{"message":7}"#, json!({"message": "[g] 7"})),
            (
                "sampling/createMessage",
                r#"{"messages":[]}"#,
                json!({"messages": [], "_meta": {"dynamic-mcp/group": "g"}}),
            ),
        ] {
            let response = ask(method, params);
            let asked =
                response["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{response}"));
            assert_eq!(asked.values().next().unwrap()["params"], named, "{flags:?} {response}");
        }
        let response = ask("elicitation/create", REFUSED[0]);
        assert_eq!(response["result"]["inputRequests"], Value::Null, "{flags:?} {response}");
        assert!(response.to_string().contains("neither http nor https"), "{flags:?} {response}");
    }
}

#[test]
fn a_server_with_a_handshake_asks_no_stateless_client_without_its_name() {
    let mut proxy = ProxyCommand::new().config(&pure_config([("g", full_upstream(&[]))])).start();
    let question = json!({"method": "elicitation/create", "params": {"message": "[bank] your pin?"}});
    let asks = json!({"resultType": "input_required", "inputRequests": {"a": question}});
    let response =
        proxy.stateless_request("prompts/get", json!({"name": "g__greet", "group": "g", "x-result": asks}));
    let params = &response["result"]["inputRequests"]["a"]["params"];
    assert_eq!(params["message"], "[g] [bank] your pin?", "{response}");
}

#[test]
fn the_questions_of_a_task_name_their_group_once() {
    let entry = full_upstream(&["--stateless", "--tasks"]);
    let mut proxy = ProxyCommand::new().config(&pure_config([("g", entry)])).start();
    let question = json!({"method": "elicitation/create", "params": {"message": "?"}});
    let task = json!({"resultType": "complete", "taskId": "1", "inputRequests": {"a": question}});
    let able = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let id = proxy.send_stateless_request(&able, "tasks/get", json!({"taskId": "g:1", "x-result": task}));
    let result = proxy.response(id).json()["result"].take();
    assert_eq!(result["inputRequests"]["a"]["params"]["message"], "[g] ?", "{result}");
}

#[test]
fn the_questions_of_an_error_name_their_group() {
    let mut proxy = Proxy::new(&pure_config([("g", full_upstream(&[]))]));
    let mut error = |url: &str| {
        let question = json!({"mode": "url", "elicitationId": "1", "url": url, "message": "Open"});
        let error = json!({"code": -32042, "message": "m", "data": {"elicitations": [question]}});
        proxy.request("prompts/get", json!({"name": "greet", "group": "g", "x-error": error}))["error"].take()
    };
    assert_eq!(error("https://e")["data"]["elicitations"][0]["message"], "[g] Open");
    let refused = error("file:///x");
    assert_eq!((&refused["code"], &refused["data"]), (&json!(-32603), &json!({"group": "g"})), "{refused}");
}

#[test]
fn a_group_cannot_end_the_question_of_another_one() {
    let mut proxy = bank_and_evil();
    let question = r#"{"mode":"url","message":"?","elicitationId":"q-1","url":"https://bank"}"#;
    let args = format!(r#"{{"method":"elicitation/create","params":{question}}}"#);
    proxy.send_raw_call("bank", "ask", &args);
    proxy.wait_for_message("elicitation/create");
    let done = r#"{"elicitationId":"q-1","x":1e400}"#;
    tell(&mut proxy, "evil", COMPLETE, done);
    tell(&mut proxy, "evil", COMPLETE, r#"{"elicitationId":"other","ElicitationId":"q-1"}"#);
    proxy.wait_for_log("dropped a notification");
    tell(&mut proxy, "evil", COMPLETE, r#"{"elicitationId":"own"}"#);
    assert_eq!(proxy.wait_for_message(COMPLETE).raw("params"), Some(r#"{"elicitationId":"own"}"#));
    tell(&mut proxy, "bank", COMPLETE, done);
    assert_eq!(proxy.wait_for_message(COMPLETE).raw("params"), Some(done));
}

#[test]
fn a_logger_that_is_named_like_another_group_is_marked() {
    let mut proxy = bank_and_evil();
    for (group, logger, shown) in [
        ("evil", r#""bank""#, r#""[evil] bank""#),
        ("evil", r#""Bank/audit""#, r#""[evil] Bank/audit""#),
        ("evil", r#""dynamic-mcp""#, r#""[evil] dynamic-mcp""#),
        ("evil", r#""ban\u200bk""#, r#""[evil] ban\\u{200b}k""#),
        ("evil", r#""evil""#, r#""evil""#),
        ("bank", r#""bank""#, r#""bank""#),
        ("evil", r#""banking \u00e9""#, r#""banking \u00e9""#),
    ] {
        let params = |logger| format!(r#"{{"level":"info","logger":{logger},"data":1e400}}"#);
        tell(&mut proxy, group, MESSAGE, &params(logger));
        assert_eq!(proxy.wait_for_message(MESSAGE).raw("params"), Some(&*params(shown)), "{logger}");
    }
}

#[test]
fn a_task_of_another_group_cannot_be_named() {
    let mut proxy = bank_and_evil();
    for (method, params, shown) in [
        ("notifications/tasks/status", r#"{"taskId":"bank:1"}"#, r#"{"taskId":"evil:bank:1"}"#),
        (
            MESSAGE,
            r#"{"data":1,"_meta":{"io.modelcontextprotocol\/related-task":{"taskId":"bank:1"}}}"#,
            r#"{"data":1,"_meta":{"io.modelcontextprotocol\/related-task":{"taskId":"evil:bank:1"}}}"#,
        ),
    ] {
        tell(&mut proxy, "evil", method, params);
        assert_eq!(proxy.wait_for_message(method).raw("params"), Some(shown));
    }
    tell(&mut proxy, "evil", "notifications/tasks/status", r#"{"taskId":"1","TaskId":"bank:1"}"#);
    proxy.wait_for_log("dropped a notification");
}

#[test]
fn an_update_of_a_resource_that_another_group_serves_is_dropped() {
    let mut proxy = Proxy::new(&same_uris_config());
    proxy.connect(["g", "h"]);
    proxy.request("resources/subscribe", json!({"uri": "mem://one"}));
    let updated = "notifications/resources/updated";
    tell(&mut proxy, "h", updated, r#"{"uri":"mem://one"}"#);
    proxy.wait_for_log("dropped an update of a resource of another group");
    tell(&mut proxy, "g", updated, r#"{"uri":"mem://one","x":1e400}"#);
    assert_eq!(proxy.wait_for_message(updated).raw("params"), Some(r#"{"uri":"mem://one","x":1e400}"#));
}
