//! From what an entry says to the server the program uses: rules that take more than one field, and defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::source::Place;
use super::{Overrides, env_file};
use crate::config::file::{self, Kind, Period, Wait};
use crate::config::vars::{Env, Scope, VarError};
use crate::config::{
    ConfigError, Endpoint, Features, HttpConfig, HttpTransportKind, Mode, OAuthConfig, OAuthFlow,
    ServerConfig, StdioConfig, Timeouts, ToolRules,
};

/// Long enough for a pause in a conversation, short enough not to keep forty servers for a day.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// What holds where a server says nothing itself.
pub(super) struct Defaults<'d> {
    pub(super) settings: file::Settings,
    pub(super) overrides: &'d Overrides,
    pub(super) env: &'d Env,
    /// The default rules for tools are unknown: no server may run without them.
    pub(super) lost_rules: Option<ConfigError>,
}

/// Resolves one entry.
pub(super) fn server(
    server: file::Server,
    place: &Place,
    defaults: &Defaults<'_>,
) -> Result<ServerConfig, ConfigError> {
    if let Some(problem) = &defaults.lost_rules {
        return Err(problem.clone());
    }
    let settings = &defaults.settings;
    Ok(ServerConfig {
        mode: mode(&server, defaults),
        idle_timeout: idle_timeout(server.idle_timeout, defaults),
        stateful: server.stateful.or(settings.stateful).unwrap_or_default(),
        timeout: timeouts(server.timeout.as_ref(), settings.timeout.as_ref()),
        features: features(server.features, settings.features),
        tools: tool_rules(&server, settings.tools.as_ref()),
        expose: globs(server.expose.as_ref().or(settings.expose.as_ref())),
        written: place.written.clone(),
        description: server.description.clone(),
        endpoint: endpoint(server, place, defaults)?,
    })
}

fn mode(server: &file::Server, defaults: &Defaults<'_>) -> Mode {
    let configured = server.lazy_startup.or(defaults.settings.lazy_startup).map(|startup| startup.0);
    defaults.overrides.mode.or(configured).unwrap_or(Mode::Hybrid)
}

/// The server's own, else the flag's, else the settings'; 0 is never.
fn idle_timeout(own: Option<Period>, defaults: &Defaults<'_>) -> Option<Duration> {
    let written = |period: Period| Some(period.0).filter(|duration| !duration.is_zero());
    own.map(written)
        .or(defaults.overrides.idle_timeout)
        .or_else(|| defaults.settings.idle_timeout.map(written))
        .unwrap_or(Some(IDLE_TIMEOUT))
}

/// Each by itself: the server's own, else the settings', else the built-in one.
fn timeouts(own: Option<&file::Timeout>, settings: Option<&file::Timeout>) -> Timeouts {
    let built_in = Timeouts::default();
    let pick = |of: fn(&file::Timeout) -> Option<Wait>| {
        own.and_then(of).or_else(|| settings.and_then(of)).map(|wait| wait.0)
    };
    Timeouts {
        wait: pick(|timeout| timeout.wait).unwrap_or(built_in.wait),
        connect: pick(|timeout| timeout.connect).unwrap_or(built_in.connect),
        initialize: pick(|timeout| timeout.initialize).or(built_in.initialize),
        list: pick(|timeout| timeout.list).unwrap_or(built_in.list),
        tools: pick(|timeout| timeout.tools).unwrap_or(built_in.tools),
        resources: pick(|timeout| timeout.resources).unwrap_or(built_in.resources),
        prompts: pick(|timeout| timeout.prompts).unwrap_or(built_in.prompts),
    }
}

fn features(own: Option<file::Features>, settings: Option<file::Features>) -> Features {
    let (own, settings) = (own.unwrap_or_default(), settings.unwrap_or_default());
    let built_in = Features::default();
    Features {
        tools: own.tools.or(settings.tools).unwrap_or(built_in.tools),
        resources: own.resources.or(settings.resources).unwrap_or(built_in.resources),
        prompts: own.prompts.or(settings.prompts).unwrap_or(built_in.prompts),
    }
}

/// Each list by itself: the server's own replaces the settings'. The lists of names of other clients are added.
fn tool_rules(server: &file::Server, settings: Option<&file::Tools>) -> ToolRules {
    let own = server.tools.as_ref();
    let pick = |of: fn(&file::Tools) -> Option<&Vec<file::Glob>>| {
        globs(own.and_then(of).or_else(|| settings.and_then(of)))
    };
    let mut rules = ToolRules {
        allow: pick(|tools| tools.allow.as_ref()),
        deny: pick(|tools| tools.deny.as_ref()),
        ask: pick(|tools| tools.ask.as_ref()),
        read_only: pick(|tools| tools.read_only.as_ref()),
    };
    let names = |names: &Option<Vec<String>>| {
        names.iter().flatten().map(|name| globset::escape(name)).collect::<Vec<_>>()
    };
    rules.allow.extend(names(&server.include_tools));
    rules.deny.extend(names(&server.exclude_tools));
    rules
}

