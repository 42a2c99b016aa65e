//! Makes the connections of one client, and reads them in turns: a server that sends without a pause delays no other
//! task, and the beginning of a response has an end.
//!
//! reqwest's client reads without these limits and takes no connection of others. So the client is hyper's, with the
//! proxies of the environment and the limits of time that reqwest has.

use super::USER_AGENT;
use futures_util::future::BoxFuture;
use http::header::{HeaderMap, HeaderValue};
use http::uri::Scheme;
use http::{Uri, header};
use hyper::rt::{Read, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec::IntoIter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower::Service;
use tower::util::{BoxCloneSyncService, service_fn};
use wire::lines::BYTES_PER_TURN;

/// How many bytes the beginning of a response may have: its head, and the interim responses before it.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// When the system probes a connection without traffic, and how often before it is given up.
const KEEPALIVE: (Duration, u32) = (Duration::from_secs(15), 3);
/// When the system gives up a connection whose peer does not acknowledge what was sent.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// How many streams of HTTP/2 are counted. There are not as many requests at a time.
const MAX_COUNTED_STREAMS: usize = 4096;

/// The types of HTTP/2 frames that are counted (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
/// The flag of a frame of `HEADERS` after which its stream has no more.
const END_STREAM: u8 = 1;
/// The length of the header of each frame, in bytes.
const FRAME_HEADER: usize = 9;

type BoxError = Box<dyn Error + Send + Sync>;

/// Looks up the addresses of a host name. The port may be 0.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, Result<Vec<SocketAddr>, BoxError>> + Send + Sync>;

/// The lookup of the system.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) }))
}

/// Makes connections to servers, and to the proxies that the environment sets for them.
pub(crate) type ServerConnector = BoxCloneSyncService<Uri, TokioIo<PacedStream>, BoxError>;

/// Returns a connector. `proxies`: those of the environment, unless none is used. `time_limit`: for one connection.
pub(crate) fn connector(
    tls: ClientConfig,
    lookup: Lookup,
    proxies: Option<Arc<Matcher>>,
    time_limit: Duration,
) -> ServerConnector {
    let resolver: BoxCloneSyncService<Name, IntoIter<SocketAddr>, BoxError> =
        BoxCloneSyncService::new(service_fn(move |name: Name| {
            let found = lookup(name.as_str().to_owned());
            async { Ok(found.await?.into_iter()) }
        }));
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let (interval, retries) = KEEPALIVE;
    tcp.set_keepalive(Some(interval));
    tcp.set_keepalive_interval(Some(interval));
    tcp.set_keepalive_retries(Some(retries));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    // A proxy is spoken to in HTTP/1.
    let mut proxy_tls = tls.clone();
    proxy_tls.alpn_protocols.clear();
    let (tls, proxy_tls) = (Arc::new(tls), Arc::new(proxy_tls));
    BoxCloneSyncService::new(service_fn(move |uri: Uri| {
        let (tcp, tls, proxy_tls) = (tcp.clone(), tls.clone(), proxy_tls.clone());
        let proxy = proxies.as_ref().and_then(|proxies| proxies.intercept(&uri));
        let connected = async move {
            let Some(proxy) = proxy else {
                let stream = HttpsConnector::from((tcp, tls)).call(uri).await?;
                return Ok(PacedStream::of(stream, false));
            };
            let mut to_proxy = HttpsConnector::from((tcp, proxy_tls));
            if uri.scheme() != Some(&Scheme::HTTPS) {
                return Ok(PacedStream::of(to_proxy.call(proxy.uri().clone()).await?, true));
            }
            let agent = (header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
            let mut tunnel =
                Tunnel::new(proxy.uri().clone(), to_proxy).with_headers(HeaderMap::from_iter([agent]));
            if let Some(auth) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(auth.clone());
            }
            let stream = HttpsConnector::from((tunnel, tls)).call(uri).await?;
            Ok(PacedStream::of(stream, false))
        };
        async move {
            let connected = tokio::time::timeout(time_limit, connected).await;
            connected.map_err(|_| io::Error::new(ErrorKind::TimedOut, "no connection in time"))?
        }
    }))
}

/// The beginning of a response has more than `MAX_HEAD_BYTES`, or more headers than hyper takes.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error(
    "the beginning of its response is longer than 64 KiB or 100 headers (perhaps 1xx responses without end)"
)]
pub struct HeadTooLong;

trait Stream: Read + Write + Connection + Send + Unpin {}

impl<S: Read + Write + Connection + Send + Unpin> Stream for S {}

