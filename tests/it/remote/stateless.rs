//! Servers of revision 2026-07-28: the headers of each request mirror its body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Reply, Request, Server, event, proxy};
use crate::support::wait_until;

const REVISION: &str = "2026-07-28";

/// Whether a request follows the rules of the revision.
fn is_valid(request: &Request) -> bool {
    let params = &request.body["params"];
    let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).unwrap_or_default();
    request.method == "POST"
        && request.header("mcp-protocol-version") == REVISION
        && params["_meta"]["io.modelcontextprotocol/protocolVersion"] == REVISION
        && request.header("mcp-method") == request.rpc_method()
        && (request.header("mcp-name") == name || request.header("mcp-name").starts_with("=?base64?"))
        && request.header("mcp-session-id").is_empty()
}

/// A server that accepts only such requests. `error_code`: its error for others.
fn strict_server(error_code: i64) -> Server {
    Server::start(move |request| {
        if !is_valid(request) {
            let error = request.error_response(error_code, "header mismatch");
            let status = if error_code == -32601 { 404 } else { 400 };
            return Some(Reply::text(status, "application/json", error));
        }
        Some(stateless_reply(request))
    })
}

/// The reply of a stateless server with a few tools and a resource.
fn stateless_reply(request: &Request) -> Reply {
    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string"},
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    }});
    let invalid = json!({"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}});
    let mut result = match request.rpc_method() {
        "server/discover" => {
            json!({"supportedVersions": [REVISION], "capabilities": {"tools": {}, "resources": {}}})
        }
        "tools/list" => json!({"tools": [
            {"name": "echo", "inputSchema": schema}, {"name": "wrong", "inputSchema": invalid},
            {"name": "wärmer", "inputSchema": {"type": "object"}},
        ]}),
        "resources/list" => json!({"resources": [{"uri": "x://ü", "name": "u"}]}),
        "resources/read" => json!({"contents": [{"uri": "x://ü", "text": "read"}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "called"}]}),
        _ => return Reply::text(404, "application/json", request.error_response(-32601, "Method not found")),
    };
    result["resultType"] = json!("complete");
    Reply::json(request.response(result))
}

#[test]
fn the_era_is_found_by_the_error_and_headers_mirror_each_request() {
    for error_code in [-32020, -32022, -32601, -32602] {
        let server = strict_server(error_code);
        let mut proxy = proxy(&server);
        let args = json!({"text": "x", "region": "Zürich", "count": 42});
        assert_eq!(proxy.call_text("g", "echo", args), "called", "{error_code}");
        assert_eq!(proxy.group_status("g")["protocolVersion"], REVISION);
        proxy.wait_for_log("Connecting to g");
        assert_eq!(proxy.log().matches("Connecting to g").count(), 1, "one attempt");
        let call = server.requests_of("tools/call").remove(0);
        assert_eq!(call.header("mcp-name"), "echo");
        assert_eq!(call.header("mcp-param-region"), "=?base64?WsO8cmljaA==?=");
        assert_eq!(call.header("mcp-param-count"), "42");
        assert_eq!(proxy.call_text("g", "wärmer", json!({})), "called");
        assert_eq!(server.requests_of("tools/call")[1].header("mcp-name"), "=?base64?d8Okcm1lcg==?=");
        let read = proxy.request("resources/read", json!({"uri": "x://ü", "group": "g"}));
        assert_eq!(read["result"]["contents"][0]["text"], "read", "{read}");
        proxy.close_stdin();
        proxy.wait_for_exit();
        let invalid: Vec<_> = server.requests().into_iter().filter(|request| !is_valid(request)).collect();
        assert_eq!(
            invalid.iter().map(Request::rpc_method).collect::<Vec<_>>(),
            ["initialize"],
            "no session, no GET, no DELETE"
        );
    }
}

/// An answer to `initialize` with this revision.
fn initialize_reply(request: &Request, revision: &str) -> Reply {
    let info = json!({"name": "both", "version": "1"});
    let capabilities = json!({"tools": {}});
    Reply::json(
        request
            .response(json!({"protocolVersion": revision, "capabilities": capabilities, "serverInfo": info})),
    )
}

#[test]
fn the_era_is_found_by_the_revision_in_the_answer_to_initialize() {
    for revision in [REVISION, "2027-01-31"] {
        let server = Server::start(move |request| match request.rpc_method() {
            "initialize" => Some(initialize_reply(request, revision)),
            _ => Some(stateless_reply(request)),
        });
        let mut proxy = proxy(&server);
        assert_eq!(proxy.call_text("g", "echo", json!({"region": "x"})), "called");
        assert_eq!(proxy.group_status("g")["protocolVersion"], REVISION);
        assert_eq!(server.requests_of("tools/call")[0].header("mcp-param-region"), "x");
        assert_eq!(server.requests_of("initialize")[0].header("mcp-method"), "initialize");
        let invalid: Vec<_> = server.requests().into_iter().filter(|request| !is_valid(request)).collect();
        assert_eq!(invalid.iter().map(Request::rpc_method).collect::<Vec<_>>(), ["initialize"]);
        assert!(!proxy.log().contains("does not know"), "{}", proxy.log());
    }
}

