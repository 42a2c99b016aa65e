//! One shared server: its process, its handshake, and its end.

use super::session_table::{Competition, Leftovers, SessionId, SessionTable};
use super::unshareable::Unshareable;
use crate::attach::{SERVER_ENDED, ServerIdentity};
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use process::child::{STDERR_TAIL_LINES, drained, end_of_output};
use process::server_log::ServerLog;
use process::stderr::StderrTail;
use process::warden::{ProcessHandle, SpawnedProcess, StopTimeouts};
use serde_json::json;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use wire::connection::{self, ConnectionHandler};
use wire::lines::LineReader;
use wire::malformed::repaired;
use wire::output::{Output, PollableFd, Writer};
use wire::peer::{CallError, CallOptions, Deadlines, Incoming, Peer};
use wire::protocol::code;
use wire::protocol::methods::{Method, notification};
use wire::{MessageError, Raw, Reply, error_object, raw};

/// How long a server is kept after its last session: a client that restarts finds it.
const LINGER: Duration = Duration::from_secs(2);
/// Longer than any instance waits for an answer. Instances enforce their own limits and cancel.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(3700);

/// One shared server.
pub(super) struct SharedServer {
    /// What it is.
    pub(super) identity: Arc<ServerIdentity>,
    /// The pid of its process, for display.
    pub(super) pid: u32,
    /// Whether its process was started without its launcher.
    pub(super) is_direct: bool,
    /// The connection to its process.
    pub(super) peer: Arc<Peer>,
    /// Its sessions.
    pub(super) table: Mutex<SessionTable<Arc<Peer>>>,
    /// The number of its sessions.
    session_count: watch::Sender<usize>,
    /// The last attempt of the handshake: `None` until it is answered.
    handshake: Mutex<Option<watch::Receiver<Option<Reply>>>>,
    /// The servers that must not be shared.
    unshareable: Arc<Unshareable>,
    /// What it writes to stderr, and what it sends that belongs to no session.
    pub(super) log: ServerLog,
}

/// The process of a server, and the tasks that it needs.
pub(super) struct ServerIo {
    stdout: Receiver,
    stderr: Receiver,
    writer: Writer,
    deadlines: Deadlines,
    handle: ProcessHandle,
}

impl SharedServer {
    /// Makes a server of a process. `is_direct`: it was started without its launcher.
    pub(super) fn new(
        identity: Arc<ServerIdentity>,
        unshareable: Arc<Unshareable>,
        process: SpawnedProcess,
        is_direct: bool,
    ) -> (Arc<Self>, ServerIo) {
        let SpawnedProcess { pid, stdin, stdout, stderr, handle } = process;
        let (output, writer) = Output::direct(PollableFd::Pipe(stdin));
        let (peer, deadlines) = Peer::new(output);
        peer.accept_batches();
        let server = Self {
            identity,
            pid,
            is_direct,
            peer,
            table: Mutex::default(),
            session_count: watch::Sender::new(0),
            handshake: Mutex::default(),
            unshareable,
            log: ServerLog::default(),
        };
        (Arc::new(server), ServerIo { stdout, stderr, writer, deadlines, handle })
    }

