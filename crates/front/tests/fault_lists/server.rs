//! The servers of a session, in this process. Each does what its plan and the faults so far make it do, and keeps account
//! of what it was asked.

use crate::list::{Fault, Garbage, Question, ServerEra, ServerPlan};
use futures_util::future::BoxFuture;
use http_client::error::RemoteError;
use parking_lot::Mutex;
use process::child::ProcessEnd;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use upstream::UpstreamError;
use upstream::transport::{
    FailedRequest, Grace, OpenInMemory, OpenTransport, RequestFailures, ServerControl,
};
use wire::Raw;
use wire::output::Output;
use wire::peer::{CallError, RetryHint};

/// Members that must pass byte for byte.
pub(crate) const EXACT: &str = r#"{"zero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"text":"ö ö 😀 \/ \ud800"}"#;
/// The tools that every server has, beside one with its version and one with its own name.
pub(crate) const TOOLS: [&str; 5] = ["echo", "write", "asks", "tasked", "guarded"];
/// A tool whose name is too long for a client.
pub(crate) const LONG_TOOL: &str = "long_name_that_no_client_takes_with_a_group_before_it_12345";
/// How many answers of one connection may be delayed at the same time. More are a mistake of the test.
const MAX_ANSWERS: usize = 100_000;

/// What a server was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) nonce: String,
    pub(crate) tool: String,
    /// The number of its process.
    pub(crate) process: u32,
    pub(crate) at: Instant,
    /// The content of the result, byte for byte.
    pub(crate) content: String,
}

/// The state of one server, whichever process it has.
pub(crate) struct ServerState {
    pub(crate) name: String,
    pub(crate) plan: ServerPlan,
    /// Which lists it has; each number has a tool, a resource and a prompt of its own.
    pub(crate) version: u32,
    /// The version of the last list of tools that was answered, and when that was.
    pub(crate) listed: u32,
    pub(crate) listed_at: Option<Instant>,
    /// The last version that a connection was told of.
    pub(crate) announced: u32,
    pub(crate) is_empty: bool,
    pub(crate) was_ever_empty: bool,
    pub(crate) executions: Vec<Execution>,
    /// The number of processes so far.
    pub(crate) processes: u32,
    /// The processes that ended by themselves.
    pub(crate) crashed: Vec<u32>,
    /// The open connections.
    pub(crate) connections: BTreeMap<u32, Connection>,
    /// In which era it was when its tools were last listed, and what an earlier session can know of that.
    listed_era: Option<ServerEra>,
    known_era: Option<ServerEra>,
    session_began: Instant,
    /// The session in which its tools were last listed.
    listed_in: Instant,
    processes_before: u32,
    /// Whether its entry was edited.
    pub(crate) was_edited: bool,
    /// When something was wrong last.
    pub(crate) trouble: Option<Instant>,
    pub(crate) needs_login: bool,
    /// Whether somebody has logged in since the proxy last used the login.
    pub(crate) has_new_login: bool,
    /// How often something wrote to stderr.
    lines: u32,
    delay: Duration,
    hangs: bool,
    reads_nothing: bool,
    refused_starts: u8,
    start_takes: Duration,
    question: Question,
    errors: u8,
    tasks: HashMap<String, ServerTask>,
    /// What must never be true.
    pub(crate) violations: Vec<String>,
    resumed: Arc<Notify>,
    /// The questions that were asked, for their ids.
    questions: u32,
}

#[derive(Clone)]
struct ServerTask {
    status: &'static str,
    result: String,
    process: u32,
}

/// One open connection.
pub(crate) struct Connection {
    out: mpsc::UnboundedSender<Out>,
    failures: mpsc::Sender<FailedRequest>,
    /// The subscriptions of the stateless era, by id, with their filters.
    subscriptions: Vec<(String, Value)>,
    /// The URIs that were subscribed to.
    pub(crate) uris: Vec<String>,
    handshake: bool,
    /// What the server spoke when it was started.
    era: ServerEra,
    last_answer: String,
}

enum Out {
    Line(Vec<u8>),
    CutAfter(usize),
    End,
}

pub(crate) type Shared = Arc<Mutex<ServerState>>;

