//! Reads the clients' files and finds the servers in them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::clients::apps::{ClientApp, HostOs, is_own_entry};
use crate::clients::shape;
use crate::clients::translate::{TranslatedEntry, translate};
use crate::clients::variables::EntryContext;
use crate::files::source::{check_in_project, literal, read_text, understood, value_at};
use crate::json::{into_members, members, strings};
use crate::rules::client_rules::RuleFile;
use crate::rules::rule_files;
use base::text::{joined, visible};
use config::ConfigError;
use config::env::Env;
use config::fields;
use config::file::ServerEntry;
use config::load::name_error;

/// Why a project's entry stays that only changes the user's server of the same name.
const CHANGES_ONLY: &str = "what it changes of a server that was imported before is not carried over; write it into the profile of the project";

/// Fields of an entry that change neither the program nor what it gets.
const WITHOUT_EFFECT_ON_PROGRAM: &[&str] =
    &["disabled", "enabled", "excludeTools", "includeTools", "timeout", "tools", "type"];

/// A client's file that was read.
#[derive(Debug)]
pub(crate) struct ClientFile {
    /// The client.
    pub app: ClientApp,
    /// Its path.
    pub path: PathBuf,
    /// Its text, with a byte order mark if it has one.
    pub text: String,
    /// Its content.
    pub root: Value,
    /// Its places for servers.
    pub places: Vec<Place>,
}

/// A place for servers in a file.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The keys that lead to it.
    pub keys: Vec<String>,
    /// The directory of the project that it is for.
    pub project: Option<PathBuf>,
    /// The servers in it that can be imported.
    pub servers: Vec<FoundServer>,
    /// Entries that stay as they are, each with the reason.
    pub(crate) staying: Vec<(String, String)>,
    /// The entry that starts this program with the config file that is imported into.
    pub own: Option<FoundServer>,
    /// The name of one that starts it with another config file, and that file. The place is then left as it is.
    pub(crate) other_own: Option<(String, PathBuf)>,
}

/// A server of a client.
#[derive(Clone, Debug)]
pub(crate) struct FoundServer {
    /// Its name.
    pub name: String,
    /// Its entry, in our form.
    pub translated: TranslatedEntry,
    /// What a project's server would get of the user's entry of its name: fields, or members of them.
    pub(crate) taken: Vec<String>,
}

impl FoundServer {
    /// Returns what it would get of the user's entry, for texts.
    pub(crate) fn taken_fields(&self) -> String {
        joined(self.taken.iter().map(|field| visible(field)))
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// The files that were read.
    pub files: Vec<ClientFile>,
    /// The user's files of clients that are not imported from: they may use this program already.
    pub(crate) other_files: Vec<ClientFile>,
    /// Files that cannot be read or parsed.
    pub errors: Vec<(ClientApp, ConfigError)>,
    /// Directories of projects whose servers were left out, from `~/.claude.json`.
    pub(crate) other_projects: Vec<String>,
    /// What Claude Code turns off in single projects that are left out: each directory with the names of servers.
    pub(crate) off_in_projects: Vec<(String, Vec<String>)>,
    /// The rules for tools, in the order in which the files count.
    pub rules: Vec<RuleFile>,
    /// The directory of the project that is imported.
    pub project: Option<PathBuf>,
}

/// Reads the files of these clients, and those of the project in `project`. Files that do not exist are left out; those
/// that cannot be read are in `errors`.
pub(crate) fn discover(apps: &[ClientApp], project: Option<&Path>, env: &Env) -> Discovery {
    let mut discovery = Discovery { project: project.map(Path::to_owned), ..Discovery::default() };
    for &app in apps {
        for path in app.user_files(env, HostOs::CURRENT) {
            discovery.read(app, &path, None, project, env);
        }
        for name in app.project_files {
            if let Some(project) = project {
                let path = project.join(name);
                // The home directory may be taken for a project.
                if discovery.files.iter().all(|file| file.path != path)
                    && discovery.is_of_project(app, &path, project)
                {
                    discovery.read(app.in_project(env), &path, Some(project), None, env);
                }
            }
        }
        for (path, is_project) in rule_files::settings_files(app, project, env) {
            if is_project && !project.is_some_and(|project| discovery.is_of_project(app, &path, project)) {
                continue;
            }
            match read_text(&path).and_then(|text| text.map(|text| understood(&path, &text)).transpose()) {
                Ok(root) => {
                    let file = root.map(|root| rule_files::read(app, &path, is_project, &root));
                    discovery.rules.extend(file);
                }
                Err(error) => discovery.errors.push((app, error)),
            }
        }
    }
    discovery
}

impl Discovery {
    /// Reads the user's files of the clients that are not among `apps`. One that cannot be read has no part in the import.
    pub(crate) fn read_others(&mut self, apps: &[ClientApp], env: &Env) {
        let others: Vec<_> = ClientApp::all().iter().copied().filter(|app| !apps.contains(app)).collect();
        self.other_files = discover(&others, None, env).files;
        // Their servers stay where they are.
        let places = self.other_files.iter_mut().flat_map(|file| &mut file.places);
        places.for_each(|place| place.servers.clear());
    }

