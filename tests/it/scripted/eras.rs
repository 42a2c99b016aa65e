//! Revision 2026-07-28, batches, and what comes at the wrong time.

use serde_json::{Value, json};

use super::Scripted;

/// Params that say who asks, with these members more.
fn stateless(capabilities: Value, more: Value) -> Value {
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    params.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    params
}

fn code(server: &mut Scripted, method: &str, params: Value) -> i64 {
    server.ask(method, params)["error"]["code"].as_i64().unwrap_or_default()
}

#[test]
fn a_stateless_server_wants_to_know_who_asks_each_time() {
    let mut server = Scripted::start(&["--stateless", "--protocol"]);
    let error = &server.ask("initialize", json!({"protocolVersion": "2025-11-25"}))["error"];
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert_eq!(code(&mut server, "tools/list", json!({})), -32602);
    let mut half = stateless(json!({}), json!({}));
    half["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(code(&mut server, "tools/list", half.clone()), -32602);
    let mut other = stateless(json!({}), json!({}));
    other["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2025-11-25".into();
    assert_eq!(code(&mut server, "tools/list", other), -32022);
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/result", "no/such"] {
        assert_eq!(code(&mut server, method, stateless(json!({}), json!({}))), -32601, "{method}");
    }
    let found = &server.ask("server/discover", stateless(json!({}), json!({})))["result"];
    assert_eq!(
        (&found["resultType"], &found["supportedVersions"]),
        (&json!("complete"), &json!(["2026-07-28"]))
    );
    assert!(found["ttlMs"].is_u64() && found["capabilities"]["tools"].is_object(), "{found}");
    for (method, more) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/read", json!({"uri": "mem://one"})),
    ] {
        let params = stateless(json!({}), more);
        server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
        // There are numbers in it that no value holds.
        let line = server.line();
        for part in [
            r#""resultType":"complete","ttlMs":60000,"cacheScope":"public""#,
            "modelcontextprotocol/serverInfo",
        ] {
            assert!(line.contains(part), "{method}: {line}");
        }
    }
    let params = stateless(json!({}), json!({"uri": "mem://nothing"}));
    assert_eq!(code(&mut server, "resources/read", params), -32602);
}

#[test]
fn it_refuses_a_handshake_in_the_ways_servers_do() {
    for refusal in [-32601, -32602, -32000] {
        let mut server = Scripted::start(&["--stateless", "--refuses-initialize", &refusal.to_string()]);
        assert_eq!(code(&mut server, "initialize", json!({})), refusal);
        assert!(server.ask("tools/list", stateless(json!({}), json!({})))["result"].is_object());
    }
}

