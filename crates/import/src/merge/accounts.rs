//! Whether two entries of one program are of one account and about the same thing.
//!
//! They are not if they differ in `env`, `env_file`, `headers`, `oauth`, `cwd` or the rules for tools: a token, a project, the
//! address of a database. Only how a server runs makes no difference, such as its log and its timeouts (`is_harmless`). A variable that
//! one entry passes on under its own name (`"TOKEN": "${TOKEN}"`) may be absent in the other if that passes on all of
//! them. Secrets that `--secrets` moved are compared by their values, if the keyring gives them without a question.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::clients::variables::{comparable, env_name};
use crate::json::{members, strings};
use crate::tool_rules::ToolRuleSet;
use base::redact::{is_secret, name_words, names_secret, split_scheme};
use base::text::{self, joined};
use config::env::Env;
use config::notation::{escape, literal};
use instance::stores::secret_store;

/// Variables and headers that say how a server runs, and how it reaches the network, in lower case.
const HARMLESS_NAMES: &[&str] = &[
    "accept",
    "accept-language",
    "all_proxy",
    "ci",
    "claude_plugin_data",
    "claude_plugin_root",
    "clicolor",
    "colorterm",
    "content-type",
    "do_not_track",
    "force_color",
    "http_proxy",
    "https_proxy",
    "lang",
    "language",
    "log",
    "loglevel",
    "no_color",
    "no_proxy",
    "node_env",
    "node_extra_ca_certs",
    "node_options",
    "path",
    "pythonioencoding",
    "pythonunbuffered",
    "pythonutf8",
    "requests_ca_bundle",
    "rust_backtrace",
    "rust_log",
    "ssl_cert_dir",
    "ssl_cert_file",
    "temp",
    "term",
    "tmp",
    "tmpdir",
    "tz",
    "user-agent",
    "x-client",
    "x-client-name",
    "x-client-version",
];
/// Words at the end of the names of other ones.
const HARMLESS_ENDS: &[&[&str]] = &[
    &["debug"],
    &["log", "dir"],
    &["log", "file"],
    &["log", "format"],
    &["log", "level"],
    &["telemetry"],
    &["timeout"],
    &["timeout", "ms"],
    &["timeout", "sec"],
    &["timeout", "seconds"],
    &["verbose"],
    &["verbosity"],
];
/// The fields whose members say for which account a server runs.
const ACCOUNT_FIELDS: [&str; 3] = ["env", "headers", "oauth"];
/// What stands for a value that is not there.
const ABSENT: &str = "absent";
/// A secret with fewer characters is never shown. Of any other one, the last four may be.
const MIN_SHOWN: usize = 20;
/// How much of a value that is no secret is shown, in characters.
const MAX_SHOWN: usize = 60;

/// A field by which two entries are about different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountDifference {
    /// The field, such as `env.TOKEN`.
    field: String,
    /// The value of the first entry, as it may be shown.
    ours: String,
    /// That of the second entry.
    theirs: String,
}

impl AccountDifference {
    /// Creates a difference in a field, with the values of both entries as they may be shown.
    fn new(field: impl Into<String>, [ours, theirs]: [String; 2]) -> Self {
        Self { field: field.into(), ours, theirs }
    }

    /// Says what differs. `other` is the name of the first entry's server.
    pub(crate) fn describe(&self, other: &str) -> String {
        let Self { field, ours, theirs } = self;
        match ours == theirs {
            true => format!("kept apart from {other}: {field} has another value"),
            false => format!("kept apart from {other}: {field} is {theirs} here, and {ours} there"),
        }
    }
}

/// Plain secrets by their names in the keyring.
#[derive(Default)]
pub(crate) struct KeyringValues(BTreeMap<String, String>);

impl KeyringValues {
    /// Reads those that these servers name. A locked keyring gives none.
    pub(crate) async fn read(servers: &Map<String, Value>, env: &Env) -> Self {
        let mut values = BTreeMap::new();
        let Some(store) = secret_store(env) else { return Self(values) };
        let fields = servers.values().flat_map(|entry| ACCOUNT_FIELDS.map(|field| entry.get(field)));
        for name in fields.flat_map(members).filter_map(|(_, value)| keyring_name(value.as_str()?)) {
            if let Ok(Some(secret)) = store.get(name, false).await {
                values.insert(name.to_owned(), secret.expose().to_owned());
            }
        }
        Self(values)
    }

