//! Classifies addresses, and decides which of them a server may lead a login to.
//!
//! A public server may lead only to public addresses, in any notation. Otherwise it could make this machine send
//! requests into a private network, or to the metadata service of a cloud.

use reqwest::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Host;

/// The kinds of addresses that the policy distinguishes (RFC 6890 lists the special ones).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressClass {
    Public,
    Loopback,
    Private,
    /// Link-local (cloud metadata services), multicast and reserved addresses: never allowed.
    Forbidden,
}

/// Which addresses the requests of one server's login may reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct EgressPolicy {
    /// The class of the server's own address.
    server: AddressClass,
    /// `oauth.allow_private_addresses` in the config.
    allow_private: bool,
}

impl EgressPolicy {
    /// Creates the policy for the server at this address. Only the URL in the config counts, never what its name
    /// resolves to, because the server's owner chooses that.
    pub(super) fn new(server: &Url, allow_private: bool) -> Self {
        let class = match is_loopback(server) {
            true => AddressClass::Loopback,
            false => ip_literal(server).map_or(AddressClass::Public, classify),
        };
        Self { server: class, allow_private }
    }

    /// Returns whether the server runs on this machine.
    pub(super) fn server_is_loopback(self) -> bool {
        self.server == AddressClass::Loopback
    }

    /// Returns whether a connection to this address is allowed.
    pub(super) fn allows_address(self, address: IpAddr) -> bool {
        match classify(address) {
            AddressClass::Public => true,
            AddressClass::Loopback => self.server == AddressClass::Loopback,
            AddressClass::Private => self.allow_private || self.server == AddressClass::Private,
            AddressClass::Forbidden => false,
        }
    }

    /// Returns whether a URL's host is allowed. A name is allowed unless it means this machine; its addresses are
    /// checked when it is resolved.
    pub(super) fn allows_host(self, url: &Url) -> bool {
        match ip_literal(url) {
            Some(address) => self.allows_address(address),
            None => self.server == AddressClass::Loopback || !is_loopback(url),
        }
    }
}

/// Returns whether a URL names this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        _ => ip_literal(url).is_some_and(|address| classify(address) == AddressClass::Loopback),
    }
}

fn ip_literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => embedded_v4(address).map_or_else(|| classify_v6(address), classify_v4),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => AddressClass::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => AddressClass::Private,
        (0 | 224..=255, ..) | (169, 254, _) | (192, 0, 0) | (198, 18..=19, _) => AddressClass::Forbidden,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    let [a, b, c, ..] = address.segments();
    match (a, b, c) {
        _ if address.is_loopback() => AddressClass::Loopback,
        // Unique local (RFC 4193), and site-local, which RFC 3879 deprecates and old networks still route.
        (0xfc00..=0xfdff | 0xfec0..=0xfeff, ..) => AddressClass::Private,
        // Link-local, multicast, Teredo, local-use NAT64.
        (0xfe80..=0xfebf | 0xff00..=0xffff, ..) | (0x2001, 0, _) | (0x64, 0xff9b, 1) => {
            AddressClass::Forbidden
        }
        _ if address.is_unspecified() => AddressClass::Forbidden,
        _ => AddressClass::Public,
    }
}

/// Returns the IPv4 address inside an IPv4-mapped, IPv4-compatible, IPv4-translated (RFC 2765), NAT64 or 6to4 address.
/// `None` for the loopback and the unspecified address, which only look like IPv4-compatible ones.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(from(g, h)),
        [0, 0, 0, 0, 0, 0] if !address.is_loopback() && !address.is_unspecified() => Some(from(g, h)),
        [0x2002, ..] => Some(from(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a login at `server` may send a request to `other`.
    fn allowed(server: &str, allow_private: bool, other: &str) -> bool {
        let policy = EgressPolicy::new(&server.parse().unwrap(), allow_private);
        let url: Url = other.parse().unwrap();
        policy.allows_host(&url)
    }

    const PRIVATE: [&str; 11] = [
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://192.168.1.1/",
        "https://100.64.0.1/",
        "https://[fd00::1]/",
        "https://[fec0::1]/",
        "https://[feff::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[::ffff:0:192.168.1.1]/",
        "https://[64:ff9b::10.0.0.1]/",
        "https://0xa000001/",
    ];
    const LOOPBACK: [&str; 12] = [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://017700000001/",
        "https://2130706433/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.localhost/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:0:127.0.0.1]/",
        "https://[64:ff9b::127.0.0.1]/",
    ];
    const FORBIDDEN: [&str; 13] = [
        "https://169.254.169.254/",
        "https://[::ffff:169.254.169.254]/",
        "https://[::ffff:0:169.254.169.254]/",
        "https://[64:ff9b::169.254.169.254]/",
        "https://[2002:a9fe:a9fe::]/",
        "https://[fe80::1]/",
        "https://0.0.0.0/",
        "https://[::]/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://198.18.0.1/",
        "https://[2001:0::1]/",
        "https://[64:ff9b:1::1]/",
    ];

    #[test]
    fn a_public_server_may_redirect_only_to_public_addresses() {
        for url in PRIVATE.iter().chain(&LOOPBACK).chain(&FORBIDDEN) {
            assert!(!allowed("https://mcp.example.com/mcp", false, url), "{url}");
        }
        for url in ["https://login.example.com/", "https://8.8.8.8/", "https://[2606:4700::1]/"] {
            assert!(allowed("https://mcp.example.com/mcp", false, url), "{url}");
        }
    }

    #[test]
    fn private_addresses_need_permission_or_a_private_server() {
        for url in PRIVATE {
            assert!(allowed("https://mcp.example.com/", true, url), "{url}");
            assert!(allowed("https://10.1.1.1/", false, url), "{url}");
        }
        for url in LOOPBACK.iter().chain(&FORBIDDEN) {
            assert!(!allowed("https://mcp.example.com/", true, url), "{url}");
            assert!(!allowed("https://10.1.1.1/", false, url), "{url}");
        }
    }

    #[test]
    fn only_a_server_on_this_machine_may_redirect_to_this_machine() {
        for url in LOOPBACK {
            assert!(allowed("http://127.0.0.1:8000/mcp", false, url), "{url}");
        }
        for url in FORBIDDEN.iter().chain(&PRIVATE) {
            assert!(!allowed("http://127.0.0.1:8000/mcp", false, url), "{url}");
        }
    }

    #[test]
    fn a_resolved_address_is_checked_like_a_literal_one() {
        let policy = EgressPolicy::new(&"https://mcp.example.com/".parse().unwrap(), false);
        for (address, allowed) in
            [("10.0.0.1", false), ("127.0.0.1", false), ("::1", false), ("8.8.8.8", true)]
        {
            assert_eq!(policy.allows_address(address.parse().unwrap()), allowed, "{address}");
        }
    }
}
