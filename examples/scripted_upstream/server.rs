//! The methods, all but `tools/call`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::flags::Flags;
use crate::protocol::{self, Grown};
use crate::stateless;
use crate::tasks::{self, Tasks};
use crate::tools;
use crate::value;
use crate::wire::{Wire, quote};

const NEWEST: &str = "2025-11-25";

pub(crate) struct Server {
    pub(crate) flags: Flags,
    pub(crate) wire: Wire,
    pub(crate) grandchild: Option<u32>,
    /// Calls answered.
    pub(crate) calls: AtomicU64,
    /// Tools that calls added.
    pub(crate) added: AtomicUsize,
    pub(crate) grown: Grown,
    pub(crate) tasks: Tasks,
    /// Calls of `together` that wait for others.
    pub(crate) together: Mutex<Vec<String>>,
    /// Our requests by id, each with who waits for its answer.
    asked: Mutex<HashMap<String, Sender<String>>>,
    last_id: AtomicU64,
    /// Calls that wait to be cancelled, by id.
    cancellable: Mutex<HashMap<String, Sender<()>>>,
}

impl Server {
    pub(crate) fn new(flags: Flags, grandchild: Option<u32>) -> Self {
        Self {
            wire: Wire::new(&flags),
            flags,
            grandchild,
            calls: AtomicU64::default(),
            added: AtomicUsize::default(),
            grown: Grown::default(),
            tasks: Tasks::default(),
            together: Mutex::default(),
            asked: Mutex::default(),
            last_id: AtomicU64::default(),
            cancellable: Mutex::default(),
        }
    }

    pub(crate) fn request(self: &Arc<Self>, id: &str, method: &str, params: Option<&RawValue>) {
        if method == "initialize" {
            // Never in a batch.
            if !stateless::serve(self, id, method, params) {
                self.initialize(id, &value(params));
            }
            return;
        }
        self.wire.together(|| {
            let raw = params.map_or("{}", RawValue::get);
            if !stateless::serve(self, id, method, params) && !protocol::serve_as_told(self, id, raw) {
                self.serve(id, method, params);
            }
        });
    }

    fn serve(self: &Arc<Self>, id: &str, method: &str, params: Option<&RawValue>) {
        match method {
            "ping" => self.wire.result(id, "{}"),
            "tools/list" => self.list_tools(id, &value(params)),
            "tools/call" if tasks::call(self, id, params.map_or("", RawValue::get)) => (),
            "tools/call" => tools::call(self, id, params),
            _ if tasks::serve(self, id, method, params) => (),
            _ if protocol::serve(self, id, method, params.map_or("{}", RawValue::get)) => (),
            _ => match self.other(method, &value(params)) {
                Some(Ok(result)) => self.wire.result(id, &result.to_string()),
                Some(Err(error)) => self.wire.error(id, &error.to_string()),
                None => self.wire.error(id, r#"{"code":-32601,"message":"Method not found"}"#),
            },
        }
    }

    pub(crate) fn notification(self: &Arc<Self>, method: &str, params: Option<&RawValue>) {
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
        if method == "notifications/initialized" && self.flags.has("--chatty") {
            self.chat("chatty");
        }
        if method == "notifications/cancelled"
            && let Some(Ok(Cancelled { id })) = params.map(|params| serde_json::from_str(params.get()))
        {
            self.wire.stateless.forget(id.get());
            if let Some(waiting) = self.cancellable.lock().unwrap().remove(id.get()) {
                let _gone = waiting.send(());
            }
        }
    }

    /// A response came, to one of our requests or to none.
    pub(crate) fn answered(&self, id: &str, line: &str) {
        if let Some(waiting) = self.asked.lock().unwrap().remove(id) {
            let _gone = waiting.send(line.trim_end().to_owned());
        }
    }

    /// Sends a request and waits for the line that answers it.
    pub(crate) fn ask(&self, method: &str, params: &str) -> String {
        self.start_asking(method, params).recv().unwrap_or_else(|_| "cancelled".to_owned())
    }

    /// Sends a request and gives what the line that answers it comes by.
    pub(crate) fn start_asking(&self, method: &str, params: &str) -> Receiver<String> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let id =
            if self.flags.has("--number-ids") { number.to_string() } else { format!("\"ask-{number}\"") };
        let (sender, answer) = channel();
        self.asked.lock().unwrap().insert(id.clone(), sender);
        self.wire.request(&id, method, params);
        answer
    }

    /// Cancels what we asked and have no answer to; `more` goes into the params.
    pub(crate) fn cancel_asked(&self, more: &str) {
        for (id, _waiting) in self.asked.lock().unwrap().drain() {
            self.wire.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}{more}}}"#));
        }
    }

    /// What hears of it when the request `id` is cancelled.
    pub(crate) fn cancellation(&self, id: &str) -> Receiver<()> {
        let (sender, cancelled) = channel();
        self.cancellable.lock().unwrap().insert(id.to_owned(), sender);
        cancelled
    }

    /// A request, a notification and answers that nobody asked for.
    pub(crate) fn chat(&self, when: &str) {
        self.wire.request(&format!("\"{when}-1\""), "ping", "{}");
        self.wire.notify("notifications/message", &format!(r#"{{"level":"info","data":"{when}"}}"#));
        self.wire.result(r#""never-sent""#, "{}");
        self.wire.error("-7", r#"{"code":-1,"message":"never sent"}"#);
    }

    fn initialize(&self, id: &str, params: &Value) {
        let asked = params["protocolVersion"].as_str().unwrap_or(NEWEST);
        if self.flags.text("--hang") == Some("initialize") {
            return;
        }
        if self.flags.has("--early") {
            self.chat("early");
        }
        match self.flags.text("--reject-versions-but") {
            Some(only) if only != asked => {
                let data = json!({"supported": [only], "requested": asked});
                let error = json!({"code": -32602, "message": "Unsupported protocol version", "data": data});
                self.wire.error(id, &error.to_string());
            }
            _ => self.wire.result(id, &self.greeting(asked).to_string()),
        }
    }

    fn greeting(&self, asked: &str) -> Value {
        let mut result = json!({
            "protocolVersion": self.flags.text("--version").unwrap_or(asked),
            "capabilities": self.capabilities(false),
            "serverInfo": {
                "name": self.flags.text("--name").unwrap_or("scripted-upstream"),
                "version": "1.2.3",
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

    pub(crate) fn capabilities(&self, stateless: bool) -> Value {
        let mut capabilities = json!({"tools": {"listChanged": true}});
        if self.flags.has("--tasks") {
            match stateless {
                true => capabilities["extensions"] = json!({stateless::TASKS: {}}),
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
            // A revision later there was a capability for it.
            if self.flags.text("--version") != Some("2024-11-05") {
                capabilities["completions"] = json!({});
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

    /// Definitions as they are sent.
    fn tools(&self) -> Vec<String> {
        let generated = self.flags.number("--tools").unwrap_or(0);
        let mut tools = tools::definitions(generated, self.added.load(Ordering::Relaxed));
        tools.extend(self.flags.text("--definitions").map(str::to_owned));
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
        std::thread::sleep(std::time::Duration::from_millis(self.flags.number("--slow-list").unwrap_or(0)));
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

    /// What the flags add; `None` where they add no such method.
    fn other(&self, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        let (family, _) = method.split_once('/')?;
        let is_served = match family {
            "resources" => self.flags.has("--resources"),
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
