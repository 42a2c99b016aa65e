//! The public keys of an authorization server (JSON Web Key Set, RFC 7517), fetched when they are needed.
//!
//! They are fetched at the first token, at a token with an unknown key, and once they are an hour old, but never more often
//! than every 30 s: a client can make up tokens with unknown keys. A token with a known key never waits for a fetch, and keys
//! that cannot be fetched again stay in use. A token with an unknown key waits for the fetch in progress.

use config::HttpConfig;
use futures_util::future::BoxFuture;
use http_client::client::{HttpClient, HttpRequest, accept};
use http_client::credentials::{AuthChallenge, ChallengeOutcome, Credentials};
use http_client::error::RemoteError;
use http_client::response_body::{BodyError, read_body};
use hyper::Method;
use hyper::header::HeaderValue;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JwksSource {
    /// The address.
    pub(crate) url: String,
    /// A PEM file of certificates to trust in addition to the system's.
    pub(crate) ca_file: Option<PathBuf>,
}

/// The keys of one authorization server.
pub(crate) struct KeySet {
    pub(super) source: JwksSource,
    state: watch::Sender<KeySetState>,
}

#[derive(Default)]
struct KeySetState {
    keys: Arc<Vec<Jwk>>,
    /// When the keys were fetched.
    fetched: Option<Instant>,
    /// When the last fetch began.
    tried: Option<Instant>,
    /// Whether a fetch is in progress.
    is_fetching: bool,
    /// Whether the last fetch has failed.
    has_failed: bool,
}

impl KeySetState {
    fn is_old(&self) -> bool {
        self.fetched.is_none_or(|fetched| fetched.elapsed() > MAX_AGE)
    }
}

/// It is not known whether the key exists: it is not among those that were fetched, and they cannot be fetched again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoKeys;

impl KeySet {
    pub(crate) fn new(source: JwksSource) -> Arc<Self> {
        Arc::new(Self { source, state: watch::Sender::default() })
    }

    /// Returns the key with this id; without an id, the only key. `None` if there is no such key. Waits for a fetch only if
    /// the key is not known.
    ///
    /// # Errors
    ///
    /// The key is not known, and the last fetch has failed.
    pub(crate) async fn key(self: &Arc<Self>, id: Option<&str>) -> Result<Option<Jwk>, NoKeys> {
        let (known, is_old) = self.known(id);
        if known.is_none() || is_old {
            self.start_fetch();
        }
        if known.is_some() {
            return Ok(known);
        }
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| !state.is_fetching);
        let has_failed = match timeout(FETCH_TIMEOUT, ended).await {
            Ok(Ok(state)) => state.has_failed,
            // `self` has the sender.
            Ok(Err(_)) | Err(_) => true,
        };
        match self.known(id).0 {
            None if has_failed => Err(NoKeys),
            known => Ok(known),
        }
    }

    /// Returns the keys that are known. Other ones after each fetch, which begins if they are old.
    pub(crate) fn current(self: &Arc<Self>) -> Arc<Vec<Jwk>> {
        if self.state.borrow().is_old() {
            self.start_fetch();
        }
        self.state.borrow().keys.clone()
    }

    /// Returns the key that is known, and whether all keys are old.
    fn known(&self, id: Option<&str>) -> (Option<Jwk>, bool) {
        let state = self.state.borrow();
        let is_old = state.is_old();
        let key = match id {
            Some(id) => state.keys.iter().find(|key| key.common.key_id.as_deref() == Some(id)),
            None => state.keys.first().filter(|_| state.keys.len() == 1),
        };
        (key.cloned(), is_old)
    }

    /// Begins a fetch, unless the last one began a moment ago. It ends by itself, before another one may begin.
    fn start_fetch(self: &Arc<Self>) {
        let begins = self.state.send_if_modified(|state| {
            let begins = state.tried.is_none_or(|tried| tried.elapsed() >= MIN_INTERVAL);
            if begins {
                (state.is_fetching, state.tried) = (true, Some(Instant::now()));
            }
            begins
        });
        if begins {
            let keys = self.clone();
            tokio::spawn(async move { keys.fetch().await });
        }
    }

    async fn fetch(&self) {
        let fetched = match timeout(FETCH_TIMEOUT, fetch(&self.source)).await {
            Ok(fetched) => fetched,
            Err(_) => Err("it took longer than 10 s".to_owned()),
        };
        self.state.send_modify(|state| {
            (state.is_fetching, state.has_failed) = (false, fetched.is_err());
            match fetched {
                Ok(keys) => {
                    tracing::debug!(keys = keys.len(), "the keys of the authorization server were fetched");
                    (state.keys, state.fetched) = (Arc::new(keys), Some(Instant::now()));
                }
                Err(why) => tracing::warn!("the keys of the authorization server cannot be fetched: {why}"),
            }
        });
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

    fn unreachable() -> Arc<KeySet> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        drop(listener);
        KeySet::new(JwksSource { url, ca_file: None })
    }

    fn keys() -> Vec<Jwk> {
        parse(br#"{"keys":[{"kty":"RSA","kid":"a","n":"bg","e":"AQAB"}]}"#).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_cannot_be_fetched_are_asked_for_every_30_s_at_most() {
        let keys = unreachable();
        assert_eq!(keys.key(Some("a")).await, Err(NoKeys));
        let tried = keys.state.borrow().tried;
        assert_eq!(keys.key(Some("b")).await, Err(NoKeys));
        assert_eq!(keys.state.borrow().tried, tried, "too early");
        tokio::time::advance(MIN_INTERVAL).await;
        assert_eq!(keys.key(Some("b")).await, Err(NoKeys));
        assert_ne!(keys.state.borrow().tried, tried);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_known_never_waits_for_a_fetch() {
        let set = unreachable();
        let now = Some(Instant::now());
        set.state.send_modify(|state| (state.keys, state.fetched, state.tried) = (keys().into(), now, now));
        assert_eq!(set.key(Some("b")).await, Ok(None), "a fresh set does not have it");
        tokio::time::advance(MAX_AGE * 2).await;
        let key = set.key(Some("a"));
        assert!(futures_util::FutureExt::now_or_never(key).unwrap().unwrap().is_some());
        assert!(set.state.borrow().is_fetching, "meanwhile");
        assert_eq!(set.key(Some("b")).await, Err(NoKeys), "nobody knows whether there is one now");
        assert!(set.key(Some("a")).await.unwrap().is_some(), "the old ones stay");
    }
}
