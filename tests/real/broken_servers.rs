//! Each client with eight servers, four of which are broken: the client connects, the other four work, and what the model
//! and the user see names the broken ones with the reasons.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::agents::{
    Agent, CODEX, COPILOT, GEMINI, OPENCODE, assert_gemini_is_connected, assert_opencode_is_connected,
};
use crate::clients::{Client, FASTMCP, PY_V1, PY_V2_PROBING, TS_V1, TS_V2_PROBING, run_plan};
use crate::fake_model::{FakeModel, PlannedCall};
use crate::reference_servers::{self, ReferenceServer};
use crate::workspace::{Workspace, parse_report};

/// A server that cannot be used.
struct BrokenServer {
    group: &'static str,
    entry: Value,
    /// Why, as lists say it.
    note: &'static str,
    /// Whether that is known before it is started.
    is_static: bool,
    /// Parts of its error.
    error: Vec<String>,
}

/// A program that is not installed.
fn github() -> BrokenServer {
    BrokenServer {
        group: "github",
        entry: json!({
            "command": "no-such-github-server", "args": ["stdio"], "description": "Issues and pull requests",
        }),
        note: "its command was not found",
        is_static: true,
        error: vec!["no-such-github-server".to_owned(), "install it, or write its absolute path".to_owned()],
    }
}

/// A variable that is not set.
fn jira() -> BrokenServer {
    BrokenServer {
        group: "jira",
        entry: json!({ "command": "true", "env": { "JIRA_TOKEN": "${NO_SUCH_JIRA_TOKEN}" } }),
        note: "its config entry is invalid",
        is_static: true,
        error: vec![
            "the variable `NO_SUCH_JIRA_TOKEN` is not defined".to_owned(),
            "servers.json:".to_owned(),
        ],
    }
}

/// A message on stderr, and exit.
fn postgres() -> BrokenServer {
    let script = "echo 'FATAL: no password for the user app' >&2; exit 1";
    BrokenServer {
        group: "postgres",
        entry: json!({ "command": "sh", "args": ["-c", script] }),
        note: "its process ends",
        is_static: false,
        error: vec!["exited with code 1".to_owned(), "FATAL: no password for the user app".to_owned()],
    }
}

/// No answer to the handshake.
fn slack() -> BrokenServer {
    BrokenServer {
        group: "slack",
        entry: json!({ "command": "sleep", "args": ["600"], "timeout": { "initialize": "500ms" } }),
        note: "it does not answer",
        is_static: false,
        error: vec!["initialize".to_owned()],
    }
}

/// A remote server that answers only who has logged in.
fn linear(login_server_port: u16) -> BrokenServer {
    BrokenServer {
        group: "linear",
        entry: json!({ "url": format!("http://127.0.0.1:{login_server_port}/mcp") }),
        note: "login needed",
        is_static: false,
        error: vec![
            "its authorization server does not register clients by itself: register one there".to_owned(),
        ],
    }
}

/// A working directory that does not exist.
fn sentry() -> BrokenServer {
    BrokenServer {
        group: "sentry",
        entry: json!({ "command": "true", "cwd": "/no/such/directory" }),
        note: "its working directory cannot be used",
        is_static: true,
        error: vec!["/no/such/directory".to_owned()],
    }
}

/// A path to a program that does not exist.
fn sqlite() -> BrokenServer {
    BrokenServer {
        group: "sqlite",
        entry: json!({ "command": "/no/such/program" }),
        note: "its command was not found",
        is_static: true,
        error: vec!["there is no file".to_owned(), "/no/such/program".to_owned()],
    }
}

/// Eight servers.
struct Fixture {
    working: [ReferenceServer; 4],
    broken: [BrokenServer; 4],
    /// The command of dynamic-mcp.
    proxy: Vec<String>,
}

impl Fixture {
    fn new(workspace: &Workspace, broken: [BrokenServer; 4]) -> Self {
        let working = reference_servers::all(workspace);
        let mut servers = serde_json::Map::new();
        for (working, broken) in working.iter().zip(&broken) {
            let (command, args) = working.command.split_first().unwrap();
            servers.insert(working.group.to_owned(), json!({ "command": command, "args": args }));
            servers.insert(broken.group.to_owned(), broken.entry.clone());
        }
        let proxy = workspace.proxy_for_servers(&servers.into());
        Self { working, broken, proxy }
    }

    /// The names of the broken groups.
    fn broken_names(&self) -> String {
        self.broken.iter().map(|server| server.group).collect::<Vec<_>>().join(", ")
    }

