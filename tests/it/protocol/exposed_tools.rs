//! Upstreams' tools with exposed names (`group__tool`): the flat surface and `expose` list them, and every surface calls
//! them.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::members_of;
use crate::support::{
    Proxy, ProxyCommand, cache_dir_in, config_of, merged, pure_config, scripted_upstream, text_of, wait_until,
};

/// A session with this surface in which discovery is finished.
fn discovered_proxy(config: Value, surface: &str) -> Proxy {
    let mut proxy = Proxy::new(&merged(config, json!({"settings": {"surface": surface}})));
    wait_until("ready", || proxy.status()["status"] == "ready");
    proxy
}

fn tool_names(proxy: &mut Proxy) -> Vec<String> {
    members_of(&proxy.request("tools/list", json!({})), "tools", "name")
}

/// Calls a tool by this name and returns the result.
fn call_exposed(proxy: &mut Proxy, name: &str, arguments: Value) -> Value {
    let mut response = proxy.request("tools/call", json!({"name": name, "arguments": arguments}));
    assert!(response["result"].is_object(), "{name}: {response}");
    response["result"].take()
}

#[test]
fn the_flat_surface_has_every_tool_verbatim_and_get_status() {
    let mut proxy = discovered_proxy(
        config_of([("g", scripted_upstream(&[])), ("h", scripted_upstream(&["--tools", "2"]))]),
        "flat",
    );
    let id = proxy.send_request("tools/list", json!({}));
    let list = proxy.response(id);
    let echo = r#"{"name":"g__echo","title":"Echo","description":"Returns its text.\n\nThe text"#;
    assert!(list.line.contains(echo), "{}", list.line);
    let rest =
        r#""annotations":{"openWorldHint":false},"_meta":{"x/y":{"deep":[1,2.50,1e3]}},"x-unknown":null}"#;
    assert!(list.line.contains(rest) && list.line.contains("18446744073709551615"), "{}", list.line);
    let tool_names = tool_names(&mut proxy);
    for name in ["g__echo", "h__echo", "h__generated_1", "get_status"] {
        assert_eq!(tool_names.iter().filter(|listed| *listed == name).count(), 1, "{name} in {tool_names:?}");
    }
    // No group was known at the start, so all of our own tools are listed, too.
    assert!(tool_names.contains(&"call_dynamic_tool".to_owned()), "{tool_names:?}");
}

#[test]
fn if_the_cache_knows_every_group_only_get_status_of_our_own_tools_is_listed() {
    let cache = TempDir::new().unwrap();
    let entry = merged(scripted_upstream(&[]), json!({"cwd": "/"}));
    let config = merged(config_of([("g", entry)]), json!({"settings": {"surface": "flat"}}));
    let start = || {
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        command.config(&config).start_initialized()
    };
    let mut first = start();
    wait_until("ready", || first.status()["status"] == "ready");
    first.close_stdin();
    first.wait_for_exit();
    let tool_names = tool_names(&mut start());
    assert_eq!(tool_names.last().unwrap(), "get_status");
    assert!(tool_names[..tool_names.len() - 1].iter().all(|name| name.starts_with("g__")), "{tool_names:?}");
}

/// The JSON files of the cache: the index, which is written last, and those with the definitions.
fn cache_files(cache: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(cache_dir_in(cache)).into_iter().flatten();
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect()
}

fn is_index(file: &std::path::Path) -> bool {
    file.ends_with("index.json")
}

#[test]
fn exposed_tools_whose_cached_definitions_are_lost_are_read_again() {
    for (mode, loss) in [("hybrid", None), ("hybrid", Some("[")), ("pure", None)] {
        let cache = TempDir::new().unwrap();
        let entry =
            merged(scripted_upstream(&[]), json!({"cwd": "/", "expose": ["echo"], "lazy_startup": mode}));
        let config = config_of([("g", entry)]);
        let start = || {
            let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
            command.config(&config).start_initialized()
        };
        let mut first = start();
        first.connect(["g"]);
        wait_until("the cache is written", || cache_files(cache.path()).iter().any(|file| is_index(file)));
        first.close_stdin();
        first.wait_for_exit();
        let lists_echo = |proxy: &mut Proxy| tool_names(proxy).contains(&"g__echo".to_owned());
        assert!(lists_echo(&mut start()), "{mode}: from the cache");
        for file in cache_files(cache.path()).into_iter().filter(|file| !is_index(file)) {
            match loss {
                None => std::fs::remove_file(file).unwrap(),
                Some(text) => std::fs::write(file, text).unwrap(),
            }
        }
        let mut second = start();
        if mode == "pure" {
            // Such a group connects at its first use, which brings the tool back.
            assert!(!lists_echo(&mut second));
            second.connect(["g"]);
            second.wait_for_message("notifications/tools/list_changed");
        }
        wait_until("the tool is listed", || lists_echo(&mut second));
    }
}

