//! Adapts the params of messages to the era of the connection that they go to. Pure.

use wire::protocol::{Era, STATELESS, meta};
use wire::{Raw, raw};

/// Translates the params of a request from the era `from` to the era `to`. A stateless server gets the revision, the
/// client info and the clients' capabilities (`offered`) in `_meta`, unless the request has its own. They are removed
/// for a server of the handshake era, which got them with `initialize`.
pub fn request(params: Option<Raw>, from: Era, to: Era, offered: &Raw) -> Option<Raw> {
    match (from, to) {
        (Era::Handshake, Era::Handshake) => params,
        (Era::Stateless, Era::Handshake) => params.map(|params| without(&params, &meta::OF_REQUESTS)),
        (_, Era::Stateless) => Some(with_client_meta(params.unwrap_or(Raw::from_static(b"{}")), offered)),
    }
}

/// Adds the log level that a client set once, for a stateless server, which needs it in each request.
pub fn with_log_level(params: &Raw, level: &str) -> Raw {
    let has_level = raw::get(params, "_meta").is_some_and(|meta| raw::get(&meta, meta::LOG_LEVEL).is_some());
    if has_level {
        return params.clone();
    }
    raw::set_in(params, "_meta", meta::LOG_LEVEL, serde_json::Value::from(level).to_string().as_bytes())
}

/// Removes the id of a subscription, which only this connection knows, from the params of a notification.
pub(crate) fn without_subscription(params: &Raw) -> Raw {
    without(params, &[meta::SUBSCRIPTION])
}

/// Adds the members of `_meta` that a stateless request has to carry.
fn with_client_meta(params: Raw, offered: &Raw) -> Raw {
    let given = raw::get(&params, "_meta");
    let given = given.filter(|meta| meta.first() == Some(&b'{')).unwrap_or(Raw::from_static(b"{}"));
    let client = concat!(r#"{"name":"dynamic-mcp","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    let version = format!("\"{STATELESS}\"");
    let defaults = [
        (meta::VERSION, version.as_bytes()),
        (meta::CLIENT, client.as_bytes()),
        (meta::CAPABILITIES, &offered[..]),
    ];
    let full = defaults.iter().fold(given, |meta, (key, value)| match raw::get(&meta, key) {
        Some(_) => meta,
        None => raw::set(&meta, key, value),
    });
    raw::set(&params, "_meta", &full)
}

/// Removes these members of `_meta`, and `_meta` itself if nothing else was in it.
fn without(params: &Raw, keys: &[&str]) -> Raw {
    let Some(given) = raw::get(params, "_meta") else { return params.clone() };
    let left = keys.iter().fold(given.clone(), |meta, key| raw::remove(&meta, key));
    match () {
        () if left == given => params.clone(),
        () if raw::entries(&left).is_some_and(|left| left.is_empty()) => raw::remove(params, "_meta"),
        () => raw::set(params, "_meta", &left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn params_within_the_handshake_era_are_unchanged() {
        let params = raw(r#"{ "_meta" : {"io.modelcontextprotocol/logLevel":1} }"#);
        assert_eq!(request(Some(params.clone()), Era::Handshake, Era::Handshake, &raw("{}")), Some(params));
        assert_eq!(request(None, Era::Handshake, Era::Handshake, &raw("{}")), None);
    }

    #[test]
    fn a_stateless_server_gets_the_members_that_the_request_lacks() {
        let offered = raw(r#"{"extensions":{"x":1.0}}"#);
        let params = request(None, Era::Handshake, Era::Stateless, &offered).unwrap();
        let params = raw::get(&params, "_meta").unwrap();
        assert_eq!(raw::get_str(&params, meta::VERSION).unwrap(), STATELESS);
        assert_eq!(raw::get(&params, meta::CAPABILITIES).unwrap(), offered);
        let own = raw(
            r#"{"x":1e400,"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"y":1.0}}"#,
        );
        assert_eq!(request(Some(own.clone()), Era::Stateless, Era::Stateless, &raw("{}")), Some(own));
    }

    #[test]
    fn a_log_level_is_added_unless_the_request_has_one() {
        assert_eq!(
            with_log_level(&raw(r#"{"x":1e400}"#), "info"),
            raw(r#"{"x":1e400,"_meta":{"io.modelcontextprotocol/logLevel":"info"}}"#)
        );
        let own = raw(r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#);
        assert_eq!(with_log_level(&own, "info"), own);
    }

    #[test]
    fn a_handshake_server_gets_no_stateless_members() {
        let own = raw(
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"x":1e400}"#,
        );
        assert_eq!(
            request(Some(own), Era::Stateless, Era::Handshake, &raw("{}")).unwrap(),
            raw(r#"{"x":1e400}"#)
        );
        let more = raw(r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info","progressToken":1}}"#);
        assert_eq!(
            request(Some(more), Era::Stateless, Era::Handshake, &raw("{}")).unwrap(),
            raw(r#"{"_meta":{"progressToken":1}}"#)
        );
    }
}
