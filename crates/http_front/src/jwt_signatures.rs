//! The signatures of JSON Web Tokens, checked by `ring`: the backend for the crate `jsonwebtoken`.
//!
//! Only public keys are used. So a token that is "signed" with a public key as a shared secret (`HS256`) has no verifier.

use jsonwebtoken::crypto::{CryptoProvider, JwkUtils, JwtVerifier};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// The backend. It signs nothing.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(SignatureVerifier::new(*algorithm, key)?)),
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use `ring`. Any number of calls.
pub(crate) fn install() {
    // Fails if it is installed already.
    PROVIDER.install_default().ok();
}

/// Checks signatures with one key.
struct SignatureVerifier {
    algorithm: Algorithm,
    key: PublicKey,
}

enum PublicKey {
    /// The modulus and the exponent.
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
    Other(UnparsedPublicKey<Vec<u8>>),
}

impl SignatureVerifier {
    /// # Errors
    ///
    /// The algorithm has no public key, or the key is one of another algorithm.
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        let wrong = || Error::from(ErrorKind::InvalidKeyFormat);
        let key = match (key.kind(), key.family()) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, AlgorithmFamily::Rsa) => {
                let components = RsaPublicKeyComponents { n: n.clone(), e: e.clone() };
                PublicKey::Rsa(rsa_parameters(algorithm).ok_or_else(wrong)?, components)
            }
            (DecodingKeyKind::SecretOrDer(bytes), family) => {
                let parameters = curve_parameters(algorithm, family).ok_or_else(wrong)?;
                PublicKey::Other(UnparsedPublicKey::new(parameters, bytes.clone()))
            }
            _ => return Err(wrong()),
        };
        Ok(Self { algorithm, key })
    }
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve_parameters(
    algorithm: Algorithm,
    family: AlgorithmFamily,
) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (algorithm, family) {
        (Algorithm::ES256, AlgorithmFamily::Ec) => &ECDSA_P256_SHA256_FIXED,
        (Algorithm::ES384, AlgorithmFamily::Ec) => &ECDSA_P384_SHA384_FIXED,
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => &ED25519,
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for SignatureVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.key {
            PublicKey::Rsa(parameters, key) => key.verify(parameters, message, signature),
            PublicKey::Other(key) => key.verify(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for SignatureVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
