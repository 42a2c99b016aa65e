//! Whole agents, OpenCode and Codex, for a turn with a model server that wants certain calls.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::scratch::{Scratch, text};
use crate::servers;
use serde_json::{Value, json};

const SAYS: &str = "hello from the turn";

#[test]
fn opencode_lists_us_as_connected() {
    let Some(scratch) = Scratch::new() else { return };
    opencode_config(&scratch, "http://127.0.0.1:9/v1");
    let mut opencode = opencode(&scratch);
    opencode.args(["mcp", "list"]);
    let listed = scratch.run(opencode);
    assert!(listed.contains("✓ dyn") && listed.contains("connected"), "{listed}");
    scratch.assert_nothing_is_left();
}

#[test]
fn opencode_finds_and_calls_a_tool_in_a_turn() {
    let Some(scratch) = Scratch::new() else { return };
    let model = Model::start(&scratch, |tool| json!({ "name": format!("dyn_{tool}") }));
    opencode_config(&scratch, &model.url);
    let mut opencode = opencode(&scratch);
    opencode.args(["run", "--format", "json", "call the tool"]);
    let events = scratch.run(opencode);
    assert!(events.contains("DONE, says the model"), "{events}");
    model.check(&scratch);
    scratch.assert_nothing_is_left();
}

#[test]
fn codex_finds_and_calls_a_tool_in_a_turn() {
    let Some(scratch) = Scratch::new() else { return };
    let model = Model::start(&scratch, |tool| json!({ "namespace": "mcp__dyn", "name": tool }));
    let proxy = proxy(&scratch);
    let config = format!(
        "model = \"fake\"\nmodel_provider = \"fake\"\n\
        [model_providers.fake]\nname = \"fake\"\nbase_url = {:?}\nwire_api = \"responses\"\n\
        [mcp_servers.dyn]\ncommand = {:?}\nargs = {:?}\n",
        model.url,
        proxy[0],
        &proxy[1..]
    );
    let home = scratch.write("codex/config.toml", &config);
    let mut codex = scratch.command(scratch.real.join("bin/codex"));
    codex.env("CODEX_HOME", home.parent().unwrap());
    codex.args([
        "exec",
        "--skip-git-repo-check",
        "--json",
        "--dangerously-bypass-approvals-and-sandbox",
        "call it",
    ]);
    let events = scratch.run(codex);
    assert!(events.contains("DONE, says the model"), "{events}");
    model.check(&scratch);
    scratch.assert_nothing_is_left();
}

fn proxy(scratch: &Scratch) -> Vec<String> {
    let servers = servers::all(scratch);
    let commands: Vec<_> = servers.iter().map(|server| (server.group, server.command.clone())).collect();
    scratch.proxy(&commands)
}

fn opencode(scratch: &Scratch) -> std::process::Command {
    let mut command = scratch.command(scratch.real.join("bin/opencode"));
    command.envs([("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")]);
    command
}

fn opencode_config(scratch: &Scratch, url: &str) {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": url, "apiKey": "x" },
        "models": { "fake": { "tool_call": true } },
    });
    let config = json!({
        "mcp": { "dyn": { "type": "local", "command": proxy(scratch) } },
        "model": "fake/fake",
        "small_model": "fake/fake",
        "autoupdate": false,
        "share": "disabled",
        "permission": { "*": "allow" },
        "provider": { "fake": provider },
    });
    scratch.write("opencode.json", &config.to_string());
}

/// The model's server. It ends with the test.
struct Model {
    child: Child,
    url: String,
}

impl Model {
    /// `named` says how the agent calls a tool of ours.
    fn start(scratch: &Scratch, named: impl Fn(&str) -> Value) -> Self {
        let call = |tool: &str, arguments: Value| {
            let mut call = named(tool);
            call["arguments"] = arguments;
            call
        };
        let echo = json!({ "group": "everything", "name": "echo", "args": { "message": SAYS } });
        let plan = [
            call("get_dynamic_tools", json!({ "group": "everything" })),
            call("call_dynamic_tool", echo),
            call("call_dynamic_tool", json!({ "group": "everything", "name": "ecko" })),
        ];
        let plan = scratch.write("model.json", &json!(plan).to_string());
        let mut command = scratch.command(scratch.real.join("python2/bin/python"));
        command.args([scratch.path("fake_model.py"), plan, scratch.path("results")]);
        // A home of its own: it outlives the agent, of which nothing may be left.
        let mut child = command.env("HOME", "/").stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, url: format!("http://127.0.0.1:{}/v1", port.trim()) }
    }

    /// What came back to the model is what we and the server said.
    fn check(&self, scratch: &Scratch) {
        let results = fs::read_to_string(text(&scratch.path("results")).as_str()).unwrap();
        let results: Vec<_> = results.lines().collect();
        assert_eq!(results.len(), 3, "{results:?}");
        assert!(results[0].contains("get-structured-content"), "{results:?}");
        assert!(results[1].contains(&format!("Echo: {SAYS}")), "{results:?}");
        assert!(results[2].contains("has no tool") && results[2].contains("echo"), "{results:?}");
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