impl ServerState {
    pub(crate) fn new(name: String, plan: ServerPlan) -> Shared {
        Arc::new(Mutex::new(Self {
            name,
            plan,
            version: 0,
            listed: 0,
            listed_at: None,
            announced: 0,
            is_empty: false,
            was_ever_empty: false,
            executions: Vec::new(),
            processes: 0,
            crashed: Vec::new(),
            connections: BTreeMap::new(),
            listed_era: None,
            known_era: None,
            session_began: Instant::now(),
            listed_in: Instant::now(),
            processes_before: 0,
            was_edited: false,
            trouble: None,
            needs_login: false,
            has_new_login: false,
            lines: 0,
            delay: Duration::ZERO,
            hangs: false,
            reads_nothing: false,
            refused_starts: 0,
            start_takes: Duration::ZERO,
            question: Question::None,
            errors: 0,
            tasks: HashMap::new(),
            violations: Vec::new(),
            resumed: Arc::default(),
            questions: 0,
        }))
    }

    /// Whether something is wrong, or was wrong within this time.
    pub(crate) fn was_troubled(&self, within: Duration) -> bool {
        self.is_troubled() || self.trouble.is_some_and(|at| at.elapsed() < within)
    }

    fn is_troubled(&self) -> bool {
        self.needs_login || self.has_other_trouble()
    }

    /// Whether anything is wrong but a missing login.
    fn has_other_trouble(&self) -> bool {
        self.hangs
            || self.reads_nothing
            || self.refused_starts > 0
            || self.errors > 0
            || self.is_empty
            || self.delay > Duration::from_secs(1)
            || self.start_takes > Duration::from_secs(1)
    }

    /// Notes that another session begins.
    pub(crate) fn begin_session(&mut self, keeps_cache: bool) {
        self.listed_era = self.listed_era.filter(|_| keeps_cache);
        self.known_era = self.listed_era;
        self.session_began = Instant::now();
        self.processes_before = self.processes;
    }

    /// A server whose era is known from an earlier session is started once, and not first in the wrong era.
    fn check_first_start(&mut self, process: u32) {
        let Some(era) = self.connections.get(&process).map(|connection| connection.era) else { return };
        let is_known = self.known_era == Some(era);
        self.listed_era = Some(era);
        let is_well = self.trouble.is_none_or(|at| at < self.session_began) && !self.is_troubled();
        if is_known
            && is_well
            && !self.was_edited
            && process != self.processes_before + 1
            && self.listed_in != self.session_began
        {
            self.violations.push(format!(
                "{} was started {} times until it worked",
                self.name,
                process - self.processes_before
            ));
        }
        self.listed_in = self.session_began;
    }

    /// Whether the stateless server of the open connection is asked to tell of changes of its lists; `None`: there is no
    /// such server.
    pub(crate) fn is_told_of_lists(&self) -> Option<bool> {
        let connection = self.connections.values().next().filter(|connection| !connection.handshake)?;
        Some(connection.subscriptions.iter().any(|(_, filter)| filter["toolsListChanged"] == true))
    }

    /// Whether it wants a login, has wanted it for so long, and nothing else is wrong.
    pub(crate) fn only_needs_login_for(&self, within: Duration) -> bool {
        self.needs_login && !self.has_other_trouble() && self.trouble.is_none_or(|at| at.elapsed() >= within)
    }

    pub(crate) fn uri(&self, what: &str) -> String {
        format!("mem://{}/{what}", self.name)
    }

    fn heal(&mut self) {
        self.delay = Duration::ZERO;
        self.hangs = false;
        self.reads_nothing = false;
        self.refused_starts = 0;
        self.start_takes = Duration::ZERO;
        self.question = Question::None;
        self.errors = 0;
        self.send_all(|| Out::CutAfter(usize::MAX));
        if self.is_empty {
            self.is_empty = false;
            self.tell_lists();
        }
        if self.needs_login {
            self.log_in();
        }
        self.resumed.notify_waiters();
    }

    pub(crate) fn log_in(&mut self) {
        self.needs_login = false;
        self.trouble = Some(Instant::now());
        self.has_new_login = true;
    }

