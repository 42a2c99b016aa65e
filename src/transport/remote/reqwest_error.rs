//! Finds out what a `reqwest::Error` is about.
//!
//! A `reqwest::Error` is a chain of errors. The outer ones name the library that failed and some of them the URL; the
//! innermost one has the reason. Only the innermost one is shown, because a URL may contain keys.

use std::error::Error;

/// Returns the message of the innermost error.
pub fn root_cause(error: &reqwest::Error) -> String {
    match sources(error).skip(1).last() {
        Some(root) => root.to_string(),
        None if error.is_timeout() => "no answer in time".to_owned(),
        None => "the answer is not HTTP".to_owned(),
    }
}

/// Returns why the server's certificate was rejected, if that is the cause.
pub fn certificate_error(error: &reqwest::Error) -> Option<String> {
    sources(error).find_map(|error| match tls_error(error)? {
        rustls::Error::InvalidCertificate(reason) => Some(reason.to_string()),
        _ => None,
    })
}

/// Returns whether TLS failed.
pub fn is_tls_error(error: &reqwest::Error) -> bool {
    sources(error).any(|error| tls_error(error).is_some())
}

fn sources<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
}

/// The rustls error that `error` is or wraps. An `io::Error` does not return the error it wraps as its source.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    match error.downcast_ref::<std::io::Error>() {
        Some(io) => tls_error(io.get_ref()?),
        None => error.downcast_ref(),
    }
}
