//! The profile that each client uses, so that it goes on to see the servers that it had, by its own rules.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::access::{ClientAccess, ClientScope, UsedServer};
use super::apps::ClientApp;
use super::discover::{Discovery, FoundServer};
use super::merge::PlannedServer;
use super::profiles::{Profile, ProfileCandidate};
use crate::text::name;

/// The profiles of an import.
#[derive(Debug, Default)]
pub(super) struct ClientProfiles {
    /// The name of each client's profile. Clients without one see every server.
    pub(super) names: BTreeMap<ClientScope, String>,
    /// All profiles that servers.json will have.
    all: BTreeMap<String, Profile>,
    /// The profiles to write, by their names.
    pub(super) changed: Vec<(String, Value)>,
    /// What is said about them.
    pub(super) lines: Vec<String>,
    /// What they cannot have.
    pub(super) not_carried: Vec<String>,
}

impl ClientProfiles {
    /// Returns whether a client sees a server.
    pub(super) fn sees(&self, scope: ClientScope, server: &str) -> bool {
        let profile = self.names.get(&scope).and_then(|name| self.all.get(name));
        profile.is_none_or(|profile| profile.chooses(server))
    }
}

/// What the profiles are made of.
pub(super) struct ProfileInput<'a> {
    /// What the clients' files have.
    pub(super) discovery: &'a Discovery,
    /// The servers of servers.json, with the new ones.
    pub(super) servers: &'a [PlannedServer],
    /// What each client has.
    pub(super) clients: &'a [ClientAccess],
    /// The profiles that servers.json has.
    pub(super) existing: &'a Map<String, Value>,
    /// Whether each client sees only the servers that it had.
    pub(super) keeps_apart: bool,
    /// Whether the clients' entries are written.
    pub(super) write_client: bool,
}

