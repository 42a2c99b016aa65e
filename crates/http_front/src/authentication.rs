//! Who asks: the principal of each request, by its bearer token.

use super::oauth::{OAuthResource, TokenError};
use super::tokens::{Principal, TokenTable, UserProfile};
use base::fair::User;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The name of whoever asks where nobody has to say who they are.
const ANYONE: &str = "anyone";

/// Who may ask: those who have one of the tokens, or an access token of the authorization server. Without either, anyone
/// who reaches the address.
#[derive(Default)]
pub struct UserAccess {
    /// The tokens of a file.
    pub tokens: Option<TokenTable>,
    /// The authorization server.
    pub oauth: Option<OAuthResource>,
}

impl UserAccess {
    /// Checks whether these users may reach an address.
    ///
    /// # Errors
    ///
    /// Others reach the address, and nobody has to say who they are. Says what to do.
    pub fn check_for(&self, ip: IpAddr) -> Result<(), String> {
        match ip.is_loopback() || !self.is_anyone() {
            true => Ok(()),
            false => Err(format!(
                "{ip} is reached from other machines, so whoever asks has to have a token: name a file with --tokens or \
                 --oauth, or listen at 127.0.0.1"
            )),
        }
    }

    fn is_anyone(&self) -> bool {
        self.tokens.is_none() && self.oauth.is_none()
    }

    /// Returns the profiles that a principal may have.
    pub fn profiles(&self) -> BTreeSet<UserProfile> {
        if self.is_anyone() {
            return BTreeSet::from([None]);
        }
        let tokens = self.tokens.iter().flat_map(TokenTable::profiles);
        tokens.chain(self.oauth.iter().flat_map(OAuthResource::profiles)).collect()
    }

    /// Returns who makes a request with this bearer token.
    ///
    /// # Errors
    ///
    /// It has no token that counts.
    pub(crate) async fn principal(&self, token: Option<&str>) -> Result<Principal, TokenError> {
        if self.is_anyone() {
            return Ok(Principal { name: ANYONE.into(), profile: None });
        }
        let token = token.ok_or(TokenError::Missing)?;
        if let Some(principal) = self.tokens.as_ref().and_then(|tokens| tokens.principal(token)) {
            return Ok(principal.clone());
        }
        match &self.oauth {
            Some(oauth) => oauth.principal(token).await,
            None => Err(TokenError::Invalid),
        }
    }

    /// Returns the user for whom a request of a principal counts. Where nobody says who they are, it is nobody's.
    pub(crate) fn user(&self, principal: &Principal) -> User {
        (!self.is_anyone()).then(|| principal.name.clone())
    }

    /// Returns the `WWW-Authenticate` for a request that was refused.
    pub(crate) fn challenge(&self, error: &TokenError) -> String {
        match (&self.oauth, error) {
            (Some(oauth), error) => oauth.challenge(error),
            (None, TokenError::Missing) => "Bearer".to_owned(),
            (None, _) => "Bearer error=\"invalid_token\"".to_owned(),
        }
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::digest;

    #[tokio::test]
    async fn the_token_of_a_request_says_who_asks() {
        let hash = digest::of(b"secret", 32);
        let text = format!(r#"{{"tokens":[{{"name":"ann","sha256":"{hash}","profile":"p"}}]}}"#);
        let access = UserAccess { tokens: TokenTable::parse(&text).ok(), oauth: None };
        let ann = Principal { name: "ann".into(), profile: Some("p".into()) };
        let headers = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        for value in ["Bearer secret", "bearer  secret"] {
            assert_eq!(access.principal(bearer_token(&headers(value))).await, Ok(ann.clone()));
        }
        for value in ["Bearer", "secret", "Basic secret", "Bearer "] {
            assert_eq!(
                access.principal(bearer_token(&headers(value))).await,
                Err(TokenError::Missing),
                "{value}"
            );
        }
        let refused = access.principal(Some(&hash)).await;
        assert_eq!(refused, Err(TokenError::Invalid));
        assert_eq!(access.principal(bearer_token(&HeaderMap::new())).await, Err(TokenError::Missing));
    }

    #[test]
    fn only_this_machine_needs_no_token() {
        for ip in ["127.0.0.1", "::1"] {
            assert!(UserAccess::default().check_for(ip.parse().unwrap()).is_ok());
        }
        let access = UserAccess { tokens: TokenTable::parse(r#"{"tokens":[]}"#).ok(), oauth: None };
        for ip in ["0.0.0.0", "::", "10.0.0.1"] {
            let refused = UserAccess::default().check_for(ip.parse().unwrap()).unwrap_err();
            assert!(refused.contains("--tokens"), "{ip}");
            assert!(access.check_for(ip.parse().unwrap()).is_ok(), "{ip}");
        }
    }
}
