//! Fuzz target: metadata of authorization servers and challenges.
#![allow(clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use super::discovery::{check_endpoints, parse_endpoint};
use super::egress::{Egress, REQUEST_TIMEOUT};
use http_client::tls;
use reqwest::Url;
use rmcp::transport::auth::{AuthorizationMetadata, WWWAuthenticateParams};
use std::sync::{Arc, OnceLock};
use url::Host;
use wire::fuzz::{block_on, split_first_byte};

/// A public server, one in a private network and one on this machine.
const SERVERS: [&str; 3] =
    ["https://mcp.example.com/mcp", "https://10.1.2.3/mcp", "http://127.0.0.1:8080/mcp"];

fn egress(server: usize) -> &'static Arc<Egress> {
    static CLIENTS: OnceLock<[Arc<Egress>; 3]> = OnceLock::new();
    let clients = CLIENTS.get_or_init(|| {
        SERVERS.map(|server| {
            let Ok(tls) = block_on(tls::client_config(None, REQUEST_TIMEOUT)) else { panic!("no TLS") };
            Egress::new(&server.parse().expect("a URL"), false, tls)
        })
    });
    &clients[server]
}

/// A metadata document, and the same bytes as a challenge: a URL that passes the checks may be requested. The first
/// byte chooses the server.
pub fn oauth_metadata(data: &[u8]) {
    let (variant, data) = split_first_byte(data);
    let server = variant % SERVERS.len();
    if let Ok(text) = std::str::from_utf8(data) {
        let base = SERVERS[server].parse().expect("a URL");
        let challenge = WWWAuthenticateParams::parse(text, &base);
        let _scope_is_missing = challenge.is_insufficient_scope();
        check_endpoint(server, text);
    }
    let Ok(metadata) = serde_json::from_slice::<AuthorizationMetadata>(data) else { return };
    let required = [&metadata.authorization_endpoint, &metadata.token_endpoint];
    let endpoints = || required.into_iter().chain(&metadata.registration_endpoint);
    let is_allowed = endpoints().all(|endpoint| check_endpoint(server, endpoint));
    assert_eq!(check_endpoints(&metadata, egress(server)).is_ok(), is_allowed);
}

/// Returns whether an endpoint passes. Asserts that it is safe then.
fn check_endpoint(server: usize, text: &str) -> bool {
    let Ok(url) = parse_endpoint(text, egress(server)) else { return false };
    let shown = format!("{text:?} from {}", SERVERS[server]);
    assert!(!text.contains(char::is_control), "{shown} has a control character");
    assert!(url.username().is_empty() && url.password().is_none(), "{shown} has credentials");
    assert_eq!(url.as_str().parse::<Url>().as_ref(), Ok(&url), "{shown} is read in two ways");
    let (is_loopback, is_internal) = match url.host().expect("a host") {
        Host::Ipv4(address) => (
            address.is_loopback(),
            address.is_private() || address.is_link_local() || address.is_unspecified(),
        ),
        Host::Ipv6(address) => match address.to_ipv4_mapped() {
            Some(address) => (address.is_loopback(), address.is_private() || address.is_link_local()),
            None => (address.is_loopback(), address.is_unique_local() || address.is_unicast_link_local()),
        },
        Host::Domain(name) => (name == "localhost" || name.ends_with(".localhost"), false),
    };
    match server {
        0 => assert!(url.scheme() == "https" && !is_loopback && !is_internal, "{shown}"),
        1 => assert!(url.scheme() == "https" && !is_loopback, "{shown}"),
        _ => assert!(url.scheme() == "https" || is_loopback || is_localhost(&url), "{shown}"),
    }
    true
}

fn is_localhost(url: &Url) -> bool {
    let name = url.host_str().unwrap_or_default().trim_end_matches('.');
    name.starts_with("127.") || name.starts_with('[') || name.ends_with("localhost")
}
