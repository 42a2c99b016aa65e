//! HTTPS with certificates that only `ca_file` trusts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
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

/// What other programs take for the wish not to verify, and files of authorities that cannot be used.
#[test]
fn no_variable_turns_the_verification_off_or_has_the_keys_written() {
    let (server, pem) = self_signed_server();
    for trusted in [false, true] {
        let command = ProxyCommand::new();
        let (keys, empty) = (command.home().join("keys"), command.home().join("empty"));
        fs::write(command.home().join("ca.pem"), &pem).unwrap();
        fs::write(&empty, "").unwrap();
        let command = [
            ("NODE_TLS_REJECT_UNAUTHORIZED", "0"),
            ("PYTHONHTTPSVERIFY", "0"),
            ("GIT_SSL_NO_VERIFY", "1"),
            ("CURL_INSECURE", "1"),
            ("SSL_NO_VERIFY", "1"),
            ("NPM_CONFIG_STRICT_SSL", "false"),
            ("SSLKEYLOGFILE", keys.to_str().unwrap()),
        ]
        .into_iter()
        .fold(command, |command, (name, value)| command.env(name, value));
        let entry = if trusted { json!({"ca_file": "ca.pem"}) } else { json!({}) };
        let mut proxy = command.config(&remote(&server, entry)).start_initialized();
        let result = proxy.call_tool("g", "echo", json!({"text": "secure"}));
        let text = text_of(&result);
        assert_eq!(text == "secure", trusted, "{text}");
        assert!(trusted || text.contains("was rejected: its issuer is not trusted here"), "{text}");
        assert!(!keys.exists(), "the keys of the connection were written");
        assert!(trusted || server.requests().is_empty(), "something was sent");
    }
}

/// The system's authorities are those of OpenSSL, whose variables name others.
#[cfg(target_os = "linux")]
#[test]
fn only_authorities_that_the_variables_of_openssl_name_are_trusted_in_place_of_the_systems() {
    let (certificate, pem) = private_ca();
    let server = Server::tls(certificate);
    for (content, trusted) in [(Some(&*pem), true), (Some(""), false), (Some("no PEM"), false), (None, false)]
    {
        let command = ProxyCommand::new();
        let file = command.home().join("authorities.pem");
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let dir = command.home().join("none");
        let command = command.env("SSL_CERT_FILE", file.to_str().unwrap());
        let command = command.env("SSL_CERT_DIR", dir.to_str().unwrap());
        let mut proxy = command.config(&remote(&server, json!({}))).start_initialized();
        let before = server.requests().len();
        let result = proxy.call_tool("g", "echo", json!({"text": "secure"}));
        let text = text_of(&result);
        assert_eq!(text == "secure", trusted, "{content:?}: {text}");
        assert!(trusted || text.contains("was rejected"), "{content:?}: {text}");
        assert_eq!(server.requests().len() > before, trusted, "{content:?}");
    }
}

/// The file has exactly the certificate of the server, which is not valid all the same.
#[test]
fn a_certificate_in_the_ca_file_must_be_valid_now() {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let day = |year| rcgen::date_time_ymd(year, 1, 1);
    for (from, until, reason) in [
        (day(2001), day(2002), "was rejected: it has expired; only the server's operator can renew it"),
        (day(2900), day(2901), "was rejected: it is not valid yet"),
    ] {
        for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
            let mut made = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
            (made.not_before, made.not_after, made.is_ca) = (from, until, is_ca);
            let key = KeyPair::generate().unwrap();
            let certificate = made.self_signed(&key).unwrap();
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let config = rustls::ServerConfig::builder().with_no_client_auth();
            let server = Server::tls(config.with_single_cert(vec![certificate.der().clone()], key).unwrap());
            let command = ProxyCommand::new();
            fs::write(command.home().join("ca.pem"), certificate.pem()).unwrap();
            let mut proxy =
                command.config(&remote(&server, json!({"ca_file": "ca.pem"}))).start_initialized();
            let failure = proxy.call_failure("g", "echo", json!({}));
            assert!(failure.contains(reason), "{failure}");
            assert!(server.requests().is_empty(), "something was sent");
        }
    }
}

/// Has an expired certificate for the first connections, then a valid one.
#[derive(Debug)]
struct RenewedCertificate {
    expired: Arc<CertifiedKey>,
    valid: Arc<CertifiedKey>,
    asked: AtomicUsize,
}

impl ResolvesServerCert for RenewedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        Some(if is_first { self.expired.clone() } else { self.valid.clone() })
    }
}

#[test]
fn an_expired_certificate_is_tried_again() {
    let _set = rustls::crypto::ring::default_provider().install_default();
    let key = KeyPair::generate().unwrap();
    let certified = |until| {
        let mut made = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        (made.not_before, made.not_after) =
            (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(until, 1, 1));
        let certificate = made.self_signed(&key).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        (certificate.pem(), Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key)))
    };
    let ((expired_pem, expired), (valid_pem, valid)) = (certified(2002), certified(2900));
    let resolver = Arc::new(RenewedCertificate { expired, valid, asked: AtomicUsize::new(0) });
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let server = Server::tls(config.with_cert_resolver(resolver));
    let command = ProxyCommand::new();
    fs::write(command.home().join("ca.pem"), expired_pem + &valid_pem).unwrap();
    let mut proxy = command.config(&remote(&server, json!({"ca_file": "ca.pem"}))).start_initialized();
    // The same call waits for the next attempt.
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "renewed"})), "renewed");
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
