//! Revision 2026-07-28, batches, and unsolicited messages.

use serde_json::{Value, json};

use super::ScriptedUpstream;

/// The params of a stateless request: its `_meta`, and `members`.
pub(super) fn stateless_params(capabilities: Value, members: Value) -> Value {
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    params.as_object_mut().unwrap().append(&mut members.as_object().unwrap().clone());
    params
}

fn error_code(server: &mut ScriptedUpstream, method: &str, params: Value) -> i64 {
    server.request(method, params)["error"]["code"].as_i64().unwrap_or_default()
}

#[test]
fn a_stateless_request_must_name_its_client() {
    let mut server = ScriptedUpstream::start(&["--stateless", "--protocol"]);
    let error = &server.request("initialize", json!({"protocolVersion": "2025-11-25"}))["error"];
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert_eq!(error_code(&mut server, "tools/list", json!({})), -32602);
    let mut incomplete = stateless_params(json!({}), json!({}));
    incomplete["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(error_code(&mut server, "tools/list", incomplete.clone()), -32602);
    let mut other = stateless_params(json!({}), json!({}));
    other["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2025-11-25".into();
    assert_eq!(error_code(&mut server, "tools/list", other), -32022);
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/result", "no/such"] {
        assert_eq!(
            error_code(&mut server, method, stateless_params(json!({}), json!({}))),
            -32601,
            "{method}"
        );
    }
    let discovered = &server.request("server/discover", stateless_params(json!({}), json!({})))["result"];
    assert_eq!(
        (&discovered["resultType"], &discovered["supportedVersions"]),
        (&json!("complete"), &json!(["2026-07-28"]))
    );
    assert!(discovered["ttlMs"].is_u64() && discovered["capabilities"]["tools"].is_object(), "{discovered}");
    for (method, members) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/read", json!({"uri": "mem://one"})),
    ] {
        let params = stateless_params(json!({}), members);
        server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
        // The line has numbers that are too large for a `Value`.
        let line = server.read_line();
        for part in [
            r#""resultType":"complete","ttlMs":60000,"cacheScope":"public""#,
            "modelcontextprotocol/serverInfo",
        ] {
            assert!(line.contains(part), "{method}: {line}");
        }
    }
    let params = stateless_params(json!({}), json!({"uri": "mem://nothing"}));
    assert_eq!(error_code(&mut server, "resources/read", params), -32602);
}

#[test]
fn a_stateless_server_rejects_initialize_with_the_given_code() {
    for code in [-32601, -32602, -32000] {
        let mut server = ScriptedUpstream::start(&["--stateless", "--refuses-initialize", &code.to_string()]);
        assert_eq!(error_code(&mut server, "initialize", json!({})), code);
        assert!(server.request("tools/list", stateless_params(json!({}), json!({})))["result"].is_object());
    }
}

#[test]
fn a_dual_server_speaks_both_eras() {
    let mut server = ScriptedUpstream::start(&["--dual"]);
    let list = server.request("tools/list", stateless_params(json!({}), json!({})));
    assert_eq!(list["result"]["resultType"], "complete");
    let initialized = server.request("initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(initialized["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(server.request("tools/list", json!({}))["result"].get("resultType"), None);
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    assert_eq!(error_code(&mut server, "ping", stateless_params(json!({}), json!({}))), -32601);
}

#[test]
fn subscriptions_are_acknowledged_served_and_ended() {
    let mut server = ScriptedUpstream::start(&["--stateless", "--protocol"]);
    let call = |name: &str, arguments: Value| {
        let params = stateless_params(json!({}), json!({"name": name, "arguments": arguments}));
        json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params}).to_string()
    };
    let wanted = json!({"resourceSubscriptions": ["mem://one"], "promptsListChanged": true, "unknown": true});
    let params = stateless_params(json!({}), json!({"notifications": wanted}));
    server.send(
        &json!({"jsonrpc": "2.0", "id": "l\u{e9}", "method": "subscriptions/listen", "params": params})
            .to_string(),
    );
    let acknowledged = server.next_message();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let agreed = json!({"resourceSubscriptions": ["mem://one"], "promptsListChanged": true});
    assert_eq!(acknowledged["params"]["notifications"], agreed);
    let subscription = json!({"io.modelcontextprotocol/subscriptionId": "l\u{e9}"});
    assert_eq!(acknowledged["params"]["_meta"], subscription);
    let updated = "notifications/resources/updated";
    server.send(&call("tell", json!({"method": updated, "params": {"uri": "mem://two"}})));
    assert_eq!(server.next_message()["id"], "call", "nobody subscribed to it");
    server.send(&call("grow", json!({"list": "resources"})));
    assert_eq!(server.next_message()["id"], "call", "nor to this");
    for (tool, arguments, method) in [
        ("tell", json!({"method": updated, "params": {"uri": "mem://one", "_meta": {}}}), updated),
        ("grow", json!({"list": "prompts"}), "notifications/prompts/list_changed"),
    ] {
        server.send(&call(tool, arguments));
        let notification = server.next_message();
        assert_eq!(
            (&notification["method"], &notification["params"]["_meta"]),
            (&json!(method), &subscription)
        );
        assert_eq!(server.next_message()["id"], "call");
    }
    server.send(&call("end_listening", json!({})));
    let end = server.next_message();
    let wanted = json!({"resultType": "complete", "_meta": subscription});
    assert_eq!((&end["id"], &end["result"]), (&json!("l\u{e9}"), &wanted));
}