fn globs(globs: Option<&Vec<file::Glob>>) -> Vec<String> {
    globs.into_iter().flatten().map(|glob| glob.0.clone()).collect()
}

fn endpoint(server: file::Server, place: &Place, defaults: &Defaults<'_>) -> Result<Endpoint, ConfigError> {
    const EITHER: &str = "a server is a program (`command`) or a remote one (`url`)";
    let has_url = server.url.is_some() || server.http_url.is_some();
    match (server.command.is_some(), has_url) {
        (true, true) => {
            let message = "has both `command` and `url`".to_owned();
            Err(place.problem(URLS, message, Some(EITHER.to_owned())))
        }
        (false, false) => {
            let message = "has neither `command` nor `url`".to_owned();
            Err(place.problem(&[], message, Some(EITHER.to_owned())))
        }
        (true, false) => {
            refuse(place, "command", "url", &REMOTE_ONLY)?;
            stdio(server, place, defaults).map(Endpoint::Stdio)
        }
        (false, true) => {
            refuse(place, "url", "command", &STDIO_ONLY)?;
            http(server, place, defaults).map(Endpoint::Http)
        }
    }
}

const URLS: &[&str] = &["url", "serverUrl", "server_url", "httpUrl", "http_url"];
const REMOTE_ONLY: [&str; 8] = [
    "headers",
    "ca_file",
    "caFile",
    "oauth",
    "oauth_client_id",
    "oauthClientId",
    "oauth_scopes",
    "oauthScopes",
];
const STDIO_ONLY: [&str; 8] =
    ["args", "env", "environment", "env_file", "envFile", "cwd", "inherit_env", "inheritEnv"];

/// Fields of the other kind of server are mistakes that would otherwise go unnoticed.
fn refuse(place: &Place, has: &str, needs: &str, fields: &[&str]) -> Result<(), ConfigError> {
    match fields.iter().find(|field| place.has(field)) {
        Some(field) => {
            let message = format!("`{field}` applies only to servers with a `{needs}`");
            Err(place.problem(&[field], message, Some(format!("this one has a `{has}`"))))
        }
        None => Ok(()),
    }
}

fn stdio(server: file::Server, place: &Place, defaults: &Defaults<'_>) -> Result<StdioConfig, ConfigError> {
    if server.kind.is_some_and(|kind| kind != Kind::Stdio) {
        let message = "`type` is a remote server's, but there is a `command`".to_owned();
        return Err(place.problem(KINDS, message, Some("leave `type` out".to_owned())));
    }
    let mut words = server.command.map(|command| command.0).unwrap_or_default().into_iter();
    let scope = Scope { env: defaults.env, dir: &place.dir };
    let path =
        |field: &[&str], written: &str| scope.path(written).map_err(|error| unusable(place, field, &error));
    let mut env = BTreeMap::new();
    if let Some(file) = &server.env_file {
        let file: PathBuf = path(&["env_file", "envFile"], file)?;
        let file = env_file::read(&file).map_err(|problem| match problem.at {
            Some(_) => problem,
            None => place.problem(
                &["env_file", "envFile"],
                format!("`env_file` {}", problem.message),
                problem.hint,
            ),
        });
        env.extend(file?);
    }
    env.extend(server.env.unwrap_or_default());
    Ok(StdioConfig {
        command: words.next().unwrap_or_default(),
        args: words.chain(server.args.unwrap_or_default()).collect(),
        env,
        cwd: server.cwd.map(|cwd| path(&["cwd"], &cwd)).transpose()?,
        inherit_env: server
            .inherit_env
            .or_else(|| defaults.settings.inherit_env.clone())
            .map(|inherit| inherit.0)
            .unwrap_or_default(),
    })
}

const KINDS: &[&str] = &["type", "transport", "transportType"];

fn unusable(place: &Place, field: &[&str], error: &VarError) -> ConfigError {
    place.problem(field, error.to_string(), Some(error.hint()))
}

