//! HTTP requests to one server: with the config's headers and our credentials, to its own origin alone, again where it
//! says that it did not look at them.

use super::credentials::{AuthChallenge, ChallengeOutcome, Credentials};
use super::error::RemoteError;
use super::tls;
use crate::config;
use crate::transport::error::OpenError;
use crate::wire::{Raw, raw};
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What an error may still have to say.
const ERROR: Duration = Duration::from_secs(5);
/// How often one message is sent again because the server had no time for it.
const WAITS: usize = 3;
/// What a server may ask for; whoever is told has limits of its own.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Redirects within a server that one request follows.
const REDIRECTS: usize = 5;
/// What is read of an answer that is an error.
const ERROR_BODY: usize = 64 << 10;

pub const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream";

pub struct Http {
    client: Client,
    pub url: Url,
    /// The config's.
    headers: HeaderMap,
    credentials: Arc<dyn Credentials>,
    pub connect: Duration,
}

/// One request, as often as it must be sent.
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Raw>,
    /// A server that wants to be asked again later than this is not waited for: the caller is told.
    pub patience: Duration,
}

impl Http {
    pub async fn new(
        config: &config::HttpConfig,
        connect: Duration,
        credentials: Arc<dyn Credentials>,
    ) -> Result<Self, OpenError> {
        let url = Url::parse(&config.url).map_err(|error| unusable(format!("its url is wrong: {error}")))?;
        let headers = config.headers.iter().map(|(name, value)| {
            let name =
                HeaderName::try_from(name).map_err(|_| unusable(format!("no header is named {name:?}")))?;
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| unusable(format!("its header {name} has a value that no header may have")))?;
            value.set_sensitive(true);
            Ok((name, value))
        });
        let headers = headers.collect::<Result<_, OpenError>>()?;
        let tls = tls::config(config.ca_file.as_deref(), connect).await?;
        Ok(Self { client: client(tls, connect)?, url, headers, credentials, connect })
    }

    /// Sends it, and again after new credentials or a wait that the server asked for. Whatever status is no refusal of
    /// these kinds is the caller's.
    pub async fn send(&self, request: Request) -> Result<Response, RemoteError> {
        let (mut refused, mut waits) = (false, 0);
        loop {
            let authorization = self.credentials.authorization().await?;
            let response = self.try_send(&request, authorization.as_ref()).await?;
            let status = response.status();
            match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    let challenge = response.headers().get(WWW_AUTHENTICATE).cloned();
                    let refusal = AuthChallenge { status, challenge, sent: authorization };
                    match self.credentials.refused(refusal).await {
                        ChallengeOutcome::Again if !refused => refused = true,
                        ChallengeOutcome::Final(fault) => return Err(fault),
                        ChallengeOutcome::Again | ChallengeOutcome::Unrelated => {
                            return Err(self.status(response).await);
                        }
                    }
                }
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    let after = retry_after(&response);
                    if status == StatusCode::SERVICE_UNAVAILABLE && after.is_none() {
                        return Ok(response);
                    }
                    match after {
                        Some(after) if after <= request.patience && waits < WAITS => {
                            tokio::time::sleep(after).await;
                        }
                        _ => return Err(RemoteError::busy(status, after)),
                    }
                    waits += 1;
                }
                StatusCode::PROXY_AUTHENTICATION_REQUIRED
                    if let Some(fault) = RemoteError::of_proxy(&request.url) =>
                {
                    return Err(fault);
                }
                status if status.is_redirection() => {
                    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
                    return Err(RemoteError::redirected(
                        to.and_then(|to| response.url().join(to).ok()).as_ref(),
                    ));
                }
                _ => return Ok(response),
            }
        }
    }

    async fn try_send(
        &self,
        request: &Request,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, RemoteError> {
        let mut headers = self.headers.clone();
        for (name, value) in &request.headers {
            headers.insert(name, value.clone());
        }
        if let Some(value) = authorization {
            headers.insert(reqwest::header::AUTHORIZATION, value.clone());
        }
        let sending = self.client.request(request.method.clone(), request.url.clone()).headers(headers);
        let sending = match &request.body {
            Some(body) => sending.header(CONTENT_TYPE, JSON).body(body.clone()),
            None => sending,
        };
        sending.send().await.map_err(|error| RemoteError::of(&error, &request.url, self.connect))
    }

    /// What a status that is no answer means, with what the server says of it if that is JSON.
    pub async fn status(&self, response: Response) -> RemoteError {
        let status = response.status();
        let body = error_body(response).await;
        RemoteError::status(status, said(&body).as_deref())
    }
}

/// The headers that every request for an answer has.
pub fn accept(kinds: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(kinds))])
}

/// The media type of an answer, without its parameters.
pub fn media_type(response: &Response) -> String {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// As much of a body as may be read of an error; nothing if it does not come.
pub async fn error_body(response: Response) -> Raw {
    let read = read(response, ERROR_BODY);
    match tokio::time::timeout(ERROR, read).await {
        Ok(Ok(body)) => body.into(),
        _ => Raw::new(),
    }
}

/// Why a body could not be read.
pub enum Unread {
    TooLong(u64),
    Broken(String),
}

pub async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, Unread> {
    let too_long = |bytes: u64| bytes > limit as u64;
    if let Some(length) = response.content_length().filter(|length| too_long(*length)) {
        return Err(Unread::TooLong(length));
    }
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| Unread::Broken(super::error::cause(&error)))?
    {
        body.extend_from_slice(&chunk);
        if too_long(body.len() as u64) {
            return Err(Unread::TooLong(body.len() as u64));
        }
    }
    Ok(body)
}

/// The text of a JSON error, in JSON-RPC's form or a common one.
pub fn said(body: &Raw) -> Option<String> {
    let message = raw::get(body, "error").and_then(|error| raw::get_str(&error, "message"));
    let message = message.or_else(|| raw::get_str(body, "error_description"));
    let message = message.or_else(|| raw::get_str(body, "message"))?;
    Some(message.escape_debug().take(500).collect())
}

/// Seconds, or a date by the server's own clock if it tells it; one that is past is now.
fn retry_after(response: &Response) -> Option<Duration> {
    let header = |name| Some(response.headers().get(name)?.to_str().ok()?.trim());
    let date = |text| httpdate::parse_http_date(text).ok();
    let after = header(RETRY_AFTER)?;
    let after = match after.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let now = header(DATE).and_then(date).unwrap_or_else(SystemTime::now);
            date(after)?.duration_since(now).unwrap_or_default()
        }
    };
    Some(after.min(LONGEST_WAIT))
}

fn client(tls: ClientConfig, connect: Duration) -> Result<Client, OpenError> {
    let builder = Client::builder()
        .user_agent(concat!("dynamic-mcp/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect)
        .redirect(redirect::Policy::custom(within_origin))
        .tls_backend_preconfigured(tls);
    builder.build().map_err(|error| unusable(format!("no HTTP client: {}", super::error::cause(&error))))
}

/// Follows what stays on the server and keeps the method; credentials never leave their origin.
fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_method =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let first = attempt.previous().first();
    let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_method && same && attempt.previous().len() <= REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn unusable(what: String) -> OpenError {
    OpenError::Remote(RemoteError::config(what))
}
