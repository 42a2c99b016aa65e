//! OpenCode, Codex, Gemini CLI and Copilot CLI, each for one turn with a fake model that requests certain calls.

use std::process::Command;

use crate::fake_model::{DONE, FakeModel, PlannedCall};
use crate::reference_servers;
use crate::workspace::{Workspace, path_string};
use serde_json::{Value, json};

/// The message that the model sends to the tool `echo`.
const MESSAGE: &str = "hello from the turn";

/// An agent that uses dynamic-mcp under the name `dyn`.
pub(crate) struct Agent {
    /// The members with which its model names a tool of ours.
    pub(crate) tool_name: fn(&str) -> Value,
    /// Whether it gives the model the `instructions` of the server.
    pub(crate) has_instructions: bool,
    /// Writes its config, and returns the command of a turn.
    turn: fn(&Workspace, &[String], &FakeModel<'_>) -> Command,
}

pub(crate) const OPENCODE: Agent = Agent {
    tool_name: |tool| json!({ "name": format!("dyn_{tool}") }),
    has_instructions: true,
    turn: opencode_turn,
};
pub(crate) const CODEX: Agent = Agent {
    tool_name: |tool| json!({ "namespace": "mcp__dyn", "name": tool }),
    has_instructions: true,
    turn: codex_turn,
};
pub(crate) const GEMINI: Agent = Agent {
    tool_name: |tool| json!({ "name": format!("mcp_dyn_{tool}") }),
    has_instructions: true,
    turn: gemini_turn,
};
pub(crate) const COPILOT: Agent = Agent {
    tool_name: |tool| json!({ "name": format!("dyn-{tool}") }),
    has_instructions: false,
    turn: copilot_turn,
};

impl Agent {
    /// Runs a turn in which the model makes all its calls, and returns what the agent printed on stdout.
    pub(crate) fn run(&self, workspace: &Workspace, proxy: &[String], model: &FakeModel<'_>) -> String {
        let printed = workspace.run((self.turn)(workspace, proxy, model));
        assert!(printed.contains(DONE), "{printed}");
        printed
    }
}

#[test]
fn opencode_lists_dynamic_mcp_as_connected() {
    let Some(workspace) = Workspace::new() else { return };
    assert_opencode_is_connected(&workspace, &proxy_command(&workspace));
    workspace.assert_no_process_left();
}

#[test]
fn opencode_finds_and_calls_a_tool_in_a_turn() {
    find_and_call_a_tool(&OPENCODE);
}

#[test]
fn codex_finds_and_calls_a_tool_in_a_turn() {
    find_and_call_a_tool(&CODEX);
}

fn find_and_call_a_tool(agent: &Agent) {
    let Some(workspace) = Workspace::new() else { return };
    let no_tool = json!({ "group": "everything", "name": "ecko" });
    let plan = vec![
        PlannedCall::new("get_dynamic_tools", json!({ "group": "everything" }), &["get-structured-content"]),
        PlannedCall::of_group(
            "everything",
            "echo",
            &json!({ "message": MESSAGE }),
            &[&format!("Echo: {MESSAGE}")],
        ),
        PlannedCall::new("call_dynamic_tool", no_tool, &["has no tool", "echo"]),
    ];
    let model = FakeModel::start(&workspace, agent.tool_name, plan);
    agent.run(&workspace, &proxy_command(&workspace), &model);
    model.assert_results();
    workspace.assert_no_process_left();
}

/// The command of dynamic-mcp with all reference servers.
fn proxy_command(workspace: &Workspace) -> Vec<String> {
    let servers = reference_servers::all(workspace);
    let commands: Vec<_> = servers.iter().map(|server| (server.group, server.command.clone())).collect();
    workspace.proxy_for_commands(&commands)
}

/// Asserts that `opencode mcp list` shows the server as connected.
pub(crate) fn assert_opencode_is_connected(workspace: &Workspace, proxy: &[String]) {
    write_opencode_config(workspace, proxy, "http://127.0.0.1:9/v1");
    let mut command = opencode(workspace);
    command.args(["mcp", "list"]);
    let listed = workspace.run(command);
    assert!(listed.contains("✓ dyn") && listed.contains("connected"), "{listed}");
}

fn opencode_turn(workspace: &Workspace, proxy: &[String], model: &FakeModel<'_>) -> Command {
    write_opencode_config(workspace, proxy, &model.openai_url());
    let mut command = opencode(workspace);
    command.args(["run", "--format", "json", "call the tool"]);
    command
}

fn opencode(workspace: &Workspace) -> Command {
    let mut command = workspace.command(workspace.install_dir.join("bin/opencode"));
    command.envs([("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")]);
    command
}

fn write_opencode_config(workspace: &Workspace, proxy: &[String], url: &str) {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": url, "apiKey": "x" },
        "models": { "fake": { "tool_call": true } },
    });
    let config = json!({
        "mcp": { "dyn": { "type": "local", "command": proxy } },
        "model": "fake/fake",
        "small_model": "fake/fake",
        "autoupdate": false,
        "share": "disabled",
        "permission": { "*": "allow" },
        "provider": { "fake": provider },
    });
    workspace.write("opencode.json", &config.to_string());
}

