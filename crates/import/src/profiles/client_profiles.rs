//! The profile that each client uses, so that it goes on to see the servers that it had, by its own rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use super::access::{ClientAccess, UsedServer};
use super::own_profiles::{OwnProfiles, own_profiles};
use super::{Profile, ProfileCandidate};
use crate::clients::apps::ClientApp;
use crate::files::change_record::EarlierUse;
use crate::merge::PlannedServer;
use crate::merge::client_scope::ClientScope;
use crate::merge::discover::{ClientFile, Discovery};
use crate::rules::tool_rules::ToolRuleSet;
use base::text::{self, name};

/// The profiles of an import.
#[derive(Debug, Default)]
pub(crate) struct ClientProfiles {
    /// The name of each client's profile. Clients without one see every server.
    pub names: BTreeMap<ClientScope, String>,
    /// All profiles of servers.json: at first those that it has, in the end those that it will have.
    all: BTreeMap<String, Profile>,
    /// The clients that use this program already, and whose entries change: each gets a profile, or sees new servers.
    pub updated: BTreeSet<ClientScope>,
    /// The clients among those that are not imported from whose entries only get a profile.
    limited: BTreeSet<ClientScope>,
    /// The profiles to write, by their names.
    pub changed: Vec<(String, Value)>,
    /// What is said about them.
    pub lines: Vec<String>,
    /// What they cannot have.
    pub(crate) not_carried: Vec<String>,
}

impl ClientProfiles {
    /// Returns the profile of a client. Without one, it sees every server.
    fn profile(&self, scope: ClientScope) -> Option<&Profile> {
        self.all.get(self.names.get(&scope)?)
    }

    /// Returns whether a client sees a server.
    pub(crate) fn sees(&self, scope: ClientScope, server: &str) -> bool {
        self.profile(scope).is_none_or(|profile| profile.chooses(server))
    }

    /// Returns whether the entry in a file of a client that is not imported from gets a profile.
    pub(crate) fn limits(&self, file: &ClientFile) -> bool {
        let mut scopes = file.places.iter().map(|place| ClientScope::of(file.app, place));
        scopes.any(|scope| self.limited.contains(&scope))
    }

    /// Returns the rules for the tools of a server in a client's profile.
    pub(crate) fn rules(&self, scope: ClientScope, server: &str) -> ToolRuleSet {
        self.profile(scope).map(|profile| profile.rules(server)).unwrap_or_default()
    }
}

/// What the profiles are made of.
pub(crate) struct ProfileInput<'a> {
    /// What the clients' files have.
    pub discovery: &'a Discovery,
    /// The servers of servers.json, with the new ones.
    pub servers: &'a [PlannedServer],
    /// What each client has.
    pub clients: &'a [ClientAccess],
    /// The profiles that servers.json has.
    pub existing: &'a Map<String, Value>,
    /// Whether each client sees only the servers that it had.
    pub(crate) keeps_apart: bool,
    /// Whether the clients' entries are written.
    pub(crate) write_client: bool,
    /// The clients that get an entry in the user's file also if they have no servers.
    pub(crate) named: &'a [ClientApp],
}

