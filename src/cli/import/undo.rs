//! What `--write-client` changed, kept so that `--undo` can take it back.
//!
//! Each change of a client's file is a record in `clients` of the state directory, with a copy of the file as it was.
//! The changes are taken back in reverse order. A file that is as we left it gets the old bytes. In one that was changed
//! since, only our entry is removed, and the servers that it replaced are put back unless they are there again.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::allowed::disallow_own_entry;
use super::apps::{ClientApp, OWN_NAME, is_own_entry, short_path};
use super::edit::{ObjectEdit, edit};
use super::mode::ImportMode;
use super::source::{literal, value_at};
use super::{report, secrets, write};
use crate::cli::terminal;
use crate::config::vars::Env;
use crate::files::{MAX_CONFIG_BYTES, read_regular};
use crate::{dirs, private_files, text};

/// The largest file of records, in bytes: each has a copy of a client's file.
const MAX_RECORDS_BYTES: u64 = 64 << 20;

/// One change of a client's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    /// The client's name on the command line.
    client: String,
    /// The file.
    file: PathBuf,
    /// The bytes before, in base64; `None` if there was no file.
    before: Option<String>,
    /// The SHA-256 of the bytes after, in base64.
    after: String,
    /// The places that were changed.
    places: Vec<ChangedPlace>,
}

/// The change in one place of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChangedPlace {
    /// The keys that lead to the servers.
    pub(super) keys: Vec<String>,
    /// The name of our entry.
    pub(super) own: String,
    /// The entries that ours replaced, as the client wrote them.
    pub(super) removed: Map<String, Value>,
}

impl ChangeRecord {
    /// Records a change before it is made.
    pub(super) fn new(
        app: ClientApp,
        file: &Path,
        before: Option<&str>,
        after: &str,
        places: Vec<ChangedPlace>,
    ) -> Self {
        Self {
            client: app.id().to_owned(),
            file: file.to_owned(),
            before: before.map(|text| base64::engine::general_purpose::STANDARD.encode(text)),
            after: digest(after.as_bytes()),
            places,
        }
    }
}

/// The records of all changes that were not taken back.
pub(super) struct ChangeRecords {
    path: PathBuf,
    records: Vec<ChangeRecord>,
}

/// What happened to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// It has its old bytes.
    Restored,
    /// It was made by us, and is removed.
    Removed,
    /// It was changed since: our entry is removed, and these are put back.
    Reverted(Vec<String>),
    /// It was removed since, so there is nothing to do.
    Gone,
}

impl ChangeRecords {
    /// Reads the records in this directory.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be read or trusted.
    pub(super) fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("changes.json");
        let records = match private_files::read_private(&path, MAX_RECORDS_BYTES) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", text::path(&path)))?
            }
            Err(error) if error.is_missing() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { path, records })
    }

    /// Where they are.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record and saves it.
    ///
    /// # Errors
    ///
    /// Fails if the records cannot be written.
    pub(super) fn add(&mut self, record: ChangeRecord) -> anyhow::Result<()> {
        self.records.push(record);
        self.save()
    }

    /// Removes the last record, whose change was not made.
    ///
    /// # Errors
    ///
    /// Fails if the records cannot be written.
    pub(super) fn remove_last(&mut self) -> anyhow::Result<()> {
        self.records.pop();
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        Ok(private_files::replace(&self.path, &serde_json::to_vec_pretty(&self.records)?, true)?)
    }

    /// The changes of these clients' files, the latest first.
    pub(super) fn of(&self, apps: &[ClientApp]) -> Vec<ChangeRecord> {
        let is_of = |record: &&ChangeRecord| apps.iter().any(|app| app.id() == record.client);
        self.records.iter().rev().filter(is_of).cloned().collect()
    }

    /// Forgets a record after its change was taken back.
    ///
    /// # Errors
    ///
    /// Fails if the records cannot be written.
    pub(super) fn forget(&mut self, record: &ChangeRecord) -> anyhow::Result<()> {
        let is_it = |known: &ChangeRecord| known.file == record.file && known.after == record.after;
        if let Some(index) = self.records.iter().rposition(is_it) {
            self.records.remove(index);
        }
        self.save()
    }
}

/// How a change will be taken back: the text that the file has and the one that it will have.
pub(super) struct UndoStep {
    /// The file.
    pub(super) file: PathBuf,
    /// The text now; `None` if there is no file.
    pub(super) now: Option<String>,
    /// The text to write; `None` removes the file.
    pub(super) then: Option<String>,
    /// What that does.
    pub(super) outcome: Undone,
}

impl ChangeRecord {
    /// The text before the change; `None` if there was no file.
    fn text_before(&self) -> anyhow::Result<Option<String>> {
        let decode = |text: &String| base64::engine::general_purpose::STANDARD.decode(text);
        Ok(self.before.as_ref().map(decode).transpose()?.map(String::from_utf8).transpose()?)
    }

