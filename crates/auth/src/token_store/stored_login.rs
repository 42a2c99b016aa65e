//! What is stored of a login, and the format of its file.

use crate::error::AuthError;
use crate::secret::Secret;
use base::clock::unix_time_s;
use oauth2::TokenResponse;
use oauth2::basic::BasicTokenType;
use rmcp::transport::auth::OAuthTokenResponse;
use serde::{Deserialize, Serialize};

const FORMAT_VERSION: u32 = 1;
/// A token is refreshed this many seconds before it expires, or earlier by a quarter of its lifetime if that is less.
const MAX_REFRESH_MARGIN_SECS: u64 = 30;

/// One login: its tokens and what a refresh needs.
///
/// The names of the fields are the format of files and keyring entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLogin {
    /// `FORMAT_VERSION` when it was written.
    pub version: u32,
    /// The server's address. The tokens are sent nowhere else.
    pub url: String,
    /// The authorization server that issued the tokens and knows the client.
    pub issuer: Option<String>,
    /// The client that the tokens were issued to.
    pub client_id: String,
    /// The secret of the client, if it has one.
    pub client_secret: Option<Secret>,
    /// Authorizes requests to the server.
    pub access_token: Option<Secret>,
    /// Gets the next tokens. Many authorization servers accept it once.
    pub refresh_token: Option<Secret>,
    /// When the tokens were received, in seconds since 1970.
    pub received_at: u64,
    /// When the access token expires, in seconds since 1970. `None`: the authorization server did not say.
    pub expires_at: Option<u64>,
    /// The scopes of the tokens.
    #[serde(default, rename = "granted")]
    pub(crate) granted_scopes: Vec<String>,
    /// The scopes that the last login requested.
    #[serde(default, rename = "asked")]
    pub(crate) requested_scopes: Vec<String>,
    /// The scopes whose lack made the server refuse requests. The next login requests them too.
    #[serde(default, rename = "wanted")]
    pub(crate) missing_scopes: Vec<String>,
    /// Why the authorization server refused to refresh the tokens, in its words, fit to be shown. The tokens are removed
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Why the authorization server did not register a client, in its words, fit to be shown. The next login asks it
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unregistered: Option<String>,
}

/// The content of a login's file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum LoginFile {
    /// The login is in the keyring; the file has no secrets.
    InKeyring(KeyringMarker),
    /// The login itself.
    Inline(Box<StoredLogin>),
}

/// Says that a login is in the keyring.
#[derive(Serialize, Deserialize)]
pub(super) struct KeyringMarker {
    /// `FORMAT_VERSION` when it was written.
    version: u32,
    /// The server's address, so that the keyring is not asked for the login of another server.
    pub(super) url: String,
    #[serde(rename = "kept")]
    location: LoginLocation,
}

#[derive(Serialize, Deserialize)]
enum LoginLocation {
    #[serde(rename = "in the keyring")]
    Keyring,
}

impl KeyringMarker {
    /// Creates the marker for a login at the server with this address.
    pub(super) fn new(url: &str) -> Self {
        Self { version: FORMAT_VERSION, url: url.to_owned(), location: LoginLocation::Keyring }
    }
}

impl StoredLogin {
    /// Creates a login without tokens at the server with this address.
    pub fn new(url: &str) -> Self {
        Self { version: FORMAT_VERSION, url: url.to_owned(), ..Self::default() }
    }

    /// Returns whether it has the current format and belongs to the server with this address.
    pub(super) fn is_usable_for(&self, url: &str) -> bool {
        self.version == FORMAT_VERSION && self.url == url
    }

    /// Returns the access token, unless it has expired.
    pub(crate) fn valid_token(&self) -> Option<&Secret> {
        self.access_token.as_ref().filter(|_| self.expires_at.is_none_or(|at| unix_time_s() < at))
    }

    /// Returns the access token, unless it is due for a refresh. It is due somewhat before it expires, so that it does
    /// not expire on its way to the server.
    pub(crate) fn fresh_token(&self) -> Option<&Secret> {
        let margin = |at: u64| MAX_REFRESH_MARGIN_SECS.min(at.saturating_sub(self.received_at) / 4);
        self.access_token
            .as_ref()
            .filter(|_| self.expires_at.is_none_or(|at| unix_time_s() + margin(at) < at))
    }

    /// Replaces the tokens by those of a token response (RFC 6749 section 5.1). What the response leaves out stays as
    /// it was; scopes that it does not name are those that were requested.
    ///
    /// # Errors
    ///
    /// `AuthError::Refused` if they are no bearer tokens.
    pub(crate) fn with_tokens(self, response: &OAuthTokenResponse) -> Result<Self, AuthError> {
        if response.token_type() != &BasicTokenType::Bearer {
            return Err(AuthError::refused("its authorization server does not issue bearer tokens"));
        }
        let granted = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect());
        let refresh_token = response.refresh_token().map(|token| Secret::new(token.secret().clone()));
        let previously_granted = match self.granted_scopes.is_empty() {
            true => self.requested_scopes.clone(),
            false => self.granted_scopes,
        };
        let received_at = unix_time_s();
        Ok(Self {
            access_token: Some(Secret::new(response.access_token().secret().clone())),
            refresh_token: refresh_token.or(self.refresh_token),
            received_at,
            expires_at: response.expires_in().map(|lifetime| received_at.saturating_add(lifetime.as_secs())),
            granted_scopes: granted.unwrap_or(previously_granted),
            ended: None,
            unregistered: None,
            ..self
        })
    }

    /// Removes the tokens, because none of them works any more. `reason`: the words of the authorization server.
    pub(crate) fn without_tokens(self, reason: String) -> Self {
        Self { access_token: None, refresh_token: None, ended: Some(reason), ..self }
    }
}
