//! Access tokens of an authorization server, and attacks with them. The server is one of the test, which only has keys.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

use super::{Served, call_params, config, for_all};
use crate::support::base_env;

const RESOURCE: &str = "https://tools.example/mcp";
const ISSUER: &str = "https://login.example";
const METADATA: &str = "https://tools.example/.well-known/oauth-protected-resource/mcp";

/// A key of an authorization server.
struct Key {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        Self { id, pair: pair.unwrap() }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let part = |from, to| URL_SAFE_NO_PAD.encode(&point[from..to]);
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "alg": "ES256",
            "x": part(1, 33), "y": part(33, 65)})
    }

    fn token(&self, claims: &Value) -> String {
        let signed = unsigned(&json!({"alg": "ES256", "kid": self.id}), claims);
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that count, with these in place of theirs; `null` leaves one out.
fn claims(changes: Value) -> Value {
    let mut claims =
        json!({"iss": ISSUER, "aud": RESOURCE, "sub": "ann", "exp": now() + 300, "scope": "mcp"});
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

/// A program whose users have tokens of an authorization server.
struct Team {
    served: Served,
    /// How often the keys were fetched.
    fetches: Arc<AtomicUsize>,
    /// Whether the keys cannot be fetched.
    is_down: Arc<AtomicBool>,
    dir: TempDir,
}

impl Team {
    fn start(keys: &[&Key]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let body = json!({"keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>()}).to_string();
        let fetches = Arc::new(AtomicUsize::new(0));
        let is_down = Arc::new(AtomicBool::new(false));
        let (count, down) = (fetches.clone(), is_down.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let read = stream.read(&mut [0; 4096]).unwrap();
                if read > 0 && !down.load(Ordering::SeqCst) {
                    count.fetch_add(1, Ordering::SeqCst);
                    let length = body.len();
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
                }
            }
        });
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("oauth.json");
        let oauth = json!({"resource": RESOURCE, "issuer": ISSUER, "jwks_uri": format!("http://{address}/jwks"),
            "scopes": [{"scope": "mcp", "profile": "all"}, {"scope": "mcp:echo", "profile": "only_echo"}]});
        fs::write(&file, oauth.to_string()).unwrap();
        let mut config = config([("g", for_all(&[]))]);
        config["profiles"] =
            json!({"all": ["*"], "only_echo": {"servers": ["g"], "tools": {"g": {"allow": ["echo"]}}}});
        let served =
            Served::start(&config, &["--oauth", file.to_str().unwrap(), "--allowed-host", "tools.example"]);
        Self { served, fetches, is_down, dir }
    }

    /// The status and `WWW-Authenticate` of a request with this token.
    fn status(&self, token: &str) -> (u16, String) {
        let authorization = format!("Bearer {token}");
        let response =
            self.served.request_with(&[("Authorization", &authorization)], "tools/list", json!({}));
        (response.status, response.header("www-authenticate").to_owned())
    }

    fn is_refused(&self, what: &str, token: &str) {
        let (status, challenge) = self.status(token);
        assert_eq!(status, 401, "{what}");
        assert!(challenge.contains("error=\"invalid_token\"") && challenge.contains(METADATA), "{challenge}");
    }
}

#[test]
fn a_client_finds_the_authorization_server_and_its_token_counts() {
    let key = Key::new("a");
    let team = Team::start(&[&key]);
    let response = team.served.request("tools/list", json!({}));
    let challenge = response.header("www-authenticate").to_owned();
    assert_eq!(response.status, 401);
    assert!(challenge.contains(METADATA) && challenge.contains("scope=\"mcp mcp:echo\""), "{challenge}");
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let get = format!("GET {path} HTTP/1.1\r\nHost: tools.example\r\n\r\n");
        let metadata = team.served.send(&get).json();
        assert_eq!(
            metadata,
            json!({"resource": RESOURCE, "authorization_servers": [ISSUER],
            "scopes_supported": ["mcp", "mcp:echo"], "bearer_methods_supported": ["header"]})
        );
        let foreign = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert_eq!(team.served.send(&foreign).status, 403);
    }
    assert_eq!(team.status(&key.token(&claims(json!({})))).0, 200);
    let lists =
        claims(json!({"aud": ["https://other.example", RESOURCE], "scope": null, "scp": ["x", "mcp"]}));
    assert_eq!(team.status(&key.token(&lists)).0, 200);
    assert_eq!(team.fetches.load(Ordering::SeqCst), 1, "the keys are kept");
}

#[test]
fn a_scope_gives_a_profile() {
    let key = Key::new("a");
    let team = Team::start(&[&key]);
    let call = |scope: &str, tool: &str| {
        let authorization = format!("Bearer {}", key.token(&claims(json!({"scope": scope}))));
        let params = call_params("g", tool, json!({"text": "x"}));
        let response = team.served.request_with(&[("Authorization", &authorization)], "tools/call", params);
        response.json()["result"].take()
    };
    assert_eq!(call("openid mcp:echo", "echo")["content"][0]["text"], "x");
    assert_eq!(call("openid mcp:echo", "pid")["isError"], true);
    assert!(call("mcp:echo mcp", "pid")["isError"].is_null(), "the first scope of the file counts");
    let (status, challenge) = team.status(&key.token(&claims(json!({"scope": "openid mcp:ech"}))));
    assert_eq!(status, 403);
    assert!(challenge.contains("insufficient_scope") && challenge.contains("scope=\"mcp mcp:echo\""));
}

#[test]
fn no_token_counts_that_is_for_another_or_not_signed_by_the_server() {
    let (key, foreign) = (Key::new("a"), Key::new("a"));
    let team = Team::start(&[&key, &Key::new("b")]);
    let good = claims(json!({}));
    for (what, changes) in [
        ("a wrong audience", json!({"aud": "https://other.example/mcp"})),
        ("no audience", json!({"aud": null})),
        ("an audience that only begins like ours", json!({"aud": format!("{RESOURCE}/x")})),
        ("a wrong issuer", json!({"iss": "https://login.example.evil"})),
        ("no issuer", json!({"iss": null})),
        ("an expired token", json!({"exp": now() - 120})),
        ("no expiry", json!({"exp": null})),
        ("an expiry that is no number", json!({"exp": "never"})),
        ("a token for later", json!({"nbf": now() + 300})),
        ("no subject", json!({"sub": null})),
        ("an empty subject", json!({"sub": ""})),
    ] {
        team.is_refused(what, &key.token(&claims(changes)));
    }
    team.is_refused("a key of somebody else", &foreign.token(&good));
    for alg in ["none", "None", "NONE"] {
        let token = unsigned(&json!({"alg": alg, "kid": "a"}), &good);
        team.is_refused("alg none", &format!("{token}."));
        team.is_refused("alg none, two parts", &token);
    }
    // The public key is known to all, so it must not count as a shared secret in any form.
    let public = key.public();
    let point = key.pair.public_key().as_ref().to_vec();
    let x = URL_SAFE_NO_PAD.decode(public["x"].as_str().unwrap()).unwrap();
    for secret in [point.clone(), point[1..].to_vec(), x, public.to_string().into_bytes()] {
        let signed = unsigned(&json!({"alg": "HS256", "kid": "a"}), &good);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
        team.is_refused("HS256", &format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)));
    }
    let token = key.token(&good);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    team.is_refused("no signature", &format!("{signed}."));
    let other = unsigned(&json!({"alg": "ES256", "kid": "a"}), &claims(json!({"sub": "bob"})));
    team.is_refused("the signature of another token", &format!("{other}.{signature}"));
    for header in
        [json!({"alg": "ES256"}), json!({"alg": "ES384", "kid": "a"}), json!({"alg": "RS256", "kid": "a"})]
    {
        team.is_refused("another header", &format!("{}.{signature}", unsigned(&header, &good)));
    }
    let critical = json!({"alg": "ES256", "kid": "a", "crit": ["x"], "x": "y"});
    let signed = unsigned(&critical, &good);
    let signature = key.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    team.is_refused("an extension", &format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)));
    assert_eq!(team.status(&token).0, 200);
}

