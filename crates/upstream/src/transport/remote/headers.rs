//! The MCP request headers. In the stateless era they mirror parts of the body, so that intermediaries can route a
//! request without reading its body (revision 2026-07-28, Streamable HTTP; SEP-2243).

use super::param_headers::ParamHeaders;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use wire::protocol::{STATELESS, meta};
use wire::{Raw, raw};

/// The revision that a request is made in.
pub(crate) const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session that a request belongs to (revisions 2025-03-26 to 2025-11-25).
pub(crate) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The event after which a stream is to be resumed.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The headers of a message to a stateless server: its revision, its method, the name of what it is about, and the
/// arguments that the tool declares as headers.
pub fn stateless(method: &str, params: Option<&Raw>, param_headers: &ParamHeaders) -> HeaderMap {
    let member = |key: &str| params.and_then(|params| raw::get_str(params, key));
    let revision = params
        .and_then(|params| raw::get_str(&raw::get(params, "_meta")?, meta::VERSION))
        .unwrap_or_else(|| STATELESS.to_owned());
    let mut headers = mcp_method(method);
    headers.insert(MCP_PROTOCOL_VERSION, encode(&revision));
    let name = match method {
        "tools/call" | "prompts/get" => member("name"),
        "resources/read" => member("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => member("taskId"),
        _ => None,
    };
    if let Some(name) = &name {
        headers.insert(MCP_NAME, encode(name));
    }
    let arguments = params.and_then(|params| raw::get(params, "arguments"));
    if let ("tools/call", Some(tool), Some(arguments)) = (method, name, arguments) {
        for (name, value) in param_headers.of_call(&tool, &arguments) {
            headers.insert(name, encode(&value));
        }
    }
    headers
}

/// The `Mcp-Method` header.
pub(crate) fn mcp_method(method: &str) -> HeaderMap {
    HeaderMap::from_iter([(MCP_METHOD, encode(method))])
}

/// Encodes a text as a header value: unchanged if it is plain ASCII that is read back the same, else as
/// `=?base64?…?=`.
fn encode(text: &str) -> HeaderValue {
    let is_ascii = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let is_padded = text.trim_matches([' ', '\t']) != text;
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    let plain = is_ascii && !is_padded && !looks_encoded;
    let plain = plain.then(|| HeaderValue::from_str(text).ok()).flatten();
    plain.unwrap_or_else(|| {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(text));
        HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static(""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_plain_ascii_are_encoded() {
        for (text, encoded) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(encode(text), encoded, "{text:?}");
        }
    }

    #[test]
    fn the_name_header_mirrors_what_a_request_is_about() {
        let name_header = |method: &str, params: &str| {
            let headers =
                stateless(method, Some(&Raw::copy_from_slice(params.as_bytes())), &ParamHeaders::default());
            headers.get(MCP_NAME).map(|name| name.to_str().unwrap().to_owned())
        };
        assert_eq!(name_header("tools/call", r#"{"name":"t"}"#).unwrap(), "t");
        assert_eq!(name_header("prompts/get", r#"{"name":"p"}"#).unwrap(), "p");
        assert_eq!(name_header("resources/read", r#"{"uri":"x://ü"}"#).unwrap(), "=?base64?eDovL8O8?=");
        assert_eq!(name_header("tasks/get", r#"{"taskId":"7"}"#).unwrap(), "7");
        assert_eq!(name_header("tools/list", r#"{"name":"t"}"#), None);
    }
}
