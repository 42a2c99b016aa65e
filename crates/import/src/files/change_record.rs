//! The record of one change of a client's file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::put_back::{ReturningEntries, put_back};
use super::settings::ChangedSetting;
use crate::clients::apps::ClientApp;
use crate::json::all_strings;
use crate::source::literal;
use base::clock::unix_time_s;
use base::text;

/// One change of a client's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    /// The client's name on the command line.
    pub client: String,
    /// The file.
    pub file: PathBuf,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// The config file that our entry names.
    pub config: Option<PathBuf>,
    /// The permission bits of the file before, on Unix.
    pub mode: Option<u32>,
    /// The text before; `None` if there was no file. In an incomplete record, the text that has not been put back.
    pub before: Option<String>,
    /// The SHA-256 of the bytes after, in base64; `None` if the record is incomplete.
    pub after: Option<String>,
    /// The places that were changed.
    pub places: Vec<ChangedPlace>,
    /// The names that the replaced entries of all places have in the config file.
    #[serde(default)]
    pub servers: BTreeSet<String>,
    /// What else the file had before it was made again, and that is not back.
    #[serde(default)]
    pub content: Vec<OtherContent>,
    /// Comments that the change removed, and that are not back.
    #[serde(default)]
    pub comments: Vec<String>,
    /// Our entries that were removed although the user had written variables into them. `before` has them.
    #[serde(default)]
    pub(crate) own_variables: Vec<OwnVariables>,
    /// The settings that were changed beside the servers.
    #[serde(default)]
    pub(crate) settings: Vec<ChangedSetting>,
    /// What to press to turn packages on again, where the client has only buttons.
    #[serde(default)]
    pub(crate) buttons: Vec<String>,
    /// The directories that were made for the file, the innermost first.
    #[serde(default)]
    pub(crate) made_dirs: Vec<PathBuf>,
    /// Values that were moved out of `before` to the keyring.
    #[serde(default)]
    pub(crate) stored_values: Vec<StoredValue>,
}

/// The change in one place of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedPlace {
    /// The keys that lead to the servers.
    pub keys: Vec<String>,
    /// The name of our entry; `None` if it was removed again.
    pub own: Option<String>,
    /// Our entry, as it was written.
    #[serde(default)]
    pub entry: Value,
    /// The names of the entries that ours replaced.
    pub removed: Vec<String>,
    /// The project that the place is for.
    pub project: Option<PathBuf>,
}

/// Members of a file that are no servers of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherContent {
    /// The keys that lead to them.
    pub keys: Vec<String>,
    /// Their names.
    pub names: Vec<String>,
}

impl OtherContent {
    /// Each with the keys that lead to it, for texts.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        let path = |name: &String| {
            let keys: Vec<_> = self.keys.iter().chain([name]).map(|key| text::name(key)).collect();
            keys.join(".")
        };
        self.names.iter().map(path)
    }
}

/// The variables that the user wrote into our entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnVariables {
    /// The keys that lead to the servers.
    pub keys: Vec<String>,
    /// The name of our entry.
    pub own: String,
    /// The names of the variables.
    pub names: Vec<String>,
}

impl OwnVariables {
    /// Returns where the entry is.
    fn place(&self) -> ReturningEntries {
        ReturningEntries::new(&self.keys, std::slice::from_ref(&self.own))
    }
}

/// A value that stands in the keyring and not in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredValue {
    /// What stands in its place.
    mark: String,
    /// Its name in the keyring.
    pub name: String,
    /// Whether the text has it with the escapes of JSON.
    is_escaped: bool,
}

impl ChangeRecord {
    /// Creates the record of a change that is about to be made. Does not store it.
    pub(crate) fn new(app: ClientApp, file: &Path, before: Option<&str>, after: &str) -> Self {
        Self {
            client: app.id.to_owned(),
            file: file.to_owned(),
            made: unix_time_s(),
            before: before.map(str::to_owned),
            after: Some(digest(after.as_bytes())),
            ..Self::default()
        }
    }

    /// Returns the client. `None` if this version does not know it.
    pub(crate) fn app(&self) -> Option<ClientApp> {
        ClientApp::find(&self.client)
    }

    /// Returns the client that had this server of the config file, if an entry of it was replaced.
    pub(crate) fn earlier_user(&self, server: &str) -> Option<ClientApp> {
        self.app().filter(|_| self.servers.contains(server))
    }