fn http(server: file::Server, place: &Place, defaults: &Defaults<'_>) -> Result<HttpConfig, ConfigError> {
    let kind = match server.kind {
        Some(Kind::Stdio) => {
            let message = "`type` is a program's, but there is a `url`".to_owned();
            return Err(place.problem(KINDS, message, Some("leave `type` out".to_owned())));
        }
        Some(Kind::Sse) => Some(HttpTransportKind::Sse),
        Some(Kind::Streamable) => Some(HttpTransportKind::Streamable),
        // `httpUrl` is Gemini CLI's way to say so.
        Some(Kind::Remote) | None => server.http_url.is_some().then_some(HttpTransportKind::Streamable),
    };
    let url = match (server.url, server.http_url) {
        (Some(_), Some(_)) => {
            let message = "has both `url` and `httpUrl`".to_owned();
            return Err(place.problem(&["httpUrl", "http_url"], message, Some("keep one".to_owned())));
        }
        (url, http_url) => url.or(http_url).unwrap_or_default(),
    };
    if !is_http_url(&url) {
        let message =
            "`url`: not an address that begins with http:// or https:// and names a host".to_owned();
        return Err(place.problem(URLS, message, None));
    }
    let oauth = oauth(server.oauth, server.oauth_client_id, server.oauth_scopes);
    if let Some(message) = oauth.as_ref().and_then(what_is_missing) {
        return Err(place.problem(&["oauth"], message.to_owned(), None));
    }
    let scope = Scope { env: defaults.env, dir: &place.dir };
    let ca_file = server.ca_file.map(|written| scope.path(&written)).transpose();
    let ca_file = ca_file.map_err(|error| unusable(place, &["ca_file", "caFile"], &error))?;
    Ok(HttpConfig { url, kind, headers: headers(server.headers.unwrap_or_default(), place)?, ca_file, oauth })
}

/// Enough to catch what is no address at all; what else can be wrong shows when it is connected to.
fn is_http_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let name_and_port = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']'),
        None => Some(host.split_at(host.find(':').unwrap_or(host.len()))),
    };
    let Some((name, port)) = name_and_port else { return false };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_http && !name.is_empty() && is_port && !url.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn headers(headers: BTreeMap<String, String>, place: &Place) -> Result<Vec<(String, String)>, ConfigError> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (name, value) in &headers {
        let message = if name.is_empty() || !name.chars().all(is_token) {
            format!("`headers`: {name:?} is not a header's name")
        } else if value.contains(|c: char| c.is_control() && c != '\t') {
            format!("`headers.{name}`: has a line end or another control character")
        } else {
            continue;
        };
        return Err(place.problem(&["headers"], message, None));
    }
    Ok(headers.into_iter().collect())
}

/// `None` if nothing is said about it; the fields beside `oauth` yield to those in it.
fn oauth(
    oauth: Option<file::OAuth>,
    client_id: Option<String>,
    scopes: Option<file::Words>,
) -> Option<OAuthConfig> {
    if oauth.is_none() && client_id.is_none() && scopes.is_none() {
        return None;
    }
    let oauth = oauth.unwrap_or_default();
    Some(OAuthConfig {
        flow: match oauth.flow {
            Some(file::Flow::ClientCredentials) => OAuthFlow::ClientCredentials,
            Some(file::Flow::Browser) | None => OAuthFlow::Browser,
        },
        client_id: oauth.client_id.or(client_id),
        client_secret: oauth.client_secret,
        private_key: oauth.private_key,
        client_metadata_url: oauth.client_metadata_url,
        scopes: oauth.scopes.or(scopes).map(|words| words.0).unwrap_or_default(),
        redirect_port: oauth.redirect_port.map(u16::from),
        require_pkce: oauth.require_pkce.unwrap_or(true),
        allow_private_addresses: oauth.allow_private_addresses.unwrap_or(false),
    })
}

/// What a login without a person cannot do without.
fn what_is_missing(oauth: &OAuthConfig) -> Option<&'static str> {
    let proof = oauth.client_secret.is_some() || oauth.private_key.is_some();
    match oauth.flow {
        OAuthFlow::ClientCredentials if oauth.client_id.is_none() => {
            Some("`oauth.flow` is \"client_credentials\", which needs `oauth.client_id`")
        }
        OAuthFlow::ClientCredentials if !proof => Some(
            "`oauth.flow` is \"client_credentials\", which needs `oauth.client_secret` or `oauth.private_key`",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_a_scheme_and_a_host() {
        for url in [
            "http://a",
            "https://a.b:8080/mcp?k=v",
            "HTTP://[::1]:80/",
            "https://u:p@h/x",
            "http://localhost:3000",
        ] {
            assert!(is_http_url(url), "{url}");
        }
        for url in [
            "",
            "a.b",
            "ftp://a",
            "http://",
            "http:///x",
            "http://a:x",
            "http://a b",
            "http://:80",
            "http://[::1",
        ] {
            assert!(!is_http_url(url), "{url}");
        }
    }
}
