//! Merges the servers of several clients with each other and with the servers of servers.json.
//!
//! A server is recognized by what it runs or contacts: its command with the arguments, or its URL. The version of a package
//! does not count. Servers of one name
//! and one program are one server if they are about the same thing (`accounts`); where the clients' entries differ in other
//! fields (`differences`), the first client's value counts, unless the user wants the entries apart. Servers of one name
//! and different programs or accounts both stay, the later one under a name of its own, by which the next import finds
//! it. Servers of different names are one only if everything is equal.
//!
//! # Theory of operation
//!
//! `discover` reads the clients' files and finds the servers in them; `own_entry` finds the entry that starts this program,
//! also for `check`, and names the config that it reads. `Merger` then goes through the servers. `accounts` tells entries of
//! different accounts apart, `differences` finds the other fields that differ, and `client_scope` names the clients that have
//! them. `limits` has the looser time limits, and `exact` the servers that stay in their client's file.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::clients::apps::ClientApp;
use super::clients::translate::TranslatedEntry;
use super::clients::variables::{UsedVariables, comparable};
use super::files::change_record::EarlierUse;
use super::files::records::ChangeRecords;
use super::json::{map_strings, strings};
use super::rules::tool_rules::ToolRuleSet;
use accounts::{AccountDifference, KeyringValues};
use config::env::Env;
use config::{InheritEnv, StdioConfig};
use discover::{Discovery, FoundServer};
use process::launch::direct::without_version;

pub(crate) mod accounts;
pub(crate) mod client_scope;
pub(crate) mod differences;
pub(crate) mod discover;
mod exact;
mod limits;
pub mod own_entry;

/// A server that `import` writes, or that servers.json has already.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedServer {
    /// Its name in servers.json.
    pub(crate) name: String,
    /// Its entry.
    pub(crate) entry: Map<String, Value>,
    /// Whether servers.json has it already. It is then left as it is.
    pub(crate) is_known: bool,
    /// The clients that have it, each with the name that it has there and its file.
    pub(crate) origins: Vec<Origin>,
    /// The clients that had it when an import put this program in its place.
    pub(crate) earlier_uses: BTreeSet<EarlierUse>,
    /// What the clients' entries have beyond ours.
    pub(crate) notes: Vec<String>,
}

/// Where a server was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The client.
    pub(crate) app: ClientApp,
    /// Its name there.
    pub(crate) name: String,
    /// Whether it belongs to a project.
    pub(crate) is_project: bool,
    /// The variables that it uses.
    pub(crate) variables: UsedVariables,
    /// Whether the client starts it.
    pub(crate) is_on: bool,
    /// Its entry there, in our form, without the rules.
    pub(crate) entry: Map<String, Value>,
    /// What its entry there says about its tools.
    pub(crate) rules: ToolRuleSet,
    /// The server of the same name and program that is about something else.
    pub(crate) other_account: Option<(String, AccountDifference)>,
}

impl Origin {
    /// Creates a server that was found in a file of a client.
    pub(crate) fn new(app: ClientApp, is_project: bool, found: FoundServer) -> Self {
        let FoundServer { name, translated: TranslatedEntry { mut entry, variables, .. }, .. } = found;
        let is_on = entry.shift_remove("enabled") != Some(Value::Bool(false));
        let rules = ToolRuleSet::take_from(&mut entry);
        Self { app, name, is_project, variables, is_on, entry, rules, other_account: None }
    }
}

/// The servers of servers.json and of the clients, put together one by one.
#[derive(Default)]
pub(crate) struct Merger {
    /// All servers, in the order in which they were added.
    pub(crate) servers: Vec<PlannedServer>,
    /// The secrets in the keyring that servers.json names.
    pub(crate) keyring: KeyringValues,
    /// The places of the servers by their [`program_key`], in their order.
    places: HashMap<String, Vec<usize>>,
    /// The names of the servers.
    names: HashSet<String>,
}

impl Merger {
    /// Begins with the servers that servers.json has.
    pub(crate) fn new(known: Option<&Map<String, Value>>, keyring: KeyringValues) -> Self {
        let servers = known.into_iter().flatten().map(|(name, entry)| PlannedServer {
            name: name.clone(),
            entry: entry.as_object().cloned().unwrap_or_default(),
            is_known: true,
            ..PlannedServer::default()
        });
        let mut merger = Self { keyring, ..Self::default() };
        servers.for_each(|server| merger.push(server));
        merger
    }

