//! What a client knows at once of servers that only clients with other capabilities have used.

use crate::support::{Processes, Proxy, ProxyCommand, config_of, scripted_upstream, wait_until};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// A tool that the server of `config` lists only for clients with sampling.
const EXTRA: &str = r#"{"name":"extra","description":"Extra.","inputSchema":{"type":"object"}}"#;

/// A server that lists a tool more for clients with sampling, in this mode.
fn config(mode: &str) -> Value {
    let program = scripted_upstream(&[])["command"].as_str().unwrap().to_owned();
    let script = format!(
        r#"read -r line
        case $line in
            *'"sampling"'*) set -- --definitions "$EXTRA" ;;
            *) set -- ;;
        esac
        {{ printf '%s\n' "$line"; cat; }} | exec '{program}' "$@""#
    );
    let server = json!({
        "command": "sh", "args": ["-c", script], "env": {"EXTRA": EXTRA}, "cwd": "/", "lazy_startup": mode,
    });
    config_of([("g", server)])
}

fn command(config: &Value, cache: &TempDir, flags: &[&str]) -> ProxyCommand {
    ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).args(flags).config(config)
}

fn start(config: &Value, cache: &TempDir, flags: &[&str], capabilities: Value) -> Proxy {
    let mut proxy = command(config, cache, flags).start();
    proxy.handshake_with(capabilities);
    proxy
}

fn end(mut proxy: Proxy) {
    proxy.close_stdin();
    proxy.wait_for_exit();
}

/// Returns whether the flat list has the tool `echo`, and the one that is listed only for clients with sampling.
fn listed(proxy: &mut Proxy) -> (bool, bool) {
    has_tools(&proxy.request("tools/list", json!({}))["result"])
}

/// The same for a result of `tools/list`.
fn has_tools(result: &Value) -> (bool, bool) {
    let list = result.to_string();
    (list.contains("\"g__echo\""), list.contains("\"g__extra\""))
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn the_flat_list_is_there_at_once_and_becomes_the_servers_own() {
    let (cache, config) = (TempDir::new().unwrap(), config("hybrid"));
    let flat = |capabilities| start(&config, &cache, &["--surface", "flat"], capabilities);
    let mut first = flat(json!({}));
    first.wait_for_state("g", "discovered");
    end(first);

    let mut second = command(&config, &cache, &["--surface", "flat"]).start();
    let at_once = second.handshake_and_list(json!({"sampling": {}}));
    assert_eq!(has_tools(&at_once), (true, false), "as the first client knows it");
    let changed = second.next_server_message();
    assert_eq!(changed.method(), Some("notifications/tools/list_changed"));
    assert_eq!(listed(&mut second), (true, true), "as the server lists it for this client");
    assert_eq!(second.group_status("g")["cached"], false);
    end(second);

    let with_tasks = json!({"sampling": {}, "tasks": {"list": {}}});
    let mut third = flat(with_tasks.clone());
    wait_until("the server's own list", || third.group_status("g")["cached"] == false);
    end(third);
    let offers = [(json!({}), false), (json!({"sampling": {}}), true), (with_tasks, true)];
    for (capabilities, has_extra) in offers {
        let mut next = flat(capabilities);
        assert_eq!(listed(&mut next), (true, has_extra));
        assert_eq!(Processes::descendants_of(next.pid()).0, [], "its own catalog is in the cache");
        end(next);
    }
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_borrowed_catalog_answers_but_refuses_nothing() {
    let (cache, config) = (TempDir::new().unwrap(), config("pure"));
    let mut first = start(&config, &cache, &[], json!({}));
    first.connect(["g"]);
    end(first);

    let mut second = start(&config, &cache, &[], json!({"sampling": {}}));
    assert!(second.get_dynamic_tools(json!({"group": "g"})).contains("echo"));
    let found = second.call_meta_tool("search_dynamic_tools", json!({"query": "echo"})).to_string();
    assert!(found.contains("echo"), "{found}");
    assert_eq!(second.group_status("g")["cached"], true);
    assert_eq!(Processes::descendants_of(second.pid()).0, [], "nothing was started for that");
    second.call_text("g", "extra", json!({}));
    assert_eq!(second.group_status("g")["cached"], false);
}

#[test]
fn the_era_that_another_client_found_is_used() {
    let (cache, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let record = dir.path().join("lines");
    let mut server = scripted_upstream(&["--stateless", "--record", record.to_str().unwrap()]);
    server["cwd"] = json!("/");
    server["lazy_startup"] = json!("pure");
    let config = config_of([("g", server)]);
    let methods_of_a_start = |capabilities| {
        let _gone = fs::remove_file(&record);
        let mut proxy = start(&config, &cache, &[], capabilities);
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        end(proxy);
        let lines = fs::read_to_string(&record).unwrap();
        let first = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].clone());
        first.take(2).collect::<Vec<_>>()
    };
    assert_eq!(methods_of_a_start(json!({})), ["initialize", "server/discover"]);
    let second = methods_of_a_start(json!({"sampling": {}}));
    assert_eq!(second[0], "server/discover");
    assert_ne!(second[1], "initialize");
}

/// What a connection lists belongs to the offer that it was made with, whatever a stateless client offers later.
#[test]
fn a_stateless_client_that_offers_more_later_finds_the_list_again() {
    let cache = TempDir::new().unwrap();
    let start = |mode: &str| {
        let mut server = scripted_upstream(&["--list-changed-on-call"]);
        server["cwd"] = json!("/");
        server["lazy_startup"] = json!(mode);
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        let mut proxy = command.config(&config_of([("g", server)])).start();
        proxy.stateless_request("tools/list", json!({}));
        proxy
    };
    let status = |proxy: &mut Proxy| {
        let params = json!({"name": "get_status", "arguments": {"group": "g"}});
        proxy.stateless_request("tools/call", params)["result"]["structuredContent"]["groups"][0].take()
    };
    let mut first = start("eager");
    wait_until("the server is connected", || status(&mut first)["state"] == "connected");
    let tools = status(&mut first)["tools"].as_u64().unwrap();
    let arguments = json!({"group": "g", "name": "echo", "args": {"text": "x"}});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments});
    let id = first.send_stateless_request(&json!({"sampling": {}}), "tools/call", params);
    first.response(id);
    wait_until("the list was read again", || status(&mut first)["tools"] == tools + 1);
    end(first);
    let mut second = start("pure");
    let known = status(&mut second);
    assert_eq!((&known["cached"], &known["tools"]), (&json!(true), &json!(tools + 1)), "{known}");
    end(second);
}
