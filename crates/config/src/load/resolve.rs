//! Makes the configuration of a server from its entry: checks rules that concern several fields, and applies defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::entry::EntrySource;
use super::env_file;
use super::resolve_tool_rules::{own_globs, resolve_tool_rules};
use crate::env::Env;
use crate::fields::AppliesTo;
use crate::file::keys::{CommonEntry, OAuthEntry};
use crate::file::profiles::ProfileToolsEntry;
use crate::file::tools::ToolsEntry;
use crate::file::values::{TransportType, WordList};
use crate::file::{ServerEntry, SettingsEntry};
use crate::object::ObjectPart;
use crate::referenced::ReferencedFiles;
use crate::secrets::header_value_error;
use crate::vars::ExpandContext;
use crate::{
    CommonConfig, ConfigError, Endpoint, HttpConfig, HttpTransportKind, OAuthConfig, OAuthFlow, Overrides,
    ServerConfig, StdioConfig,
};
use base::text;

/// What applies to every server.
pub(super) struct ServerDefaults<'d> {
    /// The settings of all files.
    pub(super) settings: SettingsEntry,
    /// What the command line overrides.
    pub(super) overrides: &'d Overrides,
    /// The environment, for variables and paths.
    pub(super) env: &'d Env,
    /// Notes the files that are read.
    pub(super) files: &'d ReferencedFiles,
    /// The error in the `settings` that restrict tools, if there is one. The rules for tools are then unknown, so no
    /// server may run.
    pub(super) tools_error: Option<ConfigError>,
}

/// What is wrong with an entry.
struct EntryErrors<'s> {
    /// Where the fields are.
    source: &'s EntrySource,
    /// What the paths are resolved with.
    context: ExpandContext<'s>,
    /// The errors so far.
    errors: &'s mut Vec<ConfigError>,
}

impl EntryErrors<'_> {
    /// Adds an error at the first of these fields that the entry has, else at the whole entry. Leaves it out if one of
    /// them could not be read: that is reported, and this may follow from it.
    fn add(&mut self, fields: &[&str], message: impl ToString, hint: Option<String>) {
        if !self.source.is_wrong(fields) {
            self.errors.push(self.source.error(fields, message, hint));
        }
    }

    /// Resolves a path of this field. A path that cannot be resolved is an error.
    fn path(&mut self, field: &str, path: Option<String>) -> Option<PathBuf> {
        match self.context.resolve_path(&path?) {
            Ok(path) => Some(path),
            Err(error) => {
                self.add(&[field], format_args!("`{field}`: {error}"), Some(error.hint()));
                None
            }
        }
    }
}

