//! The HTTP+SSE transport (revision 2024-11-05): one event stream carries everything that the server sends. Its first
//! event names the endpoint for the client's messages.

use super::connection::RemoteConnection;
use super::event_stream::EventStream;
use config::duration::raise_timeout;
use http_client::error::RemoteError;
use reqwest::Url;
use std::sync::Arc;

/// An event stream that has named its endpoint.
pub struct HttpSseStream {
    /// Where messages are sent.
    pub endpoint: Url,
    /// The rest of the stream.
    pub events: EventStream,
}

/// Opens the stream and waits until it has named its endpoint, within the connect timeout.
///
/// # Errors
///
/// Those of `open_get_stream`. `InvalidResponse` if the stream does not name its endpoint in time, or names one that
/// cannot be used.
pub async fn open(connection: &RemoteConnection) -> Result<HttpSseStream, RemoteError> {
    let time_limit = connection.http.connect_timeout;
    tokio::time::timeout(time_limit, open_unbounded(connection)).await.unwrap_or_else(|_| {
        let seconds = time_limit.as_secs_f32();
        let raise = raise_timeout("connect", time_limit);
        let message = format!(
            "the server's event stream did not name an endpoint within {seconds} s (timeout.connect); if it is slow, {raise}"
        );
        Err(RemoteError::invalid_response(message))
    })
}

async fn open_unbounded(connection: &RemoteConnection) -> Result<HttpSseStream, RemoteError> {
    let mut events = connection.open_get_stream(None).await?;
    loop {
        let event = events.next().await.map_err(|_| {
            RemoteError::invalid_response("the server's event stream ended before it named an endpoint")
        })?;
        if event.name.as_deref() == Some("endpoint") {
            let reference = std::str::from_utf8(&event.data).unwrap_or_default().trim();
            return Ok(HttpSseStream { endpoint: endpoint_url(&connection.http.url, reference)?, events });
        }
    }
}

/// Resolves the endpoint that the server named.
///
/// # Errors
///
/// It is no URL, or has another origin than `url`: credentials are sent to it.
fn endpoint_url(url: &Url, reference: &str) -> Result<Url, RemoteError> {
    let endpoint = url.join(reference).map_err(|_| {
        RemoteError::invalid_response("the server's event stream named an endpoint that is not a valid URL")
    })?;
    if endpoint.origin() == url.origin() {
        return Ok(endpoint);
    }
    let origin = endpoint.origin().ascii_serialization();
    Err(RemoteError::invalid_response(format!(
        "the server named an endpoint at {origin}; dynamic-mcp does not send messages to another origin than that of \
         \"url\""
    )))
}

/// Delivers what the server sends, until it ends the stream. That ends the connection.
pub async fn read(connection: Arc<RemoteConnection>, mut events: EventStream) {
    while let Ok(event) = events.next().await {
        connection.deliver_event(event).await;
    }
    connection.end(RemoteError::connection_lost("the server ended its event stream"), None).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_has_the_origin_of_the_url() {
        let url = Url::parse("https://u:p@a.example/sse?k=v").unwrap();
        let resolve = |reference: &str| endpoint_url(&url, reference).map(|url| url.to_string());
        assert_eq!(resolve("/messages?s=1").unwrap(), "https://u:p@a.example/messages?s=1");
        assert_eq!(resolve("https://a.example/m").unwrap(), "https://a.example/m");
        for other in [
            "https://b.example/m",
            "//b.example/m",
            "http://a.example/m",
            "https://a.example:8443/m",
            "file:///m",
        ] {
            let error = resolve(other).unwrap_err().to_string();
            assert!(error.contains("another origin"), "{other}: {error}");
        }
    }
}