    fn push(&mut self, server: PlannedServer) {
        self.places.entry(program_key(&server.entry)).or_default().push(self.servers.len());
        self.names.insert(server.name.clone());
        self.servers.push(server);
    }

    /// Adds all servers of clients.
    pub(crate) fn add_all(&mut self, discovery: &Discovery) {
        for file in &discovery.files {
            for place in &file.places {
                for server in &place.servers {
                    self.add(file.app, server.clone(), place.project.is_some());
                }
            }
        }
    }

    /// Adds a server of a client.
    fn add(&mut self, app: ClientApp, found: FoundServer, is_project: bool) {
        let notes = found.translated.notes.clone();
        let mut origin = Origin::new(app, is_project, found);
        match self.twin(&origin) {
            Ok(twin) => {
                let server = &mut self.servers[twin];
                server.merge(origin.entry.clone());
                server.add_notes(app, notes);
                server.origins.push(origin);
            }
            Err(other_account) => {
                origin.other_account = other_account;
                let mut server = PlannedServer::new(self.free_name(&origin.name, app), origin);
                server.add_notes(app, notes);
                self.push(server);
            }
        }
    }

    /// Returns the server that this is another entry of: one with an equal entry if there is one.
    ///
    /// # Errors
    ///
    /// Returns what keeps it apart from the first server that has its name and its program, if there is one.
    pub(crate) fn twin(&self, origin: &Origin) -> Result<usize, Option<(String, AccountDifference)>> {
        let Origin { name, entry, .. } = origin;
        let places = self.places.get(&program_key(entry)).into_iter().flatten();
        let same_program: Vec<_> = places.map(|index| (*index, &self.servers[*index])).collect();
        let is_equal = |server: &PlannedServer| have_same_members(&without_rules(&server.entry), entry);
        let named = || same_program.iter().filter(|(_, server)| server.has_name(name));
        let equal = named().chain(&same_program).find(|(_, server)| is_equal(server));
        if let Some((index, _)) = equal {
            return Ok(*index);
        }
        let mut first = None;
        // What a project brings changes no server of the user's, nor the reverse.
        let is_of_scope = |server: &PlannedServer| {
            server.is_known || server.origins.iter().all(|other| other.is_project == origin.is_project)
        };
        for (index, server) in named().filter(|(_, server)| is_of_scope(server)) {
            match self.keyring.difference(&server.entry, entry, server.is_known) {
                None => return Ok(*index),
                Some(difference) => drop(first.get_or_insert_with(|| (server.name.clone(), difference))),
            }
        }
        Err(first)
    }

    /// Gives each client whose entry of the server at `index` differs from the one that counts a server of its own.
    /// Clients with equal entries share one.
    pub(crate) fn keep_apart(&mut self, index: usize) {
        let server = &mut self.servers[index];
        if !server.is_known {
            server.entry = server.origins[0].entry.clone();
        }
        let (same, different) = std::mem::take(&mut server.origins)
            .into_iter()
            .partition::<Vec<_>, _>(|origin| have_same_members(&server.entry, &origin.entry));
        server.origins = same;
        let first = self.servers.len();
        for origin in different {
            let mut made = self.servers[first..].iter_mut();
            match made.find(|server| have_same_members(&server.entry, &origin.entry)) {
                Some(server) => server.origins.push(origin),
                None => {
                    let name = self.free_name(&origin.name, origin.app);
                    self.push(PlannedServer::new(name, origin));
                }
            }
        }
    }

    /// Notes which clients had the servers of this config file before an import replaced them. Reads the records. Notes
    /// nothing if they cannot be read.
    pub(crate) fn note_earlier_uses(&mut self, config: &Path, env: &Env) {
        // The step that writes a client's file reports why the records cannot be read.
        let Ok(records) = ChangeRecords::of_user(env) else { return };
        for server in &mut self.servers {
            server.earlier_uses = records.earlier_uses(&server.name, config);
        }
    }