fn codex_turn(workspace: &Workspace, proxy: &[String], model: &FakeModel<'_>) -> Command {
    let config = format!(
        "model = \"fake\"\nmodel_provider = \"fake\"\n\
        [model_providers.fake]\nname = \"fake\"\nbase_url = {:?}\nwire_api = \"responses\"\n\
        [mcp_servers.dyn]\ncommand = {:?}\nargs = {:?}\n",
        model.openai_url(),
        proxy[0],
        &proxy[1..]
    );
    let home = workspace.write("codex/config.toml", &config);
    let mut command = workspace.command(workspace.install_dir.join("bin/codex"));
    command.env("CODEX_HOME", home.parent().unwrap());
    command.args([
        "exec",
        "--skip-git-repo-check",
        "--json",
        "--dangerously-bypass-approvals-and-sandbox",
        "call it",
    ]);
    command
}

/// Asserts that `gemini mcp list` shows the server as connected.
pub(crate) fn assert_gemini_is_connected(workspace: &Workspace, proxy: &[String]) {
    write_gemini_config(workspace, proxy);
    let mut command = gemini(workspace);
    command.args(["mcp", "list"]);
    let (_, listed) = workspace.run_to_exit_code(command, 0);
    assert!(listed.contains("✓ dyn") && listed.contains("Connected"), "{listed}");
}

fn gemini_turn(workspace: &Workspace, proxy: &[String], model: &FakeModel<'_>) -> Command {
    write_gemini_config(workspace, proxy);
    let mut command = gemini(workspace);
    command.envs([("GEMINI_API_KEY", "x"), ("GOOGLE_GEMINI_BASE_URL", &*model.origin())]);
    command.args(["--model", "gemini-2.5-flash", "--approval-mode", "yolo"]);
    command.args(["--output-format", "stream-json", "--prompt", "call it"]);
    command
}

pub(crate) fn gemini(workspace: &Workspace) -> Command {
    workspace.command(workspace.install_dir.join("node_modules/.bin/gemini"))
}

fn write_gemini_config(workspace: &Workspace, proxy: &[String]) {
    let config = json!({
        "mcpServers": { "dyn": { "command": proxy[0], "args": proxy[1..], "trust": true } },
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    let settings = workspace.write(".gemini/settings.json", &config.to_string());
    // In a folder that is not trusted, it starts no servers.
    let folder = path_string(settings.parent().unwrap().parent().unwrap());
    workspace.write(".gemini/trustedFolders.json", &json!({ folder: "TRUST_FOLDER" }).to_string());
}

fn copilot_turn(workspace: &Workspace, proxy: &[String], model: &FakeModel<'_>) -> Command {
    let server = json!({ "type": "local", "command": proxy[0], "args": proxy[1..], "tools": ["*"] });
    workspace.write(".copilot/mcp-config.json", &json!({ "mcpServers": { "dyn": server } }).to_string());
    let mut command = workspace.command(workspace.install_dir.join("node_modules/.bin/copilot"));
    command.envs([
        ("COPILOT_OFFLINE", "true"),
        ("COPILOT_AUTO_UPDATE", "false"),
        ("COPILOT_MODEL", "fake"),
        ("COPILOT_PROVIDER_BASE_URL", &*model.openai_url()),
    ]);
    command.args(["--allow-all-tools", "--prompt", "call it"]);
    command
}
