//! HTTP/2: one connection carries everything, and calls on a connection that ends are repeated only where that is safe.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, mpsc, watch};

use super::Request;
use super::server::default_reply;
use super::tls::private_ca;
use crate::support::{Proxy, ProxyCommand, pure_config, text_of, wait_until};

/// What the server does with a request.
enum Behavior {
    /// Sends the default reply.
    Answer,
    /// Sends the default replies when this many requests have arrived.
    AnswerTogether(Arc<Barrier>),
    /// Sends an event stream with each message as it is set.
    Events(watch::Receiver<String>),
    /// Resets the HTTP/2 stream.
    Reset(Reason),
    /// Accepts no more requests on this connection, and sends the default reply to this one when the value changes.
    ShutDownGracefully(watch::Receiver<String>),
    /// Sends GOAWAY with this reason and closes the connection.
    ShutDown(Reason),
    /// Sends interim responses until the stream is closed.
    InterimResponses,
}

type Handler = dyn Fn(&Request) -> Behavior + Send + Sync;

#[derive(Clone)]
struct Http2Server {
    port: u16,
    /// The certificate of its authority, as PEM.
    pem: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request>>>,
    handler: Arc<Handler>,
}

impl Http2Server {
    fn start(handler: impl Fn(&Request) -> Behavior + Send + Sync + 'static) -> Self {
        let (mut config, pem) = private_ca();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, requests) = <(Arc<AtomicUsize>, Arc<Mutex<_>>)>::default();
        let server = Self { port, pem, connections, requests, handler: Arc::new(handler) };
        let accepting = server.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accepting.accept(listener, config));
        });
        server
    }

    async fn accept(self, listener: std::net::TcpListener, config: rustls::ServerConfig) {
        let listener = TcpListener::from_std(listener).unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            self.connections.fetch_add(1, Ordering::SeqCst);
            let (server, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    server.serve(stream).await;
                }
            });
        }
    }

    async fn serve(&self, stream: tokio_rustls::server::TlsStream<TcpStream>) {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        let (shutdown, mut shutdowns) = mpsc::unbounded_channel();
        loop {
            tokio::select! {
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        let (server, shutdown) = (self.clone(), shutdown.clone());
                        tokio::spawn(async move { server.answer(request, respond, shutdown).await });
                    }
                    _ => return,
                },
                Some(reason) = shutdowns.recv() => match reason {
                    None => connection.graceful_shutdown(),
                    Some(reason) => {
                        match reason {
                            Reason::NO_ERROR => connection.graceful_shutdown(),
                            reason => connection.abrupt_shutdown(reason),
                        }
                        // Long enough for the frame to be sent and received.
                        let closed = std::future::poll_fn(|cx| connection.poll_closed(cx));
                        drop(tokio::time::timeout(Duration::from_millis(200), closed).await);
                        return;
                    }
                },
            }
        }
    }

    async fn answer(
        &self,
        request: http::Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
        shutdown: mpsc::UnboundedSender<Option<Reason>>,
    ) {
        let request = read_request(request).await;
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        match (self.handler)(&request) {
            Behavior::Answer => send_default_reply(&request, respond),
            Behavior::AnswerTogether(barrier) => {
                barrier.wait().await;
                send_default_reply(&request, respond);
            }
            Behavior::Events(messages) => send_events(respond, messages).await,
            Behavior::Reset(reason) => respond.send_reset(reason),
            Behavior::ShutDownGracefully(mut answer_now) => {
                shutdown.send(None).unwrap();
                drop(answer_now.changed().await);
                send_default_reply(&request, respond);
            }
            Behavior::InterimResponses => {
                let interim = || http::Response::builder().status(103).header("link", "</x>; rel=preload");
                while respond.send_informational(interim().body(()).unwrap()).is_ok() {
                    tokio::task::yield_now().await;
                }
            }
            Behavior::ShutDown(reason) => {
                shutdown.send(Some(reason)).unwrap();
                std::future::pending::<()>().await;
            }
        }
    }

    /// How many requests with this HTTP method or JSON-RPC method were received.
    fn count_requests(&self, method: &str) -> usize {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().filter(|request| request.rpc_method() == method || request.method == method).count()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The program with this server as its only group, `g`.
    fn proxy(&self) -> Proxy {
        let command = ProxyCommand::new();
        std::fs::write(command.home().join("ca.pem"), &self.pem).unwrap();
        let url = format!("https://127.0.0.1:{}/mcp", self.port);
        command.config(&pure_config([("g", json!({"url": url, "ca_file": "ca.pem"}))])).start_initialized()
    }
}

async fn read_request(request: http::Request<h2::RecvStream>) -> Request {
    let (head, mut body) = request.into_parts();
    let mut text = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        drop(body.flow_control().release_capacity(chunk.len()));
        text.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(text).unwrap();
    let body = serde_json::from_str(&text).unwrap_or_default();
    let (method, path) = (head.method.to_string(), head.uri.path().to_owned());
    Request { method, path, headers: BTreeMap::new(), text, body }
}

fn send_default_reply(request: &Request, mut respond: SendResponse<Bytes>) {
    let (status, text) = default_reply(request).into_parts();
    let head = http::Response::builder().status(status).header("content-type", "application/json");
    if let Ok(mut body) = respond.send_response(head.body(()).unwrap(), false) {
        drop(body.send_data(text.into(), true));
    }
}