    /// Applies a fault.
    pub(crate) fn fault(&mut self, fault: Fault) {
        let harmless = matches!(fault, Fault::ChangeLists | Fault::UpdateResource | Fault::Ask(_));
        if !harmless {
            self.trouble = Some(Instant::now());
        }
        match fault {
            Fault::Heal => self.heal(),
            Fault::Delay(ms) => self.delay = Duration::from_millis(ms.into()),
            Fault::Hang => self.hangs = true,
            Fault::StopReading => self.reads_nothing = true,
            Fault::End => self.end(),
            Fault::EndAfter(bytes) => self.send_all(|| Out::CutAfter(bytes.into())),
            Fault::Garbage(garbage) => self.garbage(garbage),
            Fault::Flood(n) => {
                let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flood"}}"#;
                for _ in 0..n {
                    self.send_all(|| Out::Line(log.into()));
                }
            }
            Fault::ChangeLists => {
                self.version += 1;
                self.tell_lists();
            }
            Fault::ChangeListsSilently => self.version += 1,
            Fault::ToggleEmpty => {
                self.is_empty = !self.is_empty;
                self.was_ever_empty = true;
                self.tell_lists();
            }
            Fault::Ask(question) => self.question = question,
            Fault::UpdateResource => self.update(&self.uri("one")),
            Fault::AnswerErrors => self.errors = 3,
            Fault::ExpireLogin => self.needs_login = self.plan.is_remote,
            Fault::RefuseStarts(n) => self.refused_starts = n,
            Fault::SlowStart(ms) => self.start_takes = Duration::from_millis(ms.into()),
            Fault::EndSubscriptions(by_answer) => self.end_subscriptions(by_answer),
            Fault::ChangeEra(era) => {
                self.plan.era = era;
                self.end();
            }
        }
    }

    /// Sends something on every open connection.
    fn send_all(&self, out: impl Fn() -> Out) {
        for connection in self.connections.values() {
            drop(connection.out.send(out()));
        }
    }

    /// Ends the process by itself.
    fn end(&mut self) {
        self.crashed.extend(self.connections.keys());
        self.send_all(|| Out::End);
    }

