//! `--tasks`: calls that are answered with a task, as in 2025-11-25 and as in the extension of 2026-07-28.
//!
//! Tools: `task_required`, `task_optional` and `task_forbidden`. Their result has their arguments as text. Arguments:
//! with `"hold": true` a task works until `release` is called or it is cancelled; with `"ask": KINDS` it first sends
//! requests to the client; `"outcome": "isError"` or `"error"` sets how it ends; with `"log": true` it sends a log
//! message.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::spawn;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::input_requests::{self, InputRequest};
use crate::server::Server;
use crate::stateless::{TASKS_EXTENSION, notify, send_missing_capability, with_meta};
use crate::to_value;
use crate::wire::quote;

/// The error for a task id that is unknown.
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

    fn is_terminal(self) -> bool {
        !matches!(self, Self::Working | Self::InputRequired)
    }
}

struct Task {
    id: String,
    status: Status,
    /// The time to live that the client requested, as JSON.
    ttl: String,
    /// How often the status has changed.
    changes: usize,
    /// `"result":…` or `"error":…`. Empty: the task has not ended, or was cancelled.
    outcome: String,
    /// The `inputRequests` that the task waits for, in the stateless era.
    input_requests: String,
    /// The `inputResponses` to them.
    input_responses: Option<String>,
    is_stateless: bool,
}

#[derive(Default)]
struct TaskState {
    /// By task number.
    tasks: Vec<Task>,
    /// `release` was called.
    is_released: bool,
}

#[derive(Default)]
/// All tasks of the process.
pub(crate) struct Tasks {
    state: Mutex<TaskState>,
    /// Notified after each change of the state.
    changed: Condvar,
}

impl Tasks {
    /// Reads the task `number`.
    fn read<T>(&self, number: usize, read: impl FnOnce(&Task) -> T) -> T {
        read(&self.state.lock().unwrap().tasks[number])
    }

