//! The HTTP client that every request of a login goes through.
//!
//! A server can name any address in its metadata, so each destination is checked, whichever document it came from. A
//! request passes if it uses https, or if it goes from a server on this machine to this machine. A public server cannot
//! lead to a private address (`addresses`), neither by a literal nor by a name that resolves to one. Redirects are not
//! followed here; rmcp follows the redirects of metadata within one origin, and each of them is checked like any
//! request.

use super::addresses::{self, EgressPolicy};
use super::error::AuthError;
use super::metadata_walk::MetadataWalk;
use super::secret::{quote_sanitized, sanitize, without_secrets};
use super::server_answers::readable;
use http_client::connector::{Lookup, system_lookup};
use http_client::proxy;
use http_client::reqwest_error::root_cause;
use http_client::response_body::error_message;
use http_client::sender::HttpSender;
use oauth2::http::{Request, Result as HttpResult};
use oauth2::{HttpRequest, HttpResponse};
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::AuthError as RmcpError;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use rustls::ClientConfig;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// For one request with its response.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Metadata documents and token responses are much smaller.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// A guarded HTTP client for the login at one server.
pub(super) struct Egress {
    /// Resolves names with `allowed`.
    sender: HttpSender,
    /// The same without a proxy. Plain HTTP never leaves this machine.
    local_sender: HttpSender,
    /// What `check` checks.
    allowed: AllowedDestinations,
    /// Why the last request that rmcp made failed: rmcp drops the reason.
    last_error: Mutex<Option<AuthError>>,
    /// The last error response that rmcp got: rmcp drops most of it.
    last_refusal: Mutex<Option<HttpResponse>>,
    /// The requests of rmcp for metadata.
    pub(super) walk: Mutex<MetadataWalk>,
}

/// Where requests may go.
#[derive(Clone)]
struct AllowedDestinations {
    /// The server's own host may have any address, because the user chose it in the config.
    server_host: String,
    /// The proxies of the environment, which the user also chose.
    proxy_hosts: Vec<String>,
    /// For all other hosts.
    policy: EgressPolicy,
    /// Looks up the addresses of a name.
    lookup: Lookup,
}

impl Egress {
    /// Makes a client for the login at `server`, which trusts the authorities in `tls`. `allow_private`: whether a
    /// public server may lead to private addresses.
    pub(super) fn new(server: &Url, allow_private: bool, tls: ClientConfig) -> Arc<Self> {
        Self::with_lookup(server, allow_private, tls, system_lookup())
    }

    fn with_lookup(server: &Url, allow_private: bool, tls: ClientConfig, lookup: Lookup) -> Arc<Self> {
        let allowed = AllowedDestinations {
            server_host: server.host_str().unwrap_or_default().to_owned(),
            proxy_hosts: proxy::hosts(),
            policy: EgressPolicy::new(server, allow_private),
            lookup,
        };
        let sender = |takes_proxy| {
            HttpSender::new(tls.clone(), allowed.clone().into_lookup(), takes_proxy, REQUEST_TIMEOUT)
        };
        Arc::new(Self {
            sender: sender(true),
            local_sender: sender(false),
            allowed,
            last_error: Mutex::default(),
            last_refusal: Mutex::default(),
            walk: Mutex::default(),
        })
    }

    /// Checks that a request may go to `url`. The addresses of a host name are checked when it is resolved.
    ///
    /// # Errors
    ///
    /// `Refused` if it may not.
    pub(super) fn check(&self, url: &Url) -> Result<(), AuthError> {
        let refuse = |why: &str| {
            let shown = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
            Err(AuthError::Refused(format!("the login leads to {shown}, {why}")))
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("whose URL contains a user name or password");
        }
        let Some(host) = url.host_str() else { return refuse("whose URL has no host") };
        match url.scheme() {
            "https" => {}
            "http" if self.allowed.policy.server_is_loopback() && addresses::is_loopback(url) => {}
            _ => return refuse("which does not use https"),
        }
        if host == self.allowed.server_host {
            return Ok(());
        }
        if self.allowed.proxy_hosts.iter().any(|proxy| proxy == host) {
            return refuse("which is the proxy itself");
        }
        if !self.allowed.policy.allows_host(url) {
            return refuse(
                "which is a private or reserved address \
                 (set `oauth.allow_private_addresses` to true if your organization uses private ones)",
            );
        }
        Ok(())
    }

