//! Access tokens of an authorization server: dynamic-mcp is an OAuth resource server (RFC 6750, RFC 9728, and the
//! authorization chapter of MCP).
//!
//! A token is a JWT that the server has signed with one of its public keys. It counts only for the issuer and the audience
//! that the config names, and until it expires. Its scopes decide the profile.

use super::jwks::{JwksSource, KeySet, NoKeys};
use super::jwt_signatures;
use super::tokens::{Principal, UserProfile};
use base::clock::unix_time_s;
use base::digest;
use hyper::Uri;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

/// How far clocks may differ, in seconds.
const LEEWAY_SECS: u64 = 60;
/// The longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// The longest name of a subject, in bytes.
const MAX_SUBJECT_BYTES: usize = 512;
/// Where the metadata of a resource is, before the path of the resource (RFC 9728, section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The file of `--oauth`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OAuthFile {
    resource: String,
    issuer: String,
    jwks_uri: String,
    ca_file: Option<PathBuf>,
    scopes: Vec<ScopeEntry>,
}

/// What a scope gives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeEntry {
    scope: String,
    profile: Option<String>,
}

/// The resource server.
pub struct OAuthResource {
    resource: String,
    issuer: String,
    /// In the order of the file.
    scopes: Vec<ScopeEntry>,
    keys: Arc<KeySet>,
    verified: VerifiedTokens,
    /// The paths of the metadata.
    metadata_paths: [String; 2],
    /// The address of the metadata.
    metadata_url: String,
}

/// Why it is not known who asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// The request has no bearer token.
    Missing,
    /// It is none of the authorization server, is for somebody else, or has expired.
    Invalid,
    /// It has none of the scopes.
    NoScope,
    /// The keys of the authorization server cannot be fetched.
    NoKeys,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// When it expires, and since when it counts, in seconds since 1970.
    exp: Value,
    nbf: Option<Value>,
    /// The scopes, with spaces between them (RFC 9068).
    scope: Option<String>,
    /// The same, as some servers write them.
    scp: Option<ScopeClaim>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ScopeClaim {
    List(Vec<String>),
    Text(String),
}

