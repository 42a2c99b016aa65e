//! Upstreams' tools by their own names: listed on the flat surface, called on both.

use serde_json::{Value, json};

use super::{each, said};
use crate::support::{Proxy, as_configured, servers, text_of, until, upstream, with};

/// Every group is known when this returns.
fn discovered(config: Value, surface: &str) -> Proxy {
    let mut proxy = Proxy::new(&with(config, json!({"settings": {"surface": surface}})));
    until("ready", || proxy.status()["status"] == "ready");
    proxy
}

fn names(proxy: &mut Proxy) -> Vec<String> {
    each(&proxy.ask("tools/list", json!({})), "tools", "name")
}

fn call(proxy: &mut Proxy, name: &str, arguments: Value) -> Value {
    let mut answer = proxy.ask("tools/call", json!({"name": name, "arguments": arguments}));
    assert!(answer["result"].is_object(), "{name}: {answer}");
    answer["result"].take()
}

#[test]
fn the_flat_surface_has_every_tool_verbatim_and_get_status() {
    let mut proxy =
        discovered(as_configured([("g", upstream(&[])), ("h", upstream(&["--tools", "2"]))]), "flat");
    let id = proxy.send("tools/list", json!({}));
    let list = proxy.answer(id);
    let echo = r#"{"name":"g__echo","title":"Echo","description":"Returns its text.\n\nThe text"#;
    assert!(list.line.contains(echo), "{}", list.line);
    let rest =
        r#""annotations":{"openWorldHint":false},"_meta":{"x/y":{"deep":[1,2.50,1e3]}},"x-unknown":null}"#;
    assert!(list.line.contains(rest) && list.line.contains("18446744073709551615"), "{}", list.line);
    let names = names(&mut proxy);
    for name in ["g__echo", "h__echo", "h__generated_1", "get_status"] {
        assert_eq!(names.iter().filter(|listed| *listed == name).count(), 1, "{name} in {names:?}");
    }
    // Nothing was known at the start: then the others of ours stay as well.
    assert!(names.contains(&"call_dynamic_tool".to_owned()), "{names:?}");
}

#[test]
fn a_start_that_knows_every_group_lists_none_of_our_other_tools() {
    let cache = tempfile::TempDir::new().unwrap();
    let entry = with(upstream(&[]), json!({"cwd": "/"}));
    let config = with(as_configured([("g", entry)]), json!({"settings": {"surface": "flat"}}));
    let start = || {
        let setup = crate::support::Setup::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        setup.config(&config).ready()
    };
    let mut first = start();
    until("ready", || first.status()["status"] == "ready");
    first.close_stdin();
    first.ends();
    let names = names(&mut start());
    assert_eq!(names.last().unwrap(), "get_status");
    assert!(names[..names.len() - 1].iter().all(|name| name.starts_with("g__")), "{names:?}");
}

#[test]
fn tools_are_called_by_their_exposed_names_on_both_surfaces() {
    for surface in ["flat", "meta"] {
        let config = as_configured([("g", upstream(&[])), ("h", upstream(&["--tools", "1"]))]);
        let mut proxy = discovered(config, surface);
        assert_eq!(text_of(&call(&mut proxy, "g__echo", json!({"text": "x"}))), "x");
        assert_eq!(text_of(&call(&mut proxy, "h__generated_0", json!({"group": "y"}))), r#"{"group":"y"}"#);
        assert_eq!(text_of(&call(&mut proxy, "generated_0", json!({"a": 1}))), r#"{"a":1}"#, "unique");
        assert_eq!(
            text_of(&call(&mut proxy, "g__args", Value::Null)),
            "{}",
            "no arguments are an empty object"
        );
        for name in ["nothing", "nobody__echo"] {
            let code = proxy.refused("tools/call", json!({"name": name, "arguments": {}}));
            assert_eq!(code, -32602, "{name}");
        }
        let sent = r#"{"x-unknown":2.50,"name":"g__params","_meta":{"x":[1e400]},"arguments":{"a":-0.0,"b":"\u00e9"}}"#;
        let id = proxy.send_raw("tools/call", sent);
        let arrived = text_of(&proxy.answer(id).json()["result"]).to_owned();
        for part in
            [r#""x-unknown":2.50"#, r#""name":"params""#, r#"{"x":[1e400]}"#, r#"{"a":-0.0,"b":"\u00e9"}"#]
        {
            assert!(arrived.contains(part), "{part} in {arrived}");
        }
    }
}

#[test]
fn a_direct_call_connects_a_group_that_is_not_known() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&[]))]));
    assert_eq!(text_of(&call(&mut proxy, "g__echo", json!({"text": "x"}))), "x");
    assert_eq!(
        (&proxy.group("g")["state"], &proxy.group("h")["state"]),
        (&json!("connected"), &json!("pending"))
    );
}

