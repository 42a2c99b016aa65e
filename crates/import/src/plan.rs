//! What an import does to the config files and to the clients' files: put together, shown, and carried out.
//!
//! # Theory of operation
//!
//! [`Plan::new`] puts the servers into a `config_file`, those of a project into another one, and makes a `client_write` of
//! each client's file, and of the settings that turn off servers of its packages. `report` says what was found and what
//! would be done, with the `remarks` beside. [`Plan::carry_out`] asks once, writes the config files first and then the
//! clients' files, each after its record. `keyring` moves secrets with `--secrets`, and
//! `after_import` says what to do next.

use std::collections::BTreeSet;
use std::path::Path;

use super::clients::apps::{ClientApp, OWN_NAME, short_path};
use super::clients::client::HostOs;
use super::files::change_record::ChangeRecord;
use super::files::records::ChangeRecords;
use super::files::write;
use super::measure::measure;
use super::merge::discover::{Discovery, Place};
use super::mode::ImportMode;
use super::shown_plan::{FileChange, print_or_compare};
use super::source::{check_in_project, is_yaml, literal, value_at};
use after_import::{say_what_next, show_problems};
use base::text;
use client_write::{ClientWrite, OwnProgram, own_command};
use config::env::Env;
use config_file::{ConfigChange, project_config};
use keyring::{ask_for_secrets, name_missing_secrets};
use serde_json::Value;
use tracked::is_tracked;

mod after_import;
mod client_write;
mod config_file;
mod keyring;
mod remarks;
pub(crate) mod report;
mod tracked;

/// What an import does.
pub(crate) struct Plan<'a> {
    mode: &'a ImportMode<'a>,
    discovery: &'a Discovery,
    /// The directory of the project that is imported too.
    project: Option<&'a Path>,
    /// The user's config file, and that of the project.
    configs: Vec<ConfigChange>,
    /// The clients' files that change.
    writes: Vec<ClientWrite>,
    /// Whether every file can be written.
    is_complete: bool,
}

impl<'a> Plan<'a> {
    /// Puts everything together. Writes nothing.
    ///
    /// # Errors
    ///
    /// Fails if a config file cannot be read or edited, a question is not answered, or the path of this program is not
    /// known.
    pub(crate) async fn new(
        discovery: &'a Discovery,
        target: &Path,
        project: Option<&'a Path>,
        mode: &'a ImportMode<'a>,
    ) -> anyhow::Result<Self> {
        let user = ConfigChange::new(target.to_owned(), discovery, None, mode).await?;
        let mut configs = vec![user];
        let is_used = |(_, place): (_, &Place)| {
            place.project.is_some() && (place.own.is_some() || !place.servers.is_empty())
        };
        if let Some(project) = project.filter(|_| discovery.places().any(is_used)) {
            let path = project_config(discovery, target, project, mode.env);
            configs.push(ConfigChange::new(path, discovery, configs.first(), mode).await?);
        }
        let mut plan = Self { mode, discovery, project, configs, writes: Vec::new(), is_complete: true };
        if mode.args.write_client {
            plan.add_writes()?;
        }
        Ok(plan)
    }

