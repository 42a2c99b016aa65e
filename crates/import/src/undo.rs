//! `--undo`, `--undo --list` and `--forget`: what `--write-client` changed is taken back, shown, or forgotten.
//!
//! The changes are taken back in reverse order. A record goes when everything in it is back. What is not back is named,
//! with the record that keeps it (`records`).
//!
//! # Theory of operation
//!
//! `undo_step` finds out what a record does to its client's file as it is now, and `other_content` what that file had
//! beside its servers. `own_changes` names what the config files have beyond the clients' entries. All of that is shown
//! before one question, and then carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::clients::apps::{ClientApp, short_path};
use super::files::change_record::{ChangeRecord, OtherContent};
use super::files::records::ChangeRecords;
use super::files::write::is_read_only;
use super::merge::discover::discover;
use super::mode::ImportMode;
use super::plan::report;
use super::shown_plan::print_or_compare;
use super::source::{FileTexts, check_in_project, read_text};
use base::clock::utc_minute;
use base::text::{self, joined, name, visible};
use config::env::Env;
use instance::stores::secret_store;
use own_changes::own_changes;
use terminal::VisibleText;
use terminal::outcome::{CommandError, EXIT_FAILURE, EXIT_USAGE};
use undo_step::UndoStep;

mod other_content;
mod own_changes;
mod undo_step;

/// An undo, while it goes through the records.
struct Undo<'a> {
    mode: &'a ImportMode<'a>,
    records: ChangeRecords,
    /// The texts that the files will have.
    texts: FileTexts,
    /// What is done, each with the number of its record and its client.
    steps: Vec<(u32, ChangeRecord, UndoStep)>,
    /// Whether everything that was wanted is done.
    is_complete: bool,
}

