//! Everything of MCP beside tools, from a client through the program to upstreams and back.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Message, Proxy, Setup, servers, until, upstream, with};

mod asking;
mod batches;
mod completions;
mod confirming;
mod listening;
mod lists;
mod logging;
mod lossless;
mod programs;
mod prompts;
mod reading;
mod resources;
mod stateless;
mod subscriptions;
mod surface;
mod tasks;

/// Members that nothing may change on its way, as the scripted upstream has them too.
const WEIRD: &str = r#""weird":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö \u00f6 \ud83d\ude00 \/ \ud800"}, "spaced" : [ 1 , 2 ]"#;

/// The first of them.
fn weird_member() -> &'static str {
    &WEIRD[..=WEIRD.rfind('}').unwrap()]
}

/// An error of the scripted upstream.
fn weird_error() -> String {
    format!(r#"{{"code":123456789012,"message":"no \"luck\"","data":{{{WEIRD}}},"x":1e400}}"#)
}

/// An upstream that serves all of MCP.
pub(crate) fn all(flags: &[&str]) -> Value {
    upstream(&[&["--protocol"], flags].concat())
}

/// Two of them, whose URIs differ.
fn two() -> Value {
    let named = |name| all(&["--scheme", name, "--name", name]);
    servers([("g", named("g")), ("h", named("h"))])
}

/// A session of a client that declared these capabilities.
pub(crate) fn client(config: &Value, capabilities: Value) -> Proxy {
    let mut proxy = Setup::new().config(config).start();
    proxy.handshake_with(capabilities);
    proxy
}

/// What an upstream reads.
pub(crate) struct Record(tempfile::TempDir);

impl Record {
    pub(crate) fn new() -> Self {
        Self(tempfile::TempDir::new().unwrap())
    }

    /// The upstream `entry`, recorded.
    pub(crate) fn of(&self, mut entry: Value) -> Value {
        let args = entry["args"].as_array_mut().unwrap();
        args.extend([json!("--record"), json!(self.0.path().join("record"))]);
        entry
    }

    /// The whole lines.
    pub(crate) fn all(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.path().join("record")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        whole.map(str::to_owned).collect()
    }

    /// Those that name `method`.
    pub(crate) fn lines(&self, method: &str) -> Vec<String> {
        let quoted = format!("\"method\":\"{method}\"");
        self.all().into_iter().filter(|line| line.contains(&quoted)).collect()
    }

    /// The `n`th of them, once it is there.
    pub(crate) fn line(&self, method: &str, n: usize) -> Message {
        until(&format!("{n} of {method}"), || self.lines(method).len() > n);
        Message::parse(self.lines(method).swap_remove(n))
    }
}

/// The next message with a method.
fn said(proxy: &mut Proxy) -> Message {
    loop {
        let message = proxy.next().expect("the end, and nothing was said");
        if message.method().is_some() {
            return message;
        }
    }
}

/// The next message of this method.
pub(crate) fn heard(proxy: &mut Proxy, method: &str) -> Message {
    loop {
        let message = said(proxy);
        if message.method() == Some(method) {
            return message;
        }
    }
}

/// Answers what the program asked; `outcome` is the result or the error, with its name.
pub(crate) fn reply(proxy: &mut Proxy, asked: &Message, outcome: &str) {
    let id = asked.id().unwrap();
    proxy.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
}

/// A call of tool `name` of `group`, with the bytes of `args`.
fn send_tool(proxy: &mut Proxy, group: &str, name: &str, args: &str) -> u64 {
    let arguments = format!(r#"{{"group":"{group}","name":"{name}","args":{args}}}"#);
    proxy.send_raw("tools/call", &format!(r#"{{"name":"call_dynamic_tool","arguments":{arguments}}}"#))
}

/// Nothing but `answer` has come when the client asks something else.
pub(crate) fn hears_nothing(proxy: &mut Proxy) {
    let ping = proxy.send("ping", json!({}));
    let next = proxy.next().unwrap();
    assert_eq!(next.id(), Some(&*ping.to_string()), "{}", next.line);
}

/// The values of one member of a list's entries.
fn each(answer: &Value, list: &str, member: &str) -> Vec<String> {
    let entries = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}

/// Raw bytes of a request's result.
fn result_of(proxy: &mut Proxy, method: &str, params: &str) -> String {
    let id = proxy.send_raw(method, params);
    let answer = proxy.answer(id);
    answer.raw("result").unwrap_or_else(|| panic!("{}", answer.line)).to_owned()
}

fn error_of(proxy: &mut Proxy, method: &str, params: &str) -> String {
    let id = proxy.send_raw(method, params);
    let answer = proxy.answer(id);
    answer.raw("error").unwrap_or_else(|| panic!("{}", answer.line)).to_owned()
}

/// A second passes.
fn a_second(proxy: &mut Proxy, group: &str) {
    proxy.text(group, "sleep", json!({"ms": 1000}));
}

fn state(proxy: &mut Proxy, group: &str) -> String {
    proxy.group(group)["state"].as_str().unwrap().to_owned()
}

fn until_state(proxy: &mut Proxy, group: &str, wanted: &str) {
    until(&format!("{group} is {wanted}"), || state(proxy, group) == wanted);
}

/// One upstream that closes soon, and one that never does.
fn closing_soon(entry: Value) -> Value {
    servers([("g", with(entry, json!({"idle_timeout": "300ms"}))), ("clock", upstream(&[]))])
}
