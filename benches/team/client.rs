//! A client on one connection that is kept. It parses no JSON.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What precedes a body that comes in one piece.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A connection to a contestant.
pub(crate) struct BenchClient {
    stream: TcpStream,
    /// The headers of each request, with a line break after each.
    headers: String,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl BenchClient {
    pub(crate) async fn connect(port: u16, headers: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, headers: headers.to_owned(), request: Vec::new(), response: Vec::new() }
    }

    /// The headers of each request.
    pub(crate) fn headers(&self) -> &str {
        &self.headers
    }

    /// Performs the handshake. Keeps the session that the server begins.
    pub(crate) async fn initialize(&mut self) {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        self.send(initialize).await;
        let head = String::from_utf8_lossy(&self.response).into_owned();
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| format!("Mcp-Session-Id:{value}\r\n"))
        });
        self.headers += "MCP-Protocol-Version: 2025-11-25\r\n";
        self.headers += &session.unwrap_or_default();
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }

    /// Prepares the request that [`Self::call`] sends: a call with these params.
    pub(crate) fn prepare(&mut self, method: &str, params: &str) {
        self.request =
            self.bytes(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#));
    }

    /// Sends the request that is prepared, and reads the answer. Returns its status, which is 0 if it is not a result.
    pub(crate) async fn call(&mut self) -> u16 {
        self.stream.write_all(&self.request).await.unwrap();
        self.read().await;
        let has = |text: &[u8]| self.response.windows(text.len()).any(|window| window == text);
        match self.status() {
            200 if !has(b"\"result\":") || has(b"\"isError\":true") => 0,
            status => status,
        }
    }

    /// The response of the last request, for an error.
    pub(crate) fn response(&self) -> String {
        String::from_utf8_lossy(&self.response[..self.response.len().min(1000)]).into_owned()
    }

    async fn send(&mut self, message: &str) {
        let request = self.bytes(message);
        self.stream.write_all(&request).await.unwrap();
        self.read().await;
    }

    fn bytes(&self, message: &str) -> Vec<u8> {
        let (headers, length) = (&self.headers, message.len());
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\n\r\n{message}"
        )
        .into_bytes()
    }

    fn status(&self) -> u16 {
        std::str::from_utf8(&self.response[9..12])
            .ok()
            .and_then(|status| status.parse().ok())
            .unwrap_or_default()
    }

    async fn read(&mut self) {
        self.response.clear();
        while !self.is_whole() {
            let length = self.stream.read_buf(&mut self.response).await.unwrap();
            assert!(length > 0, "closed after {}", self.response());
        }
    }

    /// Whether the response has come to its end, by its length or its last chunk.
    fn is_whole(&self) -> bool {
        let find = |text: &[u8]| self.response.windows(text.len()).position(|window| window == text);
        let Some(end) = find(END_OF_HEAD) else { return false };
        let head = String::from_utf8_lossy(&self.response[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let body = &self.response[end + END_OF_HEAD.len()..];
        match length {
            Some(length) => body.len() >= length,
            None if head.contains("transfer-encoding: chunked") => body.ends_with(b"0\r\n\r\n"),
            None => true,
        }
    }
}
