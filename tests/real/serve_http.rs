//! `dynamic-mcp serve --http` with the official SDKs' clients of both eras, and with a real authorization server: a client
//! finds the server, registers itself, logs in, and calls tools with its token.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client_server_pairs::assert_same_results;
use crate::clients::{
    Client, PY_V1, PY_V2_PROBING, TS_LOGIN, TS_V1, TS_V2, TS_V2_PROBING, proxied_call, run_calls, run_plan,
    tool_call,
};
use crate::reference_server_http::{HttpServer, free_port};
use crate::reference_servers;
use crate::workspace::{Workspace, path_string};

/// How long it may take to be ready, on a loaded machine.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn typescript_v1() {
    check_client(&TS_V1);
}

#[test]
fn typescript_v2() {
    check_client(&TS_V2);
}

#[test]
fn typescript_v2_without_handshake() {
    check_client(&TS_V2_PROBING);
}

#[test]
fn python_v1() {
    check_client(&PY_V1);
}

#[test]
fn python_v2_without_handshake() {
    check_client(&PY_V2_PROBING);
}

/// The results over HTTP equal those of the servers themselves.
fn check_client(client: &Client) {
    let Some(workspace) = Workspace::new() else { return };
    let servers = reference_servers::all(&workspace);
    let entries = servers.iter().map(|server| {
        let entry = json!({ "command": server.command, "all_users": true, "lazy_startup": "pure" });
        (server.group.to_owned(), entry)
    });
    let served =
        Served::start(&workspace, free_port(), &json!({ "mcpServers": Value::from_iter(entries) }), &[]);
    let plan: Vec<_> = servers
        .iter()
        .flat_map(|server| {
            server.calls.iter().map(|call| proxied_call(server.group, call.tool, &call.arguments))
        })
        .collect();
    let report =
        run_plan(&workspace, client, json!({ "url": served.url, "mode": client.mode, "calls": plan }));
    assert_eq!((&report["server"], &report["version"]), (&json!("dynamic-mcp"), &json!(client.revision())));
    let mut results = report["results"].as_array().unwrap().as_slice();
    for server in &servers {
        let plan: Vec<_> = server.calls.iter().map(|call| tool_call(call.tool, &call.arguments)).collect();
        let direct = run_calls(&workspace, client, "legacy", &server.command, &plan);
        let (of_server, others) = results.split_at(plan.len());
        assert_same_results(&server.calls, of_server, &direct);
        results = others;
    }
    drop(served);
    workspace.assert_no_process_left();
}

/// Each way in which an authorization server may sign tokens, and clients of both eras.
#[test]
fn a_client_logs_in_at_an_authorization_server() {
    let Some(workspace) = Workspace::new() else { return };
    let everything =
        reference_servers::all(&workspace).into_iter().find(|server| server.group == "everything").unwrap();
    let config = json!({
        "mcpServers": { "everything": { "command": everything.command, "all_users": true } },
        "settings": { "lazy_startup": "pure" },
        "profiles": {
            "all": ["*"],
            "echo": { "servers": ["*"], "tools": { "everything": { "allow": ["echo"] } } },
        },
    });
    for (algorithm, mode) in
        [("RS256", "auto"), ("PS256", "legacy"), ("ES256", "auto"), ("ES384", "legacy"), ("EdDSA", "auto")]
    {
        let (authorization_server, issuer) = start_authorization_server(&workspace, algorithm);
        let port = free_port();
        let oauth = json!({
            "resource": format!("http://127.0.0.1:{port}/mcp"), "issuer": issuer, "jwks_uri": format!("{issuer}/jwks"),
            "scopes": [{ "scope": "mcp:all", "profile": "all" }, { "scope": "mcp:echo", "profile": "echo" }],
        });
        let oauth = path_string(&workspace.write("oauth.json", &oauth.to_string()));
        let served = Served::start(&workspace, port, &config, &["--oauth", &oauth]);
        let call = |tool: &str, arguments: &Value| proxied_call("everything", tool, arguments);
        let calls = [call("echo", &json!({ "message": "hi" })), call("get-sum", &json!({ "a": 2, "b": 40 }))];
        let plan = |scope: &str| json!({ "url": served.url, "mode": mode, "user": "ann", "scope": scope, "calls": calls });
        for (scope, is_sum_refused) in [("mcp:all mcp:echo", false), ("mcp:echo", true)] {
            let report = run_plan(&workspace, &TS_LOGIN, plan(scope));
            let [echo, sum] = &report["results"].as_array().unwrap()[..] else { panic!("{report}") };
            assert_eq!(echo["content"][0]["text"], "Echo: hi", "{algorithm}: {echo}");
            assert_eq!(sum["isError"], is_sum_refused, "{algorithm}, {scope}: {sum}");
        }
        let log = fs::read_to_string(workspace.path("serve.log")).unwrap();
        assert!(log.contains(&format!("principal=ann of {issuer}")), "{log}");
        drop((served, authorization_server));
        workspace.assert_no_process_left();
    }
}

/// A running `dynamic-mcp serve --http`.
struct Served {
    _process: HttpServer,
    url: String,
}

impl Served {
    /// Starts it at a port, with this config. Its log is `serve.log`.
    fn start(workspace: &Workspace, port: u16, config: &Value, args: &[&str]) -> Self {
        let config = workspace.write("servers.json", &config.to_string());
        let log = workspace.path("serve.log");
        let mut command = workspace.command(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.args(["--log-level", "debug", "--config", &path_string(&config)]);
        command.args(["serve", "--http", &format!("127.0.0.1:{port}")]).args(args);
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let process = HttpServer(command.spawn().unwrap());
        let start = Instant::now();
        while !fs::read_to_string(&log).unwrap().contains("requests are served") {
            assert!(start.elapsed() < READY_TIMEOUT, "{}", fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { _process: process, url: format!("http://127.0.0.1:{port}/mcp") }
    }
}

/// Starts an authorization server that signs access tokens with this algorithm. Returns it and its issuer.
fn start_authorization_server(workspace: &Workspace, algorithm: &str) -> (HttpServer, String) {
    let mut command = workspace.command(workspace.install_dir.join("bin/node"));
    command.arg(workspace.path("authorization_server.mjs")).arg(algorithm);
    command.stderr(File::create(workspace.path("authorization_server.log")).unwrap());
    HttpServer::start(command)
}
