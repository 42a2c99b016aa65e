//! The memory for messages.

use std::fs;

use serde_json::{Value, json};

use crate::remote::server::{Reply, Request, Server};
use crate::support::{Proxy, ProxyCommand, Turn, pure_config, scripted_upstream};

/// The number of groups; each answers with `ANSWER_BYTES`. Together they exceed the budget of 256 MiB.
const GROUPS: usize = 14;
const ANSWER_BYTES: usize = 25 << 20;

/// A line of /proc/PID/status, in bytes.
pub(crate) fn memory(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Calls a tool of `GROUPS` servers, each of which answers with `ANSWER_BYTES`, and reads only when the memory is used
/// up. Asserts that some answers are complete, and that the others are errors that say why.
fn assert_some_give_way(server: impl Fn(usize) -> Value, tool: &str) {
    let _turn = Turn::take();
    let servers: serde_json::Map<String, Value> = (0..GROUPS).map(|n| (format!("g{n}"), server(n))).collect();
    let mut proxy = Proxy::new(&json!({"settings": {"lazy_startup": "pure"}, "mcpServers": servers}));
    let args = json!({"bytes": ANSWER_BYTES});
    let ids: Vec<_> = (0..GROUPS).map(|n| proxy.send_call(&format!("g{n}"), tool, args.clone())).collect();
    proxy.wait_for_log("no room in the memory for messages");
    let (mut complete, mut refused) = (0, 0);
    for id in ids {
        let response = proxy.response(id);
        if response.line.len() > ANSWER_BYTES {
            complete += 1;
            continue;
        }
        refused += 1;
        assert!(response.line.contains("they share 256 MiB"), "{}", response.line);
    }
    let peak = memory(proxy.pid(), "VmHWM");
    eprintln!("{complete} complete, {refused} refused, peak {} MB", peak >> 20);
    assert!(complete > 0 && refused > 0);
    assert!(peak < 400 << 20, "{peak}");
    assert!(proxy.request("ping", json!({}))["result"].is_object());
    eprintln!("{} MB after the burst", memory(proxy.pid(), "VmRSS") >> 20);
}

#[test]
fn large_answers_to_a_client_that_does_not_read_give_way() {
    assert_some_give_way(|_| scripted_upstream(&[]), "big");
}

#[test]
fn large_answers_over_http_give_way() {
    let json = Server::start(|request| request.is_tool_call().then(|| Reply::json(large_text(request))));
    let events = Server::start(|request| {
        let text = request.is_tool_call().then(|| large_text(request))?;
        Some(Reply::events(move |body| body.event("1", &text)))
    });
    let urls = [json.url(), events.url()];
    assert_some_give_way(|n| json!({"url": urls[n % 2]}), "echo");
}

fn large_text(request: &Request) -> String {
    request.text_response(&"x".repeat(ANSWER_BYTES))
}

/// A server whose list of tools has pages of 900 kB and no end.
const ENDLESS: &str = r#"
head -c 900000 /dev/zero | tr '\0' x >"$0.big"
n=0
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}';;
    *tools/list*) n=$((n+1))
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t%s","x":"' "$id" "$n"
      cat "$0.big"
      printf '","inputSchema":{"type":"object"}}],"nextCursor":"%s"}}\n' "$n"
      continue;;
    *) continue;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

#[test]
fn a_list_without_end_is_cut_off() {
    let _turn = Turn::take();
    let command = ProxyCommand::new();
    let script = command.home().join("server");
    fs::write(&script, ENDLESS).unwrap();
    // The shell writes 18 MB beside the other tests.
    let entry = json!({"command": "sh", "args": [script], "timeout": {"wait": "60s"}});
    let mut proxy = command.config(&pure_config([("g", entry)])).start_initialized();
    let stubs = proxy.get_dynamic_tools(json!({"group": "g", "detail": "stub"}));
    assert!(stubs.contains("18 tools") && stubs.contains("the tools of further pages"), "{stubs}");
    assert!(proxy.log().contains("do not end; the pages up to there are used"), "{}", proxy.log());
}
