//! A client of revision 2026-07-28: no handshake, and every request says who asks.

use serde_json::{Value, json};

use super::Proxy;

pub(crate) const REVISION: &str = "2026-07-28";

/// The members of a request's `_meta`, as bytes without braces.
pub(crate) fn meta(capabilities: &str) -> String {
    let info = r#""io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"}"#;
    format!(
        r#""io.modelcontextprotocol/protocolVersion":"{REVISION}",{info},"io.modelcontextprotocol/clientCapabilities":{capabilities}"#
    )
}

impl Proxy {
    /// Sends a request of a client that can do this, and returns its id.
    pub(crate) fn send_stateless(&mut self, capabilities: &Value, method: &str, params: Value) -> u64 {
        let mut params = params;
        let given = params["_meta"].take();
        let mut all: Value =
            serde_json::from_str(&format!("{{{}}}", meta(&capabilities.to_string()))).unwrap();
        if let Value::Object(mut given) = given {
            all.as_object_mut().unwrap().append(&mut given);
        }
        params["_meta"] = all;
        self.send(method, params)
    }

    /// A whole answer to a client that can do nothing special.
    pub(crate) fn stateless(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_stateless(&json!({}), method, params);
        self.answer(id).json()
    }
}