#[test]
fn an_answered_handshake_is_used_if_the_stateless_era_fails() {
    let server = Server::start(|request| match request.rpc_method() {
        "initialize" => Some(initialize_reply(request, REVISION)),
        _ => None,
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(proxy.group_status("g")["protocolVersion"], REVISION);
    proxy.wait_for_log("uses a protocol revision that dynamic-mcp does not know");
    let methods: Vec<_> =
        server.requests_of("POST").iter().map(|post| post.rpc_method().to_owned()).collect();
    let expected = ["initialize", "server/discover", "initialize", "notifications/initialized", "tools/list"];
    assert_eq!(methods[..5], expected);
    assert!(
        server.requests_of("tools/call")[0].header("mcp-method").is_empty(),
        "no headers of the stateless era"
    );
}

#[test]
fn a_tool_with_an_invalid_header_declaration_is_removed() {
    let mut proxy = proxy(&strict_server(-32022));
    let tools = proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(tools.contains("echo") && !tools.contains("wrong"), "{tools}");
    assert!(proxy.call_failure("g", "wrong", json!({})).contains("wrong"));
    proxy.wait_for_log("x-mcp-header is invalid");
}

#[test]
fn a_call_is_cancelled_by_closing_its_stream() {
    let closed = Arc::new(AtomicBool::new(false));
    let is_closed = closed.clone();
    let server = Server::start(move |request| {
        if !is_valid(request) {
            return Some(Reply::text(400, "application/json", request.error_response(-32022, "no")));
        }
        let is_closed = is_closed.clone();
        Some(match request.is_tool_call() {
            true => Reply::events(move |out| {
                out.keep_open();
                is_closed.store(true, Ordering::Relaxed);
                false
            }),
            false => stateless_reply(request),
        })
    });
    let mut proxy = proxy(&server);
    let id = proxy.send_call("g", "echo", json!({}));
    server.wait_for_requests("tools/call", 1);
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    wait_until("the stream is closed", || closed.load(Ordering::Relaxed));
    assert_eq!(server.requests_of("notifications/cancelled").len(), 0);
}

#[test]
fn list_changes_come_on_a_subscription_that_is_renewed() {
    let listens = Arc::new(AtomicUsize::new(0));
    let count = listens.clone();
    let server = Server::start(move |request| {
        if !is_valid(request) {
            return Some(Reply::text(400, "application/json", request.error_response(-32022, "no")));
        }
        let late = count.load(Ordering::SeqCst) > 1;
        Some(match request.rpc_method() {
            "server/discover" => Reply::json(request.response(json!({
                "supportedVersions": [REVISION], "capabilities": {"tools": {"listChanged": true}},
            }))),
            "subscriptions/listen" => {
                count.fetch_add(1, Ordering::SeqCst);
                let changed =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
                let again = count.load(Ordering::SeqCst) > 1;
                Reply::events(move |out| {
                    if again && out.write(&event(&changed)) {
                        out.keep_open();
                    }
                    false
                })
            }
            "tools/list" if late => Reply::json(request.response(json!({
                "tools": [{"name": "late", "inputSchema": {"type": "object"}}],
            }))),
            _ => stateless_reply(request),
        })
    });
    let mut proxy = proxy(&server);
    proxy.call_text("g", "echo", json!({}));
    wait_until("the subscription is renewed", || {
        proxy.get_dynamic_tools(json!({"group": "g"})).contains("late")
    });
    assert_eq!(listens.load(Ordering::SeqCst), 2);
    assert_eq!(server.requests_of("server/discover").len(), 1);
}

#[test]
fn a_stream_that_breaks_off_is_not_resumed() {
    let server = Server::start(|request| {
        if !is_valid(request) {
            return Some(Reply::text(400, "application/json", request.error_response(-32022, "no")));
        }
        Some(match request.is_tool_call() {
            true => Reply::events(|out| {
                out.write("id: 1\n") && out.cut(&event("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"))
            }),
            false => stateless_reply(request),
        })
    });
    let mut proxy = proxy(&server);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("broke before the answer was complete"), "{failure}");
    assert_eq!(server.requests_of("GET").len(), 0);
}

#[test]
fn a_call_with_outdated_headers_is_repeated_with_those_of_the_current_list() {
    let changed = Arc::new(AtomicBool::new(false));
    let is_changed = changed.clone();
    let server = Server::start(move |request| {
        if !is_valid(request) {
            return Some(Reply::text(400, "application/json", request.error_response(-32022, "no")));
        }
        let changed = is_changed.load(Ordering::SeqCst);
        let lacks = changed && request.header("mcp-param-text") != "x";
        if request.is_tool_call() && (lacks || request.body["params"]["name"] == "never") {
            return Some(Reply::text(
                400,
                "application/json",
                request.error_response(-32020, "Header mismatch"),
            ));
        }
        let text = if changed {
            json!({"type": "string", "x-mcp-header": "Text"})
        } else {
            json!({"type": "string"})
        };
        Some(match request.rpc_method() {
            "tools/list" => Reply::json(request.response(json!({"tools": [
                {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": text}}},
                {"name": "never", "inputSchema": {"type": "object"}},
            ]}))),
            _ => stateless_reply(request),
        })
    });
    let mut proxy = proxy(&server);
    proxy.call_text("g", "echo", json!({"text": "x"}));
    changed.store(true, Ordering::SeqCst);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "called");
    let calls = server.requests_of("tools/call");
    let sent: Vec<_> = calls.iter().map(|call| call.header("mcp-param-text")).collect();
    assert_eq!(sent, ["", "", "x"], "repeated once, with the new header");
    assert_eq!(calls[1].text, calls[2].text);
    let lists = server.requests_of("tools/list").len();
    let arguments = json!({"group": "g", "name": "never", "args": {}});
    let refused = proxy.request("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}));
    assert_eq!(refused["error"]["message"], "Header mismatch", "there are no other headers: {refused}");
    assert_eq!(
        (server.requests_of("tools/call").len(), server.requests_of("tools/list").len()),
        (4, lists + 1)
    );
}

/// An error for the request's revision that names the supported ones.
fn unsupported_revision(request: &Request, supported: &[&str]) -> Reply {
    let error = json!({"code": -32022, "message": "Unsupported protocol version",
        "data": {"supported": supported, "requested": REVISION}});
    let reply = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
    Reply::text(400, "application/json", reply.to_string())
}

#[test]
fn without_a_common_revision_the_other_era_is_not_tried() {
    for knows_initialize in [true, false] {
        let server = Server::start(move |request| match request.rpc_method() {
            "initialize" if !knows_initialize => {
                Some(Reply::text(404, "application/json", request.error_response(-32601, "Method not found")))
            }
            _ => Some(unsupported_revision(request, &["2030-01-01"])),
        });
        let mut proxy = proxy(&server);
        let failure = proxy.call_failure("g", "echo", json!({}));
        assert!(failure.contains(r#""Unsupported protocol version"; it supports "2030-01-01""#), "{failure}");
        let methods: Vec<_> =
            server.requests().iter().map(|request| request.rpc_method().to_owned()).collect();
        let expected =
            if knows_initialize { &["initialize"][..] } else { &["initialize", "server/discover"] };
        assert_eq!(methods, expected);
    }
}

#[test]
fn a_server_that_refuses_a_revision_it_names_is_asked_once_more() {
    let refusals = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let is_first =
            request.rpc_method() == "server/discover" && refusals.fetch_add(1, Ordering::SeqCst) == 0;
        let refuses = is_first || request.rpc_method() == "initialize";
        Some(if refuses { unsupported_revision(request, &[REVISION]) } else { stateless_reply(request) })
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.call_text("g", "echo", json!({})), "called");
    assert_eq!((server.requests_of("initialize").len(), server.requests_of("server/discover").len()), (1, 2));
}

#[test]
fn a_server_that_withdraws_the_revision_is_reconnected_in_another_and_the_call_repeated() {
    let is_downgraded = Arc::new(AtomicBool::new(false));
    let downgraded = is_downgraded.clone();
    let server = Server::start(move |request| match downgraded.load(Ordering::SeqCst) {
        true if request.header("mcp-protocol-version") == REVISION => {
            Some(unsupported_revision(request, &["2025-11-25"]))
        }
        true => None,
        false if is_valid(request) => Some(stateless_reply(request)),
        false => Some(unsupported_revision(request, &[REVISION])),
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "called");
    is_downgraded.store(true, Ordering::SeqCst);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "older"})), "older");
    assert_eq!(proxy.group_status("g")["protocolVersion"], "2025-11-25");
    let calls = server.requests_of("tools/call");
    let revisions: Vec<_> = calls.iter().map(|call| call.header("mcp-protocol-version")).collect();
    assert_eq!(revisions, [REVISION, REVISION, "2025-11-25"]);
}