    /// Returns whether a file of a project is in the project. One that is not, because of a link, is an error.
    fn is_of_project(&mut self, app: ClientApp, path: &Path, project: &Path) -> bool {
        let outside = check_in_project(path, project);
        let is_inside = outside.is_ok();
        self.errors.extend(outside.err().map(|error| (app, error)));
        is_inside
    }

    /// Reads one file. `owner` is the project that the whole file is for, `wanted` the one whose part of the user's file
    /// counts.
    fn read(&mut self, app: ClientApp, path: &Path, owner: Option<&Path>, wanted: Option<&Path>, env: &Env) {
        let text = match read_text(path) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(error) => return self.errors.push((app, error)),
        };
        let root = match understood(path, &text) {
            Ok(root) => root,
            Err(error) => return self.errors.push((app, error)),
        };
        let written = literal(path, &text).unwrap_or_default();
        self.rules.push(rule_files::read(app, path, owner.is_some(), &written));
        // Its part for a project has settings of the project.
        let of_project = wanted.and_then(|dir| root.get("projects")?.get(dir.to_str()?));
        self.rules.extend(of_project.map(|part| rule_files::read(app, path, true, part)));
        let mut places = vec![(app.servers_path(&root), owner.map(Path::to_owned))];
        if app == ClientApp::ClaudeCode && owner.is_none() {
            places.extend(self.claude_projects(&root, wanted));
        }
        let of_user = self.user_servers(app).filter(|_| owner.is_some());
        let dir = path.parent().unwrap_or(path);
        let places = places.into_iter().map(|(keys, project)| {
            let context = EntryContext { app, dir, project: project.as_deref(), env };
            find_servers(&context, &root, keys, of_user.as_ref())
        });
        let places = places.collect();
        self.files.push(ClientFile { app, path: path.to_owned(), text, root, places });
    }

    /// Returns the servers of the user's files, for a client that puts a project's entry over the user's entry of the
    /// same name.
    fn user_servers(&self, app: ClientApp) -> Option<Map<String, Value>> {
        if !app.puts_project_over_user {
            return None;
        }
        let mut servers = Map::new();
        for file in self.files.iter().filter(|file| file.app == app) {
            for place in file.places.iter().filter(|place| place.project.is_none()) {
                servers.extend(into_members(value_at(&file.root, &place.keys).cloned()));
            }
        }
        Some(servers)
    }

    /// Returns the place of the wanted project in `~/.claude.json`. Notes the other ones that have servers.
    fn claude_projects(
        &mut self,
        root: &Value,
        wanted: Option<&Path>,
    ) -> Option<(Vec<String>, Option<PathBuf>)> {
        let mut place = None;
        for (dir, project) in members(root.get("projects")) {
            if wanted == Some(Path::new(dir)) {
                let keys = ["projects", dir, "mcpServers"].map(str::to_owned).to_vec();
                place = Some((keys, Some(PathBuf::from(dir))));
                continue;
            }
            let off: Vec<String> = strings(project.get("disabledMcpServers")).map(str::to_owned).collect();
            if !off.is_empty() {
                self.off_in_projects.push((dir.clone(), off));
            }
            if members(project.get("mcpServers")).next().is_some() {
                self.other_projects.push(dir.clone());
            }
        }
        place
    }
}