    /// Adds the clients' files with our entry. Says which files are left as they are, and why.
    ///
    /// # Errors
    ///
    /// Fails if the path of this program is not known.
    fn add_writes(&mut self) -> anyhow::Result<()> {
        let (discovery, mode) = (self.discovery, self.mode);
        let [user, rest @ ..] = &self.configs[..] else { return Ok(()) };
        let (command, is_in_path) = own_command(mode.env)?;
        let lists_tools = BTreeSet::new();
        let of_packages = discovery.places().filter(|(file, _)| file.package.is_some());
        let extended = of_packages.filter_map(|(file, place)| place.own.as_ref().map(|_| file.app));
        let extended = extended.filter(|app| !user.profiles.names.contains_key(app)).collect();
        let project = rest.first();
        let mut program =
            OwnProgram { command, is_in_path, user, project, lists_tools, extended, env: mode.env };
        // Only of clients whose entry is written.
        let is_written =
            |app: ClientApp| discovery.places_in(app).any(|(_, place)| !place.servers.is_empty());
        let renamed = discovery.renamed.iter().filter(|(app, _)| is_written(*app));
        let own = |app: ClientApp| {
            let own = discovery.places_in(app).find_map(|(_, place)| place.own.as_ref());
            own.map_or(OWN_NAME, |own| &own.name)
        };
        let renamed: Vec<_> = renamed
            .map(|(app, file)| (file.path.clone(), program.rename_rules_in(*app, file, own(*app))))
            .collect();
        for (app, file) in &discovery.renamed {
            if renamed.iter().any(|(path, write)| *path == file.path && matches!(write, Ok(Some(_)))) {
                program.lists_tools.extend([(*app, file.is_project), (*app, true)]);
            }
        }
        let files = discovery.files.iter().filter(|file| file.package.is_none());
        let gets_entry = |app: ClientApp| {
            (mode.is_named() || discovery.has_packages(app)) && !program.extended.contains(&app)
        };
        let made = files.map(|file| (file.path.clone(), program.replace_in(file, gets_entry(file.app))));
        let known = discovery.files.iter().filter(|file| file.package.is_none()).map(|file| file.app);
        let known: BTreeSet<_> = known.chain(discovery.errors.iter().map(|(app, _)| *app)).collect();
        let without_file = mode.apps.iter().filter(|app| gets_entry(**app) && !known.contains(app));
        let new = without_file.filter_map(|app| {
            let path = app.user_files(mode.env, HostOs::CURRENT).pop()?;
            Some((path.clone(), program.new_file(*app, path)))
        });
        for (path, write) in made.chain(new).collect::<Vec<_>>().into_iter().chain(renamed) {
            match write {
                Ok(Some(write)) if write::is_read_only(&path) => {
                    self.is_complete = false;
                    say_what_to_paste(&write, mode.env);
                }
                Ok(write) => self.writes.extend(write),
                Err(reason) => {
                    let path = text::path(&path);
                    terminal::message(format_args!("{path} cannot be edited: {reason}; it is left as it is"));
                    self.is_complete = false;
                }
            }
        }
        for problem in program.turn_off_packages(discovery, &mut self.writes) {
            terminal::message(problem);
            self.is_complete = false;
        }
        Ok(())
    }

    /// Starts the servers, and prints what they take today and would take with dynamic-mcp.
    ///
    /// # Errors
    ///
    /// As [`measure`], and if stdout cannot be written.
    pub(crate) async fn measure(&self) -> anyhow::Result<()> {
        for config in &self.configs {
            let count = config.servers.iter().filter(|server| !server.origins.is_empty()).count();
            terminal::paragraph(format_args!(
                "Starting {}, once each. This takes up to two minutes.",
                text::counted(count, "server")
            ))?;
            // If a signal drops it, that removes its files and ends the servers.
            let table =
                measure(&config.servers, &config.path, &config.after, self.mode.options, self.mode.env)
                    .await?;
            terminal::print(&table)?;
        }
        Ok(())
    }