/// Takes back what was changed in the clients' files, after a question. `config`: the config file, for records that do not
/// name theirs.
///
/// # Errors
///
/// Fails if the records cannot be read, or stdout cannot be written. A change that cannot be taken back is said, and
/// the exit code is `EXIT_FAILURE`.
pub(crate) async fn undo_changes(mode: &ImportMode<'_>, config: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let ImportMode { args, apps, env, answers, .. } = *mode;
    let records = ChangeRecords::of_user(env)?;
    let is_complete = records.errors.is_empty();
    records.errors.iter().for_each(|error| terminal::message(format_args!("{error:#}")));
    let changes = records.of(apps);
    if changes.is_empty() && is_complete && !args.json {
        terminal::line("There is nothing to take back.")?;
        name_own_entries(apps, env)?;
    }
    let mut undo = Undo { mode, records, texts: FileTexts::new(), steps: Vec::new(), is_complete };
    for (id, change) in changes {
        if let Err(error) = undo.add_step(id, change).await {
            terminal::message(format_args!("{error:#}"));
            undo.is_complete = false;
        }
    }
    let changed = own_changes(&undo.records, &undo.steps, &undo.texts, config, env).await;
    let file_changes =
        undo.steps.iter().map(|(_, _, step)| (&*step.file, step.now.as_deref(), step.then.as_deref()));
    let mut summary = changed;
    summary.lines("", undo.describe(args.details && args.dry_run));
    if print_or_compare(args, file_changes, &summary, &undo.describe(true))? {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print(&summary.wrapped())?;
    let is_change = undo.steps.iter().any(|(_, _, step)| step.now != step.then);
    if args.dry_run {
        terminal::paragraph("Nothing was written.")?;
    } else if !undo.steps.is_empty() {
        let details = undo.describe(true);
        if !is_change || answers.confirm_with_details("Take this back?", &details).await? {
            undo.carry_out()?;
        } else {
            terminal::line("Nothing was written.")?;
        }
    }
    Ok(if undo.is_complete { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
}

/// Names the entries for this program of which there is no record: what they replaced is in servers.json alone.
///
/// # Errors
///
/// Fails if stdout cannot be written.
fn name_own_entries(apps: &[ClientApp], env: &Env) -> anyhow::Result<()> {
    for file in discover(apps.iter().copied(), env).files {
        for own in file.places.iter().filter_map(|place| place.own.as_ref()) {
            terminal::line(format_args!(
                "{}: {} still has `{}`, of which there is no record; if it replaced servers, they are in the config file that it names",
                file.app.label,
                short_path(&file.path, env),
                visible(&own.name)
            ))?;
        }
    }
    Ok(())
}

impl Undo<'_> {
    /// Finds out how one change is taken back.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or edited, or a secret cannot be read.
    async fn add_step(&mut self, id: u32, change: ChangeRecord) -> anyhow::Result<()> {
        for project in change.places.iter().filter_map(|place| place.project.as_ref()) {
            check_in_project(&change.file, project)?;
        }
        let now = match self.texts.get(&change.file) {
            Some(text) => text.clone(),
            None => read_text(&change.file)?,
        };
        let values =
            if self.mode.args.dry_run { BTreeMap::new() } else { self.stored_values(id, &change).await? };
        let step = UndoStep::new(&change, now, &values)?;
        if step.now != step.then && is_read_only(&step.file) {
            let path = short_path(&step.file, self.mode.env);
            bail!("{path} is read-only, so it is left as it is; make it writable, and run this again");
        }
        self.texts.insert(step.file.clone(), step.then.clone());
        self.steps.push((id, change, step));
        Ok(())
    }

    /// Says what is done, and what is not put back.
    fn describe(&self, with_diffs: bool) -> VisibleText {
        let env = self.mode.env;
        let mut out = VisibleText::default();
        for (id, change, step) in &self.steps {
            out.line(format_args!("{}.", step.describe(env)));
            let lines = step.reversal.notes.iter().chain(&step.left);
            lines.for_each(|line| out.line(format_args!("  {line}")));
            change.buttons.iter().for_each(|on| out.line(format_args!("  Then {on}.")));
            if !step.left.is_empty() {
                let path = short_path(&self.records.path(*id), env);
                out.line(format_args!("  Record {id} keeps it: {path}"));
            }
            if with_diffs {
                out.lines("", report::diff(&step.file, step.now.as_deref(), step.then.as_deref()));
            }
        }
        let kept = || self.steps.iter().filter(|(_, _, step)| !step.left.is_empty());
        if let Some((id, ..)) = kept().min_by_key(|(id, ..)| *id) {
            let again = match kept().any(|(_, _, step)| step.is_blocked) {
                true => {
                    "Rename or remove what stands in its place and run `dynamic-mcp import --undo` again, or delete"
                }
                false => "If you do not need it, delete",
            };
            out.line(format_args!(
                "What is not put back stays in its record. {again} the record with `dynamic-mcp import --forget {id}`."
            ));
        }
        out
    }

    /// Writes the files, and removes or shortens the records.
    ///
    /// # Errors
    ///
    /// Fails if a record or stdout cannot be written. A file that cannot be written is said.
    fn carry_out(&mut self) -> anyhow::Result<()> {
        let mut restarted = BTreeSet::new();
        for (id, change, step) in std::mem::take(&mut self.steps) {
            if let Err(error) = step.apply() {
                terminal::message(format_args!("{error:#}"));
                self.is_complete = false;
                continue;
            }
            self.is_complete &= step.left.is_empty();
            restarted.extend(change.app().filter(|_| step.now != step.then).map(|app| app.label));
            match step.rest {
                None => {
                    step.remove_made_dirs();
                    self.records.remove(id)?;
                }
                Some(rest) if rest != change => self.records.update(id, rest)?,
                Some(_) => {}
            }
        }
        if !restarted.is_empty() {
            terminal::line(format_args!("Done. Restart {}.", joined(restarted)))?;
        }
        Ok(())
    }

    /// Returns the values that a record has in the keyring, by their names. The user may be asked to unlock the
    /// keyring.
    ///
    /// # Errors
    ///
    /// Fails if the keyring cannot be used, or does not have one of them any more.
    async fn stored_values(
        &self,
        id: u32,
        change: &ChangeRecord,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let (mut values, path) = (BTreeMap::new(), short_path(&change.file, self.mode.env));
        for stored in &change.stored_values {
            let store =
                secret_store(self.mode.env).context("there is no directory for the names of secrets")?;
            let value = store.get(&stored.name, true).await.with_context(|| {
                format!("{path} is left as it is, because its secrets cannot be read: the system's keyring")
            })?;
            let Some(value) = value else {
                bail!(
                    "{path} is left as it is, because the keyring has no secret `{0}` any more; store it again with `dynamic-mcp secret set {0}`. Record {id} keeps everything else",
                    stored.name
                );
            };
            values.insert(stored.name.clone(), value.expose().to_owned());
        }
        Ok(values)
    }
}

/// Prints the records of these clients. Those that cannot be read are said on stderr, and the exit code is
/// `EXIT_FAILURE`.
///
/// # Errors
///
/// Fails if stdout cannot be written, or the directory of the records cannot be read.
pub(crate) fn list_records(mode: &ImportMode<'_>) -> anyhow::Result<ExitCode> {
    let records = ChangeRecords::of_user(mode.env)?;
    records.errors.iter().for_each(|error| terminal::message(format_args!("{error:#}")));
    let mut shown = records.of(mode.apps);
    shown.reverse();
    if shown.is_empty() && records.errors.is_empty() {
        terminal::line("There is nothing to take back.")?;
    }
    for (id, record) in &shown {
        terminal::line(format_args!(
            "{id:>3}  {}  {:<15} {}",
            utc_minute(record.made),
            record.app().map_or("", |app| app.label),
            describe_record(record, mode.env)
        ))?;
    }
    Ok(if records.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
}

/// Says which file a record is about, and what it keeps.
fn describe_record(record: &ChangeRecord, env: &Env) -> String {
    let path = short_path(&record.file, env);
    let removed = record.places.iter().flat_map(|place| &place.removed).map(|entry| name(entry));
    let content = record.content.iter().flat_map(OtherContent::paths);
    let comments = Some(record.comments.len()).filter(|count| record.is_incomplete() && *count > 0);
    let comments = comments.map(|count| text::counted(count, "comment"));
    let own = record.own_variables.iter().map(|own| format!("variables of {}", name(&own.own)));
    let kept = joined(removed.chain(content).chain(comments).chain(own));
    match (&record.before, record.is_incomplete()) {
        (None, _) => format!("{path}: there was no file"),
        (Some(_), false) if kept.is_empty() => format!("{path}: its old content"),
        (Some(_), false) => format!("{path}: its old content with {kept}"),
        (Some(_), true) => format!("{path}: not back yet: {kept}"),
    }
}

/// Deletes a record, after a question. A no is a success, and a dry run only says what would be deleted.
///
/// # Errors
///
/// Fails if the records cannot be read, there is no such record, it cannot be deleted, stdout cannot be written, or the
/// question is not answered.
pub(crate) async fn forget_record(id: u32, mode: &ImportMode<'_>) -> anyhow::Result<ExitCode> {
    let mut records = ChangeRecords::of_user(mode.env)?;
    let path = records.path(id);
    let what = match records.get(id) {
        Some(record) => describe_record(record, mode.env),
        // One that is damaged.
        None if path.exists() => text::path(&path),
        None => {
            let message =
                format!("there is no record {id}; `dynamic-mcp import --undo --list` shows the records");
            bail!(CommandError::new(EXIT_USAGE, message));
        }
    };
    if mode.args.dry_run {
        terminal::line(format_args!("Record {id} would be deleted ({what})."))?;
    } else if mode.answers.confirm(&format!("Delete record {id} for good ({what})?")).await? {
        records.remove(id)?;
        terminal::line(format_args!("Deleted record {id} ({what})."))?;
    }
    Ok(ExitCode::SUCCESS)
}