    /// Returns the name, or one with the client's name if another server has it.
    fn free_name(&self, name: &str, app: ClientApp) -> String {
        let with_client = format!("{name}-{}", app.id);
        let numbered = (2..).map(|number| format!("{with_client}-{number}"));
        let mut names = [name.to_owned(), with_client.clone()].into_iter().chain(numbered);
        let is_free = |name: &String| !self.names.contains(name);
        names.find(is_free).unwrap_or_else(|| name.to_owned())
    }
}

impl PlannedServer {
    /// One that a client has.
    fn new(name: String, origin: Origin) -> Self {
        Self { name, entry: origin.entry.clone(), origins: vec![origin], ..Self::default() }
    }

    /// Returns whether this is its name, here or with one of the clients, or the name that an import gave it beside
    /// another one.
    fn has_name(&self, name: &str) -> bool {
        self.name == name
            || self.origins.iter().any(|origin| origin.name == name)
            || ClientApp::all().iter().any(|app| self.name_in(*app) == name)
    }

    /// The name by which a client that has it no more is likely to have known it: without what an import added.
    pub(crate) fn name_in(&self, app: ClientApp) -> &str {
        let added = format!("-{}", app.id);
        let known = self.name.rsplit_once(added.as_str()).filter(|(name, _)| !name.is_empty());
        known.filter(|(_, number)| is_number_or_nothing(number)).map_or(&self.name, |(name, _)| name)
    }

    fn add_notes(&mut self, app: ClientApp, notes: Vec<String>) {
        self.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", app.label)));
    }

    /// Adds what only the other entry has. A server that servers.json has already stays as it is.
    fn merge(&mut self, other: Map<String, Value>) {
        if self.is_known {
            return;
        }
        self.loosen_timeout(&other);
        for (name, theirs) in other.into_iter().filter(|(name, _)| name != "timeout") {
            match (self.entry.get_mut(&name), theirs) {
                (None, theirs) => drop(self.entry.insert(name, theirs)),
                (Some(Value::Object(ours)), Value::Object(theirs))
                    if matches!(name.as_str(), "env" | "headers") =>
                {
                    for (member, value) in theirs {
                        let is_there = |known: &String| {
                            *known == member || name == "headers" && known.eq_ignore_ascii_case(&member)
                        };
                        if !ours.keys().any(is_there) {
                            ours.insert(member, value);
                        }
                    }
                }
                (Some(Value::Array(ours)), Value::Array(theirs)) if name == "inherit_env" => {
                    let new: Vec<_> = theirs.into_iter().filter(|name| !ours.contains(name)).collect();
                    ours.extend(new);
                }
                // The whole environment has every variable.
                (Some(ours), theirs @ Value::Bool(true)) if name == "inherit_env" => *ours = theirs,
                _ => {}
            }
        }
    }

    /// Returns the variables that only clients know, with what each client writes. `is_project`: for its file of the
    /// project, where the inputs of the user's file have no value.
    pub(crate) fn client_variables(&self, app: ClientApp, is_project: bool) -> BTreeMap<String, Value> {
        let origins = self.origins.iter().filter(|origin| origin.app == app);
        let known = origins.flat_map(|origin| {
            let has_value =
                move |text: &str| origin.is_project == is_project || !text.starts_with("${input:");
            origin.variables.client.iter().filter(move |(_, text)| has_value(text))
        });
        known.map(|(name, text)| (name.clone(), text.as_str().into())).collect()
    }
}

/// Returns an entry without what it says about its tools, and about whether it is on.
fn without_rules(entry: &Map<String, Value>) -> Map<String, Value> {
    let mut entry = entry.clone();
    entry.shift_remove("enabled");
    ToolRuleSet::take_from(&mut entry);
    entry
}

