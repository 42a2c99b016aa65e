//! A config file that an import writes: the user's servers.json, or the one with the servers of a project.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::keyring::{SecretMove, take_secrets};
use crate::clients::apps::{ClientApp, short_path};
use crate::files::config_schema::{edit_config, replace_config};
use crate::files::edit::ObjectEdit;
use crate::files::write;
use crate::json::into_members;
use crate::merge::accounts::KeyringValues;
use crate::merge::discover::{Discovery, places_of};
use crate::merge::own_entry::config_files;
use crate::merge::{Merger, PlannedServer, free_name};
use crate::mode::ImportMode;
use crate::profiles::{ClientProfiles, ConfigUser, ProfileMaker};
use crate::source::{read_text, servers_keys, understood, value_at};
use base::text::counted;
use base::{redact, text};
use config::ConfigError;
use config::env::Env;
use instance::stores::secret_store;
use terminal::outcome::{CommandError, EXIT_CONFIG};

/// What becomes of a config file.
pub(crate) struct ConfigChange {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its text; `None` if there is no file.
    pub(crate) before: Option<String>,
    /// The text to write.
    pub(crate) after: String,
    /// All servers: those of the file, and the new ones.
    pub(crate) servers: Vec<PlannedServer>,
    /// The profiles that the clients use.
    pub(crate) profiles: ClientProfiles,
    /// Secrets that move to the keyring.
    pub(crate) moves: Vec<SecretMove>,
    /// The secrets that are in the keyring already.
    pub(crate) keyring: KeyringValues,
}

impl ConfigChange {
    /// Puts the servers of the clients into a config file: the user's, or those of the project with the file of the user.
    /// Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or edited, or a question is not answered.
    pub(crate) async fn new(
        path: PathBuf,
        discovery: &Discovery,
        user: Option<&Self>,
        mode: &ImportMode<'_>,
    ) -> anyhow::Result<Self> {
        let env = mode.env;
        let invalid = |error: ConfigError| CommandError::new(EXIT_CONFIG, error.to_string());
        let before = read_text(&path).map_err(invalid)?;
        let text = before.as_deref().unwrap_or_default();
        let root = understood(&path, text).map_err(invalid)?;
        let keys = servers_keys(&path, &root);
        let known = into_members(value_at(&root, &keys).cloned());
        let mut merger = Merger::new(&known, KeyringValues::read(&known, env).await);
        let places = || discovery.places().filter(|(_, place)| place.project.is_some() == user.is_some());
        for (file, place) in places() {
            place.servers.iter().for_each(|server| merger.add(file.app, server));
        }
        let (mut servers, keyring) = merger.finish(&path, env);
        let existing = into_members(root.get("profiles").cloned());
        let users = users(discovery, user.is_some(), mode);
        let maker = ProfileMaker {
            servers: &servers,
            existing: &existing,
            beside: user.map(|user| (&*path, &user.profiles)),
            keeps_apart: !mode.args.same_servers && mode.args.files().next().is_none(),
        };
        let profiles = maker.make(&users);
        let mut moves = Vec::new();
        if let Some(taken) = mode.stored_secrets.as_ref().filter(|_| user.is_none()) {
            let before = servers.clone();
            moves = take_secrets(&mut servers, taken);
            if !moves.is_empty() {
                terminal::line("To the system's keyring:")?;
                moves.iter().try_for_each(|secret| terminal::line(secret.describe()))?;
                let question = format!("Move {} there?", counted(moves.len(), "secret"));
                if !mode.args.dry_run && !mode.answers.confirm(&question).await? {
                    (servers, moves) = (before, Vec::new());
                }
            }
        }
        let new = servers.iter().filter(|server| !server.is_known);
        let set = new.map(|server| (server.name.clone(), Value::Object(server.entry.clone()))).collect();
        let mut edits = vec![ObjectEdit::set(keys.clone(), set)];
        if !profiles.changed.is_empty() {
            edits.push(ObjectEdit::set(vec!["profiles".to_owned()], profiles.changed.clone()));
        }
        edits.extend(moves.iter().filter_map(|secret| secret.edit(&keys)));
        let after = edit_config(&path, before.as_deref(), edits)
            .map_err(|reason| anyhow::anyhow!("{} cannot be edited: {reason}", text::path(&path)))?;
        let changes = servers.iter().any(|server| !server.is_known)
            || !profiles.changed.is_empty()
            || !moves.is_empty();
        let after = if changes { after } else { text.to_owned() };
        Ok(Self { path, before, after, servers, profiles, moves, keyring })
    }

