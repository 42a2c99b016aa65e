//! What an import does to servers.json and to the clients' files: put together, shown, and carried out.
//!
//! # Theory of operation
//!
//! [`Plan::new`] runs `merge` and `profiles`, with the `questions` that they need answered, and `report` says what was
//! found. [`Plan::carry_out`] shows or writes servers.json, then the `client_writes`, which `replace` makes. `keyring` moves
//! secrets with `--secrets`, and `after_import` says what to do next.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::ask::Replacement;
use super::clients::apps::{ClientApp, short_path};
use super::files::change_record::ChangeRecord;
use super::files::edit::{ObjectEdit, edit};
use super::files::records::ChangeRecords;
use super::files::source::{check_in_project, read_text, servers_keys, understood, value_at};
use super::files::write;
use super::json::into_members;
use super::measure::measure;
use super::merge::accounts::KeyringValues;
use super::merge::discover::Discovery;
use super::merge::{Merger, PlannedServer};
use super::mode::ImportMode;
use super::profiles::client_profiles::ClientProfiles;
use super::profiles::not_carried::RuleReview;
use super::profiles::own_profiles::own_profiles;
use super::tool_search::tool_search;
use after_import::{say_what_next, show_problems};
use base::{redact, text};
use client_writes::client_writes;
use config::env::Env;
use instance::stores::secret_store;
use keyring::{SecretMove, take_secrets};
use questions::{settle_access, settle_differences};
use replace::{ClientWrite, OwnProgram, own_command};
use report::ConfigChanges;

mod after_import;
mod client_writes;
mod keyring;
mod questions;
mod replace;
pub(crate) mod report;

/// What an import does.
pub(crate) struct Plan {
    /// The config file.
    target: PathBuf,
    /// Its text; `None` if there is no file.
    before: Option<String>,
    /// The text to write.
    after: String,
    /// All servers: those of the file, and the new ones.
    servers: Vec<PlannedServer>,
    /// The profiles that the clients use.
    profiles: ClientProfiles,
    /// How many servers and profiles the file gets.
    new_content: ConfigChanges,
    /// Secrets that move to the keyring.
    moves: Vec<SecretMove>,
    /// The secrets that are in the keyring already.
    keyring: KeyringValues,
    /// Whether a client uses this program already.
    is_used: bool,
}

impl Plan {
    /// Puts everything together, shows it and asks about conflicts. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if servers.json cannot be read or edited, stdout cannot be written, or a question is not answered.
    pub(crate) async fn new(
        discovery: &Discovery,
        target: PathBuf,
        mode: &ImportMode<'_>,
    ) -> anyhow::Result<Self> {
        let env = mode.env;
        let before = read_text(&target)?;
        let text = before.as_deref().unwrap_or_default();
        let root = understood(&target, text)?;
        let keys = servers_keys(&target, &root);
        let known = value_at(&root, &keys).and_then(Value::as_object);
        let entries = known.into_iter().flat_map(|known| known.values().filter_map(Value::as_object));
        let mut merger = Merger::new(known, KeyringValues::read(entries, secret_store(env).as_ref()).await);
        merger.add_all(discovery);
        settle_differences(&mut merger, mode.answers).await?;
        merger.note_earlier_uses(&target, env);
        let Merger { mut servers, keyring, .. } = merger;
        let existing = into_members(root.get("profiles").cloned());
        let profiles = settle_access(discovery, &mut servers, &existing, mode).await?;
        let review = RuleReview { discovery, servers: &servers, profiles: &profiles, env };
        let (lost, general) = review.lines();
        terminal::print(&report::servers(&servers, &target, env).wrapped())?;
        terminal::print(&report::access(&profiles, &lost, &general).wrapped())?;
        let moves =
            mode.stored_secrets.as_ref().map(|taken| take_secrets(&mut servers, taken)).unwrap_or_default();
        if !moves.is_empty() {
            terminal::paragraph("To the system's keyring:")?;
            moves.iter().try_for_each(|secret| terminal::line(secret.describe()))?;
        }
        let new = servers.iter().filter(|server| !server.is_known);
        let set: Vec<_> =
            new.map(|server| (server.name.clone(), Value::Object(server.entry.clone()))).collect();
        let changed_profiles =
            profiles.changed.iter().filter(|(name, _)| existing.contains_key(name)).count();
        let new_profiles = profiles.changed.len() - changed_profiles;
        let new_content = ConfigChanges { servers: set.len(), profiles: new_profiles, changed_profiles };
        let mut edits = vec![ObjectEdit::set(keys.clone(), set)];
        if !profiles.changed.is_empty() {
            edits.push(ObjectEdit::set(vec!["profiles".to_owned()], profiles.changed.clone()));
        }
        edits.extend(moves.iter().filter_map(|secret| secret.edit(&keys)));
        let after = edit(&target, text, &edits);
        let after =
            after.map_err(|reason| anyhow::anyhow!("{} cannot be edited: {reason}", text::path(&target)))?;
        let is_used = !own_profiles(discovery).is_empty();
        Ok(Self { target, before, after, servers, profiles, new_content, moves, keyring, is_used })
    }