    /// Finds out how to take the change back.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or was changed to something that cannot be edited.
    pub(super) fn undo_step(&self) -> anyhow::Result<UndoStep> {
        let file = self.file.clone();
        let now = match read_regular(&file, MAX_CONFIG_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(UndoStep { file, now: None, then: None, outcome: Undone::Gone });
            }
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", text::path(&file))),
        };
        let is_as_left = digest(&now) == self.after;
        let now =
            String::from_utf8(now).with_context(|| format!("{} is not UTF-8 text", text::path(&file)))?;
        if is_as_left {
            let then = self.text_before().context("the record is damaged")?;
            let outcome = if then.is_some() { Undone::Restored } else { Undone::Removed };
            return Ok(UndoStep { file, now: Some(now), then, outcome });
        }
        let (then, back) = self.without_own_entries(&now).map_err(|reason| {
            anyhow::anyhow!("{} was changed since, and {reason}; it is left as it is", text::path(&file))
        })?;
        Ok(UndoStep { file, now: Some(now), then: Some(then), outcome: Undone::Reverted(back) })
    }

    /// The text without our entries and with those that they replaced.
    fn without_own_entries(&self, text: &str) -> Result<(String, Vec<String>), String> {
        let content = |text: &str| literal(&self.file, text).map_err(|error| error.to_string());
        let root = content(text)?;
        let mut back = Vec::new();
        let mut edits = Vec::new();
        for place in &self.places {
            let Some(Value::Object(servers)) = value_at(&root, &place.keys) else {
                // Its client removed the whole place, and our entry with it.
                continue;
            };
            let mut change = ObjectEdit { keys: place.keys.clone(), ..ObjectEdit::default() };
            if servers.get(&place.own).is_some_and(is_own_entry) {
                change.remove.push(place.own.clone());
            }
            for (name, entry) in &place.removed {
                if !servers.contains_key(name) || change.remove.contains(name) {
                    back.push(name.clone());
                    change.set.push((name.clone(), entry.clone()));
                }
            }
            edits.push(change);
        }
        let app = ClientApp::all().iter().find(|app| app.id() == self.client);
        let before = self.text_before().unwrap_or_default().map(|text| content(&text)).transpose()?;
        edits.extend(app.and_then(|app| disallow_own_entry(*app, &root, &before.unwrap_or_default())));
        Ok((edit(&self.file, text, &edits)?, back))
    }
}

impl UndoStep {
    /// Says what happens to the file.
    fn describe(&self, env: &Env) -> String {
        let path = short_path(&self.file, env);
        match &self.outcome {
            Undone::Restored => format!("{path} gets its old content"),
            Undone::Removed => format!("{path} did not exist, and is removed"),
            Undone::Reverted(names) if names.is_empty() => {
                format!("{path} was changed since: `{OWN_NAME}` is removed")
            }
            Undone::Reverted(names) => {
                let names = names.iter().map(|name| text::name(name)).collect::<Vec<_>>().join(", ");
                format!("{path} was changed since: `{OWN_NAME}` is removed, and {names} put back")
            }
            Undone::Gone => format!("{path} does not exist any more"),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or was changed meanwhile.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        let result = match (&self.now, &self.then) {
            (None, _) => return Ok(()),
            (Some(now), Some(then)) => write::replace(&self.file, Some(now.as_bytes()), then.as_bytes()),
            (Some(now), None) => write::remove(&self.file, now.as_bytes()),
        };
        result.with_context(|| format!("{} cannot be written", text::path(&self.file)))
    }
}

/// Takes back what was changed in the clients' files. Returns whether that worked for all of them.
///
/// # Errors
///
/// Fails if stdout, the records or a file cannot be written.
pub(super) async fn undo_changes(mode: &ImportMode, env: &Env) -> anyhow::Result<bool> {
    let mut records = ChangeRecords::read(&records_dir(env)?)?;
    let changes = records.of(&mode.apps);
    if changes.is_empty() {
        terminal::line("There is nothing to take back.")?;
    }
    let mut is_complete = true;
    for change in changes {
        let step = match change.undo_step() {
            Ok(step) => step,
            Err(error) => {
                terminal::message(format_args!("{error:#}"));
                is_complete = false;
                continue;
            }
        };
        let what = step.describe(env);
        if mode.dry_run {
            terminal::line(&what)?;
            let secrets = secrets_in([&step.now, &step.then], &step.file);
            let (now, then) = (step.now.unwrap_or_default(), step.then.unwrap_or_default());
            terminal::print(&report::diff(&step.file, &now, &then, &secrets))?;
        } else if mode.answers.confirm(&format!("{what}. Do it?")).await? {
            step.apply()?;
            records.forget(&change)?;
            terminal::line(format_args!("{what}."))?;
        }
    }
    Ok(is_complete)
}

/// The values in these texts that must not be shown.
fn secrets_in(texts: [&Option<String>; 2], path: &Path) -> BTreeSet<String> {
    let roots: Vec<_> = texts.into_iter().flatten().filter_map(|text| literal(path, text).ok()).collect();
    secrets::secret_values(roots.iter().flat_map(secrets::all_objects))
}

/// The directory of the records.
///
/// # Errors
///
/// Fails if there is no home directory.
pub(super) fn records_dir(env: &Env) -> anyhow::Result<PathBuf> {
    Ok(dirs::state_dir(env).context("there is no state directory because HOME is not set")?.join("clients"))
}

fn digest(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes))
}
