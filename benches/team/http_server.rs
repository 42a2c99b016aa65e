//! An HTTP/1.1 server on hyper, as plain as possible.

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use tokio::net::TcpListener;

/// Serves a port of this machine on one thread, until the process is killed.
pub(crate) fn serve<B, F, A>(port: u16, answer: F)
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    F: Fn(Request<Incoming>) -> A + Clone + 'static,
    A: Future<Output = Response<B>> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            tokio::task::spawn_local(async move {
                let service = service_fn(|request| {
                    let answer = answer(request);
                    async { Ok::<_, Infallible>(answer.await) }
                });
                // A client that goes away is no error here.
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
}
