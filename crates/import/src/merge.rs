//! Merges the servers of several clients with each other and with the servers of servers.json.
//!
//! A server is recognized by what it runs or contacts: its command with the arguments, or its URL. The version of a package
//! does not count. Servers of one name and one program are one server if they are about the same thing and allow the same
//! tools (`accounts`); where the clients' entries differ in other fields (`differences`), the first client's value counts.
//! All others stay apart, the later one under a name of its own, by which the next import finds it. Servers of different
//! names are one only if everything is equal.
//!
//! # Theory of operation
//!
//! `discover` reads the clients' files and finds the servers in them; `own_entry` finds the entry that starts this program,
//! also for `check`, and names the config that it reads. `Merger` then goes through the servers. `accounts` tells entries of
//! different accounts apart, and `differences` finds the other fields that differ. `limits` has the looser time limits.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::clients::apps::ClientApp;
use super::clients::entry_order::in_order;
use super::clients::translate::TranslatedEntry;
use super::clients::variables::{UsedVariables, comparable};
use super::files::records::ChangeRecords;
use super::json::{map_strings, members, strings};
use super::source::{literal, read_text, servers_keys, value_at};
use accounts::{AccountDifference, KeyringValues, member_key};
use base::text::{name, visible};
use config::env::Env;
use config::{InheritEnv, StdioConfig};
use discover::{FoundServer, discover};
use process::launch::direct::without_version;

pub(crate) mod accounts;
pub(crate) mod differences;
pub(crate) mod discover;
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
    /// The clients that have it.
    pub(crate) origins: Vec<Origin>,
    /// The clients that had it when an import put this program in its place.
    pub(crate) earlier_users: BTreeSet<ClientApp>,
}

/// Where a server was found.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The client.
    pub(crate) app: ClientApp,
    /// Its name there.
    pub(crate) name: String,
    /// The name by which the client's rules know it.
    pub(crate) client_name: String,
    /// The variables that it uses.
    pub(crate) variables: UsedVariables,
    /// Whether the client starts it.
    pub(crate) is_on: bool,
    /// Its entry there, in our form.
    pub(crate) entry: Map<String, Value>,
    /// The variables that are not set here.
    pub(crate) unset: Vec<String>,
    /// The fields of its entry that mean nothing here.
    pub(crate) ignored: Vec<String>,
    /// The server of the same name and program that is about something else.
    pub(crate) other_account: Option<(String, AccountDifference)>,
}

impl Origin {
    /// Creates a server that was found in a file of a client.
    pub(crate) fn new(app: ClientApp, found: &FoundServer) -> Self {
        let FoundServer { name, client_name, translated, .. } = found.clone();
        let TranslatedEntry { mut entry, unset, ignored, variables } = translated;
        let is_on = entry.shift_remove("enabled") != Some(Value::Bool(false));
        Self { app, name, client_name, variables, is_on, entry, unset, ignored, other_account: None }
    }

