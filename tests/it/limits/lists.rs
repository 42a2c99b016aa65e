//! Lists of servers that are too large, too deep, or made to cost much: no server's list delays another server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Message, Proxy, ProxyCommand, Turn, merged, pure_config, scripted_upstream};

/// A call that waits for work on these lists takes longer.
const PROMPT: Duration = Duration::from_millis(1500);

/// A definition with a schema.
fn definition(name: &str, schema: &str) -> String {
    format!(r#"{{"name":"{name}","description":"Does {name}.","inputSchema":{schema}}}"#)
}

/// JSON of so many levels around a text of so many bytes.
fn nested(levels: usize, bytes: usize) -> String {
    format!("{}\"{}\"{}", r#"{"a":"#.repeat(levels), "x".repeat(bytes), "}".repeat(levels))
}

/// This many definitions.
fn many(count: usize) -> String {
    let all: Vec<_> = (0..count).map(|n| definition(&format!("t{n}"), r#"{"type":"object"}"#)).collect();
    all.join(",")
}

/// An entry for a server with these definitions, which lists them from a file.
fn listing(home: &Path, definitions: &str) -> Value {
    let file = home.join("definitions.json");
    fs::write(&file, definitions).unwrap();
    scripted_upstream(&["--definitions-file", file.to_str().unwrap()])
}

/// Starts an instance with the server `good`, which is connected, and the server `evil` with these definitions and these
/// further members of its entry.
fn start(definitions: &str, more: Value) -> Proxy {
    let command = ProxyCommand::new();
    let evil = merged(listing(command.home(), definitions), json!({"timeout": {"list": 60, "wait": 60}}));
    let evil = merged(evil, more);
    let config = pure_config([("good", scripted_upstream(&[])), ("evil", evil)]);
    let mut proxy = command.config(&config).start_initialized();
    proxy.connect(["good", "evil"]);
    proxy
}

/// A server that answers each list with a file of its directory.
const FILES: &str = r#"
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"e","version":"1"}}';;
    *resources/read*) result='{"contents":[]}';;
    *prompts/get*) result='{"messages":[]}';;
    *tools/call*) result='{"content":[]}';;
    *resources/list*) file=resources;;
    *templates/list*) file=resourceTemplates;;
    *tools/list*) file=tools;;
    *prompts/list*) file=prompts;;
    *) continue;;
  esac
  if [ -n "$file" ]; then
    printf '{"jsonrpc":"2.0","id":%s,"result":{"%s":[' "$id" "$file"
    [ -e "$1/$file" ] && cat "$1/$file"
    echo ']}}'
    file=
  else
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
  fi
done
"#;

/// Starts an instance with the server `good` and a server `evil` that has this list.
fn start_with_list(member: &str, entries: &[String]) -> Proxy {
    let command = ProxyCommand::new();
    let (script, directory) = (command.home().join("server"), command.home().join("lists"));
    fs::create_dir(&directory).unwrap();
    fs::write(&script, FILES).unwrap();
    fs::write(directory.join(member), entries.join(",")).unwrap();
    let evil = json!({"command": "bash", "args": [script, directory], "timeout": {"list": 60, "wait": 60}});
    let config = pure_config([("good", scripted_upstream(&["--resources"])), ("evil", evil)]);
    let mut proxy = command.config(&config).start_initialized();
    proxy.connect(["good"]);
    proxy.call_tool("evil", "t0", json!({}));
    proxy.wait_for_state("evil", "connected");
    proxy
}

/// Sends a request whose answer takes work on lists, and a ping. Asserts that the ping is answered first, and returns the
/// answer of the request. One write has both, and the ping waits for no server, so their order does not depend on how busy
/// the machine is.
fn assert_ping_is_first(proxy: &mut Proxy, method: &str, params: &Value) -> Message {
    let [id, ping] = proxy.send_both([(method, params), ("ping", &json!({}))]);
    loop {
        let message = proxy.next_message().expect("an answer");
        match message.id() {
            Some(first) if first == ping.to_string() => return proxy.response(id),
            Some(first) => {
                assert_ne!(first, id.to_string(), "{method} {params} delays other requests");
            }
            None => {}
        }
    }
}

/// Sends a request that `evil` itself answers, and a call of `good`. Asserts that the call is answered soon.
fn assert_good_is_prompt(proxy: &mut Proxy, method: &str, params: &Value) {
    let id = proxy.send_request(method, params.clone());
    let begin = Instant::now();
    assert_eq!(proxy.call_text("good", "echo", json!({"text": "x"})), "x");
    let took = begin.elapsed();
    assert!(took < PROMPT, "{method} {params} delays a call of another server for {took:?}");
    proxy.response(id);
}

fn left_off(proxy: &mut Proxy) -> String {
    proxy.group_status("evil")["leftOff"].to_string()
}

