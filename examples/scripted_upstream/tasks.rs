//! `--tasks`: calls that are answered with a task, as 2025-11-25 has it and as the extension of 2026-07-28 has it.
//!
//! Tools: `task_required`, `task_optional`, `task_forbidden`; their result is their arguments as text, and more. With
//! `"hold": true` a task works on until `release` is called or it is cancelled; with `"ask": KINDS` it asks first; with
//! `"outcome": "isError"` or `"error"` it ends so; with `"log": true` it says something on the way.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::spawn;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::asking::{self, Question};
use crate::server::Server;
use crate::stateless::{TASKS, refuse_incapable, tell, with_meta};
use crate::value;
use crate::wire::quote;

const NOT_FOUND: &str = r#"{"code":-32602,"message":"Unknown task","data":{"exact":1.10}}"#;

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_last(self) -> bool {
        !matches!(self, Self::Working | Self::InputRequired)
    }
}

struct Task {
    id: String,
    status: Status,
    /// As it was asked for; empty: without end.
    ttl: String,
    /// How often it changed.
    changes: usize,
    /// `"result":…` or `"error":…`, once there is one.
    outcome: String,
    /// What it waits for, in a stateless revision.
    requests: String,
    /// What came of that.
    responses: Option<String>,
    is_stateless: bool,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    released: bool,
}

#[derive(Default)]
pub(crate) struct Tasks {
    state: Mutex<State>,
    changed: Condvar,
}

impl Tasks {
    /// Something of the task `number`.
    fn of<T>(&self, number: usize, look: impl FnOnce(&Task) -> T) -> T {
        look(&self.state.lock().unwrap().tasks[number])
    }

    /// Waits until the task `number` is so, or has ended.
    fn until(&self, number: usize, holds: impl Fn(&Task, bool) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !state.tasks[number].status.is_last() && !holds(&state.tasks[number], state.released) {
            state = self.changed.wait(state).unwrap();
        }
    }
}