    /// Runs until the process has ended by itself, or no session has used it for `LINGER`. Nothing of it is left then.
    pub(super) async fn run(&self, process: ServerIo) {
        let ServerIo { stdout, stderr, writer, deadlines, handle } = process;
        let tail = StderrTail::default();
        let mut lines = LineReader::new(Box::new(stdout), self.identity.max_message_bytes);
        let following = async {
            tail.clone().follow(stderr, self.log.clone()).await;
            pending::<()>().await;
        };
        let writing = async {
            // A server that closed its stdin may still answer.
            drop(writer.run().await);
            pending::<()>().await;
        };
        // A set polls its future when that was woken, and not each time that a message comes.
        let mut ended = FuturesUnordered::from_iter([async {
            tokio::select! {
                () = drained(&handle) => true,
                () = self.unused() => false,
                () = following => true,
                () = writing => true,
                () = deadlines.run() => true,
            }
        }]);
        let warned_of_bytes = AtomicBool::new(false);
        let mut reader =
            ServerReader { server: self, is_after_answer: false, postponed: None, warned_of_bytes };
        let ending = tokio::select! {
            biased;
            ending = connection::run(&mut reader, &self.peer, &mut lines) => Some(ending),
            Some(has_ended) = ended.next() => has_ended.then_some(Ok(())),
        };
        if let Some(ending) = ending {
            let how = match ending {
                Ok(()) => end_of_output(self.pid, &handle).await.1,
                Err(unread) => unread.to_string(),
            };
            self.end_sessions(&how, &tail.last_lines(STDERR_TAIL_LINES));
        }
        self.peer.end();
        self.peer.output().close();
        handle.stop(StopTimeouts::ORDINARY).await;
    }

    fn handle(&self, incoming: Incoming) {
        match incoming {
            Incoming::Handled | Incoming::Unmatched { .. } => {}
            Incoming::Request(request) => self.answer(&request),
            Incoming::Notification { method, params } => self.route(&method, params.as_ref()),
            Incoming::Malformed(error, _) => {
                tracing::debug!(?error, "skipped a line that is not a message");
            }
        }
    }

    /// Returns when the server had no session for a while and accepts no more.
    async fn unused(&self) {
        let mut count = self.session_count.subscribe();
        loop {
            // The sender is ours, so waiting never fails.
            count.wait_for(|count| *count == 0).await.ok();
            tokio::select! {
                _ = count.changed() => {}
                () = sleep(LINGER) => {
                    if self.table.lock().close_if_empty() {
                        return;
                    }
                }
            }
        }
    }

    /// Tells every session how the process ended, and ends it.
    fn end_sessions(&self, how: &str, stderr: &str) {
        let params = Raw::from(json!({ "how": how, "stderr": stderr }).to_string());
        for session in self.table.lock().close() {
            session.notify(SERVER_ENDED, Some(params.clone()));
            session.output().close();
        }
    }

    /// Returns whether it takes new sessions.
    pub(super) fn accepts_sessions(&self) -> bool {
        !self.table.lock().is_closed()
    }

    /// Adds a session. Returns false if the server ends.
    pub(super) fn add_session(&self, id: SessionId, peer: Arc<Peer>) -> bool {
        let is_added = self.table.lock().add(id, peer);
        if is_added {
            self.session_count.send_modify(|count| *count += 1);
        }
        is_added
    }

    /// Removes a session, and cancels its subscriptions and tasks at the server unless another session needs them.
    pub(super) fn remove_session(&self, id: SessionId) {
        let Leftovers { unsubscribe, cancel_tasks, level } = self.table.lock().remove(id);
        for uri in unsubscribe {
            self.peer.send(Method::ResourcesUnsubscribe.name(), json!({ "uri": uri }).to_string().into());
        }
        for task in cancel_tasks {
            self.peer.send(Method::TasksCancel.name(), json!({ "taskId": task }).to_string().into());
        }
        if let Some(level) = level {
            self.peer
                .send(Method::LoggingSetLevel.name(), json!({ "level": level.name() }).to_string().into());
        }
        self.session_count.send_modify(|count| *count -= 1);
    }

