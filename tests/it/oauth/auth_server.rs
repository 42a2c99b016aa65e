//! An MCP server that requires a login, and its authorization server, which lets every user in. It checks what a strict
//! server checks, and a test can make each part of it misbehave.

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
use crate::support::merged;

pub(crate) type Form = BTreeMap<String, String>;

/// How the server behaves, and what it has issued. Members of the JSON overrides that are null are removed.
#[derive(Default)]
pub(crate) struct ServerState {
    /// Overrides of the authorization server's metadata.
    pub(crate) metadata: Value,
    /// Overrides of the protected resource metadata.
    pub(crate) resource_metadata: Value,
    /// Replaces the `WWW-Authenticate` header.
    pub(crate) challenge: Option<String>,
    /// Overrides of the parameters that the browser returns with.
    pub(crate) callback_parameters: Value,
    /// Overrides of token responses.
    pub(crate) token_response: Value,
    /// The status, the media type and the body of the answer to an authorization code. `CODE` stands for the code.
    pub(crate) code_refusal: Option<(u16, &'static str, &'static str)>,
    /// The token endpoint answers with this status.
    pub(crate) token_status: Option<u16>,
    /// The status, the media type and the body of the answer to a registration.
    pub(crate) registration_refusal: Option<(u16, &'static str, &'static str)>,
    /// How long the token endpoint takes.
    pub(crate) token_delay: Duration,
    /// The token endpoint redirects there.
    pub(crate) token_redirect: Option<String>,
    /// The MCP server answers requests without a token too.
    pub(crate) allows_anonymous: bool,
    /// The MCP server has no handshake.
    pub(crate) is_stateless: bool,
    /// This path redirects to that URL.
    pub(crate) redirected_path: Option<(&'static str, String)>,
    /// Replies in place of those of these paths: a status, and a body of JSON.
    pub(crate) documents: BTreeMap<&'static str, (u16, String)>,
    /// The media type of token responses.
    pub(crate) token_media_type: Option<&'static str>,
    /// The answers to logins are compressed.
    pub(crate) gzips: bool,
    /// Registered clients get a secret.
    pub(crate) issues_client_secret: bool,
    /// It has no metadata, and its endpoints are at the root, as in MCP 2025-03-26.
    pub(crate) has_no_metadata: bool,
    /// Set when a refresh token has been used twice.
    pub(crate) refresh_token_reused: bool,
    /// What assertions of the client `me` are signed with: the `alg`, the algorithm and the public key.
    pub(crate) assertion_key: Option<(&'static str, &'static dyn VerificationAlgorithm, Vec<u8>)>,
    /// The sessions that the MCP server knows. `None`: it has no sessions.
    pub(crate) sessions: Option<BTreeSet<String>>,
    /// Authorization codes with the requests that they were issued for.
    codes: BTreeMap<String, Form>,
    /// Access tokens with their scopes and when they expire.
    access_tokens: BTreeMap<String, (String, Option<Instant>)>,
    /// Refresh tokens with their scopes, and whether they have been used.
    refresh_tokens: BTreeMap<String, (String, bool)>,
    secrets_issued: u32,
}

impl ServerState {
    fn new_secret(&mut self, kind: &str) -> String {
        self.secrets_issued += 1;
        format!("s3cret-{kind}-{}", self.secrets_issued)
    }

    /// Makes all access tokens invalid.
    pub(crate) fn revoke_access(&mut self) {
        self.access_tokens.clear();
    }

    /// Makes all tokens invalid.
    pub(crate) fn revoke_all(&mut self) {
        self.access_tokens.clear();
        self.refresh_tokens.clear();
    }

    /// How many tokens are valid.
    pub(crate) fn live_tokens(&self) -> usize {
        self.access_tokens.len() + self.refresh_tokens.values().filter(|(_, used)| !used).count()
    }
}

/// The running server. Clones share it.
#[derive(Clone)]
pub(crate) struct MockAuthServer {
    pub(crate) http: Server,
    tls: Option<Arc<rustls::ServerConfig>>,
    state: Arc<Mutex<ServerState>>,
}

impl MockAuthServer {
    pub(crate) fn start() -> Self {
        Self::start_with_tls(None)
    }

    pub(crate) fn start_with_tls(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let state = Arc::new(Mutex::new(ServerState::default()));
        Self { http: serve("127.0.0.1:0", tls.clone(), state.clone()), tls, state }
    }

