//! Requests of a server to a client of the other era: a stateless server with a client that made a handshake, and the
//! other way round.

use serde_json::{Value, json};

use crate::support::{InputRecord, Proxy, ProxyCommand, pure_config, scripted_upstream, text_of};

/// The capabilities of a client that answers every kind of request.
fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}})
}

/// A session with a handshake, of a client with all capabilities, and a stateless server.
fn handshake_to_stateless() -> Proxy {
    let mut proxy = ProxyCommand::new()
        .config(&pure_config([("g", scripted_upstream(&["--stateless", "--protocol"]))]))
        .start();
    let info = json!({"name": "e2e", "version": "1"});
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": all_capabilities(), "clientInfo": info});
    proxy.request("initialize", params);
    proxy.notify("notifications/initialized", json!({}));
    proxy
}

/// A client without a handshake, and a server with one.
fn stateless_to_handshake() -> Proxy {
    ProxyCommand::new().config(&pure_config([("g", scripted_upstream(&["--protocol"]))])).start()
}

/// The params of a call of a tool of `g`.
fn call_params(name: &str, args: Value) -> Value {
    json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": name, "args": args}})
}

/// Sends a call of a stateless client with all capabilities and returns its result.
fn stateless_call(proxy: &mut Proxy, params: Value) -> Value {
    let id = proxy.send_stateless_request(&all_capabilities(), "tools/call", params);
    proxy.response(id).json()["result"].take()
}

#[test]
fn input_requests_of_a_stateless_server_become_requests_to_the_client() {
    let mut proxy = handshake_to_stateless();
    let call = proxy.send_request("tools/call", call_params("asks", json!({"rounds": 2})));
    // Two rounds of three requests.
    for n in 0..6 {
        let request = loop {
            let message = proxy.next_message().unwrap();
            if message.method().is_some_and(|method| !method.starts_with("notifications/")) {
                break message;
            }
        };
        if request.method() == Some("elicitation/create") {
            assert!(
                request.json()["params"]["message"].as_str().unwrap().starts_with("[g] "),
                "{}",
                request.line
            );
        }
        proxy.write_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"n":{n}.50}}}}"#,
            request.id().unwrap()
        ));
    }
    let response = proxy.response(call).json();
    let text = text_of(&response["result"]);
    assert!(["3.50", "4.50", "5.50"].iter().all(|number| text.contains(number)), "unchanged numbers: {text}");
}

#[test]
fn an_error_response_of_the_client_is_the_error_of_its_call() {
    let mut proxy = handshake_to_stateless();
    let call = proxy.send_request("tools/call", call_params("asks", json!({"kinds": "roots"})));
    let request = loop {
        let message = proxy.next_message().unwrap();
        if message.method() == Some("roots/list") {
            break message;
        }
    };
    let error = r#"{"code":-7,"message":"no"}"#;
    proxy.write_line(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, request.id().unwrap()));
    assert_eq!(proxy.response(call).raw("error"), Some(error));
}

#[test]
fn requests_of_a_server_become_input_required_results() {
    let mut proxy = stateless_to_handshake();
    let params_with = |more: Value| {
        let mut params = call_params("asks", json!({"rounds": 2}));
        params.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        params
    };
    let mut result = stateless_call(&mut proxy, params_with(json!({})));
    for round in 0..10 {
        if result["resultType"] == "complete" {
            assert!(text_of(&result).contains("marker"), "{result}");
            assert!(round > 0, "the server requested input");
            return;
        }
        let requests = result["inputRequests"].as_object().unwrap();
        let answers = requests.keys().map(|key| (key.clone(), json!({"marker": round})));
        let answers = Value::Object(answers.collect());
        result = stateless_call(
            &mut proxy,
            params_with(json!({"requestState": result["requestState"], "inputResponses": answers})),
        );
    }
    panic!("the call does not complete: {result}");
}

#[test]
fn unanswered_requests_are_repeated() {
    let mut proxy = stateless_to_handshake();
    let first = stateless_call(&mut proxy, call_params("asks", json!({"kinds": "roots"})));
    let mut retry = call_params("asks", json!({"kinds": "roots"}));
    retry["requestState"] = first["requestState"].clone();
    let repeated = stateless_call(&mut proxy, retry);
    assert_eq!(repeated["inputRequests"], first["inputRequests"], "no request was answered");
    assert_ne!(repeated["requestState"], first["requestState"]);
}

