//! One request: the steps from its head to its answer.

use super::authentication::{UserAccess, bearer_token};
use super::limits::RequestPermit;
use super::mcp_headers;
use super::oauth::TokenError;
use super::request_body::{self, RequestBodyError};
use super::response::{AnswerLog, PendingAnswer, ResponseBody, document, json, status_of, text};
use super::state::{Grant, HttpFront, MAX_HEAD_BYTES, OpenRequestGuard, Readiness};
use super::tokens::Principal;
use base::fair;
use front::errors;
use front::names::own_tools;
use front::server::single_request::RequestServer;
use front::session::caller::Caller;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    ORIGIN, RETRY_AFTER, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method as HttpMethod, Request as HttpRequest, Response, StatusCode};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::budget::Reservation;
use wire::inbound::ResponseFuture;
use wire::output::Output;
use wire::protocol::methods::{Method, notification};
use wire::protocol::{Era, code};
use wire::{Message, Raw, Request, error_object};

/// How many bytes of notifications may wait for a client before its stream is ended. What waits in all streams of a user
/// counts in the memory for messages.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// How long to wait before a request that found no room is sent again.
const ROOM_RETRY: Duration = Duration::from_secs(5);
/// How long to wait for the servers of a profile.
const SERVERS_RETRY: Duration = Duration::from_secs(1);
/// How long to wait for the keys of the authorization server.
const KEYS_RETRY: Duration = Duration::from_secs(30);
/// The headers that two components could read in two ways if they were given twice.
const SINGLE_HEADERS: [HeaderName; 9] = [
    HOST,
    ORIGIN,
    AUTHORIZATION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];
/// The id of an answer to what has no readable id.
const NO_ID: Raw = Raw::from_static(b"null");

/// An answer that is given instead of serving the request.
type Refused = Box<Response<ResponseBody>>;

/// Answers a request.
pub(crate) async fn answer(
    front: &Arc<HttpFront>,
    peer: IpAddr,
    request: HttpRequest<Incoming>,
) -> Response<ResponseBody> {
    if let Some(health) = health(front, &request) {
        // A flood of other requests delays no probe.
        front.pace("probe", peer).await;
        return health;
    }
    // hyper hides a `Content-Length` beside it. Whoever reads that one instead must not find another request after it.
    let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let mut response = match checked(front, peer, request).await {
        Ok(pending) => pending.respond().await,
        Err(refused) => {
            if !refused.status().is_success() {
                tracing::debug!(status = refused.status().as_u16(), "refused");
            }
            *refused
        }
    };
    if is_chunked || front.readiness() == Readiness::Draining {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Answers the paths that probes ask for, under any name of the host.
fn health(front: &HttpFront, request: &HttpRequest<Incoming>) -> Option<Response<ResponseBody>> {
    let ready = match request.uri().path() {
        "/healthz" => true,
        "/readyz" => front.readiness() == Readiness::Ready,
        _ => return None,
    };
    Some(match (request.method(), ready) {
        (&HttpMethod::GET | &HttpMethod::HEAD, true) => text(StatusCode::OK, "ok\n"),
        (&HttpMethod::GET | &HttpMethod::HEAD, false) => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        _ => text(StatusCode::METHOD_NOT_ALLOWED, ""),
    })
}

/// Takes a request through all checks, and begins it.
///
/// # Errors
///
/// It is refused. The answer says why.
async fn checked(
    front: &Arc<HttpFront>,
    peer: IpAddr,
    request: HttpRequest<Incoming>,
) -> Result<PendingAnswer, Refused> {
    let access = front.access();
    let principal = match authenticated(front, &access, &request).await {
        Ok(principal) => principal,
        Err(refused) => {
            front.pace("request", peer).await;
            return Err(refused);
        }
    };
    let begun = front.counter().begin(&principal.name);
    let (Ok((_, wait)) | Err(wait)) = begun;
    // A refusal waits, too: a client that sends again at once, over and over, would take the time of the others.
    front.pause(wait).await;
    let (permit, _) = begun.map_err(too_many)?;
    // Before its body has come, so that the end waits for it.
    let open = (permit, front.open_request());
    let Some(server) = front.server(&principal.profile) else {
        let line = "the servers of this profile are not loaded yet: the request may be sent again\n";
        return Err(retry_later(StatusCode::SERVICE_UNAVAILABLE, SERVERS_RETRY, line));
    };
    let user = access.user(&principal);
    let token = bearer_token(request.headers());
    let config = server.groups().config_changes();
    let grant = Grant::new(front, access, token, principal, config);
    let (head, body) = request.into_parts();
    let limit = server.groups().config().settings.max_message_bytes;
    let body = request_body::read(body, limit, user.clone()).await.map_err(|error| unreadable(&error))?;
    let request = match Message::parse_line(body) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification { method, .. }) => return Err(notification_answer(&method)),
        Ok(Message::Response { .. }) => {
            return Err(bad_request(&NO_ID, error_object(code::INVALID_REQUEST, "nothing was asked", None)));
        }
        Err((error, _)) => return Err(bad_request(&NO_ID, errors::malformed(&error).into())),
    };
    fair::on_behalf_of(user, begin(front, &server, &head.headers, request, grant, open)).await
}