    /// Returns whether a part was put back.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.after.is_none()
    }

    /// Returns whether these are the bytes that the change left.
    pub(crate) fn left(&self, bytes: &[u8]) -> bool {
        self.after.as_ref() == Some(&digest(bytes))
    }

    /// Returns what is left of the record when everything but these entries and this content is back. `own`: our
    /// entries that are removed now, from the text `now`.
    ///
    /// # Errors
    ///
    /// Says why the text cannot be made.
    pub(crate) fn remainder(
        &self,
        entries: &[(Vec<String>, String)],
        content: Vec<OtherContent>,
        own: &[OwnVariables],
        now: &str,
    ) -> Result<Self, String> {
        let names = |keys: &[String]| {
            let of_place = entries.iter().filter(|(place, _)| place == keys);
            of_place.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let places = self.places.iter().map(|place| ChangedPlace {
            own: None,
            entry: Value::Null,
            removed: names(&place.keys),
            ..place.clone()
        });
        let places: Vec<_> = places.filter(|place| !place.removed.is_empty()).collect();
        let returning = places.iter().map(|place| ReturningEntries::new(&place.keys, &place.removed));
        let content_places = content.iter().map(|other| ReturningEntries::new(&other.keys, &other.names));
        let own_places = self.own_variables.iter().map(OwnVariables::place);
        let returning: Vec<_> = returning.chain(own_places).chain(content_places).collect();
        let before = put_back(&self.file, "", self.before.as_deref().unwrap_or_default(), &returning)?;
        let own_places: Vec<_> = own.iter().map(OwnVariables::place).collect();
        let before = put_back(&self.file, &before, now, &own_places)?;
        let (settings, buttons) = (Vec::new(), Vec::new());
        let mut rest = Self { after: None, places, content, settings, buttons, ..self.clone() };
        rest.own_variables.extend_from_slice(own);
        rest.stored_values.retain(|value| before.contains(&value.mark));
        rest.before = Some(before);
        Ok(rest)
    }

    /// Replaces a value that stands in the keyring by a mark, everywhere in the text before. Returns whether it was
    /// there. An empty value is not replaced.
    pub(crate) fn remove_value(&mut self, name: &str, value: &str) -> bool {
        let Some(before) = &mut self.before else { return false };
        let mut is_there = false;
        for (form, is_escaped) in [(&*escaped(value), true), (value, false)] {
            if form.is_empty() || !before.contains(form) {
                continue;
            }
            // What stands there already is not taken for it.
            let mut mark = format!("{{keyring:{name}}}");
            while before.contains(&mark) {
                mark.push('\'');
            }
            *before = before.replace(form, &mark);
            self.stored_values.push(StoredValue { mark, name: name.to_owned(), is_escaped });
            is_there = true;
        }
        is_there
    }

    /// Returns whether a string in the text before still has a value: with escapes that it need not have,
    /// `remove_value` does not find it.
    pub(crate) fn has_value(&self, value: &str) -> bool {
        let content = self.before.as_deref().and_then(|text| literal(&self.file, text).ok());
        content.is_some_and(|content| all_strings(&content).iter().any(|text| text.contains(value)))
    }

    /// Returns the text before, with these values of the keyring in it. A mark whose value is not known stays. `None`:
    /// there was no file.
    pub(crate) fn text_before(&self, values: &BTreeMap<String, String>) -> Option<String> {
        // The last ones first: one may stand within the mark of another.
        let stored = self.stored_values.iter().rev();
        let known = stored.filter_map(|stored| Some((stored, values.get(&stored.name)?)));
        known.fold(self.before.clone(), |text, (stored, value)| {
            let escaped = stored.is_escaped.then(|| escaped(value));
            Some(text?.replace(&stored.mark, escaped.as_ref().unwrap_or(value)))
        })
    }
}

/// Returns a text as it stands in a string of JSON.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// Returns the SHA-256 of bytes, in base64.
fn digest(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/h/.cursor/mcp.json";
    const BEFORE: &str = "{\n  \"mcpServers\": {\n    // work\n    \"a\": {\"env\": {\"TOKEN\": \"s3cret\\\"x\"}},\n    \"b\": {\"command\": \"b\"}\n  }\n}\n";

    fn record() -> ChangeRecord {
        let mut record =
            ChangeRecord::new(ClientApp::find("cursor").unwrap(), Path::new(FILE), Some(BEFORE), "after");
        let removed = ["a", "b"].map(str::to_owned).to_vec();
        let keys = vec!["mcpServers".to_owned()];
        record.places =
            vec![ChangedPlace { keys, own: Some("dyn".to_owned()), removed, ..ChangedPlace::default() }];
        record
    }

    #[test]
    fn what_is_left_of_a_record_is_what_is_not_back() {
        let rest = record()
            .remainder(&[(vec!["mcpServers".to_owned()], "b".to_owned())], Vec::new(), &[], "")
            .unwrap();
        assert!(rest.is_incomplete() && !rest.left(b"after"));
        let before = rest.before.unwrap();
        assert!(
            before.contains("\"b\"") && !before.contains("s3cret") && !before.contains("work"),
            "{before}"
        );
        assert_eq!((rest.places[0].own.as_ref(), &*rest.places[0].removed), (None, &["b".to_owned()][..]));
    }

    #[test]
    fn a_value_that_is_written_with_needless_escapes_is_noticed() {
        let mut record = record();
        record.before = Some(BEFORE.replace("s3cret", "s3c\\u0072et"));
        assert!(!record.remove_value("a-TOKEN", "s3cret") && record.has_value("s3cret"));
        record.before = Some(BEFORE.to_owned());
        assert!(record.remove_value("a-TOKEN", "s3cret") && !record.has_value("s3cret"));
    }
}