/// Returns a value put over another one: the members of objects count one by one.
fn put_over(below: &Value, above: &Value) -> Value {
    let (Value::Object(below), Value::Object(above)) = (below, above) else { return above.clone() };
    let mut all = below.clone();
    for (name, value) in above {
        let value = below.get(name).map_or_else(|| value.clone(), |below| put_over(below, value));
        all.insert(name.clone(), value);
    }
    Value::Object(all)
}

/// Returns whether a field says nothing about the program, or about what that gets.
fn is_without_effect(name: &str) -> bool {
    let known = fields::find(ServerEntry::FIELDS, name).map_or(name, |field| field.name);
    WITHOUT_EFFECT_ON_PROGRAM.contains(&known)
}

/// Returns what an entry has of the one that it is put over, if it changes the program or what that gets.
fn taken_from(below: &Value, above: &Value) -> Vec<String> {
    let is_change =
        |(field, value): (&String, &Value)| !is_without_effect(field) && below.get(field) != Some(value);
    if !members(Some(above)).any(is_change) {
        return Vec::new();
    }
    let mut taken = Vec::new();
    for (field, value) in members(Some(below)) {
        match (value, above.get(field)) {
            _ if is_without_effect(field) => {}
            (Value::Object(members), Some(Value::Object(own))) => {
                let kept = members.keys().filter(|member| !own.contains_key(*member));
                taken.extend(kept.map(|member| format!("{field}.{member}")));
            }
            (Value::Object(members), None) => {
                taken.extend(members.keys().map(|member| format!("{field}.{member}")));
            }
            (_, None) => taken.push(field.clone()),
            (_, Some(_)) => {}
        }
    }
    taken
}

/// Finds the servers in one place of a file. `of_user`: the user's servers, over which those of the file are put.
fn find_servers(
    context: &EntryContext<'_>,
    root: &Value,
    keys: Vec<String>,
    of_user: Option<&Map<String, Value>>,
) -> Place {
    let app = context.app;
    let mut place = Place { keys, project: context.project.map(Path::to_owned), ..Place::default() };
    let servers = value_at(root, &place.keys).filter(|servers| !servers.is_null()).map(shape::object);
    let servers = servers.transpose().unwrap_or_else(|reason| {
        place.staying.push((place.keys.join("."), reason));
        None
    });
    for (name, value) in servers.into_iter().flatten() {
        let below = of_user.and_then(|servers| servers.get(name)).filter(|below| !is_own_entry(below));
        let taken = below.map_or_else(Vec::new, |below| taken_from(below, value));
        let value = &below.map_or_else(|| value.clone(), |below| put_over(below, value));
        let found = shape::object(value).and_then(|entry| translate(entry, context));
        let found = found.map(|translated| FoundServer { name: name.clone(), translated, taken });
        let has_program = value.get("command").is_some() || value.get("url").is_some();
        let reason = match (found, name_error(name, false)) {
            // Beside its servers, `mcp` of OpenCode has a setting.
            (Err(_), _) if app == ClientApp::Opencode && name == "timeout" && !value.is_object() => continue,
            (Err(reason), _) if !value.is_object() => reason,
            (found, _) if is_own_entry(value) => {
                place.own = found.ok().or(place.own);
                "it is dynamic-mcp".to_owned()
            }
            (_, Some((reason, _))) => reason,
            (Ok(mut server), None) => {
                add_defaults(app, root, &mut server.translated);
                place.servers.push(server);
                continue;
            }
            (Err(_), None) if of_user.is_some() && !has_program => CHANGES_ONLY.to_owned(),
            (Err(reason), None) => reason,
        };
        place.staying.push((name.clone(), reason));
    }
    place
}

/// Applies what a client's file says about servers outside of their entries.
fn add_defaults(app: ClientApp, root: &Value, translated: &mut TranslatedEntry) {
    if app == ClientApp::Opencode && !translated.entry.contains_key("timeout") {
        let of_version_2 = root.pointer("/mcp/timeout").filter(|_| root.pointer("/mcp/servers").is_some());
        let defaults = [
            ("mcp.timeout", of_version_2),
            ("experimental.mcp_timeout", root.pointer("/experimental/mcp_timeout")),
        ];
        for (name, _) in defaults.iter().filter(|(_, default)| default.is_some()) {
            translated.notes.push(format!("`{name}`, the default of all servers, is not carried over"));
        }
    }
}
