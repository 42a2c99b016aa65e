//! `--stateless` and `--dual`: revision 2026-07-28, in which every request names its client and there is no handshake.
//!
//! A request of that revision is kept by its id until it is answered. Its result then gets the members that the revision
//! requires. So the methods and tools themselves are the same in both eras.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::Server;
use crate::{lossy_value, to_value};

pub(crate) const REVISION: &str = "2026-07-28";
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Methods that the revision has removed.
const REMOVED_METHODS: [&str; 7] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
];

/// Methods whose results say how long they may be cached.
const CACHEABLE_METHODS: [&str; 8] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "skills/list",
    "skills/get",
];

/// A request of this revision, as its `_meta` describes it.
struct StatelessRequest {
    method: String,
    capabilities: Value,
    /// The lowest level of log messages that the client wants, as an index into `LEVELS`.
    min_level: Option<usize>,
}

/// The requests of this revision that are not answered yet, by id, and the subscriptions.
#[derive(Default)]
pub(crate) struct StatelessRequests {
    pending: Mutex<HashMap<String, StatelessRequest>>,
    /// The ids of `subscriptions/listen`, each with its filter.
    subscriptions: Mutex<Vec<(String, Value)>>,
    /// Whether there was a handshake as well.
    had_handshake: AtomicBool,
}

impl StatelessRequests {
    /// Whether the request `id` is of this revision.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.pending.lock().unwrap().contains_key(id)
    }

    /// The client capabilities of the request `id`. `None`: it is not of this revision.
    pub(crate) fn capabilities(&self, id: &str) -> Option<Value> {
        Some(self.pending.lock().unwrap().get(id)?.capabilities.clone())
    }

    /// Removes the request `id`, or the subscription.
    pub(crate) fn forget(&self, id: &str) {
        self.pending.lock().unwrap().remove(id);
        self.subscriptions.lock().unwrap().retain(|(subscription, _)| subscription != id);
    }

    /// Adds to `result` the members that the request `id` requires in it.
    pub(crate) fn complete_result<'a>(&self, id: &str, result: &'a str) -> Cow<'a, str> {
        let Some(request) = self.pending.lock().unwrap().remove(id) else { return result.into() };
        let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(result).unwrap_or_default();
        let mut added = String::new();
        if !members.contains_key("resultType") {
            added.push_str(r#""resultType":"complete","#);
        }
        if CACHEABLE_METHODS.contains(&&*request.method) && !members.contains_key("ttlMs") {
            added.push_str(r#""ttlMs":60000,"cacheScope":"public","#);
        }
        if !members.contains_key("_meta") {
            let info = r#"{"name":"scripted-upstream","version":"1.2.3","x-unknown":[1,null]}"#;
            added.push_str(&format!(r#""_meta":{{"io.modelcontextprotocol/serverInfo":{info}}},"#));
        }
        let rest = result.trim_start().strip_prefix('{').unwrap_or_default().trim_start();
        if rest == "}" {
            added.pop();
        }
        format!("{{{added}{rest}").into()
    }

    /// Whether the request `id` wants log messages of `level`.
    fn wants_level(&self, id: &str, level: &str) -> bool {
        let pending = self.pending.lock().unwrap();
        let min_level = pending.get(id).and_then(|request| request.min_level);
        min_level
            .is_some_and(|min| LEVELS.iter().position(|name| *name == level).is_none_or(|rank| rank >= min))
    }
}

/// Handles a request as this revision requires. Returns whether it is answered, or will be.
pub(crate) fn handle(server: &Server, id: &str, method: &str, params: Option<&RawValue>) -> bool {
    let is_only_stateless = server.flags.has("--stateless");
    if !is_only_stateless && !server.flags.has("--dual") {
        return false;
    }
    let params = to_value(params);
    let meta = |name: &str| &params["_meta"][format!("io.modelcontextprotocol/{name}")];
    if is_only_stateless && method == "initialize" {
        send_initialize_error(server, id, &params["protocolVersion"]);
        return true;
    }
    let (version, capabilities) = (meta("protocolVersion"), meta("clientCapabilities"));
    if !is_only_stateless && version.is_null() {
        server.wire.stateless.had_handshake.fetch_or(method == "initialize", Ordering::Relaxed);
        return false;
    }
    let level = meta("logLevel").as_str().map(|level| LEVELS.iter().position(|name| *name == level));
    if !version.is_string() || !capabilities.is_object() || level == Some(None) {
        send_error(server, id, -32602, "Invalid params: _meta", Value::Null);
    } else if version != REVISION {
        send_error(server, id, -32022, "Unsupported protocol version", supported_versions(server, version));
    } else if REMOVED_METHODS.contains(&method) {
        send_error(server, id, -32601, "Method not found", Value::Null);
    } else {
        let request = StatelessRequest {
            method: method.to_owned(),
            capabilities: capabilities.clone(),
            min_level: level.flatten(),
        };
        server.wire.stateless.pending.lock().unwrap().insert(id.to_owned(), request);
        match method {
            "server/discover" => server.wire.result(id, &discover_result(server).to_string()),
            "subscriptions/listen" => subscribe(server, id, &params["notifications"]),
            _ => return false,
        }
    }
    true
}

fn send_error(server: &Server, id: &str, code: i64, message: &str, data: Value) {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data;
    }
    server.wire.error(id, &error.to_string());
}

fn supported_versions(server: &Server, requested: &Value) -> Value {
    let all: &[&str] = if server.flags.has("--dual") { &[REVISION, "2025-11-25"] } else { &[REVISION] };
    json!({"supported": all, "requested": requested})
}

fn send_initialize_error(server: &Server, id: &str, requested: &Value) {
    match server.flags.text("--refuses-initialize").map(|code| code.parse().unwrap()) {
        None => send_error(
            server,
            id,
            -32022,
            "Unsupported protocol version",
            supported_versions(server, requested),
        ),
        Some(-32601) => send_error(server, id, -32601, "Method not found", Value::Null),
        Some(code) => send_error(server, id, code, "Invalid params: _meta is missing", Value::Null),
    }
}

fn discover_result(server: &Server) -> Value {
    let mut result = json!({
        "supportedVersions": supported_versions(server, &Value::Null)["supported"],
        "capabilities": server.capabilities(true),
        "x-unknown": {"n": 1.10},
        "ttlMs": 3_600_000,
        "cacheScope": "private",
    });
    if let Some(text) = server.flags.text("--instructions") {
        result["instructions"] = text.into();
    }
    if let Some(name) = server.flags.text("--name") {
        result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": name, "version": "1.2.3"}});
    }
    result
}

/// Answers a request whose client lacks a capability.
pub(crate) fn send_missing_capability(server: &Server, id: &str, required: &Value) {
    let data = json!({"requiredCapabilities": required});
    send_error(server, id, -32021, "Missing required client capability", data);
}

fn subscribe(server: &Server, id: &str, filter: &Value) {
    let capabilities = server.wire.stateless.capabilities(id).unwrap_or_default();
    if filter.get("taskIds").is_some() && capabilities["extensions"].get(TASKS_EXTENSION).is_none() {
        return send_missing_capability(server, id, &json!({"extensions": {TASKS_EXTENSION: {}}}));
    }
    let supported = [
        ("toolsListChanged", true),
        ("promptsListChanged", server.flags.has("--protocol")),
        ("resourcesListChanged", server.flags.has("--protocol") || server.flags.has("--resources")),
        ("resourceSubscriptions", server.flags.has("--protocol") || server.flags.has("--resources")),
        ("taskIds", server.flags.has("--tasks")),
    ];
    let mut agreed = json!({});
    for (name, is_served) in supported {
        if let Some(value) = filter.get(name).filter(|value| is_served && **value != json!(false)) {
            agreed[name] = value.clone();
        }
    }
    let params = format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID}":{id}}},"notifications":{agreed}}}"#);
    server.wire.notify("notifications/subscriptions/acknowledged", &params);
    server.wire.stateless.subscriptions.lock().unwrap().push((id.to_owned(), agreed));
}

