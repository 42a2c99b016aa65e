//! Servers that ask and do not read the replies: they lose their connection, memory stays bounded, and nobody else
//! notices.

use super::memory::memory;
use crate::remote::remote;
use crate::remote::server::{Reply, Server};
use crate::support::{Proxy, ProxyCommand, Turn, pure_config, scripted_upstream};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A shell server that does `$2` with `$1` at its first call.
const SERVER: &str = r#"
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}';;
    *tools/list*) result='{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}';;
    *tools/call*)
      case $2 in
        never-reads) exec yes "$1";;
        reads) yes "$1" | head -n 4000 &
          n=0
          while [ $n -lt 4000 ] && read -r line; do n=$((n+1)); done
          result='{"content":[{"type":"text","text":"read '$n'"}]}';;
      esac;;
    *) continue;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

/// The entry of a server that asks `line`. `how`: whether it reads the replies.
pub(crate) fn asking_server(home: &Path, line: &str, how: &str) -> Value {
    let script = home.join("asks");
    fs::write(&script, SERVER).unwrap();
    json!({"command": "sh", "args": [script, line, how]})
}

/// What a server may send that is owed a reply.
fn questions() -> Vec<String> {
    let request = |id: Value, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let large = json!({"text": "x".repeat(60_000)});
    let ping = request(json!(1), "ping", json!({}));
    vec![
        request(json!("x".repeat(100_000)), "ping", json!({})),
        request(json!(2), "roots/list", json!({})),
        request(json!("q"), "sampling/createMessage", large.clone()),
        request(json!(4), "elicitation/create", json!({"message": "?"})),
        request(json!(5), "no/such/method", large),
        r#"{"jsonrpc":"2.0","id":"m","method":3}"#.to_owned(),
        format!("[{}]", vec![&ping[..]; 100].join(",")),
        ping,
    ]
}

/// What such a server's call gets.
pub(crate) const REASON: &str = "did not read the replies to its requests for 10 s";

#[test]
fn servers_that_ask_and_never_read_lose_their_connections_and_delay_nobody() {
    let _turn = Turn::take();
    let command = ProxyCommand::new();
    let questions = questions();
    let servers = questions
        .iter()
        .enumerate()
        .map(|(n, question)| (format!("q{n}"), asking_server(command.home(), question, "never-reads")));
    let mut servers: serde_json::Map<String, Value> = servers.collect();
    servers.insert("g".to_owned(), scripted_upstream(&[]));
    let config = json!({"settings": {"lazy_startup": "pure"}, "mcpServers": servers});
    let mut proxy = command.config(&config).start_initialized();
    proxy.upstream_pid("g");
    let before = memory(proxy.pid(), "VmRSS");
    let calls: Vec<_> =
        (0..questions.len()).map(|n| proxy.send_call(&format!("q{n}"), "t", json!({}))).collect();
    let mut slowest = Duration::ZERO;
    for n in 0..50 {
        let start = tokio::time::Instant::now();
        assert_eq!(proxy.call_text("g", "echo", json!({"text": n.to_string()})), n.to_string());
        slowest = slowest.max(start.elapsed());
    }
    for (call, question) in calls.into_iter().zip(&questions) {
        let line = proxy.response(call).line;
        assert!(line.contains(REASON), "{}: {line}", &question[..question.len().min(200)]);
    }
    let grown = memory(proxy.pid(), "VmHWM") - before;
    eprintln!("{} MB more, slowest call {slowest:?}", grown >> 20);
    assert!(grown < 64 << 20, "{grown}");
    // For a machine that has other things to do.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

#[test]
fn a_server_that_reads_while_it_asks_is_answered() {
    let command = ProxyCommand::new();
    let ping = json!({"jsonrpc": "2.0", "id": "x".repeat(60), "method": "ping"}).to_string();
    let server = asking_server(command.home(), &ping, "reads");
    let mut proxy = command.config(&pure_config([("g", server)])).start_initialized();
    assert_eq!(proxy.call_text("g", "t", json!({})), "read 4000");
}

#[test]
fn a_remote_server_that_asks_and_takes_no_reply_loses_its_connection() {
    let _turn = Turn::take();
    let server = Server::start(|request| {
        if request.is_tool_call() {
            return Some(Reply::events(|out| {
                while out.event("1", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#) {}
                false
            }));
        }
        let is_reply = request.body.get("result").is_some();
        // No answer, ever.
        if is_reply {
            loop {
                std::thread::park();
            }
        }
        None
    });
    let mut proxy = Proxy::new(&remote(&server, json!({})));
    let before = memory(proxy.pid(), "VmRSS");
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains(REASON), "{failure}");
    let grown = memory(proxy.pid(), "VmHWM") - before;
    eprintln!("{} MB more, {} connections", grown >> 20, server.connections());
    assert!(grown < 32 << 20 && server.connections() < 100, "{grown} {}", server.connections());
}
