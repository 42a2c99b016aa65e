//! TLS configuration: which certificate authorities a remote server's certificate may come from. They are the ones
//! that the system trusts, and those in a `ca_file`.

use super::error::RemoteError;
use super::trusted_certificates::TrustedCertificates;
use base::blocking;
use base::files::{self, MAX_NAMED_BYTES};
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
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a loaded configuration is used. The system's authorities are in hundreds of files, which take milliseconds
/// to read and a third of a megabyte to keep, so all connections share them. They are read again after this time, so
/// that an authority that was added to the system is trusted without a restart.
const CACHE_LIFETIME: Duration = Duration::from_secs(60);

/// How long loading may take; callers wait for no longer than `timeout.connect`.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A configuration that is being loaded or is loaded. All who need it await the same future.
type SharedConfig = Shared<BoxFuture<'static, Result<ClientConfig, RemoteError>>>;

/// By `ca_file`: the configuration, and when its loading began.
type ConfigCache = HashMap<Option<PathBuf>, (Instant, SharedConfig)>;

/// One cache for the process: the system's authorities are the same for every connection.
static CACHE: LazyLock<Mutex<ConfigCache>> = LazyLock::new(Mutex::default);

/// Returns the TLS configuration that trusts the system's authorities and those in `ca_file`. Without `ca_file`, and if
/// the system has no authorities, it trusts none.
///
/// # Errors
///
/// `Unreachable` if loading takes longer than `time_limit`. `Config` if the `ca_file` cannot be used, or if TLS cannot
/// be set up, also because loading took longer than `LOAD_TIMEOUT`.
pub async fn client_config(
    ca_file: Option<&Path>,
    time_limit: Duration,
) -> Result<ClientConfig, RemoteError> {
    timeout(time_limit, cached(ca_file)).await.unwrap_or_else(|_| {
        let source = match ca_file {
            Some(file) => format!("ca_file {}", file.display()),
            None => "the system's certificate authorities".to_owned(),
        };
        let seconds = time_limit.as_secs_f32();
        Err(RemoteError::unreachable(&format!("reading {source} took longer than {seconds} s")))
    })
}

/// Returns the configuration in the cache. If there is none, adds one, which is loaded when it is first awaited. A
/// configuration stays for `CACHE_LIFETIME`; a failure goes to those who wait for it, and the next call loads again.
fn cached(ca_file: Option<&Path>) -> SharedConfig {
    let mut cache = CACHE.lock();
    cache.retain(|_, (began, config)| match config.peek() {
        None => true,
        Some(Ok(_)) => began.elapsed() < CACHE_LIFETIME,
        Some(Err(_)) => false,
    });
    let (_, config) = cache.entry(ca_file.map(Path::to_owned)).or_insert_with_key(|file| {
        let file = file.clone();
        let loaded = blocking::run(LOAD_TIMEOUT, move || load(file.as_deref()));
        let failed = |error| {
            Err(RemoteError::config(format!("TLS could not be set up: reading the authorities {error}")))
        };
        (Instant::now(), loaded.map(move |loaded| loaded.unwrap_or_else(failed)).boxed().shared())
    });
    config.clone()
}

/// Reads the authorities and makes a configuration. Blocks. Without `ca_file` and authorities of the system, it logs
/// that and trusts none.
///
/// # Errors
///
/// `Config` if the `ca_file` cannot be read, is longer than `MAX_NAMED_BYTES`, or has no certificate or an invalid one,
/// or if TLS cannot be set up.
fn load(ca_file: Option<&Path>) -> Result<ClientConfig, RemoteError> {
    let of_ca_file = ca_file.map(read_certificates).transpose()?.unwrap_or_default();
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| RemoteError::config(format!("TLS could not be set up: {error}")))?;
    let mut config = match (Verifier::new_with_extra_roots(of_ca_file.clone(), provider), ca_file) {
        (Ok(platform), _) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustedCertificates { platform, of_ca_file }))
            .with_no_client_auth(),
        (Err(error), Some(file)) => return Err(ca_file_error(file, &error)),
        (Err(error), None) => {
            tracing::warn!(%error, "the system has no certificate authorities: only http:// servers can be reached");
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, RemoteError> {
    let pem = files::read(file, MAX_NAMED_BYTES).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            ca_file_error(file, &"there is no such file; write the absolute path of a certificate in PEM")
        }
        _ => ca_file_error(file, &error),
    })?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| ca_file_error(file, &"it is not a valid PEM file"))?;
    match certificates.is_empty() {
        true => Err(ca_file_error(
            file,
            &"it contains no PEM certificate; openssl x509 -inform der -in FILE converts one in DER",
        )),
        false => Ok(certificates),
    }
}

fn ca_file_error(file: &Path, reason: &dyn Display) -> RemoteError {
    RemoteError::config(format!("ca_file {} cannot be used: {reason}", file.display()))
}
