//! The HTTP proxy that the environment sets for a request (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
//!
//! reqwest uses the proxy by itself, and its errors do not tell a failure of the proxy from one of the server. This
//! module does. Messages never contain the credentials in the proxy's URL.
//!
//! Plain HTTP to this machine takes no proxy: its credentials are in clear, and must not leave the machine. Go's client
//! does the same.

use super::reqwest_error::{is_tls_error, root_cause};
use super::sender::SendError;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;
use url::Host;

/// How hyper-util's messages about a failed CONNECT begin.
const TUNNEL_ERROR_PREFIX: &str = "tunnel error: ";

/// Why the proxy did not connect to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The proxy requires credentials that its URL does not have (HTTP 407).
    #[error(
        "the proxy {proxy} (set in the environment) requires other credentials than those in its URL (HTTP 407); {advice}"
    )]
    CredentialsRejected {
        /// The proxy's address, without credentials.
        proxy: String,
        /// What to do.
        advice: String,
    },
    /// The proxy cannot be reached, or did not connect to the server.
    #[error("the proxy {proxy} (set in the environment) {reason}; {advice}")]
    Unreachable {
        /// The proxy's address, without credentials.
        proxy: String,
        /// A fragment that follows the address, such as "cannot be reached".
        reason: String,
        /// What to do.
        advice: String,
    },
}

/// Returns the proxy's failure, if a proxy was to make the connection to `url` that `error` is about. `None` too if
/// there was a connection, or if TLS with the server failed.
pub fn connect_error(error: &SendError, url: &Url) -> Option<ProxyError> {
    // TLS is spoken with the server, through the proxy.
    if !error.is_connect() || is_tls_error(error) {
        return None;
    }
    let proxy = display_url(url)?;
    let origin = url.origin().ascii_serialization();
    let cause = root_cause(error);
    let reason = match cause.strip_prefix(TUNNEL_ERROR_PREFIX) {
        Some("proxy authorization required") => return credentials_rejected(url),
        Some("unsuccessful") => format!("did not connect to {origin}"),
        Some(cause) => format!("did not connect to {origin}: {cause}"),
        None if error.is_timeout() => format!("did not connect to {origin} in time"),
        None => format!("cannot be reached: {cause}"),
    };
    Some(ProxyError::Unreachable { proxy, reason, advice: advice(url) })
}

/// Returns the meaning of a response with status 407, if a proxy is used for `url`.
pub fn credentials_rejected(url: &Url) -> Option<ProxyError> {
    Some(ProxyError::CredentialsRejected { proxy: display_url(url)?, advice: advice(url) })
}

/// Returns whether requests to `url` are plain HTTP and stay on this machine.
pub(crate) fn is_local_http(url: &Url) -> bool {
    let is_local = match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    };
    url.scheme() == "http" && is_local
}

/// Says which variable sets the proxy for `url`, and how to connect without it.
fn advice(url: &Url) -> String {
    let scheme = url.scheme();
    let names = [scheme.to_ascii_uppercase() + "_PROXY", format!("{scheme}_proxy")];
    let names = names.iter().map(String::as_str).chain(["ALL_PROXY", "all_proxy"]);
    let name =
        names.into_iter().find(|name| std::env::var_os(name).is_some()).unwrap_or("the system's settings");
    format!(
        "correct {name}, or set NO_PROXY={} to connect without it, and restart the client",
        url.host_str().unwrap_or_default()
    )
}

/// Returns the hosts of all proxies that the environment sets.
pub fn hosts() -> Vec<String> {
    let any_server = ["http://host.invalid/", "https://host.invalid/"];
    let hosts = any_server.iter().filter_map(|url| Some(proxy_for(url)?.host()?.to_owned()));
    hosts.collect()
}

fn proxy_for(url: &str) -> Option<http::Uri> {
    Some(Matcher::from_system().intercept(&url.parse().ok()?)?.uri().clone())
}

/// Returns the URL of the proxy for `url`, without credentials.
fn display_url(url: &Url) -> Option<String> {
    let uri = proxy_for(url.as_str()).filter(|_| !is_local_http(url))?;
    Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?))
}
