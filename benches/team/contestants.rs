//! What is measured: the server itself, a bare proxy, dynamic-mcp, and other proxies that are installed.

use super::process;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The members of a request's params that revision 2026-07-28 wants.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The params of a call through dynamic-mcp.
pub(crate) const CALL_OF_OURS: &str =
    r#""name":"call_dynamic_tool","arguments":{"group":"s","name":"r100","args":{"text":"a"}}"#;

/// A way to the server that is running. It is ended when this is dropped.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    /// The headers of each request, with a line break after each.
    pub(crate) headers: &'static str,
    /// Whether a client begins with a handshake.
    pub(crate) has_handshake: bool,
    /// The params of a call.
    pub(crate) call: String,
    /// The params of `tools/list`.
    pub(crate) list: String,
    pub(crate) process: Process,
}

/// A process that is killed when this is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a program that listens at a port. If `DYNAMIC_MCP_BENCH_CORE` names a core, it runs there. Waits until it
    /// listens.
    pub(crate) fn start(command: &[String], port: u16) -> Self {
        let command = process::on_bench_core(command);
        let mut started = Command::new(&command[0]);
        started.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Self(started.spawn().unwrap());
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{command:?} does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        process
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A port of this machine that is free.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts dynamic-mcp in front of the server at `upstream`.
pub(crate) fn serve(folder: &Path, upstream: u16, args: &[&str]) -> (Process, u16) {
    let config = folder.join("servers.json");
    let servers = format!(r#"{{"mcpServers":{{"s":{{"url":"http://127.0.0.1:{upstream}/mcp"}}}}}}"#);
    fs::write(&config, servers).unwrap();
    let program = std::env::var("DYNAMIC_MCP_BENCH_PROGRAM");
    let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_dynamic-mcp").to_owned());
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut command = [&program, "--no-cache", "--config", &text(&config), "serve", "--http", &address]
        .map(str::to_owned)
        .to_vec();
    command.extend(args.iter().map(|arg| (*arg).to_owned()));
    (Process::start(&command, port), port)
}

/// Starts all contestants, of which the first is the server itself. `folder` is for files that they need.
pub(crate) fn start_all(folder: &Path) -> Vec<Contestant> {
    let own = text(&std::env::current_exe().unwrap());
    let upstream = free_port();
    let url = format!("http://127.0.0.1:{upstream}/mcp");
    let bare = free_port();
    let mut all = vec![
        direct("direct", &[own.clone(), "--upstream".into(), upstream.to_string()], upstream),
        direct(
            "bare proxy",
            &[own.clone(), "--bare-proxy".into(), bare.to_string(), upstream.to_string()],
            bare,
        ),
    ];
    all.extend(ours(folder, upstream));
    let Some(peers) = std::env::var_os("DYNAMIC_MCP_BENCH_PEERS") else {
        println!("Other proxies are not measured: DYNAMIC_MCP_BENCH_PEERS names no folder.\n");
        return all;
    };
    let program = |path: &str| text(&Path::new(&peers).join(path));
    let port = free_port();
    let script = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/team/fastmcp_proxy.py"));
    all.push(direct("FastMCP", &[program("fastmcp/bin/python"), script, port.to_string(), url], port));
    let port = free_port();
    let args =
        ["--port", &port.to_string(), "--stateless", "--", &own, "--stdio-upstream"].map(str::to_owned);
    all.push(direct("mcp-proxy", &[vec![program("mcp-proxy/bin/mcp-proxy")], args.to_vec()].concat(), port));
    all
}

/// Starts a contestant that shows the tools of the server.
fn direct(name: &'static str, command: &[String], port: u16) -> Contestant {
    Contestant {
        name,
        port,
        headers: "",
        has_handshake: true,
        call: r#"{"name":"r100","arguments":{"text":"a"}}"#.to_owned(),
        list: "{}".to_owned(),
        process: Process::start(command, port),
    }
}

/// dynamic-mcp, with clients of both eras.
fn ours(folder: &Path, upstream: u16) -> Vec<Contestant> {
    let stateless =
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: call_dynamic_tool\r\n";
    let limits = ["--max-rate", "1000000", "--max-in-flight", "10000"];
    let start = |name, headers, call, list| {
        let (process, port) = serve(folder, upstream, &limits);
        Contestant { name, port, headers, has_handshake: name == "dynamic-mcp", call, list, process }
    };
    vec![
        start("dynamic-mcp", "", format!("{{{CALL_OF_OURS}}}"), "{}".into()),
        start(
            "dynamic-mcp, 2026-07-28",
            stateless,
            format!("{{{CALL_OF_OURS},{META}}}"),
            format!("{{{META}}}"),
        ),
    ]
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