    fn garbage(&mut self, garbage: Garbage) {
        let line: Vec<u8> = match garbage {
            Garbage::NoJson => b"Listening on port 3000".to_vec(),
            Garbage::HalfMessage => br#"{"jsonrpc":"2.0","id":1,"#.to_vec(),
            Garbage::NoUtf8 => b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}".to_vec(),
            Garbage::UnknownAnswer => br#"{"jsonrpc":"2.0","id":987654,"result":{}}"#.to_vec(),
            Garbage::SecondAnswer => {
                let last = self.connections.values().next_back().map(|c| c.last_answer.clone());
                last.unwrap_or_default().into()
            }
            Garbage::NullId => {
                br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#.to_vec()
            }
            Garbage::EmptyLines => b"\n \n\t\n".to_vec(),
            Garbage::TooLong => vec![b'x'; 300_000],
            Garbage::UnknownRequest => br#"{"jsonrpc":"2.0","id":"q","method":"x/unknown"}"#.to_vec(),
            Garbage::Cancel => {
                br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.to_vec()
            }
        };
        self.send_all(|| Out::Line(line.clone()));
    }

    /// Says that its lists changed, in the way of each connection.
    fn tell_lists(&mut self) {
        let told = |c: &Connection| c.handshake || !c.subscriptions.is_empty();
        if self.connections.values().any(told) {
            self.announced = self.version;
        }
        let lists: &[(&str, &str)] = match self.plan.has_all_lists {
            true => &[
                ("tools", "toolsListChanged"),
                ("resources", "resourcesListChanged"),
                ("prompts", "promptsListChanged"),
            ],
            false => &[("tools", "toolsListChanged")],
        };
        for (list, flag) in lists {
            self.tell_topic(
                &format!("notifications/{list}/list_changed"),
                |filter| filter[*flag] == true,
                None,
            );
        }
    }

    /// Says that a resource changed, to whom subscribed to it.
    pub(crate) fn update(&mut self, uri: &str) {
        let wanted = |filter: &Value| {
            filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(&json!(uri)))
        };
        self.tell_topic("notifications/resources/updated", wanted, Some(uri));
    }

    fn tell_topic(&mut self, method: &str, wanted: impl Fn(&Value) -> bool, uri: Option<&str>) {
        for connection in self.connections.values() {
            let mut params = json!({});
            if let Some(uri) = uri {
                params["uri"] = json!(uri);
            }
            if connection.handshake && uri.is_none_or(|uri| connection.uris.iter().any(|known| known == uri))
            {
                let line = json!({"jsonrpc": "2.0", "method": method, "params": params});
                drop(connection.out.send(Out::Line(line.to_string().into())));
            }
            for (id, _) in connection.subscriptions.iter().filter(|(_, filter)| wanted(filter)) {
                let id: Value = serde_json::from_str(id).unwrap();
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
                let line = json!({"jsonrpc": "2.0", "method": method, "params": params});
                drop(connection.out.send(Out::Line(line.to_string().into())));
            }
        }
    }

    fn end_subscriptions(&mut self, by_answer: bool) {
        for connection in self.connections.values_mut() {
            for (id, _) in std::mem::take(&mut connection.subscriptions) {
                let line = match by_answer {
                    true => format!(
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
                    ),
                    false => format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ),
                };
                drop(connection.out.send(Out::Line(line.into())));
            }
        }
    }

    /// The entries of a list, as JSON.
    fn entries(&self, list: &str) -> Vec<Value> {
        if self.is_empty || (list != "tools" && !self.plan.has_all_lists) {
            return vec![];
        }
        let version = format!("v{}", self.version);
        match list {
            "tools" => {
                let own = format!("only_{}", self.name);
                let long = LONG_TOOL.to_owned();
                let names = TOOLS.iter().map(|name| (*name).to_owned()).chain([own, long, version]);
                let tool = |name: String| {
                    let support = if name == "tasked" { "optional" } else { "forbidden" };
                    json!({
                        "name": name,
                        "description": format!("{name} of {}", self.name),
                        "inputSchema": {"type": "object", "properties": {"nonce": {"type": "string"}, "size": {"type": "integer"}}},
                        "annotations": {"readOnlyHint": name == "echo"},
                        "execution": {"taskSupport": support},
                    })
                };
                names.map(tool).collect()
            }
            "resources" => {
                let entry = |what: &str| json!({"uri": self.uri(what), "name": what});
                vec![entry("one"), entry(&version)]
            }
            "resourceTemplates" => {
                vec![json!({"uriTemplate": format!("{}/{{id}}", self.uri("item")), "name": "item"})]
            }
            _ => vec![json!({"name": "greet"}), json!({"name": version})],
        }
    }
}

/// All servers of a session.
pub(crate) struct Servers(pub(crate) BTreeMap<String, Shared>);

impl OpenInMemory for Servers {
    fn open(
        &self,
        group: &config::GroupName,
        _: &config::ServerConfig,
    ) -> BoxFuture<'static, Result<OpenTransport, UpstreamError>> {
        let state = self.0[group.as_str()].clone();
        Box::pin(async move {
            let takes = {
                let state = state.lock();
                state.start_takes.max(Duration::from_millis(state.plan.start.into()))
            };
            sleep(takes).await;
            let mut server = state.lock();
            if server.refused_starts > 0 {
                server.refused_starts -= 1;
                server.trouble = Some(Instant::now());
                return Err(UpstreamError::Spawn { message: "it cannot be started".to_owned() });
            }
            server.processes += 1;
            let process = server.processes;
            // A new connection to a remote server may open beside the one that drains.
            if !server.connections.is_empty() && !server.plan.is_remote {
                let message = format!("{} has two processes at the same time", server.name);
                server.violations.push(message);
            }
            let era = server.plan.era;
            let (theirs, ours) = duplex(64 << 10);
            let (failures, failed) = mpsc::channel(64);
            let (out, lines) = mpsc::unbounded_channel();
            let (end, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            server.connections.insert(
                process,
                Connection {
                    out,
                    failures,
                    subscriptions: Vec::new(),
                    uris: Vec::new(),
                    handshake: false,
                    era,
                    last_answer: String::new(),
                },
            );
            drop(server);
            let (input, sink) = tokio::io::split(ours);
            let (output, writer) = Output::any(sink);
            let reason = Arc::new(Mutex::new(None));
            let handle = Handle {
                state: state.clone(),
                process,
                end: end.clone(),
                ended: ended.clone(),
                reason: reason.clone(),
            };
            tokio::spawn(async move {
                serve(&state, process, theirs, lines, &end, &reason).await;
                state.lock().connections.remove(&process);
                ended.notify_one();
            });
            Ok(OpenTransport {
                input: Box::new(input),
                output,
                writer,
                handle: Arc::new(handle),
                failures: RequestFailures::new(failed),
            })
        })
    }
}

