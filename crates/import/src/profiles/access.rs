//! What each client may use: its servers, and the rules for their tools.
//!
//! A client in the project is another one than the client elsewhere: its entry in the project's file replaces the one in
//! the user's file, so it sees the servers of both. A rule that every client of a server has stands in the server's
//! entry. The rules of one client, and which servers it has, are in its profile (`client_profiles`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Profile;
use super::own_profiles::own_profiles;
use crate::clients::entry_order::in_order;
use crate::merge::client_scope::ClientScope;
use crate::merge::discover::Discovery;
use crate::merge::{Origin, PlannedServer};
use crate::rules::client_rules::{ClientRule, is_off, rules_for};
use crate::rules::tool_rules::ToolRuleSet;
use base::text::name;

/// A server that a client has.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedServer {
    /// Whether the client starts it.
    pub(crate) is_on: bool,
    /// The rules for its tools that the server's entry does not have.
    pub rules: ToolRuleSet,
}

/// What a client has.
#[derive(Clone, Debug)]
pub(crate) struct ClientAccess {
    /// The client.
    pub scope: ClientScope,
    /// Its servers, by their index.
    pub servers: BTreeMap<usize, UsedServer>,
    /// Lines about what it gets.
    pub(crate) remarks: Vec<String>,
}

impl ClientAccess {
    /// Creates a client that has these servers.
    pub(crate) fn new(scope: ClientScope, servers: BTreeMap<usize, UsedServer>) -> Self {
        Self { scope, servers, remarks: Vec::new() }
    }

    /// Finds out what each client has that has servers to import. `not_carried` gets what has no counterpart.
    pub(crate) fn collect(
        discovery: &Discovery,
        servers: &[PlannedServer],
        existing: &Map<String, Value>,
        not_carried: &mut Vec<String>,
    ) -> Vec<Self> {
        let indexed = || servers.iter().enumerate();
        let origins =
            || indexed().flat_map(|(index, server)| server.origins.iter().map(move |origin| (index, origin)));
        let of_origins = origins().map(|(_, origin)| ClientScope::of_origin(origin));
        // In a project that was imported before, what the client has elsewhere counts too.
        let of_projects = own_profiles(discovery).into_keys().filter(|scope| scope.is_project);
        let scopes: BTreeSet<ClientScope> = of_origins.chain(of_projects).collect();
        let access = |scope: ClientScope| {
            let in_project: BTreeSet<&str> = origins()
                .filter(|(_, origin)| origin.app == scope.app && origin.is_project)
                .map(|(_, origin)| origin.name.as_str())
                .collect();
            // In the project, its own server of a name replaces the user's.
            let is_used = |origin: &Origin| {
                scope.has(origin)
                    && (!scope.is_project || origin.is_project || !in_project.contains(origin.name.as_str()))
            };
            let mut used: BTreeMap<usize, UsedServer> = BTreeMap::new();
            let mut lifted = Vec::new();
            for (index, origin) in origins().filter(|(_, origin)| is_used(origin)) {
                let all = || scope.rules(&discovery.rules).map(|(_, rule)| rule);
                // Those with exceptions stay in the client's file.
                let (rules, _) = rules_for(scope.app, &origin.name, all());
                let server = used.entry(index).or_default();
                server.is_on |= origin.is_on && !is_off(scope.app, &origin.name, origin.is_project, all());
                server.rules.join(origin.rules.clone());
                server.rules.join(rules);
                if scope.is_project {
                    lifted.extend(lifted_rules(
                        scope,
                        discovery,
                        origins().map(|(_, own)| own),
                        origin,
                        server,
                    ));
                }
            }
            let seen = seen_elsewhere(scope, discovery, servers, existing);
            for (index, in_profile) in seen {
                let alias = servers[index].name_in(scope.app);
                if in_project.contains(alias) || used.contains_key(&index) {
                    continue;
                }
                let of_project = || {
                    let rules = scope.rules(&discovery.rules).filter(|(file, _)| file.is_project);
                    rules.map(|(_, rule)| rule)
                };
                let (mut rules, incomplete) = rules_for(scope.app, alias, of_project());
                name_exceptions(scope, alias, incomplete, not_carried);
                rules.join(in_profile);
                if rules.is_within(&ToolRuleSet::read(servers[index].entry.get("tools"))) {
                    rules = ToolRuleSet::default();
                }
                let is_on = !is_off(scope.app, alias, false, of_project());
                used.insert(index, UsedServer { is_on, rules });
            }
            let mut client = Self::new(scope, used);
            if !lifted.is_empty() {
                client.remarks.push(format!("lifts what you have elsewhere: {}", lifted.join(", ")));
            }
            client
        };
        scopes.into_iter().map(access).collect()
    }
}