    /// Shows what changes, asks, and writes the files. Returns whether everything that was wanted is done. What the user
    /// declines was not wanted.
    ///
    /// # Errors
    ///
    /// Fails if a config file, a record or stdout cannot be written, a secret cannot be stored, or a question is not
    /// answered. A client's file that cannot be written is said and is no error.
    pub(crate) async fn carry_out(&self) -> anyhow::Result<bool> {
        let ImportMode { args, env, answers, .. } = self.mode;
        let details = report::details(&self.configs, self.file_changes(), env);
        let summary = report::summary(self.discovery, &self.configs, &self.writes, env);
        if print_or_compare(args, self.file_changes(), &summary, &details)? {
            return Ok(self.is_complete);
        }
        let details = details.wrapped();
        terminal::print(&summary.wrapped())?;
        if args.details {
            terminal::print(&details)?;
        }
        let user = short_path(&self.configs[0].path, env);
        let changed: Vec<_> = self.configs.iter().filter(|config| config.changes()).collect();
        let mut own = self.discovery.places().filter(|(_, place)| place.own.is_some());
        // An extension works without servers.
        let is_lost = self.configs[0].before.is_none() && own.any(|(file, _)| file.package.is_none());
        if is_lost {
            terminal::message(format_args!(
                "{user} does not exist, although a client uses dynamic-mcp with it already: the servers that were in it are gone; `dynamic-mcp import --undo` puts those of the clients back"
            ));
        }
        if changed.is_empty() {
            terminal::paragraph(format_args!("There are no new servers for {user}."))?;
        }
        let new_servers = self.configs.iter().flat_map(ConfigChange::new_servers);
        let secrets = name_missing_secrets(new_servers, env).await?;
        if args.dry_run || is_lost && changed.is_empty() || changed.is_empty() && self.writes.is_empty() {
            if args.dry_run || is_lost {
                terminal::paragraph("Nothing was written.")?;
            } else {
                say_what_next(&self.configs[0].path, args, &[], self.discovery, env)?;
            }
            return Ok(self.is_complete && !is_lost);
        }
        terminal::line("")?;
        if !answers.confirm_with_details("Write this?", &details).await? {
            terminal::line("Nothing was written.")?;
            return Ok(true);
        }
        for config in changed {
            config.write(env).await?;
            terminal::line(format_args!("Wrote {}.", short_path(&config.path, env)))?;
            self.remove_moved_values(config)?;
            show_problems(&config.path, &config.servers, env).await?;
        }
        ask_for_secrets(*answers, &secrets, env).await?;
        let (written, is_complete) = self.write_clients().await?;
        say_what_next(&self.configs[0].path, args, &written, self.discovery, env)?;
        Ok(is_complete)
    }

    /// Writes the clients' files. Returns the clients whose files are written, and whether everything that was wanted is
    /// done.
    ///
    /// # Errors
    ///
    /// As [`write_client`](Self::write_client).
    async fn write_clients(&self) -> anyhow::Result<(Vec<ClientApp>, bool)> {
        let (mut is_complete, mut written, mut unwritten) = (self.is_complete, Vec::new(), Vec::new());
        for client in &self.writes {
            // What our entry would replace stays on without it.
            if client.places.is_empty() && unwritten.contains(&client.app) {
                let path = short_path(&client.path, self.mode.env);
                terminal::message(format_args!("{path} is left as it is, too"));
                continue;
            }
            match self.write_client(client).await? {
                Some(true) => written.push(client.app),
                outcome => {
                    is_complete &= outcome.is_none();
                    unwritten.extend(Some(client.app).filter(|_| client.is_of_user()));
                }
            }
        }
        Ok((written, is_complete))
    }