impl OAuthResource {
    /// Reads the file: `{"resource": "https://tools.example.com/mcp", "issuer": "https://login.example.com", "jwks_uri":
    /// "https://login.example.com/jwks", "scopes": [{"scope": "mcp", "profile": "everyone"}]}`. `resource` is the address of
    /// the MCP endpoint as clients know it, and the audience of tokens.
    ///
    /// # Errors
    ///
    /// The file is not of this form, an address is none or neither HTTPS nor of this machine, or there is no scope.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: OAuthFile =
            serde_json::from_str(text).map_err(|error| format!("not a file for --oauth: {error}"))?;
        let resource = checked("resource", &file.resource)?;
        checked("issuer", &file.issuer)?;
        checked("jwks_uri", &file.jwks_uri)?;
        if file.scopes.is_empty() || file.scopes.iter().any(|entry| !is_scope(&entry.scope)) {
            return Err("\"scopes\" has no scope, or one that is empty or has spaces or quotes".to_owned());
        }
        jwt_signatures::install();
        let path = resource.path().trim_end_matches('/');
        let metadata_path = format!("{WELL_KNOWN}{path}");
        let scheme = resource.scheme_str().unwrap_or_default();
        let authority = resource.authority().map_or("", |authority| authority.as_str());
        Ok(Self {
            metadata_url: format!("{scheme}://{authority}{metadata_path}"),
            metadata_paths: [WELL_KNOWN.to_owned(), metadata_path],
            keys: KeySet::new(JwksSource { url: file.jwks_uri, ca_file: file.ca_file }),
            verified: VerifiedTokens::default(),
            resource: file.resource,
            issuer: file.issuer,
            scopes: file.scopes,
        })
    }

    /// Takes over the keys that another one has fetched, if they are from the same address.
    pub(crate) fn keep_keys_of(&mut self, last: &Self) {
        if self.keys.source == last.keys.source {
            self.keys = last.keys.clone();
        }
    }

    /// Returns the profiles that the scopes give.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = UserProfile> {
        self.scopes.iter().map(ScopeEntry::profile)
    }

    /// Returns the metadata of the resource if the path is theirs.
    pub(crate) fn metadata(&self, path: &str) -> Option<String> {
        let scopes: Vec<_> = self.scopes.iter().map(|entry| &entry.scope).collect();
        let metadata = || {
            json!({
                "resource": self.resource,
                "authorization_servers": [self.issuer],
                "scopes_supported": scopes,
                "bearer_methods_supported": ["header"],
            })
        };
        self.metadata_paths.iter().any(|own| own == path).then(|| metadata().to_string())
    }

    /// Returns the `WWW-Authenticate` for a request without a token that counts (RFC 6750, section 3).
    pub(crate) fn challenge(&self, error: &TokenError) -> String {
        let metadata = format!("resource_metadata=\"{}\"", self.metadata_url);
        let scopes: Vec<_> = self.scopes.iter().map(|entry| entry.scope.as_str()).collect();
        let scopes = scopes.join(" ");
        match error {
            TokenError::Missing => format!("Bearer {metadata}, scope=\"{scopes}\""),
            TokenError::NoScope => {
                format!("Bearer error=\"insufficient_scope\", scope=\"{scopes}\", {metadata}")
            }
            TokenError::Invalid | TokenError::NoKeys => format!("Bearer error=\"invalid_token\", {metadata}"),
        }
    }

    /// Returns whose token it is.
    ///
    /// # Errors
    ///
    /// It does not count.
    pub(crate) async fn principal(&self, token: &str) -> Result<Principal, TokenError> {
        let keys = self.keys.current();
        if let Some(principal) = self.verified.principal(&keys, token, unix_time_s()) {
            return Ok(principal);
        }
        let claims = self.claims(token).await?;
        if claims.sub.is_empty() || claims.sub.len() > MAX_SUBJECT_BYTES {
            return Err(TokenError::Invalid);
        }
        let text = claims.scope.unwrap_or_default();
        let mut granted: Vec<_> = text.split(' ').collect();
        match &claims.scp {
            Some(ScopeClaim::List(list)) => granted.extend(list.iter().map(String::as_str)),
            Some(ScopeClaim::Text(text)) => granted.extend(text.split(' ')),
            None => {}
        }
        let entry = self.scopes.iter().find(|entry| granted.contains(&entry.scope.as_str()));
        let profile = entry.ok_or(TokenError::NoScope)?.profile();
        // So that no subject has the name of a bearer token.
        let name = format!("{} of {}", claims.sub, self.issuer);
        let principal = Principal { name: name.into(), profile };
        // A token whose times are no whole seconds is verified each time.
        let begin = claims.nbf.map_or(Some(0), |begin| begin.as_u64());
        if let (Some(begin), Some(end)) = (begin, claims.exp.as_u64()) {
            let times = begin.saturating_sub(LEEWAY_SECS)..=end.saturating_add(LEEWAY_SECS);
            self.verified.add(&keys, token, principal.clone(), times);
        }
        Ok(principal)
    }

    async fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Invalid);
        }
        let header = decode_header(token).map_err(|_| TokenError::Invalid)?;
        // An extension that has to be understood (RFC 7515, section 4.1.11): none is.
        if header.crit.is_some() {
            return Err(TokenError::Invalid);
        }
        let key = self.keys.key(header.kid.as_deref()).await;
        let key = key.map_err(|NoKeys| TokenError::NoKeys)?.ok_or(TokenError::Invalid)?;
        if !is_for(&key, header.alg) {
            return Err(TokenError::Invalid);
        }
        let key = DecodingKey::from_jwk(&key).map_err(|_| TokenError::Invalid)?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_SECS;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.resource]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let decoded = decode::<Claims>(token, &key, &validation);
        decoded.map(|token| token.claims).map_err(|error| {
            tracing::debug!("a token does not count: {error}");
            TokenError::Invalid
        })
    }
}

impl ScopeEntry {
    fn profile(&self) -> UserProfile {
        self.profile.as_deref().map(Into::into)
    }
}

/// Returns whether a key is for this algorithm, as far as the key says.
fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let named = key.common.key_algorithm.as_ref();
    named.is_none_or(|named| named.to_string() == format!("{algorithm:?}"))
}

/// Returns whether a text is a scope (RFC 6749, section 3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

/// # Errors
///
/// It is no address, or neither HTTPS nor of this machine.
fn checked(name: &str, url: &str) -> Result<Uri, String> {
    let parsed: Uri = url.parse().map_err(|_| format!("\"{name}\" is no address: {url:?}"))?;
    let is_local = parsed.host().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
    match parsed.scheme_str() {
        Some("https") => Ok(parsed),
        Some("http") if is_local => Ok(parsed),
        _ => Err(format!("\"{name}\" has to be an https:// address: {url:?}")),
    }
}

/// How many tokens are remembered. Beyond that, all are verified again.
const MAX_TOKENS: usize = 1024;
/// The length of a hash, in bytes.
const HASH_BYTES: usize = 32;

/// The tokens of one authorization server. They are forgotten when its keys are fetched again.
#[derive(Default)]
pub(crate) struct VerifiedTokens(Mutex<Verified>);

#[derive(Default)]
struct Verified {
    /// What the tokens were verified with.
    keys: Arc<Vec<Jwk>>,
    /// By their hashes: whose they are, and when they count, in seconds since 1970.
    tokens: HashMap<String, (Principal, RangeInclusive<u64>)>,
}

