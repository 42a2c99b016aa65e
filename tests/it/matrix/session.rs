//! A session of a client of one revision through the program, and the same upstream without the program.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{REVISIONS, is_stateless, refused};
use crate::scripted::ScriptedUpstream;
use crate::support::{InputRecord, Message, Proxy, ProxyCommand, scripted_upstream, stateless, text_of};

const CAPABILITIES: &str = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// The flags of a scripted upstream of this revision.
fn upstream_flags(revision: &'static str) -> Vec<&'static str> {
    let era = if is_stateless(revision) { vec!["--stateless"] } else { vec!["--version", revision] };
    let tasks = super::tasks::exist_in(revision).then_some("--tasks");
    [vec!["--protocol", "--asks", "--skills"], era].concat().into_iter().chain(tasks).collect()
}

/// A client of one revision. The program has one group for each revision, which is the group's name.
pub(super) struct Session {
    pub(super) proxy: Proxy,
    pub(super) revision: &'static str,
    /// What each upstream received.
    pub(super) records: BTreeMap<&'static str, InputRecord>,
    /// The ids of the first call of each group.
    first_calls: BTreeMap<&'static str, u64>,
    /// Responses to first calls that `next_message` skipped.
    first_responses: Vec<Message>,
}

impl Session {
    /// Starts the program, makes the handshake if the revision has one, and sends a call to each group.
    pub(super) fn start(revision: &'static str) -> Self {
        let records: BTreeMap<_, _> = REVISIONS.map(|upstream| (upstream, InputRecord::new())).into();
        let groups = REVISIONS.map(|group| {
            (group.to_owned(), records[group].attached_to(scripted_upstream(&upstream_flags(group))))
        });
        let groups: serde_json::Map<_, _> = groups.into_iter().collect();
        let config = json!({"mcpServers": groups, "settings": {"lazy_startup": "pure"}});
        let mut proxy = ProxyCommand::new().config(&config).start();
        if !is_stateless(revision) {
            let params = format!(r#"{{"protocolVersion":"{revision}","capabilities":{CAPABILITIES}}}"#);
            let id = proxy.send_raw_request("initialize", &params);
            assert_eq!(proxy.response(id).json()["result"]["protocolVersion"], revision);
            proxy.notify("notifications/initialized", json!({}));
        }
        let (first_calls, first_responses) = (BTreeMap::new(), Vec::new());
        let mut session = Self { proxy, revision, records, first_calls, first_responses };
        // All groups connect at the same time, because a failing one is slow.
        session.first_calls =
            REVISIONS.map(|group| (group, session.send_call(group, "pid", "{}", "", ""))).into();
        session
    }

    /// Sends a request with these bytes as the members of its `_meta` and of its params. Returns its id.
    pub(super) fn send_request(&mut self, method: &str, meta: &str, members: &str) -> u64 {
        let params = params(self.revision, meta, members);
        self.proxy.send_raw_request(method, &params)
    }

    /// Sends a request and waits for its response.
    pub(super) fn request(&mut self, method: &str, members: &str) -> Message {
        let id = self.send_request(method, "", members);
        self.proxy.response(id)
    }

    /// Sends a call of an upstream's tool. `more`: members of the params after `arguments`.
    pub(super) fn send_call(&mut self, group: &str, tool: &str, args: &str, meta: &str, more: &str) -> u64 {
        let arguments = format!(r#"{{"group":"{group}","name":"{tool}","args":{args}}}"#);
        let members = format!(r#""name":"call_dynamic_tool","arguments":{arguments}{more}"#);
        self.send_request("tools/call", meta, &members)
    }

    /// The members of `_meta` with which a stateless client requests log messages from `level` on. Empty for others.
    pub(super) fn log_level_member(&self, level: &str) -> String {
        match is_stateless(self.revision) {
            true => format!(r#""io.modelcontextprotocol/logLevel":"{level}""#),
            false => String::new(),
        }
    }

    /// Calls a tool, asserts that it succeeds, and returns its text.
    pub(super) fn call_text(&mut self, group: &str, tool: &str, args: &str) -> String {
        let id = self.send_call(group, tool, args, "", "");
        let response = self.proxy.response(id).json();
        assert_ne!(response["result"]["isError"], true, "{tool} of {group}: {response}");
        text_of(&response["result"]).to_owned()
    }

    /// Waits for the first call of a group. Returns the outcome of all methods if it failed.
    pub(super) fn connect(&mut self, group: &str) -> Result<(), String> {
        let id = self.first_calls[group];
        let skipped = self.first_responses.iter().position(|response| response.id() == Some(&id.to_string()));
        let response =
            skipped.map_or_else(|| self.proxy.response(id), |index| self.first_responses.remove(index));
        match (response.error_code(), &response.json()["result"]["isError"]) {
            (Some(code), _) => Err(refused(code)),
            (None, Value::Bool(true)) => Err("unavailable".to_owned()),
            _ => Ok(()),
        }
    }

    /// The next message that is no response to a first call.
    pub(super) fn next_message(&mut self) -> Message {
        loop {
            let message = self.proxy.next_message().unwrap();
            let responds_to = |id: &u64| message.method().is_none() && message.id() == Some(&id.to_string());
            if !self.first_calls.values().any(responds_to) {
                return message;
            }
            self.first_responses.push(message);
        }
    }

    /// All messages that arrive before the response to a request that is sent now.
    pub(super) fn received_messages(&mut self) -> Vec<Message> {
        let id = self.send_request("tools/list", "", "").to_string();
        let mut messages = Vec::new();
        loop {
            let message = self.next_message();
            if message.method().is_none() && message.id() == Some(&id) {
                return messages;
            }
            messages.push(message);
        }
    }
}

/// Params with these members, and with the `_meta` that the revision requires.
fn params(revision: &str, meta: &str, members: &str) -> String {
    let era = if is_stateless(revision) { stateless::meta_members(CAPABILITIES) } else { String::new() };
    let meta = joined_members(&[&era, meta]);
    let meta = if meta.is_empty() { String::new() } else { format!(r#""_meta":{{{meta}}}"#) };
    format!("{{{}}}", joined_members(&[&meta, members]))
}

fn joined_members(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(",")
}

/// An upstream of one revision without the program.
pub(super) struct DirectUpstream {
    server: ScriptedUpstream,
    pub(super) revision: &'static str,
}

impl DirectUpstream {
    pub(super) fn start(revision: &'static str) -> Self {
        Self { server: ScriptedUpstream::start(&upstream_flags(revision)), revision }
    }

    pub(super) fn request(&mut self, method: &str, members: &str) -> Message {
        let params = params(self.revision, "", members);
        self.server.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#));
        Message::parse(self.server.read_line())
    }
}

/// The members of a result: first those that only one era has, then all others. The name of the server in `_meta` is
/// left out.
pub(super) fn members_by_era(result: &str) -> [BTreeMap<String, String>; 2] {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(result).unwrap();
    let mut parts = [BTreeMap::new(), BTreeMap::new()];
    for (name, value) in members {
        let is_of_one_era = ["resultType", "ttlMs", "cacheScope"].contains(&&*name);
        let mut value = value.get().to_owned();
        if name == "_meta" {
            let mut meta: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&value).unwrap();
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                continue;
            }
            value = serde_json::to_string(&meta).unwrap();
        }
        parts[usize::from(!is_of_one_era)].insert(name, value);
    }
    parts
}