struct Handle {
    state: Shared,
    process: u32,
    end: Arc<Notify>,
    ended: Arc<Notify>,
    reason: Arc<Mutex<Option<RemoteError>>>,
}

impl ServerControl for Handle {
    fn stderr_tail(&self) -> String {
        let mut state = self.state.lock();
        state.lines += 1;
        // Servers that lack their key say so, with the time.
        match state.is_empty {
            true => format!("{} API key is not set", state.lines),
            false => String::new(),
        }
    }
    fn close_reason(&self) -> Option<RemoteError> {
        self.reason.lock().clone()
    }
    fn connection_end(&self) -> BoxFuture<'_, UpstreamError> {
        let error = match &*self.reason.lock() {
            Some(reason) => UpstreamError::Remote(reason.clone()),
            None => ProcessEnd {
                how: "its process exited with code 1".to_owned(),
                stderr: String::new(),
                withheld: vec![],
            }
            .into(),
        };
        Box::pin(async { error })
    }
    fn stop(&self, _: Grace) -> BoxFuture<'_, ()> {
        let (end, ended, state, process) =
            (self.end.clone(), self.ended.clone(), self.state.clone(), self.process);
        Box::pin(async move {
            end.notify_one();
            if state.lock().connections.contains_key(&process) {
                ended.notified().await;
            }
        })
    }
    fn call_of(&self, id: &Raw) -> Option<Raw> {
        // As a remote server, which asks on the stream of a call: "q-CALL-N".
        let id = std::str::from_utf8(id).ok()?;
        let call = id.strip_prefix("\"q-")?.rsplit_once('-')?.0.replace('\'', "\"");
        self.state.lock().plan.is_remote.then(|| Raw::copy_from_slice(call.as_bytes()))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end.notify_one();
    }
}