/// A connection. After `BYTES_PER_TURN`, other tasks run before more is read.
pub(crate) struct PacedStream {
    stream: TokioIo<Box<dyn Stream>>,
    /// Whether it leads to a proxy that is told each URL.
    is_proxy: bool,
    /// How many bytes were read since other tasks have run.
    of_turn: usize,
    /// What is counted if the connection speaks HTTP/2. In HTTP/1, hyper tells of each interim response.
    header_bytes: Option<HeaderBytes>,
}

impl PacedStream {
    fn of(stream: impl Stream + 'static, is_proxy: bool) -> TokioIo<Self> {
        let header_bytes = stream.connected().is_negotiated_h2().then(HeaderBytes::default);
        let stream: Box<dyn Stream> = Box::new(stream);
        TokioIo::new(Self { stream: TokioIo::new(stream), is_proxy, of_turn: 0, header_bytes })
    }
}

impl Connection for PacedStream {
    fn connected(&self) -> Connected {
        self.stream.inner().connected().proxy(self.is_proxy)
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.of_turn >= BYTES_PER_TURN {
            self.of_turn = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        self.of_turn += read.len();
        Poll::Ready(self.header_bytes.as_mut().map_or(Ok(()), |counted| counted.add(read)))
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// How many bytes of headers each stream of an HTTP/2 connection has had without a body.
#[derive(Default)]
struct HeaderBytes {
    /// The header of the frame that begins.
    frame: Vec<u8>,
    /// How much of the last frame is still to come, in bytes.
    of_frame: usize,
    streams: HashMap<[u8; 4], usize>,
}

impl HeaderBytes {
    /// Adds what was read.
    ///
    /// # Errors
    ///
    /// Fails if a stream has more than `MAX_HEAD_BYTES`.
    fn add(&mut self, mut read: &[u8]) -> io::Result<()> {
        while !read.is_empty() {
            let skipped = self.of_frame.min(read.len());
            self.of_frame -= skipped;
            read = &read[skipped..];
            let taken = (FRAME_HEADER - self.frame.len()).min(read.len());
            self.frame.extend_from_slice(&read[..taken]);
            read = &read[taken..];
            if let [a, b, c, kind, flags, d, e, f, g] = self.frame[..] {
                self.of_frame = u32::from_be_bytes([0, a, b, c]) as usize;
                self.frame.clear();
                self.begin(kind, flags, [d, e, f, g])?;
            }
        }
        Ok(())
    }

    /// Counts a frame whose length is in `of_frame`.
    ///
    /// # Errors
    ///
    /// Fails if its stream has more than `MAX_HEAD_BYTES`.
    fn begin(&mut self, kind: u8, flags: u8, stream: [u8; 4]) -> io::Result<()> {
        match kind {
            HEADERS if flags & END_STREAM != 0 => drop(self.streams.remove(&stream)),
            HEADERS | CONTINUATION => {
                if self.streams.len() >= MAX_COUNTED_STREAMS {
                    self.streams.clear();
                }
                let bytes = self.streams.entry(stream).or_default();
                *bytes += FRAME_HEADER + self.of_frame;
                if *bytes > MAX_HEAD_BYTES {
                    return Err(io::Error::other(HeadTooLong));
                }
            }
            DATA | RST_STREAM => drop(self.streams.remove(&stream)),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u8, length: usize) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(length).unwrap().to_be_bytes();
        [&[a, b, c, kind, 0, 0, 0, 0, stream][..], &vec![0xff; length]].concat()
    }

    #[test]
    fn only_headers_without_a_body_are_counted_however_they_are_cut() {
        let response =
            [frame(HEADERS, 1, 16_000), frame(CONTINUATION, 1, 16_000), frame(DATA, 1, 50_000)].concat();
        for size in [1, 8, 9, 10, 1000, 100_000] {
            let mut counted = HeaderBytes::default();
            for _ in 0..10 {
                response.chunks(size).for_each(|part| counted.add(part).unwrap());
            }
            let (interim, other) =
                (frame(HEADERS, 3, 300), [frame(HEADERS, 1, 30), frame(DATA, 1, 30)].concat());
            let mut sent = 0;
            while interim.chunks(size).all(|part| counted.add(part).is_ok()) {
                sent += interim.len();
                other.chunks(size).for_each(|part| counted.add(part).unwrap());
            }
            assert!((MAX_HEAD_BYTES - 400..=MAX_HEAD_BYTES).contains(&sent), "{sent}");
        }
    }
}
