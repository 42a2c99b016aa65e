//! An HTTP server that answers as a test wants, and else like a small MCP server. It writes HTTP/1.1 itself, so that
//! tests can make every error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::wait_until;

/// A request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By lower-case names.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body as it was received.
    pub(crate) text: String,
    /// The body as JSON; null if it is not.
    pub(crate) body: Value,
}

impl Request {
    /// The value of a header; empty without it.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The method of the JSON-RPC message; empty without one.
    pub(crate) fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_tool_call(&self) -> bool {
        self.rpc_method() == "tools/call"
    }

    /// A JSON-RPC response with this result.
    pub(crate) fn response(&self, result: Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string()
    }

    /// A JSON-RPC error response.
    pub(crate) fn error_response(&self, code: i64, message: &str) -> String {
        let error = json!({"code": code, "message": message});
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}).to_string()
    }

    /// A JSON-RPC response with a tool result that has this text.
    pub(crate) fn text_response(&self, text: &str) -> String {
        self.response(json!({"content": [{"type": "text", "text": text}]}))
    }
}

/// An HTTP response.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

enum Body {
    Whole(Vec<u8>),
    /// Written in chunks by the closure. It returns whether the body is to end properly; else the connection is cut.
    Chunked(Box<dyn FnOnce(&mut BodyWriter<'_>) -> bool + Send>),
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Whole(Vec::new()) }
    }

    pub(crate) fn text(status: u16, media_type: &str, text: impl Into<String>) -> Self {
        Self { body: Body::Whole(text.into().into_bytes()), ..Self::status(status) }
            .with_header("Content-Type", media_type)
    }

    pub(crate) fn json(text: impl Into<String>) -> Self {
        Self::text(200, "application/json", text)
    }

    /// An event stream in chunks. The closure returns whether it is to end properly.
    pub(crate) fn events(write: impl FnOnce(&mut BodyWriter<'_>) -> bool + Send + 'static) -> Self {
        Self::chunked("text/event-stream", write)
    }

    /// A body in chunks. The closure returns whether it is to end properly.
    pub(crate) fn chunked(
        media_type: &str,
        write: impl FnOnce(&mut BodyWriter<'_>) -> bool + Send + 'static,
    ) -> Self {
        Self { body: Body::Chunked(Box::new(write)), ..Self::status(200) }
            .with_header("Content-Type", media_type)
    }

    /// The body of a reply that is not chunked.
    pub(crate) fn into_text(self) -> String {
        match self.body {
            Body::Whole(text) => String::from_utf8(text).unwrap(),
            Body::Chunked(_) => panic!("the body is chunked"),
        }
    }

    /// The reply with its body, which is not chunked, in gzip.
    pub(crate) fn gzipped(mut self) -> Self {
        let Body::Whole(text) = &self.body else { panic!("the body is chunked") };
        self.body = Body::Whole(gzip(text));
        self.with_header("Content-Encoding", "gzip")
    }

    /// The status and the body of a reply that is not chunked.
    pub(crate) fn into_parts(self) -> (u16, String) {
        (self.status, self.into_text())
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Writes the chunks of a body.
pub(crate) struct BodyWriter<'s>(&'s mut dyn Stream);

impl BodyWriter<'_> {
    /// Writes a chunk. Returns false when the client has closed the connection.
    pub(crate) fn write(&mut self, text: &str) -> bool {
        self.write_bytes(text.as_bytes())
    }

    /// The same with bytes.
    pub(crate) fn write_bytes(&mut self, data: &[u8]) -> bool {
        let chunk = [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
        self.0.write_all(&chunk).and_then(|()| self.0.flush()).is_ok()
    }

    /// Writes a last chunk and has the connection closed without the end of the body.
    pub(crate) fn cut(&mut self, text: &str) -> bool {
        self.write(text);
        false
    }

    /// Writes a last chunk and has the connection reset.
    pub(crate) fn reset(&mut self, text: &str) -> bool {
        self.write(text);
        self.0.reset();
        false
    }

    /// Writes an event, with an id unless that is empty.
    pub(crate) fn event(&mut self, id: &str, data: &str) -> bool {
        let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
        self.write(&format!("{id}data: {data}\n\n"))
    }

    /// Writes only comments until the client has closed the connection.
    pub(crate) fn keep_open(&mut self) {
        while self.write(": still here\n\n") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

trait Stream: Read + Write + Send {
    /// Closes the connection.
    fn cut(&mut self);
    /// Has the connection reset when it is dropped.
    fn reset(&mut self);
}

struct Socket {
    stream: Arc<TcpStream>,
    is_reset: bool,
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        (&*self.stream).read(bytes)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        (&*self.stream).flush()
    }
}

impl Stream for Socket {
    fn cut(&mut self) {
        if !self.is_reset {
            let _gone = self.stream.shutdown(Shutdown::Both);
        }
    }

    fn reset(&mut self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        self.is_reset = true;
    }
}

impl Stream for rustls::StreamOwned<rustls::ServerConnection, Socket> {
    fn cut(&mut self) {
        self.sock.cut();
    }

    fn reset(&mut self) {
        self.sock.reset();
    }
}

type Handler = dyn Fn(&Request) -> Option<Reply> + Send + Sync;

/// A server that listens until it is closed. Its threads end with the test.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) origin: String,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    /// The sockets of open connections; `None` when the server is closed.
    open: Arc<Mutex<Option<Vec<Weak<TcpStream>>>>>,
}

impl Server {
    /// A server that sends what `handler` returns, or else the default reply.
    pub(crate) fn start(handler: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), None, handler)
    }

    /// An HTTPS server with the default replies.
    pub(crate) fn tls(config: rustls::ServerConfig) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), Some(Arc::new(config)), |_| None)
    }

    /// A server on this listener.
    pub(crate) fn on(
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        handler: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let open = Arc::new(Mutex::new(Some(Vec::new())));
        let server = Self { origin, requests: Arc::default(), connections: Arc::default(), open };
        let handler: Arc<Handler> = Arc::new(handler);
        let accepting = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut open = accepting.open.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(open) = open.as_mut() else { return };
                let stream = Socket { stream: Arc::new(stream), is_reset: false };
                open.push(Arc::downgrade(&stream.stream));
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let (server, handler, tls) = (accepting.clone(), handler.clone(), tls.clone());
                std::thread::spawn(move || {
                    let _nodelay = stream.stream.set_nodelay(true);
                    match tls {
                        None => server.serve(stream, &*handler),
                        Some(tls) => {
                            let connection = rustls::ServerConnection::new(tls).unwrap();
                            server.serve(rustls::StreamOwned::new(connection, stream), &*handler);
                        }
                    }
                });
            }
        });
        server
    }

    /// Stops listening and closes all connections.
    pub(crate) fn close(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        for stream in open.into_iter().flatten().filter_map(|stream| stream.upgrade()) {
            let _gone = stream.shutdown(Shutdown::Both);
        }
        let address = self.address();
        let _wakes_the_listener = TcpStream::connect(&address);
        wait_until("it stopped listening", || TcpStream::connect(&address).is_err());
    }

    /// Stops listening. Open connections stay open.
    pub(crate) fn stop_listening(&self) {
        drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
        let address = self.address();
        let _wakes_the_listener = TcpStream::connect(&address);
        wait_until("it stopped listening", || TcpStream::connect(&address).is_err());
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        self.origin.split_once("://").unwrap().1.to_owned()
    }

    /// The URL of the MCP endpoint.
    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The requests that were received so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests with this HTTP method or JSON-RPC method.
    pub(crate) fn requests_of(&self, method: &str) -> Vec<Request> {
        self.requests()
            .into_iter()
            .filter(|request| request.method == method || request.rpc_method() == method)
            .collect()
    }

    /// Waits until this many of them were received, and returns them.
    pub(crate) fn wait_for_requests(&self, method: &str, count: usize) -> Vec<Request> {
        wait_until(&format!("{count} {method}"), || self.requests_of(method).len() >= count);
        self.requests_of(method)
    }

    fn serve(&self, stream: impl Stream, handler: &Handler) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream) {
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            let reply = handler(&request).unwrap_or_else(|| default_reply(&request));
            if !write(stream.get_mut(), reply) {
                return stream.get_mut().cut();
            }
        }
    }
}

