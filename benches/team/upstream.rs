//! An MCP server over Streamable HTTP that is as fast as a socket, so that the figures are those of the proxies. It is this
//! same executable. It parses no JSON: the tool `r100` returns a text of 100 bytes, whatever the arguments.

use super::http_server;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Response, StatusCode};

/// Serves a port.
pub(crate) fn serve(port: u16) {
    http_server::serve(port, |request| async {
        if request.method() != Method::POST {
            return response(StatusCode::METHOD_NOT_ALLOWED, Vec::new());
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(&body)
    });
}

fn answer(message: &[u8]) -> Response<Full<Bytes>> {
    let Some(id) = scalar(message, b"\"id\":") else { return response(StatusCode::ACCEPTED, Vec::new()) };
    let head = [br#"{"jsonrpc":"2.0","id":"#, id].concat();
    let has = |method: &[u8]| message.windows(method.len()).any(|window| window == method);
    let end: &[u8] = if has(b"\"tools/call\"") {
        br#","result":{"content":[{"type":"text","text":"lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor"}]}}"#
    } else if has(b"\"initialize\"") {
        br#","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"upstream","version":"1"}}}"#
    } else if has(b"\"tools/list\"") {
        br#","result":{"tools":[{"name":"r100","inputSchema":{"type":"object"}}]}}"#
    } else if has(b"\"ping\"") {
        br#","result":{}}"#
    } else {
        br#","error":{"code":-32601,"message":"unknown method"}}"#
    };
    response(StatusCode::OK, [&head, end].concat())
}

fn response(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

/// The scalar after the first `key` of the message. This suffices for messages that have no such key inside a string.
fn scalar<'a>(message: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let start = message.windows(key.len()).position(|window| window == key)? + key.len();
    let value = message[start..].trim_ascii_start();
    let end = value.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(&value[..end])
}