impl ProfileInput<'_> {
    /// Makes the profiles.
    pub(super) fn profiles(&self) -> ClientProfiles {
        let mut profiles = ClientProfiles::default();
        let mut known: BTreeMap<String, Profile> = self
            .existing
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), Profile::read(value)?)))
            .collect();
        let before = known.clone();
        for (scope, own) in own_profiles(self.discovery) {
            let client = self.clients.iter().find(|client| client.scope == scope);
            self.keep(scope, own.as_deref(), client, &mut known, &mut profiles);
        }
        self.leave_out_project_servers(&mut known, &profiles);
        self.mention_new_servers(&known, &mut profiles);
        for client in self.clients {
            let is_own = own_profiles(self.discovery).any(|(scope, _)| scope == client.scope);
            if !is_own {
                self.make(client, &mut known, &mut profiles);
            }
            profiles
                .lines
                .extend(client.remarks.iter().map(|remark| format!("{} {remark}", client.scope.label())));
        }
        let changed = known.iter().filter(|(name, profile)| before.get(*name) != Some(*profile));
        profiles.changed = changed.map(|(name, profile)| (name.clone(), profile.value())).collect();
        profiles.all = known;
        profiles
    }

    /// Whether this client does not see a server: it is one of other clients, or, in the project, one that the client does
    /// not see elsewhere.
    fn is_left_out(&self, client: &ClientAccess, index: usize, server: &PlannedServer) -> bool {
        let is_on = |client: &ClientAccess| client.servers.get(&index).is_some_and(|used| used.is_on);
        let elsewhere = ClientScope { is_project: false, ..client.scope };
        let elsewhere =
            own_profiles(self.discovery).find(|(scope, _)| client.scope.is_project && *scope == elsewhere);
        let elsewhere = elsewhere.and_then(|(_, profile)| Profile::read(self.existing.get(&profile?)?));
        let is_unseen = elsewhere.is_some_and(|profile| !profile.chooses(&server.name));
        self.keeps_apart && !is_on(client) && (is_unseen || self.clients.iter().any(is_on))
    }

    /// Leaves the new servers of the project out of the profiles of clients elsewhere.
    fn leave_out_project_servers(&self, known: &mut BTreeMap<String, Profile>, profiles: &ClientProfiles) {
        let is_used_there =
            |name: &String| profiles.names.iter().any(|(scope, profile)| scope.is_project && profile == name);
        let is_of_client = |name: &str| {
            let mut rests = ClientApp::all().iter().filter_map(|app| name.strip_prefix(app.id()));
            rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let is_of_project = |server: &&PlannedServer| {
            !server.is_known
                && !server.origins.is_empty()
                && server.origins.iter().all(|origin| origin.is_project)
        };
        for server in self.servers.iter().filter(is_of_project).filter(|_| self.keeps_apart) {
            for (name, profile) in known.iter_mut() {
                if is_of_client(name) && !is_used_there(name) && profile.chooses(&server.name) {
                    *profile = profile.clone().without([server.name.as_str()]);
                }
            }
        }
    }

    /// Says which clients that use this program already see new servers of other clients.
    fn mention_new_servers(&self, known: &BTreeMap<String, Profile>, profiles: &mut ClientProfiles) {
        for (scope, own) in own_profiles(self.discovery).filter(|_| self.keeps_apart) {
            let client = self.clients.iter().find(|client| client.scope == scope);
            let profile = own.and_then(|own| known.get(&own));
            let is_other = |index: usize| client.is_none_or(|client| !client.servers.contains_key(&index));
            let sees = |(index, server): &(usize, &PlannedServer)| {
                let is_chosen = profile.is_none_or(|profile| profile.chooses(&server.name));
                !server.is_known && is_other(*index) && is_chosen
            };
            let new: Vec<_> =
                self.servers.iter().enumerate().filter(sees).map(|(_, server)| name(&server.name)).collect();
            if !new.is_empty() {
                profiles.lines.push(format!(
                    "{} uses dynamic-mcp already, and sees the new servers too: {}",
                    scope.label(),
                    new.join(", ")
                ));
            }
        }
    }

    /// The clients without an entry for this program, with the number of servers that each has, if some have not all.
    pub(super) fn differing_clients(&self) -> Vec<String> {
        let is_new =
            |client: &&ClientAccess| own_profiles(self.discovery).all(|(scope, _)| scope != client.scope);
        let count = |client: &ClientAccess| client.servers.values().filter(|used| used.is_on).count();
        match self.clients.iter().filter(is_new).any(|client| !self.of_others(client).is_empty()) {
            true => self
                .clients
                .iter()
                .map(|client| format!("{} {}", client.scope.label(), count(client)))
                .collect(),
            false => Vec::new(),
        }
    }

    /// The servers that other clients have and this one has not.
    fn of_others(&self, client: &ClientAccess) -> Vec<&str> {
        let indexed = self.servers.iter().enumerate();
        indexed
            .filter(|(index, server)| self.is_left_out(client, *index, server))
            .map(|(_, server)| server.name.as_str())
            .collect()
    }

    /// Makes the profile of a client that does not use this program yet, if it needs one.
    fn make(
        &self,
        client: &ClientAccess,
        known: &mut BTreeMap<String, Profile>,
        profiles: &mut ClientProfiles,
    ) {
        let has_rules = client.servers.values().any(|used| used.is_on && !used.rules.is_empty());
        let others = self.of_others(client);
        if !has_rules && (others.is_empty() || !self.write_client) {
            return;
        }
        let candidates: Vec<_> = self
            .servers
            .iter()
            .map(|server| ProfileCandidate {
                name: &server.name,
                is_new: !server.is_known,
                is_wanted: Some(!others.contains(&server.name.as_str())),
            })
            .collect();
        let fits = |profile: Option<&Profile>| {
            let mut profile = match profile {
                Some(profile) if profile.is_by_exclusion() => profile.adapted(&candidates)?,
                Some(_) => return None,
                None => Profile::of_all().without(others.iter().copied()),
            };
            self.add_rules(client, &mut profile).is_empty().then_some(profile)
        };
        let base = profile_name(client.scope, self.discovery.project.as_deref());
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        // A profile of the user's that has the name of the client stays as it is, unless it is just that.
        let is_unreadable = |name: &String| self.existing.contains_key(name) && !known.contains_key(name);
        let found = names.find_map(|name| {
            let profile = (!is_unreadable(&name)).then(|| fits(known.get(&name))).flatten()?;
            Some((name, profile))
        });
        let Some((name, profile)) = found else { return };
        let verb = if self.write_client { "gets" } else { "has its rules in" };
        profiles.lines.push(format!("{} {verb} {}", client.scope.label(), describe(&name, &profile)));
        self.describe_rules(client, profiles);
        profiles.names.insert(client.scope, name.clone());
        known.insert(name, profile);
    }

    /// Keeps the profile of a client that uses this program already: it goes on to choose what it chooses, and its new
    /// servers.
    fn keep(
        &self,
        scope: ClientScope,
        own: Option<&str>,
        client: Option<&ClientAccess>,
        known: &mut BTreeMap<String, Profile>,
        profiles: &mut ClientProfiles,
    ) {
        let own_servers = |index: &usize| client.is_some_and(|client| client.servers.contains_key(index));
        let Some(own) = own else {
            if let Some(client) =
                client.filter(|client| client.servers.values().any(|used| !used.rules.is_empty()))
            {
                self.make(&ClientAccess { servers: self.all_for(client), ..client.clone() }, known, profiles);
            }
            return;
        };
        profiles.names.insert(scope, own.to_owned());
        let Some(profile) = known.get(own) else { return };
        let candidates: Vec<_> = self
            .servers
            .iter()
            .enumerate()
            .map(|(index, server)| {
                let is_wanted = own_servers(&index).then_some(true);
                ProfileCandidate { name: &server.name, is_new: !server.is_known, is_wanted }
            })
            .collect();
        let Some(mut adapted) = profile.adapted(&candidates) else {
            profiles.not_carried.push(format!(
                "{}: its profile {} excludes servers that the client's file has; change the profile",
                scope.label(),
                name(own)
            ));
            return;
        };
        if let Some(client) = client {
            for server in self.add_rules(client, &mut adapted) {
                profiles.not_carried.push(format!(
                    "{}: the rules for {} differ from those in the profile {}, which stays as it is",
                    scope.label(),
                    name(server),
                    name(own)
                ));
            }
        }
        if adapted != *profile {
            profiles.lines.push(format!("{} keeps {}", scope.label(), describe(own, &adapted)));
            client.into_iter().for_each(|client| self.describe_rules(client, profiles));
            known.insert(own.to_owned(), adapted);
        }
    }

    /// All servers for a client that sees all, with its own rules.
    fn all_for(&self, client: &ClientAccess) -> BTreeMap<usize, UsedServer> {
        let used = |index: usize| {
            let used = client.servers.get(&index).cloned().unwrap_or_default();
            (index, UsedServer { is_on: true, ..used })
        };
        (0..self.servers.len()).map(used).collect()
    }

    /// Adds the client's rules. Returns the servers for which the profile has others.
    fn add_rules(&self, client: &ClientAccess, profile: &mut Profile) -> Vec<&str> {
        let mut differing = Vec::new();
        for (index, used) in client.servers.iter().filter(|(_, used)| !used.rules.is_empty()) {
            let server = self.servers[*index].name.as_str();
            if profile.chooses(server) && !profile.add_rules(server, &used.rules) {
                differing.push(server);
            }
        }
        differing
    }

    fn describe_rules(&self, client: &ClientAccess, profiles: &mut ClientProfiles) {
        for (index, used) in client.servers.iter().filter(|(_, used)| used.is_on && !used.rules.is_empty()) {
            profiles.lines.push(format!("  {}: {}", name(&self.servers[*index].name), used.rules.describe()));
        }
    }
}

