//! HTTP/2: one connection for everything, and what becomes of the calls on one that ends.

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
use super::server::plain;
use super::tls::company;
use crate::support::{Proxy, Setup, servers, text_of, until};

/// What becomes of a request.
enum Act {
    /// Answered as by any small server.
    Plain,
    /// Answered once so many of these wait for it.
    Together(Arc<Barrier>),
    /// An event stream, of these messages as they come.
    Events(watch::Receiver<String>),
    Reset(Reason),
    /// The server takes no more requests on this connection; this one it answers when told to.
    Leaves(watch::Receiver<String>),
    /// It says that it takes no more requests, or that something else is wrong, and is gone.
    Gone(Reason),
}

type Handler = dyn Fn(&Request) -> Act + Send + Sync;

#[derive(Clone)]
struct Server {
    port: u16,
    /// Its authority, as PEM.
    pem: String,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Request>>>,
    handler: Arc<Handler>,
}

impl Server {
    fn start(handler: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Self {
        let (mut config, pem) = company();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, seen) = <(Arc<AtomicUsize>, Arc<Mutex<_>>)>::default();
        let server = Self { port, pem, connections, seen, handler: Arc::new(handler) };
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
        let (leave, mut leaves) = mpsc::unbounded_channel();
        loop {
            tokio::select! {
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        let (server, leave) = (self.clone(), leave.clone());
                        tokio::spawn(async move { server.answer(request, respond, leave).await });
                    }
                    _ => return,
                },
                Some(why) = leaves.recv() => match why {
                    None => connection.graceful_shutdown(),
                    Some(reason) => {
                        match reason {
                            Reason::NO_ERROR => connection.graceful_shutdown(),
                            reason => connection.abrupt_shutdown(reason),
                        }
                        // Long enough for this to be said and heard.
                        let heard = std::future::poll_fn(|cx| connection.poll_closed(cx));
                        drop(tokio::time::timeout(Duration::from_millis(200), heard).await);
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
        leave: mpsc::UnboundedSender<Option<Reason>>,
    ) {
        let request = read(request).await;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        match (self.handler)(&request) {
            Act::Plain => full(&request, respond),
            Act::Together(barrier) => {
                barrier.wait().await;
                full(&request, respond);
            }
            Act::Events(messages) => events(respond, messages).await,
            Act::Reset(reason) => respond.send_reset(reason),
            Act::Leaves(mut go_on) => {
                leave.send(None).unwrap();
                drop(go_on.changed().await);
                full(&request, respond);
            }
            Act::Gone(reason) => {
                leave.send(Some(reason)).unwrap();
                std::future::pending::<()>().await;
            }
        }
    }

    fn count(&self, method: &str) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|request| request.rpc() == method || request.method == method).count()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn proxy(&self) -> Proxy {
        let setup = Setup::new();
        std::fs::write(setup.dir().join("ca.pem"), &self.pem).unwrap();
        let url = format!("https://127.0.0.1:{}/mcp", self.port);
        setup.config(&servers([("g", json!({"url": url, "ca_file": "ca.pem"}))])).ready()
    }
}

async fn read(request: http::Request<h2::RecvStream>) -> Request {
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

fn full(request: &Request, mut respond: SendResponse<Bytes>) {
    let (status, text) = plain(request).into_parts();
    let head = http::Response::builder().status(status).header("content-type", "application/json");
    if let Ok(mut body) = respond.send_response(head.body(()).unwrap(), false) {
        drop(body.send_data(text.into(), true));
    }
}

async fn events(mut respond: SendResponse<Bytes>, mut messages: watch::Receiver<String>) {
    let head = http::Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    while messages.changed().await.is_ok() {
        let event = super::event(&messages.borrow_and_update());
        if body.send_data(event.into(), false).is_err() {
            return;
        }
    }
}

/// A server on which calls with this text end so.
fn with(text: &'static str, act: impl Fn() -> Act + Send + Sync + 'static) -> Server {
    Server::start(move |request| match request.body["params"]["arguments"]["text"] == text {
        true => act(),
        false => Act::Plain,
    })
}

#[test]
fn many_calls_at_once_and_a_stream_beside_them_need_one_connection() {
    const CALLS: usize = 100;
    let (say, said) = watch::channel(String::new());
    let barrier = Arc::new(Barrier::new(CALLS));
    let server = Server::start(move |request| match (request.method.as_str(), request.is_call()) {
        ("GET", _) => Act::Events(said.clone()),
        (_, true) => Act::Together(barrier.clone()),
        _ => Act::Plain,
    });
    let mut proxy = server.proxy();
    proxy.tools(json!({"group": "g"}));
    until("the stream is open", || server.count("GET") == 1);
    for _ in 0..2 {
        let ids: Vec<_> =
            (0..CALLS).map(|n| proxy.send_call("g", "echo", json!({"text": n.to_string()}))).collect();
        for (n, id) in ids.into_iter().enumerate() {
            assert_eq!(text_of(&proxy.answer(id).json()["result"]), n.to_string());
        }
    }
    let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "emergency", "data": "from the stream"}});
    say.send(note.to_string()).unwrap();
    loop {
        let told = proxy.next().unwrap();
        if told.method() == Some("notifications/message") {
            assert_eq!(told.json()["params"]["data"], "from the stream");
            break;
        }
    }
    assert_eq!(server.count("tools/call"), 2 * CALLS);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_call_whose_stream_is_reset_fails_alone() {
    let server = with("reset", || Act::Reset(Reason::INTERNAL_ERROR));
    let mut proxy = server.proxy();
    let failure = proxy.failure("g", "echo", json!({"text": "reset"}));
    assert!(
        failure.contains("the connection broke before the answer was complete: stream error"),
        "{failure}"
    );
    assert_eq!(server.count("tools/call"), 1, "it may have run");
    assert_eq!(proxy.text("g", "echo", json!({"text": "on"})), "on");
    assert_eq!((server.count("initialize"), server.connections()), (1, 1));
}