    /// Returns where it was found, for texts: the client, and the name of a server of a package there.
    pub(crate) fn place(&self) -> String {
        match self.client_name == self.name {
            true => self.app.label.to_owned(),
            false => format!("{} ({})", self.app.label, visible(&self.client_name)),
        }
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
    pub(crate) fn new(known: &Map<String, Value>, keyring: KeyringValues) -> Self {
        let servers = known.iter().map(|(name, entry)| PlannedServer {
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

    /// Adds a server of a client.
    pub(crate) fn add(&mut self, app: ClientApp, found: &FoundServer) {
        let mut origin = Origin::new(app, found);
        match self.twin(&origin) {
            Ok(twin) => {
                let server = &mut self.servers[twin];
                server.merge(origin.entry.clone());
                server.origins.push(origin);
            }
            Err(other_account) => {
                origin.other_account = other_account;
                let name = self.name_for(&origin.name, app);
                let entry = origin.entry.clone();
                self.push(PlannedServer { name, entry, origins: vec![origin], ..PlannedServer::default() });
            }
        }
    }

    /// Adds a client's entry to the server that it is of, by its content or by one of these names. Returns whether there is
    /// one.
    pub(crate) fn attach(&mut self, origin: Origin, own_name: &str) -> bool {
        let of_name = |name: &str| self.servers.iter().position(|server| server.name == name);
        let twin = self.twin(&origin).ok();
        let index = twin.or_else(|| of_name(own_name)).or_else(|| of_name(&origin.name));
        let server = index.and_then(|index| self.servers.get_mut(index));
        server.map(|server| server.origins.push(origin)).is_some()
    }

    /// Returns the server that this is another entry of: one with an equal entry if there is one.
    ///
    /// # Errors
    ///
    /// Returns what keeps it apart from the first server that has its name and its program, if there is one.
    fn twin(&self, origin: &Origin) -> Result<usize, Option<(String, AccountDifference)>> {
        let Origin { name, entry, .. } = origin;
        let places = self.places.get(&program_key(entry)).into_iter().flatten();
        let same_program: Vec<_> = places.map(|index| (*index, &self.servers[*index])).collect();
        let is_equal = |server: &PlannedServer| {
            let mut ours = server.entry.clone();
            ours.shift_remove("enabled");
            have_same_members(&ours, entry)
        };
        let named = || same_program.iter().filter(|(_, server)| server.has_name(name));
        let equal = named().chain(&same_program).find(|(_, server)| is_equal(server));
        if let Some((index, _)) = equal {
            return Ok(*index);
        }
        let mut first = None;
        for (index, server) in named() {
            match self.keyring.difference(&server.entry, entry, server.is_known) {
                None => return Ok(*index),
                Some(difference) => drop(first.get_or_insert_with(|| (server.name.clone(), difference))),
            }
        }
        Err(first)
    }

    /// Ends the merge: a server is off if all of its clients have it off. Notes which clients had the servers of this config
    /// file before an import replaced them, if the records can be read.
    pub(crate) fn finish(mut self, config: &Path, env: &Env) -> (Vec<PlannedServer>, KeyringValues) {
        // The step that writes a client's file reports why the records cannot be read.
        let records = ChangeRecords::of_user(env).ok();
        for server in &mut self.servers {
            let users = records.as_ref().map(|records| records.earlier_users(&server.name, config));
            server.earlier_users = users.unwrap_or_default();
            if server.is_known {
                continue;
            }
            if server.origins.iter().all(|origin| !origin.is_on) {
                server.entry.insert("enabled".to_owned(), Value::Bool(false));
            }
            server.entry = in_order(std::mem::take(&mut server.entry));
        }
        (self.servers, self.keyring)
    }

    /// Returns the name, or one with the client's name if another server has it.
    fn name_for(&self, name: &str, app: ClientApp) -> String {
        let is_free = |name: &str| !self.names.contains(name);
        if is_free(name) { name.to_owned() } else { free_name(&format!("{name}-{}", app.id), is_free) }
    }
}

/// Returns the name, or else the first free one of those with a number behind it.
pub(crate) fn free_name(name: &str, is_free: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| is_free(name)).unwrap_or_default()
}

impl PlannedServer {
    /// Returns whether its entry turns it off.
    pub(crate) fn is_off(&self) -> bool {
        self.entry.get("enabled") == Some(&Value::Bool(false))
    }

    /// Returns whether this is its name, here or with one of the clients, or the name that an import gave it beside
    /// another one.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.name == name
            || self.origins.iter().any(|origin| origin.name == name)
            || ClientApp::all().any(|app| self.name_in(app) == name)
    }

    /// The name by which a client that has it no more is likely to have known it: without what an import added.
    pub(crate) fn name_in(&self, app: ClientApp) -> &str {
        let added = format!("-{}", app.id);
        let known = self.name.rsplit_once(added.as_str()).filter(|(name, _)| !name.is_empty());
        known.filter(|(_, number)| is_number_or_nothing(number)).map_or(&self.name, |(name, _)| name)
    }

    /// Adds what only the other entry has. A server that servers.json has already stays as it is.
    fn merge(&mut self, other: Map<String, Value>) {
        if self.is_known {
            return;
        }
        self.loosen_timeout(&other);
        for (field, theirs) in other.into_iter().filter(|(field, _)| field != "timeout") {
            match (self.entry.get_mut(&field), theirs) {
                (None, theirs) => drop(self.entry.insert(field, theirs)),
                (Some(Value::Object(ours)), Value::Object(theirs))
                    if matches!(field.as_str(), "env" | "headers") =>
                {
                    for (member, value) in theirs {
                        let key = |name: &str| member_key(&field, name);
                        if !ours.keys().any(|known| key(known) == key(&member)) {
                            ours.insert(member, value);
                        }
                    }
                }
                (Some(Value::Array(ours)), Value::Array(theirs)) if field == "inherit_env" => {
                    let new: Vec<_> = theirs.into_iter().filter(|name| !ours.contains(name)).collect();
                    ours.extend(new);
                }
                // The whole environment has every variable.
                (Some(ours), theirs @ Value::Bool(true)) if field == "inherit_env" => *ours = theirs,
                _ => {}
            }
        }
    }

    /// Returns the variables that only the client knows, with what it writes.
    pub(crate) fn client_variables(&self, app: ClientApp) -> BTreeMap<String, Value> {
        let origins = self.origins.iter().filter(|origin| origin.app == app);
        let known = origins.flat_map(|origin| &origin.variables.client);
        known.map(|(name, text)| (name.clone(), text.as_str().into())).collect()
    }

    /// Returns whether two servers run the same program under one name, for different accounts.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let is_named = |name: &str| other.has_name(name);
        program_key(&self.entry) == program_key(&other.entry)
            && (is_named(&self.name) || self.origins.iter().any(|origin| is_named(&origin.name)))
    }
}

/// Returns whether this is what `Merger::name_for` may put after the client.
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
    let args = args_without_version().map(|args| ("args".to_owned(), args.into()));
    command_key(&entry.clone().into_iter().chain(args).collect())
}

