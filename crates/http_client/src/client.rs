//! Sends HTTP requests to one server.
//!
//! Every request has the headers from the config and the group's credentials. It is sent again when it was not
//! processed: once after new credentials, a few times after a `Retry-After` that is short enough. Redirects are
//! followed only within the origin of the config's URL, because credentials must not leave it.

use super::connector::system_lookup;
use super::credentials::{AuthChallenge, ChallengeOutcome, Credentials};
use super::error::RemoteError;
use super::response_body::{JSON, MAX_ERROR_MESSAGE_CHARS, error_message, read_error_body};
use super::sender::{HttpSender, take_basic_auth};
use super::{advice, proxy, tls};
use base::text::{quoted, shorten};
use config::HttpConfig;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode, Url};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::Raw;

/// How often one request is sent again because the server was busy.
const MAX_BUSY_RETRIES: usize = 3;
/// The longest `Retry-After` that is reported. Callers have shorter limits of their own.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How many redirects one request follows.
const MAX_REDIRECTS: usize = 5;
/// The value of a header is looked for in the server's words if it has this many bytes.
const MIN_SECRET: usize = 6;

/// An HTTP client for one server.
pub struct HttpClient {
    /// Sends the requests; it keeps connections open.
    sender: HttpSender,
    /// The URL from the config: the MCP endpoint.
    pub url: Url,
    /// The headers from the config.
    configured_headers: HeaderMap,
    /// The credentials of each request.
    credentials: Arc<dyn Credentials>,
    /// The time limit for making a connection.
    pub connect_timeout: Duration,
    /// Whether the config names a `ca_file`.
    has_ca_file: bool,
}

/// One HTTP request, which may have to be sent more than once.
pub struct HttpRequest {
    /// POST, GET or DELETE.
    pub method: Method,
    /// The MCP endpoint, or the endpoint that an HTTP+SSE server named.
    pub url: Url,
    /// They take precedence over headers from the config.
    pub headers: HeaderMap,
    /// A JSON text.
    pub body: Option<Raw>,
    /// The longest `Retry-After` that is waited for. After a longer one the request fails as busy.
    pub max_retry_after: Duration,
}

