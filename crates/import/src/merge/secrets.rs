//! Which values are probably secrets: by the name of the variable, header or option that has them, and by their shape.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::clients::apps::is_windows_path;
use crate::clients::variables::words;
use crate::json::strings;

/// Words in the names of variables and headers that hold secrets.
const SECRET_WORDS: &[&str] = &[
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "cred",
    "creds",
    "key",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "pgpassword",
    "private",
    "pw",
    "pwd",
    "secret",
    "session",
    "token",
];
/// Words of names that hold what is public although another word is above.
const PUBLIC_WORDS: &[&str] = &["file", "id", "name", "path", "public", "url", "username", "var"];
/// How tokens of well-known services begin.
const SECRET_PREFIXES: &[&str] = &[
    "AIza",
    "AKIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "npm_",
    "ntn_",
    "pk_live_",
    "pypi-",
    "rk_live_",
    "secret_",
    "sk-",
    "sk_",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
];
/// How references to secrets begin.
const REFERENCE_STARTS: &[&str] = &["${", "{file:", "{keyring:", "{command:", "{env:"];
/// What stands in addresses whose path is a secret.
const SECRET_PATHS: &[&str] = &["://hooks.slack.com/", "/api/webhooks/"];
/// The least length of a value that a name makes a secret. Shorter ones are words such as "true" and "none".
const MIN_LENGTH: usize = 6;

/// Splits a value into the scheme of an `Authorization` header with its space, or nothing, and the secret.
pub(crate) fn split_scheme(value: &str) -> (&str, &str) {
    match value.split_once(' ') {
        Some((scheme, _)) if ["bearer", "basic"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            value.split_at(scheme.len() + 1)
        }
        _ => ("", value),
    }
}

/// Returns whether a value that stands under this name is probably a secret that stands in the file itself.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    let (_, secret) = split_scheme(value);
    let is_reference = REFERENCE_STARTS.iter().any(|start| secret.starts_with(start));
    if is_reference || secret.len() < MIN_LENGTH {
        return false;
    }
    let is_path = secret.starts_with(['/', '~']) || secret.starts_with("./") || is_windows_path(secret);
    (names_secret(name) && !is_path)
        || secret.len() < value.len()
        || SECRET_PATHS.iter().any(|part| secret.contains(part))
        || has_password_member(secret)
        || SECRET_PREFIXES.iter().any(|prefix| secret.starts_with(prefix) && secret.len() >= 16)
        || has_password(secret)
}

/// Returns whether what stands under this name is probably a secret, or a reference to one.
pub(crate) fn names_secret(name: &str) -> bool {
    let words = words(name);
    let is_public = words.last().is_some_and(|word| PUBLIC_WORDS.contains(&word.as_str()));
    words.iter().any(|word| SECRET_WORDS.contains(&word.as_str())) && !is_public
}

/// Returns the values in entries that are probably secrets, for output that must not show them.
pub(crate) fn secret_values<'e>(
    entries: impl IntoIterator<Item = &'e Map<String, Value>>,
) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    for entry in entries {
        let fields = ["env", "environment", "headers", "http_headers", "oauth", "auth"];
        let members = fields.iter().filter_map(|field| entry.get(*field)?.as_object());
        // Codex and others have secrets in fields of their own.
        let texts =
            members.chain([entry]).flatten().filter_map(|(name, value)| Some((name, value.as_str()?)));
        let secrets = texts.filter(|(name, value)| is_secret(name, value));
        values.extend(secrets.map(|(_, value)| value.to_owned()));
        // An argument may follow its name, or be part of it.
        let mut before = "";
        for arg in strings(entry.get("args")) {
            let (name, value) = arg.split_once('=').unwrap_or((before, arg));
            if is_secret(name.trim_start_matches('-'), value) && !value.starts_with('-') {
                values.insert(value.to_owned());
            }
            // A header, as `--header "Authorization: Bearer …"`.
            let header = arg.split_once(": ").filter(|(name, value)| is_secret(name, value));
            values.extend(header.map(|(_, value)| value.to_owned()));
            values.extend(secrets_of_query(arg));
            before = if arg.starts_with('-') { arg } else { "" };
        }
        if let Some(url) = entry.get("url").and_then(Value::as_str) {
            values.extend(has_password(url).then(|| url.to_owned()));
            values.extend(secrets_of_query(url));
        }
    }
    values
}

