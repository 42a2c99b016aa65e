//! What a request of the stateless era says in its headers beside its body (2026-07-28, "Request Metadata"). Pure.

use super::annotations::Annotations;
use crate::protocol::{STATELESS, meta};
use crate::wire::{Raw, raw};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

pub const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Those of one message.
pub fn of(method: &str, params: Option<&Raw>, annotations: &Annotations) -> HeaderMap {
    let member = |key: &str| params.and_then(|params| raw::get_str(params, key));
    let revision = params
        .and_then(|params| raw::get_str(&raw::get(params, "_meta")?, meta::VERSION))
        .unwrap_or_else(|| STATELESS.to_owned());
    let mut headers = self::method(method);
    headers.insert(REVISION, value(&revision));
    let name = match method {
        "tools/call" | "prompts/get" => member("name"),
        "resources/read" => member("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => member("taskId"),
        _ => None,
    };
    if let Some(name) = &name {
        headers.insert(NAME, value(name));
    }
    let arguments = params.and_then(|params| raw::get(params, "arguments"));
    if let ("tools/call", Some(tool), Some(arguments)) = (method, name, arguments) {
        for (name, text) in annotations.of(&tool, &arguments) {
            headers.insert(name, value(&text));
        }
    }
    headers
}

/// What a message is, for those on its way who do not read its body.
pub fn method(method: &str) -> HeaderMap {
    HeaderMap::from_iter([(METHOD, value(method))])
}

/// A text as the value of a header: as it is, or as base64 where readers might take it for something else.
fn value(text: &str) -> HeaderValue {
    let visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let padded = text.trim_matches([' ', '\t']) != text;
    let marked = text.starts_with("=?base64?") && text.ends_with("?=");
    let plain = (visible && !padded && !marked).then(|| HeaderValue::from_str(text).ok()).flatten();
    plain.unwrap_or_else(|| {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(text));
        HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static(""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_header_cannot_carry_are_encoded() {
        for (text, carried) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(value(text), carried, "{text:?}");
        }
    }

    #[test]
    fn a_request_says_its_method_and_what_it_is_about() {
        let of = |method: &str, params: &str| {
            let headers = of(method, Some(&Raw::copy_from_slice(params.as_bytes())), &Annotations::default());
            headers.get(NAME).map(|name| name.to_str().unwrap().to_owned())
        };
        assert_eq!(of("tools/call", r#"{"name":"t"}"#).unwrap(), "t");
        assert_eq!(of("prompts/get", r#"{"name":"p"}"#).unwrap(), "p");
        assert_eq!(of("resources/read", r#"{"uri":"x://ü"}"#).unwrap(), "=?base64?eDovL8O8?=");
        assert_eq!(of("tasks/get", r#"{"taskId":"7"}"#).unwrap(), "7");
        assert_eq!(of("tools/list", r#"{"name":"t"}"#), None);
    }
}
