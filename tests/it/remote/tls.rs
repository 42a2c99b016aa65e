//! HTTPS with a certificate that only the config knows.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;

use super::{Server, remote};
use crate::support::{Proxy, Setup, servers, until};

/// A server, and the certificate that it has, as PEM.
pub(super) fn server() -> (Server, String) {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    (Server::tls(config.with_single_cert(vec![made.cert.der().clone()], key).unwrap()), made.cert.pem())
}

/// What a company has: a certificate of this machine by an authority of its own; and the authority's own, as PEM.
pub(crate) fn company() -> (rustls::ServerConfig, String) {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let mut own = CertificateParams::new(Vec::new()).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own_key = KeyPair::generate().unwrap();
    let pem = own.self_signed(&own_key).unwrap().pem();
    let issuer = Issuer::new(own, own_key);
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    (config.with_single_cert(vec![made.der().clone()], key).unwrap(), pem)
}

#[test]
fn a_ca_file_is_trusted() {
    let (server, pem) = server();
    let setup = Setup::new();
    fs::write(setup.dir().join("ca.pem"), pem).unwrap();
    let mut proxy = setup.config(&remote(&server, json!({"ca_file": "ca.pem"}))).ready();
    assert_eq!(proxy.text("g", "echo", json!({"text": "secure"})), "secure");
}

#[test]
fn a_certificate_that_is_not_trusted_is_said_with_its_reason_and_the_remedy() {
    let (server, _) = server();
    let mut proxy = Proxy::new(&remote(&server, json!({})));
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(
        failure.contains("was rejected: invalid peer") || failure.contains("was rejected: UnknownIssuer"),
        "{failure}"
    );
    assert!(failure.contains("\"ca_file\""), "{failure}");
    assert_eq!(server.seen().len(), 0, "nothing was sent");
}

#[test]
fn what_else_is_wrong_with_tls_is_said() {
    let (certificate, pem) = company();
    let (secure, plain) = (Server::tls(certificate), Server::start(|_| None));
    let port = |server: &Server| server.address().rsplit(':').next().unwrap().to_owned();
    for (url, said) in [
        (format!("https://localhost:{}/mcp", port(&secure)), "the TLS certificate of https://localhost:"),
        (format!("https://127.0.0.1:{}/mcp", port(&plain)), "cannot be reached: "),
        (format!("http://127.0.0.1:{}/mcp", port(&secure)), "before the answer was complete: "),
    ] {
        let setup = Setup::new();
        fs::write(setup.dir().join("ca.pem"), &pem).unwrap();
        let config = servers([("g", json!({"url": url, "ca_file": "ca.pem"}))]);
        let failure = setup.config(&config).ready().failure("g", "echo", json!({}));
        assert!(failure.contains(said), "{url}: {failure}");
    }
    assert_eq!((secure.seen().len(), plain.seen().len()), (0, 0));
}

#[test]
fn a_ca_file_that_cannot_be_used_is_named() {
    let (server, _) = server();
    for (text, said) in [(None, "No such file"), (Some("hello"), "contains no PEM certificate")] {
        let setup = Setup::new();
        if let Some(text) = text {
            fs::write(setup.dir().join("ca.pem"), text).unwrap();
        }
        let mut proxy = setup.config(&remote(&server, json!({"ca_file": "ca.pem"}))).ready();
        let failure = proxy.failure("g", "echo", json!({}));
        assert!(failure.contains("ca.pem") && failure.contains(said), "{failure}");
    }
}

#[test]
fn a_ca_file_that_is_never_read_holds_up_its_own_group_alone() {
    let (server, _) = server();
    let setup = Setup::new();
    let pipe = setup.dir().join("ca.pem");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let plain = Server::start(|_| None);
    let slow = json!({"url": server.url(), "ca_file": "ca.pem", "timeout": {"connect": "1s"}, "lazy_startup": "eager"});
    let config = servers([("slow", slow), ("g", json!({"url": plain.url()}))]);
    let mut proxy = setup.config(&config).ready();
    until("it has failed", || proxy.group("slow")["attempts"] != 0);
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    let error = proxy.group("slow")["error"].take().to_string();
    assert!(error.contains("ca.pem took longer than 1 s"), "{error}");
    // Whoever reads it gets to the end of it now.
    drop(fs::File::options().write(true).open(&pipe).unwrap());
}
