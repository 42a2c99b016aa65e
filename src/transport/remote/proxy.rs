//! The proxy that the environment names for a request, and what is its fault. reqwest goes there by itself, and its
//! errors do not say so. Never with the credentials in its address.

use super::error::{RemoteErrorKind, cause, is_of_tls};
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

/// How hyper begins what it says of a proxy that makes no connection for us.
const TUNNEL: &str = "tunnel error: ";

fn intercept(url: &str) -> Option<http::Uri> {
    Some(Matcher::from_system().intercept(&url.parse().ok()?)?.uri().clone())
}

/// The proxy's address as it may be shown.
fn shown(url: &Url) -> Option<String> {
    let uri = intercept(url.as_str())?;
    Some(format!("the proxy {}://{}, which the environment names,", uri.scheme_str()?, uri.authority()?))
}

/// The hosts of the proxies, wherever a request goes.
pub fn hosts() -> Vec<String> {
    let somewhere = ["http://host.invalid/", "https://host.invalid/"];
    let hosts = somewhere.iter().filter_map(|url| Some(intercept(url)?.host()?.to_owned()));
    hosts.collect()
}

/// Why there was no connection, where a proxy was to make it.
pub fn failed(error: &reqwest::Error, url: &Url) -> Option<(RemoteErrorKind, String)> {
    // What is wrong with TLS is wrong behind the proxy.
    if !error.is_connect() || is_of_tls(error) {
        return None;
    }
    let proxy = shown(url)?;
    let origin = url.origin().ascii_serialization();
    let why = cause(error);
    Some(match why.strip_prefix(TUNNEL) {
        Some("proxy authorization required") => return refused(url),
        Some("unsuccessful") => {
            (RemoteErrorKind::Unreachable, format!("{proxy} makes no connection to {origin}"))
        }
        Some(why) => {
            (RemoteErrorKind::Unreachable, format!("{proxy} makes no connection to {origin}: {why}"))
        }
        None if error.is_timeout() => {
            (RemoteErrorKind::Unreachable, format!("{proxy} made no connection to {origin} in time"))
        }
        None => (RemoteErrorKind::Unreachable, format!("{proxy} cannot be reached: {why}")),
    })
}

/// What its status 407 means.
pub fn refused(url: &Url) -> Option<(RemoteErrorKind, String)> {
    let proxy = shown(url)?;
    Some((
        RemoteErrorKind::Config,
        format!("{proxy} wants other credentials than its address has (HTTP 407)"),
    ))
}