async fn send_events(mut respond: SendResponse<Bytes>, mut messages: watch::Receiver<String>) {
    let head = http::Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    while messages.changed().await.is_ok() {
        let event = super::event(&messages.borrow_and_update());
        if body.send_data(event.into(), false).is_err() {
            return;
        }
    }
}

/// A server that behaves like this when it is called with this text.
fn server_with(text: &'static str, behavior: impl Fn() -> Behavior + Send + Sync + 'static) -> Http2Server {
    Http2Server::start(move |request| match request.body["params"]["arguments"]["text"] == text {
        true => behavior(),
        false => Behavior::Answer,
    })
}

#[test]
fn interim_responses_without_end_fail_their_request_only() {
    let server = server_with("interim", || Behavior::InterimResponses);
    let mut proxy = server.proxy();
    let failure = proxy.call_failure("g", "echo", json!({"text": "interim"}));
    assert!(failure.contains("the beginning of its response is longer than 64 KiB"), "{failure}");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "fine"})), "fine");
}

#[test]
fn concurrent_calls_and_the_get_stream_share_one_connection() {
    const CALLS: usize = 100;
    let (notify, messages) = watch::channel(String::new());
    let barrier = Arc::new(Barrier::new(CALLS));
    let server = Http2Server::start(move |request| match (request.method.as_str(), request.is_tool_call()) {
        ("GET", _) => Behavior::Events(messages.clone()),
        (_, true) => Behavior::AnswerTogether(barrier.clone()),
        _ => Behavior::Answer,
    });
    let mut proxy = server.proxy();
    proxy.get_dynamic_tools(json!({"group": "g"}));
    wait_until("the stream is open", || server.count_requests("GET") == 1);
    for _ in 0..2 {
        let ids: Vec<_> =
            (0..CALLS).map(|n| proxy.send_call("g", "echo", json!({"text": n.to_string()}))).collect();
        for (n, id) in ids.into_iter().enumerate() {
            assert_eq!(text_of(&proxy.response(id).json()["result"]), n.to_string());
        }
    }
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "emergency", "data": "from the stream"}});
    notify.send(notification.to_string()).unwrap();
    loop {
        let message = proxy.next_message().unwrap();
        if message.method() == Some("notifications/message") {
            assert_eq!(message.json()["params"]["data"], "from the stream");
            break;
        }
    }
    assert_eq!(server.count_requests("tools/call"), 2 * CALLS);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_reset_stream_fails_only_its_call() {
    let server = server_with("reset", || Behavior::Reset(Reason::INTERNAL_ERROR));
    let mut proxy = server.proxy();
    let failure = proxy.call_failure("g", "echo", json!({"text": "reset"}));
    assert!(
        failure.contains("the connection broke before the answer was complete: stream error"),
        "{failure}"
    );
    assert_eq!(server.count_requests("tools/call"), 1, "it may have run");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "on"})), "on");
    assert_eq!((server.count_requests("initialize"), server.connections()), (1, 1));
}

#[test]
fn a_call_that_was_refused_unprocessed_is_repeated() {
    let refusals = AtomicUsize::new(0);
    let server = server_with("refused", move || match refusals.fetch_add(1, Ordering::SeqCst) {
        0 => Behavior::Reset(Reason::REFUSED_STREAM),
        _ => Behavior::Answer,
    });
    let mut proxy = server.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "refused"})), "refused");
    assert_eq!(server.count_requests("tools/call"), 2);
}

#[test]
fn after_a_graceful_shutdown_accepted_calls_are_answered_and_new_ones_reconnect() {
    let (answer_now, changed) = watch::channel(String::new());
    let server = server_with("last", move || Behavior::ShutDownGracefully(changed.clone()));
    let mut proxy = server.proxy();
    let last = proxy.send_call("g", "echo", json!({"text": "last"}));
    wait_until("it was called", || server.count_requests("tools/call") == 1);
    wait_until("another connection is made", || {
        proxy.call_text("g", "echo", json!({"text": "next"})) == "next" && server.connections() == 2
    });
    answer_now.send(String::new()).unwrap();
    assert_eq!(text_of(&proxy.response(last).json()["result"]), "last");
    assert_eq!(server.count_requests("initialize"), 1);
}

#[test]
fn a_call_on_a_closed_connection_is_repeated_only_if_it_is_read_only() {
    for reason in [Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let gone = AtomicUsize::new(0);
        let server = server_with("gone", move || match gone.fetch_add(1, Ordering::SeqCst) {
            2.. => Behavior::Answer,
            _ => Behavior::ShutDown(reason),
        });
        let mut proxy = server.proxy();
        let failure = proxy.call_failure("g", "echo", json!({"text": "gone"}));
        assert!(failure.contains("the connection broke before the answer was complete: "), "{failure}");
        assert_eq!(server.count_requests("tools/call"), 1, "it may have run");
        assert_eq!(proxy.call_text("g", "look", json!({"text": "gone"})), "gone", "it is read-only");
        assert_eq!(server.count_requests("tools/call"), 3);
        assert_eq!((server.count_requests("initialize"), server.connections()), (1, 3));
    }
}
