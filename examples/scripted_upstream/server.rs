//! All methods but `tools/call`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::flags::Flags;
use crate::protocol::{self, AddedEntries};
use crate::stateless;
use crate::tasks::{self, Tasks};
use crate::to_value;
use crate::tools;
use crate::wire::{Wire, quote};

const LATEST_HANDSHAKE: &str = "2025-11-25";

/// The state of the server.
pub(crate) struct Server {
    pub(crate) flags: Flags,
    pub(crate) wire: Wire,
    /// The process ID of the child that `--grandchild` starts.
    pub(crate) grandchild: Option<u32>,
    /// How many calls were answered.
    pub(crate) answered_calls: AtomicU64,
    /// How many tools calls have added.
    pub(crate) added_tools: AtomicUsize,
    pub(crate) added_entries: AddedEntries,
    pub(crate) tasks: Tasks,
    /// The ids of the calls of `together` that wait for others.
    pub(crate) together_calls: Mutex<Vec<String>>,
    /// The requests to the client by id, each with the channel for the line that answers it.
    client_requests: Mutex<HashMap<String, Sender<String>>>,
    /// Requests that wait until the client has answered.
    held: Mutex<Vec<String>>,
    last_id: AtomicU64,
    /// Whether the answer to `--asks-roots` is in use.
    has_roots: AtomicBool,
    /// The calls that wait to be cancelled, by id.
    cancellable_calls: Mutex<HashMap<String, Sender<()>>>,
}

impl Server {
    pub(crate) fn new(flags: Flags, grandchild: Option<u32>) -> Self {
        Self {
            wire: Wire::new(&flags),
            flags,
            grandchild,
            answered_calls: AtomicU64::default(),
            added_tools: AtomicUsize::default(),
            added_entries: AddedEntries::default(),
            tasks: Tasks::default(),
            together_calls: Mutex::default(),
            client_requests: Mutex::default(),
            held: Mutex::default(),
            last_id: AtomicU64::default(),
            has_roots: AtomicBool::default(),
            cancellable_calls: Mutex::default(),
        }
    }

    pub(crate) fn handle_request(self: &Arc<Self>, id: &str, method: &str, params: Option<&RawValue>) {
        if method == "initialize" {
            // Its answer is never part of a batch.
            if !stateless::handle(self, id, method, params) {
                self.initialize(id, &to_value(params));
            }
            return;
        }
        self.wire.batch(|| {
            let raw = params.map_or("{}", RawValue::get);
            if !stateless::handle(self, id, method, params) && !protocol::answer_as_prescribed(self, id, raw)
            {
                self.dispatch(id, method, params);
            }
        });
    }

    fn dispatch(self: &Arc<Self>, id: &str, method: &str, params: Option<&RawValue>) {
        let lacks_roots =
            self.flags.number("--asks-roots").is_some() && !self.has_roots.load(Ordering::Acquire);
        match method {
            "ping" => self.wire.result(id, "{}"),
            "tools/call" | "resources/read" | "prompts/get" if lacks_roots => {
                self.wire.error(id, r#"{"code":-32000,"message":"Access denied: no roots"}"#);
            }
            "tools/list" => self.list_tools(id, &to_value(params)),
            "tools/call" if tasks::handle_call(self, id, params.map_or("", RawValue::get)) => (),
            "tools/call" => tools::handle_call(self, id, params),
            _ if tasks::handle(self, id, method, params) => (),
            _ if protocol::handle(self, id, method, params.map_or("{}", RawValue::get)) => (),
            _ => match self.optional_method(method, &to_value(params)) {
                Some(Ok(result)) => self.wire.result(id, &result.to_string()),
                Some(Err(error)) => self.wire.error(id, &error.to_string()),
                None => self.wire.error(id, r#"{"code":-32601,"message":"Method not found"}"#),
            },
        }
    }

    pub(crate) fn handle_notification(self: &Arc<Self>, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        if method == "notifications/initialized" && self.flags.has("--flood") {
            let server = self.clone();
            std::thread::spawn(move || {
                loop {
                    server.wire.notify("notifications/message", r#"{"level":"info","data":"and so on"}"#);
                }
            });
        }
        if method == "notifications/initialized"
            && let Some(delay) = self.flags.number("--asks-roots")
        {
            // Without a delay, it asks before it answers another request.
            let at_once = (delay == 0).then(|| self.send_client_request("roots/list", "{}"));
            let server = self.clone();
            std::thread::spawn(move || {
                sleep(Duration::from_millis(delay));
                let answer = at_once.unwrap_or_else(|| server.send_client_request("roots/list", "{}"));
                let answer = answer.recv().unwrap_or_default();
                // It takes the roots in while it handles other requests.
                sleep(Duration::from_millis(10));
                server.has_roots.store(answer.contains(r#""roots""#), Ordering::Release);
            });
        }
        if method == "notifications/initialized"
            && let Some(delay) = self.flags.number("--late-tool")
        {
            let server = self.clone();
            std::thread::spawn(move || {
                sleep(Duration::from_millis(delay));
                server.added_tools.fetch_add(1, Ordering::Relaxed);
                server.wire.notify("notifications/tools/list_changed", "{}");
            });
        }
        if method == "notifications/initialized" && self.flags.has("--chatty") {
            self.send_unsolicited("chatty");
        }
        if method == "notifications/cancelled"
            && let Some(Ok(Cancelled { id })) = params.map(|params| serde_json::from_str(params.get()))
        {
            self.wire.stateless.forget(id.get());
            if let Some(cancelled) = self.cancellable_calls.lock().unwrap().remove(id.get()) {
                let _gone = cancelled.send(());
            }
        }
    }

    /// Handles a response, which may be to no request of ours.
    pub(crate) fn handle_response(&self, id: &str, line: &str) {
        if let Some(response) = self.client_requests.lock().unwrap().remove(id) {
            let _gone = response.send(line.trim_end().to_owned());
        }
    }

    /// Whether the client has not answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        !self.client_requests.lock().unwrap().is_empty()
    }

    pub(crate) fn hold(&self, line: &str) {
        self.held.lock().unwrap().push(line.to_owned());
    }

    pub(crate) fn take_held(&self) -> Vec<String> {
        std::mem::take(&mut *self.held.lock().unwrap())
    }

    /// Sends a request to the client and waits for the line that answers it.
    pub(crate) fn request_client(&self, method: &str, params: &str) -> String {
        self.send_client_request(method, params).recv().unwrap_or_else(|_| "cancelled".to_owned())
    }

    /// Sends a request to the client. The line that answers it comes through the channel.
    pub(crate) fn send_client_request(&self, method: &str, params: &str) -> Receiver<String> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let id =
            if self.flags.has("--number-ids") { number.to_string() } else { format!("\"ask-{number}\"") };
        let (sender, response) = channel();
        self.client_requests.lock().unwrap().insert(id.clone(), sender);
        self.wire.request(&id, method, params);
        response
    }

    /// Cancels the requests to the client that have no response yet. `more_params` is appended to the params.
    pub(crate) fn cancel_client_requests(&self, more_params: &str) {
        for (id, _response) in self.client_requests.lock().unwrap().drain() {
            self.wire.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}{more_params}}}"#));
        }
    }