    /// A search for what a broken group is meant to do, a call of each group, and `get_status` until every group was tried.
    fn plan(&self) -> Vec<PlannedCall> {
        let query = json!({ "query": "list pull requests on github" });
        let working = self.working.iter().map(|server| {
            let call = &server.calls[0];
            PlannedCall::of_group(server.group, call.tool, &call.arguments, &[call.expected])
        });
        // The others would be tried again for some seconds.
        let broken = self.broken.iter().filter(|server| server.is_static || server.note == "login needed");
        let broken = broken.map(|server| {
            let expected = format!("Group {} is not available: ", server.group);
            let mut call = PlannedCall::of_group(server.group, "query", &json!({}), &[&expected]);
            call.expected.extend(server.error.clone());
            call
        });
        let headline = format!("4 of 8 groups failed: {}", self.broken_names());
        let mut status = PlannedCall::new("get_status", json!({}), &[&headline]);
        status.expected.extend(self.broken.iter().flat_map(|server| server.error.clone()));
        status.is_repeated = true;
        let search = PlannedCall::new(
            "search_dynamic_tools",
            query,
            &[
                "github is configured and not available: ",
                "install it, or write its absolute path",
                "Tell the user",
            ],
        );
        working.chain(broken).chain([status, search]).collect()
    }

    /// Asserts that a definition of `get_dynamic_tools` or `instructions` have the reasons: those that are known from the
    /// start, and `all` after the discovery.
    fn assert_notes(&self, text: &str, all: bool) {
        for server in &self.broken {
            let note = format!("{} (not available: {})", server.group, server.note);
            if server.is_static || all {
                assert!(text.contains(&note), "no {note:?} in {text}");
            }
        }
        for server in &self.working {
            assert!(!text.contains(&format!("{} (not", server.group)), "{text}");
        }
    }

    /// Asserts that a definition of `get_dynamic_tools` has every group in its enum.
    fn assert_enum(&self, definition: &str) {
        let names = self.working.iter().zip(&self.broken);
        let names: Vec<_> = names.flat_map(|(working, broken)| [working.group, broken.group]).collect();
        let names = format!("\"enum\":{}", json!(names));
        assert!(definition.contains(&names), "no {names} in {definition}");
    }
}

/// Starts a server that answers every request of `/mcp` with 401, and names an authorization server: itself. It ends with
/// the test process.
pub(crate) fn start_login_server() -> u16 {
    fn answer(stream: &TcpStream, origin: &str) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut length, mut request) = (String::new(), 0, String::new());
        while reader.read_line(&mut line)? > 2 {
            let lower = line.to_ascii_lowercase();
            if request.is_empty() {
                request.clone_from(&lower);
            }
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
        let metadata = json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        });
        let (status, body) = match request.split(' ').nth(1) {
            Some("/mcp") => ("401 Unauthorized\r\nWWW-Authenticate: Bearer", String::new()),
            Some("/.well-known/oauth-authorization-server") => {
                ("200 OK\r\nContent-Type: application/json", metadata.to_string())
            }
            _ => ("404 Not Found", String::new()),
        };
        let length = body.len();
        write!(&*stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let origin = format!("http://127.0.0.1:{port}");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let origin = origin.clone();
            thread::spawn(move || drop(answer(&stream, &origin)));
        }
    });
    port
}

/// The definition of `get_dynamic_tools` in a request to a model, wherever its API has it.
fn definition_in(request: &Value) -> Option<&Value> {
    match request {
        Value::Object(members) => {
            let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
            if name.ends_with("get_dynamic_tools") && members.contains_key("description") {
                return Some(request);
            }
            members.values().find_map(definition_in)
        }
        Value::Array(items) => items.iter().find_map(definition_in),
        _ => None,
    }
}

