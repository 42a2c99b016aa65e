//! One session: an instance that uses a shared server.
//!
//! Requests are forwarded with an id and a progress token of the host's own (`wire/peer.rs`), in the order in which they
//! come. The session answers some itself: `initialize`, and what concerns the state that sessions share.

use super::registry::Registry;
use super::server::{MAX_WAIT, SharedServer, reply_of};
use super::session_table::{Competition, SessionId};
use crate::attach::{AttachReply, AttachRequest, Declined, MAX_MESSAGE_BYTES};
use crate::challenge::{self, PeerProcess, Question};
use crate::confinement::Confinement;
use crate::pipes::{self, SessionPipes};
use futures_util::stream::{FuturesUnordered, StreamExt};
use process::server_log::READ_LOG;
use process::warden::raise_nofile;
use std::borrow::Cow;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use wire::body::Body;
use wire::connection::{self, ConnectionHandler};
use wire::inbound::InboundRequests;
use wire::lines::LineReader;
use wire::output::{Output, PollableFd};
use wire::params::Params;
use wire::peer::{CallError, CallOptions, Incoming, Peer, Progress};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{LogSeverity, code};
use wire::{Raw, Reply, Request, error_object, raw};

/// How long attaching may take. The instance waits no longer.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest request to attach, in bytes. No program can be started with more arguments and variables.
const MAX_REQUEST_BYTES: usize = 8 << 20;
/// How long a request may wait behind another session's until its instance gets a process of its own next time.
const MAX_WAIT_BEHIND: Duration = Duration::from_secs(1);
/// How many requests of one session may be open. Further ones are refused.
const MAX_OPEN_REQUESTS: usize = 1024;
/// How many requests of one session the server works on while other sessions use it. The others wait, so that a session
/// with many requests does not fill the server's queue.
const FAIR_SHARE: usize = 4;
/// How many requests of one session the host reads ahead meanwhile.
const READ_AHEAD: usize = 2 * FAIR_SHARE;
/// The number of bytes that may wait for a session that does not read. Above it the session is ended, because a server
/// must not wait for one of its sessions. A larger message still passes if nothing else waits.
const MAX_UNREAD_BYTES: usize = 8 << 20;

/// One session.
struct HostSession {
    id: SessionId,
    /// The process of the instance.
    instance: u32,
    /// The connection to the instance.
    peer: Arc<Peer>,
    server: Arc<SharedServer>,
    registry: Arc<Registry>,
    /// Has a permit for each request that the server may work on while others use it.
    fair_share: Semaphore,
}

/// Serves a session until one side ends it. `own` is what confines the host.
pub(super) async fn serve(socket: UnixStream, registry: Arc<Registry>, own: Arc<Confinement>) {
    if let Err(error) = try_serve(socket, registry, &own).await {
        tracing::debug!(%error, "a session was not accepted");
    }
}

