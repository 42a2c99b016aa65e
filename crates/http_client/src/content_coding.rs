//! Decodes the body of a response that the server compressed although `identity` was asked for.
//!
//! `gzip` and `deflate` are decoded (RFC 9110, section 8.4.1). As browsers and Node do, `deflate` is read with or without
//! the header of zlib, and a body that ends early is what came of it. Each chunk of the decoded body is small, so that a
//! reader notices its limit before much is decoded.

use base::text;
use bytes::{Buf, Bytes};
use flate2::Decompress;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use futures_util::{Stream, StreamExt, stream};
use http::HeaderValue;
use reqwest::{Body, Response};
use std::io::{self, Write};
use std::mem;

/// The server used a coding that is not decoded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server's answer has the content coding {0}, although dynamic-mcp asks for none and decodes only gzip and deflate; \
     only the server's operator can change that"
)]
pub struct UnknownCoding(String);

/// Returns the decoded body. `coding`: the value of `Content-Encoding`.
///
/// # Errors
///
/// The coding is not known.
pub(crate) fn decode(body: Body, coding: &HeaderValue) -> Result<Body, UnknownCoding> {
    let coding = String::from_utf8_lossy(coding.as_bytes()).trim().to_ascii_lowercase();
    let decoder = match coding.as_str() {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" => Some(Decoder::Gzip(MultiGzDecoder::new(Vec::new()))),
        "deflate" => None,
        _ => return Err(UnknownCoding(text::name(&coding))),
    };
    let chunks = Response::from(http::Response::new(body)).bytes_stream();
    let decoding = Decoding { chunks, input: Bytes::new(), decoder };
    Ok(Body::wrap_stream(stream::try_unfold(decoding, async |mut decoding| {
        let chunk = decoding.next().await?;
        Ok::<_, io::Error>(chunk.map(|chunk| (chunk, decoding)))
    })))
}

/// A body that is being decoded.
struct Decoding<S> {
    /// The body as it comes.
    chunks: S,
    /// The rest of the last chunk.
    input: Bytes,
    /// `None`: the first byte decides.
    decoder: Option<Decoder>,
}

impl<S: Stream<Item = reqwest::Result<Bytes>> + Unpin> Decoding<S> {
    /// Returns the next chunk. `None`: the body has ended.
    ///
    /// # Errors
    ///
    /// The connection broke, or the data is damaged.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.input.is_empty() {
                let Some(chunk) = self.chunks.next().await else { return Ok(None) };
                self.input = chunk.map_err(io::Error::other)?;
                continue;
            }
            let first = self.input[0];
            let decoder = self.decoder.get_or_insert_with(|| Decoder::deflate(first));
            let decoded = decoder.decode(&mut self.input)?;
            if !decoded.is_empty() {
                return Ok(Some(decoded.into()));
            }
        }
    }
}

enum Decoder {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}

impl Decoder {
    /// Returns the decoder for a `deflate` that begins with this byte.
    fn deflate(first: u8) -> Self {
        // The compression method in the header of zlib (RFC 1950). A bare stream of a common encoder begins otherwise.
        let has_header = first & 0x0f == 8;
        Self::Deflate(ZlibDecoder::new_with_decompress(Vec::new(), Decompress::new(has_header)))
    }

    /// Decodes the beginning of `input`, and removes it. Returns at most 128 KiB.
    ///
    /// # Errors
    ///
    /// The data is damaged.
    fn decode(&mut self, input: &mut Bytes) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => write_part(decoder, input).map(|()| mem::take(decoder.get_mut())),
            Self::Deflate(decoder) => write_part(decoder, input).map(|()| mem::take(decoder.get_mut())),
        }
        .map_err(|error| io::Error::other(format!("its content coding cannot be decoded: {error}")))
    }
}

fn write_part(decoder: &mut impl Write, input: &mut Bytes) -> io::Result<()> {
    // One `write` makes at most 32 KiB, however much a small input expands to.
    match decoder.write(input)? {
        // What follows the end of the stream is ignored.
        0 => input.clear(),
        taken => input.advance(taken),
    }
    // An event is delivered when it has come, not with the next one.
    if input.is_empty() { decoder.flush() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_body::{BodyError, SizeError, read_body};
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    const TEXT: &str = "{\"text\":\"an answer, an answer, an answer\"}";

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(coding: &'static str, body: &[u8]) -> Response {
        // Each byte comes in a chunk of its own.
        let bytes: Vec<_> = body.iter().map(|byte| Ok::<_, io::Error>(Bytes::from(vec![*byte]))).collect();
        let body = decode(Body::wrap_stream(stream::iter(bytes)), &HeaderValue::from_static(coding));
        http::Response::new(body.unwrap()).into()
    }

    #[tokio::test]
    async fn every_form_of_gzip_and_deflate_is_decoded() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(TEXT.as_bytes()).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(TEXT.as_bytes()).unwrap();
        let (whole, (first, second)) = (gzip(TEXT.as_bytes()), TEXT.split_at(9));
        let without_trailer = whole[..whole.len() - 8].to_vec();
        let members = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
        let forms = [("gzip", whole.clone()), (" X-GZIP ", whole), ("gzip", members)];
        let forms = forms.into_iter().chain([
            ("gzip", without_trailer),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", bare.finish().unwrap()),
            ("identity", TEXT.into()),
        ]);
        for (coding, body) in forms {
            let text = decoded(coding, &body).text().await.unwrap();
            assert_eq!(text, TEXT, "{coding}: {body:?}");
        }
    }

    #[tokio::test]
    async fn what_was_flushed_is_decoded_before_more_comes() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let event = "data: 1\n\n".repeat(1000);
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let first = Ok::<_, io::Error>(Bytes::from(encoder.get_ref().clone()));
        let body = Body::wrap_stream(stream::iter([first]).chain(stream::pending()));
        let body = decode(body, &HeaderValue::from_static("gzip")).unwrap();
        let mut response = Response::from(http::Response::new(body));
        let mut read = Vec::new();
        while read.len() < event.len() {
            read.extend(response.chunk().await.unwrap().unwrap());
        }
        assert_eq!(read, event.as_bytes());
    }

    #[tokio::test]
    async fn the_limit_counts_the_decoded_bytes() {
        let bomb = Body::from(gzip(&vec![b' '; 20 << 20]));
        let body = decode(bomb, &HeaderValue::from_static("gzip")).unwrap();
        let read = read_body(http::Response::new(body).into(), 1 << 20).await;
        let Err(BodyError::Size(SizeError::TooLong(length))) = read else { panic!("it was read") };
        assert!(length < 2 << 20, "{length}");
    }

    #[tokio::test]
    async fn damaged_data_and_other_codings_are_named() {
        let Err(BodyError::Interrupted(reason)) = read_body(decoded("gzip", b"{}not gzip"), 99).await else {
            panic!("it was read");
        };
        assert!(reason.contains("its content coding cannot be decoded"), "{reason}");
        let error = decode(Body::default(), &HeaderValue::from_static("br")).unwrap_err().to_string();
        assert!(error.contains("the content coding br"), "{error}");
    }
}
