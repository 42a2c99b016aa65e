//! `dynamic-mcp demo`, and the MCP server that is built in for it.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[cfg(unix)]
use crate::support::wait_until;
use crate::support::{PipeReader, output_of, wait_for_child, write_all};

const PROGRAM: &str = env!("CARGO_BIN_EXE_dynamic-mcp");

#[test]
#[cfg_attr(windows, ignore = "the path of the program is that of the machine that built it")]
fn the_demo_shows_every_step_and_leaves_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    // The user's own settings do not apply to the demo.
    command.arg("demo").env("TMPDIR", tmp.path()).env("DYNAMIC_MCP_EAGER_STARTUP", "true");
    let output = output_of(&mut command);
    let text = String::from_utf8(output.stdout).unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && log.is_empty(), "{text}\n{log}");
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "5 servers have 20 tools",
        "← work / search_notes (read-only): Find notes",
        r#"← Group work: 1 of 4 tools {"name":"search_notes""#,
        r#"← {"notes":[{"id":"note-1","title":"Offsite: ideas"}]}"#,
        "All 101 bytes of the result",
        "add_note(title: string",
        r#"← Group archive is not available: command "notes-archive" not found"#,
        "- team: discovered",
        r#"← {"id":"note-1","title":"Offsite: ideas","body":"Budget 4000."#,
        &format!(r#""mcpServers": {{ "dyn": {{ "command": {},"#, json!(PROGRAM)),
    ] {
        assert!(unwrapped.contains(part), "{part} is missing:\n{text}");
    }
    let running: Vec<_> = unwrapped.split("Running servers: ").skip(1).collect();
    let is_one = running.iter().map(|servers| servers.starts_with("work (process "));
    assert_eq!(is_one.collect::<Vec<_>>(), [false, false, true, false, true, false], "{text}");
    let saved = unwrapped.split(" % less").next().and_then(|before| before.split(' ').next_back());
    assert!(saved.unwrap().parse::<u32>().unwrap() > 50, "{text}");
    assert!(!text.contains('\x1b'), "colors without a terminal");
    assert!(text.lines().all(|line| line.chars().count() <= 96 || line.contains(PROGRAM)), "{text}");
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    #[cfg(unix)]
    for servers in running.iter().filter_map(|servers| servers.strip_prefix("work (process ")) {
        let pid = servers.split(')').next().unwrap().parse().unwrap();
        assert!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err(), "{text}");
    }
}

// It needs signals.
#[test]
#[cfg(unix)]
fn a_signal_ends_the_demo_with_its_server_and_its_files() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let tmp = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("demo").env("TMPDIR", tmp.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = PipeReader::new(child.stdout.take().unwrap());
        let running = |line: String| line.split("Running servers: work (process ").nth(1).map(str::to_owned);
        let server = std::iter::from_fn(|| stdout.read_line()).find_map(running).unwrap();
        let server = Pid::from_raw(server.split(')').next().unwrap().parse().unwrap());
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(wait_for_child(&mut child).code(), Some(130));
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
        wait_until("the server has ended", || kill(server, None).is_err());
        let stderr = PipeReader::new(child.stderr.take().unwrap()).read_to_end();
        assert_eq!(String::from_utf8(stderr).unwrap(), "dynamic-mcp: the demo was interrupted\n");
    }
}

#[test]
#[cfg(unix)]
fn a_demo_that_fails_says_why() {
    let output = output_of(Command::new(PROGRAM).arg("demo").env("TMPDIR", "/nowhere"));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot create /nowhere/dynamic-mcp-demo-"), "{text}");
}

#[test]
fn every_tool_of_the_demo_server_works_as_it_is_defined() {
    let mut child = Command::new(PROGRAM)
        .args(["__demo-server", "travel"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = PipeReader::new(child.stdout.take().unwrap());
    let mut request = |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        write_all(&mut stdin, format!("{request}\n").as_bytes()).unwrap();
        let response: Value = serde_json::from_str(&stdout.read_line().unwrap()).unwrap();
        assert_eq!(response["id"], method);
        response
    };
    for (requested, negotiated) in [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")] {
        let result = &request("initialize", json!({"protocolVersion": requested}))["result"];
        assert_eq!(result["protocolVersion"], negotiated);
    }
    let tools = request("tools/list", json!({}))["result"]["tools"].take();
    let calls = [
        (
            "add_note",
            json!({"title": "Ferry", "body": "Oslo at 14:00", "tags": ["ships"]}),
            r#""id":"note-2""#,
        ),
        ("get_note", json!({"id": "note-2"}), "Oslo at 14:00"),
        ("list_notes", json!({}), r#"{"notes":[{"id":"note-1","title":"Night trains"},{"id":"note-2""#),
        ("search_notes", json!({"query": "SHIPS oslo"}), r#"{"notes":[{"id":"note-2","title":"Ferry"}]}"#),
    ];
    assert_eq!(tools.as_array().unwrap().len(), calls.len());
    for (name, args, expected) in calls {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        assert!(jsonschema::is_valid(&tool["inputSchema"], &args), "{name} {args}");
        let response = request("tools/call", json!({"name": name, "arguments": args}));
        let text = response["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{name} {args}: {text}");
    }
    for (method, params, code) in [
        ("tools/call", json!({"name": "get_note", "arguments": {"id": "note-9"}}), -32602),
        ("tools/call", json!({"name": "no_such_tool"}), -32602),
        ("resources/list", json!({}), -32601),
    ] {
        assert_eq!(request(method, params)["error"]["code"], code, "{method}");
    }
    assert_eq!(request("ping", json!({}))["result"], json!({}));
    drop(stdin);
    assert_eq!(wait_for_child(&mut child).code(), Some(0));
}

#[test]
fn a_demo_server_of_an_unknown_group_does_not_start() {
    let output = output_of(Command::new(PROGRAM).args(["__demo-server", "fish"]));
    assert_eq!(output.status.code(), Some(1));
}