    /// Waits until the task `number` has ended, or `is_ready` of it and of whether `release` was called.
    fn wait_until(&self, number: usize, is_ready: impl Fn(&Task, bool) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !state.tasks[number].status.is_terminal() && !is_ready(&state.tasks[number], state.is_released)
        {
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// The definitions of the tools, as JSON.
pub(crate) fn tools() -> impl Iterator<Item = String> {
    ["required", "optional", "forbidden"].into_iter().map(|support| {
        format!(
            r#"{{"name":"task_{support}","inputSchema":{{"type":"object"}},"execution":{{"taskSupport":"{support}","x-unknown":1.10}}}}"#
        )
    }).chain([r#"{"name":"release","description":"Ends tasks that are held.","inputSchema":{"type":"object"}}"#.to_owned()])
}

#[derive(Deserialize)]
struct CallParams<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

/// Handles a call of one of these tools, or one that asks for a task. Returns `false` if it is neither.
pub(crate) fn handle_call(server: &Arc<Server>, id: &str, params: &str) -> bool {
    if !server.flags.has("--tasks") {
        return false;
    }
    let Ok(params) = serde_json::from_str::<CallParams<'_>>(params) else { return false };
    if params.name == "release" {
        server.tasks.state.lock().unwrap().is_released = true;
        server.tasks.changed.notify_all();
        server.wire.result(id, &crate::tools::text_result("released"));
        return true;
    }
    let arguments = params.arguments.map_or("{}", RawValue::get).to_owned();
    let capabilities = server.wire.stateless.capabilities(id);
    let is_stateless = capabilities.is_some();
    let wants_task = match &capabilities {
        Some(capabilities) => !capabilities["extensions"][TASKS_EXTENSION].is_null(),
        None => params.task.is_some(),
    };
    let is_task = match &*params.name {
        "task_required" if !wants_task => {
            match capabilities {
                Some(_) => send_missing_capability(server, id, &json!({"extensions": {TASKS_EXTENSION: {}}})),
                None => {
                    server.wire.error(id, r#"{"code":-32601,"message":"Method not found: task required"}"#);
                }
            }
            return true;
        }
        "task_required" | "task_optional" => wants_task,
        _ if wants_task && !is_stateless => {
            server.wire.error(id, r#"{"code":-32601,"message":"Method not found: task forbidden"}"#);
            return true;
        }
        "task_forbidden" => false,
        _ => return false,
    };
    if is_task {
        create(server, id, params.task, arguments, is_stateless);
    } else {
        send_outcome(server, id, &outcome(&arguments, None));
    }
    true
}

/// Creates a task, answers the call with it and runs it in a thread.
fn create(
    server: &Arc<Server>,
    id: &str,
    task_params: Option<&RawValue>,
    arguments: String,
    is_stateless: bool,
) {
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
            ttl: to_value(task_params)["ttl"]
                .as_u64()
                .map_or_else(|| "null".to_owned(), |ttl| ttl.to_string()),
            changes: 0,
            outcome: String::new(),
            input_requests: String::new(),
            input_responses: None,
            is_stateless,
        });
        number
    };
    let task = server.tasks.read(number, Task::members);
    let result = match is_stateless {
        true => format!(r#"{{"resultType":"task",{task}}}"#),
        false => format!(
            r#"{{"task":{{{task}}},"_meta":{{"io.modelcontextprotocol/model-immediate-response":"It runs.","x/y":1.10}},"x-unknown":1.10}}"#
        ),
    };
    server.wire.result(id, &result);
    let server = server.clone();
    spawn(move || run(&server, number, &arguments));
}

impl Task {
    /// The members that describe the task, without its outcome.
    fn members(&self) -> String {
        let (ttl_name, poll) =
            if self.is_stateless { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
        let (id, status, changes, ttl) = (quote(&self.id), self.status.name(), self.changes, &self.ttl);
        format!(
            r#""taskId":{id},"status":"{status}","statusMessage":"caf\u00e9 {changes}","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:0{changes}Z","{ttl_name}":{ttl},"{poll}":10,"x-unknown":{{"exact":1.10,"big":123456789012345678901234567890}}"#
        )
    }

    /// The task as an object, with the members that the extension adds.
    fn to_json(&self) -> String {
        let added = match self.status {
            Status::InputRequired if self.is_stateless => {
                format!(r#","inputRequests":{}"#, self.input_requests)
            }
            Status::Completed | Status::Failed if self.is_stateless => format!(",{}", self.outcome),
            _ => String::new(),
        };
        format!("{{{}{added}}}", self.members())
    }
}

fn run(server: &Server, number: usize, arguments: &str) {
    let args: Value = serde_json::from_str(arguments).unwrap_or_default();
    let responses = (!args["ask"].is_null()).then(|| {
        let kinds = input_requests::parse_kinds(&args["ask"]);
        request_input(server, number, &input_requests::of_kinds(kinds.iter().map(String::as_str)))
    });
    if args["log"] == true {
        let task = task_id(server, number);
        let params = with_meta(r#"{"level":"info","data":"on the way"}"#, &related_task(&task));
        server.wire.notify("notifications/message", &params);
    }
    if args["hold"] == true {
        server.tasks.wait_until(number, |_, is_released| is_released);
    }
    let outcome = outcome(arguments, responses.as_deref());
    let is_error =
        outcome.starts_with(r#""error""#) || (args["outcome"] == "isError" && !is_stateless(server, number));
    set_status(server, number, if is_error { Status::Failed } else { Status::Completed }, |task| {
        task.outcome = outcome;
    });
}

/// `"result":…` or `"error":…`, as the arguments say.
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

/// Requests input from the client and waits for its responses.
fn request_input(server: &Server, number: usize, requests: &[InputRequest]) -> String {
    let json = input_requests::to_json(requests);
    set_status(server, number, Status::InputRequired, |task| task.input_requests = json);
    let responses = if is_stateless(server, number) {
        server.tasks.wait_until(number, |task, _| task.input_responses.is_some());
        server.tasks.read(number, |task| task.input_responses.clone().unwrap_or_default())
    } else {
        let task = task_id(server, number);
        input_requests::send_and_wait(server, requests, Some(&task))
    };
    set_status(server, number, Status::Working, |_| ());
    responses
}

/// The id of a task, as JSON.
fn task_id(server: &Server, number: usize) -> String {
    server.tasks.read(number, |task| quote(&task.id))
}

fn is_stateless(server: &Server, number: usize) -> bool {
    server.tasks.read(number, |task| task.is_stateless)
}

/// The member of `_meta` that names a task, whose id is JSON.
fn related_task(task: &str) -> String {
    format!(r#""io.modelcontextprotocol/related-task":{{"taskId":{task}}}"#)
}

/// Changes the status of a task that has not ended, and sends the notification about it. Returns `false` if it has.
fn set_status(server: &Server, number: usize, status: Status, update: impl FnOnce(&mut Task)) -> bool {
    let mut state = server.tasks.state.lock().unwrap();
    let task = &mut state.tasks[number];
    if task.status.is_terminal() {
        return false;
    }
    task.status = status;
    task.changes += 1;
    update(task);
    // The notification goes out before another thread sees the change.
    let method = if task.is_stateless { "notifications/tasks" } else { "notifications/tasks/status" };
    notify(server, "", method, &task.to_json());
    server.tasks.changed.notify_all();
    true
}

#[derive(Deserialize)]
struct TaskUpdate<'a> {
    #[serde(borrow, rename = "inputResponses")]
    responses: Option<&'a RawValue>,
}

/// Handles `tasks/*`. Returns `false` if the method is unknown.
pub(crate) fn handle(server: &Arc<Server>, id: &str, method: &str, params: Option<&RawValue>) -> bool {
    if !server.flags.has("--tasks") || !method.starts_with("tasks/") {
        return false;
    }
    let (raw, params) = (params.map_or("{}", RawValue::get), to_value(params));
    let is_stateless_request = server.wire.stateless.contains(id);
    let found = server.tasks.state.lock().unwrap().tasks.iter().position(|task| params["taskId"] == *task.id);
    let found = found.filter(|number| is_stateless(server, *number) == is_stateless_request);
    match (method, found) {
        ("tasks/list", _) => list(server, id, &params),
        ("tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update", None) => {
            server.wire.error(id, NOT_FOUND);
        }
        ("tasks/get", Some(number)) => server.wire.result(id, &server.tasks.read(number, Task::to_json)),
        ("tasks/result", Some(number)) => {
            let (server, id) = (server.clone(), id.to_owned());
            spawn(move || send_result(&server, &id, number));
        }
        ("tasks/cancel", Some(number)) => {
            let is_cancelled = set_status(server, number, Status::Cancelled, |_| ());
            match (is_stateless_request, is_cancelled) {
                (true, _) => server.wire.result(id, "{}"),
                (false, true) => server.wire.result(id, &server.tasks.read(number, Task::to_json)),
                (false, false) => {
                    server
                        .wire
                        .error(id, r#"{"code":-32602,"message":"Cannot cancel a task that has ended"}"#);
                }
            }
        }
        ("tasks/update", Some(number)) if is_stateless_request => {
            let responses = serde_json::from_str(raw).unwrap_or(TaskUpdate { responses: None }).responses;
            server.tasks.state.lock().unwrap().tasks[number].input_responses =
                Some(responses.map_or("{}", RawValue::get).to_owned());
            server.tasks.changed.notify_all();
            server.wire.result(id, "{}");
        }
        _ => return false,
    }
    true
}

/// Waits for the end of a task and answers with the result that its call would have had.
fn send_result(server: &Server, id: &str, number: usize) {
    server.tasks.wait_until(number, |_, _| false);
    let (outcome, task) = server.tasks.read(number, |task| (task.outcome.clone(), quote(&task.id)));
    match outcome.strip_prefix(r#""result":"#) {
        Some(result) => {
            send_outcome(server, id, &format!(r#""result":{}"#, with_meta(result, &related_task(&task))));
        }
        None if outcome.is_empty() => {
            server.wire.error(id, r#"{"code":-32603,"message":"The task was cancelled"}"#);
        }
        None => send_outcome(server, id, &outcome),
    }
}

/// Answers with `"result":…` or `"error":…`.
fn send_outcome(server: &Server, id: &str, outcome: &str) {
    match outcome.strip_prefix(r#""result":"#) {
        Some(result) => server.wire.result(id, result),
        None => server.wire.error(id, outcome.strip_prefix(r#""error":"#).unwrap_or_default()),
    }
    server.answered_calls.fetch_add(1, Ordering::Relaxed);
}

/// Answers with a page of the tasks.
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
    let tasks: Vec<_> = (start..end).map(|number| server.tasks.read(number, Task::to_json)).collect();
    let next = if end < count { format!(r#","nextCursor":"opaque:{end}""#) } else { String::new() };
    server.wire.result(id, &format!(r#"{{"tasks":[{}]{next},"x":1.10}}"#, tasks.join(",")));
}
