//! Client assertions: JWTs by which a client authenticates with its private key (RFC 7523).

use super::error::AuthError;
use base::clock::unix_time_s;
use base::random::hex_id;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

/// How long an assertion is valid, in seconds. It is made for one request and sent at once.
const ASSERTION_LIFETIME_SECS: u64 = 300;

/// A private key of one of the supported types.
enum SigningKey {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    fn from_pem(pem: &str) -> Result<Self, AuthError> {
        let unsupported = || {
            AuthError::refused(
                "`oauth.private_key` is not a PKCS #8 private key in PEM (EC P-256, Ed25519 or RSA); \
                 `openssl pkcs8 -topk8 -nocrypt -in KEY` converts other formats",
            )
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unsupported())?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Ok(Self::Ec(key));
        }
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self::Ed(key));
        }
        RsaKeyPair::from_pkcs8(der).map(Self::Rsa).map_err(|_| unsupported())
    }

    /// Returns the `alg` of its signatures (RFC 7518, RFC 8037).
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ec(_) => "ES256",
            Self::Ed(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        let random = SystemRandom::new();
        match self {
            Self::Ec(key) => Ok(key.sign(&random, message)?.as_ref().to_vec()),
            Self::Ed(key) => Ok(key.sign(message).as_ref().to_vec()),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
                Ok(signature)
            }
        }
    }
}

/// Makes an assertion that authenticates this client to `audience`, an authorization server. It is good for one use,
/// within `ASSERTION_LIFETIME_SECS`. `pem` is the client's private key.
///
/// # Errors
///
/// `AuthError::Refused` if `pem` is no private key of a supported type, or signing fails.
pub(super) fn sign_assertion(pem: &str, client_id: &str, audience: &str) -> Result<String, AuthError> {
    let failed = |_| AuthError::refused("signing with `oauth.private_key` failed");
    let key = SigningKey::from_pem(pem)?;
    let header = json!({"alg": key.algorithm(), "typ": "JWT"});
    let claims = json!({
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": unix_time_s(),
        "exp": unix_time_s() + ASSERTION_LIFETIME_SECS,
        "jti": hex_id(),
    });
    let encode = |json: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let message = format!("{}.{}", encode(&header), encode(&claims));
    let signature = key.sign(message.as_bytes()).map_err(failed)?;
    Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, UnparsedPublicKey};

    fn pem(der: &[u8]) -> String {
        let body = base64::prelude::BASE64_STANDARD.encode(der);
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
    }

    #[test]
    fn an_assertion_is_signed_with_the_key_and_unique() {
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let assertion = sign_assertion(&pem(der.as_ref()), "me", "https://login.example.com").unwrap();
        let (message, signature) = assertion.rsplit_once('.').unwrap();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &SystemRandom::new())
                .unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key());
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
        public.verify(message.as_bytes(), &signature).unwrap();
        let (header, claims) = message.split_once('.').unwrap();
        let decode = |part| -> serde_json::Value {
            serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!(decode(header)["alg"], "ES256");
        let claims = decode(claims);
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("me"), &json!("me")));
        assert_eq!(claims["aud"], "https://login.example.com");
        assert!(claims["exp"].as_u64().unwrap() <= unix_time_s() + ASSERTION_LIFETIME_SECS);
        let again = sign_assertion(&pem(der.as_ref()), "me", "https://login.example.com").unwrap();
        assert_ne!(assertion, again, "each assertion is unique");
    }

    #[test]
    fn the_error_for_an_invalid_key_does_not_show_it() {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        assert!(sign_assertion(&pem(der.as_ref()), "me", "a").is_ok());
        for text in ["MARKER", "-----BEGIN PRIVATE KEY-----\nTUFSS0VS\n-----END PRIVATE KEY-----"] {
            let error = sign_assertion(text, "me", "a").unwrap_err().to_string();
            assert!(
                error.contains("PKCS #8") && !error.contains("MARKER") && !error.contains("TUFSS0VS"),
                "{error}"
            );
        }
    }
}