#[test]
fn log_messages_are_sent_from_the_requested_level_on() {
    let mut server = ScriptedUpstream::start(&["--stateless", "--protocol"]);
    for (min_level, is_sent) in [(None, false), (Some("info"), true), (Some("error"), false)] {
        let arguments = json!({"method": "notifications/message", "params": {"level": "warning", "data": 1}});
        let mut params = stateless_params(json!({}), json!({"name": "tell", "arguments": arguments}));
        if let Some(level) = min_level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        let first = server.request("tools/call", params);
        assert_eq!(first["method"] == "notifications/message", is_sent, "{first}");
        if is_sent {
            assert_eq!(server.next_message()["id"], 1);
        }
    }
    let mut params = stateless_params(json!({}), json!({}));
    params["_meta"]["io.modelcontextprotocol/logLevel"] = "loud".into();
    assert_eq!(error_code(&mut server, "tools/list", params), -32602);
}

#[test]
fn stateless_input_is_requested_by_results() {
    let mut server = ScriptedUpstream::start(&["--stateless", "--protocol", "--asks"]);
    for (method, members) in [
        ("tools/call", json!({"name": "asks", "arguments": {"kinds": "elicitation,roots", "rounds": 2}})),
        ("prompts/get", json!({"name": "asks", "arguments": {"kinds": "elicitation,roots"}})),
        ("resources/read", json!({"uri": "mem://asks/elicitation/roots"})),
    ] {
        let error =
            &server.request(method, stateless_params(json!({"elicitation": {}}), members.clone()))["error"];
        assert_eq!(
            (&error["code"], &error["data"]),
            (&json!(-32021), &json!({"requiredCapabilities": {"roots": {}}}))
        );
        let mut params = stateless_params(json!({"elicitation": {}, "roots": {}}), members);
        let mut rounds = 0;
        let last = loop {
            let answer = server.request(method, params.clone());
            let result = &answer["result"];
            if result["resultType"] != "input_required" {
                break result.to_string();
            }
            rounds += 1;
            let requests = result["inputRequests"].as_object().unwrap();
            let answers: serde_json::Map<_, _> =
                requests.iter().map(|(key, asked)| (key.clone(), json!({"to": asked["method"]}))).collect();
            (params["inputResponses"], params["requestState"]) =
                (answers.into(), result["requestState"].clone());
        };
        assert_eq!(rounds, if method == "tools/call" { 2 } else { 1 });
        assert!(last.contains("roots/list") && last.contains("elicitation/create"), "{last}");
        params["requestState"] = "another".into();
        assert_eq!(error_code(&mut server, method, params), -32602);
    }
}

#[test]
fn batches_are_sent_and_read() {
    let mut server = ScriptedUpstream::start(&["--batches", "--protocol"]);
    let call = |id: u32, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    server.send(&call(1, "progress", json!({"n": 2})).to_string());
    assert_eq!(server.next_message().as_array().unwrap().len(), 3);
    server.send(&json!([call(1, "echo", json!({})), call(2, "echo", json!({}))]).to_string());
    assert_eq!(server.next_message().as_array().unwrap().len(), 2);
    server.send(&call(1, "asks", json!({"kinds": ["sampling", "roots"]})).to_string());
    let requests = server.next_message();
    assert_eq!(requests[1]["method"], "roots/list");
    let answers = [0, 1].map(|n| json!({"jsonrpc": "2.0", "id": requests[n]["id"], "result": {"n": n}}));
    server.send(&json!(answers).to_string());
    let text = server.next_message()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(r#":{"n":0}"#) && text.contains(r#":{"n":1}"#), "{text}");
    server.send(&call(5, "together", json!({})).to_string());
    server.next_message();
    server.send(&call(6, "together", json!({})).to_string());
    let both = server.next_message();
    assert_eq!(
        (&both[0]["method"], &both[1]["id"], &both[2]["id"]),
        (&json!("notifications/message"), &json!(5), &json!(6))
    );
}

#[test]
fn unsolicited_messages_are_sent_with_their_flags() {
    let mut server = ScriptedUpstream::start(&["--earlier", "--chatty", "--no-version"]);
    let assert_unsolicited = |server: &mut ScriptedUpstream, when: &str| {
        assert_eq!(server.next_message()["id"], format!("{when}-1"));
        assert_eq!(server.next_message()["params"]["data"], when);
        assert_eq!(server.next_message()["id"], "never-sent");
        assert_eq!(server.next_message()["id"], -7);
    };
    assert_unsolicited(&mut server, "earlier");
    let initialized = server.request("initialize", json!({}));
    assert_eq!(initialized["result"].get("protocolVersion"), None);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_unsolicited(&mut server, "chatty");
}
