//! The clients' files with dynamic-mcp in place of their servers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::config_file::ConfigChange;
use crate::clients::apps::{ClientApp, OWN_NAME, is_own_entry};
use crate::clients::client::OwnLaunch;
use crate::clients::host_search::HostSearch;
use crate::clients::package::{ClientSetting, SettingChange};
use crate::clients::rule_file::RuleFile;
use crate::clients::variables::names_in;
use crate::files::change_record::{ChangeRecord, ChangedPlace};
use crate::files::comments::{comments, missing_comments};
use crate::files::edit::{ObjectEdit, edit_with_comments};
use crate::files::settings::{ChangedSetting, change_setting};
use crate::files::write::{missing_dirs, mode};
use crate::json::{into_members, strings};
use crate::merge::discover::{ClientFile, Discovery, Place};
use crate::merge::own_entry;
use crate::merge::{Origin, PlannedServer};
use crate::source::{is_yaml, literal, read_text, value_at};
use crate::tool_rules::ToolEffect;
use base::text::{self, counted};
use config::env::Env;

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
    /// The places that change.
    pub(super) places: Vec<ChangedPlace>,
    /// How many rules for tools get the names of ours.
    renamed: usize,
    /// The settings that change beside the servers.
    settings: Vec<ChangedSetting>,
    /// The names in the config file of the servers that our entry replaces.
    replaced: BTreeSet<String>,
    /// Those of servers that are turned off in packages.
    turned_off: BTreeSet<String>,
    /// What to press to turn packages on again.
    buttons: Vec<String>,
    /// The config file of the servers that it had.
    config: PathBuf,
}

impl ClientWrite {
    /// Creates a change that changes nothing yet.
    fn new(app: ClientApp, path: &Path, before: Option<String>, config: &Path) -> Self {
        Self {
            app,
            path: path.to_owned(),
            after: before.clone().unwrap_or_default(),
            before,
            is_update: true,
            unpassed: Vec::new(),
            places: Vec::new(),
            renamed: 0,
            settings: Vec::new(),
            replaced: BTreeSet::new(),
            turned_off: BTreeSet::new(),
            buttons: Vec::new(),
            config: config.to_owned(),
        }
    }

    /// Changes a setting beside the servers.
    ///
    /// # Errors
    ///
    /// Says why the text cannot be edited so.
    fn set(&mut self, setting: &ClientSetting) -> Result<(), String> {
        self.after = change_setting(&self.after, setting, &mut self.settings)?;
        Ok(())
    }

    /// Returns whether it has our entry for the user, and not for a project.
    pub(super) fn is_of_user(&self) -> bool {
        self.places.iter().any(|place| place.project.is_none())
    }

    /// Returns what `--undo` needs to know, before the change is made.
    pub(super) fn record(&self) -> ChangeRecord {
        let before = self.before.as_deref();
        let comments = |text: &str| comments(&self.path, text);
        ChangeRecord {
            config: Some(self.config.clone()),
            places: self.places.clone(),
            servers: self.replaced.union(&self.turned_off).cloned().collect(),
            comments: missing_comments(comments(before.unwrap_or_default()), comments(&self.after)),
            made_dirs: missing_dirs(&self.path),
            mode: mode(&self.path),
            settings: self.settings.clone(),
            buttons: self.buttons.clone(),
            ..ChangeRecord::new(self.app, &self.path, before, &self.after)
        }
    }

    /// Says what is done to the file, for a list.
    pub(super) fn describe(&self) -> String {
        let mut parts = Vec::new();
        if self.renamed > 0 {
            parts.push(format!("{} renamed for the tools of `{OWN_NAME}`", counted(self.renamed, "rule")));
        }
        match self.places.iter().map(|place| place.removed.len()).sum() {
            _ if self.places.is_empty() => {}
            0 if self.is_update => parts.push(format!("`{OWN_NAME}` changes")),
            0 => parts.push(format!("`{OWN_NAME}` is added")),
            count if self.places.iter().all(|place| place.own.is_none()) => {
                parts.push(format!("{} left to your extension dynamic-mcp", counted(count, "server")));
            }
            count => parts.push(format!("`{OWN_NAME}` in place of {}", counted(count, "server"))),
        }
        if !self.turned_off.is_empty() {
            let servers = counted(self.turned_off.len(), "server");
            parts.push(format!("{servers} turned off, which `{OWN_NAME}` has"));
        }
        parts.join(", ")
    }
}

