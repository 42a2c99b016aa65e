//! Which addresses a server may send us to: a public one to public ones only, whatever it writes them like.

use reqwest::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Host;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Loopback,
    Private,
    /// Link-local (where clouds keep their secrets), multicast, reserved.
    Never,
}

/// How far the requests of a login may go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    server: Kind,
    allow_private: bool,
}

impl Reach {
    /// By what the config's address says, never by what its name resolves to: that is the server's choice.
    pub(super) fn of(server: &Url, allow_private: bool) -> Self {
        let kind =
            if is_loopback(server) { Kind::Loopback } else { literal(server).map_or(Kind::Public, kind) };
        Self { server: kind, allow_private }
    }

    pub(super) fn is_loopback(self) -> bool {
        self.server == Kind::Loopback
    }

    pub(super) fn allows(self, address: IpAddr) -> bool {
        match kind(address) {
            Kind::Public => true,
            Kind::Loopback => self.server == Kind::Loopback,
            Kind::Private => self.allow_private || self.server == Kind::Private,
            Kind::Never => false,
        }
    }

    /// As far as can be said without resolving its name.
    pub(super) fn allows_host(self, url: &Url) -> bool {
        match literal(url) {
            Some(address) => self.allows(address),
            None => self.server == Kind::Loopback || !is_loopback(url),
        }
    }
}

/// Whether a URL names this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        _ => literal(url).is_some_and(|address| kind(address) == Kind::Loopback),
    }
}

fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| kind_of_v6(address), kind_of_v4),
    }
}

fn kind_of_v4(address: Ipv4Addr) -> Kind {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Kind::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Kind::Private,
        (0 | 224..=255, ..) | (169, 254, _) | (192, 0, 0) | (198, 18..=19, _) => Kind::Never,
        _ => Kind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Kind {
    let [a, b, c, ..] = address.segments();
    match (a, b, c) {
        _ if address.is_loopback() => Kind::Loopback,
        (0xfc00..=0xfdff, ..) => Kind::Private,
        // Unspecified, link-local, multicast, Teredo, NAT64 for local use.
        (0xfe80..=0xfebf | 0xff00..=0xffff, ..) | (0x2001, 0, _) | (0x64, 0xff9b, 1) => Kind::Never,
        _ if address.is_unspecified() => Kind::Never,
        _ => Kind::Public,
    }
}

/// The IPv4 address inside a mapped, compatible, NAT64 or 6to4 one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(from(g, h)),
        [0, 0, 0, 0, 0, 0] if !address.is_loopback() && !address.is_unspecified() => Some(from(g, h)),
        [0x2002, ..] => Some(from(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(server: &str, allow_private: bool, other: &str) -> bool {
        let reach = Reach::of(&server.parse().unwrap(), allow_private);
        let url: Url = other.parse().unwrap();
        reach.allows_host(&url)
    }

    const PRIVATE: [&str; 7] = [
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://192.168.1.1/",
        "https://100.64.0.1/",
        "https://[fd00::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://0xa000001/",
    ];
    const LOOPBACK: [&str; 10] = [
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
    ];
    const NEVER: [&str; 12] = [
        "https://169.254.169.254/",
        "https://[::ffff:169.254.169.254]/",
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
    fn a_public_server_sends_us_to_public_addresses_only() {
        for url in PRIVATE.iter().chain(&LOOPBACK).chain(&NEVER) {
            assert!(!allowed("https://mcp.example.com/mcp", false, url), "{url}");
        }
        for url in ["https://login.example.com/", "https://8.8.8.8/", "https://[2606:4700::1]/"] {
            assert!(allowed("https://mcp.example.com/mcp", false, url), "{url}");
        }
    }

    #[test]
    fn private_addresses_are_for_who_allows_them_or_is_at_one() {
        for url in PRIVATE {
            assert!(allowed("https://mcp.example.com/", true, url), "{url}");
            assert!(allowed("https://10.1.1.1/", false, url), "{url}");
        }
        for url in LOOPBACK.iter().chain(&NEVER) {
            assert!(!allowed("https://mcp.example.com/", true, url), "{url}");
            assert!(!allowed("https://10.1.1.1/", false, url), "{url}");
        }
    }

    #[test]
    fn this_machine_is_for_servers_on_it() {
        for url in LOOPBACK {
            assert!(allowed("http://127.0.0.1:8000/mcp", false, url), "{url}");
        }
        for url in NEVER.iter().chain(&PRIVATE) {
            assert!(!allowed("http://127.0.0.1:8000/mcp", false, url), "{url}");
        }
    }

    #[test]
    fn a_name_is_judged_by_what_it_resolves_to() {
        let reach = Reach::of(&"https://mcp.example.com/".parse().unwrap(), false);
        for (address, allowed) in
            [("10.0.0.1", false), ("127.0.0.1", false), ("::1", false), ("8.8.8.8", true)]
        {
            assert_eq!(reach.allows(address.parse().unwrap()), allowed, "{address}");
        }
    }
}