#[test]
fn an_exposed_name_of_a_group_that_is_not_known_finds_its_tool() {
    let config = servers([("my group", upstream(&["--protocol"]))]);
    let mut proxy = Proxy::new(&config);
    assert_eq!(text_of(&call(&mut proxy, "my_group__echo", json!({"text": "x"}))), "x");
    let broken = json!({"command": "/no/such/program"});
    let mut proxy = Proxy::new(&servers([("g", broken), ("h", upstream(&[]))]));
    for (name, part) in [("g__echo", "/no/such/program"), ("h__nothing", "no tool \"nothing\"")] {
        let result = call(&mut proxy, name, json!({}));
        assert!(result["isError"] == true && text_of(&result).contains(part), "{name}: {result}");
    }
}

#[test]
fn names_that_no_client_takes_are_replaced_and_resolve() {
    let long = "a group with a name that is far too long for anybody";
    let my = upstream(&["--protocol"]);
    let config = as_configured([("my group", my.clone()), (long, upstream(&[]))]);
    let mut proxy = discovered(config, "flat");
    let names = names(&mut proxy);
    assert!(names.iter().all(|name| name.len() <= 46), "{names:?}");
    let echo = names.iter().filter(|name| name.starts_with("a_group")).nth(1).unwrap().clone();
    assert_eq!(text_of(&call(&mut proxy, "my_group__echo", json!({"text": "x"}))), "x");
    // The second tool of each is `read_only_echo`.
    assert_eq!(text_of(&call(&mut proxy, &echo, json!({"text": "y"}))), "y");
    let hashed = names.iter().find(|name| name.starts_with("my_group__long_")).unwrap();
    let mut fresh = Proxy::new(&servers([("my group", my)]));
    for proxy in [&mut proxy, &mut fresh] {
        assert_eq!(text_of(&call(proxy, hashed, json!({"n": 1}))), r#"{"n":1}"#, "known or not");
    }
}

#[test]
fn a_denied_tool_is_on_no_route() {
    for surface in ["flat", "meta"] {
        let entry = with(
            upstream(&["--tools", "1"]),
            json!({"tools": {"deny": ["generated_*", "cwd"]}, "expose": ["*"]}),
        );
        let mut proxy = discovered(as_configured([("g", entry)]), surface);
        let list = proxy.ask("tools/list", json!({})).to_string();
        assert!(!list.contains("generated_0") && !list.contains("cwd"), "{list}");
        for name in ["g__generated_0", "generated_0", "g__cwd", "g__CWD", "cwd"] {
            let answer = proxy.ask("tools/call", json!({"name": name, "arguments": {}}));
            let refused = answer["error"]["code"] == -32602 || answer["result"]["isError"] == true;
            assert!(refused, "{surface} {name}: {answer}");
        }
        for lazy in [true, false] {
            let list = proxy.ask("tools/list", json!({"lazy": lazy})).to_string();
            assert!(
                list.contains("g__echo") && !list.contains("generated_0") && !list.contains("cwd"),
                "{list}"
            );
        }
        assert_eq!(proxy.refused("tools/describe", json!({"name": "g__cwd"})), -32602);
        let batch = proxy.ask("tools/describe_batch", json!({"names": ["g__generated_0", "g__pid"]}));
        assert_eq!(each(&batch, "tools", "name"), ["g__pid"]);
        assert_eq!(proxy.group("g")["tools"], 20, "neither counts");
        proxy.failure("g", "generated_0", json!({}));
        proxy.failure("g", "g__cwd", json!({}));
        assert!(!proxy.tools(json!({"group": "g", "lazy": true})).contains("generated_0"));
    }
}

#[test]
fn exposed_tools_stand_beside_ours() {
    let invalid =
        r#"{"name":"added_invalid","inputSchema":{}},{"name":"added_fine","inputSchema":{"type":"object"}}"#;
    let g = with(upstream(&["--definitions", invalid]), json!({"expose": ["echo", "added_*"]}));
    let config = as_configured([("g", g), ("h", upstream(&[]))]);
    let settings = json!({"settings": {"expose": ["pid"]}});
    let mut proxy = Proxy::new(&with(config, settings));
    until("ready", || proxy.status()["status"] == "ready");
    let names = names(&mut proxy);
    let (ours, theirs): (Vec<_>, Vec<_>) = names.iter().partition(|name| !name.contains("__"));
    assert!(ours.len() >= 4, "{names:?}");
    assert_eq!(theirs, ["g__echo", "g__added_fine", "h__pid"], "its own globs, else those of the settings");
    let id = proxy.send("tools/list", json!({}));
    let line = proxy.answer(id).line;
    let meta = r#""_meta":{"x/y":{"deep":[1,2.50,1e3]},"anthropic/alwaysLoad":true},"x-unknown":null}"#;
    assert!(line.contains(r#"{"name":"g__echo","title":"Echo","#) && line.contains(meta), "{line}");
    assert_eq!(text_of(&call(&mut proxy, "g__echo", json!({"text": "x"}))), "x");
}

#[test]
fn the_flat_list_leaves_out_what_clients_would_not_take() {
    let invalid = r#"{"name":"added_invalid","inputSchema":{}}"#;
    let mut proxy = discovered(as_configured([("g", upstream(&["--definitions", invalid]))]), "flat");
    let names = names(&mut proxy);
    assert!(
        names.contains(&"g__pid".to_owned()) && !names.contains(&"g__added_invalid".to_owned()),
        "{names:?}"
    );
    assert_eq!(
        text_of(&call(&mut proxy, "g__added_invalid", json!({}))),
        "{}",
        "it can be called all the same"
    );
}

#[test]
fn a_bare_name_that_several_groups_have_is_answered_with_them() {
    let mut proxy = discovered(as_configured([("g", upstream(&[])), ("h", upstream(&[]))]), "meta");
    let result = call(&mut proxy, "echo", json!({"text": "x"}));
    assert!(result["isError"] == true && text_of(&result).contains("g, h"), "{result}");
    assert_eq!(proxy.refused("tools/call", json!({"name": "ecko", "arguments": {}})), -32602);
}

#[test]
fn a_bare_name_is_of_the_group_that_allows_it() {
    let denied = with(upstream(&["--name", "G"]), json!({"tools": {"deny": ["echo"]}}));
    let mut proxy = discovered(as_configured([("g", denied), ("h", upstream(&[]))]), "meta");
    assert_eq!(text_of(&call(&mut proxy, "echo", json!({"text": "x"}))), "x");
    let text = proxy.front("call_dynamic_tool", json!({"name": "echo", "args": {"text": "y"}}));
    assert_eq!(text_of(&text), "y");
}

#[test]
fn the_flat_list_follows_its_upstreams() {
    let mut proxy = discovered(as_configured([("g", upstream(&["--list-changed-on-call"]))]), "flat");
    call(&mut proxy, "g__echo", json!({"text": "x"}));
    let is_there = |proxy: &mut Proxy| names(proxy).contains(&"g__added_0".to_owned());
    while !is_there(&mut proxy) {
        said(&mut proxy);
    }
    assert_eq!(text_of(&call(&mut proxy, "g__added_0", json!({"x": 1}))), r#"{"x":1}"#);
}