pub(crate) fn tools() -> impl Iterator<Item = String> {
    ["required", "optional", "forbidden"].into_iter().map(|support| {
        format!(
            r#"{{"name":"task_{support}","inputSchema":{{"type":"object"}},"execution":{{"taskSupport":"{support}","x-unknown":1.10}}}}"#
        )
    }).chain([r#"{"name":"release","description":"Ends tasks that are held.","inputSchema":{"type":"object"}}"#.to_owned()])
}

#[derive(Deserialize)]
struct Params<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

/// Whether the call was one of a task, or refused for it.
pub(crate) fn call(server: &Arc<Server>, id: &str, params: &str) -> bool {
    if !server.flags.has("--tasks") {
        return false;
    }
    let Ok(params) = serde_json::from_str::<Params<'_>>(params) else { return false };
    if params.name == "release" {
        server.tasks.state.lock().unwrap().released = true;
        server.tasks.changed.notify_all();
        server.wire.result(id, &crate::tools::text("released"));
        return true;
    }
    let arguments = params.arguments.map_or("{}", RawValue::get).to_owned();
    let capabilities = server.wire.stateless.capabilities(id);
    let is_stateless = capabilities.is_some();
    let wanted = match &capabilities {
        Some(capabilities) => !capabilities["extensions"][TASKS].is_null(),
        None => params.task.is_some(),
    };
    let is_task = match &*params.name {
        "task_required" if !wanted => {
            match capabilities {
                Some(_) => refuse_incapable(server, id, &json!({"extensions": {TASKS: {}}})),
                None => {
                    server.wire.error(id, r#"{"code":-32601,"message":"Method not found: task required"}"#);
                }
            }
            return true;
        }
        "task_required" | "task_optional" => wanted,
        _ if wanted && !is_stateless => {
            server.wire.error(id, r#"{"code":-32601,"message":"Method not found: task forbidden"}"#);
            return true;
        }
        "task_forbidden" => false,
        _ => return false,
    };
    if is_task {
        create(server, id, params.task, arguments, is_stateless);
    } else {
        finish(server, id, &outcome(&arguments, None));
    }
    true
}

fn create(server: &Arc<Server>, id: &str, wanted: Option<&RawValue>, arguments: String, is_stateless: bool) {
    let number = {
        let tasks = &mut server.tasks.state.lock().unwrap().tasks;
        let number = tasks.len();
        let name = if server.flags.has("--same-task-ids") {
            format!("task/ö {number}")
        } else {
            format!("task-{}-{number}", std::process::id())
        };
        tasks.push(Task {
            id: name,
            status: Status::Working,
            ttl: value(wanted)["ttl"].as_u64().map_or_else(|| "null".to_owned(), |ttl| ttl.to_string()),
            changes: 0,
            outcome: String::new(),
            requests: String::new(),
            responses: None,
            is_stateless,
        });
        number
    };
    let task = server.tasks.of(number, Task::described);
    let result = match is_stateless {
        true => format!(r#"{{"resultType":"task",{task}}}"#),
        false => format!(
            r#"{{"task":{{{task}}},"_meta":{{"io.modelcontextprotocol/model-immediate-response":"It runs.","x/y":1.10}},"x-unknown":1.10}}"#
        ),
    };
    server.wire.result(id, &result);
    let server = server.clone();
    spawn(move || work(&server, number, &arguments));
}

impl Task {
    /// The members of its description, without its outcome.
    fn described(&self) -> String {
        let (ttl_name, poll) =
            if self.is_stateless { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
        let (id, status, changes, ttl) = (quote(&self.id), self.status.name(), self.changes, &self.ttl);
        format!(
            r#""taskId":{id},"status":"{status}","statusMessage":"caf\u00e9 {changes}","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:0{changes}Z","{ttl_name}":{ttl},"{poll}":10,"x-unknown":{{"exact":1.10,"big":123456789012345678901234567890}}"#
        )
    }

    /// The same as an object, with what the extension adds to it.
    fn detailed(&self) -> String {
        let more = match self.status {
            Status::InputRequired if self.is_stateless => format!(r#","inputRequests":{}"#, self.requests),
            Status::Completed | Status::Failed if self.is_stateless => format!(",{}", self.outcome),
            _ => String::new(),
        };
        format!("{{{}{more}}}", self.described())
    }
}

fn work(server: &Server, number: usize, arguments: &str) {
    let args: Value = serde_json::from_str(arguments).unwrap_or_default();
    let responses = (!args["ask"].is_null()).then(|| {
        let kinds = asking::kinds(&args["ask"]);
        ask(server, number, &asking::questions(kinds.iter().map(String::as_str)))
    });
    if args["log"] == true {
        let task = task_id(server, number);
        let params = with_meta(r#"{"level":"info","data":"on the way"}"#, &related(&task));
        server.wire.notify("notifications/message", &params);
    }
    if args["hold"] == true {
        server.tasks.until(number, |_, released| released);
    }
    let outcome = outcome(arguments, responses.as_deref());
    let is_error =
        outcome.starts_with(r#""error""#) || (args["outcome"] == "isError" && !is_stateless(server, number));
    change(server, number, if is_error { Status::Failed } else { Status::Completed }, |task| {
        task.outcome = outcome;
    });
}

fn outcome(arguments: &str, responses: Option<&str>) -> String {
    let args: Value = serde_json::from_str(arguments).unwrap_or_default();
    if args["outcome"] == "error" {
        return r#""error":{"code":123456789012,"message":"no \"luck\"","data":{"exact":1.10}}"#.to_owned();
    }
    let text = quote(responses.unwrap_or(arguments));
    let is_error = args["outcome"] == "isError";
    format!(
        r#""result":{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{{"exact":1.10,"big":123456789012345678901234567890,"null":null}},"isError":{is_error},"x-unknown":"caf\u00e9 \/"}}"#
    )
}

/// Asks the client and waits for its answers.
fn ask(server: &Server, number: usize, questions: &[Question]) -> String {
    let requests = asking::requests(questions);
    change(server, number, Status::InputRequired, |task| task.requests = requests);
    let responses = if is_stateless(server, number) {
        server.tasks.until(number, |task, _| task.responses.is_some());
        server.tasks.of(number, |task| task.responses.clone().unwrap_or_default())
    } else {
        let task = task_id(server, number);
        asking::answers_to(server, questions, Some(&task))
    };
    change(server, number, Status::Working, |_| ());
    responses
}

/// As JSON.
fn task_id(server: &Server, number: usize) -> String {
    server.tasks.of(number, |task| quote(&task.id))
}

fn is_stateless(server: &Server, number: usize) -> bool {
    server.tasks.of(number, |task| task.is_stateless)
}

fn related(task: &str) -> String {
    format!(r#""io.modelcontextprotocol/related-task":{{"taskId":{task}}}"#)
}

/// Whether the task went on to `status`; it is told.
fn change(server: &Server, number: usize, status: Status, more: impl FnOnce(&mut Task)) -> bool {
    let mut state = server.tasks.state.lock().unwrap();
    let task = &mut state.tasks[number];
    if task.status.is_last() {
        return false;
    }
    task.status = status;
    task.changes += 1;
    more(task);
    // Told before anybody sees it.
    let method = if task.is_stateless { "notifications/tasks" } else { "notifications/tasks/status" };
    tell(server, "", method, &task.detailed());
    server.tasks.changed.notify_all();
    true
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow, rename = "inputResponses")]
    responses: Option<&'a RawValue>,
}

/// Whether the request is one of tasks; then it is answered, or will be.
pub(crate) fn serve(server: &Arc<Server>, id: &str, method: &str, params: Option<&RawValue>) -> bool {
    if !server.flags.has("--tasks") || !method.starts_with("tasks/") {
        return false;
    }
    let (raw, params) = (params.map_or("{}", RawValue::get), value(params));
    let stateless = server.wire.stateless.has(id);
    let found = server.tasks.state.lock().unwrap().tasks.iter().position(|task| params["taskId"] == *task.id);
    let found = found.filter(|number| is_stateless(server, *number) == stateless);
    match (method, found) {
        ("tasks/list", _) => list(server, id, &params),
        ("tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update", None) => {
            server.wire.error(id, NOT_FOUND);
        }
        ("tasks/get", Some(number)) => server.wire.result(id, &server.tasks.of(number, Task::detailed)),
        ("tasks/result", Some(number)) => {
            let (server, id) = (server.clone(), id.to_owned());
            spawn(move || result(&server, &id, number));
        }
        ("tasks/cancel", Some(number)) => {
            let cancelled = change(server, number, Status::Cancelled, |_| ());
            match (stateless, cancelled) {
                (true, _) => server.wire.result(id, "{}"),
                (false, true) => server.wire.result(id, &server.tasks.of(number, Task::detailed)),
                (false, false) => {
                    server
                        .wire
                        .error(id, r#"{"code":-32602,"message":"Cannot cancel a task that has ended"}"#);
                }
            }
        }
        ("tasks/update", Some(number)) if stateless => {
            let responses = serde_json::from_str(raw).unwrap_or(Update { responses: None }).responses;
            server.tasks.state.lock().unwrap().tasks[number].responses =
                Some(responses.map_or("{}", RawValue::get).to_owned());
            server.tasks.changed.notify_all();
            server.wire.result(id, "{}");
        }
        _ => return false,
    }
    true
}

/// Waits for the end of a task and gives what its call would have given.
fn result(server: &Server, id: &str, number: usize) {
    server.tasks.until(number, |_, _| false);
    let (outcome, task) = server.tasks.of(number, |task| (task.outcome.clone(), quote(&task.id)));
    match outcome.strip_prefix(r#""result":"#) {
        Some(result) => finish(server, id, &format!(r#""result":{}"#, with_meta(result, &related(&task)))),
        None if outcome.is_empty() => {
            server.wire.error(id, r#"{"code":-32603,"message":"The task was cancelled"}"#);
        }
        None => finish(server, id, &outcome),
    }
}

fn finish(server: &Server, id: &str, outcome: &str) {
    match outcome.strip_prefix(r#""result":"#) {
        Some(result) => server.wire.result(id, result),
        None => server.wire.error(id, outcome.strip_prefix(r#""error":"#).unwrap_or_default()),
    }
    server.calls.fetch_add(1, Ordering::Relaxed);
}

fn list(server: &Server, id: &str, params: &Value) {
    let count = server.tasks.state.lock().unwrap().tasks.len();
    let page = server.flags.number("--page").map_or(usize::MAX, |page| page.max(1) as usize);
    let start = match params["cursor"].as_str() {
        None => Some(0),
        Some(cursor) => cursor.strip_prefix("opaque:").and_then(|start| start.parse().ok()),
    };
    let Some(start) = start.filter(|start| *start <= count) else {
        return server.wire.error(id, r#"{"code":-32602,"message":"Invalid cursor"}"#);
    };
    let end = count.min(start.saturating_add(page));
    let tasks: Vec<_> = (start..end).map(|number| server.tasks.of(number, Task::detailed)).collect();
    let next = if end < count { format!(r#","nextCursor":"opaque:{end}""#) } else { String::new() };
    server.wire.result(id, &format!(r#"{{"tasks":[{}]{next},"x":1.10}}"#, tasks.join(",")));
}
