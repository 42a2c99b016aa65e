//! What a user can do about an error of a remote server.
//!
//! The texts follow "; ". They contain no more of a URL than its origin, and no value of a header.

use super::reqwest_error::{io_error_kind, is_dns_error};
use super::sender::SendError;
use config::duration::raise_timeout;
use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use std::io::ErrorKind;
use std::time::Duration;

/// The paths at which most servers have MCP.
const USUAL_PATHS: [&str; 2] = ["/mcp", "/sse"];

/// Returns advice for a `url` whose path has no MCP.
pub(crate) fn other_path(url: &Url) -> String {
    let origin = url.origin().ascii_serialization();
    let usual = USUAL_PATHS.into_iter().filter(|path| url.path() != *path);
    let usual: Vec<_> = usual.map(|path| format!("\"{origin}{path}\"")).collect();
    format!("write the address that its documentation names as \"url\", often {}", usual.join(" or "))
}

/// Returns advice for a server that speaks TLS while `url` begins with `http://`, or the other way round.
pub(crate) fn begin_with(scheme: &str, url: &Url) -> String {
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("begin the \"url\" with {scheme}://{}{port}", url.host_str().unwrap_or_default())
}

/// Returns advice for a connection that could not be made. `None`: the error says it all.
pub(crate) fn of_connect_error(error: &SendError, url: &Url, connect_timeout: Duration) -> Option<String> {
    let host = url.host_str().unwrap_or_default();
    if error.is_timeout() {
        return Some(format!(
            "check the host and the port of \"url\", and whether a firewall or a VPN is in the way; if the server is \
             slow, {}",
            raise_timeout("connect", connect_timeout)
        ));
    }
    if is_dns_error(error) {
        return Some(format!(
            "check the host name \"{host}\" in \"url\", and whether this machine has a network (DNS, VPN)"
        ));
    }
    match io_error_kind(error)? {
        ErrorKind::ConnectionRefused => Some(format!(
            "nothing accepts connections at port {} of {host}: start the server, or correct \"url\"",
            url.port_or_known_default().unwrap_or_default()
        )),
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
            Some("check the host of \"url\", and whether this machine has a network (VPN)".to_owned())
        }
        _ => None,
    }
}

/// Returns advice for an answer with this status. `None`: the status says it all. `detail`: the words of the answer.
/// `headers`: those of the config. `is_logged_in`: whether a token was sent.
pub(crate) fn of_status(
    status: StatusCode,
    detail: Option<&str>,
    url: &Url,
    headers: &HeaderMap,
    is_logged_in: bool,
) -> Option<String> {
    let detail = detail.unwrap_or_default().to_ascii_lowercase();
    let names_tls = ["https", "ssl", "tls"].iter().any(|word| detail.contains(word));
    match status.as_u16() {
        400 if url.scheme() == "http" && names_tls => Some(begin_with("https", url)),
        401 | 403 => Some(of_credentials(headers, is_logged_in)),
        404 | 405 | 410 => Some(format!("no MCP is at the path of \"url\": {}", other_path(url))),
        500.. => Some(
            "the fault is the server's, not the config's: if it lasts, see the server's log or tell its operator"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Returns advice for a request that was refused with these headers of the config, or with the token of a login.
fn of_credentials(headers: &HeaderMap, is_logged_in: bool) -> String {
    let names: Vec<_> = headers.keys().map(|name| format!("\"{name}\"")).collect();
    match (names.is_empty(), is_logged_in) {
        (false, _) => format!(
            "{} of \"headers\" in its config entry was sent: check the value, and what the account may do",
            names.join(", ")
        ),
        (true, true) => {
            "check what the account that is logged in may do, or log in with another one".to_owned()
        }
        (true, false) => {
            "no credentials were sent: if it wants a key, write \"headers\": {\"Authorization\": \"Bearer \
                          ${TOKEN}\"} in its config entry, and set TOKEN to the key"
                .to_owned()
        }
    }
}