    /// Returns these servers with the values in place of their names.
    pub(crate) fn resolved(&self, servers: &Map<String, Value>) -> Map<String, Value> {
        let resolve = |(name, value): (&String, &Value)| {
            let resolved = match value {
                Value::String(text) => self.with_value(text).map(Value::from),
                Value::Object(members) => Some(Value::Object(self.resolved(members))),
                _ => None,
            };
            (name.clone(), resolved.unwrap_or_else(|| value.clone()))
        };
        servers.iter().map(resolve).collect()
    }

    /// Returns a text with the value in place of the name in it. `None`: it has no name whose value is known.
    fn with_value(&self, text: &str) -> Option<String> {
        let name = keyring_name(text)?;
        Some(text.replace(&format!("{{keyring:{name}}}"), &escape(self.0.get(name)?)))
    }

    /// Returns the names with the values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the first field by which two entries are about different things. `is_known`: `ours` stands in
    /// servers.json, where a directory may have been added.
    pub(crate) fn difference(
        &self,
        ours: &Map<String, Value>,
        theirs: &Map<String, Value>,
        is_known: bool,
    ) -> Option<AccountDifference> {
        let both = [ours, theirs];
        let dirs = both.map(|entry| entry.get("cwd"));
        if !(is_same_text(dirs) || is_known && dirs[1].is_none()) {
            let shown = dirs.map(|dir| dir.map_or_else(|| ABSENT.to_owned(), Value::to_string));
            return Some(AccountDifference::new("cwd", shown));
        }
        if !is_same_text(both.map(|entry| entry.get("env_file"))) {
            let shown = |has_file| if has_file { "another file" } else { ABSENT }.to_owned();
            let shown = both.map(|entry| shown(entry.contains_key("env_file")));
            return Some(AccountDifference::new("env_file", shown));
        }
        let named = both.map(|entry| strings(entry.get("inherit_env")).collect::<BTreeSet<_>>());
        if named[0] != named[1] && !both.into_iter().any(passes_all) {
            let shown = named.map(|names| if names.is_empty() { ABSENT.to_owned() } else { joined(names) });
            return Some(AccountDifference::new("inherit_env", shown));
        }
        // What a client's rules refuse, nobody may do for it. More may be refused in servers.json.
        let rules = both.map(|entry| ToolRuleSet::read(entry.get("tools")));
        if !(rules[1].is_within(&rules[0]) && (is_known || rules[0].is_within(&rules[1]))) {
            return Some(AccountDifference::new("tools", rules.map(|rules| rules.describe())));
        }
        ACCOUNT_FIELDS.into_iter().find_map(|field| self.member_difference(field, both))
    }

    /// Returns the first member of a field by which two entries are about different things.
    fn member_difference(&self, field: &str, both: [&Map<String, Value>; 2]) -> Option<AccountDifference> {
        let by_key = both.map(|entry| {
            let members = members(entry.get(field));
            members.map(|member| (member_key(field, member.0), member)).collect::<BTreeMap<_, _>>()
        });
        let keys: BTreeSet<&String> = by_key.iter().flat_map(BTreeMap::keys).collect();
        keys.into_iter().find_map(|key| {
            let pair = by_key.each_ref().map(|members| members.get(key));
            let written = pair.iter().flatten().map(|(name, _)| *name).next().unwrap_or(key);
            let pair = pair.map(|member| member.map(|(_, value)| self.text(value)));
            let counts = field == "oauth"
                || !is_harmless(key)
                || pair.iter().flatten().any(|text| is_plain_secret(key, text));
            let is_passed_on = |text: &Option<String>| *text == Some(format!("${{{key}}}"));
            let is_same = match &pair {
                [Some(ours), Some(theirs)] => ours == theirs,
                [ours, None] => field == "env" && is_passed_on(ours) && passes_all(both[1]),
                [None, theirs] => field == "env" && is_passed_on(theirs) && passes_all(both[0]),
            };
            let shown = || pair.each_ref().map(|text| shown(text.as_deref()));
            (counts && !is_same).then(|| AccountDifference::new(format!("{field}.{written}"), shown()))
        })
    }

