//! What is measured: the server itself, a relay that does nothing, dynamic-mcp, and other proxies that are installed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The group of the server that is called.
const GROUP: &str = "upstream-0";

/// A way to the server.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Returns the params of a `tools/call` of this tool with these arguments.
    pub(crate) params: fn(&str, &str) -> String,
}

/// Returns all contestants. `upstream` is the command of the server, `proxy` that of dynamic-mcp, and `folder` is for
/// files that they need. A contestant that cannot be measured is named.
pub(crate) fn all(upstream: &[String], proxy: &[String], folder: &Path) -> Vec<Contestant> {
    let direct = Contestant { name: "direct", command: upstream.to_vec(), params: direct_params };
    let ours = Contestant { name: "dynamic-mcp", command: proxy.to_vec(), params: group_params };
    let relay = relay(upstream, folder);
    let mut all = vec![direct];
    all.extend(relay);
    all.push(ours);
    match std::env::var_os("DYNAMIC_MCP_BENCH_PEERS") {
        Some(peers) => all.extend(installed_peers(Path::new(&peers), upstream, folder)),
        None => println!("Other proxies are not measured: DYNAMIC_MCP_BENCH_PEERS names no folder.\n"),
    }
    all
}

/// Compiles the relay.
fn relay(upstream: &[String], folder: &Path) -> Option<Contestant> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/proxy/relay.c");
    let program = folder.join("relay");
    let compiled = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("THE RELAY IS NOT MEASURED: cc, the C compiler, is missing or failed.\n");
        return None;
    }
    let command = [&[text(&program)], upstream].concat();
    Some(Contestant { name: "relay", command, params: direct_params })
}

/// The proxies that benches/proxy/peers has installed in a folder.
fn installed_peers(peers: &Path, upstream: &[String], folder: &Path) -> Vec<Contestant> {
    let (program, args) = (&upstream[0], &upstream[1..]);
    let entry = format!(r#""command": {program:?}, "args": {args:?}, "description": "a server""#);
    let config = folder.join("peers.json");
    fs::write(&config, format!(r#"{{ "mcpServers": {{ "{GROUP}": {{ {entry} }} }} }}"#)).unwrap();
    let config = text(&config);
    let program = |path: &str| text(&peers.join(path));
    let compressor = [vec![program("venv/bin/mcp-compressor"), "--".into()], upstream.to_vec()].concat();
    let known: [Contestant; 3] = [
        Contestant {
            name: "dynamic-mcp 1.5.0",
            command: vec![program("bin/dmcp"), config.clone()],
            params: group_params,
        },
        Contestant {
            name: "modular-mcp",
            command: vec![program("node_modules/.bin/modular-mcp"), config],
            params: modular_params,
        },
        Contestant { name: "mcp-compressor", command: compressor, params: compressor_params },
    ];
    let (found, missing): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|peer| PathBuf::from(&peer.command[0]).exists());
    let mut names = String::new();
    for peer in &missing {
        write!(names, " {}", peer.name).unwrap();
    }
    if !missing.is_empty() {
        println!("Not installed, and not measured:{names}.\n");
    }
    found
}

fn direct_params(tool: &str, args: &str) -> String {
    format!(r#"{{"name":"{tool}","arguments":{args}}}"#)
}

fn group_params(tool: &str, args: &str) -> String {
    let arguments = format!(r#"{{"group":"{GROUP}","name":"{tool}","args":{args}}}"#);
    format!(r#"{{"name":"call_dynamic_tool","arguments":{arguments}}}"#)
}

fn modular_params(tool: &str, args: &str) -> String {
    let arguments = format!(r#"{{"group":"{GROUP}","name":"{tool}","args":{args}}}"#);
    format!(r#"{{"name":"call-modular-tool","arguments":{arguments}}}"#)
}

fn compressor_params(tool: &str, args: &str) -> String {
    let arguments = format!(r#"{{"tool_name":"{tool}","tool_input":{args}}}"#);
    format!(r#"{{"name":"server_invoke_tool","arguments":{arguments}}}"#)
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
