//! Receives the browser at the end of a login: an HTTP server on the loopback interface that serves one authorization
//! response (RFC 8252 section 7.3).

use super::error::AuthError;
use super::secret::Secret;
use reqwest::Url;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// To read a request or write a response. A browser on this machine takes milliseconds.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Connections that are served at the same time.
const MAX_CONNECTIONS: usize = 32;
const CALLBACK_PATH: &str = "/callback";

const SUCCESS_PAGE: &str = include_str!("pages/success.html");
const FAILURE_PAGE: &str = include_str!("pages/failure.html");
const UNEXPECTED_PAGE: &str = include_str!("pages/unexpected.html");

/// Listens for the browser.
pub(super) struct CallbackServer {
    listener: TcpListener,
    port: u16,
}

/// A request from the browser that is not answered yet.
pub(super) struct CallbackRequest {
    stream: TcpStream,
    url: Url,
}

impl CallbackServer {
    /// Listens on this port of 127.0.0.1, or on any free one.
    ///
    /// # Errors
    ///
    /// `AuthError::Refused` if the port cannot be used.
    pub(super) async fn listen(port: Option<u16>) -> Result<Self, AuthError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = bound.map_err(|error| {
            let port = port.map(|port| format!(" {port} (`oauth.redirect_port`)")).unwrap_or_default();
            let hint = match error.kind() {
                ErrorKind::AddrInUse => {
                    "; if another login is waiting on it, finish that login or wait 5 minutes"
                }
                _ => "",
            };
            AuthError::Refused(format!("cannot listen for the browser on port{port}: {error}{hint}"))
        })?;
        Ok(Self { listener, port })
    }

    /// Returns the address that the authorization server is to send the browser to.
    pub(super) fn redirect_uri(&self) -> String {
        redirect_uri(self.port)
    }

    /// Waits for the request that carries `state`, without a limit. Other requests get an error page: any page in the
    /// browser can send them.
    pub(super) async fn accept(&mut self, state: &Secret) -> CallbackRequest {
        // Requests are read concurrently, because browsers open connections in advance and send nothing on them.
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if requests.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        requests.spawn(timeout(IO_TIMEOUT, read_request(stream, self.port)));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a connection of the browser could not be accepted");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                },
                Some(request) = requests.join_next() => {
                    let Ok(Ok(Some(mut request))) = request else { continue };
                    let is_callback = request.url.path() == CALLBACK_PATH;
                    if is_callback && request.parameter("state").as_deref() == Some(state.expose()) {
                        return request;
                    }
                    let status = if is_callback { "400 Bad Request" } else { "404 Not Found" };
                    request.respond(status, UNEXPECTED_PAGE).await;
                }
            }
        }
    }
}

/// Reads a GET request. `None` if it is something else, or names another host: a page may have made its own name
/// resolve to this machine (DNS rebinding).
async fn read_request(mut stream: TcpStream, port: u16) -> Option<CallbackRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(&bytes).ok()?.is_complete() {
            let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"))?.value;
            let own_hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
            let is_own = own_hosts.iter().any(|own| own.as_bytes() == host);
            let url = Url::parse(&redirect_uri(port)).ok()?.join(request.path?).ok()?;
            return (is_own && request.method == Some("GET")).then_some(CallbackRequest { stream, url });
        }
        if bytes.len() > MAX_REQUEST_BYTES || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the redirect URL (RFC 8252 section 7.3) of a login on this port. It has the number of the address, because
/// the browser may resolve `localhost` to another one.
pub(super) fn redirect_uri(port: u16) -> String {
    format!("http://127.0.0.1:{port}{CALLBACK_PATH}")
}

impl CallbackRequest {
    /// Returns the first value of a query parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// Shows the user whether the login succeeded, and closes the connection. Gives up after `IO_TIMEOUT`. The pages
    /// are constant: nothing of the request is repeated.
    pub(super) async fn answer(mut self, succeeded: bool) {
        let page = if succeeded { SUCCESS_PAGE } else { FAILURE_PAGE };
        self.respond("200 OK", page).await;
    }

    async fn respond(&mut self, status: &str, page: &str) {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nReferrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            page.len()
        );
        let written = async {
            self.stream.write_all(head.as_bytes()).await?;
            self.stream.write_all(page.as_bytes()).await?;
            self.stream.shutdown().await
        };
        // An error means that the browser closed the window.
        drop(timeout(IO_TIMEOUT, written).await);
    }
}
