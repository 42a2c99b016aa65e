//! OpenCode and Codex, for one turn with a fake model that requests certain calls.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::reference_servers;
use crate::workspace::Workspace;
use serde_json::{Value, json};

/// The message that the model sends to the tool `echo`.
const MESSAGE: &str = "hello from the turn";

#[test]
fn opencode_lists_dynamic_mcp_as_connected() {
    let Some(workspace) = Workspace::new() else { return };
    write_opencode_config(&workspace, "http://127.0.0.1:9/v1");
    let mut command = opencode(&workspace);
    command.args(["mcp", "list"]);
    let listed = workspace.run(command);
    assert!(listed.contains("✓ dyn") && listed.contains("connected"), "{listed}");
    workspace.assert_no_process_left();
}

#[test]
fn opencode_finds_and_calls_a_tool_in_a_turn() {
    let Some(workspace) = Workspace::new() else { return };
    let model = FakeModel::start(&workspace, |tool| json!({ "name": format!("dyn_{tool}") }));
    write_opencode_config(&workspace, &model.url);
    let mut command = opencode(&workspace);
    command.args(["run", "--format", "json", "call the tool"]);
    let events = workspace.run(command);
    assert!(events.contains("DONE: all calls of the plan are made"), "{events}");
    model.assert_results(&workspace);
    workspace.assert_no_process_left();
}

#[test]
fn codex_finds_and_calls_a_tool_in_a_turn() {
    let Some(workspace) = Workspace::new() else { return };
    let model = FakeModel::start(&workspace, |tool| json!({ "namespace": "mcp__dyn", "name": tool }));
    let proxy = proxy_command(&workspace);
    let config = format!(
        "model = \"fake\"\nmodel_provider = \"fake\"\n\
        [model_providers.fake]\nname = \"fake\"\nbase_url = {:?}\nwire_api = \"responses\"\n\
        [mcp_servers.dyn]\ncommand = {:?}\nargs = {:?}\n",
        model.url,
        proxy[0],
        &proxy[1..]
    );
    let home = workspace.write("codex/config.toml", &config);
    let mut codex = workspace.command(workspace.install_dir.join("bin/codex"));
    codex.env("CODEX_HOME", home.parent().unwrap());
    codex.args([
        "exec",
        "--skip-git-repo-check",
        "--json",
        "--dangerously-bypass-approvals-and-sandbox",
        "call it",
    ]);
    let events = workspace.run(codex);
    assert!(events.contains("DONE: all calls of the plan are made"), "{events}");
    model.assert_results(&workspace);
    workspace.assert_no_process_left();
}

/// The command of dynamic-mcp with all reference servers.
fn proxy_command(workspace: &Workspace) -> Vec<String> {
    let servers = reference_servers::all(workspace);
    let commands: Vec<_> = servers.iter().map(|server| (server.group, server.command.clone())).collect();
    workspace.proxy_for_commands(&commands)
}

fn opencode(workspace: &Workspace) -> std::process::Command {
    let mut command = workspace.command(workspace.install_dir.join("bin/opencode"));
    command.envs([("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")]);
    command
}

fn write_opencode_config(workspace: &Workspace, url: &str) {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": url, "apiKey": "x" },
        "models": { "fake": { "tool_call": true } },
    });
    let config = json!({
        "mcp": { "dyn": { "type": "local", "command": proxy_command(workspace) } },
        "model": "fake/fake",
        "small_model": "fake/fake",
        "autoupdate": false,
        "share": "disabled",
        "permission": { "*": "allow" },
        "provider": { "fake": provider },
    });
    workspace.write("opencode.json", &config.to_string());
}

/// The server of a model. It is killed when it is dropped.
struct FakeModel {
    child: Child,
    url: String,
}

impl FakeModel {
    /// `tool_name`: the members with which the agent names a tool of ours.
    fn start(workspace: &Workspace, tool_name: impl Fn(&str) -> Value) -> Self {
        let call = |tool: &str, arguments: Value| {
            let mut call = tool_name(tool);
            call["arguments"] = arguments;
            call
        };
        let echo = json!({ "group": "everything", "name": "echo", "args": { "message": MESSAGE } });
        let plan = [
            call("get_dynamic_tools", json!({ "group": "everything" })),
            call("call_dynamic_tool", echo),
            call("call_dynamic_tool", json!({ "group": "everything", "name": "ecko" })),
        ];
        let plan = workspace.write("model.json", &json!(plan).to_string());
        let mut command = workspace.command(workspace.install_dir.join("python2/bin/python"));
        command.args([workspace.path("fake_model.py"), plan, workspace.path("results")]);
        // Another home, because this process outlives the agent, which may leave no process.
        let mut child = command.env("HOME", "/").stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, url: format!("http://127.0.0.1:{}/v1", port.trim()) }
    }

    /// Asserts that the agent sent the results of dynamic-mcp and the server to the model.
    fn assert_results(&self, workspace: &Workspace) {
        let results = fs::read_to_string(workspace.path("results")).unwrap();
        let results: Vec<_> = results.lines().collect();
        assert_eq!(results.len(), 3, "{results:?}");
        assert!(results[0].contains("get-structured-content"), "{results:?}");
        assert!(results[1].contains(&format!("Echo: {MESSAGE}")), "{results:?}");
        assert!(results[2].contains("has no tool") && results[2].contains("echo"), "{results:?}");
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