/// Serves one connection until one side ends it.
async fn serve(
    state: &Shared,
    process: u32,
    stream: DuplexStream,
    mut lines: mpsc::UnboundedReceiver<Out>,
    end: &Notify,
    reason: &Arc<Mutex<Option<RemoteError>>>,
) {
    let (input, mut sink) = tokio::io::split(stream);
    let mut input = BufReader::new(input).lines();
    let mut answers = JoinSet::new();
    let writing = async {
        let mut room = usize::MAX;
        while let Some(out) = lines.recv().await {
            match out {
                Out::Line(mut line) => {
                    line.push(b'\n');
                    line.truncate(room);
                    room -= if room == usize::MAX { 0 } else { line.len() };
                    if sink.write_all(&line).await.is_err() || room == 0 {
                        break;
                    }
                }
                Out::CutAfter(bytes) => room = bytes,
                Out::End => return,
            }
        }
        if room == 0 {
            state.lock().crashed.push(process);
            state.lock().trouble = Some(Instant::now());
        }
    };
    let reading = async {
        loop {
            let resumed = state.lock().resumed.clone();
            let waiting = resumed.notified();
            if state.lock().reads_nothing {
                waiting.await;
                continue;
            }
            let Ok(Some(line)) = input.next_line().await else { return };
            while answers.try_join_next().is_some() {}
            assert!(answers.len() < MAX_ANSWERS);
            handle(state, process, &line, &mut answers, reason);
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
        () = end.notified() => {}
    }
}

/// Handles one line of the proxy.
fn handle(
    state: &Shared,
    process: u32,
    line: &str,
    answers: &mut JoinSet<()>,
    reason: &Arc<Mutex<Option<RemoteError>>>,
) {
    let message = lossy(line);
    let Some(method) = message["method"].as_str().map(str::to_owned) else { return };
    let mut server = state.lock();
    let Some(id) = message.get("id").map(Value::to_string) else {
        if method == "notifications/cancelled" {
            let ended = message["params"]["requestId"].to_string();
            if let Some(connection) = server.connections.get_mut(&process) {
                connection.subscriptions.retain(|(id, _)| *id != ended);
            }
        }
        return;
    };
    server.has_new_login = false;
    let is_refused = server.plan.refuses_before_login && server.refuses(&message);
    if server.needs_login && !is_refused {
        let handshake = method == "initialize" || method == "server/discover";
        let error = RemoteError::login_needed("run `dynamic-mcp login`");
        let failed = match handshake {
            true => {
                *reason.lock() = Some(error);
                CallError::Closed { sent: false, refusal: None }
            }
            false => CallError::Failed { why: error.to_string(), hint: RetryHint::AfterLogin },
        };
        let id = Some(Raw::copy_from_slice(id.as_bytes()));
        if let Some(connection) = server.connections.get(&process) {
            drop(connection.failures.try_send(FailedRequest { id, error: failed }));
        }
        return;
    }
    let Some(answer) = server.answer(process, &method, &message["params"], &id) else { return };
    let (delay, hangs, resumed) = (server.delay, server.hangs, server.resumed.clone());
    let question =
        (method == "tools/call" && message["params"]["name"] != "tasked").then_some(server.question);
    let question = question.filter(|question| *question != Question::None);
    drop(server);
    let state = state.clone();
    answers.spawn(async move {
        if hangs {
            resumed.notified().await;
        }
        sleep(delay).await;
        let mut server = state.lock();
        if let Some(question) = question {
            server.ask(process, question, &id);
        }
        if method == "tools/list" && answer.contains("\"tools\"") && !answer.contains("nextCursor") {
            server.listed = version_of(&answer).unwrap_or(server.listed);
            server.listed_at = Some(Instant::now());
            server.check_first_start(process);
        }
        if let Some(connection) = server.connections.get_mut(&process) {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#);
            connection.last_answer.clone_from(&line);
            drop(connection.out.send(Out::Line(line.into())));
        }
    });
}

fn is_stateless(method: &str, params: &Value) -> bool {
    !params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() || method == "server/discover"
}

fn version_of(answer: &str) -> Option<u32> {
    answer.split("\"name\":\"v").nth(1)?.split('"').next()?.parse().ok()
}

/// Parses a line of the proxy. Numbers and texts that JSON has, and serde_json has not, are replaced.
pub(crate) fn lossy(line: &str) -> Value {
    let line = line.replace("1e400", "1e300").replace("\\ud800", "?");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("the proxy wrote {line}: {error}"))
}

impl ServerState {
    /// Whether the server does not speak the era of a request.
    fn refuses(&self, request: &Value) -> bool {
        let is_stateless = is_stateless(request["method"].as_str().unwrap_or_default(), &request["params"]);
        matches!(
            (self.plan.era, is_stateless),
            (ServerEra::Handshake | ServerEra::HandshakeByName, true) | (ServerEra::Stateless, false)
        )
    }

