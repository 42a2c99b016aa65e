//! What a request says of itself, by the era of the connection it goes to. Pure.

use crate::protocol::{Era, STATELESS, meta};
use crate::wire::{Raw, raw};

/// The params of a request that was made in the era `from`, for a connection of the era `to`: a stateless server is
/// told the revision, who asks and what they can do, as far as the request does not say it itself; a server with a
/// handshake heard it before.
pub fn request(params: Option<Raw>, from: Era, to: Era) -> Option<Raw> {
    match (from, to) {
        (Era::Handshake, Era::Handshake) => params,
        (Era::Stateless, Era::Handshake) => params.map(|params| without(&params, &meta::OF_REQUESTS)),
        (_, Era::Stateless) => Some(introduced(params.unwrap_or(Raw::from_static(b"{}")))),
    }
}

/// The params of a request of a client that said once which log messages it wants, for a stateless server, which has to
/// be told with each.
pub fn with_level(params: &Raw, level: &str) -> Raw {
    let says = raw::get(params, "_meta").is_some_and(|given| raw::get(&given, meta::LOG_LEVEL).is_some());
    if says {
        return params.clone();
    }
    raw::set_in(params, "_meta", meta::LOG_LEVEL, serde_json::Value::from(level).to_string().as_bytes())
}

/// A notification's params without the number of a subscription, which is between two neighbours.
pub fn without_subscription(params: &Raw) -> Raw {
    without(params, &[meta::SUBSCRIPTION])
}

fn introduced(params: Raw) -> Raw {
    let given = raw::get(&params, "_meta");
    let given = given.filter(|meta| meta.first() == Some(&b'{')).unwrap_or(Raw::from_static(b"{}"));
    let client = concat!(r#"{"name":"dynamic-mcp","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    let defaults = [
        (meta::VERSION, format!("\"{STATELESS}\"")),
        (meta::CLIENT, client.into()),
        (meta::CAPABILITIES, "{}".into()),
    ];
    let full = defaults.iter().fold(given, |meta, (key, value)| match raw::get(&meta, key) {
        Some(_) => meta,
        None => raw::set(&meta, key, value.as_bytes()),
    });
    raw::set(&params, "_meta", &full)
}

/// `params` without these members of `_meta`, and without `_meta` if nothing else was in it.
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
    fn within_the_handshake_era_nothing_is_touched() {
        let params = raw(r#"{ "_meta" : {"io.modelcontextprotocol/logLevel":1} }"#);
        assert_eq!(request(Some(params.clone()), Era::Handshake, Era::Handshake), Some(params));
        assert_eq!(request(None, Era::Handshake, Era::Handshake), None);
    }

    #[test]
    fn a_stateless_server_is_told_what_the_request_does_not_say() {
        let told = request(None, Era::Handshake, Era::Stateless).unwrap();
        let told = raw::get(&told, "_meta").unwrap();
        assert_eq!(raw::get_str(&told, meta::VERSION).unwrap(), STATELESS);
        assert_eq!(raw::get(&told, meta::CAPABILITIES).unwrap(), "{}");
        let own = raw(
            r#"{"x":1e400,"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"y":1.0}}"#,
        );
        assert_eq!(request(Some(own.clone()), Era::Stateless, Era::Stateless), Some(own));
    }

    #[test]
    fn a_level_is_told_where_the_request_says_none() {
        assert_eq!(
            with_level(&raw(r#"{"x":1e400}"#), "info"),
            raw(r#"{"x":1e400,"_meta":{"io.modelcontextprotocol/logLevel":"info"}}"#)
        );
        let own = raw(r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#);
        assert_eq!(with_level(&own, "info"), own);
    }

    #[test]
    fn a_server_with_a_handshake_is_not_told_again() {
        let own = raw(
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"x":1e400}"#,
        );
        assert_eq!(request(Some(own), Era::Stateless, Era::Handshake).unwrap(), raw(r#"{"x":1e400}"#));
        let more = raw(r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info","progressToken":1}}"#);
        assert_eq!(
            request(Some(more), Era::Stateless, Era::Handshake).unwrap(),
            raw(r#"{"_meta":{"progressToken":1}}"#)
        );
    }
}