#[test]
fn a_definition_of_too_many_levels_or_bytes_is_left_off_and_stays_callable() {
    let _turn = Turn::take();
    let definitions = [
        definition("deep", &nested(35_000, 0)),
        definition("around", &nested(1500, 4 << 20)),
        definition("long", &nested(1, 1 << 20)),
        definition("fine", &nested(255, 1000)),
    ];
    let mut proxy = start(&definitions.join(","), json!({}));
    let all = proxy.get_dynamic_tools(json!({"group": "evil", "lazy": false}));
    assert!(all.contains("Does fine.") && !all.contains("Does deep."), "{all}");
    assert!(all.contains("left off the lists"), "{all}");
    let status = left_off(&mut proxy);
    for part in [
        r#"1 tool with a definition of more than 256 levels (\"deep\")"#,
        r#"2 tools with a definition of more than 1 MiB (\"around\", \"long\")"#,
    ] {
        assert!(status.contains(part), "{status}");
    }
    assert!(proxy.log().contains("left off the lists"), "{}", proxy.log());
    let named = proxy.call_meta_tool("get_dynamic_tools", json!({"group": "evil", "tools": ["deep"]}));
    assert!(named.to_string().contains("call_dynamic_tool calls it by this name"), "{named}");
    for name in ["deep", "around", "long", "fine"] {
        assert_eq!(proxy.call_tool("evil", name, json!({"n": 1}))["isError"], Value::Null, "{name}");
    }
    let direct = proxy.request("tools/call", json!({"name": "evil__deep", "arguments": {"n": 1}}));
    assert_eq!(direct["result"]["isError"], Value::Null, "{direct}");
}

#[test]
fn the_first_ten_thousand_tools_are_listed_and_rules_by_name_hold_for_the_others() {
    let _turn = Turn::take();
    let rules = json!({"tools": {
        "deny": ["t10001"],
        "read_only": ["t10002"],
        "override": {"t10003": {"hidden_args": ["x"]}, "t10004": {"name": "renamed"}},
    }});
    let mut proxy = start(&many(10_010), rules);
    let status = proxy.group_status("evil");
    // The server has some more tools, which come first.
    let listed = status["tools"].as_u64().unwrap();
    assert_eq!(listed, 10_000, "{status}");
    assert!(status["leftOff"].to_string().contains("tools after the first 10,000"), "{status}");
    assert_eq!(proxy.call_tool("evil", "t10000", json!({}))["isError"], Value::Null);
    assert!(proxy.call_failure("evil", "t10001", json!({})).contains("has no tool"));
    assert!(proxy.call_failure("evil", "t10003", json!({})).contains("hidden_args"));
    assert!(
        proxy.call_failure("evil", "t10004", json!({})).contains("has no tool"),
        "clients know another name"
    );
    assert_eq!(proxy.call_tool("evil", "renamed", json!({}))["isError"], Value::Null);
    // Another spelling may be a tool of its own, so it goes to the server.
    let id = proxy.send_call("evil", "T9", json!({}));
    let answer = proxy.response(id).line;
    assert!(answer.contains("Unknown tool"), "{answer}");
    for (name, is_refused) in [("t10000", true), ("t10002", false)] {
        let arguments = json!({"group": "evil", "name": name, "args": {}});
        let result = proxy.call_meta_tool("call_dynamic_tool_readonly", arguments);
        assert_eq!(result["isError"] == true, is_refused, "{name}: {result}");
    }
}

#[test]
fn a_tool_that_is_left_off_is_refused_if_the_group_is_pinned() {
    let definitions = [definition("deep", &nested(300, 0)), definition("fine", &nested(1, 1))].join(",");
    let mut proxy = start(&definitions, json!({"pin_tools": true}));
    assert!(proxy.call_failure("evil", "deep", json!({})).contains("pin_tools"));
    assert_eq!(proxy.call_tool("evil", "fine", json!({}))["isError"], Value::Null);
}

#[test]
fn a_description_of_a_group_delays_no_other_group() {
    let _turn = Turn::take();
    let tools: Vec<_> = (0..4).map(|n| definition(&format!("t{n}"), &nested(250, 900_000))).collect();
    let mut proxy = start(&tools.join(","), json!({}));
    for arguments in [json!({"lazy": false}), json!({"detail": "signature"}), json!({"tools": ["t0", "T-1"]})]
    {
        let arguments = merged(json!({"group": "evil"}), arguments);
        let params = json!({"name": "get_dynamic_tools", "arguments": arguments});
        assert_ping_is_first(&mut proxy, "tools/call", &params);
    }
}

