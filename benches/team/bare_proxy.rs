//! A proxy that forwards each request on a pooled connection and parses no body. It is this same executable.

use super::http_server;
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Forwards requests at one port to the server at another one.
pub(crate) fn serve(port: u16, upstream: u16) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    http_server::serve(port, move |mut request| {
        let client = client.clone();
        async move {
            let path = request.uri().path();
            *request.uri_mut() = Uri::try_from(format!("http://127.0.0.1:{upstream}{path}")).unwrap();
            client.request(request).await.unwrap()
        }
    });
}
