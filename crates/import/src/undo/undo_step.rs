//! How a recorded change is taken back: from the record and the client's file as it is now.
//!
//! A file that is as we left it gets its old text. In one that was changed since, only our entry is removed, also if the
//! user renamed it, and the entries that it replaced are put back with their comments. What cannot be put back is left,
//! each with the reason: it stays in the record.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Map, Value};

use super::other_content::other_content;
use crate::clients::apps::{is_own_entry, short_path};
use crate::files::change_record::{ChangeRecord, ChangedPlace, OtherContent, OwnVariables};
use crate::files::comments::{comments, missing_comments};
use crate::files::put_back::{ReturningEntries, put_back};
use crate::files::settings::restore_settings;
use crate::files::write;
use crate::json::members;
use crate::source::{literal, value_at};
use base::text::{self, joined, name, visible};
use config::env::Env;

/// What happens to one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Undone {
    /// It gets its old text.
    Restored,
    /// It was made by us, and is removed.
    Removed,
    /// It was changed since: our entries are removed, and others are put back.
    Reverted,
    /// It stays as it is.
    #[default]
    Unchanged,
}

/// How a change will be taken back: the text that the file has and the one that it will have.
#[derive(Debug, Default)]
pub(super) struct UndoStep {
    /// The file.
    pub file: PathBuf,
    /// The text now; `None` if there is no file.
    pub now: Option<String>,
    /// The text to write; `None` removes the file.
    pub then: Option<String>,
    /// What that does.
    pub outcome: Undone,
    /// What is done in its places.
    pub reversal: Reversal,
    /// A line about each thing that is not put back.
    pub left: Vec<String>,
    /// Whether the file has other content where something would go that is not put back.
    pub is_blocked: bool,
    /// What the record is afterwards; `None` if everything is back.
    pub rest: Option<ChangeRecord>,
    /// Directories that are removed if they are empty.
    made_dirs: Vec<PathBuf>,
    /// The permissions that the file may have.
    mode: u32,
}

impl UndoStep {
    /// Finds out how to take a change back. Writes nothing. `now`: the text of the file. `values`: those of the
    /// keyring.
    ///
    /// # Errors
    ///
    /// Fails if the file was changed to something that cannot be edited.
    pub(super) fn new(
        record: &ChangeRecord,
        now: Option<String>,
        values: &BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let old = record.text_before(values);
        let mut step = Self {
            file: record.file.clone(),
            then: now.clone(),
            now,
            made_dirs: record.made_dirs.clone(),
            mode: record.mode.unwrap_or(u32::MAX),
            ..Self::default()
        };
        match (&step.now, old) {
            (None, None) => {}
            (None, Some(_)) => {
                step.left.push("Not put back: its old content, because the file was removed.".to_owned());
                step.is_blocked = true;
                step.rest = Some(record.clone());
            }
            (Some(now), old) if record.left(now.as_bytes()) => {
                step.outcome = if old.is_some() { Undone::Restored } else { Undone::Removed };
                step.then = old;
            }
            // Somebody has made a removed file again, for its old content.
            (Some(now), Some(old)) if is_blank(now) => {
                step.outcome = Undone::Restored;
                step.then = Some(old);
            }
            (Some(now), old) => {
                let now = now.clone();
                step.revert(record, &now, &old.unwrap_or_default()).map_err(|reason| {
                    let file = text::path(&record.file);
                    anyhow::anyhow!("{file} was changed since, and {reason}; it is left as it is")
                })?;
            }
        }
        Ok(step)
    }