/// Returns the values in the query of a URL that are probably secrets.
fn secrets_of_query(url: &str) -> impl Iterator<Item = String> {
    let query =
        url.split_once("://").and_then(|(_, rest)| rest.split_once('?')).map_or("", |(_, query)| query);
    let pairs = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value.to_owned())
}

/// Returns every object in a value: the servers of a file are somewhere among them.
pub(crate) fn all_objects(value: &Value) -> Vec<&Map<String, Value>> {
    match value {
        Value::Object(members) => {
            std::iter::once(members).chain(members.values().flat_map(all_objects)).collect()
        }
        Value::Array(list) => list.iter().flat_map(all_objects).collect(),
        _ => Vec::new(),
    }
}

/// Replaces these values in a text.
pub(crate) fn hide(text: &str, secrets: &BTreeSet<String>) -> String {
    // The longest first, because one may be part of another.
    let mut secrets: Vec<&String> = secrets.iter().collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| {
        let in_json = Value::from(secret.as_str()).to_string();
        text.replace(in_json.trim_matches('"'), "•••").replace(secret.as_str(), "•••")
    })
}

/// Returns whether a URL has a password, as in `postgres://user:password@host`.
fn has_password(value: &str) -> bool {
    let authority =
        value.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(rest));
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| {
        !password.is_empty() && !password.starts_with("${") && !password.starts_with('{')
    })
}

/// Returns whether a connection string has a password, as in `Server=x;Password=y;`.
fn has_password_member(value: &str) -> bool {
    let members = value.split(';').filter_map(|member| member.split_once('='));
    members.into_iter().any(|(name, value)| {
        ["password", "pwd"].contains(&name.trim().to_lowercase().as_str()) && !value.is_empty()
    }) && value.contains(';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_shapes_tell_secrets() {
        for (name, value) in [
            ("GITHUB_TOKEN", "abcdef123"),
            ("X-Api-Key", "0123456789"),
            ("apiKey", "0123456789"),
            ("Authorization", "Bearer abcdefgh"),
            ("PGPASSWORD", "hunter2!"),
            ("X", "ghp_0123456789abcdef"),
            ("DATABASE_URL", "postgres://u:hunter2@db/x"),
            ("PASSPHRASE", "open sesame"),
            ("CREDS", "user:hunter2"),
            ("CONNECTION", "Server=db;Password=hunter2;"),
            ("HOOK", "https://hooks.slack.com/services/T0/B0/x"),
            ("X-Forward", "Bearer abcdefgh"),
            ("bearer_token", "abcdefgh"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("GITHUB_TOKEN", "${GITHUB_TOKEN}"),
            ("Authorization", "Bearer ${TOKEN}"),
            ("TOKEN_FILE", "/run/secrets/token"),
            ("KEY_PATH", "keys/private.pem"),
            ("GOOGLE_APPLICATION_CREDENTIALS", r"C:\keys\google.json"),
            ("GOOGLE_APPLICATION_CREDENTIALS", r"\\server\keys\google.json"),
            ("AUTH", "none"),
            ("AWS_ACCESS_KEY_ID", "public-id"),
            ("LOG_LEVEL", "information"),
            ("URL", "https://user@host/x"),
            ("MONKEY", "banana-split"),
            ("bearer_token_env_var", "GITHUB_PAT"),
            ("X-Forward", "Bearer ${TOKEN}"),
        ] {
            assert!(!is_secret(name, value), "{name}");
        }
    }

    #[test]
    fn secrets_are_hidden_in_a_text() {
        let args =
            ["--api-key", "s3cret-arg", "--token=s3cret-too", "--header", "Authorization: Bearer s3cret-h"];
        let entry = json!({
            "env": {"A_TOKEN": "s3cret\"x", "B": "plain-text"},
            "args": args,
            "url": "https://e.example/a?page=s-public&key=s3cret-url",
            "bearer_token": "s3cret-field",
        });
        let secrets = secret_values([entry.as_object().unwrap()]);
        assert_eq!(secrets.len(), 6, "{secrets:?}");
        let shown = hide(&entry.to_string(), &secrets);
        assert!(
            !shown.contains("s3cret")
                && shown.contains("plain-text")
                && shown.contains("s-public")
                && shown.contains("•••"),
            "{shown}"
        );
    }
}
