//! Servers of revision 2026-07-28: every request says in its headers what it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Reply, Request, Server, event, proxy};
use crate::support::until;

const REVISION: &str = "2026-07-28";

/// Whether a request is as the revision has it.
fn is_sound(request: &Request) -> bool {
    let params = &request.body["params"];
    let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).unwrap_or_default();
    request.method == "POST"
        && request.header("mcp-protocol-version") == REVISION
        && params["_meta"]["io.modelcontextprotocol/protocolVersion"] == REVISION
        && request.header("mcp-method") == request.rpc()
        && (request.header("mcp-name") == name || request.header("mcp-name").starts_with("=?base64?"))
        && request.header("mcp-session-id").is_empty()
}

/// A server that takes nothing else. `refused`: what it says to that.
fn strict(refused: i64) -> Server {
    Server::start(move |request| {
        if !is_sound(request) {
            let reply = request.error(refused, "header mismatch");
            let status = if refused == -32601 { 404 } else { 400 };
            return Some(Reply::text(status, "application/json", reply));
        }
        Some(answer(request))
    })
}

fn answer(request: &Request) -> Reply {
    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string"},
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    }});
    let wrong = json!({"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}});
    let mut result = match request.rpc() {
        "server/discover" => {
            json!({"supportedVersions": [REVISION], "capabilities": {"tools": {}, "resources": {}}})
        }
        "tools/list" => json!({"tools": [
            {"name": "echo", "inputSchema": schema}, {"name": "wrong", "inputSchema": wrong},
            {"name": "wärmer", "inputSchema": {"type": "object"}},
        ]}),
        "resources/list" => json!({"resources": [{"uri": "x://ü", "name": "u"}]}),
        "resources/read" => json!({"contents": [{"uri": "x://ü", "text": "read"}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "called"}]}),
        _ => return Reply::text(404, "application/json", request.error(-32601, "Method not found")),
    };
    result["resultType"] = json!("complete");
    Reply::json(request.answer(result))
}

#[test]
fn it_is_found_by_its_refusal_and_told_what_it_needs() {
    for refused in [-32020, -32022, -32601, -32602] {
        let server = strict(refused);
        let mut proxy = proxy(&server);
        let args = json!({"text": "x", "region": "Zürich", "count": 42});
        assert_eq!(proxy.text("g", "echo", args), "called", "{refused}");
        assert_eq!(proxy.group("g")["protocolVersion"], REVISION);
        proxy.until_logged("Connecting to g");
        assert_eq!(proxy.log().matches("Connecting to g").count(), 1, "one attempt");
        let call = server.of("tools/call").remove(0);
        assert_eq!(call.header("mcp-name"), "echo");
        assert_eq!(call.header("mcp-param-region"), "=?base64?WsO8cmljaA==?=");
        assert_eq!(call.header("mcp-param-count"), "42");
        assert_eq!(proxy.text("g", "wärmer", json!({})), "called");
        assert_eq!(server.of("tools/call")[1].header("mcp-name"), "=?base64?d8Okcm1lcg==?=");
        let read = proxy.ask("resources/read", json!({"uri": "x://ü", "group": "g"}));
        assert_eq!(read["result"]["contents"][0]["text"], "read", "{read}");
        proxy.close_stdin();
        proxy.ends();
        let unsound: Vec<_> = server.seen().into_iter().filter(|request| !is_sound(request)).collect();
        assert_eq!(
            unsound.iter().map(Request::rpc).collect::<Vec<_>>(),
            ["initialize"],
            "no session, no GET, no DELETE"
        );
    }
}

#[test]
fn a_tool_that_says_wrongly_what_its_headers_are_is_left_out() {
    let mut proxy = proxy(&strict(-32022));
    let tools = proxy.tools(json!({"group": "g", "lazy": true}));
    assert!(tools.contains("echo") && !tools.contains("wrong"), "{tools}");
    assert!(proxy.failure("g", "wrong", json!({})).contains("wrong"));
    proxy.until_logged("x-mcp-header is invalid");
}