    /// Returns whether the file changes.
    pub(crate) fn changes(&self) -> bool {
        self.before.as_deref().unwrap_or_default() != self.after
    }

    /// Returns the servers that are new.
    pub(crate) fn new_servers(&self) -> impl Iterator<Item = &PlannedServer> {
        self.servers.iter().filter(|server| !server.is_known)
    }

    /// Stores the secrets, and writes the file.
    ///
    /// # Errors
    ///
    /// Fails if a secret cannot be stored, or the file cannot be written. Secrets that were stored before stay in the
    /// keyring.
    pub(crate) async fn write(&self, env: &Env) -> anyhow::Result<()> {
        if !self.moves.is_empty() {
            let store = secret_store(env).context("there is no directory for the names of secrets")?;
            for secret in &self.moves {
                secret.store(&store).await?;
            }
        }
        let path = short_path(&self.path, env);
        let written = replace_config(&self.path, self.before.as_deref(), &self.after);
        written.with_context(|| format!("{path} cannot be written"))?;
        let has_secret = || redact::has_secret(&self.after);
        if let Some(mode) = write::mode(&self.path).filter(|mode| mode & 0o077 != 0 && has_secret()) {
            terminal::message(format_args!(
                "{path} has secrets, and others may read it (its mode is {mode:o}); `chmod 600 {path}` keeps it private"
            ));
        }
        Ok(())
    }
}

/// Returns the clients that use the user's config file, or that of the project, or will.
fn users(discovery: &Discovery, of_project: bool, mode: &ImportMode<'_>) -> Vec<ConfigUser> {
    let mut users: Vec<ConfigUser> = Vec::new();
    let mut add = |user: ConfigUser| match users.iter_mut().find(|known| known.app == user.app) {
        Some(known) => known.own = known.own.take().or(user.own),
        None => users.push(user),
    };
    let is_named = |app: ClientApp| mode.is_named() && mode.apps.contains(&app) && !of_project;
    for (file, place) in discovery.places().filter(|(_, place)| place.project.is_some() == of_project) {
        let gets_entry = mode.args.write_client && (!place.servers.is_empty() || is_named(file.app));
        let is_written = mode.args.write_client && place.other_own.is_none();
        if place.own.is_some() || !place.servers.is_empty() || gets_entry {
            add(ConfigUser::of(file.app, place, is_written));
        }
    }
    let others = places_of(&discovery.other_files);
    for (file, place) in others.filter(|(_, place)| place.own.is_some() && !of_project) {
        add(ConfigUser::of(file.app, place, false));
    }
    for app in mode.apps.iter().copied().filter(|app| is_named(*app) && mode.args.write_client) {
        add(ConfigUser { app, own: None, is_written: true });
    }
    users.sort_by_key(|user| user.app);
    users
}

/// Returns the config file of a project: the one that an entry in the project names, or else one of its own beside the
/// user's.
pub(crate) fn project_config(discovery: &Discovery, user: &Path, project: &Path, env: &Env) -> PathBuf {
    let dir = user.with_file_name("projects");
    let owns =
        discovery.places().filter_map(|(_, place)| place.own.as_ref().filter(|_| place.project.is_some()));
    let mut known = owns.flat_map(|own| config_files(own, env)).filter(|file| file.starts_with(&dir));
    let base = project.file_name().unwrap_or_else(|| "project".as_ref()).to_string_lossy();
    let file = |name: &str| dir.join(format!("{name}.json"));
    known.next().unwrap_or_else(|| file(&free_name(&base, |name| !file(name).exists())))
}
