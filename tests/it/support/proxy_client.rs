//! The client's side of a session: requests to the program, and the messages that come back.

use std::io::Read;

use serde_json::{Value, json};

use super::pipes::wait_readable;
use super::{Message, Proxy, text_of, wait_until};

fn initialize_params(capabilities: Value) -> Value {
    let info = json!({"name": "e2e", "version": "1"});
    json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info})
}

fn notification(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

/// Requests and notifications of the client.
impl Proxy {
    /// Makes the handshake of a client without capabilities. Returns the response to `initialize`.
    pub(crate) fn handshake(&mut self) -> Value {
        self.handshake_with(json!({}))
    }

    /// The same for a client that declares these capabilities.
    pub(crate) fn handshake_with(&mut self, capabilities: Value) -> Value {
        let response = self.request("initialize", initialize_params(capabilities));
        self.notify("notifications/initialized", json!({}));
        response
    }

    /// Sends the handshake and `tools/list` in one write, so that the list is made before any server answers, however
    /// busy the machine is. Returns the result of `tools/list`.
    pub(crate) fn handshake_and_list(&mut self, capabilities: Value) -> Value {
        let initialize = self.next_request("initialize", &initialize_params(capabilities).to_string());
        let list = self.next_request("tools/list", "{}");
        self.write_line(&[initialize, notification("notifications/initialized", json!({})), list].join("\n"));
        self.response(self.last_id - 1);
        self.response(self.last_id).json()["result"].take()
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write_line(&notification(method, params));
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.send_raw_request(method, &params.to_string())
    }

    /// Sends a request with these bytes as its params, and returns its id.
    pub(crate) fn send_raw_request(&mut self, method: &str, params: &str) -> u64 {
        let line = self.next_request(method, params);
        self.write_line(&line);
        self.last_id
    }

    /// Sends two requests with one write, and returns their ids.
    #[cfg(unix)]
    pub(crate) fn send_both(&mut self, requests: [(&str, &Value); 2]) -> [u64; 2] {
        let lines = requests.map(|(method, params)| self.next_request(method, &params.to_string()));
        self.write_line(&lines.join("\n"));
        [self.last_id - 1, self.last_id]
    }

    fn next_request(&mut self, method: &str, params: &str) -> String {
        self.last_id += 1;
        let id = self.last_id;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    /// Sends a call of an upstream's tool and returns the id of the request.
    pub(crate) fn send_call(&mut self, group: &str, tool: &str, args: Value) -> u64 {
        self.send_raw_call(group, tool, &args.to_string())
    }

    /// Sends a call of an upstream's tool with these bytes as its arguments, and returns the id of the request.
    pub(crate) fn send_raw_call(&mut self, group: &str, tool: &str, args: &str) -> u64 {
        let arguments = format!(r#"{{"group":"{group}","name":"{tool}","args":{args}}}"#);
        let params = format!(r#"{{"name":"call_dynamic_tool","arguments":{arguments}}}"#);
        self.send_raw_request("tools/call", &params)
    }

    /// Responds to a request of the program. `outcome`: the member `result` or `error`, as bytes.
    pub(crate) fn respond(&mut self, request: &Message, outcome: &str) {
        let id = request.id().unwrap();
        self.write_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
    }
}

/// Messages of the program.
impl Proxy {
    /// Waits for the response to a request. Other messages that arrive before it stay for `next_message`.
    pub(crate) fn response(&mut self, id: u64) -> Message {
        let id = id.to_string();
        let is_response = |message: &Message| message.method().is_none() && message.id() == Some(&id);
        if let Some(index) = self.skipped.iter().position(is_response) {
            return self.skipped.remove(index).unwrap();
        }
        loop {
            let message = self.read_message();
            let message =
                message.unwrap_or_else(|| panic!("stdout ended before the response {id}: {}", self.log()));
            if is_response(&message) {
                return message;
            }
            self.skipped.push_back(message);
        }
    }

    /// The next message in the order of arrival. `None` at the end of stdout.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        self.skipped.pop_front().or_else(|| self.read_message())
    }

    /// The next request or notification of the program. Responses before it are dropped.
    pub(crate) fn next_server_message(&mut self) -> Message {
        loop {
            let message = self.next_message().expect("stdout ended before a request or a notification");
            if message.method().is_some() {
                return message;
            }
        }
    }

    /// The next request or notification with this method. Messages before it are dropped.
    pub(crate) fn wait_for_message(&mut self, method: &str) -> Message {
        loop {
            let message = self.next_server_message();
            if message.method() == Some(method) {
                return message;
            }
        }
    }

    /// Asserts that the program has sent no message that was not read yet.
    pub(crate) fn assert_no_message(&mut self) {
        let ping = self.send_request("ping", json!({}));
        let next = self.next_message().unwrap();
        assert_eq!(next.id(), Some(&*ping.to_string()), "{}", next.line);
    }

    /// Reads the next line of stdout. `None` at its end.
    pub(super) fn read_message(&mut self) -> Option<Message> {
        let mut searched = 0;
        loop {
            let found = memchr::memchr(b'\n', &self.read_buffer[searched..]).map(|n| searched + n);
            searched = self.read_buffer.len();
            if let Some(end) = found {
                let line = self.read_buffer.drain(..=end).collect();
                return Some(Message::parse(String::from_utf8(line).unwrap()));
            }
            let stdout = self.stdout.as_mut().unwrap();
            let mut chunk = vec![0; 64 << 10];
            let read = wait_readable(stdout).and_then(|()| stdout.read(&mut chunk));
            match read {
                Err(error) => panic!("nothing on stdout: {error}; the log:\n{}", self.log()),
                Ok(0) => {
                    let rest = &self.read_buffer;
                    assert!(rest.is_empty(), "an incomplete line at the end of stdout: {rest:?}");
                    return None;
                }
                Ok(length) => self.read_buffer.extend_from_slice(&chunk[..length]),
            }
        }
    }
}

/// Requests with their responses.
impl Proxy {
    /// Sends a request and returns the whole response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.response(id).json()
    }

    /// Sends a request and returns the code of its error.
    pub(crate) fn error_code(&mut self, method: &str, params: Value) -> i64 {
        let response = self.request(method, params);
        response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {response}"))
    }

    /// Sends a request and returns the bytes of its result.
    pub(crate) fn raw_result(&mut self, method: &str, params: &str) -> String {
        self.raw_member("result", method, params)
    }

    /// Sends a request and returns the bytes of its error.
    pub(crate) fn raw_error(&mut self, method: &str, params: &str) -> String {
        self.raw_member("error", method, params)
    }

    fn raw_member(&mut self, name: &str, method: &str, params: &str) -> String {
        let id = self.send_raw_request(method, params);
        let response = self.response(id);
        response.raw(name).unwrap_or_else(|| panic!("no {name}: {}", response.line)).to_owned()
    }

    /// Calls a tool of the program itself and returns its result.
    pub(crate) fn call_meta_tool(&mut self, tool: &str, arguments: Value) -> Value {
        let mut response = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(response["result"].is_object(), "{response}");
        response["result"].take()
    }

    /// Calls an upstream's tool and returns its result.
    pub(crate) fn call_tool(&mut self, group: &str, tool: &str, args: Value) -> Value {
        self.call_meta_tool("call_dynamic_tool", json!({"group": group, "name": tool, "args": args}))
    }

    /// Calls an upstream's tool, asserts that it succeeds, and returns its text.
    pub(crate) fn call_text(&mut self, group: &str, tool: &str, args: Value) -> String {
        let result = self.call_tool(group, tool, args);
        assert_ne!(result["isError"], true, "{result}");
        text_of(&result).to_owned()
    }

    /// Calls an upstream's tool, asserts that it fails, and returns its text.
    pub(crate) fn call_failure(&mut self, group: &str, tool: &str, args: Value) -> String {
        let result = self.call_tool(group, tool, args);
        assert_eq!(result["isError"], true, "{result}");
        text_of(&result).to_owned()
    }

    /// The text of `get_dynamic_tools`.
    pub(crate) fn get_dynamic_tools(&mut self, arguments: Value) -> String {
        text_of(&self.call_meta_tool("get_dynamic_tools", arguments)).to_owned()
    }

    /// The structured result of `get_status` for all groups.
    pub(crate) fn status(&mut self) -> Value {
        self.call_meta_tool("get_status", json!({}))["structuredContent"].take()
    }

    /// The entry of one group in the result of `get_status` for that group.
    pub(crate) fn group_status(&mut self, group: &str) -> Value {
        self.call_meta_tool("get_status", json!({"group": group}))["structuredContent"]["groups"][0].take()
    }

    /// The state of a group.
    pub(crate) fn group_state(&mut self, group: &str) -> String {
        self.group_status(group)["state"].as_str().unwrap().to_owned()
    }

    /// Waits until a group is in this state.
    pub(crate) fn wait_for_state(&mut self, group: &str, state: &str) {
        wait_until(&format!("{group} is {state}"), || self.group_state(group) == state);
    }

    /// The pid of a group's process. The process is started if it does not run.
    pub(crate) fn upstream_pid(&mut self, group: &str) -> u32 {
        self.call_text(group, "pid", json!({})).parse().unwrap()
    }

    /// Connects these groups, so that their catalogs are known.
    pub(crate) fn connect<const N: usize>(&mut self, groups: [&str; N]) {
        for group in groups {
            self.upstream_pid(group);
        }
    }

    /// Waits until a tool of this group has slept for a second.
    pub(crate) fn wait_one_second(&mut self, group: &str) {
        self.call_text(group, "sleep", json!({"ms": 1000}));
    }
}