#[test]
fn tools_are_called_by_their_exposed_names_on_both_surfaces() {
    for surface in ["flat", "meta"] {
        let config = config_of([("g", scripted_upstream(&[])), ("h", scripted_upstream(&["--tools", "1"]))]);
        let mut proxy = discovered_proxy(config, surface);
        assert_eq!(text_of(&call_exposed(&mut proxy, "g__echo", json!({"text": "x"}))), "x");
        assert_eq!(
            text_of(&call_exposed(&mut proxy, "h__generated_0", json!({"group": "y"}))),
            r#"{"group":"y"}"#
        );
        assert_eq!(
            text_of(&call_exposed(&mut proxy, "generated_0", json!({"a": 1}))),
            r#"{"a":1}"#,
            "unique"
        );
        assert_eq!(
            text_of(&call_exposed(&mut proxy, "g__args", Value::Null)),
            "{}",
            "no arguments are an empty object"
        );
        for name in ["nothing", "nobody__echo"] {
            let code = proxy.error_code("tools/call", json!({"name": name, "arguments": {}}));
            assert_eq!(code, -32602, "{name}");
        }
        let params = r#"{"x-unknown":2.50,"name":"g__params","_meta":{"x":[1e400]},"arguments":{"a":-0.0,"b":"\u00e9"}}"#;
        let id = proxy.send_raw_request("tools/call", params);
        let received = text_of(&proxy.response(id).json()["result"]).to_owned();
        for part in
            [r#""x-unknown":2.50"#, r#""name":"params""#, r#"{"x":[1e400]}"#, r#"{"a":-0.0,"b":"\u00e9"}"#]
        {
            assert!(received.contains(part), "{part} in {received}");
        }
    }
}

#[test]
fn a_call_by_exposed_name_connects_its_group() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]));
    assert_eq!(text_of(&call_exposed(&mut proxy, "g__echo", json!({"text": "x"}))), "x");
    assert_eq!(
        (&proxy.group_status("g")["state"], &proxy.group_status("h")["state"]),
        (&json!("connected"), &json!("pending"))
    );
}

#[test]
fn an_exposed_name_of_an_unknown_group_is_resolved() {
    let config = pure_config([("my group", scripted_upstream(&["--protocol"]))]);
    let mut proxy = Proxy::new(&config);
    assert_eq!(text_of(&call_exposed(&mut proxy, "my_group__echo", json!({"text": "x"}))), "x");
    assert_eq!(
        proxy.call_text("\"my group\"", "echo", json!({"text": "as our texts show it"})),
        "as our texts show it"
    );
    let broken = json!({"command": "/no/such/program"});
    let mut proxy = Proxy::new(&pure_config([("g", broken), ("h", scripted_upstream(&[]))]));
    for (name, part) in [("g__echo", "/no/such/program"), ("h__nothing", "no tool \"nothing\"")] {
        let result = call_exposed(&mut proxy, name, json!({}));
        assert!(result["isError"] == true && text_of(&result).contains(part), "{name}: {result}");
    }
}

