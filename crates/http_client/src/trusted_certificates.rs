//! Accepts a server's own certificate that the user named in `ca_file`, although it calls itself an authority.
//!
//! `openssl req -x509` makes such certificates. The certificate has to be one of the file byte for byte, to be valid
//! now, and to be for the server's name; the handshake proves that the server has its key.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Verifies as the platform does, and accepts the certificates of `ca_file`.
#[derive(Debug)]
pub(crate) struct TrustedCertificates {
    /// Trusts the authorities of the system and those of `ca_file`.
    pub platform: Verifier,
    /// The certificates of `ca_file`.
    pub(crate) of_ca_file: Vec<CertificateDer<'static>>,
}

/// Returns whether a certificate was rejected only because it calls itself an authority. This is found after its dates
/// are checked, and before its name is.
pub(crate) fn is_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity"))
}

impl ServerCertVerifier for TrustedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.platform.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(error))
                if is_authority(&error) && self.of_ca_file.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.platform.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.platform.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.platform.supported_verify_schemes()
    }
}
