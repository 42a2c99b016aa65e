//! Whether two entries of one program are of one account.
//!
//! They are of two if they differ in a secret, in a variable or header that names an account, or in `oauth`. Only a
//! variable that one entry passes on under its own name (`"TOKEN": "${TOKEN}"`) may be absent in the other. Secrets that
//! `--secrets` moved are compared by their values, if the keyring gives them without a question.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::secrets::{is_secret, names_secret, split_scheme, words};
use super::variables::comparable;
use crate::auth::secret_store::SecretStore;
use crate::config::notation::{escape, literal};

/// Words in the names of variables and headers that say which account is meant.
const ACCOUNT_WORDS: &[&str] = &[
    "account",
    "customer",
    "email",
    "login",
    "org",
    "organisation",
    "organization",
    "profile",
    "subscription",
    "team",
    "tenant",
    "user",
    "username",
    "workspace",
];
/// The least length of a secret of which the last four characters may be shown, in characters.
const MIN_SHOWN: usize = 20;

/// A field in which two entries name different accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountDifference {
    /// The field, such as `env.TOKEN`.
    field: String,
    /// The value of the first entry, as it may be shown.
    ours: String,
    /// That of the second entry.
    theirs: String,
}

impl AccountDifference {
    /// Says what differs. `other` is the name of the first entry's server.
    pub(super) fn describe(&self, other: &str) -> String {
        let Self { field, ours, theirs } = self;
        match ours == theirs {
            true => format!("another account than {other}: {field} has another value"),
            false => format!("another account than {other}: {field} is {theirs} here, and {ours} there"),
        }
    }
}

/// Plain secrets by their names in the keyring.
#[derive(Default)]
pub(super) struct KeyringValues(BTreeMap<String, String>);

impl KeyringValues {
    /// Reads those that these entries name. A locked keyring gives none.
    pub(super) async fn read(
        entries: impl IntoIterator<Item = &Map<String, Value>>,
        store: Option<&SecretStore>,
    ) -> Self {
        let mut values = BTreeMap::new();
        for entry in entries {
            let members = ["env", "headers", "oauth"]
                .iter()
                .filter_map(|field| entry.get(*field)?.as_object())
                .flatten();
            for name in members.filter_map(|(_, value)| keyring_name(value.as_str()?)) {
                if let Some(store) = store
                    && let Ok(Some(secret)) = store.get(name, false).await
                {
                    values.insert(name.to_owned(), secret.expose().to_owned());
                }
            }
        }
        Self(values)
    }

    /// The first difference between the accounts of two entries. `ours` may be one of servers.json.
    pub(super) fn difference(
        &self,
        ours: &Map<String, Value>,
        theirs: &Map<String, Value>,
    ) -> Option<AccountDifference> {
        for field in ["env", "headers", "oauth"] {
            let members = |entry: &Map<String, Value>| entry.get(field).and_then(Value::as_object).cloned();
            let (ours, theirs) = (members(ours).unwrap_or_default(), members(theirs).unwrap_or_default());
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                let pair = [&ours, &theirs].map(|members| members.get(name).map(|value| self.text(value)));
                let is_of_account = field == "oauth"
                    || is_account_name(name)
                    || pair.iter().flatten().any(|text| is_plain_secret(name, text));
                let is_passed_on = |text: &String| field == "env" && *text == format!("${{{name}}}");
                let is_same = match &pair {
                    [Some(ours), Some(theirs)] => ours == theirs,
                    [one, other] => one.iter().chain(other).all(is_passed_on),
                };
                if is_of_account && !is_same {
                    let [ours, theirs] = pair.map(|text| shown(text.as_deref()));
                    return Some(AccountDifference { field: format!("{field}.{name}"), ours, theirs });
                }
            }
        }
        None
    }

    /// A value as text in which equal values are equal.
    fn text(&self, value: &Value) -> String {
        let Some(text) = value.as_str() else { return value.to_string() };
        let stored = keyring_name(text).and_then(|name| Some((name, self.0.get(name)?)));
        let plain = stored.map(|(name, plain)| text.replace(&format!("{{keyring:{name}}}"), &escape(plain)));
        comparable(plain.as_deref().unwrap_or(text))
    }
}

/// The name in the `{keyring:NAME}` of a value.
fn keyring_name(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once("{keyring:")?;
    rest.split_once('}').map(|(name, _)| name).filter(|_| !before.ends_with('{'))
}

fn is_account_name(name: &str) -> bool {
    let words = words(name);
    let names_account = words.iter().any(|word| ACCOUNT_WORDS.contains(&word.as_str()));
    (names_account && !words.iter().any(|word| word == "agent")) || names_secret(name)
}

fn is_plain_secret(name: &str, text: &str) -> bool {
    literal(text).is_some_and(|plain| is_secret(name, &plain))
}

/// What may be shown of a value: the end of a long secret, and all of a reference.
fn shown(text: Option<&str>) -> String {
    let Some(text) = text else { return "absent".to_owned() };
    let Some(plain) = literal(text) else {
        let (_, reference) = split_scheme(text);
        let is_alone =
            reference.starts_with("${") && reference.ends_with('}') && reference.matches('}').count() == 1;
        return if is_alone && !reference.contains(":-") {
            reference.to_owned()
        } else {
            "another value".to_owned()
        };
    };
    let characters: Vec<char> = split_scheme(&plain).1.chars().collect();
    match characters.len() {
        MIN_SHOWN.. => format!("…{}", characters[characters.len() - 4..].iter().collect::<String>()),
        _ => "another value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn difference(ours: Value, theirs: Value) -> Option<String> {
        let entries = [ours, theirs].map(|entry| entry.as_object().unwrap().clone());
        let found = KeyringValues::default().difference(&entries[0], &entries[1]);
        found.map(|difference| difference.describe("`a`"))
    }

    #[test]
    fn secrets_and_names_of_accounts_tell_accounts_apart_and_nothing_else_does() {
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
        ] {
            let found = difference(ours, theirs).unwrap_or_else(|| panic!("{expected}"));
            assert_eq!(found, format!("another account than `a`: {expected}"));
        }
        for (ours, theirs) in [
            (json!({"env": {"LOG": "debug"}}), json!({"env": {"LOG": "info"}})),
            (json!({"env": {"TOKEN": "${TOKEN}"}}), json!({})),
            (json!({"env": {"TOKEN": "${env:TOKEN}"}}), json!({"env": {"TOKEN": "${TOKEN}"}})),
            (json!({"env": {"TOKEN": "${TOKEN:-}"}}), json!({"env": {"TOKEN": "${TOKEN}"}})),
            (json!({"env": {"TOKEN": "a$$b"}}), json!({"env": {"TOKEN": "a$b"}})),
            (header("User-Agent", "x"), header("User-Agent", "y")),
            (header("X-Region", "eu"), json!({})),
        ] {
            assert_eq!(difference(ours.clone(), theirs), None, "{ours}");
        }
    }

    #[test]
    fn a_secret_in_the_keyring_is_compared_by_its_value() {
        let values = KeyringValues(BTreeMap::from([("k".to_owned(), "pa$$word".to_owned())]));
        let entry = |text: &str| json!({"env": {"KEY": text}}).as_object().unwrap().clone();
        assert_eq!(values.difference(&entry("x {keyring:k}"), &entry(&escape("x pa$$word"))), None);
        for (ours, theirs) in [("{keyring:k}", "other-password"), ("{keyring:locked}", "pa$$word")] {
            let found = values.difference(&entry(ours), &entry(theirs)).unwrap();
            assert!(!found.describe("a").contains("pa$$"), "{found:?}");
        }
    }
}
