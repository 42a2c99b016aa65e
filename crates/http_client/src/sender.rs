//! Sends one HTTP request at a time with hyper's client: over HTTP/1 or HTTP/2, with a limit for the beginning of a
//! response. It asks for a body without a content coding, and decodes one that has it. It follows no redirects.

use super::USER_AGENT;
use super::connector::{self, HeadTooLong, Lookup, MAX_HEAD_BYTES, ServerConnector};
use super::content_coding::{self, UnknownCoding};
use super::reqwest_error::{io_error_kind, sources};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, PROXY_AUTHORIZATION,
    USER_AGENT as AGENT,
};
use http::uri::Scheme;
use http::{Method, Request};
use hyper::body::Body as _;
use hyper::ext::on_informational;
use hyper_util::client::legacy::{self, Client};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::percent_decode_str;
use reqwest::{Body, Response, ResponseBuilderExt, Url};
use rustls::ClientConfig;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How often one request is sent again because the server of HTTP/2 did not process it.
const MAX_REFUSALS: usize = 2;
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// What an interim response has at least beside its headers, in bytes.
const STATUS_LINE: usize = 16;

/// Sends requests. It keeps connections open.
pub struct HttpSender {
    client: Client<ServerConnector, Body>,
    /// The proxies of the environment, unless none is used.
    proxies: Option<Arc<Matcher>>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// hyper's client failed.
    #[error("{0}")]
    Client(#[source] legacy::Error),
    /// The beginning of the response is too long.
    #[error("{0}")]
    HeadTooLong(#[from] HeadTooLong),
    /// The body of the response cannot be decoded.
    #[error("{0}")]
    Coding(#[from] UnknownCoding),
    /// The URL is not one of HTTP.
    #[error("{0}")]
    Url(#[from] http::Error),
}

impl SendError {
    /// Returns whether no connection was made.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_connect())
    }

    /// Returns whether no connection was made in time.
    pub(crate) fn is_timeout(&self) -> bool {
        io_error_kind(self) == Some(ErrorKind::TimedOut)
    }

    /// Returns whether the beginning of the response is too long.
    pub(crate) fn is_head_too_long(&self) -> bool {
        sources(self).any(|error| {
            let is_too_large =
                error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large);
            // h2 keeps only the text of an error of the connection.
            is_too_large || error.to_string() == HeadTooLong.to_string()
        })
    }

    /// Returns whether the server says that it did not process the request (RFC 9113, section 8.7).
    fn was_refused(&self) -> bool {
        let mut errors = sources(self).filter_map(|error| error.downcast_ref::<h2::Error>());
        errors.next().is_some_and(|error| {
            let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let is_leaving = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            error.is_remote() && (is_refused || is_leaving)
        })
    }
}

impl HttpSender {
    /// Makes a sender. No connection is made yet. `lookup`: finds the addresses of hosts, proxies included.
    pub fn new(tls: ClientConfig, lookup: Lookup, takes_proxy: bool, connect_timeout: Duration) -> Self {
        let proxies = takes_proxy.then(|| Arc::new(Matcher::from_system()));
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .build(connector::connector(tls, lookup, proxies.clone(), connect_timeout));
        Self { client, proxies }
    }

    /// Sends a request and returns the response when its head has arrived. Sends it again if a server of HTTP/2 did not
    /// process it. An empty `body` is none. The wait for the response has no limit of time.
    ///
    /// # Errors
    ///
    /// There is no connection, it broke, more than `MAX_HEAD_BYTES` came before the end of the head, or a response that is
    /// a success has an unknown content coding.
    pub async fn send(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response, SendError> {
        let mut refusals = 0;
        loop {
            match self.send_once(method, url, headers, body).await {
                Err(error) if error.was_refused() && refusals < MAX_REFUSALS => refusals += 1,
                sent => return sent,
            }
        }
    }

    async fn send_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response, SendError> {
        let uri = &url[..url::Position::AfterQuery];
        let mut request = Request::builder().method(method).uri(uri).body(Body::from(body.clone()))?;
        let mut own = HeaderMap::from_iter([
            (AGENT, HeaderValue::from_static(USER_AGENT)),
            (ACCEPT, HeaderValue::from_static("*/*")),
            // Without it any coding is welcome (RFC 9110, section 12.5.3), and a compressor may hold back events.
            (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        ]);
        // With TLS, the connector gives it to the proxy.
        let proxies = self.proxies.as_ref().filter(|_| request.uri().scheme() == Some(&Scheme::HTTP));
        if let Some(proxy) = proxies.and_then(|proxies| proxies.intercept(request.uri())) {
            own.extend(proxy.basic_auth().map(|auth| (PROXY_AUTHORIZATION, auth.clone())));
        }
        for (name, value) in headers {
            own.insert(name, value.clone());
        }
        *request.headers_mut() = own;
        let is_too_long = Arc::new(Notify::new());
        let (notify, bytes) = (is_too_long.clone(), AtomicUsize::new(0));
        on_informational(&mut request, move |interim| {
            let headers = interim.headers().iter();
            let of_headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
            let of_this = STATUS_LINE + of_headers.sum::<usize>();
            if bytes.fetch_add(of_this, Ordering::Relaxed) + of_this > MAX_HEAD_BYTES {
                notify.notify_one();
            }
        });
        let response = tokio::select! {
            biased;
            () = is_too_long.notified() => return Err(HeadTooLong.into()),
            response = self.client.request(request) => response.map_err(SendError::Client)?,
        };
        let (mut parts, body) = response.into_parts();
        parts.extensions = http::Response::builder().url(url.clone()).body(())?.into_parts().0.extensions;
        let coding = parts.headers.remove(CONTENT_ENCODING).filter(|_| !body.is_end_stream());
        let body = Body::wrap(body);
        let body = match coding {
            Some(coding) => match content_coding::decode(body, &coding) {
                // The status says enough.
                Err(_) if !parts.status.is_success() => Body::default(),
                decoded => decoded?,
            },
            None => body,
        };
        Ok(http::Response::from_parts(parts, body).into())
    }
}

/// Takes the user name and the password out of a URL, and returns the header for them.
pub(crate) fn take_basic_auth(url: &mut Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let pair = [decoded(url.username()), decoded(url.password().unwrap_or_default())].join(&b':');
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    // A URL of HTTP has a host, so both can be removed.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::system_lookup;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server that answers each request with `answer`.
    fn server(answer: String) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        url
    }

    fn sender() -> HttpSender {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        HttpSender::new(tls, system_lookup(), false, Duration::from_secs(5))
    }

    #[tokio::test]
    async fn a_few_interim_responses_are_passed_over() {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
        let url = server(format!("{hints}{hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        let sender = sender();
        for _ in 0..3 {
            let sent = sender.send(&Method::POST, &url, &HeaderMap::new(), &Bytes::from_static(b"{}")).await;
            assert_eq!(sent.unwrap().text().await.unwrap(), "ok");
        }
    }
}