    /// Starts the servers, and prints what they take today and would take with dynamic-mcp.
    ///
    /// # Errors
    ///
    /// As [`measure`], and if stdout cannot be written.
    pub(crate) async fn measure(&self, mode: &ImportMode<'_>) -> anyhow::Result<()> {
        let count = self.servers.iter().filter(|server| !server.origins.is_empty()).count();
        terminal::paragraph(format_args!(
            "Starting {}, once each. This takes up to two minutes.",
            terminal::counted(count, "server")
        ))?;
        // If a signal drops it, that removes its files and ends the servers.
        let table = measure(&self.servers, &self.target, &self.after, mode.options, mode.env).await?;
        Ok(terminal::print(&table)?)
    }

    /// Shows or writes the files, after a question for each. Returns whether everything that was wanted is done. What
    /// the user declines was not wanted.
    ///
    /// # Errors
    ///
    /// Fails if servers.json, a record or stdout cannot be written, a secret cannot be stored, the path of this program
    /// is not known, or a question is not answered. A client's file that cannot be written is said and is no error.
    pub(crate) async fn carry_out(
        &self,
        discovery: &Discovery,
        mode: &ImportMode<'_>,
    ) -> anyhow::Result<bool> {
        let ImportMode { args, env, .. } = mode;
        let (writes, mut is_complete) = match args.write_client {
            true => {
                let program = OwnProgram {
                    command: own_command(env)?,
                    config: &self.target,
                    servers: &self.servers,
                    profiles: &self.profiles,
                    codex_search: tool_search(ClientApp::Codex, env),
                };
                client_writes(&program, discovery, mode)?
            }
            false => (Vec::new(), true),
        };
        if args.dry_run {
            if self.changes() {
                self.show_diff(&self.target, self.before.as_deref(), &self.after)?;
            }
            for client in &writes {
                self.show_diff(&client.path, client.before.as_deref(), &client.after)?;
            }
            terminal::paragraph("Nothing was written.")?;
            return Ok(is_complete);
        }
        if self.is_lost() && !self.changes() {
            terminal::message(format_args!(
                "{} does not exist, and the clients have no servers but dynamic-mcp, which reads it; \
                 `dynamic-mcp import --undo` puts their servers back",
                short_path(&self.target, env)
            ));
            terminal::line("Nothing was written.")?;
            return Ok(false);
        }
        let written = self.write_servers(mode).await?;
        if written != Replacement::Done {
            terminal::line("Nothing was written.")?;
            return Ok(written == Replacement::Declined);
        }
        let mut has_written = false;
        for client in &writes {
            match self.write_client(client, mode).await? {
                Replacement::Done => has_written = true,
                Replacement::Declined => {}
                Replacement::Failed => is_complete = false,
            }
        }
        say_what_next(&self.target, args.write_client, has_written, discovery, env)?;
        Ok(is_complete)
    }

    /// Writes a client's file, after a question. Stores the record of the change before. If the file cannot be written,
    /// says so and removes the record.
    ///
    /// # Errors
    ///
    /// Fails if a record cannot be read, stored or removed, stdout cannot be written, or the question is not answered.
    async fn write_client(&self, client: &ClientWrite, mode: &ImportMode<'_>) -> anyhow::Result<Replacement> {
        let ImportMode { answers, env, .. } = mode;
        let path = short_path(&client.path, env);
        let question = format!("{} {path} ({})?", client.describe(), client.app.label);
        let answer = answers.confirm_replacement(&client.path, env, &question).await?;
        if answer != Replacement::Done {
            return Ok(answer);
        }
        let mut record = client.record();
        for project in record.places.iter().filter_map(|place| place.project.as_ref()) {
            check_in_project(&client.path, project)?;
        }
        let mut records = ChangeRecords::of_user(env)?;
        for (name, value) in self.moved_values().chain(self.keyring.pairs()) {
            record.remove_value(name, value);
        }
        // Before the change, so that no change is without its record.
        let id = records.add(record.clone())?;
        self.name_kept_secrets(&record, &records.path(id), env);
        if let Err(error) = write::replace(&client.path, client.before.as_deref(), &client.after) {
            records.remove(id)?;
            terminal::message(format_args!("{path} cannot be written: {error}"));
            return Ok(Replacement::Failed);
        }
        terminal::line(format_args!(
            "{}: wrote {path}; its old content is kept in {}.",
            client.app.label,
            short_path(&records.path(id), env)
        ))?;
        Ok(Replacement::Done)
    }