    /// Closes all connections and starts again at the same address. Tokens stay valid, sessions do not.
    pub(crate) fn restart(&mut self) {
        self.http.close();
        if let Some(sessions) = &mut self.state().sessions {
            sessions.clear();
        }
        self.http = serve(&self.http.address(), self.tls.clone(), self.state.clone());
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the MCP server.
    pub(crate) fn url(&self) -> String {
        self.http.url()
    }

    /// The forms that this path has received.
    pub(crate) fn forms(&self, path: &str) -> Vec<Form> {
        let requests = self.http.requests();
        requests.iter().filter(|request| request.path == path).map(|r| parse_form(&r.text)).collect()
    }

    /// How many requests the token endpoint has received. Some of them may not be answered yet.
    pub(crate) fn token_requests(&self) -> usize {
        self.forms("/as/token").len()
    }

    /// The forms of this grant type that the token endpoint has received.
    pub(crate) fn grants(&self, grant_type: &str) -> Vec<Form> {
        let mut forms = self.forms("/as/token");
        forms.retain(|form| form.get("grant_type").is_some_and(|value| value == grant_type));
        forms
    }
}

fn serve(address: &str, tls: Option<Arc<rustls::ServerConfig>>, state: Arc<Mutex<ServerState>>) -> Server {
    let listener = TcpListener::bind(address).unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let origin = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
    Server::on(listener, tls, move |request| {
        if request.path == "/as/token" {
            let delay = state.lock().unwrap_or_else(PoisonError::into_inner).token_delay;
            std::thread::sleep(delay);
        }
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = reply(&mut state, &origin, request);
        let is_read =
            ["/.well-known/", "/as/token", "/as/register"].iter().any(|path| request.path.starts_with(path));
        if state.gzips && is_read { reply.map(Reply::gzipped) } else { reply }
    })
}

pub(crate) fn parse_form(text: &str) -> Form {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// `base` with the members of `overrides`; null removes a member.
fn overridden(base: Value, overrides: &Value) -> Value {
    let mut all = merged(base, if overrides.is_object() { overrides.clone() } else { json!({}) });
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    all
}

fn json_reply(value: &Value) -> Option<Reply> {
    Some(Reply::json(value.to_string()))
}

/// An OAuth error that repeats the request, as careless servers do.
fn error_reply(error: &str, request: &Request) -> Option<Reply> {
    let body = json!({"error": error, "error_description": request.text});
    Some(Reply::text(400, "application/json", body.to_string()))
}

fn reply(state: &mut ServerState, origin: &str, request: &Request) -> Option<Reply> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    if state.has_no_metadata && path.starts_with("/.well-known/") {
        return Some(Reply::status(404));
    }
    if let Some((_, to)) = state.redirected_path.as_ref().filter(|(redirected, _)| *redirected == path) {
        return Some(Reply::status(302).with_header("Location", to));
    }
    if let Some((status, body)) = state.documents.get(path) {
        return Some(Reply::text(*status, "application/json", body.as_str()));
    }
    let at_root = format!("/as{path}");
    match if state.has_no_metadata && path != "/mcp" { &at_root } else { path } {
        "/.well-known/oauth-protected-resource/mcp" => json_reply(&overridden(
            json!({"resource": format!("{origin}/mcp"), "authorization_servers": [format!("{origin}/as")],
                   "scopes_supported": ["read"]}),
            &state.resource_metadata,
        )),
        "/.well-known/oauth-authorization-server/as" => json_reply(&overridden(
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
        "/as/register" if state.registration_refusal.is_some() => {
            let (status, media_type, body) = state.registration_refusal?;
            Some(Reply::text(status, media_type, body))
        }
        "/as/register" => {
            let id = state.new_secret("client");
            let mut client = json!({"client_id": id, "redirect_uris": request.body["redirect_uris"]});
            if state.issues_client_secret {
                client["client_secret"] = json!(state.new_secret("secret"));
            }
            json_reply(&client)
        }
        "/as/authorize" if query.is_empty() => Some(Reply::status(400)),
        "/as/authorize" => authorize_reply(state, origin, parse_form(query)),
        "/as/token" => token_reply(state, request),
        "/as/revoke" => {
            let token = parse_form(&request.text).remove("token").unwrap();
            state.access_tokens.remove(&token);
            state.refresh_tokens.remove(&token);
            Some(Reply::status(200))
        }
        "/mcp" => mcp_reply(state, origin, request),
        _ => Some(Reply::status(404)),
    }
}

fn authorize_reply(state: &mut ServerState, origin: &str, request: Form) -> Option<Reply> {
    let code = state.new_secret("code");
    let parameters = overridden(
        json!({"code": code, "state": request["state"], "iss": format!("{origin}/as")}),
        &state.callback_parameters,
    );
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(
            parameters.as_object().unwrap().iter().map(|(name, value)| (name, value.as_str().unwrap())),
        )
        .finish();
    let to = format!("{}?{query}", request["redirect_uri"]);
    state.codes.insert(code, request);
    Some(Reply::status(302).with_header("Location", &to))
}

fn token_reply(state: &mut ServerState, request: &Request) -> Option<Reply> {
    if let Some(to) = &state.token_redirect {
        return Some(Reply::status(307).with_header("Location", to));
    }
    if let Some(status) = state.token_status {
        return Some(Reply::status(status));
    }
    let form = parse_form(&request.text);
    let parameter = |name: &str| form.get(name).cloned().unwrap_or_default();
    if parameter("resource").is_empty() {
        return error_reply("invalid_target", request);
    }
    let scope = match parameter("grant_type").as_str() {
        "authorization_code" => {
            if let Some((status, media_type, body)) = state.code_refusal {
                return Some(Reply::text(status, media_type, body.replace("CODE", &parameter("code"))));
            }
            let Some(authorized) = state.codes.remove(&parameter("code")) else {
                return error_reply("invalid_grant", request);
            };
            let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(parameter("code_verifier")));
            let same = |name: &str| authorized.get(name).cloned().unwrap_or_default() == parameter(name);
            if authorized["code_challenge"] != challenge || authorized["code_challenge_method"] != "S256" {
                return error_reply("invalid_grant", request);
            }
            if !same("redirect_uri") || !same("resource") {
                return error_reply("invalid_request", request);
            }
            authorized.get("scope").cloned().unwrap_or_default()
        }
        "refresh_token" => match state.refresh_tokens.get_mut(&parameter("refresh_token")) {
            Some((scope, used)) => {
                let scope = scope.clone();
                if std::mem::replace(used, true) {
                    state.refresh_token_reused = true;
                    return error_reply("invalid_grant", request);
                }
                scope
            }
            None => return error_reply("invalid_grant", request),
        },
        "client_credentials" if authenticates_client(state, request, &form) => parameter("scope"),
        _ => return error_reply("invalid_client", request),
    };
    let (access, refresh) = (state.new_secret("access"), state.new_secret("refresh"));
    let response = overridden(
        json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "scope": scope,
               "id_token": "s3cret-id"}),
        &state.token_response,
    );
    let expires_at =
        response["expires_in"].as_u64().map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let granted = response["scope"].as_str().unwrap_or_default().to_owned();
    state.access_tokens.insert(access, (granted.clone(), expires_at));
    state.refresh_tokens.insert(refresh, (granted, false));
    let media_type = state.token_media_type.unwrap_or("application/json");
    Some(Reply::text(200, media_type, response.to_string()))
}

/// Whether the request is from the client `me`, with its secret `s3cret-word` or a signed assertion.
fn authenticates_client(state: &ServerState, request: &Request, form: &Form) -> bool {
    let basic = format!("Basic {}", BASE64_STANDARD.encode("me:s3cret-word"));
    let is = |name: &str, value: &str| form.get(name).is_some_and(|found| found == value);
    let assertion = form.get("client_assertion");
    let is_signed =
        assertion.is_some_and(|assertion| is_valid_assertion(state, assertion).unwrap_or_default());
    request.header("authorization") == basic || is("client_secret", "s3cret-word") || is_signed
}

fn is_valid_assertion(state: &ServerState, assertion: &str) -> Option<bool> {
    let (name, algorithm, key) = state.assertion_key.as_ref()?;
    let (message, signature) = assertion.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let decode = |part: &str| -> Option<Value> {
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let (header, claims) = (decode(header)?, decode(claims)?);
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
    let is_signed = UnparsedPublicKey::new(*algorithm, key).verify(message.as_bytes(), &signature).is_ok();
    Some(is_signed && header["alg"] == *name && claims["sub"] == "me" && claims["iss"] == "me")
}

/// The reply of the MCP server, if it does not pass the request on. The tool `look` needs the scope `write`.
fn mcp_reply(state: &mut ServerState, origin: &str, request: &Request) -> Option<Reply> {
    if state.is_stateless && request.rpc_method() == "initialize" {
        return Some(Reply::text(400, "application/json", request.error_response(-32020, "no such header")));
    }
    let default_challenge = format!(
        r#"Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp", scope="read""#
    );
    let token = request.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
    let known = state
        .access_tokens
        .get(token)
        .filter(|(_, expires_at)| expires_at.is_none_or(|at| Instant::now() < at));
    if token.is_empty() && state.allows_anonymous {
        return None;
    }
    let Some((scope, _)) = known else {
        let challenge = state.challenge.clone().unwrap_or(default_challenge);
        return Some(Reply::status(401).with_header("WWW-Authenticate", &challenge));
    };
    if request.is_tool_call() && request.body["params"]["name"] == "look" && !scope.contains("write") {
        let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
        return Some(Reply::status(403).with_header("WWW-Authenticate", challenge));
    }
    session_reply(state, request)
}

fn session_reply(state: &mut ServerState, request: &Request) -> Option<Reply> {
    state.sessions.as_ref()?;
    if request.rpc_method() == "initialize" {
        let session = state.new_secret("session");
        state.sessions.as_mut()?.insert(session.clone());
        return Some(default_reply(request).with_header("Mcp-Session-Id", &session));
    }
    let known = state.sessions.as_ref()?.contains(request.header("mcp-session-id"));
    (!known).then(|| Reply::status(404))
}
