//! A reference server over HTTP, with both of its transports: results through dynamic-mcp equal its results on stdio.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::client_server_pairs::assert_same_results;
use crate::clients::{TS_V1, proxied_call, run_calls, tool_call};
use crate::reference_servers;
use crate::workspace::Workspace;

/// How long a Node.js program may take to listen, on a loaded machine.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is killed when it is dropped.
pub(crate) struct HttpServer(pub(crate) Child);

impl HttpServer {
    /// Starts a program that prints the port at which it listens. Returns it and its origin.
    pub(crate) fn start(mut command: Command) -> (Self, String) {
        let mut server = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut port = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
        (server, format!("http://127.0.0.1:{}", port.trim()))
    }
}

/// A port of this machine that is free.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn streamable_http() {
    check_transport("streamableHttp", "/mcp");
}

#[test]
fn http_and_sse_is_detected() {
    check_transport("sse", "/sse");
}

fn check_transport(transport: &str, path: &str) {
    let Some(workspace) = Workspace::new() else { return };
    let servers = reference_servers::all(&workspace);
    let mut server = servers.into_iter().find(|server| server.group == "everything").unwrap();
    // Invalid arguments are refused by dynamic-mcp.
    server.calls.retain(|call| !call.is_error);
    let plan: Vec<_> = server.calls.iter().map(|call| tool_call(call.tool, &call.arguments)).collect();
    let direct = run_calls(&workspace, &TS_V1, "legacy", &server.command, &plan);

    let port = free_port();
    let mut command = workspace.command(&server.command[0]);
    command.args([&server.command[1], transport]).env("PORT", port.to_string());
    let http_server = HttpServer(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < LISTEN_TIMEOUT, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }

    let url = format!("http://127.0.0.1:{port}{path}");
    let proxy = workspace.proxy_for_servers(&json!({ "everything": { "url": url } }));
    let plan: Vec<_> =
        server.calls.iter().map(|call| proxied_call("everything", call.tool, &call.arguments)).collect();
    let proxied = run_calls(&workspace, &TS_V1, "legacy", &proxy, &plan);
    assert_same_results(&server.calls, proxied["results"].as_array().unwrap(), &direct);
    drop(http_server);
    workspace.assert_no_process_left();
}