    /// Returns whether there is no servers.json although a client reads it.
    fn is_lost(&self) -> bool {
        self.before.is_none() && self.is_used
    }

    /// Returns whether servers.json changes.
    fn changes(&self) -> bool {
        !self.moves.is_empty() || self.new_content != ConfigChanges::default()
    }

    /// Returns the secrets that move to the keyring, each with its name there.
    fn moved_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.moves.iter().map(|secret| (secret.name.as_str(), secret.value.expose()))
    }

    /// Stores the secrets and writes servers.json, after a question. Returns `Done` also if there is nothing to write.
    ///
    /// # Errors
    ///
    /// Fails if a secret cannot be stored, servers.json or a record cannot be written, stdout cannot be written, or the
    /// question is not answered. Secrets that were stored before stay in the keyring.
    async fn write_servers(&self, mode: &ImportMode<'_>) -> anyhow::Result<Replacement> {
        let env = mode.env;
        let target = short_path(&self.target, env);
        if !self.changes() {
            terminal::paragraph(format_args!("There are no new servers for {target}."))?;
            return Ok(Replacement::Done);
        }
        let secrets = terminal::counted(self.moves.len(), "secret");
        let question = match (self.new_content.describe("Add", "Change", &target), self.moves.len()) {
            (Some(change), 0) => format!("{change}?"),
            (Some(change), _) => format!("{change}, and move {secrets} to the system's keyring?"),
            (None, _) => format!("Move {secrets} of {target} to the system's keyring?"),
        };
        terminal::line("")?;
        let answer = mode.answers.confirm_replacement(&self.target, env, &question).await?;
        if answer != Replacement::Done {
            return Ok(answer);
        }
        if !self.moves.is_empty() {
            let store = secret_store(env).context("there is no directory for the names of secrets")?;
            for secret in &self.moves {
                secret.store(&store).await?;
            }
        }
        let written = write::replace(&self.target, self.before.as_deref(), &self.after);
        written.with_context(|| format!("{target} cannot be written"))?;
        if let Some(change) = self.new_content.describe("Added", "Changed", &target) {
            terminal::line(format_args!("{change}."))?;
        }
        if self.is_lost() {
            terminal::message(format_args!(
                "{target} did not exist, although a client uses dynamic-mcp with it already: the servers that \
                 were in it are gone, and `dynamic-mcp import --undo` puts those of the clients back"
            ));
        }
        let has_secret = || redact::has_secret(&self.after);
        if let Some(mode) = write::mode(&self.target).filter(|mode| mode & 0o077 != 0 && has_secret()) {
            terminal::message(format_args!(
                "{target} has secrets, and others may read it (its mode is {mode:o}); \
                 `chmod 600 {target}` keeps it private"
            ));
        }
        if !self.moves.is_empty() {
            terminal::line(format_args!("Moved {secrets} to the system's keyring."))?;
            self.remove_values_from_records(env)?;
        }
        show_problems(&self.target, &self.servers, env)?;
        Ok(answer)
    }

    /// Removes values that moved to the keyring from the records: `--undo` fetches them from the keyring.
    ///
    /// # Errors
    ///
    /// Fails if the records cannot be read or written, or stdout cannot be written.
    fn remove_values_from_records(&self, env: &Env) -> anyhow::Result<()> {
        let values: Vec<_> = self.moved_values().collect();
        let mut records = ChangeRecords::of_user(env)?;
        let changed = records.remove_values(&values)?;
        records.all().for_each(|(id, record)| self.name_kept_secrets(record, &records.path(id), env));
        if !changed.is_empty() {
            terminal::line(format_args!(
                "Removed them from {} of the clients' files; --undo takes them from the keyring.",
                terminal::counted(changed.len(), "record")
            ))?;
        }
        Ok(())
    }

    /// Says that a record has a secret that moved to the keyring.
    fn name_kept_secrets(&self, record: &ChangeRecord, path: &Path, env: &Env) {
        for (name, _) in self.moved_values().filter(|(_, value)| record.has_value(value)) {
            terminal::message(format_args!(
                "{} still has the value of {name}, which is written with escapes there",
                short_path(path, env)
            ));
        }
    }

    fn show_diff(&self, path: &Path, before: Option<&str>, after: &str) -> io::Result<()> {
        terminal::line("")?;
        terminal::print(&report::diff(path, before, Some(after)))
    }
}