/// Runs a turn of an agent, and asserts what its model saw. Returns what the user saw.
fn check_turn(agent: &Agent, workspace: &Workspace) -> (Fixture, String) {
    let fixture = Fixture::new(workspace, [github(), jira(), postgres(), linear(start_login_server())]);
    let model = FakeModel::start(workspace, agent.tool_name, fixture.plan());
    let printed = agent.run(workspace, &fixture.proxy, &model);
    model.assert_results();
    let requests = model.requests();
    let first = &requests[0];
    let definition = |request| definition_in(request).unwrap().to_string();
    fixture.assert_enum(&definition(first));
    // A turn may end before the list is read again, which some agents do when it has changed.
    fixture.assert_notes(&definition(first), false);
    let sentence = "This server gives access to the tools of these MCP servers (groups): everything, github (not \
        available: its command was not found), filesystem, jira (not available: its config entry is invalid), ";
    assert_eq!(first.to_string().contains(sentence), agent.has_instructions, "{first}");
    let lower = printed.to_lowercase();
    assert!(!lower.contains("failed to get tools") && !lower.contains("failed to connect"), "{printed}");
    for part in
        ["4 of 8 groups failed: github, jira, postgres, linear", "github is configured and not available"]
    {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    (fixture, printed)
}

#[test]
fn opencode() {
    let Some(workspace) = Workspace::new() else { return };
    let (fixture, _) = check_turn(&OPENCODE, &workspace);
    assert_opencode_is_connected(&workspace, &fixture.proxy);
    workspace.assert_no_process_left();
}

/// Codex lists the tools only once, so what its model does not learn from the list it learns from the next one.
#[test]
fn codex() {
    let Some(workspace) = Workspace::new() else { return };
    let (fixture, _) = check_turn(&CODEX, &workspace);
    let status = PlannedCall::new("get_status", json!({}), &["{\"problems\":["]);
    let model = FakeModel::start(&workspace, CODEX.tool_name, vec![status]);
    CODEX.run(&workspace, &fixture.proxy, &model);
    model.assert_results();
    let request = model.requests()[0].to_string();
    for note in [
        "postgres (not available as of the last run: its process ends)",
        "linear (not available as of the last run: its address, certificate, headers or login have to be corrected)",
    ] {
        assert_eq!(request.matches(note).count(), 2, "{note} in the list and in instructions: {request}");
    }
    workspace.assert_no_process_left();
}

#[test]
fn gemini() {
    let Some(workspace) = Workspace::new() else { return };
    let (fixture, _) = check_turn(&GEMINI, &workspace);
    assert_gemini_is_connected(&workspace, &fixture.proxy);
    workspace.assert_no_process_left();
}

/// Copilot prints for its user what the others print as events.
#[test]
fn copilot() {
    let Some(workspace) = Workspace::new() else { return };
    let (_, printed) = check_turn(&COPILOT, &workspace);
    for part in
        ["● Call a tool (MCP: dyn) · group: \"everything\"", "✗ Call a tool (MCP: dyn) · group: \"github\""]
    {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    workspace.assert_no_process_left();
}

/// Runs the plan with a library, and asserts what it saw.
fn check_library(client: &Client) {
    let Some(workspace) = Workspace::new() else { return };
    let fixture = Fixture::new(&workspace, [github(), jira(), postgres(), slack()]);
    let plan = fixture.plan();
    let calls = plan
        .iter()
        .map(|call| json!({ "name": call.tool, "arguments": call.arguments, "until": call.until() }));
    let calls: Vec<_> = calls.collect();
    let report = run_plan(
        &workspace,
        client,
        json!({ "command": fixture.proxy, "mode": client.mode, "calls": calls }),
    );
    workspace.assert_no_process_left();
    for (call, result) in plan.iter().zip(report["results"].as_array().unwrap()) {
        call.assert_result(result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")));
    }
    let definition = definition_in(&report["definitions"]).unwrap().to_string();
    fixture.assert_enum(&definition);
    fixture.assert_notes(&definition, false);
    fixture.assert_notes(report["instructions"].as_str().unwrap(), false);
    // In the newer revision a client has to ask for messages.
    if client.mode == "legacy" {
        let messages = report["messages"].to_string();
        for server in &fixture.broken {
            let message = format!("Group {} is not available: ", server.group);
            assert!(messages.contains(&message), "no {message:?} in {messages}");
        }
    }
}

#[test]
fn typescript_v1() {
    check_library(&TS_V1);
}

#[test]
fn typescript_v2_probing() {
    check_library(&TS_V2_PROBING);
}

#[test]
fn python_v1() {
    check_library(&PY_V1);
}

#[test]
fn python_v2_probing() {
    check_library(&PY_V2_PROBING);
}

#[test]
fn fastmcp() {
    check_library(&FASTMCP);
}

/// It starts the server for each request, so here everything that is broken is known at once.
#[test]
fn inspector() {
    let Some(workspace) = Workspace::new() else { return };
    let fixture = Fixture::new(&workspace, [github(), jira(), sentry(), sqlite()]);
    let inspect = |method: &str, arguments: &[&str], is_error: bool| {
        let program = workspace.install_dir.join("node_modules/.bin/mcp-inspector");
        let mut command = workspace.command(program);
        command.args(["--cli", "--quiet", "--format", "json", "--method", method]).args(arguments);
        command.arg("--").args(&fixture.proxy);
        // Its own code for the result of a tool that is an error.
        parse_report(&workspace.run_to_exit_code(command, if is_error { 5 } else { 0 }).0)
    };
    let list = inspect("tools/list", &[], false);
    let definition = definition_in(&list).unwrap().to_string();
    fixture.assert_enum(&definition);
    fixture.assert_notes(&definition, true);
    for call in fixture.plan() {
        let arguments = call.arguments.to_string();
        let is_error = call.expected[0].starts_with("Group ");
        let result =
            inspect("tools/call", &["--tool-name", call.tool, "--tool-args-json", &arguments], is_error);
        call.assert_result(&result.to_string());
    }
    workspace.assert_no_process_left();
}