async fn try_serve(mut socket: UnixStream, registry: Arc<Registry>, own: &Confinement) -> io::Result<()> {
    let client = timeout(ATTACH_TIMEOUT, verify(&mut socket, own)).await??;
    let (attached, answer) = match timeout(ATTACH_TIMEOUT, find_server(&socket, &registry, client)).await? {
        Ok(attached) => {
            let (server, is_new) = (&attached.server, attached.is_new);
            let answer = AttachReply::Attached { pid: server.pid, is_direct: server.is_direct, is_new };
            (Some(attached), answer)
        }
        Err(reason) => (None, AttachReply::Refused(reason)),
    };
    let answer = serde_json::to_string(&answer)? + "\n";
    timeout(ATTACH_TIMEOUT, socket.write_all(answer.as_bytes())).await??;
    drop(socket);
    let Some(AttachedClient { server, pipes, instance, .. }) = attached else { return Ok(()) };
    let mut lines = LineReader::new(Box::new(pipes.input), MAX_MESSAGE_BYTES);
    let (output, writer) = Output::direct(PollableFd::Pipe(pipes.output));
    output.set_limit(MAX_UNREAD_BYTES);
    let id = registry.new_session_id();
    let (peer, deadlines) = Peer::new(output.clone());
    let session = Arc::new(HostSession {
        id,
        instance,
        peer,
        server,
        registry,
        fair_share: Semaphore::new(FAIR_SHARE),
    });
    if !session.server.add_session(id, session.peer.clone()) {
        // The server ends at this moment. The instance starts one of its own.
        return Ok(());
    }
    let _removed_at_the_end = RemovedAtTheEnd(session.clone());
    // A set polls its future when that was woken, and not each time that a message comes.
    let mut ended = FuturesUnordered::from_iter([async {
        tokio::select! {
            () = deadlines.run() => {}
            // The instance is gone, or the server has ended and everything is written.
            _ = writer.run() => {}
            () = output.overflowed() => tracing::warn!("ended a session that does not read its answers"),
        }
    }]);
    let mut reader = SessionReader::new(session.clone());
    tokio::select! {
        biased;
        _ = connection::run(&mut reader, &session.peer, &mut lines) => {}
        _ = ended.next() => {}
    }
    Ok(())
}

/// Returns whether the process that connected has our rights, or why it is refused. The caller limits the wait.
///
/// # Errors
///
/// Fails if it does not prove that it is the process that the kernel tells, or does not ask us for the same proof.
async fn verify(socket: &mut UnixStream, own: &Confinement) -> io::Result<Result<(), Declined>> {
    let client = PeerProcess::of(socket)?;
    let verdict = own.check_unconfined().and_then(|()| own.check_client(client.pid, client.uid));
    // A client with the capability has the rights of the host, or is refused.
    let question = if own.has_sys_admin() { Question::in_a_file_name()? } else { Question::sent_directly() };
    challenge::challenge(socket, &client, &question).await?;
    challenge::send_back(socket).await?;
    Ok(verdict)
}

/// What a session needs.
struct AttachedClient {
    server: Arc<SharedServer>,
    /// Whether the server was started for it.
    is_new: bool,
    pipes: SessionPipes,
    /// The process of the instance.
    instance: u32,
}

/// Reads what the instance asks for, and finds the server, or starts it, if the instance may use it. The caller limits
/// the wait.
///
/// # Errors
///
/// Fails with the reason why it is not shared.
async fn find_server(
    socket: &UnixStream,
    registry: &Arc<Registry>,
    verdict: Result<(), Declined>,
) -> Result<AttachedClient, String> {
    let received = pipes::receive(socket, MAX_REQUEST_BYTES).await;
    let (line, ends) = received.map_err(|error| format!("the request: {error}"))?;
    let request = serde_json::from_slice(&line).map_err(|error| format!("the request: {error}"))?;
    let AttachRequest { server, without_launcher, nofile, instance } = request;
    verdict.map_err(|declined| declined.0)?;
    let pipes = SessionPipes::from_ends(ends).map_err(|error| format!("the pipes: {error}"))?;
    if nofile != raise_nofile() {
        return Err("the two processes differ in: the limit of open files".to_owned());
    }
    let (server, is_new) = registry.find(&Arc::new(server), without_launcher, instance).await?;
    Ok(AttachedClient { server, is_new, pipes, instance })
}

/// Removes a session from its server when it is dropped.
struct RemovedAtTheEnd(Arc<HostSession>);

impl Drop for RemovedAtTheEnd {
    fn drop(&mut self) {
        self.0.server.remove_session(self.0.id);
    }
}

/// Reads the messages of a session.
struct SessionReader {
    session: Arc<HostSession>,
    /// The requests that are not answered yet. They are cancelled when the connection ends.
    requests: InboundRequests,
    /// Whether there was a line that is not a message, which ends the session.
    is_broken: bool,
}