/// Ends every subscription from the server's side: by its result, or by a notification `method`.
pub(crate) fn end_subscriptions(server: &Server, method: Option<&str>) {
    let ended = std::mem::take(&mut *server.wire.stateless.subscriptions.lock().unwrap());
    for (id, _) in ended {
        if let Some(method) = method {
            server.wire.notify(method, &format!(r#"{{"requestId":{id}}}"#));
            continue;
        }
        server.wire.result(&id, &format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID}":{id}}}}}"#));
    }
}

/// Sends a notification, caused by the request `cause`, in each era that the client uses and wants it in.
pub(crate) fn notify(server: &Server, cause: &str, method: &str, params: &str) {
    let requests = &server.wire.stateless;
    let (is_only_stateless, is_dual) = (server.flags.has("--stateless"), server.flags.has("--dual"));
    let has_handshake_client =
        !is_only_stateless && (!is_dual || requests.had_handshake.load(Ordering::Relaxed));
    let values = lossy_value(params);
    let is_listed = |filter: &Value, list: &str, member: &str| {
        filter[list].as_array().is_some_and(|wanted| wanted.contains(&values[member]))
    };
    let is_wanted = |filter: &Value| match method {
        "notifications/tools/list_changed" => filter["toolsListChanged"] == true,
        "notifications/prompts/list_changed" => filter["promptsListChanged"] == true,
        "notifications/resources/list_changed" => filter["resourcesListChanged"] == true,
        "notifications/resources/updated" => is_listed(filter, "resourceSubscriptions", "uri"),
        _ => is_listed(filter, "taskIds", "taskId"),
    };
    match method {
        "notifications/message" if requests.contains(cause) => {
            if requests.wants_level(cause, values["level"].as_str().unwrap_or_default()) {
                server.wire.notify(method, params);
            }
        }
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated"
        | "notifications/tasks" => {
            if has_handshake_client && method != "notifications/tasks" {
                server.wire.notify(method, params);
            }
            let subscriptions = requests.subscriptions.lock().unwrap().clone();
            for (id, _) in subscriptions.iter().filter(|(_, filter)| is_wanted(filter)) {
                server.wire.notify(method, &with_meta(params, &format!(r#""{SUBSCRIPTION_ID}":{id}"#)));
            }
        }
        _ => server.wire.notify(method, params),
    }
}

/// Adds a member to the `_meta` of the object `params`.
pub(crate) fn with_meta(params: &str, member: &str) -> String {
    let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(params).unwrap_or_default();
    let comma = |rest: &str| if rest.trim_start().starts_with('}') { "" } else { "," };
    match members.get("_meta").map(|meta| meta.get()).filter(|meta| meta.starts_with('{')) {
        Some(meta) => {
            let at = meta.as_ptr().addr() - params.as_ptr().addr() + 1;
            let (before, rest) = params.split_at(at);
            format!("{before}{member}{}{rest}", comma(rest))
        }
        None => {
            let rest = params.trim_start().strip_prefix('{').unwrap_or("}");
            format!(r#"{{"_meta":{{{member}}}{}{rest}"#, comma(rest))
        }
    }
}