    /// Returns a channel that gets a message when the request `id` is cancelled.
    pub(crate) fn cancellation(&self, id: &str) -> Receiver<()> {
        let (sender, cancelled) = channel();
        self.cancellable_calls.lock().unwrap().insert(id.to_owned(), sender);
        cancelled
    }

    /// Sends a request, a notification, and answers to requests that were never sent.
    pub(crate) fn send_unsolicited(&self, when: &str) {
        self.wire.request(&format!("\"{when}-1\""), "ping", "{}");
        self.wire.notify("notifications/message", &format!(r#"{{"level":"info","data":"{when}"}}"#));
        self.wire.result(r#""never-sent""#, "{}");
        self.wire.error("-7", r#"{"code":-1,"message":"never sent"}"#);
    }

    fn initialize(&self, id: &str, params: &Value) {
        let requested = params["protocolVersion"].as_str().unwrap_or(LATEST_HANDSHAKE);
        if self.flags.text("--hang") == Some("initialize") {
            return;
        }
        if self.flags.has("--early") {
            self.send_unsolicited("early");
        }
        match self.flags.text("--reject-versions-but") {
            Some(only) if only != requested => {
                let data = json!({"supported": [only], "requested": requested});
                let error = json!({"code": -32602, "message": "Unsupported protocol version", "data": data});
                self.wire.error(id, &error.to_string());
            }
            _ => self.wire.result(id, &self.initialize_result(requested).to_string()),
        }
    }

    fn initialize_result(&self, requested: &str) -> Value {
        let mut result = json!({
            "protocolVersion": self.flags.text("--version").unwrap_or(requested),
            "capabilities": self.capabilities(false),
            "serverInfo": {
                "name": self.flags.text("--name").unwrap_or("scripted-upstream"),
                "version": self.flags.text("--server-version").unwrap_or("1.2.3"),
                "x-unknown": [1, null],
            },
        });
        if self.flags.has("--no-version") {
            result.as_object_mut().unwrap().remove("protocolVersion");
        }
        if self.flags.has("--no-capabilities") {
            result.as_object_mut().unwrap().remove("capabilities");
        }
        if let Some(text) = self.flags.text("--instructions") {
            result["instructions"] = text.into();
        }
        if self.flags.has("--tools-in-initialize") {
            result["tools"] = serde_json::from_str(&format!("[{}]", self.tools().join(","))).unwrap();
        }
        result
    }

    /// The capabilities of the server in one of the two eras.
    pub(crate) fn capabilities(&self, is_stateless: bool) -> Value {
        let mut capabilities = json!({"tools": {"listChanged": true}});
        if self.flags.has("--tasks") {
            match is_stateless {
                true => capabilities["extensions"] = json!({stateless::TASKS_EXTENSION: {}}),
                false => {
                    capabilities["tasks"] =
                        json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                }
            }
        }
        if self.flags.has("--protocol") {
            capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
            capabilities["prompts"] = json!({"listChanged": true});
            capabilities["logging"] = json!({});
            // The capability exists since the revision after that.
            if self.flags.text("--version") != Some("2024-11-05") {
                capabilities["completions"] = json!({});
            }
        }
        if self.flags.has("--skills") {
            let skills = json!({protocol::SKILLS_EXTENSION: {"directoryRead": true}});
            match capabilities["extensions"].as_object_mut() {
                Some(extensions) => extensions.extend(skills.as_object().unwrap().clone()),
                None => capabilities["extensions"] = skills,
            }
        }
        if self.flags.has("--resources") {
            capabilities["resources"] = json!({"subscribe": true, "listChanged": true});
        }
        if self.flags.has("--prompts") {
            capabilities["prompts"] = json!({});
            capabilities["completions"] = json!({});
        }
        if self.flags.has("--logging") {
            capabilities["logging"] = json!({});
        }
        capabilities
    }

    /// The definitions of the tools, as JSON.
    fn tools(&self) -> Vec<String> {
        let generated = self.flags.number("--tools").unwrap_or(0);
        let mut tools = tools::definitions(generated, self.added_tools.load(Ordering::Relaxed));
        tools.extend(self.flags.text("--definitions").map(str::to_owned));
        let file = self.flags.text("--definitions-file");
        tools.extend(file.map(|file| std::fs::read_to_string(file).unwrap()));
        if self.flags.has("--protocol") {
            tools.extend(protocol::tools());
        }
        if self.flags.has("--tasks") {
            tools.extend(tasks::tools());
        }
        tools
    }

    fn list_tools(&self, id: &str, params: &Value) {
        if self.flags.text("--hang") == Some("list") {
            return;
        }
        sleep(Duration::from_millis(self.flags.number("--slow-list").unwrap_or(0)));
        let tools = self.tools();
        let page = self.flags.number("--page").map_or(tools.len(), |page| page.max(1) as usize);
        let start = match params["cursor"].as_str() {
            None => Some(0),
            Some("") if self.flags.has("--empty-cursor") => Some(page),
            Some(cursor) => cursor.strip_prefix("opaque:").and_then(|start| start.parse().ok()),
        };
        let Some(start) = start.filter(|start| *start <= tools.len()) else {
            return self.wire.error(id, r#"{"code":-32602,"message":"Invalid cursor"}"#);
        };
        let end = tools.len().min(start + page);
        let cursor = match start {
            0 if self.flags.has("--empty-cursor") => String::new(),
            _ if self.flags.has("--same-cursor") => format!("opaque:{page}"),
            _ => format!("opaque:{end}"),
        };
        let next =
            if end < tools.len() { format!(r#","nextCursor":{}"#, quote(&cursor)) } else { String::new() };
        self.wire.result(id, &format!(r#"{{"tools":[{}]{next}}}"#, tools[start..end].join(",")));
    }

    /// A method that a flag adds. `None`: no flag adds it.
    fn optional_method(&self, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        let (family, _) = method.split_once('/')?;
        let is_served = match family {
            "resources" => self.flags.has("--resources") || self.flags.has("--undeclared"),
            "prompts" | "completion" => self.flags.has("--prompts"),
            "logging" => self.flags.has("--logging"),
            _ => false,
        };
        if !is_served {
            return None;
        }
        let uri = &params["uri"];
        Some(Ok(match method {
            "resources/list" => json!({"resources": [
                {"uri": "mem://one", "name": "one", "x-unknown": 1},
                {"uri": "mem://two", "name": "two"},
            ]}),
            "resources/templates/list" => {
                json!({"resourceTemplates": [{"uriTemplate": "mem://item/{id}", "name": "item"}]})
            }
            "resources/read" if uri.as_str().is_some_and(|uri| uri.starts_with("mem://")) => {
                json!({"contents": [{"uri": uri, "text": format!("contents of {uri}")}]})
            }
            "resources/read" => {
                return Some(Err(
                    json!({"code": -32002, "message": "Resource not found", "data": {"uri": uri}}),
                ));
            }
            "resources/subscribe" => {
                self.wire.notify("notifications/resources/updated", &json!({"uri": uri}).to_string());
                json!({})
            }
            "resources/unsubscribe" => json!({}),
            "prompts/list" => {
                json!({"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}]})
            }
            "prompts/get" => {
                let text = format!("Greet {}", params["arguments"]["who"]);
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
            }
            "completion/complete" => json!({"completion": {"values": ["Ada", "Alan"], "hasMore": false}}),
            "logging/setLevel" => {
                let message = json!({"level": params["level"], "logger": "scripted", "data": {"set": true}});
                self.wire.notify("notifications/message", &message.to_string());
                json!({})
            }
            _ => return None,
        }))
    }
}
