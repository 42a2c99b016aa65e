//! HTTP proxies from the environment: they are used, their credentials are never shown, their failures are told from
//! failures of the server, and they read no credentials of ours that are meant for https or for this machine.

use std::io::{self, BufRead, BufReader, Read, Write};
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
    /// All bytes that clients have sent.
    received: Arc<Mutex<Vec<u8>>>,
}

/// A connection of a client, whose bytes are kept.
struct Recorded<'a>(TcpStream, &'a Mutex<Vec<u8>>);

impl Read for Recorded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(buffer)?;
        self.1.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..length]);
        Ok(length)
    }
}

impl TunnelProxy {
    /// A proxy that answers CONNECT with this status.
    pub(crate) fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tunnels = Self { address, requests: Arc::default(), received: Arc::default() };
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
        let mut head = BufReader::new(Recorded(stream, &self.received));
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
        write!(stream.0, "HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n").unwrap();
        let Some(mut far) = (status == 200).then(|| TcpStream::connect(target).unwrap()) else { return };
        let (mut back, mut there) = (far.try_clone().unwrap(), stream.0.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ended = io::copy(&mut back, &mut there);
            let _gone = there.shutdown(Shutdown::Both);
        });
        let _ended = io::copy(&mut stream, &mut far);
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

#[test]
fn a_proxy_reads_no_credentials_that_are_meant_for_https() {
    let (server, pem) = tls::self_signed_server();
    let headers = json!({"Authorization": "Bearer s3cret-token", "X-Key": "s3cret-key"});
    // A proxy that makes the tunnel, and two that do not.
    for status in [200, 407, 502] {
        let tunnels = TunnelProxy::start(status);
        let vars = [("HTTPS_PROXY", &*tunnels.url())];
        let config = remote(&server, json!({"ca_file": "ca.pem", "headers": headers}));
        let mut proxy = start_with_env(&config, &vars, Some(&pem));
        let result = proxy.call_tool("g", "echo", json!({"text": "s3cret-argument"}));
        assert_eq!(result["isError"] == true, status != 200, "{result}");
        let received = tunnels.received.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let received = String::from_utf8_lossy(&received);
        assert!(received.contains(BASIC) && !received.contains("s3cret"), "{received}");
    }
    assert!(server.requests().iter().all(|request| request.header("authorization") == "Bearer s3cret-token"));
}

#[test]
fn plain_http_to_this_machine_takes_no_proxy() {
    let (server, web) = (Server::start(|_| None), Server::start(|_| None));
    let config = remote(&server, json!({"headers": {"Authorization": "Bearer s3cret-token"}}));
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let mut proxy = start_with_env(&config, &[(name, &web.origin)], None);
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        assert!(web.requests().is_empty(), "{name}: {:?}", web.requests());
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = pure_config([("g", json!({"url": format!("http://localhost:{}/mcp", closed.port())}))]);
    let mut proxy = start_with_env(&config, &[("HTTP_PROXY", &web.origin)], None);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(
        failure.contains("nothing accepts connections at port") && !failure.contains("proxy"),
        "{failure}"
    );
    assert!(web.requests().is_empty());
}