fn describe(profile: &str, chosen: &Profile) -> String {
    format!("the profile {}: {}", name(profile), chosen.describe())
}

/// The clients whose files have an entry for this program, with the profile that it names.
pub(super) fn own_profiles(discovery: &Discovery) -> impl Iterator<Item = (ClientScope, Option<String>)> {
    discovery.files.iter().flat_map(|file| {
        file.places.iter().filter_map(|place| {
            let scope = ClientScope { app: file.app, is_project: place.project.is_some() };
            Some((scope, profile_of(place.own.as_ref()?)))
        })
    })
}

/// The profile that an entry for this program names.
fn profile_of(own: &FoundServer) -> Option<String> {
    let entry = &own.translated.entry;
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let args: Vec<&str> = args.collect();
    let follows = |pair: &[&str]| (pair[0] == "--profile").then(|| pair[1].to_owned());
    let in_args = args.windows(2).find_map(follows);
    let in_args =
        in_args.or_else(|| args.iter().find_map(|arg| Some(arg.strip_prefix("--profile=")?.to_owned())));
    in_args.or_else(|| Some(entry.get("env")?.get("DYNAMIC_MCP_PROFILE")?.as_str()?.to_owned()))
}

/// The name of a client's profile.
fn profile_name(scope: ClientScope, project: Option<&Path>) -> String {
    let dir = project.filter(|_| scope.is_project).and_then(Path::file_name).map(|dir| dir.to_string_lossy());
    match dir {
        Some(dir) => {
            let dir: String =
                dir.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
            format!("{}-{dir}", scope.app.id())
        }
        None => scope.app.id().to_owned(),
    }
}
