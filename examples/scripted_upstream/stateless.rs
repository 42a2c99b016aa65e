//! `--stateless` and `--dual`: revision 2026-07-28, where every request says who asks and there is no handshake.
//!
//! A request of that revision is noted by its id until it is answered; what is answered is dressed then with what the
//! revision wants in a result. So the methods and tools themselves are the same in both eras.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::Server;
use crate::{readable, value};

pub(crate) const REVISION: &str = "2026-07-28";
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Methods that are no more.
const REMOVED: [&str; 7] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
];

/// Methods whose results say how long they may be kept.
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// What a request said of itself.
struct Request {
    method: String,
    capabilities: Value,
    level: Option<usize>,
}

/// Those of the revision that are not answered yet, and who listens.
#[derive(Default)]
pub(crate) struct Requests {
    open: Mutex<HashMap<String, Request>>,
    /// Ids of `subscriptions/listen`, each with what it wants to hear.
    listening: Mutex<Vec<(String, Value)>>,
    /// Whether there was a handshake, too.
    pub(crate) handshake: AtomicBool,
}

impl Requests {
    pub(crate) fn has(&self, id: &str) -> bool {
        self.open.lock().unwrap().contains_key(id)
    }

    /// What the client can do for the request `id`; `None` where it is not of this revision.
    pub(crate) fn capabilities(&self, id: &str) -> Option<Value> {
        Some(self.open.lock().unwrap().get(id)?.capabilities.clone())
    }

    pub(crate) fn forget(&self, id: &str) {
        self.open.lock().unwrap().remove(id);
        self.listening.lock().unwrap().retain(|(listening, _)| listening != id);
    }

