//! The clients' files with dynamic-mcp in place of their servers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use crate::clients::apps::{ClientApp, OWN_NAME, OwnLaunch, is_own_entry};
use crate::clients::variables::names_in;
use crate::files::allowed::allow_own_entry;
use crate::files::change_record::{ChangeRecord, ChangedPlace};
use crate::files::comments::{comments, missing_comments};
use crate::files::edit::{ObjectEdit, edit_with_comments};
use crate::files::source::{literal, value_at};
use crate::files::write::{missing_dirs, mode};
use crate::json::strings;
use crate::merge::client_scope::ClientScope;
use crate::merge::discover::{ClientFile, Place};
use crate::merge::own_entry;
use crate::merge::{Origin, PlannedServer};
use crate::profiles::client_profiles::ClientProfiles;
use crate::tool_search::HostSearch;
use config::env::Env;
use terminal::counted;

/// A change of a client's file.
#[derive(Debug)]
pub(super) struct ClientWrite {
    /// The client.
    pub app: ClientApp,
    /// The file.
    pub path: PathBuf,
    /// Its text; `None` if there is no file.
    pub before: Option<String>,
    /// The text to write.
    pub after: String,
    /// Whether the file has our entry already.
    is_update: bool,
    /// Variables that the servers need and the client cannot pass on.
    pub(crate) unpassed: Vec<String>,
    places: Vec<ChangedPlace>,
    /// The path of servers.json.
    config: PathBuf,
}

impl ClientWrite {
    /// Returns what `--undo` needs to know, before the change is made.
    pub(super) fn record(&self) -> ChangeRecord {
        let before = self.before.as_deref();
        let comments = |text: &str| comments(&self.path, text);
        ChangeRecord {
            config: Some(self.config.clone()),
            places: self.places.clone(),
            servers: self.places.iter().flat_map(|place| place.servers.clone()).collect(),
            comments: missing_comments(comments(before.unwrap_or_default()), comments(&self.after)),
            made_dirs: missing_dirs(&self.path),
            mode: mode(&self.path),
            ..ChangeRecord::new(self.app, &self.path, before, &self.after)
        }
    }

    /// Returns what is done to the file, before its path.
    pub(super) fn describe(&self) -> String {
        match self.places.iter().map(|place| place.removed.len()).sum() {
            0 if self.is_update => format!("Change `{OWN_NAME}` in"),
            0 => format!("Add `{OWN_NAME}` to"),
            count => format!("Put `{OWN_NAME}` in place of {} in", counted(count, "server")),
        }
    }

    /// Returns whether the file has this text already.
    pub(super) fn is_done(&self) -> bool {
        self.before.as_deref() == Some(&self.after)
    }
}

/// What our entry in a client's file has to start.
pub(super) struct OwnProgram<'a> {
    /// The absolute path of the program.
    pub command: String,
    /// The absolute path of servers.json.
    pub config: &'a Path,
    /// The servers in it.
    pub servers: &'a [PlannedServer],
    /// The profiles of the clients.
    pub profiles: &'a ClientProfiles,
    /// Whether the model of Codex searches for tools.
    pub codex_search: HostSearch,
}