/// The data in gzip.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn read(stream: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let text = String::from_utf8(body).unwrap();
    // No `Value` can represent this number. Tests compare it in `text`.
    let body = serde_json::from_str(&text.replace("1e400", "0")).unwrap_or_default();
    Some(Request { method, path, headers, text, body })
}

/// Writes a reply. Returns whether the connection stays open.
fn write(stream: &mut dyn Stream, reply: Reply) -> bool {
    let mut head = format!("HTTP/1.1 {} Status\r\n", reply.status);
    for (name, value) in &reply.headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    match reply.body {
        Body::Whole(text) => {
            write!(head, "Content-Length: {}\r\n\r\n", text.len()).unwrap();
            stream.write_all(&[head.as_bytes(), &text].concat()).and_then(|()| stream.flush()).is_ok()
        }
        Body::Chunked(body) => {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            let head_written = stream.write_all(head.as_bytes()).and_then(|()| stream.flush()).is_ok();
            head_written
                && body(&mut BodyWriter(stream))
                && stream.write_all(b"0\r\n\r\n").and_then(|()| stream.flush()).is_ok()
        }
    }
}

/// The reply of a small server of the handshake era, without sessions and without a GET stream.
pub(crate) fn default_reply(request: &Request) -> Reply {
    match (request.method.as_str(), request.rpc_method()) {
        ("POST", "initialize") => Reply::json(request.response(json!({
            "protocolVersion": request.body["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "small", "version": "1"},
        }))),
        ("POST", "tools/list") => Reply::json(request.response(json!({"tools": [
            {"name": "echo", "inputSchema": {"type": "object"}},
            {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        ]}))),
        ("POST", "tools/call") => {
            let text = &request.body["params"]["arguments"]["text"];
            Reply::json(request.text_response(text.as_str().unwrap_or("called")))
        }
        ("POST", _) if request.body.get("id").is_none() || request.body.get("method").is_none() => {
            Reply::status(202)
        }
        ("POST", _) => Reply::json(request.error_response(-32601, "no such method")),
        ("DELETE", _) => Reply::status(200),
        _ => Reply::status(405),
    }
}