    /// Returns a value as text in which equal values are equal.
    fn text(&self, value: &Value) -> String {
        let Some(text) = value.as_str() else { return value.to_string() };
        comparable(self.with_value(text).as_deref().unwrap_or(text))
    }
}

/// Returns whether an entry passes on the whole environment.
pub(crate) fn passes_all(entry: &Map<String, Value>) -> bool {
    entry.get("inherit_env") == Some(&Value::Bool(true))
}

/// Returns the name in the `{keyring:NAME}` of a value.
fn keyring_name(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once("{keyring:")?;
    rest.split_once('}').map(|(name, _)| name).filter(|_| !before.ends_with('{'))
}

/// Returns whether two entries have the same string, or none.
fn is_same_text(values: [Option<&Value>; 2]) -> bool {
    let [ours, theirs] = values.map(|value| value.and_then(Value::as_str).map(comparable));
    ours == theirs
}

/// Returns the name by which a member of a field is compared: those of headers are the same in upper and lower case.
pub(super) fn member_key(field: &str, name: &str) -> String {
    if field == "headers" { name.to_lowercase() } else { name.to_owned() }
}

/// Returns whether a variable or header of this name says only how a server runs, and not for which account. A name that
/// sounds like a secret never does.
fn is_harmless(name: &str) -> bool {
    let (lower, words) = (name.to_lowercase(), name_words(name));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    !names_secret(name)
        && (HARMLESS_NAMES.contains(&lower.as_str())
            || lower.starts_with("lc_")
            || HARMLESS_ENDS.iter().any(|end| words.ends_with(end)))
}

/// Returns what may be shown of the value of a field, or of a member of one.
pub(crate) fn shown_value(path: &[String], value: Option<&Value>) -> String {
    let Some(value) = value else { return "not set".to_owned() };
    let value = value.as_str().map_or_else(|| value.to_string(), comparable);
    let is_of_account = path.len() > 1 && !matches!(path[0].as_str(), "args" | "timeout");
    let is_unknown = |name: &String| is_of_account && !is_harmless(name) || is_plain_secret(name, &value);
    match path.last().is_some_and(is_unknown) {
        true => shown(Some(&value)),
        false => text::shorten(&text::visible(&literal(&value).unwrap_or(value)), MAX_SHOWN),
    }
}

fn is_plain_secret(name: &str, text: &str) -> bool {
    literal(text).is_some_and(|plain| is_secret(name, &plain))
}

