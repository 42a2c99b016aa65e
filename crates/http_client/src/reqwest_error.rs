//! Finds out what an error of an HTTP request is about.
//!
//! It is a chain of errors, of hyper or of reqwest. The outer ones name the library that failed and some of them the URL; the
//! innermost one has the reason. Only the innermost one is shown, because a URL may contain keys.

use super::trusted_certificates::is_authority;
use base::text::{self, joined_up_to};
use rustls::CertificateError;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

/// What to write for a certificate that the system does not trust.
const WRITE_CA_FILE: &str =
    "write \"ca_file\": \"/PATH/TO/CERTIFICATE.pem\" in its config entry, a file with the certificate of";
/// How many names of a certificate are shown.
const MAX_NAMES: usize = 5;

/// Returns the message of the innermost error.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let is_timeout = error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout);
    match sources(error).skip(1).last() {
        Some(root) => root.to_string(),
        None if is_timeout => "no answer in time".to_owned(),
        None => "the answer is not HTTP".to_owned(),
    }
}

/// Returns why the server's certificate was rejected and what to do, if that is the cause. `ca_file`: whether the
/// config names one.
pub(crate) fn certificate_error(error: &(dyn Error + 'static), ca_file: bool) -> Option<String> {
    sources(error).find_map(|error| match tls_error(error)? {
        rustls::Error::InvalidCertificate(reason) => Some(certificate_words(reason, ca_file)),
        _ => None,
    })
}

/// Returns whether the server's certificate has expired, is not valid yet or was revoked. The server may have a new one
/// at the next attempt, without a change here.
pub(crate) fn is_out_of_date(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|error| {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext, Revoked};
        let Some(rustls::Error::InvalidCertificate(reason)) = tls_error(error) else { return false };
        matches!(reason, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } | Revoked)
    })
}

/// Says in words why a certificate is not accepted, and what to do.
fn certificate_words(reason: &CertificateError, ca_file: bool) -> String {
    match reason {
        CertificateError::UnknownIssuer => match ca_file {
            false => format!(
                "its issuer is not trusted here; if you trust it, {WRITE_CA_FILE} its issuer, or with its own if it is \
                 self-signed"
            ),
            true => "its issuer is neither in \"ca_file\" nor trusted here; put the certificate of its issuer into that \
                     file, or its own if it is self-signed"
                .to_owned(),
        },
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired; only the server's operator can renew it".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            other_name(&expected.to_str(), presented)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidForName => "it is for another host name".to_owned(),
        CertificateError::Revoked => "it was revoked".to_owned(),
        // A certificate authority's own certificate, as `openssl req -x509` makes it.
        error if is_authority(error) => {
            match ca_file {
                false => format!("it is self-signed; if you trust it, {WRITE_CA_FILE} the server"),
                true => "it is self-signed, and \"ca_file\" has another one; put the server's certificate into that file".to_owned(),
            }
        }
        other => other.to_string(),
    }
}

/// Returns what to do about a certificate for other names than that in the URL.
fn other_name(expected: &str, presented: &[String]) -> String {
    // Such as `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
    let name = |name: &String| {
        let name = name.split_once('(').map_or(name.as_str(), |(_, name)| name);
        name.trim_matches(['(', ')', '"']).to_owned()
    };
    let names = joined_up_to(MAX_NAMES, presented.iter().map(name).map(|name| text::name(&name)));
    match presented.is_empty() {
        true => format!(
            "it names no host; its operator has to issue one with the subjectAltName {expected} (for a test: openssl \
             req -x509 -newkey rsa:2048 -nodes -addext subjectAltName={}:{expected})",
            if expected.parse::<IpAddr>().is_ok() { "IP" } else { "DNS" }
        ),
        false => format!(
            "it is for another host name: for {names}, not for {expected}; write a name that it has as the host of \
             \"url\", or issue one with the subjectAltName {expected}"
        ),
    }
}

/// Returns whether the server answered the beginning of TLS with something else, as a server of plain HTTP does.
pub(crate) fn is_not_tls(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|error| matches!(tls_error(error), Some(rustls::Error::InvalidMessage(_))))
}

/// Returns whether the server answered with something that is not HTTP, as a server of TLS does.
pub(crate) fn is_not_http(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|error| error.to_string().starts_with("invalid HTTP version"))
}

/// Returns whether the host's address was not found.
pub(crate) fn is_dns_error(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|error| error.to_string() == "dns error")
}

/// Returns the kind of the system's error, if it is one.
pub(crate) fn io_error_kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    sources(error).find_map(|error| error.downcast_ref::<io::Error>().map(io::Error::kind))
}

/// Returns whether TLS failed.
pub(crate) fn is_tls_error(error: &(dyn Error + 'static)) -> bool {
    sources(error).any(|error| tls_error(error).is_some())
}

/// Returns an error and its sources, the innermost last.
pub(crate) fn sources<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
}

/// Returns the rustls error that `error` is or wraps. An `io::Error` does not return the error it wraps as its source.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    match error.downcast_ref::<io::Error>() {
        Some(io) => tls_error(io.get_ref()?),
        None => error.downcast_ref(),
    }
}
