//! A server that wants a login, and the authorization server that gives it: everybody who comes is let in. It checks
//! what a strict one checks, and each part of it can be made to lie.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::signature::{UnparsedPublicKey, VerificationAlgorithm};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::remote::server::default_reply;
use crate::remote::{Reply, Request, Server};
use crate::support::with;

pub(crate) type Form = BTreeMap<String, String>;

/// What it is like, and what happened.
#[derive(Default)]
pub(crate) struct State {
    /// Over the metadata it would have; null takes a member out.
    pub(crate) metadata: Value,
    pub(crate) resource: Value,
    /// `WWW-Authenticate` in place of its own.
    pub(crate) challenge: Option<String>,
    /// Parameters of the browser's return, over its own.
    pub(crate) returns: Value,
    /// Members of a token answer, over its own.
    pub(crate) grant: Value,
    /// The token endpoint answers with this status.
    pub(crate) down: Option<u16>,
    /// The token endpoint takes so long.
    pub(crate) slow: Duration,
    /// It answers without a login as well.
    pub(crate) open: bool,
    /// It has no handshake.
    pub(crate) is_stateless: bool,
    /// This path redirects there.
    pub(crate) moved: Option<(&'static str, String)>,
    /// The token endpoint redirects there.
    pub(crate) redirect: Option<String>,
    pub(crate) gives_secret: bool,
    /// It has no metadata, and its places are at the root.
    pub(crate) is_old: bool,
    /// No refresh token is good twice.
    pub(crate) used_twice: bool,
    /// What words of its client `me` are signed with: their `alg`, how to look at it, and the public key.
    pub(crate) signer: Option<(&'static str, &'static dyn VerificationAlgorithm, Vec<u8>)>,
    /// The sessions that its server knows, if it has such.
    pub(crate) sessions: Option<BTreeSet<String>>,
    codes: BTreeMap<String, Form>,
    access: BTreeMap<String, (String, Option<Instant>)>,
    refresh: BTreeMap<String, (String, bool)>,
    count: u32,
}

impl State {
    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("s3cret-{kind}-{}", self.count)
    }

    /// No token works any more.
    pub(crate) fn revoke_access(&mut self) {
        self.access.clear();
    }

    pub(crate) fn revoke_all(&mut self) {
        self.access.clear();
        self.refresh.clear();
    }

    pub(crate) fn live(&self) -> usize {
        self.access.len() + self.refresh.values().filter(|(_, used)| !used).count()
    }
}

#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) server: Server,
    tls: Option<Arc<rustls::ServerConfig>>,
    state: Arc<Mutex<State>>,
}

impl Authority {
    pub(crate) fn start() -> Self {
        Self::on(None)
    }

    pub(crate) fn on(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        Self { server: serve("127.0.0.1:0", tls.clone(), state.clone()), tls, state }
    }