/// Returns what to do about clients that start dynamic-mcp and, in a package, a server that this config file has, too.
pub fn running_twice(config: &Path, env: &Env) -> Vec<String> {
    let text = read_text(config).ok().flatten();
    let root = text.and_then(|text| literal(config, &text).ok()).unwrap_or_default();
    let known =
        members(value_at(&root, &servers_keys(config, &root))).filter_map(|(_, entry)| entry.as_object());
    let known: Vec<_> = known.collect();
    let discovery = discover(ClientApp::all(), env);
    let starts_us = |app| discovery.places_in(app).any(|(_, place)| place.own.is_some());
    let twice = discovery.places().filter(|(file, _)| starts_us(file.app)).filter_map(|(file, place)| {
        let (package, label) = (file.package.as_ref()?, file.app.label);
        let is_known = |entry| known.iter().any(|known| is_same_command(known, entry));
        let server = place.servers.iter().find(|server| is_known(&server.translated.entry))?;
        let (name, title, buttons) = (name(&server.name), visible(&package.name), package.buttons?);
        Some(format!("{label} runs {name} a second time: turn off {title} in {buttons}"))
    });
    twice.collect()
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
    use crate::merge::differences::FieldDifference;

    fn add(merger: &mut Merger, app: ClientApp, name: &str, entry: Value) {
        let entry = entry.as_object().unwrap().clone();
        let translated = TranslatedEntry { entry, ..TranslatedEntry::default() };
        let (name, client_name) = (name.to_owned(), name.to_owned());
        merger.add(app, &FoundServer { name, client_name, translated, switch: None });
    }

    fn names(merger: &Merger) -> Vec<&str> {
        merger.servers.iter().map(|server| server.name.as_str()).collect()
    }

    #[test]
    fn the_same_server_of_several_clients_is_one_server() {
        let mut merger = Merger::default();
        add(
            &mut merger,
            ClientApp::find("cursor").unwrap(),
            "fs",
            json!({"command": "npx", "args": ["fs"], "env": {"LOG_LEVEL": "1"}}),
        );
        add(
            &mut merger,
            ClientApp::find("codex").unwrap(),
            "fs",
            json!({"command": "npx", "args": ["fs"], "env": {"LOG_LEVEL": "2", "DEBUG": "3"}}),
        );
        add(
            &mut merger,
            ClientApp::find("gemini").unwrap(),
            "fs",
            json!({"command": "npx", "args": ["other"]}),
        );
        add(
            &mut merger,
            ClientApp::find("copilot").unwrap(),
            "files",
            json!({"command": "npx", "args": ["other"]}),
        );
        add(
            &mut merger,
            ClientApp::find("copilot").unwrap(),
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
    }

    #[test]
    fn accounts_stay_apart_under_names_by_which_they_are_found_again() {
        let entry = |token: &str| json!({"command": "gh", "env": {"GITHUB_TOKEN": token}});
        let (work, home) = (entry("ghp_0123456789abcdefWORK"), entry("ghp_0123456789abcdefHOME"));
        let clients = [
            (ClientApp::find("claude-code").unwrap(), &work),
            (ClientApp::find("cursor").unwrap(), &home),
            (ClientApp::find("codex").unwrap(), &home),
        ];
        let mut merger = Merger::default();
        for (app, entry) in clients {
            add(&mut merger, app, "github", entry.clone());
        }
        assert_eq!(names(&merger), ["github", "github-cursor"]);
        let other = merger.servers[1].origins[0].other_account.as_ref().unwrap();
        assert_eq!(other.0, "github");
        // Servers are known without their clients.
        let known = json!({"github": work, "github-cursor": home});
        let mut again = Merger::new(known.as_object().unwrap(), KeyringValues::default());
        for (app, entry) in clients {
            add(&mut again, app, "github", entry.clone());
        }
        assert_eq!(names(&again), ["github", "github-cursor"]);
        let counts: Vec<_> = again.servers.iter().map(|server| server.origins.len()).collect();
        assert_eq!(counts, [1, 2]);
        add(&mut again, ClientApp::find("cursor").unwrap(), "github", entry("other-secret"));
        assert_eq!(names(&again), ["github", "github-cursor", "github-cursor-2"]);
    }

    #[test]
    fn a_string_that_is_written_in_another_way_is_the_same() {
        let known =
            json!({"fs": {"command": "a", "args": ["$$5 $${A} {env:B} {{file:x}"], "env": {"A": "$$"}}});
        let mut merger = Merger::new(known.as_object().unwrap(), KeyringValues::default());
        let imported = json!({"command": "a", "args": ["$5 $${A} ${B} {{file:x}"], "env": {"A": "$"}});
        add(&mut merger, ClientApp::find("cursor").unwrap(), "fs", imported.clone());
        add(&mut merger, ClientApp::find("cursor").unwrap(), "other-name", imported);
        assert_eq!((names(&merger), FieldDifference::all(&merger.servers[0]).len()), (vec!["fs"], 0));
        // A text is not the variable that looks like it.
        add(
            &mut merger,
            ClientApp::find("cursor").unwrap(),
            "fs",
            json!({"command": "a", "args": ["$5 $${A} ${B} {file:x}"]}),
        );
        assert_eq!(names(&merger), ["fs", "fs-cursor"]);
    }

    #[test]
    fn what_servers_json_has_is_never_changed() {
        let known = json!({"fs": {"command": "a", "env": {"LOG_LEVEL": "1"}}, "x": {"command": "b"}});
        let mut merger = Merger::new(known.as_object().unwrap(), KeyringValues::default());
        add(
            &mut merger,
            ClientApp::find("cursor").unwrap(),
            "fs",
            json!({"command": "a", "args": [], "env": {"LOG_LEVEL": "2", "DEBUG": "1"}, "timeout": "9s"}),
        );
        add(&mut merger, ClientApp::find("cursor").unwrap(), "x", json!({"command": "other"}));
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
        let mut merger = Merger::new(known.as_object().unwrap(), KeyringValues::default());
        add(&mut merger, ClientApp::find("cursor").unwrap(), "fs", json!({"command": "a"}));
        add(&mut merger, ClientApp::find("codex").unwrap(), "fs", json!({"command": "a", "cwd": "/other"}));
        assert_eq!(names(&merger), ["fs", "fs-codex"]);
    }
}
