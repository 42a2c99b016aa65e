//! An HTTP server that answers as a test says, and as a small MCP server otherwise. HTTP/1.1 by hand, so that every
//! fault can be made.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use crate::support::until;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The method of the message in it.
    pub(crate) fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn is_call(&self) -> bool {
        self.rpc() == "tools/call"
    }

    /// An answer to the message in it.
    pub(crate) fn answer(&self, result: Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string()
    }

    pub(crate) fn error(&self, code: i64, message: &str) -> String {
        let error = json!({"code": code, "message": message});
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}).to_string()
    }

    /// The answer to a call: this text.
    pub(crate) fn says(&self, text: &str) -> String {
        self.answer(json!({"content": [{"type": "text", "text": text}]}))
    }
}

pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

enum Body {
    Full(String),
    /// Written piece by piece; false cuts the connection at the end.
    Live(Box<dyn FnOnce(&mut Out<'_>) -> bool + Send>),
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Full(String::new()) }
    }

    pub(crate) fn text(status: u16, media_type: &str, text: impl Into<String>) -> Self {
        Self { body: Body::Full(text.into()), ..Self::status(status) }.with("Content-Type", media_type)
    }

    pub(crate) fn json(text: impl Into<String>) -> Self {
        Self::text(200, "application/json", text)
    }

    /// Events, which end as they should if the closure says so.
    pub(crate) fn events(write: impl FnOnce(&mut Out<'_>) -> bool + Send + 'static) -> Self {
        Self { body: Body::Live(Box::new(write)), ..Self::status(200) }
            .with("Content-Type", "text/event-stream")
    }

    pub(crate) fn live(media_type: &str, write: impl FnOnce(&mut Out<'_>) -> bool + Send + 'static) -> Self {
        Self { body: Body::Live(Box::new(write)), ..Self::status(200) }.with("Content-Type", media_type)
    }

    /// A whole body.
    pub(crate) fn into_text(self) -> String {
        match self.body {
            Body::Full(text) => text,
            Body::Live(_) => panic!("it is written piece by piece"),
        }
    }

    /// Its status, and the text of a whole body.
    pub(crate) fn into_parts(self) -> (u16, String) {
        (self.status, self.into_text())
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

pub(crate) struct Out<'s>(&'s mut dyn Stream);

impl Out<'_> {
    /// False: the other side has gone.
    pub(crate) fn write(&mut self, text: &str) -> bool {
        self.0
            .write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
            .and_then(|()| self.0.flush())
            .is_ok()
    }

    /// The last that is written before the connection is cut.
    pub(crate) fn cut(&mut self, text: &str) -> bool {
        self.write(text);
        false
    }

    /// The same, without a word of farewell.
    pub(crate) fn reset(&mut self, text: &str) -> bool {
        self.write(text);
        self.0.reset();
        false
    }

    pub(crate) fn event(&mut self, id: &str, data: &str) -> bool {
        let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
        self.write(&format!("{id}data: {data}\n\n"))
    }

    /// Says nothing until the other side has gone.
    pub(crate) fn hold(&mut self) {
        while self.write(": still here\n\n") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

trait Stream: Read + Write + Send {
    fn cut(&mut self);
    /// Ends it with a reset once it is dropped.
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
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        nix::sys::socket::setsockopt(&self.stream, nix::sys::socket::sockopt::Linger, &at_once).unwrap();
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

/// Listens as long as it lives; its threads end with the test.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) origin: String,
    seen: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<Mutex<Option<Vec<Weak<TcpStream>>>>>,
}

impl Server {
    /// With answers of its own where the closure gives any.
    pub(crate) fn start(handler: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), None, handler)
    }

    pub(crate) fn tls(config: rustls::ServerConfig) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), Some(Arc::new(config)), |_| None)
    }

    pub(crate) fn on(
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        handler: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let open = Arc::new(Mutex::new(Some(Vec::new())));
        let server = Self { origin, seen: Arc::default(), connections: Arc::default(), open };
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

    /// Listens no more, and cuts what it had.
    pub(crate) fn close(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        for stream in open.into_iter().flatten().filter_map(|stream| stream.upgrade()) {
            let _gone = stream.shutdown(Shutdown::Both);
        }
        let address = self.address();
        let _woken = TcpStream::connect(&address);
        until("it listens no more", || TcpStream::connect(&address).is_err());
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        self.origin.split_once("://").unwrap().1.to_owned()
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// What it was sent so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests with this HTTP method, or this method of a message in them.
    pub(crate) fn of(&self, method: &str) -> Vec<Request> {
        self.seen()
            .into_iter()
            .filter(|request| request.method == method || request.rpc() == method)
            .collect()
    }

    /// Waits for so many of them.
    pub(crate) fn until(&self, method: &str, count: usize) -> Vec<Request> {
        until(&format!("{count} {method}"), || self.of(method).len() >= count);
        self.of(method)
    }

    fn serve(&self, stream: impl Stream, handler: &Handler) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream) {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            let reply = handler(&request).unwrap_or_else(|| plain(&request));
            if !write(stream.get_mut(), reply) {
                return stream.get_mut().cut();
            }
        }
    }
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
    // A number that no `Value` holds is for the bytes alone.
    let body = serde_json::from_str(&text.replace("1e400", "0")).unwrap_or_default();
    Some(Request { method, path, headers, text, body })
}

/// Whether the connection goes on.
fn write(stream: &mut dyn Stream, reply: Reply) -> bool {
    let mut head = format!("HTTP/1.1 {} Status\r\n", reply.status);
    for (name, value) in &reply.headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    match reply.body {
        Body::Full(text) => {
            write!(head, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
            stream.write_all(head.as_bytes()).and_then(|()| stream.flush()).is_ok()
        }
        Body::Live(body) => {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            let begun = stream.write_all(head.as_bytes()).and_then(|()| stream.flush()).is_ok();
            begun
                && body(&mut Out(stream))
                && stream.write_all(b"0\r\n\r\n").and_then(|()| stream.flush()).is_ok()
        }
    }
}

/// What a small server of a revision with a handshake says: no session, no stream of its own.
pub(crate) fn plain(request: &Request) -> Reply {
    match (request.method.as_str(), request.rpc()) {
        ("POST", "initialize") => Reply::json(request.answer(json!({
            "protocolVersion": request.body["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "small", "version": "1"},
        }))),
        ("POST", "tools/list") => Reply::json(request.answer(json!({"tools": [
            {"name": "echo", "inputSchema": {"type": "object"}},
            {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        ]}))),
        ("POST", "tools/call") => {
            let text = &request.body["params"]["arguments"]["text"];
            Reply::json(request.says(text.as_str().unwrap_or("called")))
        }
        ("POST", _) if request.body.get("id").is_none() || request.body.get("method").is_none() => {
            Reply::status(202)
        }
        ("POST", _) => Reply::json(request.error(-32601, "no such method")),
        ("DELETE", _) => Reply::status(200),
        _ => Reply::status(405),
    }
}