/// Returns who makes a request that may be served.
///
/// # Errors
///
/// It is answered otherwise, which needs no token.
async fn authenticated(
    front: &HttpFront,
    access: &UserAccess,
    request: &HttpRequest<Incoming>,
) -> Result<Principal, Refused> {
    check_names(front, request)?;
    metadata(access, request)?;
    check_head(front, request)?;
    let principal = access.principal(bearer_token(request.headers())).await;
    principal.map_err(|error| unauthorized(access, &error))
}

/// Checks the lengths, the host and the origin of a request.
///
/// # Errors
///
/// It is refused.
fn check_names(front: &HttpFront, request: &HttpRequest<Incoming>) -> Result<(), Refused> {
    let headers = request.headers();
    let is_twice = SINGLE_HEADERS.iter().any(|name| headers.get_all(name).iter().nth(1).is_some());
    if is_twice {
        return Err(refuse(StatusCode::BAD_REQUEST, "a header is given twice\n"));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MAX_HEAD_BYTES {
        return Err(refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers exceed 64 KiB\n"));
    }
    front.options().names.check(headers, request.uri()).map_err(|why| {
        let error = error_object(code::INVALID_REQUEST, &why, None);
        Refused::new(json(StatusCode::FORBIDDEN, &NO_ID, Err(error)))
    })
}

/// Answers a request for the metadata of this resource, for which nobody needs a token.
///
/// # Errors
///
/// The answer.
fn metadata(access: &UserAccess, request: &HttpRequest<Incoming>) -> Result<(), Refused> {
    let metadata = access.oauth.as_ref().and_then(|oauth| oauth.metadata(request.uri().path()));
    match (metadata, request.method()) {
        (None, _) => Ok(()),
        (Some(metadata), &HttpMethod::GET | &HttpMethod::HEAD) => Err(Refused::new(document(metadata))),
        (Some(_), _) => Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "")),
    }
}

/// Checks what else the head of a request says, before anything of the body is read.
///
/// # Errors
///
/// It is refused.
fn check_head(front: &HttpFront, request: &HttpRequest<Incoming>) -> Result<(), Refused> {
    if request.uri().path() != front.options().path {
        return Err(refuse(StatusCode::NOT_FOUND, "there is nothing at this path\n"));
    }
    if request.method() != HttpMethod::POST {
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Err(response);
    }
    match media_type(request.headers()) {
        Some("application/json") => Ok(()),
        // A page of another site may send other types without asking.
        _ => Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json\n")),
    }
}

/// Begins to serve a request of the user of this task.
///
/// # Errors
///
/// It is refused.
async fn begin(
    front: &HttpFront,
    server: &RequestServer,
    headers: &HeaderMap,
    mut request: Request,
    grant: Grant,
    open: (RequestPermit, OpenRequestGuard),
) -> Result<PendingAnswer, Refused> {
    // A slice would keep the whole body while its answer is a stream.
    request.id = Raw::copy_from_slice(&request.id);
    let (id, era) = (request.id.clone(), request.era());
    let disagree = |error: Raw| bad_request(&id, error);
    mcp_headers::check(headers, &request, server.latest_revision()).map_err(disagree)?;
    check_mirrored_arguments(server, headers, &request, era).await.map_err(disagree)?;
    let takes_events = takes_events(headers);
    if request.method.known() == Some(Method::SubscriptionsListen) && !takes_events {
        return Err(refuse(StatusCode::NOT_ACCEPTABLE, "the answer is a text/event-stream\n"));
    }
    let user = fair::user();
    let (output, queue) = Output::queued(MAX_QUEUED_BYTES, Reservation::of_user(user.clone()));
    let name = grant.name().clone();
    let log = AnswerLog::new(&request, &name);
    let caller = Caller { principal: name, keys: front.keys() };
    let answer = log.span.in_scope(|| server.serve(request, caller, output));
    let answer = answer.map_err(|error| refused(&id, era, error.into()))?;
    let answer: ResponseFuture = Box::pin(fair::on_behalf_of(user.clone(), async move {
        let _open = open;
        answer.await
    }));
    let answer = match era {
        Era::Stateless => answer,
        // A client of the handshake era that goes away has not cancelled its request.
        Era::Handshake => front.run_to_the_end(answer),
    };
    Ok(PendingAnswer {
        id,
        answer,
        queue,
        user,
        has_status_of_errors: era == Era::Stateless,
        takes_events,
        grant,
        log,
    })
}