/// Resolves one entry. `profile_tools`: the rules for its tools that the profile in use adds. Adds everything that is
/// wrong with it to `errors`, and the error in the rules for tools if there is one. The result counts only if there are
/// no errors, and is `None` if there is nothing to start or contact.
pub(super) fn resolve_server(
    entry: ServerEntry,
    source: &EntrySource,
    profile_tools: Option<&ProfileToolsEntry>,
    defaults: &ServerDefaults<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<ServerConfig> {
    errors.extend(defaults.tools_error.clone());
    let ServerDefaults { settings, env, files, .. } = defaults;
    let context = ExpandContext { env, dir: &source.dir, files, is_project: false };
    let common = resolve_common(&entry, defaults);
    Some(ServerConfig {
        timeout: entry.timeout.unwrap_or_default().or(settings.timeout.unwrap_or_default()).into(),
        tools: resolve_tool_rules(
            &entry,
            settings.tools.as_ref(),
            profile_tools,
            &common,
            |message, hint| {
                EntryErrors { source, context, errors }.add(&["tools"], message, Some(hint));
            },
        ),
        common,
        launch_text: source.launch_text.clone(),
        secrets: source.secrets.clone(),
        origin: source.origin.clone(),
        own_globs: own_globs(&entry),
        warnings: Vec::new(),
        description: entry.description.clone(),
        endpoint: {
            let mut errors = EntryErrors { source, context, errors };
            let endpoint = resolve_endpoint(entry, settings, &mut errors)?;
            refuse_own_address(&endpoint, defaults.overrides, &mut errors);
            endpoint
        },
    })
}

/// Returns the server's own keys, else those of the settings. The mode of the command line overrides both. The idle
/// timeout of the command line overrides the one in the settings.
fn resolve_common(entry: &ServerEntry, defaults: &ServerDefaults<'_>) -> CommonConfig {
    let (settings, overrides) = (&defaults.settings, defaults.overrides);
    let (own, of_settings) =
        (with_trust(&entry.common, &entry.tools), with_trust(&settings.common, &settings.tools));
    let features = own.features.unwrap_or_default().or(of_settings.features.unwrap_or_default());
    let (mode, has_idle_timeout) = (overrides.mode, own.idle_timeout.is_some());
    let mut common: CommonConfig = CommonEntry { mode, features: Some(features), ..CommonEntry::default() }
        .or(own)
        .or(of_settings)
        .into();
    if let Some(idle_timeout) = overrides.idle_timeout.filter(|_| !has_idle_timeout) {
        common.idle_timeout = idle_timeout;
    }
    common
}

/// Returns the keys with the `trust_annotations` within `tools` where there is none beside it.
fn with_trust(common: &CommonEntry, tools: &Option<ToolsEntry>) -> CommonEntry {
    let within = tools.as_ref().and_then(|tools| tools.trust_annotations);
    CommonEntry { trust_annotations: common.trust_annotations.or(within), ..common.clone() }
}

fn resolve_endpoint(
    entry: ServerEntry,
    settings: &SettingsEntry,
    errors: &mut EntryErrors<'_>,
) -> Option<Endpoint> {
    const EITHER: &str = "`command` is for a local program, `url` for a remote server";
    let has_url = entry.url.is_some() || entry.http_url.is_some();
    match (entry.command.is_some(), has_url) {
        (true, true) => {
            let message = "a server cannot have both `command` and `url`";
            errors.add(URL_FIELDS, message, Some(EITHER.to_owned()));
            None
        }
        (false, false) => {
            let message = "a server must have `command` or `url`";
            errors.add(&["command", "url", "httpUrl"], message, Some(EITHER.to_owned()));
            None
        }
        (true, false) => {
            refuse_fields(AppliesTo::Remote, "url", "command", errors);
            Some(Endpoint::Stdio(resolve_stdio(entry, settings, errors)))
        }
        (false, true) => {
            refuse_fields(AppliesTo::Stdio, "command", "url", errors);
            Some(Endpoint::Http(resolve_http(entry, errors)))
        }
    }
}

const URL_FIELDS: &[&str] = &["url", "httpUrl"];

/// Refuses the fields of the other kind of server, which would otherwise be ignored.
fn refuse_fields(other_kind: AppliesTo, needed: &str, present: &str, errors: &mut EntryErrors<'_>) {
    let source = errors.source;
    for found in source.fields_of(other_kind) {
        let name = &found.name;
        let message = format!("`{name}` applies only to servers with a `{needed}`");
        let hint = format!(
            "this one has a `{present}`: remove `{name}`, or write `{needed}` in place of `{present}`"
        );
        errors.add(&[found.field.name], message, Some(hint));
    }
}

/// Refuses a server that is this instance: each of its requests would cause further ones without end.
fn refuse_own_address(endpoint: &Endpoint, overrides: &Overrides, errors: &mut EntryErrors<'_>) {
    if let (Endpoint::Http(http), Some(own)) = (endpoint, &overrides.own_address)
        && own.is_at(&http.url)
    {
        let hint = "remove this server, or write the address of another one".to_owned();
        errors.add(URL_FIELDS, "`url` is the address of this instance", Some(hint));
    }
}

fn resolve_stdio(entry: ServerEntry, settings: &SettingsEntry, errors: &mut EntryErrors<'_>) -> StdioConfig {
    if entry.transport_type.is_some_and(|transport| transport != TransportType::Stdio) {
        let message = "`type` names a remote transport, but the server has a `command`";
        errors.add(&["type"], message, Some("remove `type`".to_owned()));
    }
    let mut env = BTreeMap::new();
    if let Some(file) = errors.path("env_file", entry.env_file) {
        errors.context.files.add(&file);
        match env_file::read(&file) {
            Ok(variables) => env.extend(variables),
            Err(error) if error.at.is_some() => errors.errors.push(error),
            Err(error) => {
                let dir = text::path(&errors.source.dir);
                let hint = format!("create it, or write another path; a relative path starts at {dir}");
                errors.add(&["env_file"], format!("`env_file` {}", error.message), Some(hint));
            }
        }
    }
    env.extend(entry.env.unwrap_or_default());
    let inherit_env = entry.inherit_env.or_else(|| settings.inherit_env.clone());
    let mut command = entry.command.map(|command| command.0).unwrap_or_default().into_iter();
    StdioConfig {
        command: command.next().unwrap_or_default(),
        args: command.chain(entry.args.unwrap_or_default()).collect(),
        env,
        cwd: errors.path("cwd", entry.cwd),
        inherit_env: inherit_env.unwrap_or_default(),
    }
}

fn resolve_http(entry: ServerEntry, errors: &mut EntryErrors<'_>) -> HttpConfig {
    let kind = match entry.transport_type {
        Some(TransportType::Stdio) => {
            let message = "`type` names the transport of a local program, but the server has a `url`";
            errors.add(&["type"], message, Some("remove `type`".to_owned()));
            None
        }
        Some(TransportType::Sse) => Some(HttpTransportKind::Sse),
        Some(TransportType::Streamable) => Some(HttpTransportKind::Streamable),
        // In Gemini CLI's files `httpUrl` means Streamable HTTP.
        Some(TransportType::Remote) | None => {
            entry.http_url.is_some().then_some(HttpTransportKind::Streamable)
        }
    };
    if entry.url.is_some() && entry.http_url.is_some() {
        let message = "a server cannot have both `url` and `httpUrl`";
        errors.add(&["httpUrl"], message, Some("remove one of them".to_owned()));
    }
    let url = entry.url.or(entry.http_url).unwrap_or_default();
    if !is_http_url(&url) {
        errors.add(URL_FIELDS, URL_ERROR, None);
    }
    let oauth = resolve_oauth(entry.oauth, entry.oauth_client_id, entry.oauth_scopes);
    if let Some(message) = oauth.as_ref().and_then(missing_credential) {
        errors.add(&["oauth"], message, None);
    }
    let ca_file = errors.path("ca_file", entry.ca_file);
    let headers = entry.headers.unwrap_or_default();
    check_headers(&headers, errors);
    HttpConfig { url, kind, headers: headers.into_iter().collect(), ca_file, oauth }
}

/// What is wrong with a `url` that is no [`is_http_url`].
pub const URL_ERROR: &str =
    "`url`: expected an address that starts with http:// or https:// and names a host";

/// Returns whether this can be the address of a server. A connection shows everything else that is wrong with it.
pub fn is_http_url(url: &str) -> bool {
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

/// Refuses headers that cannot be sent.
fn check_headers(headers: &BTreeMap<String, String>, errors: &mut EntryErrors<'_>) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (name, value) in headers {
        let message = if name.is_empty() || !name.chars().all(is_token) {
            format!("`headers`: {name:?} is not a valid header name")
        } else if let Some(error) = header_value_error(value) {
            format!("`headers.{name}`: {error}")
        } else {
            continue;
        };
        errors.add(&["headers"], message, None);
    }
}

/// Returns `None` if the entry says nothing about OAuth. The fields of `oauth` take precedence over those beside it.
fn resolve_oauth(
    oauth: Option<OAuthEntry>,
    client_id: Option<String>,
    scopes: Option<WordList>,
) -> Option<OAuthConfig> {
    if oauth.is_none() && client_id.is_none() && scopes.is_none() {
        return None;
    }
    let beside = OAuthEntry { client_id, scopes, ..OAuthEntry::default() };
    Some(oauth.unwrap_or_default().or(beside).into())
}

/// Returns an error message if the client credentials grant lacks a field that it needs.
fn missing_credential(oauth: &OAuthConfig) -> Option<&'static str> {
    let has_proof = oauth.client_secret.is_some() || oauth.private_key.is_some();
    match oauth.flow {
        OAuthFlow::ClientCredentials if oauth.client_id.is_none() => {
            Some("`oauth.flow` \"client_credentials\" needs `oauth.client_id`")
        }
        OAuthFlow::ClientCredentials if !has_proof => {
            Some("`oauth.flow` \"client_credentials\" needs `oauth.client_secret` or `oauth.private_key`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_needs_an_http_scheme_and_a_host() {
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
