//! Every request of a login passes here, wherever rmcp got its address from. A server that we connect to can name
//! any address: only https is let out (or this machine, for a server on this machine), no private address for a
//! server that is public, no redirect but those that discovery follows itself within an origin.

use super::addresses::{self, Reach};
use super::error::AuthError;
use super::secret::cleaned;
use crate::transport::remote::proxy;
use oauth2::http::Request;
use oauth2::{HttpRequest, HttpResponse};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Url, redirect};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// One request with its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Metadata and tokens are small.
const LARGEST: usize = 1 << 20;

pub(super) struct Gate {
    client: Client,
    rules: Rules,
    trouble: Mutex<Option<AuthError>>,
}

/// Where requests may go.
#[derive(Clone)]
struct Rules {
    /// The server's own host is where the config says; its address is not the server's choice.
    own_host: String,
    /// Those are the user's choice too.
    proxies: Vec<String>,
    reach: Reach,
}

impl Gate {
    /// For the logins at one server.
    pub(super) fn new(server: &Url, allow_private: bool, tls: ClientConfig) -> Result<Arc<Self>, AuthError> {
        let rules = Rules {
            own_host: server.host_str().unwrap_or_default().to_owned(),
            proxies: proxy::hosts(),
            reach: Reach::of(server, allow_private),
        };
        let client = Client::builder()
            .user_agent(concat!("dynamic-mcp/", env!("CARGO_PKG_VERSION")))
            .timeout(PATIENCE)
            .redirect(redirect::Policy::none())
            .dns_resolver(Arc::new(rules.clone()))
            .tls_backend_preconfigured(tls);
        let client =
            client.build().map_err(|error| AuthError::Refused(format!("no HTTP client: {error}")))?;
        Ok(Arc::new(Self { client, rules, trouble: Mutex::default() }))
    }

    /// Whether a request may go there.
    pub(super) fn check(&self, url: &Url) -> Result<(), AuthError> {
        let refuse = |why: &str| {
            let shown = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
            Err(AuthError::Refused(format!("the login leads to {shown}, {why}")))
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("with a user name in the address");
        }
        let Some(host) = url.host_str() else { return refuse("which names no host") };
        match url.scheme() {
            "https" => {}
            "http" if self.rules.reach.is_loopback() && addresses::is_loopback(url) => {}
            _ => return refuse("which is not https"),
        }
        let own = host == self.rules.own_host;
        if !own && self.rules.proxies.iter().any(|proxy| proxy == host) {
            return refuse("the proxy's own address");
        }
        if !own && !self.rules.reach.allows_host(url) {
            return refuse("a private address (`oauth.allow_private_addresses` allows a company's own)");
        }
        Ok(())
    }

    /// What stopped the last request, once.
    pub(super) fn take_trouble(&self) -> Option<AuthError> {
        self.trouble.lock().take()
    }

    /// Sends a form to an address out of metadata.
    pub(super) async fn post(
        &self,
        address: &str,
        form: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<HttpResponse, AuthError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = Request::post(address)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let request = request.body(body.into_bytes());
        self.send(request.map_err(|error| AuthError::Refused(error.to_string()))?).await
    }

    /// Sends a request and reads its whole answer.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, AuthError> {
        let posted = request.method() == "POST";
        let mut request = reqwest::Request::try_from(request)
            .map_err(|_| AuthError::Refused("the login leads to something that is no address".to_owned()))?;
        self.check(request.url())?;
        for (name, value) in request.headers_mut() {
            value.set_sensitive(name == AUTHORIZATION);
        }
        let url = request.url().clone();
        let origin = url.origin().ascii_serialization();
        let failed = |error: &reqwest::Error| {
            let proxy = proxy::connect_error(error, &url).map(|error| error.to_string());
            AuthError::Unreachable(proxy.unwrap_or_else(|| format!("{origin}: {}", reason(error))))
        };
        let mut response = self.client.execute(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        if status == 407
            && let Some(error) = proxy::credentials_rejected(&url)
        {
            return Err(AuthError::Unreachable(error.to_string()));
        }
        // A token endpoint that is not well says nothing of the token.
        if posted && (status.is_server_error() || status == 429) {
            return Err(AuthError::Unreachable(format!("{origin} answered with HTTP status {status}")));
        }
        let mut body = Vec::new();
        // Asked what it answers to who has no login, a server may answer with a stream that does not end.
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let endless = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        while !endless && let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if body.len() + chunk.len() > LARGEST {
                return Err(AuthError::Refused(format!("{origin} answered with more than 1 MiB")));
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = HttpResponse::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }
}

impl OAuthHttpClient for Gate {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            self.send(request.request).await.map_err(|trouble| {
                *self.trouble.lock() = Some(trouble.clone());
                Box::new(trouble) as OAuthHttpClientError
            })
        })
    }
}

impl Resolve for Rules {
    /// The addresses that are connected to are the ones that were looked at.
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let own = name.as_str() == rules.own_host || rules.proxies.iter().any(|p| p == name.as_str());
            let allowed: Vec<SocketAddr> =
                found.filter(|address| own || rules.reach.allows(address.ip())).collect();
            match allowed.is_empty() {
                true => Err("the login leads to a host at a private address".into()),
                false => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// What a refusing answer says, if it says it as OAuthConfig does.
pub(super) fn said(answer: &HttpResponse, secrets: &[&str]) -> String {
    #[derive(serde::Deserialize)]
    struct Said {
        error: String,
        error_description: Option<String>,
    }
    match serde_json::from_slice::<Said>(answer.body()) {
        Ok(Said { error, error_description: Some(more) }) => cleaned(&format!("{error} ({more})"), secrets),
        Ok(Said { error, .. }) => cleaned(&error, secrets),
        Err(_) => format!("HTTP status {}", answer.status()),
    }
}

/// What went wrong, without the address, which may have a secret in it.
fn reason(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match error.is_timeout() {
        true => "no answer in time".to_owned(),
        false => innermost.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_proxy_at_a_private_address_is_reached_and_nobody_is_sent_to_it() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let server: Url = "https://mcp.example/".parse().unwrap();
        let rules = |proxies: &[&str]| Rules {
            own_host: "mcp.example".to_owned(),
            proxies: proxies.iter().map(|proxy| (*proxy).to_owned()).collect(),
            reach: Reach::of(&server, false),
        };
        let resolve = |rules: Rules| rules.resolve("localhost".parse().unwrap());
        assert!(resolve(rules(&[])).await.is_err());
        assert!(resolve(rules(&["localhost"])).await.is_ok());
        let gate =
            Gate { client: Client::new(), rules: rules(&["proxy.example"]), trouble: Mutex::default() };
        assert!(gate.check(&"https://login.example/".parse().unwrap()).is_ok());
        assert!(gate.check(&"https://proxy.example:3128/".parse().unwrap()).is_err());
    }
}