#[test]
fn a_dual_server_speaks_both_eras() {
    let mut server = Scripted::start(&["--dual"]);
    let list = server.ask("tools/list", stateless(json!({}), json!({})));
    assert_eq!(list["result"]["resultType"], "complete");
    let greeting = server.ask("initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(greeting["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(server.ask("tools/list", json!({}))["result"].get("resultType"), None);
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(code(&mut server, "ping", stateless(json!({}), json!({}))), -32601);
}

#[test]
fn subscriptions_are_acknowledged_told_and_ended() {
    let mut server = Scripted::start(&["--stateless", "--protocol"]);
    let call = |name: &str, arguments: Value| {
        let params = stateless(json!({}), json!({"name": name, "arguments": arguments}));
        json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": params}).to_string()
    };
    let wanted = json!({"resourceSubscriptions": ["mem://one"], "promptsListChanged": true, "unknown": true});
    let params = stateless(json!({}), json!({"notifications": wanted}));
    server.send(
        &json!({"jsonrpc": "2.0", "id": "l\u{e9}", "method": "subscriptions/listen", "params": params})
            .to_string(),
    );
    let acknowledged = server.next();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let agreed = json!({"resourceSubscriptions": ["mem://one"], "promptsListChanged": true});
    assert_eq!(acknowledged["params"]["notifications"], agreed);
    let subscription = json!({"io.modelcontextprotocol/subscriptionId": "l\u{e9}"});
    assert_eq!(acknowledged["params"]["_meta"], subscription);
    let updated = "notifications/resources/updated";
    server.send(&call("tell", json!({"method": updated, "params": {"uri": "mem://two"}})));
    assert_eq!(server.next()["id"], "call", "nobody listens to that");
    server.send(&call("grow", json!({"list": "resources"})));
    assert_eq!(server.next()["id"], "call", "nor to that");
    for (tool, arguments, method) in [
        ("tell", json!({"method": updated, "params": {"uri": "mem://one", "_meta": {}}}), updated),
        ("grow", json!({"list": "prompts"}), "notifications/prompts/list_changed"),
    ] {
        server.send(&call(tool, arguments));
        let told = server.next();
        assert_eq!((&told["method"], &told["params"]["_meta"]), (&json!(method), &subscription));
        assert_eq!(server.next()["id"], "call");
    }
    server.send(&call("end_listening", json!({})));
    let end = server.next();
    let wanted = json!({"resultType": "complete", "_meta": subscription});
    assert_eq!((&end["id"], &end["result"]), (&json!("l\u{e9}"), &wanted));
}

#[test]
fn messages_come_if_the_request_asks_for_them() {
    let mut server = Scripted::start(&["--stateless", "--protocol"]);
    for (wanted, comes) in [(None, false), (Some("info"), true), (Some("error"), false)] {
        let arguments = json!({"method": "notifications/message", "params": {"level": "warning", "data": 1}});
        let mut params = stateless(json!({}), json!({"name": "tell", "arguments": arguments}));
        if let Some(level) = wanted {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        let first = server.ask("tools/call", params);
        assert_eq!(first["method"] == "notifications/message", comes, "{first}");
        if comes {
            assert_eq!(server.next()["id"], 1);
        }
    }
    let mut params = stateless(json!({}), json!({}));
    params["_meta"]["io.modelcontextprotocol/logLevel"] = "loud".into();
    assert_eq!(code(&mut server, "tools/list", params), -32602);
}

#[test]
fn what_it_wants_to_know_it_asks_by_its_result() {
    let mut server = Scripted::start(&["--stateless", "--protocol", "--asks"]);
    for (method, more) in [
        ("tools/call", json!({"name": "asks", "arguments": {"kinds": "elicitation,roots", "rounds": 2}})),
        ("prompts/get", json!({"name": "asks", "arguments": {"kinds": "elicitation,roots"}})),
        ("resources/read", json!({"uri": "mem://asks/elicitation/roots"})),
    ] {
        let error = &server.ask(method, stateless(json!({"elicitation": {}}), more.clone()))["error"];
        assert_eq!(
            (&error["code"], &error["data"]),
            (&json!(-32021), &json!({"requiredCapabilities": {"roots": {}}}))
        );
        let mut params = stateless(json!({"elicitation": {}, "roots": {}}), more);
        let mut rounds = 0;
        let last = loop {
            let answer = server.ask(method, params.clone());
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
        assert_eq!(code(&mut server, method, params), -32602);
    }
}

#[test]
fn batches_are_sent_and_read() {
    let mut server = Scripted::start(&["--batches", "--protocol"]);
    let call = |id: u32, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    server.send(&call(1, "progress", json!({"n": 2})).to_string());
    assert_eq!(server.next().as_array().unwrap().len(), 3);
    server.send(&json!([call(1, "echo", json!({})), call(2, "echo", json!({}))]).to_string());
    assert_eq!(server.next().as_array().unwrap().len(), 2);
    server.send(&call(1, "asks", json!({"kinds": ["sampling", "roots"]})).to_string());
    let asked = server.next();
    assert_eq!(asked[1]["method"], "roots/list");
    let answers = [0, 1].map(|n| json!({"jsonrpc": "2.0", "id": asked[n]["id"], "result": {"n": n}}));
    server.send(&json!(answers).to_string());
    let text = server.next()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(r#":{"n":0}"#) && text.contains(r#":{"n":1}"#), "{text}");
    server.send(&call(5, "together", json!({})).to_string());
    server.next();
    server.send(&call(6, "together", json!({})).to_string());
    let both = server.next();
    assert_eq!(
        (&both[0]["method"], &both[1]["id"], &both[2]["id"]),
        (&json!("notifications/message"), &json!(5), &json!(6))
    );
}

#[test]
fn it_speaks_out_of_turn_on_demand() {
    let mut server = Scripted::start(&["--earlier", "--chatty", "--no-version"]);
    let turn = |server: &mut Scripted, when: &str| {
        assert_eq!(server.next()["id"], format!("{when}-1"));
        assert_eq!(server.next()["params"]["data"], when);
        assert_eq!(server.next()["id"], "never-sent");
        assert_eq!(server.next()["id"], -7);
    };
    turn(&mut server, "earlier");
    let greeting = server.ask("initialize", json!({}));
    assert_eq!(greeting["result"].get("protocolVersion"), None);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    turn(&mut server, "chatty");
}