    /// `result` as the request `id` wants it.
    pub(crate) fn dressed<'a>(&self, id: &str, result: &'a str) -> Cow<'a, str> {
        let Some(request) = self.open.lock().unwrap().remove(id) else { return result.into() };
        let members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(result).unwrap_or_default();
        let mut more = String::new();
        if !members.contains_key("resultType") {
            more.push_str(r#""resultType":"complete","#);
        }
        if CACHEABLE.contains(&&*request.method) && !members.contains_key("ttlMs") {
            more.push_str(r#""ttlMs":60000,"cacheScope":"public","#);
        }
        if !members.contains_key("_meta") {
            let info = r#"{"name":"scripted-upstream","version":"1.2.3","x-unknown":[1,null]}"#;
            more.push_str(&format!(r#""_meta":{{"io.modelcontextprotocol/serverInfo":{info}}},"#));
        }
        let rest = result.trim_start().strip_prefix('{').unwrap_or_default().trim_start();
        if rest == "}" {
            more.pop();
        }
        format!("{{{more}{rest}").into()
    }

    /// Whether the request `id` wants to be told what is as severe as `level`.
    fn wants(&self, id: &str, level: &str) -> bool {
        let open = self.open.lock().unwrap();
        let least = open.get(id).and_then(|request| request.level);
        least.is_some_and(|least| {
            LEVELS.iter().position(|name| *name == level).is_none_or(|rank| rank >= least)
        })
    }
}

/// Whether the request needs nothing more: it was answered, or refused.
pub(crate) fn serve(server: &Server, id: &str, method: &str, params: Option<&RawValue>) -> bool {
    let only = server.flags.has("--stateless");
    if !only && !server.flags.has("--dual") {
        return false;
    }
    let params = value(params);
    let meta = |name: &str| &params["_meta"][format!("io.modelcontextprotocol/{name}")];
    if only && method == "initialize" {
        refuse_initialize(server, id, &params["protocolVersion"]);
        return true;
    }
    let (version, capabilities) = (meta("protocolVersion"), meta("clientCapabilities"));
    if !only && version.is_null() {
        server.wire.stateless.handshake.fetch_or(method == "initialize", Ordering::Relaxed);
        return false;
    }
    let level = meta("logLevel").as_str().map(|level| LEVELS.iter().position(|name| *name == level));
    if !version.is_string() || !capabilities.is_object() || level == Some(None) {
        refuse(server, id, -32602, "Invalid params: _meta", Value::Null);
    } else if version != REVISION {
        refuse(server, id, -32022, "Unsupported protocol version", supported(server, version));
    } else if REMOVED.contains(&method) {
        refuse(server, id, -32601, "Method not found", Value::Null);
    } else {
        let request =
            Request { method: method.to_owned(), capabilities: capabilities.clone(), level: level.flatten() };
        server.wire.stateless.open.lock().unwrap().insert(id.to_owned(), request);
        match method {
            "server/discover" => server.wire.result(id, &discovered(server).to_string()),
            "subscriptions/listen" => listen(server, id, &params["notifications"]),
            _ => return false,
        }
    }
    true
}

fn refuse(server: &Server, id: &str, code: i64, message: &str, data: Value) {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data;
    }
    server.wire.error(id, &error.to_string());
}

fn supported(server: &Server, requested: &Value) -> Value {
    let all: &[&str] = if server.flags.has("--dual") { &[REVISION, "2025-11-25"] } else { &[REVISION] };
    json!({"supported": all, "requested": requested})
}

fn refuse_initialize(server: &Server, id: &str, requested: &Value) {
    match server.flags.text("--refuses-initialize").map(|code| code.parse().unwrap()) {
        None => refuse(server, id, -32022, "Unsupported protocol version", supported(server, requested)),
        Some(-32601) => refuse(server, id, -32601, "Method not found", Value::Null),
        Some(code) => refuse(server, id, code, "Invalid params: _meta is missing", Value::Null),
    }
}

fn discovered(server: &Server) -> Value {
    let mut result = json!({
        "supportedVersions": supported(server, &Value::Null)["supported"],
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

/// Says that the client lacks what a request needs.
pub(crate) fn refuse_incapable(server: &Server, id: &str, required: &Value) {
    let data = json!({"requiredCapabilities": required});
    refuse(server, id, -32021, "Missing required client capability", data);
}

fn listen(server: &Server, id: &str, wanted: &Value) {
    let capabilities = server.wire.stateless.capabilities(id).unwrap_or_default();
    if wanted.get("taskIds").is_some() && capabilities["extensions"].get(TASKS).is_none() {
        return refuse_incapable(server, id, &json!({"extensions": {TASKS: {}}}));
    }
    let known = [
        ("toolsListChanged", true),
        ("promptsListChanged", server.flags.has("--protocol")),
        ("resourcesListChanged", server.flags.has("--protocol") || server.flags.has("--resources")),
        ("resourceSubscriptions", server.flags.has("--protocol") || server.flags.has("--resources")),
        ("taskIds", server.flags.has("--tasks")),
    ];
    let mut agreed = json!({});
    for (name, is_served) in known {
        if let Some(wanted) = wanted.get(name).filter(|wanted| is_served && **wanted != json!(false)) {
            agreed[name] = wanted.clone();
        }
    }
    let params = format!(r#"{{"_meta":{{"{SUBSCRIPTION}":{id}}},"notifications":{agreed}}}"#);
    server.wire.notify("notifications/subscriptions/acknowledged", &params);
    server.wire.stateless.listening.lock().unwrap().push((id.to_owned(), agreed));
}

/// Ends every subscription as a server does that ends them itself: by its answer, or by `method`.
pub(crate) fn end_listening(server: &Server, method: Option<&str>) {
    let ended = std::mem::take(&mut *server.wire.stateless.listening.lock().unwrap());
    for (id, _) in ended {
        if let Some(method) = method {
            server.wire.notify(method, &format!(r#"{{"requestId":{id}}}"#));
            continue;
        }
        server.wire.result(&id, &format!(r#"{{"_meta":{{"{SUBSCRIPTION}":{id}}}}}"#));
    }
}

/// Sends a notification, because of the request `cause`, to whoever is to hear it in the eras that are spoken.
pub(crate) fn tell(server: &Server, cause: &str, method: &str, params: &str) {
    let requests = &server.wire.stateless;
    let (only, dual) = (server.flags.has("--stateless"), server.flags.has("--dual"));
    let by_handshake = !only && (!dual || requests.handshake.load(Ordering::Relaxed));
    let given = readable(params);
    let is_listed = |filter: &Value, list: &str, member: &str| {
        filter[list].as_array().is_some_and(|wanted| wanted.contains(&given[member]))
    };
    let is_heard = |filter: &Value| match method {
        "notifications/tools/list_changed" => filter["toolsListChanged"] == true,
        "notifications/prompts/list_changed" => filter["promptsListChanged"] == true,
        "notifications/resources/list_changed" => filter["resourcesListChanged"] == true,
        "notifications/resources/updated" => is_listed(filter, "resourceSubscriptions", "uri"),
        _ => is_listed(filter, "taskIds", "taskId"),
    };
    match method {
        "notifications/message" if requests.has(cause) => {
            if requests.wants(cause, given["level"].as_str().unwrap_or_default()) {
                server.wire.notify(method, params);
            }
        }
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated"
        | "notifications/tasks" => {
            if by_handshake && method != "notifications/tasks" {
                server.wire.notify(method, params);
            }
            let listening = requests.listening.lock().unwrap().clone();
            for (id, _) in listening.iter().filter(|(_, filter)| is_heard(filter)) {
                server.wire.notify(method, &with_meta(params, &format!(r#""{SUBSCRIPTION}":{id}"#)));
            }
        }
        _ => server.wire.notify(method, params),
    }
}

/// The object `params` with one member more in its `_meta`.
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