    /// Takes the reason why the last failed request of rmcp failed. `None` if none has failed since this was last
    /// taken. A response with an error status is no failure.
    pub(super) fn take_last_error(&self) -> Option<AuthError> {
        self.last_error.lock().take()
    }

    /// Explains an error of rmcp, with `secrets` removed. If this client stopped the request, or the request failed,
    /// its own error is returned.
    pub(super) fn explain(&self, error: &RmcpError, secrets: &[&str]) -> AuthError {
        if let Some(error) = self.take_last_error() {
            return error;
        }
        let refusal = self.last_refusal.lock().take();
        let refusal = refusal.map(|response| describe_error_response(&response, secrets));
        match (error, refusal) {
            (
                RmcpError::RegistrationFailed(_)
                | RmcpError::TokenRefreshRejected(_)
                | RmcpError::TokenRefreshFailed(_),
                Some(refusal),
            ) => AuthError::Refused(refusal),
            (RmcpError::TokenExchangeFailed(_), Some(refusal)) => AuthError::Refused(format!(
                "its authorization server did not accept the authorization code: {refusal}"
            )),
            (error, _) => explain_without_response(error, secrets),
        }
    }

    /// Sends a form to an address from metadata. A response with a 4xx status is returned like any other, and made
    /// [`readable`] like all. `authorization`: the `Authorization` header.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub(super) async fn post_form(
        &self,
        address: &str,
        form: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<HttpResponse, AuthError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = Request::post(address)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        self.send(request.body(body.into_bytes())).await.map(readable)
    }

    /// Sends a request and reads its response, whatever its status. Both together may take `REQUEST_TIMEOUT`. The body
    /// of an event stream is not read.
    ///
    /// # Errors
    ///
    /// `Refused` if the request is invalid, its destination is not allowed or the response is larger than
    /// `MAX_RESPONSE_BYTES`. `Unreachable` if the request fails, a proxy rejects its credentials, or a POST is answered
    /// with a status that says nothing about what was posted (5xx, 429).
    pub(super) async fn send(&self, request: HttpResult<HttpRequest>) -> Result<HttpResponse, AuthError> {
        let (mut request, body) = request.map_err(AuthError::refused)?.into_parts();
        let is_post = request.method == "POST";
        let url = Url::parse(&request.uri.to_string())
            .map_err(|_| AuthError::refused("the login leads to an invalid URL"))?;
        self.check(&url)?;
        for (name, value) in &mut request.headers {
            value.set_sensitive(name == AUTHORIZATION);
        }
        let origin = url.origin().ascii_serialization();
        let failed =
            |cause: &dyn Display| AuthError::Unreachable(format!("the request to {origin} failed: {cause}"));
        let end = Instant::now() + REQUEST_TIMEOUT;
        let in_time = |_| failed(&format_args!("no answer within {} s", REQUEST_TIMEOUT.as_secs()));
        // `check` lets plain HTTP pass only to this machine.
        let sender = if url.scheme() == "http" { &self.local_sender } else { &self.sender };
        let body = body.into();
        let sent = timeout_at(end, sender.send(&request.method, &url, &request.headers, &body)).await;
        let mut response =
            sent.map_err(in_time)?.map_err(|error| match proxy::connect_error(&error, &url) {
                Some(error) => AuthError::Unreachable(error.to_string()),
                None => failed(&root_cause(&error)),
            })?;
        let status = response.status();
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
            && let Some(error) = proxy::credentials_rejected(&url)
        {
            return Err(AuthError::Unreachable(error.to_string()));
        }
        if is_post && (status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS) {
            return Err(AuthError::Unreachable(format!("{origin} answered with HTTP status {status}")));
        }
        let mut body = Vec::new();
        // A server may answer the probe for a login with an event stream, which does not end.
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_stream = content_type.is_some_and(|value| value.starts_with("text/event-stream"));
        let next = |error| failed(&root_cause(&error));
        while !is_stream
            && let Some(chunk) = timeout_at(end, response.chunk()).await.map_err(in_time)?.map_err(next)?
        {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(AuthError::Refused(format!("{origin} answered with more than 1 MiB")));
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = HttpResponse::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }
}

