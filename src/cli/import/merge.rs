//! Puts the servers of several clients together, and with those of servers.json.
//!
//! A server is recognized by what it runs or contacts: its command with the arguments, or its URL. Servers of one name
//! and one program are one server if they are about the same thing (`accounts`); where the clients' entries differ in other
//! fields, the first client's value counts and the difference is a conflict. Servers of one name and different programs
//! or accounts both stay, the later one under a name of its own, by which the next import finds it. Servers of different
//! names are one only if everything is equal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::accounts::{AccountDifference, KeyringValues};
use super::apps::ClientApp;
use super::discover::FoundServer;
use super::records::ChangeRecords;
use super::tool_rules::ToolRuleSet;
use super::translate::TranslatedEntry;
use super::variables::{UsedVariables, comparable};
use crate::config::vars::Env;

/// A server that `import` writes, or that servers.json has already.
#[derive(Clone, Debug)]
pub(super) struct PlannedServer {
    /// Its name in servers.json.
    pub(super) name: String,
    /// Its entry.
    pub(super) entry: Map<String, Value>,
    /// Whether servers.json has it already. It is then left as it is.
    pub(super) is_known: bool,
    /// The clients that have it, each with the name that it has there and its file.
    pub(super) origins: Vec<Origin>,
    /// The clients that had it when an import put this program in its place.
    pub(super) earlier_clients: BTreeSet<ClientApp>,
    /// What the clients' entries have beyond ours.
    pub(super) notes: Vec<String>,
    /// Fields in which the entries differ.
    pub(super) conflicts: Vec<Conflict>,
}

/// Where a server was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The client.
    pub(super) app: ClientApp,
    /// Its name there.
    pub(super) name: String,
    /// Whether it belongs to a project.
    pub(super) is_project: bool,
    /// The variables that it uses.
    pub(super) variables: UsedVariables,
    /// Whether the client starts it.
    pub(super) is_on: bool,
    /// What its entry there says about its tools.
    pub(super) rules: ToolRuleSet,
    /// The server of the same name and program that is about something else.
    pub(super) other_account: Option<(String, AccountDifference)>,
}

/// A field in which the entries of two clients differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conflict {
    /// The field, and within `env` and `headers` the member.
    pub(super) path: Vec<String>,
    /// The value of the later client.
    pub(super) other: Value,
    /// The later client.
    pub(super) app: ClientApp,
    /// Whether the later client's value counts.
    pub(super) is_taken: bool,
}

/// The servers of servers.json and of the clients, put together one by one.
#[derive(Default)]
pub(super) struct Merger {
    /// All servers, in the order in which they were added.
    pub(super) servers: Vec<PlannedServer>,
    keyring: KeyringValues,
}

impl Merger {
    /// Begins with the servers that servers.json has.
    pub(super) fn new(known: Option<&Map<String, Value>>, keyring: KeyringValues) -> Self {
        let servers = known.into_iter().flatten().map(|(name, entry)| PlannedServer {
            name: name.clone(),
            entry: entry.as_object().cloned().unwrap_or_default(),
            is_known: true,
            origins: Vec::new(),
            earlier_clients: BTreeSet::new(),
            notes: Vec::new(),
            conflicts: Vec::new(),
        });
        Self { servers: servers.collect(), keyring }
    }

    /// Adds a server of a client.
    pub(super) fn add(&mut self, app: ClientApp, found: FoundServer, is_project: bool) {
        let FoundServer { name, translated } = found;
        let TranslatedEntry { mut entry, notes, variables } = translated;
        let is_on = entry.shift_remove("enabled") != Some(Value::Bool(false));
        let rules = ToolRuleSet::take_from(&mut entry);
        let mut origin =
            Origin { app, name: name.clone(), is_project, variables, is_on, rules, other_account: None };
        for server in self.servers.iter_mut().filter(|server| is_same_program(&server.entry, &entry)) {
            let is_twin = match server.has_name(&name) {
                false => have_same_members(&without_rules(&server.entry), &entry),
                true => match self.keyring.difference(&server.entry, &entry) {
                    None => true,
                    Some(difference) => {
                        origin.other_account.get_or_insert_with(|| (server.name.clone(), difference));
                        false
                    }
                },
            };
            if is_twin {
                origin.other_account = None;
                server.merge(entry, app);
                server.add_notes(app, notes);
                server.origins.push(origin);
                return;
            }
        }
        let mut server = PlannedServer {
            name: self.free_name(&name, app),
            entry,
            is_known: false,
            origins: vec![origin],
            earlier_clients: BTreeSet::new(),
            notes: Vec::new(),
            conflicts: Vec::new(),
        };
        server.add_notes(app, notes);
        self.servers.push(server);
    }

    /// Notes which clients had the servers of this config file before an import replaced them.
    pub(super) fn note_earlier_clients(&mut self, config: &Path, env: &Env) {
        // Whatever writes a client's file says why the records cannot be read.
        let Ok(records) = ChangeRecords::of_user(env) else { return };
        for server in &mut self.servers {
            server.earlier_clients = records.clients_of(&server.name, config);
        }
    }

    /// The name, or one with the client's name if another server has it.
    fn free_name(&self, name: &str, app: ClientApp) -> String {
        let with_client = format!("{name}-{}", app.id());
        let numbered = (2..).map(|number| format!("{with_client}-{number}"));
        let mut names = [name.to_owned(), with_client.clone()].into_iter().chain(numbered);
        let is_free = |name: &String| self.servers.iter().all(|server| server.name != *name);
        names.find(is_free).unwrap_or_else(|| name.to_owned())
    }
}