#[test]
fn a_call_that_was_refused_unread_is_made_again() {
    let refusals = AtomicUsize::new(0);
    let server = with("refused", move || match refusals.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Reset(Reason::REFUSED_STREAM),
        _ => Act::Plain,
    });
    let mut proxy = server.proxy();
    assert_eq!(proxy.text("g", "echo", json!({"text": "refused"})), "refused");
    assert_eq!(server.count("tools/call"), 2);
}

#[test]
fn a_server_that_leaves_answers_what_it_took_and_is_found_again() {
    let (go_on, wait) = watch::channel(String::new());
    let server = with("last", move || Act::Leaves(wait.clone()));
    let mut proxy = server.proxy();
    let last = proxy.send_call("g", "echo", json!({"text": "last"}));
    until("it was called", || server.count("tools/call") == 1);
    until("another connection is made", || {
        proxy.text("g", "echo", json!({"text": "next"})) == "next" && server.connections() == 2
    });
    go_on.send(String::new()).unwrap();
    assert_eq!(text_of(&proxy.answer(last).json()["result"]), "last");
    assert_eq!(server.count("initialize"), 1);
}

#[test]
fn a_call_that_a_server_took_along_is_made_again_only_where_that_does_no_harm() {
    for reason in [Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let gone = AtomicUsize::new(0);
        let server = with("gone", move || match gone.fetch_add(1, Ordering::SeqCst) {
            2.. => Act::Plain,
            _ => Act::Gone(reason),
        });
        let mut proxy = server.proxy();
        let failure = proxy.failure("g", "echo", json!({"text": "gone"}));
        assert!(failure.contains("the connection broke before the answer was complete: "), "{failure}");
        assert_eq!(server.count("tools/call"), 1, "it may have run");
        assert_eq!(proxy.text("g", "look", json!({"text": "gone"})), "gone", "it only reads");
        assert_eq!(server.count("tools/call"), 3);
        assert_eq!((server.count("initialize"), server.connections()), (1, 3));
    }
}