impl VerifiedTokens {
    /// Returns whose token it is, if it was verified with these keys and counts at this time, in seconds since 1970.
    pub(crate) fn principal(&self, keys: &Arc<Vec<Jwk>>, token: &str, now_s: u64) -> Option<Principal> {
        let verified = self.0.lock();
        let (principal, times) = verified
            .tokens
            .get(&digest::of(token.as_bytes(), HASH_BYTES))
            .filter(|_| Arc::ptr_eq(keys, &verified.keys))?;
        times.contains(&now_s).then(|| principal.clone())
    }

    /// Remembers a token that was verified with these keys.
    pub(crate) fn add(
        &self,
        keys: &Arc<Vec<Jwk>>,
        token: &str,
        principal: Principal,
        times: RangeInclusive<u64>,
    ) {
        let mut verified = self.0.lock();
        if !Arc::ptr_eq(keys, &verified.keys) || verified.tokens.len() == MAX_TOKENS {
            *verified = Verified { keys: keys.clone(), tokens: HashMap::new() };
        }
        verified.tokens.insert(digest::of(token.as_bytes(), HASH_BYTES), (principal, times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(change: impl FnOnce(&mut Value)) -> Result<OAuthResource, String> {
        let mut file = json!({
            "resource": "https://tools.example/team/mcp",
            "issuer": "https://login.example",
            "jwks_uri": "http://localhost:9/jwks",
            "scopes": [{"scope": "admin", "profile": "all"}, {"scope": "mcp"}],
        });
        change(&mut file);
        OAuthResource::parse(&file.to_string())
    }

    #[test]
    fn the_metadata_are_where_clients_look() {
        let resource = file(|_| ()).unwrap_or_else(|error| panic!("{error}"));
        let path = "/.well-known/oauth-protected-resource/team/mcp";
        let metadata = resource.metadata(path).unwrap();
        assert_eq!(resource.metadata("/.well-known/oauth-protected-resource"), Some(metadata.clone()));
        assert_eq!(resource.metadata("/.well-known/oauth-protected-resource/other"), None);
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        assert_eq!(metadata["resource"], "https://tools.example/team/mcp");
        assert_eq!(metadata["authorization_servers"], json!(["https://login.example"]));
        assert_eq!(metadata["scopes_supported"], json!(["admin", "mcp"]));
        let url = format!("resource_metadata=\"https://tools.example{path}\"");
        for error in [&TokenError::Missing, &TokenError::Invalid, &TokenError::NoScope] {
            assert!(resource.challenge(error).contains(&url), "{error:?}");
        }
        assert_eq!(resource.profiles().collect::<Vec<_>>(), [Some("all".into()), None]);
    }

    #[test]
    fn a_file_that_is_wrong_is_an_error() {
        let error = |change: fn(&mut Value)| file(change).err().unwrap();
        assert!(error(|file| file["issuer"] = json!("http://login.example")).contains("https://"));
        assert!(error(|file| file["jwks_uri"] = json!("ftp://localhost/")).contains("https://"));
        assert!(error(|file| file["resource"] = json!("not an address")).contains("no address"));
        assert!(error(|file| file["scopes"] = json!([])).contains("no scope"));
        assert!(error(|file| file["scopes"] = json!([{"scope": "a b"}])).contains("spaces"));
        assert!(error(|file| file["audiences"] = json!([])).contains("audiences"));
    }
}

#[cfg(test)]
mod verified_tokens_tests {
    use super::*;

    #[test]
    fn a_token_counts_in_its_time_and_as_long_as_the_keys_stay() {
        let (keys, same_again) = (Arc::new(Vec::new()), Arc::new(Vec::new()));
        let ann = Principal { name: "ann".into(), profile: None };
        let verified = VerifiedTokens::default();
        verified.add(&keys, "a", ann.clone(), 10..=20);
        for (keys, token, now_s, counts) in [
            (&keys, "a", 10, true),
            (&keys, "a", 20, true),
            (&keys, "a", 9, false),
            (&keys, "a", 21, false),
            (&keys, "b", 15, false),
            (&same_again, "a", 15, false),
        ] {
            let found = verified.principal(keys, token, now_s);
            assert_eq!(found, counts.then(|| ann.clone()), "{token} at {now_s}");
        }
        verified.add(&same_again, "b", ann.clone(), 10..=20);
        assert_eq!(verified.principal(&keys, "a", 15), None, "the keys were fetched again");
        for n in 0..2 * MAX_TOKENS {
            verified.add(&keys, &n.to_string(), ann.clone(), 10..=20);
            assert!(verified.0.lock().tokens.len() <= MAX_TOKENS);
        }
    }
}
