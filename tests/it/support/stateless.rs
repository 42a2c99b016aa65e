//! A client of revision 2026-07-28, which makes no handshake and describes itself in every request.

use serde_json::{Value, json};

use super::Proxy;

pub(crate) const REVISION: &str = "2026-07-28";

/// The members of the `_meta` of a request of a client with these capabilities, as bytes without braces.
pub(crate) fn meta_members(capabilities: &str) -> String {
    let info = r#""io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"}"#;
    format!(
        r#""io.modelcontextprotocol/protocolVersion":"{REVISION}",{info},"io.modelcontextprotocol/clientCapabilities":{capabilities}"#
    )
}

impl Proxy {
    /// Sends a request of a client with these capabilities and returns its id.
    pub(crate) fn send_stateless_request(
        &mut self,
        capabilities: &Value,
        method: &str,
        mut params: Value,
    ) -> u64 {
        let members = meta_members(&capabilities.to_string());
        let mut meta: Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
        if let Value::Object(mut given) = params["_meta"].take() {
            meta.as_object_mut().unwrap().append(&mut given);
        }
        params["_meta"] = meta;
        self.send_request(method, params)
    }

    /// Sends a request of a client without capabilities and returns the whole response.
    pub(crate) fn stateless_request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_stateless_request(&json!({}), method, params);
        self.response(id).json()
    }
}