impl Egress {
    /// Sends a request, unless it is one for metadata that was sent before.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send), and `Refused` if the metadata leads to too many places.
    async fn send_for_rmcp(&self, request: HttpRequest) -> Result<HttpResponse, AuthError> {
        if request.method() != "GET" {
            return self.send(Ok(request)).await.map(readable);
        }
        let url = request.uri().to_string();
        let recorded = self.walk.lock().answer(&url)?;
        if let Some(answer) = recorded {
            return Ok(answer);
        }
        let mut answer = self.send(Ok(request)).await;
        self.walk.lock().record(url, answer.as_mut().ok());
        answer
    }
}

impl OAuthHttpClient for Egress {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            match self.send_for_rmcp(request.request).await {
                Ok(response) => {
                    let is_refusal = response.status().is_client_error();
                    *self.last_refusal.lock() = is_refusal.then(|| response.clone());
                    Ok(response)
                }
                Err(error) => {
                    *self.last_error.lock() = Some(error.clone());
                    Err(Box::new(error) as OAuthHttpClientError)
                }
            }
        })
    }
}

impl AllowedDestinations {
    /// Returns a lookup that finds the allowed ones of a name's addresses. The client connects to exactly these, so a
    /// second lookup cannot lead elsewhere.
    fn into_lookup(self) -> Lookup {
        let allowed = Arc::new(self);
        Arc::new(move |name: String| {
            let allowed = allowed.clone();
            Box::pin(async move {
                let is_users_choice = name == allowed.server_host || allowed.proxy_hosts.contains(&name);
                let mut addresses = (allowed.lookup)(name).await?;
                addresses.retain(|address| is_users_choice || allowed.policy.allows_address(address.ip()));
                match addresses.is_empty() {
                    true => Err("its host has a private or reserved address".into()),
                    false => Ok(addresses),
                }
            })
        })
    }
}

/// Explains an error of rmcp about which no error response says more.
fn explain_without_response(error: &RmcpError, secrets: &[&str]) -> AuthError {
    let text = || sanitize(&error.to_string(), secrets);
    match error {
        RmcpError::PkceUnsupported => AuthError::refused(
            "its authorization server does not support PKCE with S256, which a safe login requires",
        ),
        RmcpError::DiscoveryRequestFailed { source, .. } => {
            AuthError::Unreachable(sanitize(&format!("{error}: {source}"), secrets))
        }
        RmcpError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            AuthError::Refused(format!(
                "the authorization server {expected_issuer} claims to be {}",
                quote_sanitized(received_issuer, secrets)
            ))
        }
        _ => AuthError::Refused(text()),
    }
}