impl PlannedServer {
    /// Whether this is its name, here or with one of the clients, or the name that an import gave it beside another one.
    fn has_name(&self, name: &str) -> bool {
        let is_given = || {
            let client = self.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            client.is_some_and(|client| {
                ClientApp::all()
                    .iter()
                    .filter_map(|app| client.strip_prefix(app.id()))
                    .any(is_number_or_nothing)
            })
        };
        self.name == name || self.origins.iter().any(|origin| origin.name == name) || is_given()
    }

    /// The name by which a client that has it no more is likely to have known it: without what an import added.
    pub(super) fn name_in(&self, app: ClientApp) -> &str {
        let added = format!("-{}", app.id());
        let known = self.name.rsplit_once(added.as_str()).filter(|(name, _)| !name.is_empty());
        known.filter(|(_, number)| is_number_or_nothing(number)).map_or(&self.name, |(name, _)| name)
    }

    fn add_notes(&mut self, app: ClientApp, notes: Vec<String>) {
        self.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", app.label())));
    }

    /// Adds what only the other entry has, and notes the differences.
    fn merge(&mut self, other: Map<String, Value>, app: ClientApp) {
        for (name, theirs) in other {
            match self.entry.get_mut(&name) {
                None if self.is_known => {}
                None => drop(self.entry.insert(name, theirs)),
                Some(ours) if is_same(ours, &theirs) => {}
                Some(Value::Object(ours)) if matches!(name.as_str(), "env" | "headers") => {
                    let Value::Object(theirs) = theirs else { continue };
                    for (member, value) in theirs {
                        match ours.get(&member) {
                            None if self.is_known => {}
                            None => drop(ours.insert(member, value)),
                            Some(known) if is_same(known, &value) => {}
                            Some(_) => {
                                let path = vec![name.clone(), member];
                                self.conflicts.push(Conflict { path, other: value, app, is_taken: false });
                            }
                        }
                    }
                }
                Some(_) => {
                    self.conflicts.push(Conflict { path: vec![name], other: theirs, app, is_taken: false });
                }
            }
        }
    }

    /// Takes the later client's value of a conflict.
    pub(super) fn take_other(&mut self, index: usize) {
        let Some(conflict) = self.conflicts.get_mut(index) else { return };
        conflict.is_taken = true;
        let other = conflict.other.clone();
        match conflict.path.as_slice() {
            [field, member] => {
                let members = self.entry.entry(field.as_str()).or_insert_with(|| json!({}));
                if let Value::Object(members) = members {
                    members.insert(member.clone(), other);
                }
            }
            [field, ..] => drop(self.entry.insert(field.clone(), other)),
            [] => {}
        }
    }

    /// The variables that only clients know, with what each client writes.
    pub(super) fn client_variables(&self, app: ClientApp) -> BTreeMap<String, String> {
        let origins = self.origins.iter().filter(|origin| origin.app == app);
        origins.flat_map(|origin| origin.variables.client.clone()).collect()
    }
}

/// An entry without what it says about its tools, and about whether it is on.
fn without_rules(entry: &Map<String, Value>) -> Map<String, Value> {
    let mut entry = entry.clone();
    entry.shift_remove("enabled");
    ToolRuleSet::take_from(&mut entry);
    entry
}

/// Whether this is what `Merger::free_name` may put after the client.
fn is_number_or_nothing(text: &str) -> bool {
    text.is_empty() || text.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Whether two entries run the same command, or contact the same server.
fn is_same_program(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    ["command", "args", "url"].iter().all(|name| {
        fn value<'e>(entry: &'e Map<String, Value>, name: &str) -> Option<&'e Value> {
            entry.get(name).filter(|value| !value.as_array().is_some_and(Vec::is_empty))
        }
        match (value(ours, name), value(theirs, name)) {
            (Some(ours), Some(theirs)) => is_same(ours, theirs),
            (ours, theirs) => ours == theirs,
        }
    })
}

/// Whether two values are equal when they are read. A string can be written in several ways.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::String(ours), Value::String(theirs)) => comparable(ours) == comparable(theirs),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => have_same_members(ours, theirs),
        _ => ours == theirs,
    }
}

fn have_same_members(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    let is_in_theirs = |(name, value)| theirs.get(name).is_some_and(|theirs| is_same(value, theirs));
    ours.len() == theirs.len() && ours.iter().all(is_in_theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(merger: &mut Merger, app: ClientApp, name: &str, entry: Value) {
        let entry = entry.as_object().unwrap().clone();
        let translated = TranslatedEntry { entry, ..TranslatedEntry::default() };
        merger.add(app, FoundServer { name: name.to_owned(), translated }, false);
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
        let path = vec!["env".to_owned(), "LOG_LEVEL".to_owned()];
        let conflict = Conflict { path, other: json!("2"), app: ClientApp::Codex, is_taken: false };
        assert_eq!(first.conflicts, std::slice::from_ref(&conflict));
        let origins: Vec<_> = merger.servers[1].origins.iter().map(|origin| origin.name.as_str()).collect();
        assert_eq!(origins, ["fs", "files"]);
        merger.servers[0].take_other(0);
        assert_eq!(merger.servers[0].entry["env"]["LOG_LEVEL"], json!("2"));
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
        assert_eq!((names(&merger), merger.servers[0].conflicts.len()), (vec!["fs"], 0));
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
            json!({"command": "a", "args": [], "env": {"LOG_LEVEL": "2", "DEBUG": "1"}, "cwd": "/"}),
        );
        add(&mut merger, ClientApp::Cursor, "x", json!({"command": "other"}));
        assert_eq!(names(&merger), ["fs", "x", "x-cursor"]);
        assert_eq!(json!(merger.servers[0].entry), known["fs"]);
        assert_eq!(merger.servers[0].conflicts.len(), 1);
    }
}