#[test]
fn the_list_of_tools_a_search_and_a_call_in_another_spelling_delay_no_other_group() {
    let _turn = Turn::take();
    // As many terms as fit, all different.
    let words = |n: usize| (0..60).map(|m| format!("w{}x", n * 60 + m)).collect::<Vec<_>>().join(" ");
    let long = |n: usize| {
        format!(
            r#"{{"name":"t{n}","description":"{} {}","inputSchema":{{"type":"object"}}}}"#,
            words(n),
            "d ".repeat(400)
        )
    };
    let mut proxy = start(&(0..2500).map(long).collect::<Vec<_>>().join(","), json!({}));
    let ours = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    for (method, params) in [
        ("tools/list", json!({"lazy": false})),
        ("tools/call", ours("search_dynamic_tools", json!({"query": "waxx"}))),
        ("tools/call", ours("call_dynamic_tool", json!({"name": "unknown tool", "args": {}}))),
    ] {
        assert_ping_is_first(&mut proxy, method, &params);
    }
    let call = ours("call_dynamic_tool", json!({"group": "evil", "name": "T-7", "args": {}}));
    assert_good_is_prompt(&mut proxy, "tools/call", &call);
    proxy.send_request("tools/call", json!({"name": "search_dynamic_tools", "arguments": {"query": "w9x"}}));
    proxy.send_request("tools/list", json!({"lazy": false}));
    proxy.close_stdin();
    let (status, took) = proxy.wait_for_exit();
    assert!(status.success() && took < Duration::from_secs(3), "{status} after {took:?}");
}

#[test]
fn the_owner_of_a_uri_among_many_templates_and_apps_is_found_beside_other_requests() {
    let _turn = Turn::take();
    let templates: Vec<_> =
        (0..60_000).map(|n| format!(r#"{{"uriTemplate":"{{+a}}y{n}","name":"n"}}"#)).collect();
    let mut proxy = start_with_list("resourceTemplates", &templates);
    let read = json!({"uri": "q://unlisted/at/all"});
    assert_good_is_prompt(&mut proxy, "resources/read", &read);
    assert_good_is_prompt(&mut proxy, "resources/templates/list", &json!({}));
    let app = |n| {
        format!(
            r#"{{"name":"t{n}","inputSchema":{{"type":"object"}},"_meta":{{"ui":{{"resourceUri":"ui://e/{n}"}}}}}}"#
        )
    };
    let mut proxy = start_with_list("tools", &(0..11_000).map(app).collect::<Vec<_>>());
    assert_ping_is_first(&mut proxy, "tools/list", &json!({"lazy": false}));
    assert_good_is_prompt(&mut proxy, "resources/read", &read);
}

#[test]
fn a_name_or_uri_that_no_request_can_have_is_left_off_the_lists_and_delays_no_call() {
    let _turn = Turn::take();
    let long = "_".repeat(300_000);
    let names = (0..8).map(|n| definition(&format!("g{n}{long}"), r#"{"type":"object"}"#));
    let mut proxy = start(
        &names.chain([definition("fine", r#"{"type":"object"}"#)]).collect::<Vec<_>>().join(","),
        json!({}),
    );
    let direct = json!({"name": "good__echo", "arguments": {"text": "x"}});
    assert_eq!(proxy.request("tools/call", direct)["result"]["content"][0]["text"], "x");
    assert!(left_off(&mut proxy).contains(r#"8 tools with a `name` of more than 1 KiB (\"g0___"#));
    assert_eq!(proxy.call_tool("evil", "fine", json!({}))["isError"], Value::Null);
    let listed = proxy.request("tools/list", json!({"lazy": true}))["result"].to_string();
    assert!(listed.contains("evil__fine") && !listed.contains("____"), "{listed:.500}");

    let resources =
        [r#"{"uri":"a://fine","name":"n"}"#.to_owned(), format!(r#"{{"uri":"a://{long}","name":"n"}}"#)];
    let mut proxy = start_with_list("resources", &resources);
    let listed = proxy.request("resources/list", json!({}))["result"].to_string();
    assert!(listed.contains("a://fine") && !listed.contains("____"), "{listed:.500}");
    assert!(left_off(&mut proxy).contains("1 resource with a `uri` of more than 8 KiB"));
}

#[test]
fn a_prompt_that_is_left_off_the_list_can_be_used() {
    let prompts = [format!(r#"{{"name":"deep","x":{}}}"#, nested(300, 0)), r#"{"name":"fine"}"#.to_owned()];
    let mut proxy = start_with_list("prompts", &prompts);
    let list = proxy.request("prompts/list", json!({}))["result"].to_string();
    assert!(list.contains("evil__fine") && !list.contains("evil__deep"), "{list}");
    assert!(left_off(&mut proxy).contains("1 prompt with a definition of more than 256 levels"));
    for name in ["evil__fine", "evil__deep"] {
        assert!(
            proxy.request("prompts/get", json!({"name": name}))["result"]["messages"].is_array(),
            "{name}"
        );
    }
}