/// Returns whether this is what `Merger::free_name` may put after the client.
fn is_number_or_nothing(text: &str) -> bool {
    text.is_empty() || text.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the program or the address of an entry, as one text for all ways to write it and for all versions of a package.
fn program_key(entry: &Map<String, Value>) -> String {
    let args_without_version = || {
        let command = entry.get("command")?.as_str()?.to_owned();
        let args = strings(entry.get("args")).map(comparable).collect();
        let (env, cwd, inherit_env) = (BTreeMap::new(), None, InheritEnv::Safe);
        without_version(&StdioConfig { command, args, env, cwd, inherit_env })
    };
    match args_without_version() {
        Some(args) => {
            let mut entry = entry.clone();
            entry.insert("args".to_owned(), args.into());
            command_key(&entry)
        }
        None => command_key(entry),
    }
}

/// Returns whether two entries run the same command, or contact the same server.
pub(crate) fn is_same_command(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    command_key(ours) == command_key(theirs)
}

/// Returns the command or the address of an entry, as one text for all ways to write it.
fn command_key(entry: &Map<String, Value>) -> String {
    let is_given = |value: &&Value| !value.as_array().is_some_and(Vec::is_empty);
    let value = |name| entry.get(name).filter(is_given).map(in_one_form);
    json!([value("command"), value("args"), value("url")]).to_string()
}

/// Returns a value in which equal values are equal. A string can be written in several ways.
fn in_one_form(value: &Value) -> Value {
    map_strings(value, &mut comparable)
}

/// Returns whether two entries have the same value in a field, or both have none.
fn is_equal(ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    ours.map(in_one_form) == theirs.map(in_one_form)
}

fn have_same_members(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    ours.len() == theirs.len() && ours.iter().all(|(name, value)| is_equal(Some(value), theirs.get(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::differences::{FieldDifference, prefer};

    fn add(merger: &mut Merger, app: ClientApp, name: &str, entry: Value) {
        let entry = entry.as_object().unwrap().clone();
        let translated = TranslatedEntry { entry, ..TranslatedEntry::default() };
        merger.add(app, FoundServer { name: name.to_owned(), translated, taken: Vec::new() }, false);
    }

    fn names(merger: &Merger) -> Vec<&str> {
        merger.servers.iter().map(|server| server.name.as_str()).collect()
    }

    #[test]
    fn the_same_server_of_several_clients_is_one_server() {
        let mut merger = Merger::default();
        add(
            &mut merger,
            ClientApp::Cursor,
            "fs",
            json!({"command": "npx", "args": ["fs"], "env": {"LOG_LEVEL": "1"}}),
        );
        add(
            &mut merger,
            ClientApp::Codex,
            "fs",
            json!({"command": "npx", "args": ["fs"], "env": {"LOG_LEVEL": "2", "DEBUG": "3"}}),
        );
        add(&mut merger, ClientApp::Gemini, "fs", json!({"command": "npx", "args": ["other"]}));
        add(&mut merger, ClientApp::Copilot, "files", json!({"command": "npx", "args": ["other"]}));
        add(
            &mut merger,
            ClientApp::Copilot,
            "work",
            json!({"command": "npx", "args": ["other"], "env": {"X": "y"}}),
        );
        assert_eq!(names(&merger), ["fs", "fs-gemini", "work"]);
        let first = &merger.servers[0];
        assert_eq!(first.entry["env"], json!({"LOG_LEVEL": "1", "DEBUG": "3"}));
        let differences: Vec<_> =
            FieldDifference::all(first).iter().map(|difference| difference.describe_outcome(None)).collect();
        assert_eq!(
            differences,
            [
                "env.LOG_LEVEL is 1 in Cursor, 2 in Codex; that of Cursor counts",
                "env.DEBUG is not set in Cursor, 3 in Codex; that of Codex counts"
            ]
        );
        let origins: Vec<_> = merger.servers[1].origins.iter().map(|origin| origin.name.as_str()).collect();
        assert_eq!(origins, ["fs", "files"]);
        prefer(&mut merger.servers[0], 1);
        assert_eq!(merger.servers[0].entry["env"], json!({"LOG_LEVEL": "2", "DEBUG": "3"}));
        merger.keep_apart(0);
        assert_eq!(names(&merger), ["fs", "fs-gemini", "work", "fs-codex"]);
        assert_eq!(merger.servers[0].entry["env"], json!({"LOG_LEVEL": "1"}));
        assert_eq!(merger.servers[3].entry["env"], json!({"LOG_LEVEL": "2", "DEBUG": "3"}));
        assert!(merger.servers.iter().all(|server| FieldDifference::all(server).is_empty()));
    }

    #[test]
    fn accounts_stay_apart_under_names_by_which_they_are_found_again() {
        let entry = |token: &str| json!({"command": "gh", "env": {"GITHUB_TOKEN": token}});
        let (work, home) = (entry("ghp_0123456789abcdefWORK"), entry("ghp_0123456789abcdefHOME"));
        let clients = [(ClientApp::ClaudeCode, &work), (ClientApp::Cursor, &home), (ClientApp::Codex, &home)];
        let mut merger = Merger::default();
        for (app, entry) in clients {
            add(&mut merger, app, "github", entry.clone());
        }
        assert_eq!(names(&merger), ["github", "github-cursor"]);
        let other = merger.servers[1].origins[0].other_account.as_ref().unwrap();
        assert_eq!(other.0, "github");
        // Servers are known without their clients.
        let known = json!({"github": work, "github-cursor": home});
        let mut again = Merger::new(known.as_object(), KeyringValues::default());
        for (app, entry) in clients {
            add(&mut again, app, "github", entry.clone());
        }
        assert_eq!(names(&again), ["github", "github-cursor"]);
        let counts: Vec<_> = again.servers.iter().map(|server| server.origins.len()).collect();
        assert_eq!(counts, [1, 2]);
        add(&mut again, ClientApp::Cursor, "github", entry("other-secret"));
        assert_eq!(names(&again), ["github", "github-cursor", "github-cursor-2"]);
    }

    #[test]
    fn a_string_that_is_written_in_another_way_is_the_same() {
        let known =
            json!({"fs": {"command": "a", "args": ["$$5 $${A} {env:B} {{file:x}"], "env": {"A": "$$"}}});
        let mut merger = Merger::new(known.as_object(), KeyringValues::default());
        let imported = json!({"command": "a", "args": ["$5 $${A} ${B} {{file:x}"], "env": {"A": "$"}});
        add(&mut merger, ClientApp::Cursor, "fs", imported.clone());
        add(&mut merger, ClientApp::Cursor, "other-name", imported);
        assert_eq!((names(&merger), FieldDifference::all(&merger.servers[0]).len()), (vec!["fs"], 0));
        // A text is not the variable that looks like it.
        add(
            &mut merger,
            ClientApp::Cursor,
            "fs",
            json!({"command": "a", "args": ["$5 $${A} ${B} {file:x}"]}),
        );
        assert_eq!(names(&merger), ["fs", "fs-cursor"]);
    }

    #[test]
    fn what_servers_json_has_is_never_changed() {
        let known = json!({"fs": {"command": "a", "env": {"LOG_LEVEL": "1"}}, "x": {"command": "b"}});
        let mut merger = Merger::new(known.as_object(), KeyringValues::default());
        add(
            &mut merger,
            ClientApp::Cursor,
            "fs",
            json!({"command": "a", "args": [], "env": {"LOG_LEVEL": "2", "DEBUG": "1"}, "timeout": "9s"}),
        );
        add(&mut merger, ClientApp::Cursor, "x", json!({"command": "other"}));
        assert_eq!(names(&merger), ["fs", "x", "x-cursor"]);
        assert_eq!(json!(merger.servers[0].entry), known["fs"]);
        let differences: Vec<_> = FieldDifference::all(&merger.servers[0])
            .iter()
            .map(|difference| difference.describe_outcome(Some("servers.json")))
            .collect();
        assert_eq!(
            differences,
            [
                "env.LOG_LEVEL is 2 in Cursor; it is 1 in servers.json, which counts",
                "env.DEBUG is 1 in Cursor; it is not set in servers.json, which counts",
                "timeout is 9s in Cursor; it is not set in servers.json, which counts"
            ]
        );
        // What the user added stays; a client's own directory is another server.
        let known = json!({"fs": {"command": "a", "cwd": "/mine"}});
        let mut merger = Merger::new(known.as_object(), KeyringValues::default());
        add(&mut merger, ClientApp::Cursor, "fs", json!({"command": "a"}));
        add(&mut merger, ClientApp::Codex, "fs", json!({"command": "a", "cwd": "/other"}));
        assert_eq!(names(&merger), ["fs", "fs-codex"]);
    }
}