    /// Notes that a session has sent a request, which is open until the result is dropped.
    pub(super) fn begin_request(&self, session: SessionId) -> UnansweredRequest<'_> {
        let competition = self.table.lock().request_began(session, Instant::now());
        UnansweredRequest { server: self, session, competition }
    }

    /// Makes every later session with this server private.
    pub(super) fn mark_unshareable(&self, reason: &str) {
        self.unshareable.add(&self.identity, reason);
    }

    /// Answers the `initialize` of a session: the first one is sent to the server, the others get its answer. An
    /// attempt that the server refused is followed by another one, which may name another revision. Never completes if
    /// the server ends: the session ends, too.
    pub(super) async fn initialize(self: Arc<Self>, params: Option<Raw>) -> Reply {
        let mut attempt = {
            let mut last = self.handshake.lock();
            match &*last {
                Some(attempt) if !matches!(&*attempt.borrow(), Some(Err(_))) => attempt.clone(),
                _ => {
                    let (sender, attempt) = watch::channel(None);
                    *last = Some(attempt.clone());
                    // A task of its own, because the session that began it may end first.
                    tokio::spawn(self.clone().shake_hands(params, sender));
                    attempt
                }
            }
        };
        let answered = attempt.wait_for(Option::is_some).await.map(|reply| reply.clone());
        match answered {
            Ok(Some(reply)) => reply,
            // The server has ended, and with it the session.
            _ => pending().await,
        }
    }

    async fn shake_hands(self: Arc<Self>, params: Option<Raw>, answer: watch::Sender<Option<Reply>>) {
        // What the server asked could not be attributed to a session, so it is offered nothing to ask for.
        let params = params.map(|params| raw::set(&params, "capabilities", b"{}"));
        let options = CallOptions { cancellable: false, ..CallOptions::within(MAX_WAIT) };
        let outcome = self.peer.call(Method::Initialize.name(), params, options).await;
        if let Some(reply) = reply_of(outcome) {
            if reply.is_ok() {
                self.peer.notify(notification::INITIALIZED, None);
            }
            answer.send_replace(Some(reply));
        }
    }
}

/// Reads the messages of a server.
struct ServerReader<'s> {
    server: &'s SharedServer,
    /// Whether the last message was an answer.
    is_after_answer: bool,
    /// A message after an answer, which the caller has not seen yet.
    postponed: Option<Incoming>,
    /// Whether the log has said that the server sends bytes that are no UTF-8.
    warned_of_bytes: AtomicBool,
}

impl ConnectionHandler for ServerReader<'_> {
    const IS_SERVER: bool = true;

    async fn ready(&mut self, _: &mut LineReader) -> bool {
        if let Some(incoming) = self.postponed.take() {
            // The caller of the answered request runs first, so that this message neither overtakes the answer nor counts
            // as sent during the request.
            tokio::task::yield_now().await;
            self.is_after_answer = false;
            self.server.handle(incoming);
        }
        true
    }

    async fn wait_for<T: Send>(&mut self, message: impl Future<Output = T> + Send) -> Option<T> {
        Some(message.await)
    }

    fn handle_message(&mut self, incoming: Incoming, lines: &mut LineReader) {
        if let Incoming::Malformed(MessageError::NotJson, line) = &incoming
            && let Some(line) = repaired(line, &self.warned_of_bytes)
        {
            return lines.put_back(Ok(line));
        }
        let is_answer = matches!(incoming, Incoming::Handled);
        if self.is_after_answer && !is_answer {
            self.postponed = Some(incoming);
            return;
        }
        self.is_after_answer = is_answer;
        self.server.handle(incoming);
    }

    fn is_ready(&self) -> bool {
        self.postponed.is_none()
    }
}

/// A request that the server has not answered.
pub(super) struct UnansweredRequest<'s> {
    server: &'s SharedServer,
    session: SessionId,
    /// How the other sessions used the server when it came.
    pub(super) competition: Competition,
}

impl Drop for UnansweredRequest<'_> {
    fn drop(&mut self) {
        self.server.table.lock().request_ended(self.session);
    }
}

/// Makes the answer to a session of the outcome of a call. `None`: the server has ended; its sessions end, too.
pub(super) fn reply_of(outcome: Result<Reply, CallError>) -> Option<Reply> {
    match outcome {
        Ok(reply) => Some(reply),
        Err(CallError::Closed { .. }) => None,
        Err(error) => Some(Err(error_object(code::INTERNAL_ERROR, &error.to_string(), None))),
    }
}
