//! Finds out what a `reqwest::Error` is about.
//!
//! A `reqwest::Error` is a chain of errors. The outer ones name the library that failed and some of them the URL; the
//! innermost one has the reason. Only the innermost one is shown, because a URL may contain keys.

use rustls::CertificateError;
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
        rustls::Error::InvalidCertificate(reason) => Some(certificate_words(reason)),
        _ => None,
    })
}

/// Says in words why a certificate is not accepted.
fn certificate_words(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => "it is self-signed, or its issuer is not trusted here".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host name".to_owned()
        }
        CertificateError::Revoked => "it was revoked".to_owned(),
        // A certificate authority's own certificate, as `openssl req -x509` makes it.
        CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            "it is self-signed".to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns whether the server answered the beginning of TLS with something else, as a server of plain HTTP does.
pub fn is_not_tls(error: &reqwest::Error) -> bool {
    sources(error).any(|error| matches!(tls_error(error), Some(rustls::Error::InvalidMessage(_))))
}

/// Returns whether the server answered with something that is not HTTP, as a server of TLS does.
pub fn is_not_http(error: &reqwest::Error) -> bool {
    sources(error).any(|error| error.to_string().starts_with("invalid HTTP version"))
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
