//! Calls of tools in `tools.ask`, which need the user's approval: by elicitation, or by an `input_required` result for a
//! stateless client.

use serde_json::{Value, json};

use crate::support::{InputRecord, Proxy, ProxyCommand, merged, pure_config, scripted_upstream, text_of};

/// A session of a client with these capabilities, and an upstream whose tools need approval.
fn proxy_with_approval(record: &InputRecord, capabilities: Value) -> Proxy {
    let entry = merged(
        record.attached_to(scripted_upstream(&["--tools", "1"])),
        json!({"tools": {"ask": ["gen*", "echo"]}}),
    );
    Proxy::with_capabilities(&pure_config([("g", entry)]), capabilities)
}

#[test]
fn an_approved_call_runs_and_the_question_shows_group_tool_and_arguments() {
    for elicitation in [json!({}), json!({"form": {}}), json!({"form": {}, "url": {}})] {
        let record = InputRecord::new();
        let mut proxy = proxy_with_approval(&record, json!({"elicitation": elicitation}));
        let call = proxy.send_raw_call("g", "generated_0", r#"{"path":"/tmp","n":1e400}"#);
        let request = proxy.wait_for_message("elicitation/create");
        let question = request.json();
        let message = question["params"]["message"].as_str().unwrap();
        for part in ["[g] ", "generated_0", "group g", r#"{"path":"/tmp","n":1e400}"#] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(question["params"]["requestedSchema"], json!({"type": "object", "properties": {}}));
        assert_eq!(record.lines_of("tools/call").len(), 0, "before the user has answered");
        proxy.respond(&request, r#""result":{"action":"accept","content":{}}"#);
        let result = proxy.response(call).json()["result"].take();
        assert_eq!(text_of(&result), r#"{"path":"/tmp","n":1e400}"#);
    }
}

#[test]
fn a_call_that_is_not_approved_does_not_run() {
    let record = InputRecord::new();
    let mut proxy = proxy_with_approval(&record, json!({"elicitation": {}}));
    for (outcome, part) in [
        (r#""result":{"action":"decline"}"#, "declined this call"),
        (r#""result":{"action":"cancel"}"#, "dismissed this call"),
        (r#""result":{"action":"whatever"}"#, "tools.ask"),
        (r#""error":{"code":-32603,"message":"no window"}"#, "tools.ask"),
    ] {
        let call = proxy.send_request("tools/call", json!({"name": "g__generated_0", "arguments": {}}));
        let request = proxy.wait_for_message("elicitation/create");
        proxy.respond(&request, outcome);
        let result = proxy.response(call).json()["result"].take();
        assert!(result["isError"] == true && text_of(&result).contains(part), "{outcome}: {result}");
    }
    assert_eq!(record.lines_of("tools/call").len(), 0);
}

#[test]
fn without_form_elicitation_the_call_does_not_run_and_the_config_key_is_named() {
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let record = InputRecord::new();
        let mut proxy = proxy_with_approval(&record, capabilities);
        let text = proxy.call_failure("g", "generated_0", json!({}));
        assert!(
            text.contains("tools.ask in the config") && text.contains("can remove the tool from tools.ask"),
            "{text}"
        );
        proxy.assert_no_message();
        assert_eq!(record.lines_of("tools/call").len(), 0);
    }
}

#[test]
fn invalid_arguments_are_refused_before_the_user_is_asked() {
    let record = InputRecord::new();
    let mut proxy = proxy_with_approval(&record, json!({"elicitation": {}}));
    assert!(proxy.call_failure("g", "echo", json!({"text": 3})).contains("do not fit"));
    proxy.assert_no_message();
}

#[test]
fn a_cancelled_call_cancels_its_elicitation() {
    let record = InputRecord::new();
    let mut proxy = proxy_with_approval(&record, json!({"elicitation": {}}));
    let call = proxy.send_raw_call("g", "generated_0", "{}");
    let request = proxy.wait_for_message("elicitation/create");
    proxy.notify("notifications/cancelled", json!({"requestId": call}));
    let cancelled = proxy.wait_for_message("notifications/cancelled").json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), request.id().unwrap());
    proxy.respond(&request, r#""result":{"action":"accept"}"#);
    proxy.assert_no_message();
    assert_eq!(record.lines_of("tools/call").len(), 0);
}

/// The params of a stateless client's call of a tool of `g`.
fn stateless_params(tool: &str, args: &Value, capabilities: &Value) -> Value {
    json!({
        "name": "call_dynamic_tool",
        "arguments": {"group": "g", "name": tool, "args": args},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        },
    })
}

/// The params of the same call with answers to the input requests of its last result. `action`: the answer to ours.
fn retry_params(params: &Value, last: &Value, action: &str) -> Value {
    assert_eq!(last["resultType"], "input_required", "{last}");
    let mut params = params.clone();
    params["requestState"] = last["requestState"].clone();
    for key in last["inputRequests"].as_object().unwrap().keys() {
        let is_ours = key == "dynamic-mcp/confirm";
        params["inputResponses"][key] =
            if is_ours { json!({"action": action}) } else { json!({"marker": key}) };
    }
    params
}

/// The same for a stateless client. `flags`: those of the upstream.
fn stateless_proxy_with_approval(record: &InputRecord, flags: &[&str]) -> Proxy {
    let ask = json!({"tools": {"ask": ["gen*", "asks"]}});
    let entry = merged(record.attached_to(scripted_upstream(&[&["--tools", "2"], flags].concat())), ask);
    ProxyCommand::new().config(&pure_config([("g", entry)])).start()
}

#[test]
fn a_stateless_client_gets_the_question_as_a_result_and_retries() {
    for flags in [&[][..], &["--stateless", "--protocol"]] {
        let record = InputRecord::new();
        let mut proxy = stateless_proxy_with_approval(&record, flags);
        let params =
            stateless_params("generated_0", &json!({"path": "/tmp"}), &json!({"elicitation": {"form": {}}}));
        let input_required = proxy.request("tools/call", params.clone())["result"].take();
        let question = &input_required["inputRequests"]["dynamic-mcp/confirm"];
        assert_eq!(
            (&question["method"], &question["params"]["mode"]),
            (&json!("elicitation/create"), &json!("form"))
        );
        assert_eq!(question["params"]["requestedSchema"], json!({"type": "object", "properties": {}}));
        let message = question["params"]["message"].as_str().unwrap();
        for part in ["[g] ", "generated_0", r#"{"path":"/tmp"}"#] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(record.lines_of("tools/call").len(), 0, "before the user has answered");
        let done =
            proxy.request("tools/call", retry_params(&params, &input_required, "accept"))["result"].take();
        assert_eq!(text_of(&done), r#"{"path":"/tmp"}"#, "{flags:?}");
        let received = record.wait_for("tools/call", 0).json();
        assert!(
            !received.to_string().contains("request") && !received.to_string().contains("confirm"),
            "{received}"
        );
    }
}

#[test]
fn declined_forged_or_reused_approvals_do_not_run_the_call() {
    let record = InputRecord::new();
    let mut proxy = stateless_proxy_with_approval(&record, &[]);
    let capabilities = json!({"elicitation": {}});
    let params = stateless_params("generated_0", &json!({"n": 1}), &capabilities);
    let input_required = proxy.request("tools/call", params.clone())["result"].take();
    for (action, part) in
        [("decline", "declined this call"), ("cancel", "dismissed this call"), ("whatever", "tools.ask")]
    {
        let result =
            proxy.request("tools/call", retry_params(&params, &input_required, action))["result"].take();
        assert!(result["isError"] == true && text_of(&result).contains(part), "{action}: {result}");
    }
    let other_calls = [
        stateless_params("generated_0", &json!({"n": 2}), &capabilities),
        stateless_params("generated_1", &json!({"n": 1}), &capabilities),
    ];
    for other in other_calls {
        let result =
            proxy.request("tools/call", retry_params(&other, &input_required, "accept"))["result"].take();
        assert_eq!(result["resultType"], "input_required", "the user is asked again: {result}");
    }
    let mut with_forged_state = retry_params(&params, &input_required, "accept");
    with_forged_state["requestState"] =
        json!(format!("{}:", input_required["requestState"].as_str().unwrap()));
    assert_eq!(proxy.request("tools/call", with_forged_state)["result"]["resultType"], "input_required");
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let params = stateless_params("generated_0", &json!({}), &capabilities);
        let result = proxy.request("tools/call", params)["result"].take();
        assert!(
            result["isError"] == true && text_of(&result).contains("can remove the tool from tools.ask"),
            "{result}"
        );
    }
    assert_eq!(record.lines_of("tools/call").len(), 0);
}

#[test]
fn later_input_requests_of_the_upstream_need_no_second_approval() {
    let record = InputRecord::new();
    let mut proxy = stateless_proxy_with_approval(&record, &["--stateless", "--protocol"]);
    let capabilities = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
    let params = stateless_params("asks", &json!({"rounds": 2}), &capabilities);
    let mut input_required = proxy.request("tools/call", params.clone())["result"].take();
    assert!(input_required["inputRequests"]["dynamic-mcp/confirm"].is_object(), "{input_required}");
    // The upstream refuses every state that differs from its own.
    for round in 1..=2 {
        input_required =
            proxy.request("tools/call", retry_params(&params, &input_required, "accept"))["result"].take();
        assert!(
            input_required["inputRequests"]["dynamic-mcp/confirm"].is_null(),
            "{round}: {input_required}"
        );
    }
    let done = proxy.request("tools/call", retry_params(&params, &input_required, "accept"))["result"].take();
    assert_eq!(done["resultType"], "complete", "{done}");
    assert!(text_of(&done).contains("marker") && !text_of(&done).contains("dynamic-mcp"), "{done}");
    assert_eq!(record.lines_of("tools/call").len(), 3);
}