#[test]
fn a_call_is_cancelled_by_letting_go_of_its_stream() {
    let gone = Arc::new(AtomicBool::new(false));
    let noticed = gone.clone();
    let server = Server::start(move |request| {
        if !is_sound(request) {
            return Some(Reply::text(400, "application/json", request.error(-32022, "no")));
        }
        let noticed = noticed.clone();
        Some(match request.is_call() {
            true => Reply::events(move |out| {
                out.hold();
                noticed.store(true, Ordering::Relaxed);
                false
            }),
            false => answer(request),
        })
    });
    let mut proxy = proxy(&server);
    let id = proxy.send_call("g", "echo", json!({}));
    server.until("tools/call", 1);
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    until("the stream is closed", || gone.load(Ordering::Relaxed));
    assert_eq!(server.of("notifications/cancelled").len(), 0);
}

#[test]
fn its_lists_are_listened_to_on_a_stream_that_is_opened_again() {
    let listens = Arc::new(AtomicUsize::new(0));
    let count = listens.clone();
    let server = Server::start(move |request| {
        if !is_sound(request) {
            return Some(Reply::text(400, "application/json", request.error(-32022, "no")));
        }
        let late = count.load(Ordering::SeqCst) > 1;
        Some(match request.rpc() {
            "server/discover" => Reply::json(request.answer(json!({
                "supportedVersions": [REVISION], "capabilities": {"tools": {"listChanged": true}},
            }))),
            "subscriptions/listen" => {
                count.fetch_add(1, Ordering::SeqCst);
                let changed =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
                let again = count.load(Ordering::SeqCst) > 1;
                Reply::events(move |out| {
                    if again && out.write(&event(&changed)) {
                        out.hold();
                    }
                    false
                })
            }
            "tools/list" if late => Reply::json(request.answer(json!({
                "tools": [{"name": "late", "inputSchema": {"type": "object"}}],
            }))),
            _ => answer(request),
        })
    });
    let mut proxy = proxy(&server);
    proxy.text("g", "echo", json!({}));
    until("it is listened to again", || proxy.tools(json!({"group": "g"})).contains("late"));
    assert_eq!(listens.load(Ordering::SeqCst), 2);
    assert_eq!(server.of("server/discover").len(), 1);
}

#[test]
fn a_stream_that_breaks_off_is_not_resumed() {
    let server = Server::start(|request| {
        if !is_sound(request) {
            return Some(Reply::text(400, "application/json", request.error(-32022, "no")));
        }
        Some(match request.is_call() {
            true => Reply::events(|out| {
                out.write("id: 1\n") && out.cut(&event("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"))
            }),
            false => answer(request),
        })
    });
    let mut proxy = proxy(&server);
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("broke before the answer was complete"), "{failure}");
    assert_eq!(server.of("GET").len(), 0);
}

#[test]
fn a_tool_that_wants_other_headers_than_its_list_said_is_listed_again() {
    let changed = Arc::new(AtomicBool::new(false));
    let is_changed = changed.clone();
    let server = Server::start(move |request| {
        if !is_sound(request) {
            return Some(Reply::text(400, "application/json", request.error(-32022, "no")));
        }
        let changed = is_changed.load(Ordering::SeqCst);
        if changed && request.is_call() && request.header("mcp-param-text") != "x" {
            return Some(Reply::text(400, "application/json", request.error(-32020, "Header mismatch")));
        }
        let text = if changed {
            json!({"type": "string", "x-mcp-header": "Text"})
        } else {
            json!({"type": "string"})
        };
        Some(match request.rpc() {
            "tools/list" => Reply::json(request.answer(json!({"tools": [
                {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": text}}},
            ]}))),
            _ => answer(request),
        })
    });
    let mut proxy = proxy(&server);
    proxy.text("g", "echo", json!({"text": "x"}));
    changed.store(true, Ordering::SeqCst);
    let call = |proxy: &mut crate::support::Proxy| {
        let arguments = json!({"group": "g", "name": "echo", "args": {"text": "x"}});
        proxy.ask("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}))
    };
    assert_eq!(call(&mut proxy)["error"]["message"], "Header mismatch");
    server.until("tools/list", 2);
    until("it is called as it wants", || call(&mut proxy)["result"].is_object());
}
