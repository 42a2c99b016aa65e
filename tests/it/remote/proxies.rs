//! HTTP proxies from the environment: they are used, their credentials are never shown, and their failures are told
//! from failures of the server.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Reply, Server, remote, tls};
use crate::support::{Proxy, ProxyCommand, pure_config, text_of};

/// The credentials in the proxy URLs, `user:s3cret-word`.
const BASIC: &str = "Basic dXNlcjpzM2NyZXQtd29yZA==";

/// A proxy that answers CONNECT.
#[derive(Clone)]
pub(crate) struct TunnelProxy {
    address: String,
    /// The target and the `Proxy-Authorization` of each CONNECT.
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl TunnelProxy {
    /// A proxy that answers CONNECT with this status.
    pub(crate) fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tunnels = Self { address, requests: Arc::default() };
        let accepting = tunnels.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let tunnels = accepting.clone();
                std::thread::spawn(move || tunnels.serve(stream, status));
            }
        });
        tunnels
    }

    /// Its URL, with credentials.
    pub(crate) fn url(&self) -> String {
        format!("http://user:s3cret-word@{}", self.address)
    }

    /// The target and the `Proxy-Authorization` of each CONNECT so far.
    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn serve(&self, stream: TcpStream, status: u16) {
        let mut head = BufReader::new(stream);
        let (mut target, mut authorization, mut line) = (String::new(), String::new(), String::new());
        while head.read_line(&mut line).unwrap_or_default() > 2 {
            if let Some(rest) = line.strip_prefix("CONNECT ") {
                target = rest.split(' ').next().unwrap().to_owned();
            } else if line.to_ascii_lowercase().starts_with("proxy-authorization:") {
                authorization = line.split_once(':').unwrap().1.trim().to_owned();
            }
            line.clear();
        }
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push((target.clone(), authorization));
        let mut stream = head.into_inner();
        write!(stream, "HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n").unwrap();
        let Some(mut far) = (status == 200).then(|| TcpStream::connect(target).unwrap()) else { return };
        let (mut back, mut there) = (far.try_clone().unwrap(), stream.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ended = std::io::copy(&mut back, &mut there);
            let _gone = there.shutdown(Shutdown::Both);
        });
        let _ended = std::io::copy(&mut stream, &mut far);
        let _gone = far.shutdown(Shutdown::Both);
    }
}

/// The program with these variables, logging everything.
fn start_with_env(config: &Value, vars: &[(&str, &str)], pem: Option<&str>) -> Proxy {
    let command = vars.iter().fold(ProxyCommand::new(), |command, (name, value)| command.env(name, value));
    if let Some(pem) = pem {
        std::fs::write(command.home().join("ca.pem"), pem).unwrap();
    }
    command.args(&["--log-level", "trace"]).config(config).start_initialized()
}

/// Fails if the log, the status or `message` shows credentials.
fn assert_no_credentials_shown(proxy: &mut Proxy, message: &str) {
    let all = proxy.log() + &proxy.status().to_string() + message;
    assert!(!all.contains("s3cret") && !all.contains(&BASIC[6..]), "{all}");
}

#[test]
fn an_https_server_is_reached_through_a_tunnel() {
    let (server, pem) = tls::self_signed_server();
    for (name, no_proxy, expected) in [
        ("HTTPS_PROXY", "", 1),
        ("https_proxy", "elsewhere.example", 1),
        ("ALL_PROXY", "", 1),
        ("HTTPS_PROXY", "127.0.0.1", 0),
        ("HTTP_PROXY", "", 0),
    ] {
        let tunnels = TunnelProxy::start(200);
        let vars = [(name, &*tunnels.url()), ("NO_PROXY", no_proxy)];
        let mut proxy = start_with_env(&remote(&server, json!({"ca_file": "ca.pem"})), &vars, Some(&pem));
        for _ in 0..3 {
            assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        }
        let requests = tunnels.requests();
        assert_eq!(requests.is_empty(), expected == 0, "{name} {no_proxy}: {requests:?}");
        assert!(
            requests.iter().all(|request| *request == (server.address(), BASIC.to_owned())),
            "{requests:?}"
        );
        assert_no_credentials_shown(&mut proxy, "");
    }
}

#[test]
fn an_http_server_is_requested_from_the_proxy() {
    let web = Server::start(|_| None);
    let url = web.origin.replace("http://", "http://user:s3cret-word@");
    let config = pure_config([("g", json!({"url": "http://far.invalid/mcp"}))]);
    for name in ["HTTP_PROXY", "http_proxy"] {
        let mut proxy = start_with_env(&config, &[(name, &url)], None);
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        assert_no_credentials_shown(&mut proxy, "");
    }
    assert!(web.requests().iter().all(|request| request.path == "http://far.invalid/mcp"));
    assert!(web.requests().iter().all(|request| request.header("proxy-authorization") == BASIC));
    let before = web.requests().len();
    let mut proxy = start_with_env(&config, &[("HTTP_PROXY", &url), ("no_proxy", ".invalid")], None);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("http://far.invalid cannot be reached"), "{failure}");
    assert_eq!(web.requests().len(), before);
}

#[test]
fn a_failing_proxy_is_named_and_the_server_is_not_blamed() {
    let tunnel_with_status = |status: u16| TunnelProxy::start(status).url();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = format!("http://user:s3cret-word@{closed}");
    let rejecting = Server::start(|_| Some(Reply::status(407).with_header("Proxy-Authenticate", "Basic")));
    let rejecting = rejecting.origin.replace("http://", "http://user:s3cret-word@");
    let credentials = "requires other credentials than those in its URL (HTTP 407)";
    let cases = [
        ("https://far.invalid/mcp", tunnel_with_status(407), credentials, false),
        ("https://far.invalid/mcp", tunnel_with_status(502), "did not connect to https://far.invalid", true),
        ("https://far.invalid/mcp", closed.clone(), "cannot be reached: Connection refused", true),
        ("http://far.invalid/mcp", rejecting, credentials, false),
        ("http://far.invalid/mcp", closed, "cannot be reached: Connection refused", true),
    ];
    let calls = cases.map(|(url, proxied, reason, is_retried)| {
        let mut proxy =
            start_with_env(&pure_config([("g", json!({"url": url}))]), &[("ALL_PROXY", &proxied)], None);
        let id = proxy.send_call("g", "echo", json!({}));
        (proxy, id, proxied, reason, is_retried)
    });
    for (mut proxy, id, proxied, reason, is_retried) in calls {
        let answer = proxy.response(id).json();
        let failure = text_of(&answer["result"]);
        let named = proxied.replace("user:s3cret-word@", "");
        let message = format!("the proxy {named} (set in the environment) {reason}");
        let advice = "; correct ALL_PROXY, or set NO_PROXY=far.invalid to connect without it, and restart";
        assert!(failure.contains(advice), "{failure}");
        assert!(failure.contains(&message), "{message}: {failure}");
        assert_eq!(failure.contains("Call again in"), is_retried, "{failure}");
        assert_no_credentials_shown(&mut proxy, failure);
    }
}

#[test]
fn a_certificate_error_behind_a_proxy_is_the_servers() {
    let (server, _) = tls::self_signed_server();
    let tunnels = TunnelProxy::start(200);
    let mut proxy = start_with_env(&remote(&server, json!({})), &[("HTTPS_PROXY", &tunnels.url())], None);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains(&format!("the TLS certificate of {} was rejected", server.origin)), "{failure}");
}
