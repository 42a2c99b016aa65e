//! A model that makes the calls of a plan, for the agents. `fake_model.py` is its server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::workspace::Workspace;
use serde_json::{Value, json};

/// What the model sends when it has made all calls.
pub(crate) const DONE: &str = "DONE: all calls of the plan are made";

/// A call of a tool of ours, and what its result contains.
pub(crate) struct PlannedCall {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    /// Parts of its result.
    pub(crate) expected: Vec<String>,
    /// Whether it is made again until the result contains the first of `expected`.
    pub(crate) is_repeated: bool,
}

impl PlannedCall {
    pub(crate) fn new(tool: &'static str, arguments: Value, expected: &[&str]) -> Self {
        let expected = expected.iter().map(|&part| part.to_owned()).collect();
        Self { tool, arguments, expected, is_repeated: false }
    }

    /// A call of a tool of a group.
    pub(crate) fn of_group(group: &str, name: &str, arguments: &Value, expected: &[&str]) -> Self {
        let arguments = json!({ "group": group, "name": name, "args": arguments });
        Self::new("call_dynamic_tool", arguments, expected)
    }

    /// A part of the result for which the call is repeated.
    pub(crate) fn until(&self) -> Option<&str> {
        self.is_repeated.then(|| &*self.expected[0])
    }

    /// Asserts that this is its result.
    pub(crate) fn assert_result(&self, result: &str) {
        for part in &self.expected {
            assert!(result.contains(part), "{} {}: no {part:?} in {result}", self.tool, self.arguments);
        }
    }
}

/// The server of a model. It is killed when it is dropped.
pub(crate) struct FakeModel<'a> {
    workspace: &'a Workspace,
    child: Child,
    port: u16,
    plan: Vec<PlannedCall>,
}

impl<'a> FakeModel<'a> {
    /// `tool_name`: the members with which the agent names a tool of ours.
    pub(crate) fn start(
        workspace: &'a Workspace,
        tool_name: impl Fn(&str) -> Value,
        plan: Vec<PlannedCall>,
    ) -> Self {
        let calls = plan.iter().map(|call| {
            let mut named = tool_name(call.tool);
            named["arguments"] = call.arguments.clone();
            json!({ "call": named, "until": call.until() })
        });
        let calls = workspace.write("model.json", &json!(calls.collect::<Vec<_>>()).to_string());
        for results in ["results", "results.requests"] {
            let _of_an_earlier_turn = fs::remove_file(workspace.path(results));
        }
        let mut command = workspace.command(workspace.install_dir.join("python2/bin/python"));
        command.args([workspace.path("fake_model.py"), calls, workspace.path("results")]);
        // Another home, because this process outlives the agent, which may leave no process.
        let mut child = command.env("HOME", "/").stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { workspace, child, port: port.trim().parse().unwrap(), plan }
    }

    /// The address of the server, without a path.
    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The base URL of an API of OpenAI.
    pub(crate) fn openai_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// Asserts that the agent sent the expected results to the model.
    pub(crate) fn assert_results(&self) {
        let results = self.lines("results");
        // An agent may send a request again.
        let mut results = results.iter().map(|result| match result {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        for call in &self.plan {
            let until = call.until().unwrap_or_default();
            let result = results.find(|result| result.contains(until));
            call.assert_result(&result.unwrap_or_else(|| panic!("no result of {}", call.arguments)));
        }
        assert_eq!(results.next(), None);
    }

    /// The requests that offered tools to the model.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let requests = self.lines("results.requests").into_iter();
        requests
            .filter(|request| request["tools"].as_array().is_some_and(|tools| !tools.is_empty()))
            .collect()
    }

    fn lines(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.workspace.path(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for FakeModel<'_> {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
