//! Where the browser comes back to: one address on this machine, for one visit.

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

/// A browser sends its request at once.
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST: usize = 16 << 10;
/// At the same time.
const VISITS: usize = 32;
const PATH: &str = "/callback";

const DONE: &str = include_str!("pages/done.html");
const FAILED: &str = include_str!("pages/failed.html");
const STRANGE: &str = include_str!("pages/strange.html");

pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// The browser's visit, not answered yet.
pub(super) struct Came {
    stream: TcpStream,
    url: Url,
}

impl Callback {
    pub(super) async fn listen(port: Option<u16>) -> Result<Self, AuthError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = bound.map_err(|error| {
            let port = port.map(|port| format!(" {port} (`oauth.redirect_port`)")).unwrap_or_default();
            let other = match error.kind() {
                ErrorKind::AddrInUse => {
                    "; if another login waits there, finish that one, or give it 5 minutes"
                }
                _ => "",
            };
            AuthError::Refused(format!(
                "the port{port} for the browser's return cannot be opened: {error}{other}"
            ))
        })?;
        Ok(Self { listener, port })
    }

    pub(super) fn address(&self) -> String {
        address(self.port)
    }

    /// Waits for the visit that has our state. Whatever else comes is sent away: any page in the browser can come.
    pub(super) async fn came(&mut self, state: &Secret) -> Came {
        // Browsers open connections that they may need, and say nothing on them.
        let mut visits = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if visits.len() < VISITS => match accepted {
                    Ok((stream, _)) => {
                        visits.spawn(timeout(PATIENCE, read(stream, self.port)));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a visit was lost");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(visit) = visits.join_next() => {
                    let Ok(Ok(Some(mut came))) = visit else { continue };
                    if came.url.path() == PATH && came.parameter("state").as_deref() == Some(state.expose()) {
                        return came;
                    }
                    let status = if came.url.path() == PATH { "400 Bad Request" } else { "404 Not Found" };
                    came.respond(status, STRANGE).await;
                }
            }
        }
    }
}

/// `None`: not a GET of a browser to us. A page that made our port look like its own origin names another host.
async fn read(mut stream: TcpStream, port: u16) -> Option<Came> {
    let mut bytes = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(&bytes).ok()?.is_complete() {
            let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"))?.value;
            let ours = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
            let is_ours = ours.iter().any(|ours| ours.as_bytes() == host) && request.method == Some("GET");
            let url = Url::parse(&address(port)).ok()?.join(request.path?).ok()?;
            return is_ours.then_some(Came { stream, url });
        }
        if bytes.len() > LARGEST || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// By its number: `localhost` may be another address for the browser than for us.
fn address(port: u16) -> String {
    format!("http://127.0.0.1:{port}{PATH}")
}

impl Came {
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// Tells the person. The pages are constant: nothing that came is shown.
    pub(super) async fn answer(mut self, done: bool) {
        let page = if done { DONE } else { FAILED };
        self.respond("200 OK", page).await;
    }

    async fn respond(&mut self, status: &str, page: &str) {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nReferrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            page.len()
        );
        let answered = async {
            self.stream.write_all(head.as_bytes()).await?;
            self.stream.write_all(page.as_bytes()).await?;
            self.stream.shutdown().await
        };
        // Whoever does not read it has closed the window.
        drop(timeout(PATIENCE, answered).await);
    }
}
