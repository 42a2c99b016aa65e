//! Servers whose lists fail or do not come: calls by name, reads and prompts go on.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Proxy, ProxyCommand, config_of, merged, pure_config, wait_until};

/// A server whose answer to `tools/list` is `LIST`, which sets `body` or continues with the next line.
const SERVER: &str = r#"
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  body=
  case $line in
    *'"initialize"'*) body='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *tools/list*) LIST;;
    *tools/call*) body='"result":{"content":[{"type":"text","text":"called"}]}';;
    *resources/read*) body='"result":{"contents":[{"uri":"x://a","text":"read"}]}';;
    *prompts/get*) body='"result":{"messages":[]}';;
    *resources/list*|*templates/list*|*prompts/list*) OTHERS;;
    *) continue;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$body}"
done
"#;

const NO_OTHERS: &str = r#"body='"error":{"code":-32601,"message":"no"}'"#;
const TOOLS: &str = r#"body='"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"n":{"type":"number"}}},"annotations":{"readOnlyHint":true}}]}'"#;

fn server(list: &str, others: &str) -> Value {
    let script = SERVER.replace("LIST", list).replace("OTHERS", others);
    json!({"command": "sh", "args": ["-c", script.replace('$', "$$")], "timeout": {"list": 0.5}})
}

fn read_only(proxy: &mut Proxy, group: &str, tool: &str) -> String {
    let arguments = json!({"group": group, "name": tool, "args": {}});
    proxy.call_meta_tool("call_dynamic_tool_readonly", arguments).to_string()
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_list_of_tools_that_fails_fails_no_call_by_name_read_or_prompt() {
    let second_page = r#"case $line in *cursor*) body='"error":{"code":-32603,"message":"broken"}';; *) body='"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}';; esac"#;
    for (list, finding) in [
        (NO_OTHERS, "it has no tools/list"),
        (r#"body='"error":{"code":-32603,"message":"broken"}'"#, "broken"),
        (r#"body='"result":{"tools":null}'"#, "`tools` is not a list"),
        ("continue", "was not answered within 0.5 s"),
        (second_page, "broken"),
    ] {
        let pinned = merged(server(list, NO_OTHERS), json!({"pin_tools": true}));
        let hiding = json!({"tools": {"override": {"b": {"hidden_args": ["x"]}}}});
        let hiding = merged(server(list, NO_OTHERS), hiding);
        let entries = [("g", server(list, NO_OTHERS)), ("pinned", pinned), ("hiding", hiding)];
        let mut proxy = Proxy::new(&pure_config(entries));
        assert_eq!(proxy.call_text("g", "b", json!({})), "called", "{list}");
        let read = proxy.request("resources/read", json!({"group": "g", "uri": "x://a"}));
        assert_eq!(read["result"]["contents"][0]["text"], "read", "{list}: {read}");
        let prompt = proxy.request("prompts/get", json!({"group": "g", "name": "p"}));
        assert!(prompt["result"]["messages"].is_array(), "{list}: {prompt}");
        let status = proxy.group_status("g").to_string();
        assert!(status.contains(finding), "{list}: {status}");
        let tools = proxy.get_dynamic_tools(json!({"group": "g"}));
        assert_eq!(tools.contains("a(") || tools.contains("\"a\""), list == second_page, "{tools}");
        // What needs the server's own word is refused.
        let refused = read_only(&mut proxy, "g", "b");
        assert!(refused.contains("isError\":true"), "{list}: {refused}");
        for group in ["pinned", "hiding"] {
            let refused = proxy.call_failure(group, "b", json!({}));
            assert!(refused.contains("was not called"), "{list}: {refused}");
        }
    }
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn without_the_servers_list_the_cached_one_serves() {
    let command = ProxyCommand::new();
    let switch = command.home().join("broken");
    let list = format!("if [ -e '{}' ]; then continue; else {TOOLS}; fi", switch.display());
    let entry = merged(server(&list, NO_OTHERS), json!({"timeout": {"list": 3}, "cwd": "/"}));
    let pinned = merged(entry.clone(), json!({"pin_tools": true}));
    let config = pure_config([("g", entry), ("pinned", pinned)]);
    let cache = command.home().join("cache");
    let start = |command: ProxyCommand| {
        command.env("XDG_CACHE_HOME", cache.to_str().unwrap()).config(&config).start_initialized()
    };
    let mut proxy = start(command);
    assert_eq!(proxy.call_text("pinned", "a", json!({})), "called");
    assert!(!read_only(&mut proxy, "g", "a").contains("isError\":true"));
    proxy.close_stdin();
    proxy.wait_for_exit();
    fs::write(&switch, "").unwrap();
    let mut proxy = start(ProxyCommand::new());
    let begin = Instant::now();
    assert_eq!(proxy.call_text("g", "a", json!({"n": 1})), "called");
    assert!(begin.elapsed() < Duration::from_millis(2500), "a known tool does not wait for the list");
    assert!(proxy.get_dynamic_tools(json!({"group": "g"})).contains(r#""name":"a""#));
    proxy.wait_for_state("g", "connected");
    assert_eq!(proxy.call_text("g", "another", json!({})), "called");
    let refused = read_only(&mut proxy, "g", "a") + &proxy.call_failure("pinned", "a", json!({}));
    assert_eq!(refused.matches("did not give its list of tools").count(), 2, "{refused}");
    // It is read again.
    fs::remove_file(&switch).unwrap();
    assert!(!read_only(&mut proxy, "g", "a").contains("isError\":true"));
    assert_eq!(proxy.group_status("g")["cached"], false);
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_call_waits_for_no_other_list_than_that_of_tools() {
    let entry = merged(server(TOOLS, "continue"), json!({"timeout": {"list": 20}}));
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    let begin = Instant::now();
    assert_eq!(proxy.call_text("g", "a", json!({})), "called");
    // A name that is not known: the tools are read again, and nothing else is waited for.
    let unknown = proxy.call_failure("g", "unknown", json!({}));
    assert!(unknown.contains("unknown"), "{unknown}");
    let read = proxy.request("resources/read", json!({"group": "g", "uri": "x://a"}));
    assert_eq!(read["result"]["contents"][0]["text"], "read");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn flat_lists_no_name_twice() {
    let twice = r#"body='"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"x"}'"#;
    let mut config = config_of([("g", server(twice, NO_OTHERS))]);
    config["settings"]["surface"] = json!("flat");
    let mut proxy = Proxy::new(&config);
    wait_until("the tool is listed", || proxy.raw_result("tools/list", "{}").contains(r#""name":"g__a""#));
    assert_eq!(proxy.raw_result("tools/list", "{}").matches(r#""name":"g__a""#).count(), 1);
    let left_off = proxy.group_status("g")["leftOff"].to_string();
    assert!(left_off.contains("with the name of one before"), "{left_off}");
}