/// Says which rules of the user's a project lifts for a server. `all`: where the servers were found, `server`: what the
/// client has in the project.
fn lifted_rules<'o>(
    scope: ClientScope,
    discovery: &Discovery,
    mut all: impl Iterator<Item = &'o Origin>,
    origin: &Origin,
    server: &UsedServer,
) -> Option<String> {
    let user = ClientScope { is_project: false, ..scope };
    let own = all.find(|own| user.has(own) && own.name == origin.name);
    let of_user = || user.rules(&discovery.rules).map(|(_, rule)| rule);
    let was_off = is_off(scope.app, &origin.name, false, of_user()) || own.is_some_and(|own| !own.is_on);
    if was_off && server.is_on {
        return Some(format!("{} is off", name(&origin.name)));
    }
    let (mut rules, _) = rules_for(scope.app, &origin.name, of_user());
    rules.join(own.map(|own| own.rules.clone()).unwrap_or_default());
    (!rules.is_within(&server.rules)).then(|| format!("{} {}", name(&origin.name), rules.describe()))
}

/// Adds a line for each rule that has an exception that cannot be said here.
fn name_exceptions(scope: ClientScope, server: &str, rules: Vec<&ClientRule>, not_carried: &mut Vec<String>) {
    for rule in rules {
        let line = format!(
            "{}: {} is an exception that a list cannot have; what another rule refuses of {} stays refused",
            scope.app.label,
            rule.written,
            name(server)
        );
        if !not_carried.contains(&line) {
            not_carried.push(line);
        }
    }
}

/// Returns what a client in the project sees of servers.json elsewhere, if it uses this program there already: the
/// indexes of the servers, and the rules of its profile for each.
fn seen_elsewhere<'a>(
    scope: ClientScope,
    discovery: &Discovery,
    servers: &'a [PlannedServer],
    existing: &Map<String, Value>,
) -> impl Iterator<Item = (usize, ToolRuleSet)> + 'a {
    let elsewhere = ClientScope { is_project: false, ..scope };
    let mut users = own_profiles(discovery);
    let is_user = users.contains_key(&scope);
    let own = users.remove(&elsewhere).filter(|_| scope.is_project && !is_user);
    let profile = own.map(|own| own.and_then(|own| Profile::read(existing.get(&own)?)));
    let indexed = servers.iter().enumerate().filter(|(_, server)| server.is_known);
    indexed.filter_map(move |(index, server)| match profile.as_ref()? {
        None => Some((index, ToolRuleSet::default())),
        Some(profile) => profile.chooses(&server.name).then(|| (index, profile.rules(&server.name))),
    })
}

/// Writes into the entries of new servers what all of their clients agree on: whether they are on, and their rules.
/// Rules that an entry has are taken from the clients.
pub(crate) fn share_rules(servers: &mut [PlannedServer], clients: &mut [ClientAccess]) {
    for (index, server) in servers.iter_mut().enumerate().filter(|(_, server)| !server.origins.is_empty()) {
        let is_on = clients.iter().any(|client| client.servers.get(&index).is_some_and(|used| used.is_on));
        let used = clients.iter().filter_map(|client| client.servers.get(&index));
        let users: Vec<&UsedServer> = used.filter(|used| used.is_on || !is_on).collect();
        let first = users.first().map(|used| used.rules.clone()).unwrap_or_default();
        let is_shared = users.iter().all(|used| used.rules == first);
        if !server.is_known {
            if !is_on {
                server.entry.insert("enabled".to_owned(), json!(false));
            }
            if is_shared && !first.is_empty() {
                let tools = server.entry.entry("tools").or_insert_with(|| json!({}));
                if let Value::Object(tools) = tools {
                    tools.extend(first.members());
                }
            }
            server.entry = in_order(std::mem::take(&mut server.entry));
        }
        let in_entry = ToolRuleSet::read(server.entry.get("tools"));
        for client in clients.iter_mut() {
            let Some(used) = client.servers.get_mut(&index).filter(|used| used.is_on || !is_on) else {
                continue;
            };
            if server.is_known && !in_entry.is_within(&used.rules) {
                client.remarks.push(format!(
                    "gets the rules that {} has in servers.json, too: {}",
                    name(&server.name),
                    in_entry.describe()
                ));
            }
            if used.rules.is_within(&in_entry) {
                used.rules = ToolRuleSet::default();
            }
        }
    }
}
