//! Which hosts and origins a request may name. A web page can make a browser send requests to any address, also to one of
//! this machine under a name of its own (DNS rebinding), but the browser names the page's own host and origin.

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Uri};
use std::net::{IpAddr, SocketAddr};

/// The names that always mean this machine.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The hosts and origins that a request may name.
#[derive(Clone, Debug)]
pub struct AllowedNames {
    /// Names of hosts, in lower case, without ports.
    hosts: Vec<String>,
    /// Origins, in lower case.
    origins: Vec<String>,
}

impl AllowedNames {
    /// Allows these hosts and origins, and the address that is listened at. A loopback address has the usual names too.
    pub fn new(address: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>();
        let mut allowed = Self { hosts: lower(hosts), origins: lower(origins) };
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        allowed.hosts.push(ip);
        if address.ip().is_loopback() {
            allowed.hosts.extend(LOOPBACK_NAMES.map(str::to_owned));
        }
        allowed
    }

    /// Checks the host and the origin of a request.
    ///
    /// # Errors
    ///
    /// Names what is foreign.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), String> {
        let host = header(headers, &HOST).or_else(|| uri.authority().map(|host| host.as_str().to_owned()));
        let host = host.unwrap_or_default().to_ascii_lowercase();
        if !self.hosts.iter().any(|allowed| allowed == without_port(&host)) {
            return Err("the Host of the request is not one of this server (--allowed-host)".to_owned());
        }
        let Some(origin) = header(headers, &ORIGIN).map(|origin| origin.to_ascii_lowercase()) else {
            return Ok(());
        };
        let is_same = origin
            .split_once("://")
            .is_some_and(|(scheme, of)| matches!(scheme, "http" | "https") && of == host);
        match is_same || self.origins.contains(&origin) {
            true => Ok(()),
            false => Err("requests from this Origin are not allowed (--allowed-origin)".to_owned()),
        }
    }
}

/// Returns a header as text. One that is no visible ASCII, or that occurs twice, is an empty text, which is no name.
fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().unwrap_or_default();
    Some(if values.next().is_some() { String::new() } else { value.to_owned() })
}

/// Returns a host without its port. Text behind the colon that is no port belongs to the host, which is no allowed one then.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &AllowedNames, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        allowed.check(&headers, &Uri::from_static("/mcp")).is_ok()
    }

    #[test]
    fn only_names_of_this_server_are_hosts() {
        let local = AllowedNames::new("127.0.0.1:80".parse().unwrap(), &["Tools.Example".to_owned()], &[]);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "tools.example:443"] {
            assert!(check(&local, host, None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "",
            "10.0.0.1",
            "[::2]:80",
            "::1",
            "localhost:80:80",
            "localhost:80, evil.example",
            "localhost:80,evil.example:80",
        ] {
            assert!(!check(&local, host, None), "{host}");
        }
        let all = AllowedNames::new("0.0.0.0:80".parse().unwrap(), &[], &[]);
        assert!(!check(&all, "localhost", None), "the address says nothing about names");
        assert!(local.check(&HeaderMap::new(), &Uri::from_static("/mcp")).is_err());
    }

    #[test]
    fn a_header_that_occurs_twice_names_nothing() {
        let local = AllowedNames::new("127.0.0.1:80".parse().unwrap(), &[], &[]);
        for name in [HOST, ORIGIN] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost".parse().unwrap());
            headers.insert(ORIGIN, "http://localhost".parse().unwrap());
            assert!(local.check(&headers, &Uri::from_static("/mcp")).is_ok());
            let same = headers[&name].clone();
            headers.append(&name, same);
            assert!(local.check(&headers, &Uri::from_static("/mcp")).is_err(), "{name}");
        }
    }

    #[test]
    fn an_origin_is_the_same_or_named() {
        let address = "127.0.0.1:80".parse().unwrap();
        let allowed = AllowedNames::new(address, &[], &["https://app.example".to_owned()]);
        assert!(check(&allowed, "localhost:80", Some("http://localhost:80")));
        assert!(check(&allowed, "localhost:80", Some("https://app.example")));
        for origin in [
            "http://localhost:81",
            "null",
            "http://evil.example",
            "https://app.example.evil",
            "file://localhost:80",
        ] {
            assert!(!check(&allowed, "localhost:80", Some(origin)), "{origin}");
        }
    }
}