#[test]
fn a_request_state_that_was_used_is_refused() {
    let mut proxy = stateless_to_handshake();
    let first = stateless_call(&mut proxy, call_params("asks", json!({"kinds": "roots"})));
    let key = first["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let mut retry = call_params("asks", json!({"kinds": "roots"}));
    retry["requestState"] = first["requestState"].clone();
    retry["inputResponses"] = json!({key: {"roots": []}});
    assert_eq!(stateless_call(&mut proxy, retry.clone())["resultType"], "complete");
    let id = proxy.send_stateless_request(&all_capabilities(), "tools/call", retry);
    assert_eq!(proxy.response(id).error_code(), Some(-32602), "the state was used");
}

#[test]
fn a_client_without_the_capability_gets_no_request() {
    let mut proxy = stateless_to_handshake();
    // The server was offered the capabilities of the first request. The client of the second request has none.
    stateless_call(&mut proxy, call_params("echo", json!({"text": "x"})));
    let response = proxy.stateless_request("tools/call", call_params("asks", json!({"kinds": "roots"})));
    assert!(response["result"].to_string().contains("-32601"), "{response}");
}

#[test]
fn a_call_that_waits_for_input_fails_when_its_server_exits() {
    let mut proxy = stateless_to_handshake();
    let first = stateless_call(&mut proxy, call_params("asks", json!({"kinds": "roots"})));
    proxy.stateless_request("tools/call", call_params("crash", json!({})));
    let mut retry = call_params("asks", json!({"kinds": "roots"}));
    retry["requestState"] = first["requestState"].clone();
    retry["inputResponses"] = json!({"1": {"roots": []}});
    let result = stateless_call(&mut proxy, retry);
    assert_eq!(result["isError"], true, "{result}");
    assert!(text_of(&result).contains("was lost"), "{result}");
}

#[test]
fn the_capabilities_of_the_open_call_apply() {
    let mut proxy = stateless_to_handshake();
    // The client of the first request has no capabilities.
    proxy.stateless_request("tools/call", call_params("echo", json!({"text": "x"})));
    let first = stateless_call(&mut proxy, call_params("asks", json!({"kinds": "roots"})));
    assert_eq!(first["resultType"], "input_required", "{first}");
}

#[test]
fn a_server_is_offered_the_capabilities_of_all_requests_before_it_connects() {
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(scripted_upstream(&["--protocol"])))]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}}), all_capabilities(), json!({"x": {}})]
    {
        let id = proxy.send_stateless_request(&capabilities, "tools/list", json!({}));
        proxy.response(id);
    }
    proxy.stateless_request("tools/call", call_params("echo", json!({"text": "x"})));
    let initialize = record.wait_for("initialize", 0).json();
    let offered = json!({"roots": {}, "sampling": {}, "elicitation": {"url": {}, "form": {}}});
    assert_eq!(initialize["params"]["capabilities"], offered);
}

#[test]
fn a_request_is_not_assigned_to_a_call_that_waits_for_its_client() {
    let mut proxy = stateless_to_handshake();
    let params = |rounds: u32| call_params("asks", json!({"kinds": "roots", "rounds": rounds}));
    let retry = |last: &Value, rounds: u32| {
        let mut params = params(rounds);
        params["requestState"] = last["requestState"].clone();
        let keys = last["inputRequests"].as_object().unwrap().keys();
        params["inputResponses"] =
            Value::Object(keys.map(|key| (key.clone(), json!({"roots": []}))).collect());
        params
    };
    let first = stateless_call(&mut proxy, params(2));
    let second = stateless_call(&mut proxy, params(1));
    // The first call gets another request, while the second call waits.
    let next = stateless_call(&mut proxy, retry(&first, 2));
    assert_eq!(next["resultType"], "input_required", "{next}");
    assert_eq!(stateless_call(&mut proxy, retry(&next, 2))["resultType"], "complete");
    assert_eq!(stateless_call(&mut proxy, retry(&second, 1))["resultType"], "complete");
}

#[test]
fn a_request_is_refused_while_it_may_belong_to_several_calls() {
    let mut proxy = stateless_to_handshake();
    // It keeps running while the other call asks.
    let params = call_params("late", json!({}));
    let other = proxy.send_stateless_request(&all_capabilities(), "tools/call", params);
    let asking = call_params("ask", json!({"method": "sampling/createMessage"}));
    let refused = stateless_call(&mut proxy, asking.clone());
    assert!(
        text_of(&refused).contains("-32603") && text_of(&refused).contains("several calls are open"),
        "{refused}"
    );
    proxy.notify("notifications/cancelled", json!({"requestId": other}));
    assert_eq!(stateless_call(&mut proxy, asking)["resultType"], "input_required");
}

#[test]
fn a_cancelled_request_is_not_repeated() {
    let mut proxy = stateless_to_handshake();
    let first = stateless_call(&mut proxy, call_params("ask", json!({"method": "roots/list"})));
    assert_eq!(first["resultType"], "input_required", "{first}");
    stateless_call(&mut proxy, call_params("cancel_asked", json!({})));
    let mut retry = call_params("ask", json!({"method": "roots/list"}));
    retry["requestState"] = first["requestState"].clone();
    let result = stateless_call(&mut proxy, retry);
    assert_eq!(result["resultType"], "complete", "no further request: {result}");
}

#[test]
fn retries_without_input_requests_are_delayed() {
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(scripted_upstream(&["--stateless", "--protocol"])))]);
    let mut proxy = Proxy::new(&config);
    let retry_later = json!({"resultType": "input_required", "requestState": "later"});
    proxy.send_request("prompts/get", json!({"group": "g", "name": "greet", "x-result": retry_later}));
    record.wait_for("prompts/get", 2);
    proxy.call_text("g", "sleep", json!({"ms": 300}));
    let requests = record.lines_of("prompts/get").len();
    assert!(requests < 6, "{requests} requests within half a second");
}

#[test]
fn a_question_that_blocks_a_serial_server_ends_after_a_while() {
    for is_serial in [true, false] {
        let flags = &["--protocol", "--serial"][..if is_serial { 2 } else { 1 }];
        let mut proxy = ProxyCommand::new().config(&pure_config([("g", scripted_upstream(flags))])).start();
        let ask = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
        let asked = stateless_call(&mut proxy, call_params("ask", ask.clone()));
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        // The client never continues that call, but goes on.
        let args = if is_serial { json!({"text": "x"}) } else { json!({"ms": 7000}) };
        let next = stateless_call(&mut proxy, call_params(if is_serial { "echo" } else { "sleep" }, args));
        assert!(["x", "slept"].contains(&text_of(&next)), "{next}");
        let mut params = call_params("ask", ask);
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({"1": {"action": "decline"}});
        let id = proxy.send_stateless_request(&all_capabilities(), "tools/call", params);
        let ended = proxy.response(id);
        assert_eq!(ended.error_code().is_some(), is_serial, "{}", ended.line);
    }
}