/// What our entry in a client's file has to start.
pub(super) struct OwnProgram<'a> {
    /// The absolute path of the program.
    pub command: String,
    /// Whether PATH has it.
    pub is_in_path: bool,
    /// The user's config file.
    pub user: &'a ConfigChange,
    /// The config file with the servers of the project.
    pub project: Option<&'a ConfigChange>,
    /// The clients that list our tools one by one, in the project or elsewhere, because their rules are about these.
    pub lists_tools: BTreeSet<(ClientApp, bool)>,
    /// The clients that start this program by an extension, which sees all servers as our entry would.
    pub extended: BTreeSet<ClientApp>,
    /// The environment.
    pub env: &'a Env,
}

impl OwnProgram<'_> {
    /// The config files that an entry reads, in the project or elsewhere.
    fn configs(&self, in_project: bool) -> impl Iterator<Item = &ConfigChange> {
        std::iter::once(self.user).chain(self.project.filter(|_| in_project))
    }

    /// Returns how this client starts it. `is_shared`: its file may be everybody's, so that no path of this user's stands
    /// there.
    fn launch(&self, app: ClientApp, in_project: bool, is_shared: bool) -> OwnLaunch {
        let name = Path::new(&self.command).file_name().map(|name| name.to_string_lossy().into_owned());
        let command = name.filter(|_| is_shared && self.is_in_path).unwrap_or_else(|| self.command.clone());
        let mut launch = OwnLaunch { command, ..OwnLaunch::default() };
        for config in self.configs(in_project) {
            let home =
                self.env.home().filter(|_| is_shared).and_then(|home| config.path.strip_prefix(home).ok());
            let path = home.map_or_else(|| config.path.clone(), |path| Path::new("~").join(path));
            // A user may have no servers elsewhere.
            let mark = if in_project && config.before.is_none() && !config.changes() { "?" } else { "" };
            launch.args.extend(["--config".to_owned(), format!("{}{mark}", path.to_string_lossy())]);
        }
        let profiles = self.configs(in_project).filter_map(|config| config.profiles.names.get(&app));
        if let Some(profile) = profiles.last() {
            launch.args.extend(["--profile".to_owned(), profile.clone()]);
        }
        if app.lists_tools_once && matches!((app.tool_search)(&app, self.env), HostSearch::On(_)) {
            // It hides our tools as well, so that the model would search twice.
            let flat = ["--surface", "flat", "--first-list-wait", "10s"];
            launch.args.extend(flat.map(str::to_owned));
        }
        if self.lists_tools.contains(&(app, in_project)) {
            launch.args.extend(["--surface", "flat"].map(str::to_owned));
            launch.lists_tools = true;
        }
        let sees = |server: &str| self.configs(in_project).all(|config| config.profiles.sees(app, server));
        let servers = self.configs(in_project).flat_map(|config| &config.servers);
        for server in servers.filter(|server| sees(&server.name)) {
            launch.env.extend(server.client_variables(app));
            // Only its client knows what these are.
            let of_client = |name: &String| {
                server.origins.iter().any(|origin| origin.variables.client.contains_key(name))
            };
            let fields = server.entry.iter().filter(|(field, _)| *field != "tools");
            let names = fields.flat_map(|(_, value)| names_in(value));
            launch.variables.extend(names.filter(|name| !of_client(name)));
            launch.variables.extend(strings(server.entry.get("inherit_env")).map(str::to_owned));
        }
        launch.variables.sort();
        launch.variables.dedup();
        launch
    }

    /// Returns the change that gives the rules of a client's settings the names of our tools. `own`: the name of our entry.
    /// `None` if it has no rules for our servers.
    ///
    /// # Errors
    ///
    /// Says why the file cannot be edited.
    pub(super) fn rename_rules_in(
        &self,
        app: ClientApp,
        file: &RuleFile,
        own: &str,
    ) -> Result<Option<ClientWrite>, String> {
        let (Some(rename), Some(text)) = (app.rules.renamed, &file.renamed_text) else { return Ok(None) };
        let servers = || self.configs(file.is_project).flat_map(|config| &config.servers);
        let names = |server: &PlannedServer| {
            let origins = server.origins.iter().filter(|origin| origin.app == app);
            let mut names: Vec<String> = origins.map(|origin| origin.client_name.clone()).collect();
            if server.is_known && names.is_empty() {
                names.push(server.name_in(app).to_owned());
            }
            names
        };
        let new_name = |rule: &str| {
            let mut new =
                servers().flat_map(|server| names(server).into_iter().map(move |name| (name, &server.name)));
            new.find_map(|(name, group)| rename(rule, &name, own, group))
        };
        let mut write = ClientWrite::new(app, &file.path, Some(text.clone()), &self.user.path);
        write.renamed = file.renamed.iter().filter(|rule| new_name(&rule.pattern).is_some()).count();
        let root = literal(&file.path, text).map_err(|error| error.to_string())?;
        for (list, _) in ToolEffect::NAMED {
            let rules = root.get("permissions").and_then(|lists| lists.get(list)?.as_array());
            let renamed =
                |rule: &Value| rule.as_str().and_then(new_name).map_or_else(|| rule.clone(), Value::from);
            let new = rules.map(|rules| rules.iter().map(renamed).collect::<Vec<_>>());
            if let Some(new) = new.filter(|new| rules != Some(new)) {
                let change = SettingChange::Set(new.into());
                write.set(&ClientSetting::new(&file.path, &["permissions", list], change))?;
            }
        }
        Ok(Some(write).filter(|write| write.renamed > 0))
    }

    /// Returns the change that replaces the servers of a client's file that are in a config file now, and updates our
    /// entry. Writes nothing. `None` if there is nothing to do, unless `always`.
    ///
    /// # Errors
    ///
    /// Says why the file cannot be edited.
    pub(super) fn replace_in(&self, file: &ClientFile, always: bool) -> Result<Option<ClientWrite>, String> {
        let is_replaced = |place: &&Place| {
            let is_updated = self
                .configs(place.project.is_some())
                .any(|config| config.profiles.updated.contains(&file.app));
            place.other_own.is_none()
                && (!place.servers.is_empty()
                    || (always && place.project.is_none())
                    || place.own.is_some() && is_updated)
        };
        let places: Vec<&Place> = file.places.iter().filter(is_replaced).collect();
        if places.is_empty() {
            return Ok(None);
        }
        // As the client writes them, for the record. YAML is not written, so it has no record.
        let root = match is_yaml(&file.path) {
            true => file.root.clone(),
            false => literal(&file.path, &file.text).map_err(|error| error.to_string())?,
        };
        let is_update = places.iter().all(|place| place.own.is_some());
        let config =
            self.configs(places.iter().any(|place| place.project.is_some())).last().unwrap_or(self.user);
        let changes = places.into_iter().map(|place| self.replace_place(file, &root, place));
        let (edits, places, unpassed): (Vec<_>, Vec<_>, Vec<_>) = changes.collect();
        // YAML is not written: the plan shows what to paste.
        let after = match is_yaml(&file.path) {
            true => String::new(),
            false => edit_with_comments(&file.path, &file.text, &edits)?,
        };
        let unpassed = unpassed.concat();
        let names = |place: &ChangedPlace| self.names_of(file.app, place.project.is_some(), &place.removed);
        let replaced = places.iter().flat_map(names).collect();
        let write = ClientWrite::new(file.app, &file.path, Some(file.text.clone()), &config.path);
        let mut write = ClientWrite { after, is_update, unpassed, places, replaced, ..write };
        // Ours has to be among the only servers that the client starts.
        let allowed = Some(file.app.allowed_list).filter(|keys| !keys.is_empty());
        let own = write.places.iter().find_map(|place| place.own.clone()).unwrap_or_default();
        let is_listed = |list: &Vec<Value>| list.iter().any(|name| *name == own);
        if let Some(keys) = allowed
            && let Some(list) =
                keys.iter().try_fold(&root, |value, key| value.get(key)).and_then(Value::as_array)
            && !is_listed(list)
        {
            write.set(&ClientSetting::new(&file.path, keys, SettingChange::Add(own.into())))?;
        }
        Ok(Some(write).filter(|write| write.after != file.text))
    }

    /// Returns what becomes of one place, and the variables that the client cannot pass on.
    fn replace_place(
        &self,
        file: &ClientFile,
        root: &Value,
        place: &Place,
    ) -> (ObjectEdit, ChangedPlace, Vec<String>) {
        let in_project = place.project.is_some();
        let known = value_at(root, &place.keys).and_then(Value::as_object);
        let names = place.servers.iter().map(|server| server.name.clone());
        let removed: Vec<String> =
            names.filter(|name| known.is_some_and(|known| known.contains_key(name))).collect();
        let own = known.and_then(own_entry::name_among).unwrap_or(OWN_NAME).to_owned();
        let remove = removed.iter().filter(|name| **name != own).cloned().collect();
        let is_shared = place.project.as_ref().is_some_and(|project| file.path.starts_with(project));
        let launch = self.launch(file.app, in_project, is_shared);
        let mut fresh = file.app.entry(root, &launch);
        let is_flat = launch.args.iter().any(|arg| arg == "flat");
        for (name, entry) in known.into_iter().flatten().filter(|(name, _)| is_flat && removed.contains(name))
        {
            self.carry_approvals(file.app, in_project, name, entry, &mut fresh);
        }
        let lists_tools = launch.lists_tools;
        let unpassed = launch.variables.into_iter().filter(|_| !file.app.passes_variables());
        let known_own = known.and_then(|known| known.get(&own)).filter(|entry| is_own_entry(entry));
        let entry = match known_own {
            Some(known) => {
                let mut entry = own_entry::merged(known, &fresh);
                let undeferred = into_members(Some((file.app.own_fields)(root)));
                let fields = entry.as_object_mut().filter(|_| lists_tools);
                fields.into_iter().for_each(|fields| fields.retain(|name, _| !undeferred.contains_key(name)));
                entry
            }
            None => Value::Object(fresh),
        };
        let is_set = known_own.is_some() || in_project || !self.extended.contains(&file.app);
        let set = is_set.then_some((own, entry));
        let edit = ObjectEdit { keys: place.keys.clone(), remove, set: set.clone().into_iter().collect() };
        let (own, entry) = set.unzip();
        let change = ChangedPlace {
            keys: place.keys.clone(),
            own,
            entry: entry.unwrap_or_default(),
            removed,
            project: place.project.clone(),
        };
        (edit, change, unpassed.collect())
    }

    /// Adds the changes that turn off the servers of packages, where the client's own file starts this program. Returns
    /// why others stay on.
    pub(super) fn turn_off_packages(
        &self,
        discovery: &Discovery,
        writes: &mut Vec<ClientWrite>,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        for (file, place) in discovery.places().filter(|(_, place)| !place.servers.is_empty()) {
            let (Some(package), app) = (&file.package, file.app) else { continue };
            let has_own = |(_, place): (_, &Place)| place.project.is_none() && place.own.is_some();
            let own = writes.iter_mut().find(|write| write.app == app && write.is_of_user());
            if own.is_none() && !discovery.places_in(app).any(has_own) {
                let reason = "starts no dynamic-mcp with this config file";
                problems.push(format!("{} {reason}, so its {} stays on", app.label, package.title()));
                continue;
            }
            if let (Some(own), Some(buttons)) = (own, &package.buttons) {
                own.buttons.push(format!("turn on {} in {buttons}", text::visible(&package.name)));
            }
            for server in &place.servers {
                let Some(setting) = &server.switch else { continue };
                let known = writes.iter().position(|write| write.path == setting.file);
                let index = known.unwrap_or_else(|| {
                    let before = read_text(&setting.file).ok().flatten();
                    writes.push(ClientWrite::new(app, &setting.file, before, &self.user.path));
                    writes.len() - 1
                });
                let write = &mut writes[index];
                write.turned_off.extend(self.names_of(app, false, std::slice::from_ref(&server.name)));
                if let Err(reason) = write.set(setting) {
                    let path = text::path(&setting.file);
                    problems.push(format!("{path} cannot be edited: {reason}; {} stays on", package.title()));
                }
            }
        }
        writes.retain(|write| write.before.as_deref().unwrap_or_default() != write.after);
        problems
    }

    /// Adds to our entry what lets tools of a server go on to run without a question.
    fn carry_approvals(
        &self,
        app: ClientApp,
        in_project: bool,
        name: &String,
        entry: &Value,
        own: &mut Map<String, Value>,
    ) {
        for group in self.names_of(app, in_project, std::slice::from_ref(name)) {
            for (member, value) in into_members(Some((app.approvals)(entry, &format!("{group}__")))) {
                let all = own.entry(member).or_insert_with(|| json!({}));
                if let Some(all) = all.as_object_mut() {
                    all.extend(into_members(Some(value)));
                }
            }
        }
    }

    /// Returns the names in the config file of the servers that stand under these names in a client's file.
    fn names_of(&self, app: ClientApp, in_project: bool, names: &[String]) -> BTreeSet<String> {
        let config = self.project.filter(|_| in_project).unwrap_or(self.user);
        let is_one = |origin: &&Origin| origin.app == app && names.contains(&origin.name);
        let servers =
            config.servers.iter().filter(|server| server.origins.iter().any(|origin| is_one(&origin)));
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
        let empty = ClientFile { places: vec![place], ..ClientFile::new(app, path, String::new(), root) };
        let write = self.replace_in(&empty, true)?;
        Ok(write.map(|write| ClientWrite { before: None, ..write }))
    }
}

/// Returns the path of this program, as PATH has it if it does: a package manager replaces what a link points to. Returns
/// whether PATH has it.
///
/// # Errors
///
/// Fails if the system does not tell it.
pub(super) fn own_command(env: &Env) -> anyhow::Result<(String, bool)> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let name = if cfg!(windows) { "dynamic-mcp.exe" } else { "dynamic-mcp" };
    let dirs = std::env::split_paths(env.get("PATH").unwrap_or_default()).filter(|dir| dir.is_absolute());
    let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| Some(path) == own.canonicalize().ok());
    let in_path = dirs.map(|dir| dir.join(name)).find(is_own);
    let is_in_path = in_path.is_some();
    Ok((in_path.unwrap_or(own).to_string_lossy().into_owned(), is_in_path))
}
