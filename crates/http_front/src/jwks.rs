//! The public keys of an authorization server (JSON Web Key Set, RFC 7517), fetched when they are needed.
//!
//! They are fetched at the first token, at a token with an unknown key, and once they are an hour old, but never more often
//! than every 30 s: a client can make up tokens with unknown keys. Keys that cannot be fetched again stay in use.

use config::HttpConfig;
use futures_util::future::BoxFuture;
use http_client::client::{BodyError, HttpClient, HttpRequest, accept, read_body};
use http_client::credentials::{AuthChallenge, ChallengeOutcome, Credentials};
use http_client::error::RemoteError;
use hyper::Method;
use hyper::header::HeaderValue;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long a fetch may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between two fetches at least.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// After how long keys are fetched again although they are known: the server may have removed one.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// The longest key set, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Where the keys are.
#[derive(Clone, Debug)]
pub(crate) struct JwksSource {
    /// The address.
    pub(crate) url: String,
    /// A PEM file of certificates to trust in addition to the system's.
    pub(crate) ca_file: Option<PathBuf>,
}

/// The keys of one authorization server.
pub(crate) struct KeySet {
    source: JwksSource,
    state: Mutex<KeySetState>,
    /// Held by the one fetch.
    turn: Semaphore,
}

#[derive(Default)]
struct KeySetState {
    keys: Arc<Vec<Jwk>>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    /// When the last fetch began.
    tried: Option<Instant>,
}

/// The keys cannot be fetched, and none were fetched before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoKeys;

impl KeySet {
    pub(crate) fn new(source: JwksSource) -> Self {
        Self { source, state: Mutex::default(), turn: Semaphore::new(1) }
    }

    /// Returns the key with this id; without an id, the only key. `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// No keys are known, and they cannot be fetched.
    pub(crate) async fn key(&self, id: Option<&str>) -> Result<Option<Jwk>, NoKeys> {
        let (known, is_old) = self.known(id);
        if known.is_some() && !is_old {
            return Ok(known);
        }
        // It is never closed.
        let Ok(_turn) = self.turn.acquire().await else { return Err(NoKeys) };
        let (known, is_old) = self.known(id);
        if (known.is_some() && !is_old) || !self.may_fetch() {
            return self.if_any(known);
        }
        match timeout(FETCH_TIMEOUT, fetch(&self.source)).await {
            Ok(Ok(keys)) => {
                tracing::debug!(keys = keys.len(), "the keys of the authorization server were fetched");
                let mut state = self.state.lock();
                (state.keys, state.fetched) = (Arc::new(keys), Some(Instant::now()));
            }
            Ok(Err(why)) => tracing::warn!("the keys of the authorization server cannot be fetched: {why}"),
            Err(_) => tracing::warn!("the keys of the authorization server cannot be fetched within 10 s"),
        }
        let (known, _) = self.known(id);
        self.if_any(known)
    }

    /// # Errors
    ///
    /// No keys were fetched yet.
    fn if_any(&self, known: Option<Jwk>) -> Result<Option<Jwk>, NoKeys> {
        self.state.lock().fetched.map(|_| known).ok_or(NoKeys)
    }

    /// Returns the key that is known, and whether all keys are old.
    fn known(&self, id: Option<&str>) -> (Option<Jwk>, bool) {
        let state = self.state.lock();
        let is_old = state.fetched.is_none_or(|fetched| fetched.elapsed() > MAX_AGE);
        let key = match id {
            Some(id) => state.keys.iter().find(|key| key.common.key_id.as_deref() == Some(id)),
            None => state.keys.first().filter(|_| state.keys.len() == 1),
        };
        (key.cloned(), is_old)
    }

    /// Returns whether the last fetch is long ago, and notes that one begins now.
    fn may_fetch(&self) -> bool {
        let mut state = self.state.lock();
        let may = state.tried.is_none_or(|tried| tried.elapsed() >= MIN_INTERVAL);
        if may {
            state.tried = Some(Instant::now());
        }
        may
    }
}

#[derive(Deserialize)]
struct KeySetBody {
    keys: Vec<Value>,
}

/// Fetches the keys.
///
/// # Errors
///
/// They cannot be fetched, or are no key set. The text says why.
async fn fetch(source: &JwksSource) -> Result<Vec<Jwk>, String> {
    let http = HttpConfig {
        url: source.url.clone(),
        kind: None,
        headers: Vec::new(),
        ca_file: source.ca_file.clone(),
        oauth: None,
    };
    let words = |error: RemoteError| error.to_string();
    let client = HttpClient::new(&http, FETCH_TIMEOUT, Arc::new(NoCredentials)).await.map_err(words)?;
    let request = HttpRequest {
        method: Method::GET,
        url: client.url.clone(),
        headers: accept("application/json"),
        body: None,
        max_retry_after: Duration::ZERO,
    };
    let response = client.send(request).await.map_err(words)?;
    if !response.status().is_success() {
        return Err(format!("HTTP {}", response.status()));
    }
    let (body, _reservation) = read_body(response, MAX_BYTES).await.map_err(|error| match error {
        BodyError::Size(error) => error.to_string(),
        BodyError::Interrupted(why) => why,
    })?;
    parse(&body)
}

/// Returns the public keys for signatures. Keys of other kinds, also of unknown ones, are left out.
///
/// # Errors
///
/// It is no key set.
fn parse(body: &[u8]) -> Result<Vec<Jwk>, String> {
    let set: KeySetBody =
        serde_json::from_slice(body).map_err(|error| format!("it is no key set: {error}"))?;
    let is_usable = |key: &Jwk| {
        let is_public = !matches!(key.algorithm, AlgorithmParameters::OctetKey(_));
        is_public && key.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature)
    };
    let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Ok(keys.filter(is_usable).collect())
}

/// A key set is public.
struct NoCredentials;

impl Credentials for NoCredentials {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>> {
        Box::pin(async { Ok(None) })
    }

    fn handle_challenge(&self, _: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome> {
        Box::pin(async { ChallengeOutcome::Unrelated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_keys_for_signatures_are_used() {
        let set = br#"{"keys":[
            {"kty":"oct","kid":"shared","k":"c2VjcmV0"},
            {"kty":"EC","kid":"enc","use":"enc","crv":"P-256","x":"eA","y":"eQ"},
            {"kty":"EC","kid":"ec","use":"sig","crv":"P-256","x":"eA","y":"eQ"},
            {"kty":"RSA","kid":"rsa","n":"bg","e":"AQAB","alg":"RS256"},
            {"kty":"NEW","kid":"unknown"},
            7
        ]}"#;
        let ids: Vec<_> = parse(set).unwrap().into_iter().filter_map(|key| key.common.key_id).collect();
        assert_eq!(ids, ["ec", "rsa"]);
        assert!(parse(b"[]").is_err() && parse(b"{}").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_cannot_be_fetched_are_asked_for_every_30_s_at_most() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        drop(listener);
        let keys = KeySet::new(JwksSource { url, ca_file: None });
        assert_eq!(keys.key(Some("a")).await, Err(NoKeys));
        let tried = keys.state.lock().tried;
        assert_eq!(keys.key(Some("b")).await, Err(NoKeys));
        assert_eq!(keys.state.lock().tried, tried, "too early");
        tokio::time::advance(MIN_INTERVAL).await;
        assert_eq!(keys.key(Some("b")).await, Err(NoKeys));
        assert_ne!(keys.state.lock().tried, tried);
    }
}
