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

/// An answer to `initialize` that names a revision which has none.
fn greeting(request: &Request, revision: &str) -> Reply {
    let info = json!({"name": "both", "version": "1"});
    let capabilities = json!({"tools": {}});
    Reply::json(
        request
            .answer(json!({"protocolVersion": revision, "capabilities": capabilities, "serverInfo": info})),
    )
}

#[test]
fn it_is_found_by_the_revision_that_it_answers_a_handshake_with() {
    for revision in [REVISION, "2027-01-31"] {
        let server = Server::start(move |request| match request.rpc() {
            "initialize" => Some(greeting(request, revision)),
            _ => Some(answer(request)),
        });
        let mut proxy = proxy(&server);
        assert_eq!(proxy.text("g", "echo", json!({"region": "x"})), "called");
        assert_eq!(proxy.group("g")["protocolVersion"], REVISION);
        assert_eq!(server.of("tools/call")[0].header("mcp-param-region"), "x");
        assert_eq!(server.of("initialize")[0].header("mcp-method"), "initialize");
        let unsound: Vec<_> = server.seen().into_iter().filter(|request| !is_sound(request)).collect();
        assert_eq!(unsound.iter().map(Request::rpc).collect::<Vec<_>>(), ["initialize"]);
        assert!(!proxy.log().contains("does not know"), "{}", proxy.log());
    }
}

#[test]
fn a_handshake_holds_whatever_revision_it_names_where_there_is_no_other_way() {
    let server = Server::start(|request| match request.rpc() {
        "initialize" => Some(greeting(request, REVISION)),
        _ => None,
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(proxy.group("g")["protocolVersion"], REVISION);
    proxy.until_logged("speaks a protocol revision that dynamic-mcp does not know");
    let methods: Vec<_> = server.of("POST").iter().map(|post| post.rpc().to_owned()).collect();
    let expected = ["initialize", "server/discover", "initialize", "notifications/initialized", "tools/list"];
    assert_eq!(methods[..5], expected);
    assert!(server.of("tools/call")[0].header("mcp-method").is_empty(), "no headers of the other era");
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
fn a_call_with_other_headers_than_its_tool_wants_is_made_again_by_the_list_as_it_is_now() {
    let changed = Arc::new(AtomicBool::new(false));
    let is_changed = changed.clone();
    let server = Server::start(move |request| {
        if !is_sound(request) {
            return Some(Reply::text(400, "application/json", request.error(-32022, "no")));
        }
        let changed = is_changed.load(Ordering::SeqCst);
        let lacks = changed && request.header("mcp-param-text") != "x";
        if request.is_call() && (lacks || request.body["params"]["name"] == "never") {
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
                {"name": "never", "inputSchema": {"type": "object"}},
            ]}))),
            _ => answer(request),
        })
    });
    let mut proxy = proxy(&server);
    proxy.text("g", "echo", json!({"text": "x"}));
    changed.store(true, Ordering::SeqCst);
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "called");
    let calls = server.of("tools/call");
    let said: Vec<_> = calls.iter().map(|call| call.header("mcp-param-text")).collect();
    assert_eq!(said, ["", "", "x"], "once more, and as it is wanted");
    assert_eq!(calls[1].text, calls[2].text);
    let lists = server.of("tools/list").len();
    let arguments = json!({"group": "g", "name": "never", "args": {}});
    let refused = proxy.ask("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}));
    assert_eq!(refused["error"]["message"], "Header mismatch", "nothing else is to be said: {refused}");
    assert_eq!((server.of("tools/call").len(), server.of("tools/list").len()), (4, lists + 1));
}

/// A refusal of a request's revision that names these.
fn unsupported(request: &Request, supported: &[&str]) -> Reply {
    let error = json!({"code": -32022, "message": "Unsupported protocol version",
        "data": {"supported": supported, "requested": REVISION}});
    let reply = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
    Reply::text(400, "application/json", reply.to_string())
}

#[test]
fn one_that_has_no_revision_in_common_is_asked_for_no_other_era() {
    for knows_initialize in [true, false] {
        let server = Server::start(move |request| match request.rpc() {
            "initialize" if !knows_initialize => {
                Some(Reply::text(404, "application/json", request.error(-32601, "Method not found")))
            }
            _ => Some(unsupported(request, &["2030-01-01"])),
        });
        let mut proxy = proxy(&server);
        let failure = proxy.failure("g", "echo", json!({}));
        assert!(failure.contains("Unsupported protocol version; it speaks 2030-01-01"), "{failure}");
        let methods: Vec<_> = server.seen().iter().map(|request| request.rpc().to_owned()).collect();
        let expected =
            if knows_initialize { &["initialize"][..] } else { &["initialize", "server/discover"] };
        assert_eq!(methods, expected);
    }
}

#[test]
fn one_that_refuses_the_revision_that_it_names_is_asked_once_more() {
    let refusals = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let is_first = request.rpc() == "server/discover" && refusals.fetch_add(1, Ordering::SeqCst) == 0;
        let refuses = is_first || request.rpc() == "initialize";
        Some(if refuses { unsupported(request, &[REVISION]) } else { answer(request) })
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.text("g", "echo", json!({})), "called");
    assert_eq!((server.of("initialize").len(), server.of("server/discover").len()), (1, 2));
}

#[test]
fn one_that_gives_up_the_revision_is_met_in_another_and_the_call_is_made_there() {
    let older = Arc::new(AtomicBool::new(false));
    let is_older = older.clone();
    let server = Server::start(move |request| match is_older.load(Ordering::SeqCst) {
        true if request.header("mcp-protocol-version") == REVISION => {
            Some(unsupported(request, &["2025-11-25"]))
        }
        true => None,
        false if is_sound(request) => Some(answer(request)),
        false => Some(unsupported(request, &[REVISION])),
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "called");
    older.store(true, Ordering::SeqCst);
    assert_eq!(proxy.text("g", "echo", json!({"text": "older"})), "older");
    assert_eq!(proxy.group("g")["protocolVersion"], "2025-11-25");
    let calls = server.of("tools/call");
    let revisions: Vec<_> = calls.iter().map(|call| call.header("mcp-protocol-version")).collect();
    assert_eq!(revisions, [REVISION, REVISION, "2025-11-25"]);
}