    /// Cuts all connections, and comes back in the same place: it knows what it granted, and no session.
    pub(crate) fn restart(&mut self) {
        self.server.close();
        if let Some(sessions) = &mut self.state().sessions {
            sessions.clear();
        }
        self.server = serve(&self.server.address(), self.tls.clone(), self.state.clone());
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// The forms that were sent there.
    pub(crate) fn forms(&self, path: &str) -> Vec<Form> {
        self.server
            .requests()
            .iter()
            .filter(|request| request.path == path)
            .map(|r| parameters(&r.text))
            .collect()
    }

    /// Those of a kind that the token endpoint was sent.
    pub(crate) fn grants(&self, kind: &str) -> Vec<Form> {
        self.forms("/as/token")
            .into_iter()
            .filter(|form| form.get("grant_type").is_some_and(|k| k == kind))
            .collect()
    }
}

fn serve(address: &str, tls: Option<Arc<rustls::ServerConfig>>, state: Arc<Mutex<State>>) -> Server {
    let listener = TcpListener::bind(address).unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let origin = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
    Server::on(listener, tls, move |request| {
        if request.path == "/as/token" {
            let slow = state.lock().unwrap_or_else(PoisonError::into_inner).slow;
            std::thread::sleep(slow);
        }
        answer(&mut state.lock().unwrap_or_else(PoisonError::into_inner), &origin, request)
    })
}

pub(crate) fn parameters(text: &str) -> Form {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// `over` on top of `base`; null takes out.
fn changed(base: Value, over: &Value) -> Value {
    let mut all = with(base, if over.is_object() { over.clone() } else { json!({}) });
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    all
}

fn json_reply(value: &Value) -> Option<Reply> {
    Some(Reply::json(value.to_string()))
}

/// As a careless server does: with what it was sent.
fn refusal(error: &str, request: &Request) -> Option<Reply> {
    let said = json!({"error": error, "error_description": request.text});
    Some(Reply::text(400, "application/json", said.to_string()))
}

fn answer(state: &mut State, origin: &str, request: &Request) -> Option<Reply> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    if state.is_old && path.starts_with("/.well-known/") {
        return Some(Reply::status(404));
    }
    if let Some((_, to)) = state.moved.as_ref().filter(|(moved, _)| *moved == path) {
        return Some(Reply::status(302).with_header("Location", to));
    }
    let at_root = format!("/as{path}");
    match if state.is_old && path != "/mcp" { &at_root } else { path } {
        "/.well-known/oauth-protected-resource/mcp" => json_reply(&changed(
            json!({"resource": format!("{origin}/mcp"), "authorization_servers": [format!("{origin}/as")],
                   "scopes_supported": ["read"]}),
            &state.resource,
        )),
        "/.well-known/oauth-authorization-server/as" => json_reply(&changed(
            json!({
                "issuer": format!("{origin}/as"),
                "authorization_endpoint": format!("{origin}/as/authorize"),
                "token_endpoint": format!("{origin}/as/token"),
                "registration_endpoint": format!("{origin}/as/register"),
                "revocation_endpoint": format!("{origin}/as/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
            }),
            &state.metadata,
        )),
        "/as/register" => {
            let mut client =
                json!({"client_id": state.name("client"), "redirect_uris": request.body["redirect_uris"]});
            if state.gives_secret {
                client["client_secret"] = json!(state.name("secret"));
            }
            json_reply(&client)
        }
        "/as/authorize" => authorize(state, origin, parameters(query)),
        "/as/token" => token(state, request),
        "/as/revoke" => {
            let token = parameters(&request.text).remove("token").unwrap();
            state.access.remove(&token);
            state.refresh.remove(&token);
            Some(Reply::status(200))
        }
        "/mcp" => resource(state, origin, request),
        _ => Some(Reply::status(404)),
    }
}

fn authorize(state: &mut State, origin: &str, asked: Form) -> Option<Reply> {
    let code = state.name("code");
    let returns = changed(
        json!({"code": code, "state": asked["state"], "iss": format!("{origin}/as")}),
        &state.returns,
    );
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(
            returns.as_object().unwrap().iter().map(|(name, value)| (name, value.as_str().unwrap())),
        )
        .finish();
    let to = format!("{}?{query}", asked["redirect_uri"]);
    state.codes.insert(code, asked);
    Some(Reply::status(302).with_header("Location", &to))
}

fn token(state: &mut State, request: &Request) -> Option<Reply> {
    if let Some(to) = &state.redirect {
        return Some(Reply::status(307).with_header("Location", to));
    }
    if let Some(status) = state.down {
        return Some(Reply::status(status));
    }
    let form = parameters(&request.text);
    let of = |name: &str| form.get(name).cloned().unwrap_or_default();
    if of("resource").is_empty() {
        return refusal("invalid_target", request);
    }
    let scope = match of("grant_type").as_str() {
        "authorization_code" => {
            let Some(asked) = state.codes.remove(&of("code")) else {
                return refusal("invalid_grant", request);
            };
            let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
            let same = |name: &str| asked.get(name).cloned().unwrap_or_default() == of(name);
            if asked["code_challenge"] != challenge || asked["code_challenge_method"] != "S256" {
                return refusal("invalid_grant", request);
            }
            if !same("redirect_uri") || !same("resource") {
                return refusal("invalid_request", request);
            }
            asked.get("scope").cloned().unwrap_or_default()
        }
        "refresh_token" => match state.refresh.get_mut(&of("refresh_token")) {
            Some((scope, used)) => {
                let scope = scope.clone();
                if std::mem::replace(used, true) {
                    state.used_twice = true;
                    return refusal("invalid_grant", request);
                }
                scope
            }
            None => return refusal("invalid_grant", request),
        },
        "client_credentials" if knows_client(state, request, &form) => of("scope"),
        _ => return refusal("invalid_client", request),
    };
    let (access, refresh) = (state.name("access"), state.name("refresh"));
    let answer = changed(
        json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "scope": scope,
               "id_token": "s3cret-id"}),
        &state.grant,
    );
    let ends = answer["expires_in"].as_u64().map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let granted = answer["scope"].as_str().unwrap_or_default().to_owned();
    state.access.insert(access, (granted.clone(), ends));
    state.refresh.insert(refresh, (granted, false));
    json_reply(&answer)
}

