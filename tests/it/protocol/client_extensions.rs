//! The extensions and experimental capabilities of a client, as upstreams of both eras see them.

use serde_json::{Value, json};

use crate::support::{InputRecord, ProxyCommand, full_upstream, pure_config};

fn declared() -> Value {
    json!({
        "extensions": {
            "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
            "com.example/x": {"a": 1},
            "io.modelcontextprotocol/tasks": {},
            "io.modelcontextprotocol/oauth-client-credentials": {},
        },
        "experimental": {"y": {"b": null}},
        "com.example/unknown": {},
    })
}

/// What upstreams are offered of that.
fn carried() -> Value {
    json!({
        "extensions": {
            "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
            "com.example/x": {"a": 1},
        },
        "experimental": {"y": {"b": null}},
    })
}

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[test]
fn a_server_with_a_handshake_gets_them_with_initialize() {
    for is_stateless_client in [false, true] {
        let record = InputRecord::new();
        let config = pure_config([("g", record.attached_to(full_upstream(&[])))]);
        let mut proxy = ProxyCommand::new().config(&config).start();
        let call = json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": "pid"}});
        if is_stateless_client {
            let id = proxy.send_stateless_request(&declared(), "tools/call", call);
            proxy.response(id);
        } else {
            proxy.handshake_with(declared());
            proxy.request("tools/call", call);
        }
        let offered = record.wait_for("initialize", 0).json()["params"]["capabilities"].take();
        assert_eq!(offered, carried(), "stateless: {is_stateless_client}");
    }
}

#[test]
fn a_server_without_a_handshake_gets_them_with_every_request() {
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(full_upstream(&["--stateless"])))]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    proxy.handshake_with(declared());
    proxy.upstream_pid("g");
    proxy.request("resources/read", json!({"uri": "mem://one"}));
    proxy.request("resources/list", json!({}));
    for method in ["server/discover", "tools/list", "resources/list", "tools/call", "resources/read"] {
        let offered = record.wait_for(method, 0).json()["params"]["_meta"][CAPABILITIES].take();
        assert_eq!(offered, carried(), "{method}");
    }
}

#[test]
fn a_client_without_them_offers_none() {
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(full_upstream(&[])))]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    proxy.handshake_with(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "experimental": {}}));
    proxy.upstream_pid("g");
    assert_eq!(record.wait_for("initialize", 0).json()["params"]["capabilities"], json!({}));
}
