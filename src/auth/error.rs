//! Why there is no token, told by what the reader can do about it.

use super::egress::Gate;
use super::keyring::Unusable;
use super::secret::cleaned;
use rmcp::transport::auth::AuthError as RmcpError;

/// Messages are fragments that follow "group X: ". None has a token, a secret or a code in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A person has to log in.
    #[error("{0}")]
    LoginNeeded(String),
    /// A server cannot be reached, or is not well: later it may work.
    #[error("{0}")]
    Unreachable(String),
    /// What a server asks for is not done, or it refuses what we ask for.
    #[error("{0}")]
    Refused(String),
    /// The file of the login cannot be used.
    #[error("{0}")]
    Store(String),
    /// Another process changes the login, for longer than that takes.
    #[error("{0}")]
    Busy(String),
    /// The login is in the keyring, which cannot be used at the moment.
    #[error("{1}")]
    Keyring(Unusable, String),
}

impl AuthError {
    /// What rmcp says went wrong. What stopped at the gate is told as the gate tells it: rmcp drops the reason.
    pub(super) fn of(error: &RmcpError, gate: &Gate, secrets: &[&str]) -> Self {
        if let Some(trouble) = gate.take_trouble() {
            return trouble;
        }
        let text = cleaned(&error.to_string(), secrets);
        match error {
            RmcpError::PkceUnsupported => Self::Refused(
                "its authorization server does not know PKCE with S256, without which a login is not safe"
                    .to_owned(),
            ),
            RmcpError::DiscoveryRequestFailed { .. } => Self::Unreachable(text),
            RmcpError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
                Self::Refused(format!(
                    "the authorization server {expected_issuer} answered in the name of {}",
                    cleaned(received_issuer, secrets)
                ))
            }
            _ => Self::Refused(text),
        }
    }
}