#[test]
fn names_that_clients_reject_are_replaced_and_resolved() {
    let long = "a group with a name that is far too long for anybody";
    let entry = scripted_upstream(&["--protocol"]);
    let config = config_of([("my group", entry.clone()), (long, scripted_upstream(&[]))]);
    let mut proxy = discovered_proxy(config, "flat");
    let tool_names = tool_names(&mut proxy);
    assert!(tool_names.iter().all(|name| name.len() <= 46), "{tool_names:?}");
    let echo = tool_names.iter().filter(|name| name.starts_with("a_group")).nth(1).unwrap().clone();
    assert_eq!(text_of(&call_exposed(&mut proxy, "my_group__echo", json!({"text": "x"}))), "x");
    // The second tool of each is `read_only_echo`.
    assert_eq!(text_of(&call_exposed(&mut proxy, &echo, json!({"text": "y"}))), "y");
    let hashed = tool_names.iter().find(|name| name.starts_with("my_group__long_")).unwrap();
    let mut fresh = Proxy::new(&pure_config([("my group", entry)]));
    for proxy in [&mut proxy, &mut fresh] {
        assert_eq!(text_of(&call_exposed(proxy, hashed, json!({"n": 1}))), r#"{"n":1}"#, "in both sessions");
    }
}

#[test]
fn a_denied_tool_is_neither_listed_nor_called() {
    let (deny, none) = (json!({"deny": ["generated_*", "cwd"]}), json!({}));
    for (surface, tools, of_profile) in
        [("flat", &deny, &none), ("meta", &deny, &none), ("flat", &none, &deny), ("meta", &none, &deny)]
    {
        let entry = merged(scripted_upstream(&["--tools", "1"]), json!({"tools": tools, "expose": ["*"]}));
        let profiles = json!({"profiles": {"p": {"tools": {"g": of_profile}}}});
        let config = merged(config_of([("g", entry)]), profiles);
        let command = ProxyCommand::new().args(&["--profile", "p", "--surface", surface]);
        let mut proxy = command.config(&config).start_initialized();
        wait_until("ready", || proxy.status()["status"] == "ready");
        let list = proxy.request("tools/list", json!({})).to_string();
        assert!(!list.contains("generated_0") && !list.contains("cwd"), "{list}");
        for name in ["g__generated_0", "generated_0", "g__cwd", "g__CWD", "cwd"] {
            let response = proxy.request("tools/call", json!({"name": name, "arguments": {}}));
            let refused = response["error"]["code"] == -32602 || response["result"]["isError"] == true;
            assert!(refused, "{surface} {name}: {response}");
        }
        for lazy in [true, false] {
            let list = proxy.request("tools/list", json!({"lazy": lazy})).to_string();
            assert!(
                list.contains("g__echo") && !list.contains("generated_0") && !list.contains("cwd"),
                "{list}"
            );
        }
        assert_eq!(proxy.error_code("tools/describe", json!({"name": "g__cwd"})), -32602);
        let batch = proxy.request("tools/describe_batch", json!({"names": ["g__generated_0", "g__pid"]}));
        assert_eq!(members_of(&batch, "tools", "name"), ["g__pid"]);
        assert_eq!(proxy.group_status("g")["tools"], 20, "denied tools do not count");
        proxy.call_failure("g", "generated_0", json!({}));
        proxy.call_failure("g", "g__cwd", json!({}));
        assert!(!proxy.get_dynamic_tools(json!({"group": "g", "lazy": true})).contains("generated_0"));
    }
}

#[test]
fn exposed_tools_are_listed_beside_our_own_tools() {
    let invalid = r#"{"name":"added_invalid","inputSchema":{"type":"array"}},{"name":"added_fine","inputSchema":{"type":"object"}}"#;
    let g = merged(scripted_upstream(&["--definitions", invalid]), json!({"expose": ["echo", "added_*"]}));
    let config = config_of([("g", g), ("h", scripted_upstream(&[]))]);
    let settings = json!({"settings": {"expose": ["pid"]}});
    let mut proxy = Proxy::new(&merged(config, settings));
    wait_until("ready", || proxy.status()["status"] == "ready");
    let tool_names = tool_names(&mut proxy);
    let (own_tools, exposed_tools): (Vec<_>, Vec<_>) =
        tool_names.iter().partition(|name| !name.contains("__"));
    assert!(own_tools.len() >= 4, "{tool_names:?}");
    assert_eq!(
        exposed_tools,
        ["g__echo", "g__added_fine", "h__pid"],
        "the globs of the group, or else those of the settings"
    );
    let id = proxy.send_request("tools/list", json!({}));
    let line = proxy.response(id).line;
    let meta = r#""_meta":{"x/y":{"deep":[1,2.50,1e3]},"anthropic/alwaysLoad":true},"x-unknown":null}"#;
    assert!(line.contains(r#"{"name":"g__echo","title":"Echo","#) && line.contains(meta), "{line}");
    assert_eq!(text_of(&call_exposed(&mut proxy, "g__echo", json!({"text": "x"}))), "x");
}

/// A flat session of a group with this tool, which an earlier session discovered.
fn second_flat_proxy(cache: &TempDir, definition: &str) -> Proxy {
    let entry = merged(scripted_upstream(&["--definitions", definition]), json!({"cwd": "/"}));
    let config = merged(config_of([("g", entry)]), json!({"settings": {"surface": "flat"}}));
    let start = || {
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        command.config(&config).start_initialized()
    };
    let mut first = start();
    wait_until("ready", || first.status()["status"] == "ready");
    first.close_stdin();
    first.wait_for_exit();
    start()
}

#[test]
fn the_flat_list_has_our_tools_for_those_whose_definitions_it_cannot_have() {
    let cache = TempDir::new().unwrap();
    let invalid = r#"{"name":"added_invalid","inputSchema":{"type":"array"}},{"nameless":1}"#;
    let mut proxy = second_flat_proxy(&cache, invalid);
    let tool_names = tool_names(&mut proxy);
    for (name, is_listed) in [("g__pid", true), ("g__added_invalid", false), ("call_dynamic_tool", true)] {
        assert_eq!(tool_names.contains(&name.to_owned()), is_listed, "{tool_names:?}");
    }
    assert_eq!(text_of(&call_exposed(&mut proxy, "g__added_invalid", json!({}))), "{}");
    let status = proxy.group_status("g");
    let finding = r#""added_invalid" (`inputSchema.type` is not "object")"#;
    assert!(status["findings"][0].as_str().unwrap().contains(finding), "{status}");
    assert_eq!(status["leftOff"], json!(["1 tool without a name"]));
    let described = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["added_invalid"]}));
    assert!(described.contains(r#"{"type":"array"}"#), "{described}");
}

#[test]
fn a_finding_names_no_tool_that_may_not_be_called() {
    let invalid = r#"{"name":"hidden_one","inputSchema":{"type":"array"}}"#;
    let entry = scripted_upstream(&["--definitions", invalid]);
    let mut proxy = Proxy::new(&config_of([("g", merged(entry, json!({"tools": {"deny": ["hidden_*"]}})))]));
    proxy.wait_for_state("g", "discovered");
    assert!(!proxy.status().to_string().contains("hidden_one"));
    let error = proxy.call_failure("g", "hidden_one", json!({}));
    assert!(error.ends_with("`dynamic-mcp status` shows the user which."), "{error}");
    // The log is the owner's, who learns which rule hides it.
    let log = proxy.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("hidden_one")).collect();
    assert!(
        matches!(lines[..], [line] if line.contains(r#"by the rules in the config: "hidden_one" (tools.deny)"#)),
        "{log}"
    );
}

#[test]
fn lists_mend_what_strict_clients_reject_and_descriptions_are_verbatim() {
    let cache = TempDir::new().unwrap();
    let definition = r#"{"name":"added","title":null,"inputSchema":{"properties":{"a":{"default":2.50}}}}"#;
    let mut proxy = second_flat_proxy(&cache, definition);
    let list = proxy.raw_result("tools/list", "{}");
    let mended = r#"{"name":"g__added","inputSchema":{"properties":{"a":{"default":2.50}},"type":"object"}}"#;
    assert!(list.contains(mended) && !list.contains(r#""name":"call_dynamic_tool""#), "{list}");
    let described = proxy.raw_result("tools/describe", r#"{"name":"g__added"}"#);
    assert_eq!(described, format!(r#"{{"tool":{}}}"#, definition.replace("added", "g__added")));
    assert_eq!(text_of(&call_exposed(&mut proxy, "g__added", json!({}))), "{}");
}

#[test]
fn a_bare_name_of_several_groups_is_refused_with_their_names() {
    let mut proxy =
        discovered_proxy(config_of([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]), "meta");
    let result = call_exposed(&mut proxy, "echo", json!({"text": "x"}));
    assert!(result["isError"] == true && text_of(&result).contains(r#""g", "h""#), "{result}");
    assert_eq!(proxy.error_code("tools/call", json!({"name": "ecko", "arguments": {}})), -32602);
}

#[test]
fn a_bare_name_belongs_to_the_group_that_allows_it() {
    let denied = merged(scripted_upstream(&["--name", "G"]), json!({"tools": {"deny": ["echo"]}}));
    let mut proxy = discovered_proxy(config_of([("g", denied), ("h", scripted_upstream(&[]))]), "meta");
    assert_eq!(text_of(&call_exposed(&mut proxy, "echo", json!({"text": "x"}))), "x");
    let text = proxy.call_meta_tool("call_dynamic_tool", json!({"name": "echo", "args": {"text": "y"}}));
    assert_eq!(text_of(&text), "y");
}

#[test]
fn the_flat_list_includes_tools_that_an_upstream_adds() {
    let mut proxy =
        discovered_proxy(config_of([("g", scripted_upstream(&["--list-changed-on-call"]))]), "flat");
    call_exposed(&mut proxy, "g__echo", json!({"text": "x"}));
    let is_listed = |proxy: &mut Proxy| tool_names(proxy).contains(&"g__added_0".to_owned());
    while !is_listed(&mut proxy) {
        proxy.next_server_message();
    }
    assert_eq!(text_of(&call_exposed(&mut proxy, "g__added_0", json!({"x": 1}))), r#"{"x":1}"#);
}

/// A config whose group `a` has a tool that is named like a tool of the group `a__added_b`.
fn nested_names_config() -> Value {
    let tool = r#"{"name":"added_b__echo","inputSchema":{"type":"object"}}"#;
    let ask = json!({"tools": {"deny": ["sleep"]}});
    pure_config([
        ("a", scripted_upstream(&["--definitions", tool])),
        ("a__added_b", merged(scripted_upstream(&[]), ask)),
    ])
}

#[test]
fn a_group_cannot_take_the_name_of_another_groups_tool() {
    // Whichever group is known first.
    for first in [&["a"][..], &["a__added_b"], &["a", "a__added_b"], &[]] {
        let mut proxy = Proxy::new(&nested_names_config());
        for group in first {
            proxy.upstream_pid(group);
        }
        let direct = call_exposed(&mut proxy, "a__added_b__echo", json!({"text": "x"}));
        assert_eq!(text_of(&direct), "x", "{first:?}");
        let arguments = json!({"name": "a__added_b__echo", "args": {"text": "x"}});
        assert_eq!(text_of(&proxy.call_meta_tool("call_dynamic_tool", arguments)), "x", "{first:?}");
        let params = json!({"name": "a__added_b__echo"});
        let described = proxy.request("tools/describe", params)["result"]["tool"].take();
        assert_eq!(described["title"], "Echo", "{first:?}");
        let denied = call_exposed(&mut proxy, "a__added_b__sleep", json!({"ms": 1}));
        assert!(text_of(&denied).contains("Group a__added_b has no tool \"sleep\""), "{denied}");
    }
}

#[test]
fn a_tool_whose_name_belongs_to_another_group_has_a_name_of_its_own() {
    let mut proxy = Proxy::new(&nested_names_config());
    proxy.connect(["a", "a__added_b"]);
    let tools = members_of(&proxy.request("tools/list", json!({"lazy": true})), "tools", "name");
    assert!(tools.contains(&"a__added_b__echo".to_owned()), "{tools:?}");
    let own = tools.iter().find(|name| name.starts_with("a__added_b_echo_")).unwrap();
    assert_eq!(text_of(&call_exposed(&mut proxy, own, json!({"n": 1}))), r#"{"n":1}"#);
    let unnamed_group = proxy.call_meta_tool("call_dynamic_tool", json!({"name": own, "args": {"n": 1}}));
    assert_eq!(text_of(&unnamed_group), r#"{"n":1}"#);
    assert_eq!(proxy.call_text("a", "added_b__echo", json!({"n": 2})), r#"{"n":2}"#);
}
