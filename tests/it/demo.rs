//! `dynamic-mcp demo`, and the MCP server that is built in for it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_dynamic-mcp");

#[test]
fn the_demo_shows_the_main_job_and_leaves_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    // The user's own settings are not the demo's.
    command.arg("demo").env("TMPDIR", tmp.path()).env("DYNAMIC_MCP_EAGER_STARTUP", "true");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(states(&text, "notes"), ["pending", "connected", "discovered"]);
    for unused in ["tasks", "calendar"] {
        assert_eq!(states(&text, unused), ["pending"; 3]);
    }
    assert!(text.contains("pending → connected → discovered"), "{text}");
    assert!(text.contains(r#"← {"id":"note-4","title":"Offsite: plan""#), "{text}");
    assert!(text.contains("The nearest tools: search_notes"), "{text}");
    let saved = text.split(" % saved").next().and_then(|before| before.split_whitespace().last());
    assert!(saved.unwrap().parse::<u32>().unwrap() > 50, "{text}");
    assert!(text.contains(&json!(PROGRAM).to_string()), "{text}");
    assert!(!text.contains('\x1b'), "colors without a terminal");
    assert!(text.lines().all(|line| line.chars().count() <= 100 || line.contains(PROGRAM)), "{text}");
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    #[cfg(unix)]
    assert!(!is_alive(pid(&text)), "{text}");
}

/// The states that are shown of `group`, in order.
fn states<'a>(text: &'a str, group: &str) -> Vec<&'a str> {
    let rows = text.lines().filter(|line| line.contains("process") && line.trim_start().starts_with(group));
    rows.filter_map(|row| row.split_whitespace().nth(1)).collect()
}

#[cfg(unix)]
fn pid(text: &str) -> i32 {
    let row = text.lines().find(|line| line.contains("connected ")).unwrap();
    row.split_whitespace().last().unwrap().parse().unwrap()
}

#[cfg(unix)]
fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
}