impl SessionReader {
    fn new(session: Arc<HostSession>) -> Self {
        let internal = error_object(code::INTERNAL_ERROR, "internal error in dynamic-mcp", None);
        let requests = InboundRequests::new(session.peer.clone(), MAX_OPEN_REQUESTS, internal);
        Self { session, requests, is_broken: false }
    }

    /// Returns whether no more is read until a request has ended, because others use the server.
    fn must_wait(&self) -> bool {
        self.requests.len() >= READ_AHEAD && self.session.is_contended()
    }
}

impl ConnectionHandler for SessionReader {
    const MESSAGES_PER_TURN: usize = 8;

    async fn ready(&mut self, lines: &mut LineReader) -> bool {
        while !self.is_broken && self.must_wait() {
            // The wait is bounded, because a later message may cancel the request that the others wait for.
            let ended = timeout(MAX_WAIT_BEHIND, self.requests.ended());
            tokio::select! {
                ended = ended => if ended.is_err() { break },
                () = lines.ended() => return false,
            }
        }
        // An instance that does not read its answers gets no more of its requests served.
        !self.is_broken && connection::ready_or_ended(self.session.peer.output(), lines).await
    }

    async fn wait_for<T: Send>(&mut self, message: impl Future<Output = T> + Send) -> Option<T> {
        tokio::select! {
            biased;
            () = self.requests.serve() => None,
            message = message => Some(message),
        }
    }

