//! Whom remote servers have to be certified by: the authorities that the system trusts, and those of a `ca_file`.

use super::fault::Fault;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The system's authorities are in hundreds of files, which take milliseconds to read and a third of a megabyte to keep:
/// all connections share them. Who adds one to the system need not start us again: they are read anew after so long.
const FRESH: Duration = Duration::from_secs(60);

type Known = HashMap<Option<PathBuf>, (Instant, ClientConfig)>;

/// They are the system's, whichever instance asks.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Sets up TLS for connections that trust the authorities in this file too.
pub async fn config(ca_file: Option<&Path>) -> Result<ClientConfig, Fault> {
    let key = ca_file.map(Path::to_owned);
    if let Ok(known) = KNOWN.try_lock()
        && let Some(config) = fresh(&known, &key)
    {
        return Ok(config);
    }
    // Whoever comes meanwhile waits there for the one who reads.
    let read = tokio::task::spawn_blocking(move || {
        let mut known = lock();
        if let Some(config) = fresh(&known, &key) {
            return Ok(config);
        }
        let config = read(key.as_deref())?;
        known.retain(|_, (at, _)| at.elapsed() < FRESH);
        known.insert(key, (Instant::now(), config.clone()));
        Ok(config)
    });
    read.await.unwrap_or_else(|_| Err(Fault::config("TLS could not be set up")))
}

fn fresh(known: &Known, key: &Option<PathBuf>) -> Option<ClientConfig> {
    known.get(key).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, config)| config.clone())
}

fn lock() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(ca_file: Option<&Path>) -> Result<ClientConfig, Fault> {
    let own = ca_file.map(certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Fault::config(format!("TLS could not be set up: {error}")))?;
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

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let pem = std::fs::read(file).map_err(|error| wrong(file, &error))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong(file, &"not certificates in PEM"))?;
    match certificates.is_empty() {
        true => Err(wrong(file, &"has no certificate")),
        false => Ok(certificates),
    }
}

fn wrong(file: &Path, what: &dyn Display) -> Fault {
    Fault::config(format!("ca_file {}: {what}", file.display()))
}
