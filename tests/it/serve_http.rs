//! `dynamic-mcp serve --http`: many users at one address. A program is started and gets raw HTTP.
//!
//! - `messages`: what HTTP itself has to be, headers that agree with the body, and statuses;
//! - `eras`: both eras without a session;
//! - `streams`: events, subscriptions, and streams that are closed;
//! - `users`: who may ask, and what each sees;
//! - `oauth`: access tokens of an authorization server, and attacks with them;
//! - `carried`: what a client carries from one replica to another;
//! - `limits`: floods and slow clients;
//! - `shares`: what users share;
//! - `operation`: probes, the end, and servers that are not for all;
//! - `replicas`: three of them behind HAProxy.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::{Proxy, ProxyCommand, TEST_TIMEOUT, merged, scripted_upstream, stateless};

mod carried;
mod eras;
mod limits;
mod messages;
mod oauth;
mod operation;
// HAProxy and /usr/bin of Linux.
#[cfg(not(target_os = "macos"))]
mod replicas;
mod shares;
mod streams;
mod users;

/// A program that serves HTTP.
struct Served {
    proxy: Proxy,
    address: SocketAddr,
}

/// A response.
struct Response {
    status: u16,
    /// By lower-case names.
    headers: BTreeMap<String, String>,
    body: BodyReader,
}

/// What is left of a response's body.
struct BodyReader {
    stream: BufReader<TcpStream>,
    /// The length; `None` if it comes in chunks.
    length: Option<usize>,
}

impl Response {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The whole body.
    fn text(&mut self) -> String {
        let mut text = String::new();
        if let Some(length) = self.body.length {
            let mut body = vec![0; length];
            self.body.stream.read_exact(&mut body).unwrap();
            return String::from_utf8(body).unwrap();
        }
        while let Some(chunk) = self.body.chunk() {
            text.push_str(&chunk);
        }
        text
    }

    /// The whole body as JSON.
    fn json(mut self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{} {text:?}: {error}", self.status))
    }

    /// The status and the code of the JSON-RPC error.
    fn error(self) -> (u16, i64) {
        let status = self.status;
        (status, self.json()["error"]["code"].as_i64().unwrap_or_default())
    }

    /// The next message of a stream. `None` at its end.
    fn event(&mut self) -> Option<Value> {
        loop {
            let chunk = self.body.chunk()?;
            if let Some(data) = chunk.strip_prefix("data: ") {
                return Some(serde_json::from_str(data.trim_end()).unwrap());
            }
        }
    }
}

impl BodyReader {
    /// The next chunk. `None` at the end, or if the connection is closed.
    fn chunk(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then(|| String::from_utf8(chunk).unwrap())
    }
}

impl Served {
    /// Starts a program at a free port of this machine.
    fn start(config: &Value, args: &[&str]) -> Self {
        Self::of(ProxyCommand::new(), config, args)
    }

    /// Starts a program with this command.
    fn of(command: ProxyCommand, config: &Value, args: &[&str]) -> Self {
        Self::started(command.config(config), args)
    }

    /// Starts a program with this command, whose config is chosen already.
    fn started(command: ProxyCommand, args: &[&str]) -> Self {
        let proxy = command.args(&["serve", "--http", "127.0.0.1:0"]).args(args).start();
        proxy.wait_for_log("requests are served");
        let log = proxy.log();
        let after = log.split("address").nth(1).unwrap();
        let after = after.trim_start_matches(|c: char| !c.is_ascii_digit());
        let address: String = after.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        Self { proxy, address: address.parse().unwrap() }
    }

    /// A new connection.
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// Sends these bytes on a new connection, and reads nothing.
    fn begin(&self, request: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends these bytes on a new connection and reads the head of the response.
    fn send(&self, request: &str) -> Response {
        read_head(self.begin(request))
    }

    /// Sends a message with these headers beside those that each one has. A header without a value is left out.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> Response {
        self.send(&post(headers, body))
    }

    /// Sends a request of the stateless era, with the headers that it has to have and these.
    fn request_with(&self, headers: &[(&str, &str)], method: &str, params: Value) -> Response {
        self.send(&stateless_post(headers, method, params))
    }

    /// Sends a request of the stateless era.
    fn request(&self, method: &str, params: Value) -> Response {
        self.request_with(&[], method, params)
    }

    /// Sends a request of the handshake era.
    fn handshake_request(&self, method: &str, params: &Value) -> Response {
        self.post(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
    }

    /// Calls a tool of a server by `call_dynamic_tool`, and returns the whole response.
    fn call(&self, headers: &[(&str, &str)], group: &str, tool: &str, args: Value) -> Value {
        self.request_with(headers, "tools/call", call_params(group, tool, args)).json()
    }
}

/// The params of a call by `call_dynamic_tool`.
fn call_params(group: &str, tool: &str, args: Value) -> Value {
    json!({"name": "call_dynamic_tool", "arguments": {"group": group, "name": tool, "args": args}})
}

/// A message of the stateless era of a client with these capabilities, and the headers that repeat parts of it.
fn stateless_message(
    capabilities: &Value,
    method: &str,
    mut params: Value,
) -> (Vec<(&'static str, String)>, String) {
    let members = stateless::meta_members(&capabilities.to_string());
    let mut meta: Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
    if let Value::Object(mut given) = params["_meta"].take() {
        meta.as_object_mut().unwrap().append(&mut given);
    }
    params["_meta"] = meta;
    let mut headers =
        vec![("MCP-Protocol-Version", stateless::REVISION.to_owned()), ("Mcp-Method", method.to_owned())];
    let name = if method == "resources/read" { &params["uri"] } else { &params["name"] };
    headers.extend(name.as_str().map(|name| ("Mcp-Name", name.to_owned())));
    (headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
}

/// The text of a POST of the stateless era, with the headers that it has to have and these.
fn stateless_post(headers: &[(&str, &str)], method: &str, params: Value) -> String {
    let (mirrored, body) = stateless_message(&json!({}), method, params);
    let mirrored: Vec<_> = mirrored.iter().map(|(name, value)| (*name, value.as_str())).collect();
    post(&[&mirrored, headers].concat(), &body)
}

/// The text of a POST. A header that is given takes the place of the usual one; an empty one leaves that out.
fn post(headers: &[(&str, &str)], body: &str) -> String {
    let length = body.len().to_string();
    let usual = [
        ("Host", "localhost"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("Content-Length", length.as_str()),
    ];
    let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let usual = usual.iter().filter(|(name, _)| !is_given(name));
    let all = usual.chain(headers).filter(|(_, value)| !value.is_empty());
    let lines: String = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("POST /mcp HTTP/1.1\r\n{lines}\r\n{body}")
}

/// Reads the head of a response.
fn read_head(stream: TcpStream) -> Response {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no response: {line:?}")).parse().unwrap();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map(|length| length.parse().unwrap());
    Response { status, headers, body: BodyReader { stream, length } }
}

/// An entry for a scripted upstream that all users may use.
fn for_all(flags: &[&str]) -> Value {
    merged(scripted_upstream(flags), json!({"all_users": true}))
}

/// A config with these servers, which start at their first use.
fn config<const N: usize>(entries: [(&str, Value); N]) -> Value {
    crate::support::pure_config(entries)
}