    /// Takes our entries out of the text, and puts back those that they replaced.
    ///
    /// # Errors
    ///
    /// Says why the text cannot be edited so.
    fn revert(&mut self, record: &ChangeRecord, now: &str, old: &str) -> Result<(), String> {
        let content = |text: &str| literal(&record.file, text).map_err(|error| error.to_string());
        let (root, old_root) = (content(now)?, content(old)?);
        let mut reversal = Reversal::default();
        record.places.iter().for_each(|place| reversal.add(place, &root, &old_root));
        let Reversal { returning, left, variables, .. } = &reversal;
        let then = put_back(&record.file, now, old, returning)?;
        let (then, notes) = restore_settings(&record.file, &then, &record.settings)?;
        let content = if record.places.is_empty() && record.content.is_empty() {
            Vec::new()
        } else {
            other_content(record, &root, &old_root)
        };
        self.is_blocked = !left.is_empty() || !content.is_empty();
        self.left.extend(left.iter().map(|(_, entry, reason)| not_put_back(&name(entry), reason)));
        let entries: Vec<_> = left.iter().map(|(keys, name, _)| (keys.clone(), name.clone())).collect();
        // Where nothing is back, the record stays whole: the file may become again as it was left.
        let count: usize = record.places.iter().map(|place| place.removed.len()).sum();
        let is_untouched = then == now && entries.len() == count && !record.is_incomplete();
        let rest = match is_untouched {
            true => record.clone(),
            false => {
                let rest = record.remainder(&entries, content.clone(), variables, now)?;
                let lost = lost_comments(record, old, &then, rest.before.as_deref().unwrap_or_default());
                let line = |comment: &String| format!("Not put back: the comment {}", visible(comment));
                self.left.extend(lost.iter().map(line));
                ChangeRecord { comments: lost, ..rest }
            }
        };
        if !content.is_empty() {
            let paths: Vec<_> = content.iter().flat_map(OtherContent::paths).collect();
            self.left.push(not_put_back(&paths.join(", "), "the file was made again"));
        }
        for own in &rest.own_variables {
            let names = joined(own.names.iter().map(|variable| visible(variable)));
            self.left.push(format!("Not kept: {names}, which you wrote into {}.", name(&own.own)));
        }
        self.rest = (!self.left.is_empty()).then_some(rest);
        self.outcome = if then == now { Undone::Unchanged } else { Undone::Reverted };
        (self.then, self.reversal) = (Some(then), reversal);
        self.reversal.notes.extend(notes);
        Ok(())
    }

    /// Says what happens to the file.
    pub(super) fn describe(&self, env: &Env) -> String {
        let path = short_path(&self.file, env);
        let Reversal { own, back, .. } = &self.reversal;
        let has_changed = format!("{path} was changed since");
        let own_names = joined(own.iter().map(|own| format!("`{}`", visible(own))));
        let back_names = listed(back);
        match (&self.outcome, own.is_empty(), back.is_empty()) {
            (Undone::Restored, ..) => format!("{path} gets its old content"),
            (Undone::Removed, ..) => format!("{path} did not exist, and is removed"),
            (Undone::Unchanged, ..) if self.now.is_none() => format!("{path} does not exist any more"),
            (Undone::Unchanged, ..) if self.rest.is_none() => format!("{path} has everything back"),
            (Undone::Unchanged, ..) => format!("{has_changed}, and stays as it is"),
            (Undone::Reverted, false, true) => format!("{has_changed}: {own_names} is removed"),
            (Undone::Reverted, false, false) => {
                format!("{has_changed}: {own_names} is removed, and {back_names} put back")
            }
            (Undone::Reverted, true, true) => format!("{has_changed}: its rules and settings are as before"),
            (Undone::Reverted, true, false) => format!("{has_changed}: {back_names} put back"),
        }
    }

    /// Writes or removes the file, or leaves it, as `then` says.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written or removed, or was changed meanwhile.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        let result = match (&self.now, &self.then) {
            (now, then) if now == then => Ok(()),
            (None, _) => Ok(()),
            // A file that was made again may be read by others than the old one, which comes back into it.
            (Some(now), Some(then)) => write::replace_within_mode(&self.file, Some(now), then, self.mode),
            (Some(now), None) => write::remove(&self.file, now),
        };
        result.with_context(|| format!("{} cannot be written", text::path(&self.file)))
    }

    /// Removes the directories that were made for a file that is removed. One that has something else by now stays.
    pub(super) fn remove_made_dirs(&self) {
        if self.then.is_none() {
            self.made_dirs.iter().for_each(|dir| drop(fs::remove_dir(dir)));
        }
    }
}

fn listed<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    joined(names.into_iter().map(|one| name(one)))
}

/// Returns whether a file has no content.
fn is_blank(text: &str) -> bool {
    let rest: String = text.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect();
    rest.is_empty() || rest == "{}"
}

fn not_put_back(what: &str, reason: &str) -> String {
    format!("Not put back: {what}, because {reason}.")
}

/// What is done in the places of a file.
#[derive(Debug, Default)]
pub(super) struct Reversal {
    returning: Vec<ReturningEntries>,
    /// Our entries that are removed for good.
    own: Vec<String>,
    /// The entries that are put back.
    back: Vec<String>,
    /// Entries that are not put back: the keys of the place, the name and the reason.
    left: Vec<(Vec<String>, String, String)>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// Those that are removed with our entries.
    variables: Vec<OwnVariables>,
}