impl HttpClient {
    /// Makes a client. No connection is made yet.
    ///
    /// # Errors
    ///
    /// `Config` if the URL, a header or the `ca_file` is not valid, or TLS cannot be set up. `Unreachable` if the
    /// certificates are not read within `connect_timeout`.
    pub async fn new(
        config: &HttpConfig,
        connect_timeout: Duration,
        credentials: Arc<dyn Credentials>,
    ) -> Result<Self, RemoteError> {
        let url = Url::parse(&config.url)
            .map_err(|error| RemoteError::config(format!("its \"url\" is not valid: {error}")))?;
        let headers = config.headers.iter().map(|(name, value)| {
            let name = HeaderName::try_from(name).map_err(|_| {
                RemoteError::config(format!("{name:?} in \"headers\" is not a valid header name"))
            })?;
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                RemoteError::config(format!(
                    "the value of \"{name}\" in \"headers\" is not a valid header value"
                ))
            })?;
            value.set_sensitive(true);
            Ok((name, value))
        });
        let configured_headers = headers.collect::<Result<_, RemoteError>>()?;
        let tls = tls::client_config(config.ca_file.as_deref(), connect_timeout).await?;
        let takes_proxy = !proxy::is_local_http(&url);
        let sender = HttpSender::new(tls, system_lookup(), takes_proxy, connect_timeout);
        let has_ca_file = config.ca_file.is_some();
        Ok(Self { sender, url, configured_headers, credentials, connect_timeout, has_ca_file })
    }

    /// Sends a request and returns the response when its headers have arrived. The response may have any status
    /// other than a redirect, 401, 403, 429, 503 with `Retry-After`, and 407 of a proxy.
    ///
    /// Connecting has a time limit. The wait for the response has none, so the caller sets one. A busy server gets the
    /// request up to `MAX_BUSY_RETRIES` times more, each time after its `Retry-After`.
    ///
    /// # Errors
    ///
    /// The credentials cannot be used at the moment, the request could not be sent, its response did not begin, or the
    /// response has one of those statuses.
    pub async fn send(&self, request: HttpRequest) -> Result<Response, RemoteError> {
        let (mut challenged, mut busy_retries) = (false, 0);
        loop {
            let authorization = self.credentials.authorization().await?;
            let response = self.send_once(&request, authorization.as_ref()).await?;
            let status = response.status();
            match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    let www_authenticate = response.headers().get(WWW_AUTHENTICATE).cloned();
                    let token = authorization.clone();
                    let challenge = AuthChallenge { status, www_authenticate, authorization };
                    match self.credentials.handle_challenge(challenge).await {
                        ChallengeOutcome::Retry if !challenged => challenged = true,
                        ChallengeOutcome::Fail(error) => {
                            let words = self.words_of(response, token.as_ref()).await;
                            return Err(error.with_words(words.as_deref()));
                        }
                        ChallengeOutcome::Retry | ChallengeOutcome::Unrelated => {
                            return Err(self.status_error(response, token.as_ref()).await);
                        }
                    }
                }
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    match retry_after(&response) {
                        None if status == StatusCode::SERVICE_UNAVAILABLE => return Ok(response),
                        Some(delay)
                            if delay <= request.max_retry_after && busy_retries < MAX_BUSY_RETRIES =>
                        {
                            tokio::time::sleep(delay).await;
                        }
                        delay => return Err(RemoteError::busy(status, delay)),
                    }
                    busy_retries += 1;
                }
                StatusCode::PROXY_AUTHENTICATION_REQUIRED
                    if let Some(error) = proxy::credentials_rejected(&request.url) =>
                {
                    return Err(error.into());
                }
                status if status.is_redirection() => {
                    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                    let target = location.and_then(|location| response.url().join(location).ok());
                    return Err(RemoteError::redirected(target.as_ref()));
                }
                _ => return Ok(response),
            }
        }
    }

    /// Returns what a refusal says in words, quoted: the description in `WWW-Authenticate`, else the message in the
    /// body. `None` if there are no words, or if they repeat a secret. `authorization`: the header that was sent.
    async fn words_of(&self, response: Response, authorization: Option<&HeaderValue>) -> Option<String> {
        let header = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let described = header.and_then(error_description).map(str::to_owned);
        let words = match described {
            Some(words) => quoted(&shorten(&words, MAX_ERROR_MESSAGE_CHARS)),
            None => error_message(&read_error_body(response).await)?,
        };
        (!self.repeats_secret(&words, authorization)).then_some(words)
    }

    /// Returns whether text of the server has the value of a header of the config, or of the `authorization` that was
    /// sent.
    fn repeats_secret(&self, text: &str, authorization: Option<&HeaderValue>) -> bool {
        let values = self.configured_headers.values().chain(authorization);
        let values = values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        let mut secrets = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]);
        secrets.any(|secret| secret.len() >= MIN_SECRET && text.contains(secret))
    }

    async fn send_once(
        &self,
        request: &HttpRequest,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, RemoteError> {
        let mut headers = self.configured_headers.clone();
        for (name, value) in &request.headers {
            headers.insert(name, value.clone());
        }
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        let body = request.body.clone().unwrap_or_default();
        let (mut url, mut redirects) = (request.url.clone(), 0);
        if let Some(value) = take_basic_auth(&mut url) {
            headers.entry(AUTHORIZATION).or_insert(value);
        }
        loop {
            let sent = self.sender.send(&request.method, &url, &headers, &body).await;
            let response = sent.map_err(|error| {
                RemoteError::not_sent(&error, &request.url, self.connect_timeout, self.has_ca_file)
            })?;
            match redirect_target(&response).filter(|_| redirects < MAX_REDIRECTS) {
                Some(target) => (url, redirects) = (target, redirects + 1),
                None => return Ok(response),
            }
        }
    }

    /// Returns the error for a response whose status is not a success. Reads the body for its message, as
    /// `read_error_body` does. `authorization`: the header with the token that was sent.
    pub async fn status_error(&self, response: Response, authorization: Option<&HeaderValue>) -> RemoteError {
        let status = response.status();
        let body = read_error_body(response).await;
        self.error_of_status(status, error_message(&body).as_deref(), authorization)
    }

    /// Returns the error for a status, for a response whose body was read and says `detail`, which is left out if it
    /// repeats a secret. `authorization`: the header with the token that was sent.
    pub fn error_of_status(
        &self,
        status: StatusCode,
        detail: Option<&str>,
        authorization: Option<&HeaderValue>,
    ) -> RemoteError {
        let detail = detail.filter(|detail| !self.repeats_secret(detail, authorization));
        let is_logged_in = authorization.is_some();
        let advice = advice::of_status(status, detail, &self.url, &self.configured_headers, is_logged_in);
        RemoteError::status(status, detail).with_advice(advice)
    }
}

/// Returns the `Accept` header with these media types, which commas separate.
pub fn accept(media_types: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(media_types))])
}

/// Returns the `error_description` of a `WWW-Authenticate` header (RFC 6750).
fn error_description(header: &str) -> Option<&str> {
    let (_, value) = header.split_once("error_description=\"")?;
    value.split('"').next().filter(|value| !value.is_empty())
}

/// Returns the delay that `Retry-After` asks for (RFC 9110, section 10.2.3): seconds, or a date. A date is compared
/// with the response's own `Date` where it has one, and a date in the past means no delay. A longer delay than
/// `MAX_RETRY_AFTER` counts as that. `None`: there is no such header, or it is not valid.
fn retry_after(response: &Response) -> Option<Duration> {
    let header = |name| Some(response.headers().get(name)?.to_str().ok()?.trim());
    let parse_date = |text| httpdate::parse_http_date(text).ok();
    let value = header(RETRY_AFTER)?;
    let delay = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let now = header(DATE).and_then(parse_date).unwrap_or_else(SystemTime::now);
            parse_date(value)?.duration_since(now).unwrap_or_default()
        }
    };
    Some(delay.min(MAX_RETRY_AFTER))
}

/// Returns where a redirect leads that keeps the method and stays within the origin. Any other redirect is the response.
fn redirect_target(response: &Response) -> Option<Url> {
    let keeps_method =
        matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let location = response.headers().get(LOCATION).filter(|_| keeps_method)?.to_str().ok()?;
    let mut target = response.url().join(location).ok()?;
    drop(take_basic_auth(&mut target));
    (target.origin() == response.url().origin()).then_some(target)
}