#[test]
fn unknown_keys_do_not_make_it_fetch_all_the_time() {
    let (key, unknown) = (Key::new("a"), Key::new("unknown"));
    let team = Team::start(&[&key]);
    for _ in 0..20 {
        team.is_refused("an unknown key", &unknown.token(&claims(json!({}))));
    }
    assert_eq!(team.status(&key.token(&claims(json!({})))).0, 200);
    assert_eq!(team.fetches.load(Ordering::SeqCst), 1);
}

#[test]
fn keys_survive_a_reload() {
    let (key, other) = (Key::new("a"), Key::new("b"));
    let team = Team::start(&[&key]);
    assert_eq!(team.status(&key.token(&claims(json!({})))).0, 200);
    team.is_down.store(true, Ordering::SeqCst);
    let file = team.dir.path().join("oauth.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\n")).unwrap();
    team.served.proxy.wait_for_log("the tokens were read again");
    assert_eq!(team.status(&key.token(&claims(json!({})))).0, 200);
    team.is_refused("a key that a fresh set does not have", &other.token(&claims(json!({}))));
}

#[test]
fn a_stream_ends_when_its_token_expires() {
    let key = Key::new("a");
    let team = Team::start(&[&key]);
    // Clocks may differ by 60 s.
    let authorization = format!("Bearer {}", key.token(&claims(json!({"exp": now() - 56}))));
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let headers = [("Authorization", authorization.as_str())];
    let mut listener = team.served.request_with(&headers, "subscriptions/listen", filter);
    assert_eq!(listener.event().unwrap()["method"], "notifications/subscriptions/acknowledged");
    assert!(listener.event().is_none());
}

#[test]
fn without_keys_nobody_is_refused_for_good() {
    let key = Key::new("a");
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("oauth.json");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let oauth = json!({"resource": RESOURCE, "issuer": ISSUER, "jwks_uri": format!("http://{closed}/jwks"),
        "scopes": [{"scope": "mcp"}]});
    fs::write(&file, oauth.to_string()).unwrap();
    let served = Served::start(&config([("g", for_all(&[]))]), &["--oauth", file.to_str().unwrap()]);
    let authorization = format!("Bearer {}", key.token(&claims(json!({}))));
    let response = served.request_with(&[("Authorization", &authorization)], "tools/list", json!({}));
    assert_eq!((response.status, response.header("retry-after")), (503, "30"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
    command.env_clear().envs(base_env(dir.path())).current_dir(dir.path());
    fs::write(dir.path().join("wrong.json"), "{}").unwrap();
    let output =
        crate::support::output_of(command.args(["serve", "--http", "127.0.0.1:0", "--oauth", "wrong.json"]));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("wrong.json: not a file for --oauth"), "{text}");
}