/// `me`, with the secret `s3cret-word`, or a word of its own that is signed as it should be.
fn knows_client(state: &State, request: &Request, form: &Form) -> bool {
    let basic = format!("Basic {}", BASE64_STANDARD.encode("me:s3cret-word"));
    let is = |name: &str, value: &str| form.get(name).is_some_and(|found| found == value);
    let signed = form.get("client_assertion").and_then(|word| is_signed(state, word)).unwrap_or_default();
    request.header("authorization") == basic || is("client_secret", "s3cret-word") || signed
}

fn is_signed(state: &State, word: &str) -> Option<bool> {
    let (name, algorithm, key) = state.signer.as_ref()?;
    let (message, signature) = word.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let read = |part: &str| -> Option<Value> {
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let (header, claims) = (read(header)?, read(claims)?);
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
    let signed = UnparsedPublicKey::new(*algorithm, key).verify(message.as_bytes(), &signature).is_ok();
    Some(signed && header["alg"] == *name && claims["sub"] == "me" && claims["iss"] == "me")
}

/// The tool `look` needs the scope `write`, others `read`, if any.
fn resource(state: &mut State, origin: &str, request: &Request) -> Option<Reply> {
    if state.is_stateless && request.rpc_method() == "initialize" {
        return Some(Reply::text(400, "application/json", request.error_response(-32020, "no such header")));
    }
    let own = format!(
        r#"Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp", scope="read""#
    );
    let token = request.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
    let known = state.access.get(token).filter(|(_, ends)| ends.is_none_or(|ends| Instant::now() < ends));
    if token.is_empty() && state.open {
        return None;
    }
    let Some((scope, _)) = known else {
        let challenge = state.challenge.clone().unwrap_or(own);
        return Some(Reply::status(401).with_header("WWW-Authenticate", &challenge));
    };
    if request.is_tool_call() && request.body["params"]["name"] == "look" && !scope.contains("write") {
        let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
        return Some(Reply::status(403).with_header("WWW-Authenticate", challenge));
    }
    with_sessions(state, request)
}

fn with_sessions(state: &mut State, request: &Request) -> Option<Reply> {
    state.sessions.as_ref()?;
    if request.rpc_method() == "initialize" {
        let session = state.name("session");
        state.sessions.as_mut()?.insert(session.clone());
        return Some(default_reply(request).with_header("Mcp-Session-Id", &session));
    }
    let known = state.sessions.as_ref()?.contains(request.header("mcp-session-id"));
    (!known).then(|| Reply::status(404))
}
