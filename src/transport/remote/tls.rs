//! Whom remote servers have to be certified by: the authorities that the system trusts, and those of a `ca_file`.

use super::error::RemoteError;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The system's authorities are in hundreds of files, which take milliseconds to read and a third of a megabyte to keep:
/// all connections share them. Who adds one to the system need not start us again: they are read anew after so long.
const FRESH: Duration = Duration::from_secs(60);

/// A reading that is under way or over: whoever wants the same waits for it.
type Reading = Shared<BoxFuture<'static, Result<ClientConfig, RemoteError>>>;

/// By `ca_file`, with when it began.
type Known = HashMap<Option<PathBuf>, (Instant, Reading)>;

/// They are the system's, whichever instance asks.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Sets up TLS for connections that trust the authorities in this file too.
pub async fn config(ca_file: Option<&Path>, within: Duration) -> Result<ClientConfig, RemoteError> {
    timeout(within, reading(ca_file)).await.unwrap_or_else(|_| {
        let what = match ca_file {
            Some(file) => format!("ca_file {} was not read", file.display()),
            None => "the authorities that the system trusts were not read".to_owned(),
        };
        Err(RemoteError::unreachable(&format!("{what} within {} s", within.as_secs_f32())))
    })
}

fn reading(ca_file: Option<&Path>) -> Reading {
    // No code that can panic runs under this lock.
    let mut known = KNOWN.lock();
    known.retain(|_, (at, reading)| match reading.peek() {
        None => true,
        Some(Ok(_)) => at.elapsed() < FRESH,
        Some(Err(_)) => false,
    });
    let (_, reading) = known.entry(ca_file.map(Path::to_owned)).or_insert_with_key(|file| {
        let file = file.clone();
        let read = tokio::task::spawn_blocking(move || read(file.as_deref()));
        let failed = |_| Err(RemoteError::config("TLS could not be set up"));
        (Instant::now(), read.map(move |read| read.unwrap_or_else(failed)).boxed().shared())
    });
    reading.clone()
}

fn read(ca_file: Option<&Path>) -> Result<ClientConfig, RemoteError> {
    let own = ca_file.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder =
        builder.map_err(|error| RemoteError::config(format!("TLS could not be set up: {error}")))?;
    let mut config = match (Verifier::new_with_extra_roots(own, provider), ca_file) {
        (Ok(verifier), _) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
        (Err(error), Some(file)) => return Err(wrong(file, &error)),
        (Err(error), None) => {
            tracing::warn!(%error, "the system names no authorities: only servers without TLS can be reached");
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, RemoteError> {
    let pem = std::fs::read(file).map_err(|error| wrong(file, &error))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong(file, &"not certificates in PEM"))?;
    match certificates.is_empty() {
        true => Err(wrong(file, &"has no certificate")),
        false => Ok(certificates),
    }
}

fn wrong(file: &Path, what: &dyn Display) -> RemoteError {
    RemoteError::config(format!("ca_file {}: {what}", file.display()))
}
