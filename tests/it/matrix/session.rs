//! A client of some revision, and an upstream that is spoken to directly.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{REVISIONS, is_stateless, refused};
use crate::protocol::Record;
use crate::scripted::ScriptedUpstream;
use crate::support::{Message, Proxy, Setup, stateless, text_of, upstream};

const CAPABILITIES: &str = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// The scripted upstream of a revision.
fn flags(revision: &'static str) -> Vec<&'static str> {
    let era = if is_stateless(revision) { vec!["--stateless"] } else { vec!["--version", revision] };
    let tasks = ["2025-11-25", stateless::REVISION].contains(&revision).then_some("--tasks");
    [vec!["--protocol", "--asks"], era].concat().into_iter().chain(tasks).collect()
}

pub(super) struct Session {
    pub(super) proxy: Proxy,
    pub(super) revision: &'static str,
    pub(super) records: BTreeMap<&'static str, Record>,
    /// The first call of each group.
    first: BTreeMap<&'static str, u64>,
    /// Answers to those that came while something else was waited for.
    came: Vec<Message>,
}

impl Session {
    pub(super) fn start(revision: &'static str) -> Self {
        let records: BTreeMap<_, _> = REVISIONS.map(|upstream| (upstream, Record::new())).into();
        let groups = REVISIONS.map(|group| (group.to_owned(), records[group].of(upstream(&flags(group)))));
        let groups: serde_json::Map<_, _> = groups.into_iter().collect();
        let config = json!({"mcpServers": groups, "settings": {"lazy_startup": "pure"}});
        let mut proxy = Setup::new().config(&config).start();
        if !is_stateless(revision) {
            let params = format!(r#"{{"protocolVersion":"{revision}","capabilities":{CAPABILITIES}}}"#);
            let id = proxy.send_raw("initialize", &params);
            assert_eq!(proxy.answer(id).json()["result"]["protocolVersion"], revision);
            proxy.notify("notifications/initialized", json!({}));
        }
        let mut session = Self { proxy, revision, records, first: BTreeMap::new(), came: Vec::new() };
        // All at once: one that fails takes its time.
        session.first = REVISIONS.map(|group| (group, session.send_call(group, "pid", "{}", "", ""))).into();
        session
    }

    /// Sends a request: these bytes as the members of its `_meta` and of its params.
    pub(super) fn send(&mut self, method: &str, meta: &str, members: &str) -> u64 {
        let params = params(self.revision, meta, members);
        self.proxy.send_raw(method, &params)
    }

    pub(super) fn ask(&mut self, method: &str, members: &str) -> Message {
        let id = self.send(method, "", members);
        self.proxy.answer(id)
    }

    pub(super) fn send_call(&mut self, group: &str, tool: &str, args: &str, meta: &str, more: &str) -> u64 {
        let arguments = format!(r#"{{"group":"{group}","name":"{tool}","args":{args}}}"#);
        self.send("tools/call", meta, &format!(r#""name":"call_dynamic_tool","arguments":{arguments}{more}"#))
    }

    /// What a request says in its `_meta` to hear log messages from `level` on, where that is how it is said.
    pub(super) fn hears(&self, level: &str) -> String {
        match is_stateless(self.revision) {
            true => format!(r#""io.modelcontextprotocol/logLevel":"{level}""#),
            false => String::new(),
        }
    }

    /// The text of a call that succeeds.
    pub(super) fn text(&mut self, group: &str, tool: &str, args: &str) -> String {
        let id = self.send_call(group, tool, args, "", "");
        let answer = self.proxy.answer(id).json();
        assert_ne!(answer["result"]["isError"], true, "{tool} of {group}: {answer}");
        text_of(&answer["result"]).to_owned()
    }

    /// Whether calls reach the upstream; what becomes of them if not.
    pub(super) fn connected(&mut self, group: &str) -> Result<(), String> {
        let id = self.first[group];
        let came = self.came.iter().position(|answer| answer.id() == Some(&id.to_string()));
        let answer = came.map_or_else(|| self.proxy.answer(id), |at| self.came.remove(at));
        match (answer.code(), &answer.json()["result"]["isError"]) {
            (Some(code), _) => Err(refused(code)),
            (None, Value::Bool(true)) => Err("unavailable".to_owned()),
            _ => Ok(()),
        }
    }

    /// The next message, but for the answers to the first calls.
    pub(super) fn next(&mut self) -> Message {
        loop {
            let message = self.proxy.next().unwrap();
            let is_first = |id: &u64| message.method().is_none() && message.id() == Some(&id.to_string());
            if !self.first.values().any(is_first) {
                return message;
            }
            self.came.push(message);
        }
    }

    /// All that has come until a request that is sent now is answered.
    pub(super) fn heard(&mut self) -> Vec<Message> {
        let id = self.send("tools/list", "", "").to_string();
        let mut heard = Vec::new();
        loop {
            let message = self.next();
            if message.method().is_none() && message.id() == Some(&id) {
                return heard;
            }
            heard.push(message);
        }
    }
}

fn params(revision: &str, meta: &str, members: &str) -> String {
    let era = if is_stateless(revision) { stateless::meta(CAPABILITIES) } else { String::new() };
    let both = [&*era, meta].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
    let meta = if both.is_empty() { String::new() } else { format!(r#""_meta":{{{both}}}"#) };
    let all = [&*meta, members].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
    format!("{{{all}}}")
}

/// The same upstream without us.
pub(super) struct Direct {
    server: ScriptedUpstream,
    pub(super) revision: &'static str,
}

impl Direct {
    pub(super) fn start(revision: &'static str) -> Self {
        Self { server: ScriptedUpstream::start(&flags(revision)), revision }
    }

    pub(super) fn ask(&mut self, method: &str, members: &str) -> Message {
        let params = params(self.revision, "", members);
        self.server.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#));
        Message::parse(self.server.read_line())
    }
}

/// The members of a result that belong to one era alone, and the others. Who made it is no part of it.
pub(super) fn split(result: &str) -> [BTreeMap<String, String>; 2] {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(result).unwrap();
    let mut parts = [BTreeMap::new(), BTreeMap::new()];
    for (name, value) in members {
        let is_of_era = ["resultType", "ttlMs", "cacheScope"].contains(&&*name);
        let mut value = value.get().to_owned();
        if name == "_meta" {
            let mut meta: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&value).unwrap();
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                continue;
            }
            value = serde_json::to_string(&meta).unwrap();
        }
        parts[usize::from(!is_of_era)].insert(name, value);
    }
    parts
}
