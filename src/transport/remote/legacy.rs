//! HTTP+SSE (2024-11-05): one stream for all that the server says, which first names the place for what we say.

use super::error::{RemoteError, RemoteErrorKind};
use super::events::Events;
use super::exchange::{Exchange, Trouble};
use super::post::{self, Post};
use crate::protocol::code;
use reqwest::Url;
use std::sync::Arc;

/// A stream that has named its place.
pub struct Opened {
    pub endpoint: Url,
    pub events: Events,
}

/// Whether a refused `initialize` may mean that the server speaks this.
pub fn may_be_spoken(exchange: &Exchange, post: &Post, trouble: &Trouble) -> bool {
    // Errors of servers that would not take it on any transport.
    const STATELESS: [i64; 5] = [
        code::HEADER_MISMATCH,
        code::MISSING_CAPABILITY,
        code::UNSUPPORTED_REVISION,
        code::METHOD_NOT_FOUND,
        code::INVALID_PARAMS,
    ];
    let open = exchange.kind.is_none() && post.method == "initialize" && exchange.endpoint.get().is_none();
    let status = match trouble {
        Trouble::RemoteError(RemoteError { kind: RemoteErrorKind::Status(status), .. }) => *status,
        Trouble::Refused(status, line) if !STATELESS.contains(&post::error_code(line)) => *status,
        _ => return false,
    };
    open && matches!(status.as_u16(), 400 | 404 | 405)
}

pub async fn open(exchange: &Exchange) -> Result<Opened, RemoteError> {
    let opened = tokio::time::timeout(exchange.http.connect, try_open(exchange)).await;
    opened.unwrap_or_else(|_| {
        let within = exchange.http.connect.as_secs_f32();
        Err(RemoteError::unusable(format!("the server's event stream named no endpoint within {within} s")))
    })
}

async fn try_open(exchange: &Exchange) -> Result<Opened, RemoteError> {
    let mut events = exchange.listen(None).await?;
    loop {
        let event = events.next().await;
        let event = event.map_err(|_| {
            RemoteError::unusable("the server's event stream ended before it named an endpoint")
        })?;
        if event.name.as_deref() == Some("endpoint") {
            let named = std::str::from_utf8(&event.data).unwrap_or_default().trim();
            return Ok(Opened { endpoint: within_origin(&exchange.http.url, named)?, events });
        }
    }
}

/// The place is the server's choice, and our credentials go there: not to another server.
fn within_origin(url: &Url, named: &str) -> Result<Url, RemoteError> {
    let endpoint = url
        .join(named)
        .map_err(|_| RemoteError::unusable("the server named an endpoint that is no address"))?;
    if endpoint.origin() == url.origin() {
        return Ok(endpoint);
    }
    let origin = endpoint.origin().ascii_serialization();
    Err(RemoteError::unusable(format!(
        "the server wants its messages sent to {origin}, another origin, which is not done"
    )))
}

/// Passes on what the server says, until it ends the stream and with it the connection.
pub async fn read(exchange: Arc<Exchange>, mut events: Events) {
    while let Ok(event) = events.next().await {
        exchange.pass(event).await;
    }
    exchange.end(RemoteError::broken("the server ended its event stream"), None).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_on_the_server() {
        let url = Url::parse("https://u:p@a.example/sse?k=v").unwrap();
        let at = |named: &str| within_origin(&url, named).map(|url| url.to_string());
        assert_eq!(at("/messages?s=1").unwrap(), "https://u:p@a.example/messages?s=1");
        assert_eq!(at("https://a.example/m").unwrap(), "https://a.example/m");
        for other in [
            "https://b.example/m",
            "//b.example/m",
            "http://a.example/m",
            "https://a.example:8443/m",
            "file:///m",
        ] {
            let error = at(other).unwrap_err().to_string();
            assert!(error.contains("another origin"), "{other}: {error}");
        }
    }
}