impl OwnProgram<'_> {
    /// Returns how this client starts it.
    fn launch(&self, scope: ClientScope) -> OwnLaunch {
        let app = scope.app;
        let mut launch = OwnLaunch {
            command: self.command.clone(),
            args: vec!["--config".to_owned(), self.config.to_string_lossy().into_owned()],
            ..OwnLaunch::default()
        };
        if let Some(profile) = self.profiles.names.get(&scope) {
            launch.args.extend(["--profile".to_owned(), profile.clone()]);
        }
        if app == ClientApp::Codex && matches!(self.codex_search, HostSearch::On(_)) {
            // Codex hides our tools as well, so that the model would search twice. It lists the tools once.
            let flat = ["--surface", "flat", "--first-list-wait", "10s"];
            launch.args.extend(flat.map(str::to_owned));
        }
        for server in self.servers.iter().filter(|server| self.profiles.sees(scope, &server.name)) {
            launch.env.extend(server.client_variables(app, scope.is_project));
            // Only its client knows what these are.
            let of_client = |name: &String| {
                server.origins.iter().any(|origin| origin.variables.client.contains_key(name))
            };
            let fields = server.entry.iter().filter(|(field, _)| *field != "tools");
            let names = fields.flat_map(|(_, value)| names_in(value));
            launch.variables.extend(names.filter(|name| !of_client(name)));
            launch.variables.extend(strings(server.entry.get("inherit_env")).map(str::to_owned));
        }
        // Before version 1.0.10, Copilot CLI passes nothing but PATH.
        if app == ClientApp::Copilot {
            launch.variables.push(if cfg!(windows) { "USERPROFILE" } else { "HOME" }.to_owned());
        }
        launch.variables.sort();
        launch.variables.dedup();
        launch
    }

    /// Returns the change that replaces the servers of a client's file that are in servers.json now, and updates our
    /// entry. Writes nothing. `None` if there is nothing to do, unless `always`.
    ///
    /// # Errors
    ///
    /// Says why the file cannot be edited.
    pub(super) fn replace_in(&self, file: &ClientFile, always: bool) -> Result<Option<ClientWrite>, String> {
        let is_replaced = |place: &Place| {
            let is_updated =
                || place.own.is_some() && self.profiles.updated.contains(&ClientScope::of(file.app, place));
            !place.servers.is_empty() || (always && place.project.is_none()) || is_updated()
        };
        let own_places = file.places.iter().filter(|place| place.other_own.is_none());
        let places: Vec<&Place> = own_places.filter(|place| is_replaced(place)).collect();
        if places.is_empty() {
            return Ok(None);
        }
        // As the client writes them, for the record.
        let root = literal(&file.path, &file.text).map_err(|error| error.to_string())?;
        let is_update = places.iter().all(|place| place.own.is_some());
        let changes = places.into_iter().map(|place| self.replace_place(file, &root, place));
        let (mut edits, places, unpassed): (Vec<_>, Vec<_>, Vec<_>) = changes.collect();
        let mut own_names = places.iter().filter_map(|place| place.own.as_deref());
        edits.extend(own_names.find_map(|own| allow_own_entry(file.app, &root, own)));
        Ok(Some(ClientWrite {
            app: file.app,
            path: file.path.clone(),
            before: Some(file.text.clone()),
            after: edit_with_comments(&file.path, &file.text, &edits)?,
            is_update,
            unpassed: unpassed.concat(),
            places,
            config: self.config.to_owned(),
        }))
    }

    /// Returns what becomes of one place, and the variables that the client cannot pass on.
    fn replace_place(
        &self,
        file: &ClientFile,
        root: &Value,
        place: &Place,
    ) -> (ObjectEdit, ChangedPlace, Vec<String>) {
        let known = value_at(root, &place.keys).and_then(Value::as_object);
        let names = place.servers.iter().map(|server| server.name.clone());
        let removed: Vec<String> =
            names.filter(|name| known.is_some_and(|known| known.contains_key(name))).collect();
        let own = known.and_then(own_entry::name_among).unwrap_or(OWN_NAME).to_owned();
        let remove = removed.iter().filter(|name| **name != own).cloned().collect();
        let scope = ClientScope::of(file.app, place);
        let launch = self.launch(scope);
        let fresh = file.app.entry(root, &launch);
        let unpassed = launch.variables.into_iter().filter(|_| file.app == ClientApp::ClaudeDesktop);
        let known_own = known.and_then(|known| known.get(&own)).filter(|entry| is_own_entry(entry));
        let entry = match known_own {
            Some(known) => own_entry::merged(known, &fresh),
            None => Value::Object(fresh),
        };
        let edit = ObjectEdit { keys: place.keys.clone(), remove, set: vec![(own.clone(), entry.clone())] };
        let change = ChangedPlace {
            keys: place.keys.clone(),
            own: Some(own),
            entry,
            servers: self.names_of(scope, &removed),
            removed,
            project: place.project.clone(),
        };
        (edit, change, unpassed.collect())
    }

    /// Returns the names in servers.json of the servers that stand under these names in a client's file.
    fn names_of(&self, scope: ClientScope, names: &[String]) -> BTreeSet<String> {
        let is_one =
            |origin: &Origin| ClientScope::of_origin(origin) == scope && names.contains(&origin.name);
        let servers = self.servers.iter().filter(|server| server.origins.iter().any(is_one));
        servers.map(|server| server.name.clone()).collect()
    }

    /// Returns the change that makes a file with our entry alone.
    ///
    /// # Errors
    ///
    /// Says why the file cannot be made.
    pub(super) fn new_file(&self, app: ClientApp, path: PathBuf) -> Result<Option<ClientWrite>, String> {
        let root = json!({});
        let place = Place { keys: app.servers_path(&root), ..Place::default() };
        let empty = ClientFile { app, path, text: String::new(), root, places: vec![place] };
        let write = self.replace_in(&empty, true)?;
        Ok(write.map(|write| ClientWrite { before: None, ..write }))
    }
}

/// Returns the path of this program, as PATH has it if it does: a package manager replaces what a link points to.
///
/// # Errors
///
/// Fails if the system does not tell it.
pub(super) fn own_command(env: &Env) -> anyhow::Result<String> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let name = if cfg!(windows) { "dynamic-mcp.exe" } else { "dynamic-mcp" };
    let dirs = std::env::split_paths(env.get("PATH").unwrap_or_default()).filter(|dir| dir.is_absolute());
    let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| Some(path) == own.canonicalize().ok());
    let in_path = dirs.map(|dir| dir.join(name)).find(is_own);
    Ok(in_path.unwrap_or(own).to_string_lossy().into_owned())
}