/// Checks the headers that repeat arguments of a call of a server's tool by its own name.
///
/// # Errors
///
/// They disagree.
async fn check_mirrored_arguments(
    server: &RequestServer,
    headers: &HeaderMap,
    request: &Request,
    era: Era,
) -> Result<(), Raw> {
    if request.method.known() != Some(Method::ToolsCall) || era == Era::Handshake {
        return Ok(());
    }
    let name = request.params.as_ref().and_then(|params| params.get_str("name"));
    let Some(name) = name.filter(|name| !own_tools::NAMES.contains(&&**name)) else { return Ok(()) };
    match server.definition(&name).await {
        Some(definition) => mcp_headers::check_params(headers, &definition, &mcp_headers::arguments(request)),
        None => Ok(()),
    }
}

/// Returns the media type of the body, without parameters.
fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    value.split(';').next().map(str::trim)
}

/// Returns whether the client takes a stream of events. One that says nothing takes anything.
fn takes_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    let takes = |value: &HeaderValue| {
        let types = value.to_str().unwrap_or_default().split(',');
        let mut types = types.map(|given| given.split(';').next().unwrap_or_default().trim());
        types.any(|given| matches!(given, "text/event-stream" | "text/*" | "*/*"))
    };
    accepted.peek().is_none() || accepted.any(takes)
}

/// The answer to a notification. Nothing is done with one, and a cancellation says so: the request that it is about has a
/// stream of its own, which the client closes.
fn notification_answer(method: &str) -> Refused {
    if method != notification::CANCELLED {
        tracing::debug!(method = %base::text::visible(method), "ignored a notification");
        return refuse(StatusCode::ACCEPTED, "");
    }
    let why = "a request cannot be cancelled by another one over HTTP: in revision 2026-07-28, close the stream of its \
               answer";
    bad_request(&NO_ID, error_object(code::INVALID_REQUEST, why, None))
}

fn refused(id: &Raw, era: Era, error: Raw) -> Refused {
    let status = match (era, wire::raw::error_code(&error)) {
        (Era::Stateless, Some(code)) => status_of(code, StatusCode::BAD_REQUEST),
        // So that a client of either era falls back to a method that exists.
        _ => StatusCode::OK,
    };
    Refused::new(json(status, id, Err(error)))
}

fn bad_request(id: &Raw, error: Raw) -> Refused {
    Refused::new(json(StatusCode::BAD_REQUEST, id, Err(error)))
}

/// Returns an answer with a line of text.
fn refuse(status: StatusCode, line: &'static str) -> Refused {
    Refused::new(text(status, line))
}

fn unauthorized(access: &UserAccess, error: &TokenError) -> Refused {
    let (status, line) = match error {
        TokenError::Missing => (StatusCode::UNAUTHORIZED, "a bearer token is needed\n"),
        TokenError::Invalid => {
            (StatusCode::UNAUTHORIZED, "the bearer token is unknown, for another server, or has expired\n")
        }
        TokenError::NoScope => (StatusCode::FORBIDDEN, "the token has none of the scopes\n"),
        TokenError::NoKeys => {
            let line = "the keys of the authorization server cannot be fetched\n";
            return retry_later(StatusCode::SERVICE_UNAVAILABLE, KEYS_RETRY, line);
        }
    };
    let mut response = refuse(status, line);
    if let Ok(challenge) = HeaderValue::try_from(access.challenge(error)) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

fn too_many(wait: Duration) -> Refused {
    retry_later(StatusCode::TOO_MANY_REQUESTS, wait, "too many requests: wait for answers, and send fewer\n")
}

fn retry_later(status: StatusCode, wait: Duration, line: &'static str) -> Refused {
    let mut response = refuse(status, line);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
    response
}

fn unreadable(error: &RequestBodyError) -> Refused {
    match error {
        RequestBodyError::TooLong => {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, "the message exceeds settings.max_message_bytes\n")
        }
        RequestBodyError::OverBudget => retry_later(
            StatusCode::SERVICE_UNAVAILABLE,
            ROOM_RETRY,
            "too many large messages are being handled, or too many of yours: wait for answers, and read them\n",
        ),
        RequestBodyError::TooSlow => refuse(StatusCode::REQUEST_TIMEOUT, "the body did not come in time\n"),
        RequestBodyError::Incomplete => refuse(StatusCode::BAD_REQUEST, "the body is not complete\n"),
    }
}
