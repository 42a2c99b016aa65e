//! The 20 upstreams of the soak test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::changed;
use super::random::Random;
use crate::remote::server::default_reply;
use crate::remote::{Reply, Request, Server};
use crate::support::{merged, scripted_upstream};

/// The flags of each upstream that is a process.
const PROCESSES: [&[&str]; 12] = [
    &[],
    &["--protocol"],
    &["--stateless"],
    &["--dual"],
    &["--garbage", "--bom"],
    &["--batches"],
    &["--tools", "200", "--page", "50"],
    &["--no-newline-flush"],
    &["--grandchild-escapes", "--ignore-term", "--ignore-eof"],
    &["--slow-start", "200"],
    &["--resources", "--prompts", "--logging", "--early"],
    &["--tasks"],
];
const HTTP: usize = 5;
const SSE: usize = 3;

/// When the groups connect and disconnect.
const MODES: [&str; 3] = [
    r#"{"lazy_startup": "eager"}"#,
    r#"{"lazy_startup": "pure", "idle_timeout": "300ms"}"#,
    r#"{"lazy_startup": "hybrid"}"#,
];

/// The kind of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Process,
    Http,
    Sse,
}

pub(super) struct Upstreams {
    /// The name, the kind and the entry of each.
    entries: Vec<(String, Kind, Value)>,
    /// Kept until the end.
    _servers: Vec<Server>,
}

/// What every process of this test has in its arguments.
pub(super) fn tag() -> String {
    format!("soak-{}-", std::process::id())
}

impl Upstreams {
    /// Starts the servers. Processes end by themselves after `seconds`.
    pub(super) fn start(seconds: u64) -> Self {
        let live = seconds.to_string();
        let mut entries = Vec::new();
        for (n, flags) in PROCESSES.iter().enumerate() {
            let name = format!("p{n}");
            let mark = format!("{}{name}", tag());
            let common = ["--live", &live, "--name", &mark];
            entries.push((name, Kind::Process, scripted_upstream(&[*flags, &common].concat())));
        }
        let http: Vec<_> =
            (0..HTTP).map(|n| Server::start(move |request| http_reply(request, n % 2 == 1))).collect();
        let sse: Vec<_> = (0..SSE).map(|_| sse_server()).collect();
        for (n, server) in http.iter().enumerate() {
            entries.push((format!("h{n}"), Kind::Http, json!({"url": server.url()})));
        }
        for (n, server) in sse.iter().enumerate() {
            entries.push((format!("e{n}"), Kind::Sse, json!({"url": server.url(), "type": "sse"})));
        }
        for (n, (.., entry)) in entries.iter_mut().enumerate() {
            *entry = merged(entry.take(), serde_json::from_str(MODES[n % MODES.len()]).unwrap());
        }
        Self { entries, _servers: [http, sse].concat() }
    }

    pub(super) fn names(&self) -> Vec<(String, Kind)> {
        self.entries.iter().map(|(name, kind, _)| (name.clone(), *kind)).collect()
    }

    /// A config with every upstream, some of them changed, and sometimes another one.
    pub(super) fn config(&self, random: &mut Random) -> Value {
        let mut servers = serde_json::Map::new();
        for (name, _, entry) in &self.entries {
            let entry =
                merged(entry.clone(), json!({"description": format!("Number {}.", random.below(1000))}));
            // Most keep their connections.
            let n = if random.one_in(12) { random.below(1000) } else { 0 };
            servers.insert(name.clone(), changed(entry, n));
        }
        if random.one_in(2) {
            servers.insert("extra".to_owned(), json!({"command": "no-such-command"}));
        }
        json!({ "mcpServers": servers })
    }
}

/// What a call asks for with its argument `fault`, and else the default reply. `streams`: as an event stream.
fn http_reply(request: &Request, streams: bool) -> Option<Reply> {
    if !request.is_tool_call() {
        return None;
    }
    let reply = default_reply(request).into_text();
    Some(match request.body["params"]["arguments"]["fault"].as_str() {
        Some("status") => Reply::status(500),
        Some("not_json") => Reply::json("<html>no</html>"),
        Some("cut") => Reply::chunked("application/json", move |out| out.cut(&reply[..reply.len() / 2])),
        Some("reset") => Reply::events(move |out| out.reset(": nothing\n\n")),
        Some("empty") => Reply::events(|out| out.write(": nothing\n\n")),
        _ if streams => Reply::events(move |out| out.event("", &reply)),
        _ => Reply::json(reply),
    })
}

/// A server of HTTP+SSE for any number of sessions.
fn sse_server() -> Server {
    let sessions: Arc<Mutex<HashMap<String, Sender<String>>>> = Arc::default();
    let count = AtomicU64::new(0);
    Server::start(move |request| {
        let lock = || sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if request.method == "GET" {
            let endpoint = format!("/messages?session={}", count.fetch_add(1, Ordering::Relaxed));
            let (sender, messages) = channel();
            lock().insert(endpoint.clone(), sender);
            let sessions = sessions.clone();
            return Some(Reply::events(move |out| {
                let mut is_open = out.write(&format!("event: endpoint\ndata: {endpoint}\n\n"));
                while is_open {
                    is_open = match messages.recv_timeout(Duration::from_millis(500)) {
                        Ok(message) => out.write(&format!("event: message\ndata: {message}\n\n")),
                        Err(_) => out.write(": still here\n\n"),
                    };
                }
                sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&endpoint);
                false
            }));
        }
        if request.is_tool_call() && request.body["params"]["arguments"]["fault"] == "status" {
            return Some(Reply::status(500));
        }
        let sender = lock().get(&request.path).cloned();
        let Some(sender) = sender else { return Some(Reply::status(404)) };
        if request.body.get("id").is_some() {
            drop(sender.send(default_reply(request).into_text()));
        }
        Some(Reply::text(202, "text/plain", "Accepted"))
    })
}