/// Returns what may be shown of a value: the end of a long secret, and all of a reference.
fn shown(text: Option<&str>) -> String {
    let Some(text) = text else { return ABSENT.to_owned() };
    let (_, secret) = split_scheme(text);
    let shown = match literal(secret) {
        Some(plain) => {
            let length = plain.chars().count();
            (length >= MIN_SHOWN).then(|| format!("…{}", plain.chars().skip(length - 4).collect::<String>()))
        }
        None => env_name(secret).map(|name| format!("${{{name}}}")),
    };
    shown.unwrap_or_else(|| "another value".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn difference(ours: Value, theirs: Value) -> Option<String> {
        let entries = [ours, theirs].map(|entry| entry.as_object().unwrap().clone());
        let found = KeyringValues::default().difference(&entries[0], &entries[1], false);
        found.map(|difference| difference.describe("`a`"))
    }

    #[test]
    fn all_but_how_a_server_runs_tells_entries_apart() {
        let long = |end: &str| format!("ghp_0123456789abcdef{end}");
        let header = |name: &str, value: &str| json!({"headers": {name: value}});
        for (ours, theirs, expected) in [
            (
                json!({"env": {"TOKEN": long("WORK")}}),
                json!({"env": {"TOKEN": long("HOME")}}),
                "env.TOKEN is …HOME here, and …WORK there",
            ),
            (
                header("Authorization", "Bearer short-one"),
                header("Authorization", "Bearer short-two"),
                "headers.Authorization has another value",
            ),
            (
                header("Authorization", "Bearer ${A}"),
                header("Authorization", "Bearer ${B}"),
                "headers.Authorization is ${B} here, and ${A} there",
            ),
            (
                header("Authorization", "Bearer ${A:-s3cret-value}"),
                json!({}),
                "headers.Authorization is absent here, and another value there",
            ),
            (header("X-Account", "work"), header("X-Account", "home"), "headers.X-Account has another value"),
            (
                json!({"env": {"AWS_PROFILE": "work"}}),
                json!({}),
                "env.AWS_PROFILE is absent here, and another value there",
            ),
            (
                json!({"oauth": {"client_id": "a"}}),
                json!({"oauth": {"client_id": "b"}}),
                "oauth.client_id has another value",
            ),
            (
                json!({"env": {"OTHER": long("WORK")}}),
                json!({"env": {"OTHER": "x"}}),
                "env.OTHER is another value here, and …WORK there",
            ),
            (header("X-Region", "eu"), json!({}), "headers.X-Region is absent here, and another value there"),
            (
                json!({"env": {"DB_HOST": "db.test", "PROJECT_ID": "x"}}),
                json!({"env": {"DB_HOST": "db.live", "PROJECT_ID": "x"}}),
                "env.DB_HOST has another value",
            ),
            (
                json!({"env": {"KUBECONFIG": "/a"}}),
                json!({"env": {"KUBECONFIG": "${KUBECONFIG}"}}),
                "env.KUBECONFIG is ${KUBECONFIG} here, and another value there",
            ),
            (
                json!({"env": {"LOG_GROUP": "a"}}),
                json!({"env": {"LOG_GROUP": "b"}}),
                "env.LOG_GROUP has another value",
            ),
        ] {
            let found = difference(ours, theirs).unwrap_or_else(|| panic!("{expected}"));
            assert_eq!(found, format!("kept apart from `a`: {expected}"));
        }
    }

    #[test]
    fn files_directories_and_variables_of_one_client_tell_entries_apart() {
        for (ours, theirs, expected) in [
            (json!({"env_file": "/a.env"}), json!({}), "env_file is absent here, and another file there"),
            (json!({"cwd": "/a"}), json!({}), "cwd is absent here, and \"/a\" there"),
            (
                json!({"env": {"TOKEN": "${TOKEN}"}}),
                json!({}),
                "env.TOKEN is absent here, and ${TOKEN} there",
            ),
        ] {
            let found = difference(ours, theirs).unwrap_or_else(|| panic!("{expected}"));
            assert_eq!(found, format!("kept apart from `a`: {expected}"));
        }
    }

    #[test]
    fn how_a_server_runs_makes_no_difference() {
        let header = |name: &str, value: &str| json!({"headers": {name: value}});
        for (ours, theirs) in [
            (
                json!({"env": {"LOG_LEVEL": "debug", "PATH": "/a", "DEBUG": "1", "MCP_TIMEOUT": "5"}}),
                json!({"env": {"LOG_LEVEL": "info", "NODE_OPTIONS": "-x", "LC_ALL": "C", "FETCH_TIMEOUT_MS": "5"}}),
            ),
            (json!({"env": {"TOKEN": "${TOKEN}"}}), json!({"inherit_env": true})),
            (json!({"env": {"TOKEN": "${env:TOKEN}"}}), json!({"env": {"TOKEN": "${TOKEN}"}})),
            (json!({"env": {"TOKEN": "${TOKEN:-}"}}), json!({"env": {"TOKEN": "${TOKEN}"}})),
            (json!({"env": {"TOKEN": "a$$b"}}), json!({"env": {"TOKEN": "a$b"}})),
            (header("User-Agent", "x"), header("User-Agent", "y")),
            (header("X-Account", "work"), header("x-account", "work")),
        ] {
            assert_eq!(difference(ours.clone(), theirs), None, "{ours}");
        }
    }

    #[test]
    fn a_secret_in_the_keyring_is_compared_by_its_value() {
        let values = KeyringValues(BTreeMap::from([("k".to_owned(), "pa$$word".to_owned())]));
        let entry = |text: &str| json!({"env": {"KEY": text}}).as_object().unwrap().clone();
        assert_eq!(values.difference(&entry("x {keyring:k}"), &entry(&escape("x pa$$word")), true), None);
        for (ours, theirs) in [("{keyring:k}", "other-password"), ("{keyring:locked}", "pa$$word")] {
            let found = values.difference(&entry(ours), &entry(theirs), true).unwrap();
            assert!(!found.describe("a").contains("pa$$"), "{found:?}");
        }
    }
}