/// Returns the reason in an error response of an authorization server: its error with the description (RFC 6749 section
/// 5.2, RFC 7591 section 3.2.2), or else its HTTP status and what the body says.
pub(super) fn describe_error_response(response: &HttpResponse, secrets: &[&str]) -> String {
    #[derive(serde::Deserialize)]
    struct OAuthErrorResponse {
        error: String,
        error_description: Option<String>,
    }
    match serde_json::from_slice::<OAuthErrorResponse>(response.body()) {
        Ok(OAuthErrorResponse { error, error_description: Some(description) }) => {
            quote_sanitized(&format!("{error} ({description})"), secrets)
        }
        Ok(OAuthErrorResponse { error, .. }) => quote_sanitized(&error, secrets),
        Err(_) => {
            let body = without_secrets(&String::from_utf8_lossy(response.body()), secrets);
            let words = error_message(&body.into()).map(|words| format!(": {words}"));
            format!("HTTP status {}{}", response.status(), words.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_proxy_at_a_private_address_is_used_but_no_server_may_redirect_to_it() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let server: Url = "https://mcp.example/".parse().unwrap();
        let allowed = |proxies: &[&str]| AllowedDestinations {
            server_host: "mcp.example".to_owned(),
            proxy_hosts: proxies.iter().map(|proxy| (*proxy).to_owned()).collect(),
            policy: EgressPolicy::new(&server, false),
            lookup: system_lookup(),
        };
        let resolve = |allowed: AllowedDestinations| allowed.into_lookup()("localhost".to_owned());
        assert!(resolve(allowed(&[])).await.is_err());
        assert!(resolve(allowed(&["localhost"])).await.is_ok());
        let allowed = allowed(&["proxy.example"]);
        let tls = ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty());
        let mut egress = Egress::new(&server, false, tls.with_no_client_auth());
        Arc::get_mut(&mut egress).unwrap().allowed = allowed;
        assert!(egress.check(&"https://login.example/".parse().unwrap()).is_ok());
        assert!(egress.check(&"https://proxy.example:3128/".parse().unwrap()).is_err());
    }

    #[tokio::test]
    async fn interim_responses_without_end_fail_their_request() {
        use std::io::{Read, Write};
        drop(rustls::crypto::ring::default_provider().install_default());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _request = stream.read(&mut [0; 4096]).unwrap();
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
            while stream.write_all(&interim).is_ok() {}
        });
        let tls = ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty());
        let egress = Egress::new(&url.parse().unwrap(), false, tls.with_no_client_auth());
        let error = egress.send(Request::get(url).body(Vec::new())).await.unwrap_err().to_string();
        assert!(error.contains("the beginning of its response is longer than 64 KiB"), "{error}");
    }

    /// Answers each request on a port of 127.0.0.2, and closes the connection if the path says so. Listens at the same
    /// port of 127.0.0.1, which 0.0.0.0 leads to and no request may reach.
    #[cfg(target_os = "linux")]
    async fn server_and_canary() -> (u16, tokio::net::TcpListener) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let server = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let canary = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = server.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    while let Ok(length @ 1..) = connection.read(&mut request).await {
                        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";
                        let closes = request[..length].starts_with(b"GET /close");
                        let close = if closes { "Connection: close\r\n" } else { "" };
                        connection.write_all(format!("{head}{close}\r\nok").as_bytes()).await.unwrap();
                        if closes {
                            break;
                        }
                    }
                });
            }
        });
        (port, canary)
    }

    /// A name whose address changes between two lookups (DNS rebinding).
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_address_that_was_checked_is_the_one_that_is_connected_to() {
        use futures_util::future::BoxFuture;
        use std::sync::atomic::{AtomicUsize, Ordering};
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let look_up_and_change = |_name: String| -> BoxFuture<'static, _> {
            let addresses: &[&str] = match LOOKUPS.fetch_add(1, Ordering::Relaxed) {
                // A mixture is no way around the check either.
                0 => &["0.0.0.0:0", "127.0.0.2:0", "[::ffff:0.0.0.0]:0"],
                1 => &["127.0.0.2:0"],
                _ => &["0.0.0.0:0"],
            };
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            Box::pin(std::future::ready(Ok(addresses)))
        };
        drop(rustls::crypto::ring::default_provider().install_default());
        let (port, canary) = server_and_canary().await;
        let tls = ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty());
        let server: Url = "http://127.0.0.1:1/mcp".parse().unwrap();
        let egress =
            Egress::with_lookup(&server, false, tls.with_no_client_auth(), Arc::new(look_up_and_change));
        let get = |path: &str| {
            let url = format!("http://login.localhost:{port}/{path}");
            egress.send(Request::get(url).body(Vec::new()))
        };
        // One lookup for each connection: what it said is what is used, and an open connection needs none.
        for (path, lookups) in [("keep", 1), ("keep", 1), ("close", 1), ("keep", 2), ("close", 2)] {
            assert_eq!(get(path).await.unwrap().body(), b"ok", "{path}");
            assert_eq!(LOOKUPS.load(Ordering::Relaxed), lookups, "{path}");
        }
        for _ in 0..2 {
            let error = get("keep").await.unwrap_err().to_string();
            assert!(error.contains("its host has a private or reserved address"), "{error}");
        }
        assert_eq!(LOOKUPS.load(Ordering::Relaxed), 4);
        let connected = tokio::time::timeout(Duration::from_millis(1), canary.accept()).await;
        assert!(connected.is_err(), "a request reached an address that is refused");
    }
}
