//! The reference server over HTTP, on both transports that it has: what comes through us is what it says on stdio.

use crate::pairs::{TS_V1, check_calls, run, tool_call};
use crate::scratch::Scratch;
use crate::servers;
use serde_json::json;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::time::Instant;

/// For a Node.js program to listen, on a loaded machine.
const STARTED: Duration = Duration::from_secs(60);

/// Ends with its test.
pub(crate) struct Listening(pub(crate) Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn streamable_http() {
    over("streamableHttp", "/mcp");
}

#[test]
fn http_and_sse_found_by_itself() {
    over("sse", "/sse");
}

fn over(transport: &str, path: &str) {
    let Some(scratch) = Scratch::new() else { return };
    let mut server = servers::all(&scratch).into_iter().find(|server| server.group == "everything").unwrap();
    // Arguments that do not fit never get there.
    server.calls.retain(|call| !call.is_error);
    let plan: Vec<_> = server.calls.iter().map(|call| tool_call(call.tool, &call.arguments)).collect();
    let direct = run(&scratch, &TS_V1, "legacy", &server.command, &plan);

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = scratch.command(&server.command[0]);
    command.args([&server.command[1], transport]).env("PORT", port.to_string());
    let listening = Listening(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < STARTED, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }

    let proxy = scratch.serve(&json!({ "everything": { "url": format!("http://127.0.0.1:{port}{path}") } }));
    let through = server.calls.iter().map(|call| {
        let arguments = json!({"group": "everything", "name": call.tool, "args": call.arguments});
        tool_call("call_dynamic_tool", &arguments)
    });
    let proxied = run(&scratch, &TS_V1, "legacy", &proxy, &through.collect::<Vec<_>>());
    check_calls(&server.calls, proxied["results"].as_array().unwrap(), &direct);
    drop(listening);
    scratch.assert_nothing_is_left();
}