    fn handle_message(&mut self, incoming: Incoming, _: &mut LineReader) {
        match incoming {
            Incoming::Malformed(..) => self.is_broken = true,
            Incoming::Handled | Incoming::Unmatched { .. } => {}
            Incoming::Request(request) => {
                let id = request.id.clone();
                if !self.requests.reject_excess(&id, 0) {
                    self.requests.start(id, Box::pin(self.session.clone().answer(request)));
                }
            }
            Incoming::Notification { method, params } => {
                // The host has sent `notifications/initialized` itself, and no server knows of roots.
                if let (notification::CANCELLED, Some(params)) = (method.as_str(), params) {
                    self.requests.cancel(params);
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        !self.is_broken && self.session.peer.output().is_ready() && !self.must_wait()
    }
}

impl HostSession {
    /// Returns whether other sessions use the server.
    fn is_contended(&self) -> bool {
        self.server.table.lock().competition(self.id, Instant::now()) != Competition::None
    }

    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        let Request { method, params, .. } = request;
        let text = |name| {
            let text = params.as_ref().and_then(|params| params.get_str(name));
            text.map(Cow::into_owned).unwrap_or_default()
        };
        if *method == *READ_LOG {
            let after = params.as_ref().and_then(|params| params.get("after"));
            let after = after.and_then(|after| serde_json::from_slice(&after).ok());
            return serde_json::to_string(&self.server.log.after(after))
                .map(Raw::from)
                .map_err(|error| error_object(code::INTERNAL_ERROR, &error.to_string(), None));
        }
        match method.known() {
            Some(Method::Initialize) => self.server.clone().initialize(params.as_deref().cloned()).await,
            Some(Method::ServerDiscover | Method::SubscriptionsListen) => {
                let message = "servers without a handshake are not shared";
                Err(error_object(code::METHOD_NOT_FOUND, message, None))
            }
            Some(Method::LoggingSetLevel) => {
                let level = LogSeverity::parse(&text("level"));
                self.set_level(level, &method, params).await
            }
            Some(Method::ResourcesSubscribe) => {
                let uri = text("uri");
                self.server.table.lock().subscribe(self.id, &uri);
                let reply = self.forward(&method, params).await;
                if reply.is_err() {
                    self.server.table.lock().unsubscribe(self.id, &uri);
                }
                reply
            }
            Some(Method::ResourcesUnsubscribe) => {
                let is_last = self.server.table.lock().unsubscribe(self.id, &text("uri"));
                match is_last {
                    true => self.forward(&method, params).await,
                    false => Ok(Raw::from_static(b"{}")),
                }
            }
            Some(Method::TasksGet | Method::TasksResult | Method::TasksCancel)
                if !self.server.table.lock().owns_task(self.id, &text("taskId")) =>
            {
                Err(error_object(code::INVALID_PARAMS, "there is no task with this id", None))
            }
            Some(Method::TasksList) => {
                let reply = self.forward(&method, params).await;
                reply.map(|result| self.own_tasks(&result))
            }
            _ => self.forward(&method, params).await,
        }
    }

    /// Asks the server for a log level if no session has asked for a lower one.
    async fn set_level(&self, level: Option<LogSeverity>, method: &str, params: Option<Params>) -> Reply {
        let Some(level) = level else { return self.forward(method, params).await };
        let lowest = self.server.table.lock().set_level(self.id, level);
        match lowest {
            None => Ok(Raw::from_static(b"{}")),
            Some(lowest) => {
                let name = serde_json::Value::from(lowest.name()).to_string();
                let params = params.map(|params| raw::set(&params, "level", name.as_bytes()).into());
                self.forward(method, params).await
            }
        }
    }

    /// Sends a request to the server and waits for the answer. Never completes if the server ends: the session ends,
    /// too.
    async fn forward(&self, method: &str, params: Option<Params>) -> Reply {
        let token = params.as_ref().and_then(Params::meta).and_then(|meta| meta.get("progressToken"));
        let progress = token.map(|token| Progress::new(self.peer.output().clone(), token));
        let is_task = params.as_ref().is_some_and(|params| params.has("task"));
        let params = params.map(Body::from);
        let options = CallOptions { progress, may_become_task: is_task, ..CallOptions::within(MAX_WAIT) };
        let Some(reply) = reply_of(self.call(method, params, options).await) else {
            // The session ends, too.
            return pending().await;
        };
        if let (true, Ok(result)) = (is_task, &reply)
            && let Some(task) = raw::get(result, "task").and_then(|task| raw::get_str(&task, "taskId"))
        {
            self.server.table.lock().add_task(self.id, task);
        }
        reply
    }

    /// Sends a request to the server when it is this session's turn, or after `MAX_WAIT_BEHIND`, and waits for the
    /// answer. If others had open requests before, and the answer takes longer than `MAX_WAIT_BEHIND`, the instance
    /// gets a process of its own next time.
    ///
    /// # Errors
    ///
    /// That of [`Peer::call`]. An error that the server answers is a `Reply`.
    async fn call(
        &self,
        method: &str,
        params: Option<Body>,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let open = self.server.begin_request(self.id);
        let call = async {
            let permit = match open.competition {
                Competition::None => None,
                // At once, so that it does not come after the `subscribe` of another session.
                _ if method == Method::ResourcesUnsubscribe.name() => None,
                // No longer, because the requests that it waits for may need this one.
                Competition::Recent | Competition::Open => {
                    timeout(MAX_WAIT_BEHIND, self.fair_share.acquire()).await.ok()
                }
            };
            let outcome = self.server.peer.call(method, params, options).await;
            drop(permit);
            outcome
        };
        if open.competition != Competition::Open {
            return call.await;
        }
        let mut call = std::pin::pin!(call);
        tokio::select! {
            biased;
            outcome = &mut call => outcome,
            () = sleep(MAX_WAIT_BEHIND) => {
                self.registry.remember_wait(self.instance, &self.server.identity);
                call.await
            }
        }
    }

    /// Removes the tasks of other sessions from a page of tasks.
    fn own_tasks(&self, page: &Raw) -> Raw {
        let Some(tasks) = raw::elements(page, "tasks") else { return page.clone() };
        let table = self.server.table.lock();
        let is_own =
            |task: &&Raw| raw::get_str(task, "taskId").is_some_and(|id| table.owns_task(self.id, &id));
        let own: Vec<&[u8]> = tasks.iter().filter(is_own).map(|task| &task[..]).collect();
        raw::set(page, "tasks", &raw::array(&own))
    }
}