    /// Returns `"result":…` or `"error":…`.
    fn answer(&mut self, process: u32, method: &str, params: &Value, id: &str) -> Option<String> {
        let is_stateless = is_stateless(method, params);
        let error =
            |code: i32, message: &str| Some(format!(r#""error":{{"code":{code},"message":"{message}"}}"#));
        match (self.plan.era, is_stateless) {
            (ServerEra::Handshake | ServerEra::HandshakeByName, true) => {
                return error(-32601, "Method not found");
            }
            (ServerEra::Stateless, false) => {
                let supported = r#""data":{"supported":["2026-07-28"]}"#;
                return Some(format!(
                    r#""error":{{"code":-32022,"message":"Unsupported protocol version",{supported}}}"#
                ));
            }
            _ => {}
        }
        if !is_stateless && let Some(connection) = self.connections.get_mut(&process) {
            connection.handshake = true;
        }
        if self.errors > 0 && method == "tools/call" {
            self.errors -= 1;
            self.trouble = Some(Instant::now());
            return Some(format!(r#""error":{{"code":-32000,"message":"out of order","data":{EXACT}}}"#));
        }
        let needs_all = ["resources/", "prompts/"].iter().any(|part| method.starts_with(part));
        if needs_all && !self.plan.has_all_lists {
            return error(-32601, "Method not found");
        }
        let uri = params["uri"].as_str().unwrap_or_default();
        if method.starts_with("resources/") && !uri.is_empty() && !uri.starts_with(&self.uri("")) {
            return error(if is_stateless { -32602 } else { -32002 }, "Resource not found");
        }
        let mut result = match method {
            "initialize" => json!({
                "protocolVersion": if matches!(self.plan.era, ServerEra::BothByName | ServerEra::HandshakeByName) { "2026-07-28" } else { "2025-11-25" },
                "capabilities": self.capabilities(false),
                "serverInfo": {"name": self.name, "version": "1"},
            }),
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities(true),
                "serverInfo": {"name": self.name, "version": "1"},
                "ttlMs": 1000,
                "cacheScope": "private",
            }),
            "ping" | "logging/setLevel" => json!({}),
            "tools/list" => self.page("tools", params),
            "resources/list" => self.page("resources", params),
            "resources/templates/list" => self.page("resourceTemplates", params),
            "prompts/list" => self.page("prompts", params),
            "resources/subscribe" | "resources/unsubscribe" => {
                let uri = uri.to_owned();
                let connection = self.connections.get_mut(&process)?;
                connection.uris.retain(|known| *known != uri);
                if method == "resources/subscribe" {
                    connection.uris.push(uri);
                }
                json!({})
            }
            "subscriptions/listen" => {
                let mut filter = params["notifications"].clone();
                if let Some(uris) = filter["resourceSubscriptions"].as_array_mut() {
                    let own = self.uri("");
                    uris.retain(|uri| {
                        self.plan.has_all_lists && uri.as_str().is_some_and(|uri| uri.starts_with(&own))
                    });
                }
                let connection = self.connections.get_mut(&process)?;
                connection.subscriptions.push((id.to_owned(), filter.clone()));
                let id: Value = serde_json::from_str(id).ok()?;
                let params =
                    json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": filter});
                let line = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
                drop(connection.out.send(Out::Line(line.to_string().into())));
                return None;
            }
            "resources/read" => {
                let text = format!(
                    r#""contents":[{{"uri":"{uri}","text":"read at {}"}}],"exact":{EXACT}"#,
                    self.name
                );
                return Some(complete(&text, is_stateless, true));
            }
            "prompts/get" => json!({"messages": [], "description": format!("prompt of {}", self.name)}),
            "completion/complete" => json!({"completion": {"values": [self.name]}}),
            "tools/call" => return self.call(process, params, is_stateless),
            "tasks/get" | "tasks/result" | "tasks/cancel" => {
                let task = params["taskId"].as_str().unwrap_or_default();
                let Some(known) = self.tasks.get_mut(task).filter(|known| known.process == process) else {
                    return error(-32602, "Unknown task");
                };
                match method {
                    "tasks/result" => {
                        known.status = "completed";
                        return Some(format!(r#""result":{{{}}}"#, known.result));
                    }
                    "tasks/cancel" => known.status = "cancelled",
                    _ => {}
                }
                task_json(task, known.status)
            }
            "tasks/list" => {
                let own = self.tasks.iter().filter(|(_, task)| task.process == process);
                json!({"tasks": own.map(|(id, task)| task_json(id, task.status)).collect::<Vec<_>>()})
            }
            _ => return error(-32601, "Method not found"),
        };
        if is_stateless {
            result["resultType"] = json!("complete");
            if method.ends_with("/list") {
                (result["ttlMs"], result["cacheScope"]) = (json!(1000), json!("private"));
            }
        }
        Some(format!(r#""result":{result}"#))
    }

    fn capabilities(&self, is_stateless: bool) -> Value {
        let mut all = json!({"tools": {"listChanged": true}, "completions": {}});
        if self.plan.has_all_lists {
            all["resources"] = json!({"listChanged": true, "subscribe": true});
            all["prompts"] = json!({"listChanged": true});
        }
        if !is_stateless {
            all["logging"] = json!({});
            all["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        all
    }

    fn page(&self, list: &str, params: &Value) -> Value {
        let entries = self.entries(list);
        let start: usize = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let size = if self.plan.page == 0 { entries.len() } else { usize::from(self.plan.page) };
        let end = entries.len().min(start + size);
        let mut page = json!({list: entries.get(start..end).unwrap_or_default()});
        if end < entries.len() {
            page["nextCursor"] = json!(end.to_string());
        }
        page
    }

    fn call(&mut self, process: u32, params: &Value, is_stateless: bool) -> Option<String> {
        let tool = params["name"].as_str().unwrap_or_default().to_owned();
        let args = &params["arguments"];
        let nonce = args["nonce"].as_str().unwrap_or_default().to_owned();
        let known: Vec<_> = self.entries("tools").iter().map(|tool| tool["name"].clone()).collect();
        if !known.contains(&params["name"]) {
            return Some(format!(r#""error":{{"code":-32602,"message":"Unknown tool: {tool}"}}"#));
        }
        let padding = "x".repeat(args["size"].as_u64().unwrap_or(0) as usize);
        let content = format!(
            r#""content":[{{"type":"text","text":"{nonce}@{} {padding}"}}],"structuredContent":{EXACT}"#,
            self.name
        );
        self.executions.push(Execution {
            nonce: nonce.clone(),
            tool,
            process,
            at: Instant::now(),
            content: content.clone(),
        });
        if !params["task"].is_null() && params["name"] == "tasked" {
            let id = format!("t{}-{}", process, self.tasks.len());
            self.tasks.insert(id.clone(), ServerTask { status: "working", result: content, process });
            return Some(format!(r#""result":{{"task":{}}}"#, task_json(&id, "working")));
        }
        Some(complete(&content, is_stateless, false))
    }

    /// Ends a task, and says so.
    pub(crate) fn end_tasks(&mut self) {
        let mut lines = Vec::new();
        for (id, task) in &mut self.tasks {
            if task.status == "working" {
                task.status = "completed";
                let params = task_json(id, "completed");
                lines.push((
                    task.process,
                    json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params})
                        .to_string(),
                ));
            }
        }
        for (process, line) in lines {
            if let Some(connection) = self.connections.get(&process) {
                drop(connection.out.send(Out::Line(line.into())));
            }
        }
    }

    /// Asks the client something before the call `id` is answered.
    fn ask(&mut self, process: u32, question: Question, call: &str) {
        if self.plan.era == ServerEra::Stateless {
            return;
        }
        let (method, params) = match question {
            Question::None => return,
            Question::Elicitation => (
                "elicitation/create",
                json!({"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}),
            ),
            Question::Sampling => ("sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
            Question::Roots => ("roots/list", json!({})),
            Question::Ping => ("ping", json!({})),
        };
        self.questions += 1;
        let id = format!("q-{}-{}", call.replace('"', "'"), self.questions);
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        if let Some(connection) = self.connections.get(&process) {
            drop(connection.out.send(Out::Line(line.into())));
        }
    }
}

fn task_json(id: &str, status: &str) -> Value {
    let time = "2025-11-25T10:30:00Z";
    json!({"taskId": id, "status": status, "createdAt": time, "lastUpdatedAt": time, "ttl": 3_600_000, "pollInterval": 1000})
}

fn complete(members: &str, is_stateless: bool, is_cacheable: bool) -> String {
    let stateless = match (is_stateless, is_cacheable) {
        (false, _) => "",
        (true, false) => r#","resultType":"complete""#,
        (true, true) => r#","resultType":"complete","ttlMs":1000,"cacheScope":"private""#,
    };
    format!(r#""result":{{{members}{stateless}}}"#)
}