#[test]
#[cfg(unix)]
fn a_demo_that_fails_says_why() {
    let output = Command::new(PROGRAM).arg("demo").env("TMPDIR", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot create /nowhere/dynamic-mcp-demo-"), "{text}");
}

#[test]
fn every_note_tool_works() {
    let mut server = Server::start("notes");
    server.check_tools(&[
        ("list_notes", json!({"sort_by": "title", "limit": 2}), r#"{"notes":[{"id":"note-2""#),
        (
            "add_note",
            json!({"title": "A", "body": "lakes and woods", "tags": ["x"]}),
            r#""notebook":"Inbox""#,
        ),
        ("get_note", json!({"id": "note-4"}), "lakes and woods"),
        ("search_notes", json!({"query": "WOODS lakes"}), r#"{"notes":[{"id":"note-4""#),
        ("update_note", json!({"id": "note-4", "title": "B"}), r#""title":"B""#),
        ("append_to_note", json!({"id": "note-4", "text": "more", "heading": "H"}), r"woods\n## H\nmore"),
        ("move_note", json!({"id": "note-4", "notebook": "Work"}), r#""notebook":"Work""#),
        ("list_tags", json!({}), r#"{"tag":"x","notes":1}"#),
        ("delete_note", json!({"id": "note-4"}), r#"{"deleted":"note-4","title":"B"}"#),
    ]);
    assert_eq!(server.call("list_notes", &json!({})).1.matches("\"id\"").count(), 3);
    server.end();
}

#[test]
fn every_task_tool_works() {
    let mut server = Server::start("tasks");
    server.check_tools(&[
        ("add_task", json!({"title": "Do it", "due": "2026-01-05", "labels": ["l"]}), r#""status":"open""#),
        ("list_tasks", json!({"due_before": "2026-01-06", "label": "l"}), r#"{"tasks":[{"id":"task-4""#),
        ("update_task", json!({"id": "task-4", "due": "", "priority": "urgent"}), r#""priority":"urgent""#),
        ("complete_task", json!({"id": "task-4", "comment": "easy"}), r#""status":"done""#),
        ("get_task", json!({"id": "task-4"}), r#""comments":["easy"]"#),
        ("list_projects", json!({}), r#"{"project":"Inbox","open":1,"done":1}"#),
        ("reopen_task", json!({"id": "task-4"}), r#""status":"open""#),
        ("add_comment", json!({"id": "task-4", "text": "not so easy"}), r#"["easy","not so easy"]"#),
        ("delete_task", json!({"id": "task-4"}), r#"{"deleted":"task-4""#),
    ]);
    assert!(
        server.call("list_tasks", &json!({})).1.contains(r#"[{"id":"task-1""#),
        "those with a date first"
    );
    server.end();
}

#[test]
fn every_calendar_tool_works() {
    let mut server = Server::start("calendar");
    let lunch = json!({"title": "Lunch", "start": "2026-03-02T12:00", "end": "2026-03-02T13:00",
        "attendees": [{"email": "ana@example.com", "optional": true}]});
    let free = r#"[{"start":"2026-03-02T10:30","end":"2026-03-02T12:00"},{"start":"2026-03-02T14:45","end":"2026-03-02T17:00"}]"#;
    server.check_tools(&[
        ("add_event", lunch, r#""calendar":"Personal""#),
        ("list_events", json!({"from": "2026-03-02", "to": "2026-03-02", "limit": 1}), r#"[{"id":"event-1""#),
        ("get_event", json!({"id": "event-4"}), r#""optional":true"#),
        ("search_events", json!({"query": "lake cabin"}), r#"[{"id":"event-3""#),
        ("find_free_time", json!({"date": "2026-03-02", "duration_minutes": 61}), free),
        ("update_event", json!({"id": "event-4", "location": "Canteen"}), r#""location":"Canteen""#),
        (
            "respond_to_invitation",
            json!({"id": "event-4", "response": "declined"}),
            r#""response":"declined""#,
        ),
        ("delete_event", json!({"id": "event-4"}), r#"{"deleted":"event-4","title":"Lunch"}"#),
        (
            "list_calendars",
            json!({}),
            r#"[{"calendar":"Work","events":2},{"calendar":"Personal","events":1}]"#,
        ),
    ]);
    let offsite = server.call("find_free_time", &json!({"date": "2026-03-13", "duration_minutes": 5})).1;
    assert_eq!(offsite, r#"{"date":"2026-03-13","free":[]}"#, "an event of several days takes all of them");
    server.end();
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let mut server = Server::start("tasks");
    for (tool, args, wrong) in [
        ("get_task", json!({"id": "task-9"}), "there is no task with the id \"task-9\""),
        ("get_task", json!({}), "argument \"id\" is missing"),
        ("list_projects", json!({"x": 1}), "there is no argument \"x\""),
        ("add_task", json!({"title": ""}), "argument \"title\" must be longer"),
        ("add_task", json!({"title": "t", "due": "soon"}), "argument \"due\" must be as the pattern"),
        (
            "add_task",
            json!({"title": "t", "priority": "x"}),
            "one of [\"low\",\"normal\",\"high\",\"urgent\"]",
        ),
        ("add_task", json!({"title": "t", "labels": [1]}), "a list, each of its entries a string"),
        ("list_tasks", json!({"limit": 0}), "argument \"limit\" must be 1 or more"),
    ] {
        let (failed, text) = server.call(tool, &args);
        assert!(failed && text.contains(wrong), "{tool} {args}: {text}");
    }
    let params = json!({"name": "no_such_tool"});
    assert_eq!(server.ask("tools/call", &params)["error"]["code"], -32602);
    assert_eq!(server.ask("resources/list", &json!({}))["error"]["code"], -32601);
    assert_eq!(server.ask("ping", &json!({}))["result"], json!({}));
    server.end();
    let output = Command::new(PROGRAM).args(["__demo-server", "fish"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(kind: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["__demo-server", kind]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut server = Self { child, stdin, stdout: BufReader::new(stdout) };
        for (asked, answered) in [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")] {
            let result = &server.ask("initialize", &json!({"protocolVersion": asked}))["result"];
            assert_eq!(result["protocolVersion"], answered);
        }
        server
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        writeln!(self.stdin, "{request}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], method);
        answer
    }

    /// Whether it failed, and the text.
    fn call(&mut self, tool: &str, args: &Value) -> (bool, String) {
        let result = &self.ask("tools/call", &json!({"name": tool, "arguments": args}))["result"];
        (result["isError"] == true, result["content"][0]["text"].as_str().unwrap().to_owned())
    }

    /// Calls each tool that is listed, in this order, with arguments that fit its schema.
    fn check_tools(&mut self, calls: &[(&str, Value, &str)]) {
        let tools = self.ask("tools/list", &json!({}))["result"]["tools"].take();
        let tools = tools.as_array().unwrap();
        let listed: BTreeSet<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(listed, calls.iter().map(|(tool, ..)| *tool).collect());
        assert!((8..=10).contains(&listed.len()));
        for tool in tools {
            assert!(jsonschema::meta::is_valid(&tool["inputSchema"]), "{tool}");
            assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
            assert!(tool["description"].as_str().is_some_and(|text| text.len() > 50), "{tool}");
        }
        for (name, args, expected) in calls {
            let tool = tools.iter().find(|tool| tool["name"] == *name).unwrap();
            assert!(jsonschema::is_valid(&tool["inputSchema"], args), "{name} {args}");
            let (failed, text) = self.call(name, args);
            assert!(!failed && text.contains(expected), "{name} {args}: {text}");
        }
    }

    fn end(mut self) {
        drop(self.stdin);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}
