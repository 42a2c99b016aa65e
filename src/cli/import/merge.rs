//! Puts the servers of several clients together, and with those of servers.json.
//!
//! A server is recognized by what it runs or contacts: its command with the arguments, or its URL. Servers of one name
//! and one program are one server; where the clients' entries differ in other fields, the first client's value counts and
//! the difference is a conflict. Servers of one name and different programs both stay, the later one under a name of
//! its own. Servers of different names are one only if everything is equal.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::apps::ClientApp;
use super::discover::FoundServer;
use super::variables::UsedVariables;
use crate::config::notation::canonical;

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
}

/// A field in which the entries of two clients differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conflict {
    /// The field, and within `env` and `headers` the member.
    pub(super) path: Vec<String>,
    /// The value of the later client; `None` if it has none.
    pub(super) other: Option<Value>,
    /// The later client.
    pub(super) app: ClientApp,
}

/// The servers of servers.json and of the clients, put together one by one.
#[derive(Debug, Default)]
pub(super) struct Merger {
    /// All servers, in the order in which they were added.
    pub(super) servers: Vec<PlannedServer>,
}

impl Merger {
    /// Begins with the servers that servers.json has.
    pub(super) fn new(known: Option<&Map<String, Value>>) -> Self {
        let servers = known.into_iter().flatten().map(|(name, entry)| PlannedServer {
            name: name.clone(),
            entry: entry.as_object().cloned().unwrap_or_default(),
            is_known: true,
            origins: Vec::new(),
            notes: Vec::new(),
            conflicts: Vec::new(),
        });
        Self { servers: servers.collect() }
    }

    /// Adds a server of a client.
    pub(super) fn add(&mut self, app: ClientApp, found: FoundServer, is_project: bool) {
        let FoundServer { name, translated } = found;
        let origin = Origin { app, name: name.clone(), is_project, variables: translated.variables };
        let twin = self.servers.iter().position(|server| {
            let is_same_program = is_same_program(&server.entry, &translated.entry);
            is_same_program && (server.has_name(&name) || have_same_members(&server.entry, &translated.entry))
        });
        if let Some(twin) = twin.and_then(|index| self.servers.get_mut(index)) {
            twin.merge(translated.entry, app);
            twin.add_notes(app, translated.notes);
            twin.origins.push(origin);
            return;
        }
        let mut server = PlannedServer {
            name: self.free_name(&name, app),
            entry: translated.entry,
            is_known: false,
            origins: vec![origin],
            notes: Vec::new(),
            conflicts: Vec::new(),
        };
        server.add_notes(app, translated.notes);
        self.servers.push(server);
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
    /// Whether this is its name, here or with one of the clients.
    fn has_name(&self, name: &str) -> bool {
        self.name == name || self.origins.iter().any(|origin| origin.name == name)
    }

    fn add_notes(&mut self, app: ClientApp, notes: Vec<String>) {
        self.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", app.label())));
    }

    /// Adds what only the other entry has, and notes the differences.
    fn merge(&mut self, other: Map<String, Value>, app: ClientApp) {
        // Without it in one of them, the server is on there, or has no rules.
        for name in ["enabled", "tools"] {
            if self.entry.contains_key(name) != other.contains_key(name) {
                let path = vec![name.to_owned()];
                self.conflicts.push(Conflict { path, other: other.get(name).cloned(), app });
            }
        }
        for (name, theirs) in other {
            let is_rule = matches!(name.as_str(), "enabled" | "tools");
            match self.entry.get_mut(&name) {
                None if is_rule || self.is_known => {}
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
                                self.conflicts.push(Conflict { path, other: Some(value), app });
                            }
                        }
                    }
                }
                Some(_) => self.conflicts.push(Conflict { path: vec![name], other: Some(theirs), app }),
            }
        }
    }

    /// Takes the later client's value of a conflict.
    pub(super) fn take_other(&mut self, conflict: &Conflict) {
        match (conflict.path.as_slice(), &conflict.other) {
            ([field, member], Some(value)) => {
                let members = self.entry.entry(field.as_str()).or_insert_with(|| json!({}));
                if let Value::Object(members) = members {
                    members.insert(member.clone(), value.clone());
                }
            }
            ([field, ..], Some(value)) => drop(self.entry.insert(field.clone(), value.clone())),
            ([field, ..], None) => drop(self.entry.shift_remove(field)),
            ([], _) => {}
        }
    }

    /// The variables that only clients know, with what each client writes.
    pub(super) fn client_variables(&self, app: ClientApp) -> BTreeMap<String, String> {
        let origins = self.origins.iter().filter(|origin| origin.app == app);
        origins.flat_map(|origin| origin.variables.client.clone()).collect()
    }
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
        (Value::String(ours), Value::String(theirs)) => canonical(ours) == canonical(theirs),
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
    use crate::cli::import::translate::TranslatedEntry;

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
            json!({"command": "npx", "args": ["fs"], "env": {"A": "1"}}),
        );
        add(
            &mut merger,
            ClientApp::Codex,
            "fs",
            json!({"command": "npx", "args": ["fs"], "env": {"A": "2", "B": "3"}}),
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
        assert_eq!(first.entry["env"], json!({"A": "1", "B": "3"}));
        let path = vec!["env".to_owned(), "A".to_owned()];
        let conflict = Conflict { path, other: Some(json!("2")), app: ClientApp::Codex };
        assert_eq!(first.conflicts, std::slice::from_ref(&conflict));
        let origins: Vec<_> = merger.servers[1].origins.iter().map(|origin| origin.name.as_str()).collect();
        assert_eq!(origins, ["fs", "files"]);
        merger.servers[0].take_other(&conflict);
        assert_eq!(merger.servers[0].entry["env"]["A"], json!("2"));
    }

    #[test]
    fn a_string_that_is_written_in_another_way_is_the_same() {
        let known =
            json!({"fs": {"command": "a", "args": ["$$5 $${A} {env:B} {{file:x}"], "env": {"A": "$$"}}});
        let mut merger = Merger::new(known.as_object());
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
        let known = json!({"fs": {"command": "a", "env": {"A": "1"}}, "x": {"command": "b"}});
        let mut merger = Merger::new(known.as_object());
        add(
            &mut merger,
            ClientApp::Cursor,
            "fs",
            json!({"command": "a", "args": [], "env": {"A": "2", "B": "1"}, "cwd": "/"}),
        );
        add(&mut merger, ClientApp::Cursor, "x", json!({"command": "other"}));
        assert_eq!(names(&merger), ["fs", "x", "x-cursor"]);
        assert_eq!(json!(merger.servers[0].entry), known["fs"]);
        assert_eq!(merger.servers[0].conflicts.len(), 1);
    }

    #[test]
    fn a_server_that_one_client_disables_is_a_conflict() {
        let mut merger = Merger::default();
        add(&mut merger, ClientApp::Cursor, "a", json!({"command": "a", "enabled": false}));
        add(&mut merger, ClientApp::Codex, "a", json!({"command": "a", "tools": {"allow": ["x"]}}));
        let fields: Vec<_> =
            merger.servers[0].conflicts.iter().map(|conflict| conflict.path[0].as_str()).collect();
        assert_eq!(fields, ["enabled", "tools"]);
        let conflict = merger.servers[0].conflicts[0].clone();
        merger.servers[0].take_other(&conflict);
        assert!(!merger.servers[0].entry.contains_key("enabled"));
    }
}