    /// Returns what becomes of each file.
    fn file_changes(&self) -> impl Iterator<Item = FileChange<'_>> {
        let configs = self.configs.iter().filter(|config| config.changes());
        let configs = configs.map(|config| (&*config.path, config.before.as_deref(), &*config.after));
        let writes = self.writes.iter().map(|write| (&*write.path, write.before.as_deref(), &*write.after));
        configs.chain(writes).map(|(path, before, after)| (path, before, Some(after)))
    }

    /// Writes a client's file, after a question if others get it, too. Stores the record of the change before. If the file
    /// cannot be written, says so and removes the record. Returns whether it is written; `None`: it is not wanted.
    ///
    /// # Errors
    ///
    /// Fails if a record cannot be read, stored or removed, stdout cannot be written, or the question is not answered.
    async fn write_client(&self, client: &ClientWrite) -> anyhow::Result<Option<bool>> {
        let env = self.mode.env;
        let path = short_path(&client.path, env);
        let mut record = client.record();
        let project = self.project.filter(|project| client.path.starts_with(project));
        project.map_or(Ok(()), |project| check_in_project(&client.path, project))?;
        if project.is_some() && is_tracked(&client.path) {
            let question =
                format!("{path} is tracked by Git: a commit brings `{OWN_NAME}` to everybody. Write it?");
            if !self.mode.answers.confirm(&question).await? {
                return Ok(None);
            }
        }
        let mut records = ChangeRecords::of_user(env)?;
        for config in &self.configs {
            for (name, value) in moved_values(config).chain(config.keyring.pairs()) {
                record.remove_value(name, value);
            }
        }
        // Before the change, so that no change is without its record.
        let id = records.add(record.clone())?;
        self.configs.iter().for_each(|config| name_kept_secrets(config, &record, &records.path(id), env));
        if let Err(error) = write::replace(&client.path, client.before.as_deref(), &client.after) {
            records.remove(id)?;
            terminal::message(format_args!("{path} cannot be written: {error}"));
            return Ok(Some(false));
        }
        terminal::line(format_args!(
            "Wrote {path}; its old content is kept in {}.",
            short_path(&records.path(id), env)
        ))?;
        Ok(Some(true))
    }

    /// Removes values that moved to the keyring from the records: `--undo` fetches them from the keyring.
    ///
    /// # Errors
    ///
    /// Fails if the records cannot be read or written, or stdout cannot be written.
    fn remove_moved_values(&self, config: &ConfigChange) -> anyhow::Result<()> {
        if config.moves.is_empty() {
            return Ok(());
        }
        let secrets = text::counted(config.moves.len(), "secret");
        terminal::line(format_args!("Moved {secrets} to the system's keyring."))?;
        let values: Vec<_> = moved_values(config).collect();
        let mut records = ChangeRecords::of_user(self.mode.env)?;
        let changed = records.remove_values(&values)?;
        records
            .all()
            .for_each(|(id, record)| name_kept_secrets(config, record, &records.path(id), self.mode.env));
        if !changed.is_empty() {
            terminal::line(format_args!(
                "Removed them from {} of the clients' files; --undo takes them from the keyring.",
                text::counted(changed.len(), "record")
            ))?;
        }
        Ok(())
    }
}

/// Returns the secrets that move to the keyring, each with its name there.
fn moved_values(config: &ConfigChange) -> impl Iterator<Item = (&str, &str)> {
    config.moves.iter().map(|secret| (secret.name.as_str(), secret.value.expose()))
}

/// Says that a record has a secret that moved to the keyring.
fn name_kept_secrets(config: &ConfigChange, record: &ChangeRecord, path: &Path, env: &Env) {
    for (name, _) in moved_values(config).filter(|(_, value)| record.has_value(value)) {
        terminal::message(format_args!(
            "{} still has the value of {name}, which is written with escapes there",
            short_path(path, env)
        ));
    }
}

/// Says what to write into a file that is read-only: a program like Nix may make it.
fn say_what_to_paste(write: &ClientWrite, env: &Env) {
    let root = literal(&write.path, write.before.as_deref().unwrap_or_default()).unwrap_or_default();
    for place in &write.places {
        let (own, keys) = (place.own.as_deref().unwrap_or(OWN_NAME), place.keys.join("."));
        let is_list = value_at(&root, &place.keys).is_some_and(Value::is_array);
        let removed = text::joined(place.removed.iter().map(|server| text::name(server)));
        let instead = match &*removed {
            "" => "To use dynamic-mcp,".to_owned(),
            removed => format!("To put dynamic-mcp in place of {removed}, remove these, and"),
        };
        terminal::message(format_args!(
            "{} is {}, so it is left as it is, and `--undo` will not know what you change there. {instead} {} `{keys}`: {}",
            short_path(&write.path, env),
            if is_yaml(&write.path) { "YAML" } else { "read-only" },
            if is_list { "add this to the list".to_owned() } else { format!("write this as `{own}` of") },
            place.entry
        ));
    }
}