impl ProfileInput<'_> {
    /// Makes the profiles.
    pub(crate) fn profiles(&self) -> ClientProfiles {
        let read = |(name, value): (&String, &Value)| Some((name.clone(), Profile::read(value)?));
        let before: BTreeMap<String, Profile> = self.existing.iter().filter_map(read).collect();
        let mut profiles = ClientProfiles { all: before.clone(), ..ClientProfiles::default() };
        let users = own_profiles(self.discovery);
        for (scope, own) in &users {
            if let Some(own) = own {
                self.keep_profile(*scope, own, &users, &mut profiles);
            }
        }
        self.adapt_unused(&users, &mut profiles);
        for (scope, own) in &users {
            if own.is_none() {
                let client = self.with_known_servers(*scope);
                let is_other = !self.discovery.files.iter().any(|file| file.app == scope.app);
                let others = if is_other { self.of_projects(*scope) } else { self.of_others(&client) };
                if self.make_profile(&client, &others, &mut profiles) && is_other {
                    profiles.limited.insert(*scope);
                }
            }
        }
        let fresh = self.named.iter().map(|app| ClientScope { app: *app, is_project: false });
        let is_fresh = |scope: &ClientScope| {
            self.clients.iter().all(|client| client.scope != *scope) && !users.contains_key(scope)
        };
        for scope in fresh.filter(is_fresh) {
            let client = ClientAccess::new(scope, BTreeMap::new());
            self.make_profile(&client, &self.of_projects(scope), &mut profiles);
        }
        for client in self.clients {
            if !users.contains_key(&client.scope) {
                self.make_profile(client, &self.of_others(client), &mut profiles);
            }
            let remarks = client.remarks.iter().map(|remark| format!("{} {remark}", client.scope.label()));
            profiles.lines.extend(remarks);
        }
        let changed = profiles.all.iter().filter(|(name, profile)| before.get(*name) != Some(*profile));
        profiles.changed = changed.map(|(name, profile)| (name.clone(), profile.value())).collect();
        self.look_at_users(&users, &mut profiles);
        profiles
    }

    /// Returns whether a client starts a server. `None`: it does not have the server.
    fn use_of(&self, scope: ClientScope, index: usize) -> Option<bool> {
        match self.clients.iter().find(|client| client.scope == scope) {
            Some(client) => client.servers.get(&index).map(|used| used.is_on),
            None => {
                let origins = self.servers[index].origins.iter().filter(|origin| scope.has(origin));
                origins.map(|origin| origin.is_on).reduce(|one, other| one || other)
            }
        }
    }

    /// Returns whether a server is one of other clients: this one does not have it, or it is off here alone. `used`:
    /// see `use_of`. Never, if the clients are not kept apart.
    fn is_of_others(&self, used: Option<bool>, index: usize) -> bool {
        let mut others = self.clients.iter().filter_map(|client| client.servers.get(&index));
        self.keeps_apart
            && !self.servers[index].origins.is_empty()
            && used != Some(true)
            && others.any(|other| other.is_on || used.is_none())
    }

    /// Returns the directory of the project in which a client is; `None` elsewhere.
    fn project_of(&self, scope: ClientScope) -> Option<&Path> {
        self.discovery.project.as_deref().filter(|_| scope.is_project)
    }

    /// Returns whether this client does not see a server: it is one of other clients or projects, or was one when they
    /// were imported, or, in the project, it is one that the client does not see elsewhere or turns off there, or that
    /// the project's own server of that name replaces.
    fn is_left_out(&self, client: &ClientAccess, index: usize) -> bool {
        let elsewhere = ClientScope { is_project: false, ..client.scope };
        let elsewhere = own_profiles(self.discovery).remove(&elsewhere).filter(|_| client.scope.is_project);
        let elsewhere = elsewhere.and_then(|profile| Profile::read(self.existing.get(&profile?)?));
        let server = &self.servers[index];
        let is_unseen = elsewhere.is_some_and(|profile| !profile.chooses(&server.name));
        let used = client.servers.get(&index).map(|used| used.is_on);
        let had = &server.earlier_uses;
        let project = self.project_of(client.scope);
        let was_here = |had: &EarlierUse| had.app == client.scope.app && had.counts_in(project);
        let was_of_others = used.is_none() && !had.is_empty() && !had.iter().any(was_here);
        let is_replaced = client.scope.is_project && used.is_none() && {
            let mut own = self.servers.iter().flat_map(|server| &server.origins);
            own.any(|own| {
                own.app == client.scope.app && own.is_project && own.name == server.name_in(client.scope.app)
            })
        };
        let is_turned_off = server.is_known && used == Some(false);
        is_turned_off
            || self.keeps_apart && (is_unseen && used != Some(true) || was_of_others || is_replaced)
            || self.is_of_others(used, index)
            || self.is_of_project(client.scope, server)
    }

    /// Adapts the profiles that have the name of a client and are in no entry that was read, such as the profiles of
    /// other projects: they leave out new servers of others, and get the client's rules for its own.
    fn adapt_unused(&self, users: &OwnProfiles, profiles: &mut ClientProfiles) {
        let is_used = |name: &String| users.values().any(|profile| profile.as_ref() == Some(name));
        for (name, profile) in profiles.all.iter_mut().filter(|(name, _)| !is_used(name)) {
            let Some(scope) = ClientScope::of_profile(name) else { continue };
            let client = self.clients.iter().find(|client| client.scope == scope);
            for server in client.map_or_else(Vec::new, |client| self.add_new_rules(client, profile)) {
                profiles.not_carried.push(format!(
                    "{}: the rules for {server} differ from those in the profile {}",
                    scope.label(),
                    text::name(name)
                ));
            }
            for (index, server) in self.servers.iter().enumerate().filter(|(_, server)| !server.is_known) {
                let is_of_others = self.is_of_others(self.use_of(scope, index), index);
                if (is_of_others || self.is_of_project(scope, server)) && profile.chooses(&server.name) {
                    *profile = profile.clone().without([server.name.as_str()]);
                }
            }
        }
    }

    /// Finds out what the clients that use this program already see of the new servers: their entries need the variables
    /// of these, and who sees servers of others is told so.
    fn look_at_users(&self, users: &OwnProfiles, profiles: &mut ClientProfiles) {
        for (&scope, own) in users {
            let new = self.servers.iter().enumerate().filter(|(_, server)| !server.is_known);
            let seen: Vec<_> = new.filter(|(_, server)| profiles.sees(scope, &server.name)).collect();
            if own.is_none() && profiles.names.contains_key(&scope) || !seen.is_empty() {
                profiles.updated.insert(scope);
            }
            let others =
                seen.iter().filter(|(index, _)| self.is_of_others(self.use_of(scope, *index), *index));
            let others: Vec<_> = others.map(|(_, server)| name(&server.name)).collect();
            if !others.is_empty() {
                let line = format!(
                    "{} uses dynamic-mcp already, and sees the new servers too: {}",
                    scope.label(),
                    others.join(", ")
                );
                profiles.lines.push(line);
            }
        }
    }

    /// Returns the servers that other clients have and this one has not.
    fn of_others(&self, client: &ClientAccess) -> Vec<&str> {
        let others = self.servers.iter().enumerate().filter(|(index, _)| self.is_left_out(client, *index));
        others.map(|(_, server)| server.name.as_str()).collect()
    }

    /// Makes the profile of a client that has none, if it needs one. `others`: the servers that it does not see. Returns
    /// whether it has one now.
    fn make_profile(&self, client: &ClientAccess, others: &[&str], profiles: &mut ClientProfiles) -> bool {
        let has_rules = client.servers.values().any(|used| used.is_on && !used.rules.is_empty());
        let is_place = |file: &ClientFile| {
            file.places
                .iter()
                .any(|place| ClientScope::of(file.app, place) == client.scope && place.other_own.is_none())
        };
        let mut files = self.discovery.files.iter().chain(&self.discovery.other_files);
        let is_named = !client.scope.is_project && self.named.contains(&client.scope.app);
        let is_new = is_named && !self.discovery.files.iter().any(|file| file.app == client.scope.app);
        let is_written = self.write_client && (is_new || files.any(is_place));
        // An entry of a project names its profile always: servers of other projects can be left out of it later.
        let needs_one = !others.is_empty() || client.scope.is_project;
        if !(has_rules || needs_one && is_written) {
            return false;
        }
        let candidates: Vec<_> = self
            .servers
            .iter()
            .map(|server| ProfileCandidate {
                name: &server.name,
                may_be_left_out: !server.is_known,
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
        let base = client.scope.profile_name(self.project_of(client.scope));
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        // A profile of the user's that has the name of the client stays as it is, unless it is just that.
        let found = names.find_map(|name| {
            let known = profiles.all.get(&name);
            let is_unreadable = known.is_none() && self.existing.contains_key(&name);
            Some((name, fits(known).filter(|_| !is_unreadable)?))
        });
        let Some((name, profile)) = found else { return false };
        let verb = if is_written { "gets" } else { "has its rules in" };
        profiles.lines.push(format!("{} {verb} {}", client.scope.label(), describe(&name, &profile)));
        self.describe_rules(client, profiles);
        profiles.names.insert(client.scope, name.clone());
        profiles.all.insert(name, profile);
        true
    }

    /// Keeps the profile of a client that uses this program already: it goes on to choose what it chooses, and the new
    /// servers of its clients.
    fn keep_profile(
        &self,
        scope: ClientScope,
        own: &str,
        users: &OwnProfiles,
        profiles: &mut ClientProfiles,
    ) {
        let client = self.clients.iter().find(|client| client.scope == scope);
        profiles.names.insert(scope, own.to_owned());
        let Some(profile) = profiles.all.get(own) else { return };
        // Several clients may use one profile.
        let clients = || users.iter().filter(|(_, profile)| profile.as_deref() == Some(own));
        let use_of = |index: usize| {
            let used = clients().filter_map(|(scope, _)| self.use_of(*scope, index));
            used.reduce(|one, other| one || other)
        };
        let is_wanted = |index: usize, server: &PlannedServer| {
            let used = use_of(index);
            if !server.is_known && clients().all(|(scope, _)| self.is_of_project(*scope, server)) {
                return Some(false);
            }
            if server.is_known && used == Some(false) {
                return Some(false);
            }
            match self.is_of_others(used, index) {
                true => (!server.is_known).then_some(false),
                false => used.map(|_| true),
            }
        };
        let candidates: Vec<_> = self
            .servers
            .iter()
            .enumerate()
            .map(|(index, server)| ProfileCandidate {
                name: &server.name,
                // Also one that the client has turned off since.
                may_be_left_out: !server.is_known || use_of(index) == Some(false),
                is_wanted: is_wanted(index, server),
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
            profiles.all.insert(own.to_owned(), adapted);
        }
    }

    /// Returns a client that uses this program already, with the servers that servers.json has beside its own. It goes
    /// on to see them, but for those of projects.
    fn with_known_servers(&self, scope: ClientScope) -> ClientAccess {
        let found = self.clients.iter().find(|client| client.scope == scope).cloned();
        let mut client = found.unwrap_or_else(|| ClientAccess::new(scope, BTreeMap::new()));
        for (index, server) in self.servers.iter().enumerate().filter(|(_, server)| server.is_known) {
            let had = &server.earlier_uses;
            if had.is_empty() || had.iter().any(|had| had.counts_in(self.project_of(scope))) {
                let unused = UsedServer { is_on: true, ..UsedServer::default() };
                client.servers.entry(index).or_insert(unused);
            }
        }
        client
    }

    /// Adds the client's rules. Returns the servers for which the profile has others.
    fn add_rules(&self, client: &ClientAccess, profile: &mut Profile) -> Vec<&str> {
        let mut differing = Vec::new();
        for (index, used) in client.servers.iter().filter(|(_, used)| !used.rules.is_empty()) {
            let server = self.servers[*index].name.as_str();
            if profile.chooses(server) && !profile.add_rules_if_none(server, &used.rules) {
                differing.push(server);
            }
        }
        differing
    }

    /// Adds the client's rules for new servers. Returns those for which the profile has others.
    fn add_new_rules(&self, client: &ClientAccess, profile: &mut Profile) -> Vec<&str> {
        let mut new = client.clone();
        new.servers.retain(|index, _| !self.servers[*index].is_known);
        self.add_rules(&new, profile)
    }

    /// Returns whether a server belongs to a project in which this client is not.
    fn is_of_project(&self, scope: ClientScope, server: &PlannedServer) -> bool {
        let had = &server.earlier_uses;
        let is_users_own = server.is_known && had.is_empty();
        let is_elsewhere = match scope.is_project {
            true => server.origins.is_empty(),
            false => server.origins.iter().all(|origin| origin.is_project),
        };
        is_elsewhere && !is_users_own && !had.iter().any(|had| had.counts_in(self.project_of(scope)))
    }

    /// Returns the servers of projects in which this client is not.
    fn of_projects(&self, scope: ClientScope) -> Vec<&str> {
        let servers = self.servers.iter().filter(|server| self.is_of_project(scope, server));
        servers.map(|server| server.name.as_str()).collect()
    }
    /// Returns the clients with the number of servers that each has, if some have not all.
    pub(crate) fn differing_clients(&self) -> Vec<String> {
        let users = own_profiles(self.discovery);
        let chooses = |own: &Option<String>, server: &str| {
            let profile = own.as_ref().and_then(|own| Profile::read(self.existing.get(own)?));
            profile.is_none_or(|profile| profile.chooses(server))
        };
        let users: Vec<(ClientAccess, &Option<String>)> =
            users.iter().map(|(scope, own)| (self.with_known_servers(*scope), own)).collect();
        let indexed = || self.servers.iter().enumerate();
        let differs_from_new = |(client, own): &(ClientAccess, &Option<String>)| {
            let new = indexed().filter(|(_, server)| !server.is_known && chooses(own, &server.name));
            new.into_iter().any(|(index, _)| self.is_left_out(client, index))
        };
        let fresh = || {
            let is_user = |client: &ClientAccess| users.iter().any(|(user, _)| user.scope == client.scope);
            self.clients.iter().filter(move |client| !is_user(client))
        };
        let differs =
            fresh().any(|client| !self.of_others(client).is_empty()) || users.iter().any(differs_from_new);
        if !differs {
            return Vec::new();
        }
        let has = |client: &ClientAccess, own: &Option<String>, index: usize, server: &PlannedServer| {
            client.servers.get(&index).is_some_and(|used| used.is_on)
                && (!server.is_known || chooses(own, &server.name))
        };
        let all =
            fresh().map(|client| (client, &None)).chain(users.iter().map(|(client, own)| (client, *own)));
        let count = |client: &ClientAccess, own: &Option<String>| {
            indexed().filter(|(index, server)| has(client, own, *index, server)).count()
        };
        all.map(|(client, own)| format!("{} {}", client.scope.label(), count(client, own))).collect()
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
