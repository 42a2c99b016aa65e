//! Why a login cannot be used, by what the reader of the error can do about it.

/// Why there is no usable token.
///
/// The texts are fragments that follow "group X: ". None contains a token, a client secret or an authorization code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub enum AuthError {
    /// The user has to log in.
    LoginNeeded(String),
    /// The server wants a key that the config has to name: there is nothing to log in to.
    KeyNeeded(String),
    /// The authorization server registers no client, so the config has to name one: no login can succeed before.
    ClientNeeded(String),
    /// A server cannot be reached or reports an internal error. A later attempt may succeed.
    Unreachable(String),
    /// A server asks for something unsafe or unsupported, or rejects what it was sent. Another attempt does not help.
    Refused(String),
    /// The file of the login cannot be read or written.
    Store(String),
    /// Another process has held the lock of the login for longer than a refresh takes.
    Busy(String),
    /// The login is in the keyring, which cannot be used at the moment. The text names the way out.
    #[error("{1}")]
    Keyring(KeyringError, String),
}

impl AuthError {
    /// Makes a [`Refused`](Self::Refused).
    pub(crate) fn refused(why: impl ToString) -> Self {
        Self::Refused(why.to_string())
    }
}

/// Why the system's keyring cannot be used. The texts complete "the system's keyring …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The config turns it off.
    #[error("is turned off (`keyring` in `settings`)")]
    Disabled,
    /// There is none, or the environment does not lead to it.
    #[error("cannot be reached")]
    Unavailable,
    /// The user has to unlock it.
    #[error("is locked")]
    Locked,
    /// A call took longer than its timeout.
    #[error("does not answer")]
    TimedOut,
    /// It rejected a call.
    #[error("does not work: {0}")]
    Failed(String),
}