impl Reversal {
    /// Adds what is done in one place.
    fn add(&mut self, place: &ChangedPlace, root: &Value, old_root: &Value) {
        let left = |name: &String, reason: &str| (place.keys.clone(), name.clone(), reason.to_owned());
        let no_entries = Map::new();
        let old = value_at(old_root, &place.keys).and_then(Value::as_object).unwrap_or(&no_entries);
        let names = place.removed.iter().filter(|name| old.contains_key(*name));
        let (last, above) = place.keys.split_last().map_or(("", &[][..]), |(last, above)| (last, above));
        let servers = match value_at(root, &place.keys) {
            Some(Value::Object(servers)) => servers,
            // Clients drop an empty one. What is above it may be a project that is gone.
            None if value_at(root, above).is_some_and(Value::is_object) => &no_entries,
            found => {
                let problem = if found.is_some() { "is not an object any more" } else { "is gone" };
                let key = if found.is_some() { last } else { above.last().map_or(last, |key| key.as_str()) };
                let reason = format!("`{}` of the file {problem}", visible(key));
                return self.left.extend(names.map(|name| left(name, &reason)));
            }
        };
        let mut returning = ReturningEntries::new(&place.keys, &[]);
        self.remove_own(place, servers, old, &mut returning);
        for name in names {
            match servers.get(name).filter(|_| returning.remove.as_ref() != Some(name)) {
                None => returning.names.push(name.clone()),
                Some(entry) if old.get(name) == Some(entry) => {}
                Some(_) => self.left.push(left(name, "the file has another server of this name now")),
            }
        }
        self.back.extend(returning.names.iter().filter(|name| place.removed.contains(name)).cloned());
        if returning.remove.is_some() || !returning.names.is_empty() {
            self.returning.push(returning);
        }
    }

    /// Notes in `returning` that our entry is removed. If the file had one before, its old form comes back. A renamed entry
    /// counts if it is the only new one that starts dynamic-mcp; of several, none is removed, and a note says so. Records the
    /// variables and fields that the user added to it.
    fn remove_own(
        &mut self,
        place: &ChangedPlace,
        servers: &Map<String, Value>,
        old: &Map<String, Value>,
        returning: &mut ReturningEntries,
    ) {
        let Some(own) = &place.own else { return };
        let is_own = |name: &String| servers.get(name).is_some_and(is_own_entry);
        let is_new = |name: &&String| is_own(name) && !old.contains_key(*name);
        let now = match (is_own(own), &servers.keys().filter(is_new).collect::<Vec<_>>()[..]) {
            (true, _) => own,
            (false, [renamed]) => renamed,
            (false, []) => return,
            (false, several) => {
                let note =
                    "start dynamic-mcp, and none is named as it was; remove those that you do not need";
                return self.notes.push(format!("{} {note}", listed(several.iter().copied())));
            }
        };
        let had_one = old.get(own).is_some_and(is_own_entry);
        if had_one && servers.get(now) == old.get(own) {
            return;
        }
        returning.remove = Some(now.clone());
        if had_one {
            return returning.names.push(own.clone());
        }
        let names = own_variables(&servers[now.as_str()], &place.entry);
        if !names.is_empty() {
            self.variables.push(OwnVariables { keys: place.keys.clone(), own: now.clone(), names });
        }
        self.own.push(now.clone());
    }
}

/// Returns the variables and the other fields of our entry that are not as we wrote them.
fn own_variables(entry: &Value, written: &Value) -> Vec<String> {
    const ENV_FIELDS: [&str; 2] = ["env", "environment"];
    fn differing<'a>(now: Option<&'a Value>, written: Option<&'a Value>) -> impl Iterator<Item = &'a String> {
        let is_other = move |name: &String, value| written.and_then(|known| known.get(name)) != Some(value);
        members(now).filter(move |(name, value)| is_other(name, value)).map(|(name, _)| name)
    }
    let variables = ENV_FIELDS.into_iter().flat_map(|field| differing(entry.get(field), written.get(field)));
    let fields = differing(Some(entry), Some(written)).filter(|field| !ENV_FIELDS.contains(&field.as_str()));
    variables.chain(fields).cloned().collect()
}

/// Returns the comments that the change removed and that are neither in the new text nor in the rest of the record.
fn lost_comments(record: &ChangeRecord, old: &str, then: &str, rest: &str) -> Vec<String> {
    let of = |text: &str| comments(&record.file, text);
    let removed = || record.comments.clone();
    // In an incomplete record, the old text does not have them.
    let all = if record.is_incomplete() { removed() } else { of(old) };
    let missing = missing_comments(missing_comments(all, of(then)), of(rest));
    missing_comments(removed(), missing_comments(removed(), missing))
}
