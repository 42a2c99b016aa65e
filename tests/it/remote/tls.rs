//! HTTPS with certificates that only `ca_file` trusts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;

use super::{Server, remote};
#[cfg(unix)]
use crate::support::wait_until;
use crate::support::{Proxy, ProxyCommand, pure_config, text_of};

/// A server with a self-signed certificate, and that certificate as PEM.
pub(super) fn self_signed_server() -> (Server, String) {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    (Server::tls(config.with_single_cert(vec![made.cert.der().clone()], key).unwrap()), made.cert.pem())
}

/// A certificate for this machine by a private authority, and the authority's own certificate as PEM.
pub(crate) fn private_ca() -> (rustls::ServerConfig, String) {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    (config.with_single_cert(vec![made.der().clone()], key).unwrap(), pem)
}

#[test]
fn a_ca_file_is_trusted() {
    let (server, pem) = self_signed_server();
    let command = ProxyCommand::new();
    fs::write(command.home().join("ca.pem"), pem).unwrap();
    let mut proxy = command.config(&remote(&server, json!({"ca_file": "ca.pem"}))).start_initialized();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "secure"})), "secure");
}

#[test]
fn an_untrusted_certificate_is_reported_with_the_reason_and_the_remedy() {
    let (server, _) = self_signed_server();
    let mut proxy = Proxy::new(&remote(&server, json!({})));
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(
        failure.contains("was rejected: its issuer is not trusted here; if you trust it, write"),
        "{failure}"
    );
    assert!(failure.contains("\"ca_file\": \"/PATH/TO/CERTIFICATE.pem\""), "{failure}");
    assert_eq!(server.requests().len(), 0, "nothing was sent");
}

#[test]
fn a_certificate_that_calls_itself_an_authority_is_trusted_if_the_ca_file_has_it() {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let self_signed = |name: &str| {
        let mut made = CertificateParams::new([name.to_owned()]).unwrap();
        made.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = made.self_signed(&key).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        (
            Server::tls(config.with_single_cert(vec![certificate.der().clone()], key).unwrap()),
            certificate.pem(),
        )
    };
    let ((server, own), (named, other)) = (self_signed("127.0.0.1"), self_signed("localhost"));
    let cases = [
        (&server, Some(&own), None),
        (&server, None, Some("it is self-signed; if you trust it, write \"ca_file\"")),
        (&server, Some(&other), Some("put the server's certificate into that file")),
        (&named, Some(&other), Some("for another host name: for localhost, not for 127.0.0.1")),
    ];
    for (server, pem, error) in cases {
        let command = ProxyCommand::new();
        let entry = pem.map_or(json!({}), |pem| {
            fs::write(command.home().join("ca.pem"), pem).unwrap();
            json!({"ca_file": "ca.pem"})
        });
        let mut proxy = command.config(&remote(server, entry)).start_initialized();
        match error {
            None => assert_eq!(proxy.call_text("g", "echo", json!({"text": "secure"})), "secure"),
            Some(error) => {
                let failure = proxy.call_failure("g", "echo", json!({}));
                assert!(failure.contains(error), "{failure}");
                assert_eq!(failure.matches("was rejected").count(), 1, "{failure}");
            }
        }
    }
}

#[test]
fn other_tls_errors_are_reported() {
    let (certificate, pem) = private_ca();
    let (secure, plain) = (Server::tls(certificate), Server::start(|_| None));
    let port = |server: &Server| server.address().rsplit(':').next().unwrap().to_owned();
    // Most servers of plain HTTP answer, and this one does not.
    let answering = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = answering.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in answering.incoming().map_while(Result::ok) {
            let _length = connection.read(&mut [0; 1000]);
            drop(connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let cases = [
        (
            format!("https://{address}/mcp"),
            "does not speak TLS; if it is a server of plain HTTP, begin the \"url\" with http://127.0.0.1:",
        ),
        (
            format!("https://localhost:{}/mcp", port(&secure)),
            "it is for another host name: for 127.0.0.1, not for localhost; write a name that it has",
        ),
        (
            format!("https://127.0.0.1:{}/mcp", port(&plain)),
            "during the TLS handshake; if it is a server of plain HTTP, begin the \"url\" with",
        ),
        (format!("http://127.0.0.1:{}/mcp", port(&secure)), "begin the \"url\" with https://"),
    ];
    let calls = cases.map(|(url, message)| {
        let command = ProxyCommand::new();
        fs::write(command.home().join("ca.pem"), &pem).unwrap();
        let config = pure_config([("g", json!({"url": url, "ca_file": "ca.pem"}))]);
        let mut proxy = command.config(&config).start_initialized();
        let call = proxy.send_call("g", "echo", json!({}));
        (url, message, proxy, call)
    });
    for (url, message, mut proxy, call) in calls {
        let response = proxy.response(call).json();
        let failure = text_of(&response["result"]);
        assert!(failure.contains(message), "{url}: {failure}");
    }
    assert_eq!((secure.requests().len(), plain.requests().len()), (0, 0));
}

#[test]
fn an_unusable_ca_file_is_named() {
    let (server, _) = self_signed_server();
    for (text, reason) in [
        (None, "there is no such file; write the absolute path"),
        (Some("hello"), "contains no PEM certificate"),
    ] {
        let command = ProxyCommand::new();
        if let Some(text) = text {
            fs::write(command.home().join("ca.pem"), text).unwrap();
        }
        let mut proxy = command.config(&remote(&server, json!({"ca_file": "ca.pem"}))).start_initialized();
        let failure = proxy.call_failure("g", "echo", json!({}));
        assert!(failure.contains("ca.pem") && failure.contains(reason), "{failure}");
    }
}

// It needs a FIFO.
#[cfg(unix)]
#[test]
fn a_ca_file_that_blocks_delays_only_its_own_group() {
    let (server, _) = self_signed_server();
    let command = ProxyCommand::new();
    let pipe = command.home().join("ca.pem");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let plain = Server::start(|_| None);
    let slow = json!({"url": server.url(), "ca_file": "ca.pem", "timeout": {"connect": "1s"}, "lazy_startup": "eager"});
    let config = pure_config([("slow", slow), ("g", json!({"url": plain.url()}))]);
    let mut proxy = command.config(&config).start_initialized();
    wait_until("the group has failed", || proxy.group_status("slow")["attempts"] != 0);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    let error = proxy.group_status("slow")["error"].take().to_string();
    assert!(error.contains("ca.pem took longer than 1 s"), "{error}");
    // Lets the blocked reader reach the end of the file.
    drop(fs::File::options().write(true).open(&pipe).unwrap());
}
